"""The process that Spark forks its Python workers from, with what a worker needs already imported.

Spark ends workers that are idle for a minute; one forked from here is ready in milliseconds, where one that
imports for itself takes most of a second.
"""

from __future__ import annotations

import importlib

PRELOADED = ("pyarrow", "pyarrow.parquet", "duckdb", "pyspark.worker", "midstream.spark.kernel")

if __name__ == "__main__":
    for module in PRELOADED:
        importlib.import_module(module)
    from pyspark.daemon import manager

    manager()
