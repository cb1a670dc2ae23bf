"""What transactions must do, in plain Python: snapshot isolation over two tables, with rows that have an identity.

    state(n) + changes(n + 1) = state(n + 1)            changes as clog_<table> tells them, for every commit
    view(session) = state(snapshot) + its own changes   whatever others commit
    commit fails  <=>  a row that it changed, or a key that it took, was changed or taken since its snapshot

`acct (id int PRIMARY KEY, v int)` has a key; `bag (a int, b text)` has none and holds duplicates.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
Rows = dict[int, Row]
"""Row identity -> values."""
State = dict[str, Rows]
TABLES = {"acct": ("id", "v"), "bag": ("a", "b")}
Entry = tuple[Any, ...]
"""A row of the change log without its SCN: values, old_new_mark, dml_type."""


def copied(state: State) -> State:
    return {table: dict(rows) for table, rows in state.items()}


def net_entries(before: Rows, after: Rows) -> Counter[Entry]:
    """The change log of one commit: one net entry for each row that is not as it was."""
    entries: Counter[Entry] = Counter()
    for identity in before.keys() | after.keys():
        old, new = before.get(identity), after.get(identity)
        if old is None and new is not None:
            entries[(*new, "N", "I")] += 1
        elif new is None and old is not None:
            entries[(*old, "O", "D")] += 1
        elif old is not None and new is not None and old != new:
            entries[(*old, "O", "U")] += 1
            entries[(*new, "N", "U")] += 1
    return entries


def apply_entries(rows: Counter[Row], entries: Counter[Entry]) -> Counter[Row]:
    """The law itself: old images go, new images come."""
    after = Counter(rows)
    for (*values, mark, _), count in entries.items():
        after[tuple(values)] += count if mark == "N" else -count
    return +after


@dataclass
class Statement:
    """One change: its SQL and its meaning on rows."""

    sql: str
    table: str
    apply: Callable[[Rows], Rows]


@dataclass
class Transaction:
    snapshot: State
    began_at: int
    own: State
    failed: bool = False


@dataclass
class Model:
    """Every committed state by SCN, and the open transactions by session."""

    scn: int
    history: dict[int, State] = field(default_factory=dict)
    open: dict[str, Transaction] = field(default_factory=dict)
    identities: itertools.count[int] = field(default_factory=itertools.count)

    def __post_init__(self) -> None:
        self.history[self.scn] = {table: {} for table in TABLES}

    @property
    def current(self) -> State:
        return self.history[self.scn]

    def begin(self, session: str) -> Transaction:
        self.open[session] = Transaction(copied(self.current), self.scn, copied(self.current))
        return self.open[session]

    def seen_by(self, session: str) -> State:
        return self.open[session].own if session in self.open else self.current

    def conflicts(self, transaction: Transaction) -> bool:
        """Whether its changes meet what others committed since it began."""
        if self.scn == transaction.began_at:
            return False
        touched = any(
            self.current[table].get(identity) != row and transaction.own[table].get(identity) != row
            for table, rows in transaction.snapshot.items()
            for identity, row in rows.items()
        )
        return touched or has_duplicate_key(self.merged(transaction))

    def merged(self, transaction: Transaction) -> State:
        """The newest state with the transaction's changes on top."""
        state = copied(self.current)
        for table, rows in transaction.own.items():
            before = transaction.snapshot[table]
            for identity in before.keys() - rows.keys():
                state[table].pop(identity, None)
            for identity, row in rows.items():
                if before.get(identity) != row:
                    state[table][identity] = row
        return state

    def commit(self, transaction: Transaction, scn: int) -> None:
        self.history[scn] = self.merged(transaction)
        self.scn = scn


def has_duplicate_key(state: State) -> bool:
    keys = [row[0] for row in state["acct"].values()]
    return len(keys) != len(set(keys))


def as_multiset(rows: Rows) -> Counter[Row]:
    return Counter(rows.values())
