"""Killed at any moment, streams have all that they acknowledged, once, and every reader absorbs it once.

Each round starts a child that feeds two streams from several threads, kills it after a random time or at a random call
(in the client's call, in the group commit, while a batch is made or absorbed, while the log is cut), opens the folder
here and looks. The rounds go on in the same folder, with the same readers and those that the children add.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from killing import Ledger, at_a_call, by_our_hand, kill_rounds
from stream_child import ROWS, TWINS

import midstream
from midstream.runtime.tally import TALLY, Counts, tally_query

COLUMNS = ("step", "n", "at")
READERS = 8
"""So many of the children's readers go on in the next round, beside the first of each stream."""
WAYS = (
    by_our_hand,
    at_a_call(1.0, 4.0, "midstream/log/"),
    at_a_call(4.3, 6.3),
    at_a_call(1.0, 4.5, "midstream/runtime/"),
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


def test_nothing_a_stream_acknowledged_is_lost_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=1, seed=11, longest=8.0)


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_two_hundred_kills_lose_nothing(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=200, seed=int(os.environ.get("KILL_SEED", "8")), longest=14.0)


def kill(folder: Path, rounds: int, seed: int, longest: float) -> None:
    told = Told()
    make_database(folder, told)
    kill_rounds(
        folder,
        told,
        "stream_child.py",
        WAYS,
        lambda db: check(db, folder, told),
        rounds=rounds,
        seed=seed,
        longest=longest,
    )


def make_database(folder: Path, told: Told) -> None:
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE TABLE ledger (step bigint); CREATE STREAM twin (step bigint, n int, at timestamp)")
        db.sql("CREATE STREAM fed (step bigint, n int, at timestamp) WITH (retain = '7 days', timestamp = 'at')")
        for stream in ("fed", "twin"):
            relation = db._store.catalog.state.relations[stream]
            entry = db._store.streams.register(relation, f"first of {stream}", TALLY, Counts().written())
            told.readers[entry.id] = stream, entry.absorbed


def check(db: Any, folder: Path, told: Told) -> None:
    there = Counter(dict(db.sql("SELECT step, count(*) FROM fed GROUP BY step").fetchall()))
    kinds = told.possible
    certain = {step for step, kind in told.certain.items() if ROWS[kind]}
    assert certain <= there.keys() <= kinds.keys(), "steps were lost or invented"
    wrong = {step: (kinds[step], rows) for step, rows in there.items() if rows != ROWS[kinds[step]]}
    assert not wrong, f"inserts by half, or twice: {wrong}"
    booked = [step for (step,) in db.sql("SELECT step FROM ledger").fetchall()]
    assert sorted(booked) == sorted(step for step in there if kinds[step] == "transaction"), "half a transaction"
    kept = rows_kept(db, folder, told)
    check_places(kept, told)
    check_readers(db, kept, told)
    told.settle(there)


def rows_kept(db: Any, folder: Path, told: Told) -> duckdb.DuckDBPyConnection:
    """The history of `fed` as it lies on the disk, and what `twin` must have had, by the kinds of the steps."""
    for reader in told.readers:
        db._store.streams.wait(reader, db._store.catalog.state.scn)
    state = db._store.catalog.state
    id, version = state.relations["fed"].id, state.versions[state.relations["fed"].id]
    connection = duckdb.connect()
    connection.register("fed", DeltaTable(str(folder / "tables" / str(id)), version=version).to_pyarrow_table())
    twins = [step for step, kind in told.possible.items() if kind in TWINS]
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
