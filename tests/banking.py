"""What tests of continuous queries share: the queries of the examples, and how to hear what they hand out."""

from __future__ import annotations

import time
from typing import Any

NEGATIVE = "SELECT acct, sum(amt) AS amt FROM banking_transactions GROUP BY acct HAVING sum(amt) < 0"
WITH_KIND = (
    "SELECT acct, sum(amt) AS amt, cq_delta() AS kind, cq_old_value(amt) AS was "
    "FROM banking_transactions GROUP BY acct HAVING sum(amt) < 0"
)
PERSONS = "SELECT id, name, age FROM users WHERE age < 18"
PATIENCE = 30.0


def pay(db: Any, *payments: tuple[int, int]) -> int:
    """One commit; its SCN."""
    return int(db.sql("INSERT INTO banking_transactions VALUES " + ", ".join(map(str, payments))).scn)


def changes_of(feed: Any, least: int) -> list[tuple[Any, ...]]:
    """What comes, at least so many changes: kind, row and old as tuples."""
    heard = heard_from(feed, least)
    return [(c.kind, tuple(c.row.values()), None if c.old is None else tuple(c.old.values())) for c in heard]


def heard_from(feed: Any, least: int) -> list[Any]:
    heard: list[Any] = []
    until = time.monotonic() + PATIENCE
    while len(heard) < least and time.monotonic() < until:
        heard += feed.poll(timeout=1)
    heard += feed.poll(timeout=0.05)
    assert len(heard) >= least, f"only {heard} came"
    return heard


def dequeued(db: Any, subscriber: str, count: int = 100) -> list[tuple[Any, ...]]:
    found = db.sql(f"SELECT acct, amt, kind, was FROM dequeue('q', '{subscriber}', {count})").fetchall()
    return [tuple(row) for row in found]


def state_of(db: Any, name: str) -> str:
    [shown] = [row for row in db.sql("SHOW CONTINUOUS QUERIES").fetchall() if row[0] == name]
    [state] = {str(cell).upper() for cell in shown} & {"ACTIVE", "SUSPENDED", "INACTIVE"}
    return state
