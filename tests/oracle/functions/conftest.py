"""One DuckDB connection, one Spark session and one PostgreSQL connection for all examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from midstream.plan.render import DUCKDB_SETTINGS, SPARK_SETTINGS


@pytest.fixture(scope="package")
def kernels() -> Iterator[Any]:
    import duckdb
    from engines import Kernels
    from pyspark.sql import SparkSession

    connection = duckdb.connect()
    for name, value in DUCKDB_SETTINGS.items():
        connection.execute(f"SET {name} = {value!r}")
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1").config("spark.driver.memory", "1g")
    spark = builder.getOrCreate()
    before = {name: spark.conf.get(name, None) for name in SPARK_SETTINGS}
    for name, value in SPARK_SETTINGS.items():
        spark.conf.set(name, value)
    yield Kernels(connection, spark)
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


@pytest.fixture(scope="package")
def judge(postgres_dsn: str) -> Iterator[Any]:
    import psycopg
    from engines import load_rows

    with psycopg.connect(
        postgres_dsn, autocommit=True, options="-c timezone=UTC -c client_encoding=utf8"
    ) as connection:
        load_rows(connection)
        yield connection
