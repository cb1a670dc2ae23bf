"""Killed at any moment, streams have all that they acknowledged, once, and every reader absorbs it once.

Each round starts a child that feeds two streams from several threads, kills it after a random time or at a random call
(in the client's call, in the group commit, while a batch is made or absorbed, while the log is cut), opens the folder
here and looks. The rounds go on in the same folder, with the same readers and those that the children add.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from stream_child import ROWS, TWINS
from test_kill import SOURCE, Ledger, kill_group, read_until_killed

import midstream
from midstream.runtime.tally import TALLY, Counts, tally_query

CHILD = Path(__file__).with_name("stream_child.py")
COLUMNS = ("step", "n", "at")
READERS = 8
"""So many of the children's readers go on in the next round, beside the first of each stream."""
WAYS: tuple[Callable[[random.Random], list[str]], ...] = (
    lambda chosen: [],
    lambda chosen: ["--die-at", str(int(10 ** chosen.uniform(1.0, 4.0))), "--within", "midstream/log/"],
    lambda chosen: ["--die-at", str(int(10 ** chosen.uniform(4.3, 6.3)))],
    lambda chosen: ["--die-at", str(int(10 ** chosen.uniform(1.0, 4.5))), "--within", "midstream/runtime/"],
)
"""To die by our hand, at a call in the log, at any call, or at one in what stands around the log."""


@dataclass
class Told(Ledger):
    """What the children have said of steps and of readers."""

    readers: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Those that stay: their stream, and the SCN after which they read."""

    def hear(self, lines: list[str]) -> None:
        super().hear(lines)
        for said in map(json.loads, lines):
            if said["event"] == "reader":
                self.readers[said["id"]] = said["stream"], said["since"]
            elif said["event"] == "gone":
                self.readers.pop(said["id"], None)

    @property
    def kinds(self) -> dict[int, str]:
        return {**self.found, **self.in_doubt, **{step: said["kind"] for step, said in self.done.items()}}

    @property
    def certain(self) -> set[int]:
        return {step for step in {*self.done, *self.found} if ROWS[self.kinds[step]]}


def test_nothing_a_stream_acknowledged_is_lost_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=3, seed=11, longest=8.0)


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_two_hundred_kills_lose_nothing(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=200, seed=int(os.environ.get("KILL_SEED", "8")), longest=14.0)


def kill_rounds(folder: Path, rounds: int, seed: int, longest: float) -> None:
    chosen, told = random.Random(seed), Told()
    make_database(folder, told)
    for number in range(rounds):
        how = WAYS[number % len(WAYS)](chosen)
        after = longest if how else chosen.uniform(0.5, longest)
        told.hear(run_and_kill(folder, chosen.randrange(10**6), told.last_step + 1, how, after))
        with midstream.connect(str(folder)) as db:
            try:
                check(db, folder, told)
            except AssertionError as wrong:
                raise AssertionError(f"round {number}, seed {seed}, {how}: {wrong}") from wrong
    assert len(told.done) >= rounds, "the children hardly did anything"


def make_database(folder: Path, told: Told) -> None:
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE TABLE ledger (step bigint); CREATE STREAM twin (step bigint, n int, at timestamp)")
        db.sql("CREATE STREAM fed (step bigint, n int, at timestamp) WITH (retain = '7 days', timestamp = 'at')")
        for stream in ("fed", "twin"):
            relation = db._store.catalog.state.relations[stream]
            entry = db._store.streams.register(relation, f"first of {stream}", TALLY, Counts().written())
            told.readers[entry.id] = stream, entry.absorbed


def run_and_kill(folder: Path, seed: int, first: int, how: list[str], after: float) -> list[str]:
    arguments = [sys.executable, str(CHILD), str(folder), str(seed), str(first), *how]
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
    how_it_ended = f"the child ended by itself with {child.returncode}:\n{complaints[0][-4000:]}"
    assert child.returncode == -signal.SIGKILL, how_it_ended
    assert "Traceback" not in complaints[0], complaints[0][-4000:]
    return lines


def check(db: Any, folder: Path, told: Told) -> None:
    there = Counter(dict(db.sql("SELECT step, count(*) FROM fed GROUP BY step").fetchall()))
    kinds = told.kinds
    assert told.certain <= there.keys() <= kinds.keys(), "steps were lost or invented"
    wrong = {step: (kinds[step], rows) for step, rows in there.items() if rows != ROWS[kinds[step]]}
    assert not wrong, f"inserts by half, or twice: {wrong}"
    booked = [step for (step,) in db.sql("SELECT step FROM ledger").fetchall()]
    assert sorted(booked) == sorted(step for step in there if kinds[step] == "transaction"), "half a transaction"
    kept = rows_kept(db, folder, told)
    check_places(kept, told)
    check_readers(db, kept, told)
    told.found |= {step: kind for step, kind in told.in_doubt.items() if step in there}
    told.in_doubt.clear()


def rows_kept(db: Any, folder: Path, told: Told) -> duckdb.DuckDBPyConnection:
    """The history of `fed` as it lies on the disk, and what `twin` must have had, by the kinds of the steps."""
    for reader in told.readers:
        db._store.streams.wait(reader, db._store.catalog.state.scn)
    state = db._store.catalog.state
    id, version = state.relations["fed"].id, state.versions[state.relations["fed"].id]
    connection = duckdb.connect()
    connection.register("fed", DeltaTable(str(folder / "tables" / str(id)), version=version).to_pyarrow_table())
    twins = [step for step, kind in told.kinds.items() if kind in TWINS]
    connection.execute("CREATE TABLE twins AS SELECT unnest(?::BIGINT[]) AS step", [twins])
    connection.execute(
        "CREATE VIEW twin AS SELECT * REPLACE (row_number() OVER (ORDER BY _scn, n) - 1 AS _position) "
        "FROM fed WHERE step IN (SELECT step FROM twins)"
    )
    return connection


def check_places(kept: duckdb.DuckDBPyConnection, told: Told) -> None:
    """Positions have no holes, follow the SCNs, and keep the order of the rows of one insert."""
    in_order = "SELECT step, n, _scn, _position, row_number() OVER (ORDER BY _scn, step, n) - 1 AS place FROM fed"
    assert kept.execute(f"SELECT * FROM ({in_order}) WHERE place <> _position LIMIT 5").fetchall() == []
    scns = dict(kept.execute("SELECT DISTINCT step, _scn FROM fed").fetchall())
    assert {step: said["scn"] for step, said in told.done.items() if ROWS[said["kind"]]}.items() <= scns.items()
    assert len(set(scns.values())) == len(scns), "two inserts have one SCN"


def check_readers(db: Any, kept: duckdb.DuckDBPyConnection, told: Told) -> None:
    """Every reader has absorbed just the rows since it came, each at its position and under its SCN."""
    for reader, (stream, since) in told.readers.items():
        source = f"(SELECT * FROM {stream} WHERE _scn > {since})"
        expected = Counts(*map(int, kept.execute(tally_query(COLUMNS, source)).fetchall()[0]))
        found = Counts.read(db._store.streams.entry(reader).state)
        assert found == expected, f"reader {reader} of {stream} has other rows: {found} for {expected}"
    for reader in list(told.readers)[2:-READERS]:
        del told.readers[reader]
    for entry in db._store.catalog.readers():
        if entry.kind == TALLY and entry.id not in told.readers:
            db._store.streams.unregister(entry.id)
