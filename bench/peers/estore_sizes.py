"""How much of everything the e-store has: as in the paper, and little for a quick look."""

from __future__ import annotations

from dataclasses import dataclass

LINES = 10
"""Of an order."""


@dataclass(frozen=True)
class Sizes:
    users: int
    orders: int
    changes: tuple[int, ...]
    """Orders that come between two refreshes,"""
    rounds: int
    """and how often each number of them."""
    shared_change: int
    """Orders in one change, where something else is varied."""
    older: tuple[float, ...]
    """Shares of new lines that go to older orders,"""
    apart: tuple[float, ...]
    """and of transactions in which half of them do,"""
    transactions: int
    """of so many."""
    mixed: tuple[int, ...]
    """Orders that are updated, or deleted, between two refreshes."""
    frequency_transactions: int
    """Transactions of one order, refreshed after each"""
    every: tuple[int, ...]
    """so many."""
    queries: tuple[int, ...]
    """Continuous queries that compute on commit, while a client"""
    commits: int
    """commits so many times in each of"""
    latency_rounds: int
    """rounds,"""
    pause: float
    """with a pause of so many seconds, and with none."""


WHOLE = Sizes(
    users=100_000,
    orders=1_000_000,
    changes=(100, 200, 500, 1_000, 2_000),
    rounds=5,
    shared_change=200,
    older=(0.0, 0.25, 0.5, 0.75, 1.0),
    apart=(0.0, 0.2, 0.4, 0.6, 0.8, 1.0),
    transactions=10,
    mixed=(100, 1_000),
    frequency_transactions=2_000,
    every=(10, 20, 50, 100, 200, 500, 1_000, 2_000),
    queries=(0, 1, 10, 100),
    commits=100,
    latency_rounds=4,
    pause=0.1,
)
QUICK = Sizes(
    users=10_000,
    orders=100_000,
    changes=(100, 500, 2_000),
    rounds=2,
    shared_change=200,
    older=(0.0, 0.5, 1.0),
    apart=(0.0, 0.5, 1.0),
    transactions=4,
    mixed=(100,),
    frequency_transactions=700,
    every=(10, 50, 200, 700),
    queries=(0, 1, 10, 100),
    commits=10,
    latency_rounds=2,
    pause=0.1,
)
