"""The DuckDB kernel in the driver itself: for questions about few rows, which a job would only make slower.

It is the same kernel, with the same settings and the same texts, so its answers are a task's answers.
"""

from __future__ import annotations

from midstream.errors import Cancelled
from midstream.maintenance.engine import Answer, Piece
from midstream.spark import duckdb_connection
from midstream.spark.duckdb_connection import Limits
from midstream.spark.errors import from_task
from midstream.spark.named_inputs import define_inputs
from midstream.spark.plain import plain_table


def look_up(piece: Piece, limits: Limits, folder: str) -> Answer:
    """Answers a piece that has no output."""
    try:
        connection = duckdb_connection.connect(limits, folder)
        try:
            sql = define_inputs(connection, piece).before(piece.sql)
            return Answer(plain_table(duckdb_connection.run_one_select(connection, sql).to_arrow_table()))
        finally:
            connection.close()
    except KeyboardInterrupt:
        raise Cancelled("the statement was cancelled") from None
    except Exception as failure:
        raise from_task(failure) from failure
