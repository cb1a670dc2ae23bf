"""Every failure of a kernel is one of ours, with PostgreSQL's SQLSTATE; both kernels say the same."""

from __future__ import annotations

import errno

import pytest
from engine_pieces import ask

from midstream.errors import (
    BadFile,
    Cancelled,
    CheckViolation,
    ConstraintViolation,
    DataError,
    EngineError,
    InternalError,
    OutOfResources,
    StorageError,
)
from midstream.maintenance.engine import Kernel, Piece
from midstream.spark.engine import SparkEngine
from midstream.spark.errors import from_duckdb, from_file_system, from_spark, from_task, named_by_text


@pytest.mark.parametrize(
    ("duckdb", "spark", "sqlstate", "message"),
    [
        ("1 // 0", "1 / 0", "22012", "division by zero"),
        ("1 % 0", "1 % 0", "22012", "division by zero"),
        ("2147483647 + i", "CAST(i * 4294967296L AS INT)", "22003", "int out of range"),
        ("CAST(1e30 AS BIGINT)", "CAST(1e30D AS BIGINT)", "22003", "bigint out of range"),
        ("CAST(70000 AS SMALLINT)", "CAST(70000 AS SMALLINT)", "22003", "smallint out of range"),
        ("CAST('ab''c' AS INTEGER)", "CAST('ab\\'c' AS INT)", "22P02", 'invalid input syntax for type int: "ab\'c"'),
        ("CAST('x' AS BOOLEAN)", "CAST('x' AS BOOLEAN)", "22P02", 'invalid input syntax for type boolean: "x"'),
        ("CAST('x' AS DATE)", "CAST('x' AS DATE)", "22007", 'invalid input syntax for type date: "x"'),
        ("CAST('x' AS TIMESTAMP)", "CAST('x' AS TIMESTAMP)", "22007", 'invalid input syntax for type timestamp: "x"'),
        ("CAST(12345 AS DECIMAL(4, 1))", "CAST(12345 AS DECIMAL(4, 1))", "22003", "numeric field overflow"),
        (
            "('x' LIKE ('x\\' || repeat('', i)) ESCAPE '\\')",
            "('x' LIKE ('x\\\\' || repeat('', i)))",
            "22025",
            "LIKE pattern must not end with escape character",
        ),
        ("error('[22012] a text')", "raise_error('[22012] a text')", "22012", "a text"),
        (
            "error('midstream 2201B: \"[\" is bad')",
            "raise_error('midstream 2201B: \"[\" is bad')",
            "2201B",
            '"[" is bad',
        ),
    ],
)
def test_a_value_that_cannot_be_computed(
    engine: SparkEngine, kernel: Kernel, duckdb: str, spark: str, sqlstate: str, message: str
) -> None:
    expression = duckdb if kernel == "duckdb" else spark
    with pytest.raises(DataError) as raised:
        engine.run(kernel, [Piece(f"SELECT {expression} AS n FROM (SELECT 1 AS i) AS s")])
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)


def test_spark_does_not_say_which_type_overflowed(engine: SparkEngine) -> None:
    with pytest.raises(DataError, match="value out of range") as raised:
        ask(engine, "spark", "SELECT 9223372036854775807 * 2 AS n")
    assert raised.value.sqlstate == "22003"


@pytest.mark.parametrize(
    ("value", "sqlstate", "message"),
    [
        ("1 // (i - 400000)", "22012", "division by zero"),
        ("CAST(CASE WHEN i = 400000 THEN 'z' ELSE '1' END AS INTEGER)", "22P02", None),
        ("CAST(CASE WHEN i = 400000 THEN 1e10 ELSE 1 END AS INTEGER)", "22003", "int out of range"),
    ],
)
def test_a_row_that_fails_behind_many_good_ones_says_the_same(
    engine: SparkEngine, value: str, sqlstate: str, message: str | None
) -> None:
    """DuckDB has handed out the first rows by then, and Arrow tells of the failure."""
    with pytest.raises(DataError, match=message) as raised:
        engine.run("duckdb", [Piece(f"SELECT {value} AS n FROM range(500000) AS r(i)")])
    assert raised.value.sqlstate == sqlstate


def test_a_fault_of_ours_says_what_the_engine_said(engine: SparkEngine, kernel: Kernel) -> None:
    with pytest.raises(InternalError) as raised:
        ask(engine, kernel, "SELECT no_such_function(1) AS n")
    assert "no_such_function" in (raised.value.detail or "")


@pytest.mark.parametrize(
    "sql",
    [
        "SET threads = 1",
        "SELECT 1; SELECT 2",
        "COPY (SELECT 1) TO '/tmp/never.csv'",
        "PRAGMA database_list",
        "DROP VIEW x",
    ],
)
def test_a_piece_is_one_select_and_nothing_else(engine: SparkEngine, sql: str) -> None:
    with pytest.raises(InternalError):
        engine.run("duckdb", [Piece(sql)])


def test_variables_of_python_are_no_tables(engine: SparkEngine) -> None:
    with pytest.raises(InternalError):
        engine.look_up(Piece("SELECT * FROM piece"))


class OutOfMemoryException(Exception):
    """As DuckDB names its own."""


class IOException(Exception):  # noqa: N818
    """As DuckDB names its own."""


class InterruptException(Exception):
    """As DuckDB names its own."""


class Py4JNetworkError(Exception):
    """As py4j names its own."""


@pytest.mark.parametrize(
    ("failure", "kind", "sqlstate"),
    [
        (
            OutOfMemoryException("Out of Memory Error: could not allocate block of size 256.0 KiB"),
            OutOfResources,
            "53200",
        ),
        (IOException('IO Error: Could not write file "x": No space left on device'), OutOfResources, "53100"),
        (IOException('IO Error: Cannot open file "x": Permission denied'), StorageError, "58030"),
        (InterruptException("INTERRUPT Error: Interrupted!"), Cancelled, "57014"),
        (Exception("Binder Error: something new"), InternalError, "XX000"),
    ],
)
def test_what_duckdb_raises(failure: Exception, kind: type[Exception], sqlstate: str) -> None:
    error = from_duckdb(failure)
    assert (type(error), error.sqlstate) == (kind, sqlstate)


@pytest.mark.parametrize(
    ("failure", "kind", "sqlstate"),
    [
        (Exception("[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group x"), Cancelled, "57014"),
        (Exception("java.lang.OutOfMemoryError: Java heap space"), OutOfResources, "53200"),
        (Exception("java.io.IOException: No space left on device"), OutOfResources, "53100"),
        (Exception("Job 3 cancelled because SparkContext was shut down"), EngineError, "58000"),
        (
            Exception("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"),
            EngineError,
            "58000",
        ),
        (Py4JNetworkError("Answer from Java side is empty"), EngineError, "58000"),
        (ConnectionRefusedError(111, "Connection refused"), EngineError, "58000"),
        (Exception("x.parquet is not a Parquet file. Expected magic number at tail"), BadFile, "22P04"),
        (Exception("[PATH_NOT_FOUND] Path does not exist: file:/x"), StorageError, "58030"),
        (Exception("[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column"), InternalError, "XX000"),
        (OSError(errno.ENOSPC, "No space left on device"), OutOfResources, "53100"),
    ],
)
def test_what_spark_raises(failure: Exception, kind: type[Exception], sqlstate: str) -> None:
    error = from_spark(failure)
    assert (type(error), error.sqlstate) == (kind, sqlstate)


def test_a_sum_that_overflows_names_the_type_and_not_the_addition(engine: SparkEngine) -> None:
    most = f"CAST({'9' * 38} AS DECIMAL(38, 0))"
    with pytest.raises(DataError, match="numeric out of range"):
        engine.run("duckdb", [Piece(f"SELECT sum(n) AS n FROM (SELECT {most} AS n FROM range(2) AS r(i)) AS s")])


def test_what_arrow_hands_on_of_duckdb() -> None:
    assert type(from_task(OSError("INTERRUPT Error: Interrupted!"))) is Cancelled
    assert type(from_task(OSError("Invalid IPC stream"))) is StorageError


def test_a_dead_spark_says_what_to_do() -> None:
    assert from_spark(Py4JNetworkError("gone")).hint == "Close the database and connect again."


def test_the_file_system_is_mapped() -> None:
    assert from_file_system(FileNotFoundError(errno.ENOENT, "No such file", "x")).message == "a file is missing"
    assert type(from_file_system(PermissionError(errno.EACCES, "Permission denied", "x"))) is StorageError


def test_a_constraint_that_sql_raised_keeps_its_state() -> None:
    error = named_by_text("Invalid Input Error: [23514] new row violates check constraint")
    assert isinstance(error, ConstraintViolation) and error.sqlstate == CheckViolation.default_sqlstate
    assert named_by_text("[nothing] of ours") is None
