"""TPC-H on DuckDB over the Parquet files."""

from __future__ import annotations

import os
from typing import Any

import duckdb

from peers.running import answer_task
from peers.tpch_again import measure


def work(task: dict[str, Any]) -> dict[str, Any]:
    database = duckdb.connect(config={"threads": len(os.sched_getaffinity(0))})
    for table, path in task["files"]["tables"].items():
        database.execute(f"CREATE VIEW {table} AS FROM '{path}'")

    def over(lineitem: list[str]) -> None:
        database.execute(f"CREATE OR REPLACE VIEW lineitem AS FROM read_parquet({lineitem})")

    queries = measure(lambda query: database.execute(query).fetchall(), over, task)
    return {"queries": queries, "version": duckdb.__version__}


if __name__ == "__main__":
    answer_task(work)
