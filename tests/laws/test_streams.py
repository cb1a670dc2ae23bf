"""Whatever comes into a stream, from whichever thread, every reader absorbs it once, in order, from where it began.

Threads insert in all ways at once; readers come, are dropped, and go on after the database was closed and opened. The
acknowledged inserts, in the order of their SCNs, are the model.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream
from midstream.log.batches import POSITION, SCN
from midstream.runtime.tally import ROW_TALLY, TALLY, Counts, tally_query

THREADS = 4


@dataclass
class Model:
    """What was acknowledged: (SCN, first number, rows) of each insert, whose rows are numbered one after another."""

    inserts: list[tuple[int, int, int]] = field(default_factory=list)
    readers: dict[int, int] = field(default_factory=dict)
    """The SCN after which each reader reads."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    next_number: int = 0

    def take_numbers(self, rows: int) -> int:
        with self.lock:
            self.next_number += rows
            return self.next_number - rows

    def acknowledged(self, scn: int, first: int, rows: int) -> None:
        with self.lock:
            self.inserts.append((scn, first, rows))

    def expected(self, after: int) -> Counts:
        """What a reader that reads after an SCN must have absorbed."""
        columns: dict[str, list[int]] = {"n": [], POSITION: [], SCN: []}
        position = 0
        for scn, first, rows in sorted(self.inserts):
            if scn > after:
                columns["n"] += range(first, first + rows)
                columns[POSITION] += range(position, position + rows)
                columns[SCN] += [scn] * rows
            position += rows
        connection = duckdb.connect()
        connection.register("fed", pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()}))
        return Counts(*map(int, connection.execute(tally_query(["n"], "fed")).fetchall()[0]))


@pytest.mark.parametrize("seed", [1, 2])
def test_readers_absorb_what_was_acknowledged(database: Any, tmp_path: Path, seed: int) -> None:
    play(tmp_path / "fed.db", seed, acts=4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 30))
def test_readers_absorb_what_was_acknowledged_for_long(database: Any, tmp_path: Path, seed: int) -> None:
    play(tmp_path / "fed.db", seed, acts=15)


@pytest.mark.parametrize("files", [1, 2, 7])
def test_files_that_are_copied_as_they_are_keep_their_order(database: Any, tmp_path: Path, files: int) -> None:
    """Of two readers, one looks at the files while they are copied, and one waits until rows have their places."""
    (tmp_path / "files").mkdir()
    for number in range(files):
        numbers = pa.array(range(number * 100, (number + 1) * 100), pa.int64())
        pq.write_table(pa.table({"n": numbers}), tmp_path / "files" / f"{number}.parquet", row_group_size=30)
    model = Model()
    with midstream.connect(str(tmp_path / "fed.db")) as db:
        db.sql("CREATE STREAM fed (n bigint)")
        register(db, model)
        early = register_early(db)
        for first in (0, 0):
            scn = db.sql(f"COPY fed FROM '{tmp_path}/files' PARQUET").scn
            model.acknowledged(scn, first, files * 100)
        check(db, model)
        db._store.streams.wait(early, scn)
        counts, expected = Counts.read(db._store.streams.entry(early).state), model.expected(0)
        assert (counts.rows, counts.hashes) == (expected.rows, expected.hashes)


def register_early(db: Any) -> int:
    stream = db._store.catalog.state.relations["fed"]
    return int(db._store.streams.register(stream, "early", ROW_TALLY, Counts().written()).id)


def play(folder: Path, seed: int, acts: int) -> None:
    chosen, model = random.Random(seed), Model()
    db = midstream.connect(str(folder))
    db.sql("CREATE STREAM fed (n bigint); CREATE TABLE beside (n bigint)")
    try:
        register(db, model)
        for _ in range(acts):
            together(db, model, chosen)
            check(db, model)
            if chosen.random() < 0.5:
                db.close()
                db = midstream.connect(str(folder))
    finally:
        db.close()


def register(db: Any, model: Model) -> None:
    stream = db._store.catalog.state.relations["fed"]
    entry = db._store.streams.register(stream, f"reader {len(model.readers)}", TALLY, Counts().written())
    model.readers[entry.id] = entry.absorbed


def together(db: Any, model: Model, chosen: random.Random) -> None:
    """Several threads insert while a reader comes, and perhaps another goes for good."""
    failures: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            feed(db, model, random.Random(seed))
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(chosen.randrange(10**6),)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    register(db, model)
    if len(model.readers) > 3:
        gone = chosen.choice(list(model.readers))
        db._store.streams.unregister(gone)
        del model.readers[gone]
    for thread in threads:
        thread.join()
    assert not failures, failures


def feed(db: Any, model: Model, chosen: random.Random) -> None:
    for _ in range(12):
        kind = chosen.choice(["values", "values", "dicts", "arrow", "many", "transaction"])
        rows = {"many": 25_000, "arrow": 40}.get(kind, chosen.randint(1, 5))
        first = model.take_numbers(rows)
        model.acknowledged(insert(db, kind, range(first, first + rows)), first, rows)


def insert(db: Any, kind: str, numbers: range) -> int:
    values = ", ".join(f"({n})" for n in numbers[:50])
    if kind == "values":
        return int(db.sql(f"INSERT INTO fed VALUES {values}").scn)
    if kind == "dicts":
        return int(db.insert("fed", [{"n": n} for n in numbers]).scn)
    if kind in ("arrow", "many"):
        return int(db.insert("fed", pa.table({"n": pa.array(numbers, pa.int64())})).scn)
    with db.session() as session:
        session.sql(f"BEGIN; INSERT INTO beside VALUES {values}; INSERT INTO fed VALUES {values}")
        return int(session.sql("COMMIT").scn)


def check(db: Any, model: Model) -> None:
    scns = [scn for scn, _, _ in model.inserts]
    assert len(set(scns)) == len(scns), "two inserts have one SCN"
    for reader, after in model.readers.items():
        db._store.streams.wait(reader, max(scns))
        assert Counts.read(db._store.streams.entry(reader).state) == model.expected(after)
