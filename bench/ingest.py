"""What it costs to get rows into a stream, durable and absorbed by one reader, as ratios measured in one run.

    python bench/ingest.py                     # all; about five minutes
    python bench/ingest.py --scale 0.1         # a tenth of the rows
    python bench/ingest.py --only arrow values

The reader is the tally, which looks at every value of every row. Each case checks that it has absorbed every row.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from cases import run_cases
from report import Finding, Report

from midstream.maintenance.engine import FileColumn, Files, Piece
from midstream.runtime.tally import ROW_TALLY, Counts, tally_query

EVENTS = """entity_id bigint, duration int, cost double precision, local_cost double precision,
    long_distance_cost double precision, long_distance boolean, local_calls int, week int, ts timestamp"""
MAKE_EVENTS = """SELECT CAST(hash(i) % 1000000 AS BIGINT) AS entity_id, CAST(i % 300 AS INTEGER) AS duration,
    CAST(hash(i + 1) % 10000 AS DOUBLE) / 100 AS cost, CAST(hash(i + 2) % 10000 AS DOUBLE) / 100 AS local_cost,
    CAST(hash(i + 3) % 10000 AS DOUBLE) / 100 AS long_distance_cost, i % 3 = 0 AS long_distance,
    CAST(i % 5 AS INTEGER) AS local_calls, 202646 AS week, TIMESTAMP '2026-11-15' + to_seconds(i % 86400) AS ts
    FROM range({first}, {last}) AS r (i)"""


@dataclass
class Bench:
    db: Any
    folder: Path
    scale: float
    runs: int

    def rows(self, full: int) -> int:
        return max(10_000, int(full * self.scale))

    def stream(self, name: str, columns: str) -> Fed:
        self.db.sql(f"CREATE STREAM {name} ({columns})")
        streams = self.db._store.streams
        stream = self.db._store.catalog.state.relations[name]
        return Fed(self.db, name, streams.register(stream, "bench", ROW_TALLY, Counts().written()).id)


@dataclass
class Fed:
    """A stream with one reader."""

    db: Any
    name: str
    reader: int

    def absorbed(self, scn: int) -> None:
        self.db._store.streams.wait(self.reader, scn)

    def check(self, rows: int) -> None:
        counts = Counts.read(self.db._store.streams.entry(self.reader).state)
        if counts.rows != rows:
            raise SystemExit(f"{self.name}: {counts.rows:,} rows absorbed of {rows:,}")


def main() -> None:
    def make(db: Any, folder: Path, given: argparse.Namespace) -> Bench:
        db.sql("SELECT 1").fetchall()
        return Bench(db, folder, given.scale, given.runs)

    run_cases(Report("ingest", "Streams: from the client to a reader"), CASES, make, description=__doc__, runs=3)


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def by_turns(runs: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """Both by turns, after one run of each that does not count."""
    ours(), theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(runs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def synced(write: Callable[[str], Any], path: str) -> None:
    write(path)
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def arrow(bench: Bench) -> Iterator[Finding]:
    """db.insert of Arrow tables of 1 M rows against pyarrow writing the same as Parquet and syncing it."""
    rows, tables = bench.rows(1_000_000), 5
    table = duckdb.sql(MAKE_EVENTS.format(first=0, last=rows)).to_arrow_table()
    fed = bench.stream("arrow", EVENTS)
    inserted = 0

    def ours() -> None:
        nonlocal inserted
        scns = [bench.db.insert("arrow", table).scn for _ in range(tables)]
        inserted += tables * rows
        fed.absorbed(scns[-1])

    def theirs() -> None:
        for number in range(tables):
            synced(lambda path: pq.write_table(table, path), str(bench.folder / f"bare-{number}.parquet"))

    taken = by_turns(bench.runs, ours, theirs)
    fed.check(inserted)
    yield Finding("db.insert of Arrow", *taken, 2.0, "pyarrow writing Parquet, synced", rows=tables * rows)


def copy_parquet(bench: Bench) -> Iterator[Finding]:
    """COPY of a Parquet file of 10 M rows against the kernel merely scanning it in tasks, with the same query."""
    rows = bench.rows(10_000_000)
    path = str(bench.folder / "events.parquet")
    duckdb.sql(f"COPY ({MAKE_EVENTS.format(first=0, last=rows)}) TO '{path}' (FORMAT parquet)")
    fed = bench.stream("copied", EVENTS)
    inserted = 0

    def ours() -> None:
        nonlocal inserted
        fed.absorbed(bench.db.sql(f"COPY copied FROM '{path}' PARQUET").scn)
        inserted += rows

    stream = bench.db._store.catalog.state.relations["copied"]
    engine = bench.db._store.engine
    groups = pq.read_metadata(path).num_row_groups
    share = -(-groups // engine.cores)
    columns = tuple(FileColumn(column.name, column.type) for column in stream.columns)
    query = tally_query(stream.column_names, '"file"', placed=False)
    pieces = [
        Piece(query, {"file": Files((path,), columns, row_groups=(tuple(range(at, min(at + share, groups))),))})
        for at in range(0, groups, share)
    ]
    taken = by_turns(bench.runs, ours, lambda: engine.run("duckdb", pieces))
    fed.check(inserted)
    yield Finding("COPY of Parquet", *taken, 1 / 0.7, "the kernel scanning it in tasks", rows=rows)
    os.unlink(path)


def copy_csv(bench: Bench) -> Iterator[Finding]:
    """COPY of CSV against DuckDB's own scan of the file, with the types given."""
    rows = bench.rows(2_000_000)
    path = str(bench.folder / "events.csv")
    duckdb.sql(f"COPY ({MAKE_EVENTS.format(first=0, last=rows)}) TO '{path}' (FORMAT csv, HEADER)")
    fed = bench.stream("from_csv", EVENTS)
    inserted = 0

    def ours() -> None:
        nonlocal inserted
        fed.absorbed(bench.db.sql(f"COPY from_csv FROM '{path}' CSV HEADER").scn)
        inserted += rows

    inside = duckdb.connect(config={"threads": bench.db._store.engine.cores})
    types = {
        column.split()[0]: " ".join(column.split()[1:]).replace("double precision", "double")
        for column in EVENTS.split(",")
    }
    row = ", ".join(types)
    scan = (
        f"SELECT count(*), sum(CAST(hash({row}) AS HUGEINT)) FROM read_csv('{path}', header = true, columns = {types})"
    )
    taken = by_turns(bench.runs, ours, lambda: inside.execute(scan).fetchall())
    fed.check(inserted)
    yield Finding("COPY of CSV", *taken, 2.0, "DuckDB's own CSV scan", rows=rows)


def values(bench: Bench) -> Iterator[Finding]:
    """INSERT of 1,000 literal rows against 100,000 rows a second, and against PostgreSQL inserting one by one."""
    fed = bench.stream("posts", "uid bigint, username text, score int")
    literals = ", ".join(f"({n}, 'user {n}', {n % 100})" for n in range(1000))
    statement, count = f"INSERT INTO posts VALUES {literals}", 50

    def ours() -> None:
        for _ in range(count):
            scn = bench.db.sql(statement).scn
        fed.absorbed(scn)

    ours()
    taken = [seconds(ours) for _ in range(bench.runs)]
    fed.check(count * 1000 * (bench.runs + 1))
    yield Finding("INSERT of 1,000 VALUES", taken, [count * 1000 / 100_000], 1.0, "100,000 rows/s", rows=count * 1000)
    yield from _against_postgres(taken, count * 1000)


def _against_postgres(ours: list[float], rows: int) -> Iterator[Finding]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import psycopg

    from postgres import postgres_server

    singles = 500
    with postgres_server() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE posts (uid bigint, username text, score int)")
        insert = "INSERT INTO posts VALUES (1, 'user 1', 1)"
        taken = seconds(lambda: [connection.execute(insert) for _ in range(singles)])
    theirs = taken / singles * rows
    note = f"PostgreSQL: {singles / taken:,.0f} rows/s"
    yield Finding("the same", ours, [theirs], 0.1, "PostgreSQL, one row a commit", rows=rows, note=note)


def threads(bench: Bench) -> Iterator[Finding]:
    """Inserts of one row from 16 threads against one thread: many share one sync of the log."""
    fed = bench.stream("singles", "uid bigint, username text, score int")
    count = bench.rows(2_000)
    row = [{"uid": 1, "username": "user 1", "score": 1}]
    inserted = 0

    def insert(times: int) -> None:
        nonlocal inserted
        for _ in range(times):
            bench.db.insert("singles", row)

    def together() -> None:
        workers = [threading.Thread(target=insert, args=(count // 16,)) for _ in range(16)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    alone_count = count // 16 * 16
    ours, theirs = by_turns(bench.runs, together, lambda: insert(alone_count))
    fed.absorbed(bench.db.sql("SELECT current_scn()").fetchone()[0])
    fed.check(2 * alone_count * (bench.runs + 1))
    note = f"{alone_count / sorted(theirs)[len(theirs) // 2]:,.0f} inserts/s with one"
    yield Finding("16 threads, one row each", ours, theirs, 1 / 3, "one thread", rows=alone_count, note=note)


def memory(bench: Bench) -> Iterator[Finding]:
    """The driver's memory while 100 M rows pass through, after a tenth of them and at the end."""
    rows, tables = bench.rows(1_000_000), 100
    table = duckdb.sql(MAKE_EVENTS.format(first=0, last=rows)).to_arrow_table()
    fed = bench.stream("flow", EVENTS)
    peaks: list[float] = []
    for number in range(1, tables + 1):
        scn = bench.db.insert("flow", table).scn
        if number % 10 == 0:
            fed.absorbed(scn)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    fed.check(tables * rows)
    note = f"{peaks[0]:,.0f} MB after a tenth, {peaks[-1]:,.0f} MB at the end (peak of the driver)"
    against = "after a tenth of the rows"
    yield Finding("memory", [peaks[-1]], [peaks[0]], 1.15, against, rows=tables * rows, note=note, unit="MB")


CASES: dict[str, Callable[[Bench], Iterator[Finding]]] = {
    "arrow": arrow,
    "copy_parquet": copy_parquet,
    "copy_csv": copy_csv,
    "values": values,
    "threads": threads,
    "memory": memory,
}

if __name__ == "__main__":
    main()
