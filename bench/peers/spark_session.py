"""A local Spark session for the peers: all cores, no more shuffle partitions than cores, no user interface."""

from __future__ import annotations

import os
import sys
from typing import Any

CORES = len(os.sched_getaffinity(0))


def start_session(folder: str, **settings: str) -> Any:
    """Settings are given with _ for the dots."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{CORES}]")
    for name, value in {
        "spark.driver.memory": "6g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": f"{folder}/spark",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
