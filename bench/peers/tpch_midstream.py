"""TPC-H on Midstream: lineitem is a stream, the query a continuous view over it and the tables.

For each query a new stream and its view; then all of lineitem comes by one COPY and the view is read. Then ten thousand
more rows, and a read, again and again. In the end all views stand over one stream together.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

import duckdb

import midstream
from peers.running import answer_task
from peers.tpch_data import TpchFiles

KEYS = {
    "customer": "c_custkey",
    "nation": "n_nationkey",
    "orders": "o_orderkey",
    "part": "p_partkey",
    "partsupp": "ps_partkey, ps_suppkey",
    "region": "r_regionkey",
    "supplier": "s_suppkey",
}
"""As TPC-H declares them."""
TYPES = {"VARCHAR": "text", "DOUBLE": "double precision"}


def work(task: dict[str, Any]) -> dict[str, Any]:
    files, queries = TpchFiles(**task["files"]), task["queries"]
    with tempfile.TemporaryDirectory(prefix="tpch_midstream_", dir=task["folder"]) as folder:
        db = midstream.connect(os.path.join(folder, "tpch.db"))
        for table, path in files.tables.items():
            key = f"PRIMARY KEY ({KEYS[table]})"
            db.sql(f"CREATE TABLE {table} ({columns_of(path)}, {key}); COPY {table} FROM '{path}' PARQUET")
        first = next(iter(queries))
        absorb(db, files, {first: queries[first]})
        found = {name: kept(db, files, {name: query}, task["runs"]) for name, query in queries.items()}
        found |= {"all": kept(db, files, queries, task["runs"])} if task["all_views"] else {}
        db.close()
    return {"queries": found}


def kept(db: Any, files: TpchFiles, queries: dict[str, str], runs: int) -> dict[str, Any]:
    """What the views did, or why they cannot be kept."""
    try:
        times = [absorb(db, files, queries) for _ in range(runs)]
    except midstream.Error as refusal:
        return {"refused": str(refusal).splitlines()[0]}
    found = {name: [one[name] for one in times] for name in times[0]}
    answers = read(db, queries)
    found["pass_answer"] = answers
    found["again_seconds"] = list(refreshes(db, files, queries))
    found["again_answer"] = read(db, queries)
    return found


def absorb(db: Any, files: TpchFiles, queries: dict[str, str]) -> dict[str, float]:
    """Seconds to create the views, and to take in all of lineitem and read them once."""
    db.sql("DROP STREAM IF EXISTS lineitem CASCADE")
    db.sql(f"CREATE STREAM lineitem ({columns_of(files.lineitem)})")
    start = time.perf_counter()
    for name, query in queries.items():
        db.sql(f"CREATE VIEW {name} AS {query}")
    created = time.perf_counter()
    db.sql(f"COPY lineitem FROM '{files.lineitem}' PARQUET")
    copied = time.perf_counter()
    read(db, queries)
    over = time.perf_counter()
    return {"create_seconds": created - start, "copy_seconds": copied - created, "pass_seconds": over - created}


def refreshes(db: Any, files: TpchFiles, queries: dict[str, str]) -> Iterator[float]:
    for file in files.more:
        rows = duckdb.sql(f"FROM '{file}'").to_arrow_table()
        start = time.perf_counter()
        db.insert("lineitem", rows)
        read(db, queries)
        yield time.perf_counter() - start


def read(db: Any, queries: Iterable[str]) -> list[list[Any]]:
    """The rows of the views, one after the other."""
    return [list(row) for name in queries for row in db.sql(f"SELECT * FROM {name}").fetchall()]


def columns_of(path: str) -> str:
    """The columns of a Parquet file as SQL declares them."""
    described = duckdb.sql(f"DESCRIBE FROM '{path}'").fetchall()
    return ", ".join(f"{name} {TYPES.get(kind, kind)}" for name, kind, *_ in described)


if __name__ == "__main__":
    answer_task(work)
