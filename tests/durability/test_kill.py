"""Killed at any moment, a database opens again with all that it acknowledged, once, and no half of anything.

Each round changes tables in a child until it is killed (see killing.py), and looks what is there. The rounds go on in
the same folder.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from killing import Ledger, at_a_call, by_our_hand, kill_rounds

import midstream

WAYS = (at_a_call(1.5, 4.5), by_our_hand)
STOCK = 200


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=2, seed=1, longest=4.0)


@pytest.mark.long
def test_a_hundred_kills_lose_nothing(database: Any, tmp_path: Path) -> None:
    seed = int(os.environ.get("KILL_SEED", "2"))
    kill(tmp_path / "killed.db", "--spark", rounds=100, seed=seed, longest=15.0)


def kill(folder: Path, *options: str, rounds: int, seed: int, longest: float) -> None:
    make_database(folder)
    ledger = Ledger()
    kill_rounds(
        folder,
        ledger,
        "child.py",
        WAYS,
        lambda db: check(db, ledger),
        rounds=rounds,
        seed=seed,
        longest=longest,
        options=options,
    )


def make_database(folder: Path) -> None:
    db = midstream.connect(str(folder))
    for name in ("ledger", "journal", "single", "copied"):
        db.sql(f"CREATE TABLE {name} (step int, n int)")
    db.sql("CREATE TABLE tally (id int PRIMARY KEY, n int, last int); INSERT INTO tally VALUES (1, 0, 0)")
    db.sql("CREATE TABLE stock (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY, step int)")
    db.sql("INSERT INTO stock VALUES " + ", ".join(f"({n})" for n in range(STOCK)))
    db.close()


def check(db: Any, ledger: Ledger) -> None:
    check_transactions(db, ledger)
    check_singles(db, ledger)
    check_ddl(db, ledger)
    check_copies(db, ledger)
    check_updates(db, ledger)
    check_moves(db, ledger)
    check_history(db, ledger)
    ledger.settle(steps_there(db))


def steps_in(db: Any, table: str) -> Counter[int]:
    return Counter(dict(db.sql(f"SELECT step, count(*) FROM {table} GROUP BY step").fetchall()))


def check_transactions(db: Any, ledger: Ledger) -> None:
    steps = steps_in(db, "ledger")
    assert steps == steps_in(db, "journal"), "half a transaction"
    assert ledger.done_of("transaction") <= steps.keys() <= ledger.may_be("transaction"), "lost or invented"
    assert set(steps.values()) <= {3}, "rows twice or too few"


def check_singles(db: Any, ledger: Ledger) -> None:
    steps = steps_in(db, "single")
    assert ledger.done_of("insert") <= steps.keys() <= ledger.may_be("insert"), "lost or invented inserts"
    assert set(steps.values()) <= {1}, "an insert counted twice"


def check_ddl(db: Any, ledger: Ledger) -> None:
    tables = {row[0] for row in db.sql("SHOW TABLES").fetchall()}
    made = {int(name.removeprefix("made_")) for name in tables if name.startswith("made_")}
    assert ledger.done_of("ddl") <= made <= ledger.may_be("ddl"), "a table was lost or invented"
    for step in sorted(made)[-2:]:
        result = db.sql(f"SELECT * FROM made_{step}")
        assert result.columns == (["a", "b"] if step in ledger.done else result.columns)
        assert [row[0] for row in result.fetchall()] == [step], "a table without its row"


def check_copies(db: Any, ledger: Ledger) -> None:
    steps = steps_in(db, "copied")
    assert ledger.done_of("copy") <= steps.keys() <= ledger.may_be("copy"), "a COPY was lost or invented"
    assert set(steps.values()) <= {500}, "half a COPY, or one twice"


def check_updates(db: Any, ledger: Ledger) -> None:
    ((count, _),) = db.sql("SELECT n, last FROM tally").fetchall()
    assert len(ledger.done_of("update")) <= count <= len(ledger.may_be("update")), "updates lost or doubled"


def check_moves(db: Any, ledger: Ledger) -> None:
    stock = {row[0] for row in db.sql("SELECT id FROM stock").fetchall()}
    gone = [row[0] for row in db.sql("SELECT id FROM gone").fetchall()]
    assert sorted([*stock, *gone]) == list(range(STOCK)), "a row is in both tables or in none"
    assert len(ledger.done_of("delete")) <= len(gone) <= len(ledger.may_be("delete")), "moves lost or doubled"


def check_history(db: Any, ledger: Ledger) -> None:
    """The newest acknowledged SCNs as they were, and the log leads from each to the next."""
    numbered = sorted((said["scn"], step) for step, said in ledger.done.items() if said["kind"] == "transaction")
    for scn, step in numbered[-3:]:
        past = {row[0] for row in db.sql(f"SELECT DISTINCT step FROM ledger AS OF SCN {scn}").fetchall()}
        before = {row[0] for row in db.sql(f"SELECT DISTINCT step FROM ledger AS OF SCN {scn - 1}").fetchall()}
        assert past - before == {step}, f"AS OF SCN {scn} is another state"
        log = "SELECT step, n, old_new_mark, dml_type FROM clog_journal WHERE trans_scn = "
        entries = sorted(db.sql(f"{log}{scn}").fetchall())
        assert entries == [(step, n, "N", "I") for n in (1, 2, 3)], f"the log of SCN {scn} is {entries}"
    total = db.sql("SELECT count(*) FROM clog_ledger WHERE dml_type = 'I'").fetchone()[0]
    assert total == 3 * len(steps_in(db, "ledger")), "the log and the table do not agree"


def steps_there(db: Any) -> set[int]:
    """Steps of every kind that left something behind."""
    made = {int(name[5:]) for name, *_ in db.sql("SHOW TABLES").fetchall() if name.startswith("made_")}
    steps = [steps_in(db, table) for table in ("ledger", "single", "copied", "gone")]
    return made.union(*steps, [last for (last,) in db.sql("SELECT last FROM tally").fetchall()])
