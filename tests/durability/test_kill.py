"""Killed at any moment, a database opens again with all that it acknowledged, once, and no half of anything.

Each round starts a child that changes the database, kills it with SIGKILL after a random time or at a random call of
a function, opens the folder here and looks. The rounds go on in the same folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import midstream

CHILD = Path(__file__).with_name("child.py")
SOURCE = Path(midstream.__file__).parents[1]
STOCK = 200


@dataclass
class Ledger:
    """What the children have said so far."""

    done: dict[int, dict[str, Any]] = field(default_factory=dict)
    found: dict[int, str] = field(default_factory=dict)
    """Not acknowledged, but there when the database was opened: to stay from now on."""
    in_doubt: dict[int, str] = field(default_factory=dict)
    last_step: int = 0

    def hear(self, lines: list[str]) -> None:
        for line in lines:
            said = json.loads(line)
            self.last_step = max(self.last_step, said["step"])
            if said["event"] == "try":
                self.in_doubt[said["step"]] = said["kind"]
            elif said["event"] == "done":
                self.in_doubt.pop(said["step"])
                self.done[said["step"]] = said

    def done_of(self, kind: str) -> set[int]:
        found = {step for step, tried in self.found.items() if tried == kind}
        return found | {step for step, said in self.done.items() if said["kind"] == kind}

    def may_be(self, kind: str) -> set[int]:
        return self.done_of(kind) | {step for step, tried in self.in_doubt.items() if tried == kind}


def test_nothing_acknowledged_is_lost_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=5, seed=1, spark=False)


@pytest.mark.long
def test_a_hundred_kills_lose_nothing(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=100, seed=int(os.environ.get("KILL_SEED", "2")), spark=True)


def kill_rounds(folder: Path, rounds: int, seed: int, *, spark: bool) -> None:
    chosen = random.Random(seed)
    make_database(folder)
    ledger = Ledger()
    for number in range(rounds):
        by_call = number % 2 == 0
        die_at = int(10 ** chosen.uniform(1.5, 4.5)) if by_call else 0
        after = chosen.uniform(0.0, 2.5 if not spark else 15)
        lines = run_and_kill(folder, chosen.randrange(10**6), ledger.last_step + 1, die_at, after, spark=spark)
        ledger.hear(lines)
        db = midstream.connect(str(folder))
        try:
            check(db, ledger)
        except AssertionError as wrong:
            tail = "\n".join(lines[-6:])
            raise AssertionError(f"round {number}, seed {seed}, die_at {die_at}:\n{tail}\n{wrong}") from wrong
        finally:
            db.close()
    assert len(ledger.done) >= rounds, "the children hardly did anything"


def make_database(folder: Path) -> None:
    db = midstream.connect(str(folder))
    for name in ("ledger", "journal", "single", "copied"):
        db.sql(f"CREATE TABLE {name} (step int, n int)")
    db.sql("CREATE TABLE tally (id int PRIMARY KEY, n int, last int); INSERT INTO tally VALUES (1, 0, 0)")
    db.sql("CREATE TABLE stock (id int PRIMARY KEY); CREATE TABLE gone (id int PRIMARY KEY, step int)")
    db.sql("INSERT INTO stock VALUES " + ", ".join(f"({n})" for n in range(STOCK)))
    db.close()


def run_and_kill(folder: Path, seed: int, first: int, die_at: int, after: float, *, spark: bool) -> list[str]:
    """The lines that a child said before it went; it dies by itself at a call, or by our hand after a time."""
    arguments = [sys.executable, str(CHILD), str(folder), str(seed), str(first)]
    arguments += ["--die-at", str(die_at)] if die_at else []
    arguments += ["--spark"] if spark else []
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.append(child.stderr.read() if child.stderr else ""))
    reader.start()
    try:
        lines = read_until_killed(child, after if not die_at else 45.0)
    finally:
        kill_group(child)
        reader.join()
    if child.returncode != -signal.SIGKILL:
        pytest.fail(f"the child ended by itself with {child.returncode}:\n{complaints[0][-4000:]}")
    return lines


def read_until_killed(child: subprocess.Popen[str], after: float) -> list[str]:
    assert child.stdout is not None
    lines = [child.stdout.readline()]
    if not lines[0]:
        child.wait(timeout=30)
        return []
    timer = threading.Timer(after, child.kill)
    timer.start()
    lines += child.stdout.readlines()
    child.wait(timeout=30)
    timer.cancel()
    return [line for line in lines if line.endswith("\n")]


def kill_group(child: subprocess.Popen[str]) -> None:
    """The child and the JVM that it may have started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def check(db: Any, ledger: Ledger) -> None:
    check_transactions(db, ledger)
    check_singles(db, ledger)
    check_ddl(db, ledger)
    check_copies(db, ledger)
    check_updates(db, ledger)
    check_moves(db, ledger)
    check_history(db, ledger)
    settle(db, ledger)


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


def settle(db: Any, ledger: Ledger) -> None:
    """What was in doubt is now known: it happened, or it never will."""
    happened = {
        "transaction": set(steps_in(db, "ledger")),
        "insert": set(steps_in(db, "single")),
        "copy": set(steps_in(db, "copied")),
        "ddl": {int(r[0][5:]) for r in db.sql("SHOW TABLES").fetchall() if r[0].startswith("made_")},
        "update": {db.sql("SELECT last FROM tally").fetchone()[0]},
        "delete": {row[0] for row in db.sql("SELECT DISTINCT step FROM gone").fetchall()},
    }
    for step, kind in ledger.in_doubt.items():
        if step in happened.get(kind, set()):
            ledger.found[step] = kind
    ledger.in_doubt.clear()
