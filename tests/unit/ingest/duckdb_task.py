"""DuckDB in this process, standing for a task of the DuckDB kernel: it reads a piece and runs its SQL."""

from __future__ import annotations

from functools import cache

import duckdb
import pyarrow as pa

from midstream.maintenance.engine import Files
from midstream.spark.duckdb_inputs import select_files


def literal(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"


@cache
def _task() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def run_piece(files: Files, sql: str) -> pa.Table:
    """The answer to a SQL text over the piece, which it calls "file"."""
    connection = _task()
    connection.execute(f'CREATE OR REPLACE TEMP VIEW "file" AS {_reader(files)}')
    return connection.sql(sql).to_arrow_table()


def run_expression(expression: str, texts: list[str | None]) -> list[object]:
    """What an expression over the column "x" makes of each text."""
    connection = _task()
    connection.register("given", pa.table({"x": pa.array(texts, pa.string())}))
    return connection.sql(f"SELECT {expression} AS y FROM given").to_arrow_table()["y"].to_pylist()  # type: ignore[no-any-return]


def _reader(files: Files) -> str:
    """The reader that the kernel itself has."""
    return select_files(files)
