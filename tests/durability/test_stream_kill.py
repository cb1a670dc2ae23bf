"""Killed at any moment, a stream has all that it acknowledged, once, and every reader absorbs it once.

Each round starts a child that feeds a stream from several threads, kills it after a random time or at a random call
(in the client's call, in the group commit, while a batch is made or absorbed, while the log is cut), opens the folder
here and looks. The rounds go on in the same folder, with the same readers.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from stream_child import ROWS
from test_kill import SOURCE, Ledger, kill_group, read_until_killed

import midstream
from midstream.runtime.tally import TALLY, Counts, tally_query

CHILD = Path(__file__).with_name("stream_child.py")


def test_nothing_a_stream_acknowledged_is_lost_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=4, seed=7, longest=14.0)


@pytest.mark.long
def test_two_hundred_kills_lose_nothing(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=200, seed=int(os.environ.get("KILL_SEED", "8")), longest=16.0)


def kill_rounds(folder: Path, rounds: int, seed: int, longest: float) -> None:
    chosen = random.Random(seed)
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE STREAM fed (step bigint, n int) WITH (retain = '1 day'); CREATE TABLE ledger (step bigint)")
        stream = db._store.catalog.state.relations["fed"]
        readers = [db._store.streams.register(stream, name, TALLY, Counts().written()).id for name in ("one", "two")]
    ledger = Ledger()
    for number in range(rounds):
        by_call = number % 2 == 0
        die_at = int(10 ** chosen.uniform(3.0, 6.0)) if by_call else 0
        after = longest if by_call else chosen.uniform(0.5, longest)
        lines = run_and_kill(folder, chosen.randrange(10**6), ledger.last_step + 1, die_at, after)
        ledger.hear(lines)
        with midstream.connect(str(folder)) as db:
            try:
                check(db, folder, ledger, readers)
            except AssertionError as wrong:
                raise AssertionError(f"round {number}, seed {seed}, die_at {die_at}: {wrong}") from wrong
    assert len(ledger.done) >= rounds, "the children hardly did anything"


def run_and_kill(folder: Path, seed: int, first: int, die_at: int, after: float) -> list[str]:
    arguments = [sys.executable, str(CHILD), str(folder), str(seed), str(first)]
    arguments += ["--die-at", str(die_at)] if die_at else []
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{CHILD.parent}", "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.append(child.stderr.read() if child.stderr else ""))
    reader.start()
    try:
        lines = read_until_killed(child, after)
    finally:
        kill_group(child)
        reader.join()
    assert child.returncode == -signal.SIGKILL, f"the child ended by itself:\n{complaints[0][-4000:]}"
    assert "Traceback" not in complaints[0], complaints[0][-4000:]
    return lines


def check(db: Any, folder: Path, ledger: Ledger, readers: list[int]) -> None:
    there = Counter(dict(db.sql("SELECT step, count(*) FROM fed GROUP BY step").fetchall()))
    kinds = {**ledger.found, **ledger.in_doubt, **{step: said["kind"] for step, said in ledger.done.items()}}
    known = {*ledger.done, *ledger.found}
    assert known <= there.keys() <= kinds.keys(), "steps were lost or invented"
    wrong = {step: (kinds[step], rows) for step, rows in there.items() if rows != ROWS[kinds[step]]}
    assert not wrong, f"inserts by half, or twice: {wrong}"
    booked = [step for (step,) in db.sql("SELECT step FROM ledger").fetchall()]
    assert sorted(booked) == sorted(step for step in there if kinds[step] == "transaction"), "half a transaction"
    check_readers(db, folder, readers)
    ledger.found |= {step: kind for step, kind in ledger.in_doubt.items() if step in there}
    ledger.in_doubt.clear()


def check_readers(db: Any, folder: Path, readers: list[int]) -> None:
    """Every reader has absorbed just the rows of the history, each at its position and under its SCN."""
    stream = db._store.catalog.state.relations["fed"]
    for reader in readers:
        db._store.streams.wait(reader, db._store.catalog.state.scn)
    version = db._store.catalog.state.versions[stream.id]
    kept = DeltaTable(str(folder / "tables" / str(stream.id)), version=version).to_pyarrow_table()
    connection = duckdb.connect()
    connection.register("kept", kept)
    expected = Counts(*map(int, connection.execute(tally_query(stream.column_names, "kept")).fetchall()[0]))
    positions = connection.execute("SELECT count(DISTINCT _position), max(_position) + 1 FROM kept").fetchall()[0]
    assert kept.num_rows == 0 or positions == (kept.num_rows, kept.num_rows), "positions have holes"
    for reader in readers:
        assert Counts.read(db._store.streams.entry(reader).state) == expected, "a reader has other rows"
