"""What Midstream's tables and queries cost, as ratios to the bare tools, measured side by side in one run.

    python bench/foundation.py                 # all; the largest case makes 100 M rows (about 1.5 GB, some minutes)
    python bench/foundation.py --scale 0.01    # the same with a hundredth of the rows
    python bench/foundation.py --only commit update

Each case first compares the answers, then takes both times by turns and keeps the medians. Exit code 1 says that
some limit does not hold.
"""

from __future__ import annotations

import argparse
import math
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from cases import run_cases
from deltalake import DeltaTable, write_deltalake
from report import Finding, Report

AGGREGATE = "SELECT k, count(*) AS n, sum(v) AS s, min(x) AS lo, max(x) AS hi FROM {} GROUP BY k"
KEYS = 1000


@dataclass
class Bench:
    """A database, the Spark session that it runs on, a folder, and how much of everything."""

    db: Any
    spark: Any
    folder: Path
    scale: float
    runs: int

    def rows(self, full: int) -> int:
        return max(1000, int(full * self.scale))


def main() -> None:
    def make(db: Any, folder: Path, given: argparse.Namespace) -> Bench:
        return Bench(db, spark_session(db), folder, given.scale, given.runs)

    report = Report("foundation", "The foundation: ours against the bare tools")
    run_cases(report, CASES, make, description=__doc__, runs=5)


def spark_session(db: Any) -> Any:
    """The session that the database runs on, after its first answer."""
    db.sql("SELECT 1").fetchall()
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()


def timed(runs: int, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """Both by turns, after one run of each that does not count."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(runs + 1):
        for taken, work in zip(times, (ours, theirs), strict=True):
            start = time.perf_counter()
            work()
            if number:
                taken.append(time.perf_counter() - start)
    return times


def same(ours: Iterable[Any], theirs: Iterable[Any], what: str) -> None:
    """Stops the benchmark where the answers differ: a fast wrong answer is worth nothing."""
    left, right = (sorted(map(tuple, rows), key=repr) for rows in (ours, theirs))
    close = len(left) == len(right) and all(
        len(a) == len(b) and all(x == y or math.isclose(x, y, rel_tol=1e-9) for x, y in zip(a, b, strict=True))
        for a, b in zip(left, right, strict=True)
    )
    if not close:
        raise SystemExit(f"{what}: the answers differ\n  ours   {left[:3]}\n  theirs {right[:3]}")


def make_parquet(path: Path, rows: int, files: int) -> None:
    """Rows (id, k, v, x) made by DuckDB in so many files."""
    path.mkdir(parents=True)
    making = duckdb.connect()
    part = -(-rows // files)
    for number in range(files):
        making.execute(
            f"""COPY (SELECT i AS id, CAST(hash(i) % {KEYS} AS INTEGER) AS k, CAST(i % 97 AS BIGINT) AS v,
                             CAST(i % 1013 AS DOUBLE) / 8 AS x
                      FROM range({number * part}, least({rows}, {(number + 1) * part})) AS r (i))
                TO '{path}/{number}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 1000000)"""
        )
    making.close()


def table_of(bench: Bench, name: str, source: Path, key: str = "") -> None:
    bench.db.sql(f"CREATE TABLE {name} (id bigint{key}, k int, v bigint, x double precision)")
    bench.db.sql(f"COPY {name} FROM '{source}' PARQUET")


def commit(bench: Bench) -> Iterator[Finding]:
    """A commit of one row, without and with a key to check, against a bare append to a table that is kept open."""
    for name, key in (("small", ""), ("small_keyed", " PRIMARY KEY")):
        bench.db.sql(f"CREATE TABLE {name} (id bigint{key}, v text)")
        row = pa.table({"id": pa.array([1], pa.int64()), "v": ["x"]})
        path = str(bench.folder / f"bare_{name}")
        write_deltalake(path, row, configuration={"delta.enableChangeDataFeed": "true"})
        bare = DeltaTable(path)
        bench.db.sql(f"INSERT INTO {name} VALUES (1, 'x')")
        same(bench.db.sql(f"SELECT id, v FROM {name}").fetchall(), _rows_of(bare.to_pyarrow_table()), name)
        ours, theirs = timed(
            bench.runs * 8,
            _inserting(bench, name),
            lambda bare=bare, row=row: write_deltalake(bare, row, mode="append"),
        )
        what = "commit of one row" + (" with a primary key" if key else "")
        yield Finding(what, ours, theirs, 3.0, "delta-rs append", rows=1)


def _appending(table: DeltaTable, row: pa.Table) -> Callable[[], object]:
    return lambda: write_deltalake(table, row, mode="append")


def _inserting(bench: Bench, name: str) -> Callable[[], object]:
    numbers = iter(range(2, 1_000_000))
    return lambda: bench.db.sql(f"INSERT INTO {name} VALUES ({next(numbers)}, 'x')")


def update(bench: Bench) -> Iterator[Finding]:
    """UPDATE of one row by key in a table of 1 M rows against delta-rs' own, both with the change feed."""
    rows = bench.rows(1_000_000)
    source = bench.folder / "update_source"
    make_parquet(source, rows, files=1)
    table_of(bench, "keyed", source, key=" PRIMARY KEY")
    bare = str(bench.folder / "bare_keyed")
    read = duckdb.connect().sql(f"SELECT * FROM read_parquet('{source}/*.parquet')").to_arrow_table()
    write_deltalake(bare, read, configuration={"delta.enableChangeDataFeed": "true"})
    kept, number = DeltaTable(bare), iter(range(7, rows, 13))

    def ours() -> None:
        bench.db.sql(f"UPDATE keyed SET v = v + 1 WHERE id = {next(number)}")

    def theirs() -> None:
        kept.update(predicate=f"id = {next(number)}", updates={"v": "v + 1"})

    bench.db.sql("UPDATE keyed SET v = v + 1 WHERE id = 3")
    kept.update(predicate="id = 3", updates={"v": "v + 1"})
    check = "SELECT count(*), sum(v), sum(CASE WHEN id = 3 THEN v END) FROM {}"
    reading = duckdb.connect()
    reading.register("bare_now", DeltaTable(bare).to_pyarrow_table(columns=["id", "v"]))
    sums = reading.execute(check.format("bare_now")).fetchall()
    same(bench.db.sql(check.format("keyed")).fetchall(), sums, "update")
    taken = timed(bench.runs * 2, ours, theirs)
    yield Finding("UPDATE of one row by key", *taken, 5.0, "delta-rs update", rows=rows)


def copy(bench: Bench) -> Iterator[Finding]:
    """COPY of a Parquet file of 10 M rows against Spark reading and writing it."""
    rows = bench.rows(10_000_000)
    source = bench.folder / "copy_source"
    make_parquet(source, rows, files=1)
    places = iter(range(1_000_000))

    def ours() -> None:
        name = f"copied_{next(places)}"
        table_of(bench, name, source / "0.parquet")
        bench.db.sql(f"DROP TABLE {name}")

    def theirs() -> None:
        place = str(bench.folder / f"written_{next(places)}")
        bench.spark.read.parquet(str(source)).write.parquet(place)
        shutil.rmtree(place)

    table_of(bench, "copied", source / "0.parquet")
    mine = bench.db.sql("SELECT count(*), sum(id), sum(v), sum(x) FROM copied").fetchall()
    wanted = duckdb.connect().execute(f"SELECT count(*), sum(id), sum(v), sum(x) FROM '{source}/*.parquet'").fetchall()
    same(mine, wanted, "copy")
    bench.db.sql("DROP TABLE copied")
    taken = timed(min(bench.runs, 3), ours, theirs)
    yield Finding("COPY of Parquet", *taken, 2.0, "Spark writing it", rows=rows, note="at least half as fast")


def aggregate_small(bench: Bench) -> Iterator[Finding]:
    """An ad hoc aggregate over 1 M rows against DuckDB in process plus an empty Spark job."""
    rows = bench.rows(1_000_000)
    source = bench.folder / "small_source"
    make_parquet(source, rows, files=1)
    table_of(bench, "million", source)
    inside = duckdb.connect()
    bare = AGGREGATE.format(f"read_parquet('{source}/*.parquet')")
    kept = bench.spark.range(0, 1, 1, 1).mapInArrow(_nothing, "id bigint")

    def ours() -> Any:
        return bench.db.sql(AGGREGATE.format("million")).arrow()

    def theirs() -> Any:
        answer = inside.sql(bare).to_arrow_table()
        kept.collect()
        return answer

    same(_rows_of(ours()), inside.execute(bare).fetchall(), "aggregate of 1 M")
    taken = timed(bench.runs * 3, ours, theirs)
    yield Finding("aggregate, small table", *taken, 2.0, "DuckDB in process + an empty Spark job", rows=rows)


def aggregate_large(bench: Bench) -> Iterator[Finding]:
    """An ad hoc aggregate over 100 M rows against the same spark.sql over the same rows as plain Parquet."""
    rows = bench.rows(100_000_000)
    source = bench.folder / "large_source"
    make_parquet(source, rows, files=8)
    table_of(bench, "large", source)
    bench.spark.read.parquet(str(source)).createOrReplaceTempView("large_source")

    def ours() -> Any:
        return bench.db.sql(AGGREGATE.format("large")).arrow()

    def theirs() -> Any:
        return bench.spark.sql(AGGREGATE.format("large_source")).toArrow()

    same(_rows_of(ours()), _rows_of(theirs()), "aggregate of 100 M")
    taken = timed(min(bench.runs, 5), ours, theirs)
    yield Finding("aggregate, large table", *taken, 1.2, "the same spark.sql", rows=rows)


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    """An empty Python task."""
    yield from batches


def _rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


CASES: dict[str, Callable[[Bench], Iterator[Finding]]] = {
    "commit": commit,
    "update": update,
    "copy": copy,
    "aggregate_small": aggregate_small,
    "aggregate_large": aggregate_large,
}

if __name__ == "__main__":
    main()
