"""The DuckDB kernel in the driver itself: for questions about few rows, which a job would only make slower.

It is the same kernel, with the same settings and the same texts, so its answers are a task's answers.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from midstream.maintenance.engine import Answer, Files, Piece, Rows
from midstream.spark import duckdb_connection
from midstream.spark.duckdb_inputs import quote_name, select_files
from midstream.spark.errors import from_task
from midstream.spark.physical import plain_table

MEMORY = 512 << 20
"""What the driver may use for it; more spills to the disk."""


def look_up(piece: Piece, threads: int, folder: str) -> Answer:
    """Answers a piece that has no output."""
    try:
        connection = duckdb_connection.connect(threads, MEMORY, folder)
        try:
            return Answer(_run(connection, piece))
        finally:
            connection.close()
    except Exception as failure:
        raise from_task(failure) from failure


def _run(connection: duckdb.DuckDBPyConnection, piece: Piece) -> pa.Table:
    for name, given in piece.inputs.items():
        match given:
            case Files():
                connection.execute(f"CREATE TEMP VIEW {quote_name(name)} AS {select_files(given)}")
            case Rows(table):
                connection.register(name, table)
    for name, sql in piece.views:
        connection.execute(f"CREATE TEMP VIEW {quote_name(name)} AS {sql}")
    return plain_table(duckdb_connection.run_one_select(connection, piece.sql).to_arrow_table())
