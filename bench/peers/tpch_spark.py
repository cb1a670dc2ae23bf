"""TPC-H on Spark SQL over the Parquet files."""

from __future__ import annotations

import tempfile
from typing import Any

from peers.running import answer_task
from peers.spark_session import start_session
from peers.tpch_again import measure


def work(task: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="tpch_spark_") as folder:
        spark = start_session(folder)
        for table, path in task["files"]["tables"].items():
            spark.read.parquet(path).createOrReplaceTempView(table)

        def over(lineitem: list[str]) -> None:
            spark.read.parquet(*lineitem).createOrReplaceTempView("lineitem")

        queries = measure(lambda query: spark.sql(query).collect(), over, task)
        return {"queries": queries, "version": spark.version}


if __name__ == "__main__":
    answer_task(work)
