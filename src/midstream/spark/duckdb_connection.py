"""The DuckDB of a process: kept between jobs, bounded in memory, closed to everything but our files.

A Python worker has one database in memory for each pair of thread count and memory limit (in practice two: for
jobs of one piece and of several). Each job gets a connection of its own, and its temporary views go with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import duckdb

from midstream.errors import InternalError

_databases: dict[tuple[int, int, str], duckdb.DuckDBPyConnection] = {}
_opening = threading.Lock()

_SETTINGS: Mapping[str, str] = {
    "TimeZone": "'UTC'",
    "Calendar": "'gregorian'",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "parquet_metadata_cache": "true",
    "preserve_insertion_order": "true",
}


def connect(threads: int, memory: int, folder: str) -> duckdb.DuckDBPyConnection:
    """A connection for one job; the database behind it may spill into `folder`."""
    key = (threads, memory, folder)
    with _opening:
        if key not in _databases:
            _databases[key] = _open(threads, memory, folder)
        return _databases[key].cursor()


def forget(folder: str) -> None:
    """Closes the databases that spill into a folder which is about to go."""
    for key in [key for key in _databases if key[2] == folder]:
        _databases.pop(key).close()


def run_one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """The relation of exactly one SELECT: no other statement can come in, whatever the text says."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InternalError("a piece must be one SELECT", detail=sql)
    return connection.sql(sql)


def _open(threads: int, memory: int, folder: str) -> duckdb.DuckDBPyConnection:
    spill = Path(folder) / "spill" / str(os.getpid())
    database = duckdb.connect(
        config={
            "threads": threads,
            "memory_limit": f"{memory >> 10}KiB",
            "temp_directory": str(spill / str(threads)),
        }
    )
    for name, value in {**_SETTINGS, **_dialect_settings()}.items():
        database.execute(f"SET GLOBAL {name} = {value}")
    database.execute("SET GLOBAL lock_configuration = true")
    return database


def _dialect_settings() -> Mapping[str, str]:
    """What the rendered SQL counts on."""
    return {"default_null_order": "'nulls_last'", "integer_division": "true"}
