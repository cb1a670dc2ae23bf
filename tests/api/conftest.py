"""The tables of the examples, and functions for triggers to call."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest


@pytest.fixture
def bank(db: Any) -> Any:
    """The tables of the examples."""
    db.sql("DROP QUEUE IF EXISTS q")
    db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
    db.sql("CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, region text, age int)")
    db.sql("INSERT INTO users VALUES (1, 'Ann', 'north', 12), (2, 'Bob', 'south', 30)")
    return db


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The changes that triggers were called with; functions of the module `listeners`."""
    seen: list[Any] = []
    module = types.ModuleType("listeners")

    def note(change: Any) -> None:
        seen.append(change)

    def fail_for_two(change: Any) -> None:
        seen.append(change)
        if change.row["acct"] == 2:
            raise ValueError("not two")

    def fail_at_first(change: Any) -> None:
        seen.append(change)
        if len(seen) < 3:
            raise ValueError("not yet")

    def leave(change: Any) -> None:
        seen.append(change)
        raise (SystemExit if change.row["acct"] == 1 else KeyboardInterrupt)("enough")

    for function in (note, fail_for_two, fail_at_first, leave):
        setattr(module, function.__name__, function)
    monkeypatch.setitem(sys.modules, "listeners", module)
    return seen
