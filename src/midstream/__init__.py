"""Midstream: a streaming database in SQL on Apache Spark.

    import midstream

    db = midstream.connect("shop.db")
    db.sql("CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL)")
    db.sql("INSERT INTO users VALUES (1, 'Ada')")
    db.sql("SELECT * FROM users").fetchall()

The layers, lowest first, with what each may import:

    errors        the error tree: what, why, what to do, where          <- nothing
    types         the types of SQL values                               <- errors
    kernels       what DuckDB, Spark and Parquet call types and names    <- types
    sql           text to statements, with positions                    <- errors, types
    relations     the nouns, and the catalog in one SQLite file         <- errors, types
    plan          statements to typed trees, and those to SQL texts     <- errors, types, kernels, sql, relations
    maintenance   what is asked of an engine                            <- errors, types, kernels, plan
    ingest        rows from outside to checked Arrow, and back          <- errors, types, kernels, relations, maintenance
    log           the durable log of streams, and batches of it          <- errors
    storage       Delta tables through delta-rs                         <- errors
    spark         jobs and the two kernels                              <- errors, types, kernels, plan, maintenance
    runtime       transactions, constraints, COPY, upkeep, recovery     <- errors, types, kernels, sql, relations, plan, maintenance, ingest, log, storage
    serving       sessions, results, SHOW and EXPLAIN                   <- errors, types, kernels, sql, relations, plan, maintenance, ingest, runtime
    database      all of it wired together                              <- errors, log, maintenance, runtime, serving, spark
    api           the way in                                            <- spark, database
    cli           the shell and the commands                            <- errors, ingest, spark, api
"""  # noqa: E501

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from midstream.errors import (
    AmbiguousName,
    BadFile,
    Cancelled,
    CheckViolation,
    Closed,
    ConstraintViolation,
    DatabaseInUse,
    DataError,
    DependentObjects,
    DuplicateName,
    EngineError,
    Error,
    Forbidden,
    ForeignKeyViolation,
    HistoryGone,
    InternalError,
    InvalidDefinition,
    InvalidParameter,
    InvalidQuery,
    NotNullViolation,
    OutOfResources,
    SqlSyntaxError,
    StorageError,
    TransactionAborted,
    TransactionConflict,
    TransactionError,
    TypeMismatch,
    UndefinedName,
    UniqueViolation,
    Unsupported,
    WrongObject,
)

if TYPE_CHECKING:
    from midstream.api import connect
    from midstream.database import Database
    from midstream.serving.result import Result
    from midstream.serving.session import Session

__version__ = "0.1.0"

__all__ = [
    "AmbiguousName",
    "BadFile",
    "Cancelled",
    "CheckViolation",
    "Closed",
    "ConstraintViolation",
    "DataError",
    "Database",
    "DatabaseInUse",
    "DependentObjects",
    "DuplicateName",
    "EngineError",
    "Error",
    "Forbidden",
    "ForeignKeyViolation",
    "HistoryGone",
    "InternalError",
    "InvalidDefinition",
    "InvalidParameter",
    "InvalidQuery",
    "NotNullViolation",
    "OutOfResources",
    "Result",
    "Session",
    "SqlSyntaxError",
    "StorageError",
    "TransactionAborted",
    "TransactionConflict",
    "TransactionError",
    "TypeMismatch",
    "UndefinedName",
    "UniqueViolation",
    "Unsupported",
    "WrongObject",
    "connect",
]

_LAZY = {
    "connect": "midstream.api",
    "Database": "midstream.database",
    "Result": "midstream.serving.result",
    "Session": "midstream.serving.session",
}


def __getattr__(name: str) -> object:
    """Loads the database when it is asked for: a worker that runs a task needs the kernel alone."""
    if name not in _LAZY:
        raise AttributeError(f"module 'midstream' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
