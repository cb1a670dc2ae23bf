"""The DuckDB of a process: kept between jobs, bounded in memory, closed to everything but our files.

A Python worker has one database in memory for each set of limits (in practice two: for jobs of one piece and
of several). Each job gets a connection of its own, and its temporary views go with it.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb

from midstream.errors import InternalError
from midstream.spark.kept_inputs import KeptInputs
from midstream.spark.resources import machine_cores, machine_memory


@dataclass(frozen=True)
class Limits:
    """What a database may use, and what the SQL that it runs counts on."""

    threads: int
    memory: int
    settings: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True)
class _Database:
    connection: duckdb.DuckDBPyConnection
    kept: KeptInputs

    def close(self) -> None:
        self.connection.close()


_databases: dict[tuple[Limits, str], _Database] = {}
_opening = threading.Lock()
_MOST_DATABASES = 8

_SETTINGS: Mapping[str, object] = {
    "TimeZone": "UTC",
    "Calendar": "gregorian",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "python_scan_all_frames": False,
    # It never forgets: files come and go, and each would leave some 16 kB behind.
    "parquet_metadata_cache": False,
    "preserve_insertion_order": True,
    # A list may be sorted by a constant, which changes nothing.
    "order_by_non_integer_literal": True,
}


def connect(limits: Limits, folder: str) -> duckdb.DuckDBPyConnection:
    """A connection for one job; the database behind it may spill into `folder`."""
    key = (limits, folder)
    with _opening:
        database = _databases.pop(key, None) or _open(limits, folder)
        _databases[key] = database
        while len(_databases) > _MOST_DATABASES:
            # The least recently used; a connection that still uses it keeps it alive until it is done.
            _databases.pop(next(iter(_databases))).close()
        return database.connection.cursor()


def kept_inputs(limits: Limits, folder: str) -> KeptInputs:
    """What the database behind `connect` keeps of its inputs."""
    return _databases[limits, folder].kept


def forget(folder: str) -> None:
    """Closes the databases that spill into a folder which is about to go."""
    for key in [key for key in _databases if key[1] == folder]:
        _databases.pop(key).close()


def run_one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """The relation of exactly one SELECT, read once: no other statement can come in, whatever the text says."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InternalError("a piece must be one SELECT", detail=sql)
    return connection.sql(statements[0])


def run_one_copy(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Runs exactly one COPY, read once."""
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.COPY:
        raise InternalError("what is written must be one SELECT", detail=sql)
    connection.execute(statements[0])


def _open(limits: Limits, folder: str) -> _Database:
    """The limits were set where the job was made, on another machine perhaps: this one may be smaller."""
    spill = Path(folder) / "spill"
    spill.mkdir(parents=True, exist_ok=True)
    memory = min(limits.memory, machine_memory() // 2)
    database = duckdb.connect(
        config={
            "threads": min(limits.threads, machine_cores()),
            "memory_limit": f"{memory >> 10}KiB",
            # Processes of several machines, which may have the same number, spill into one folder.
            "temp_directory": tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=spill),
        }
    )
    for name, value in {**_SETTINGS, **dict(limits.settings)}.items():
        database.execute(f"SET GLOBAL {name} = {value!r}")
    database.execute("SET GLOBAL lock_configuration = true")
    return _Database(database, KeptInputs(memory))
