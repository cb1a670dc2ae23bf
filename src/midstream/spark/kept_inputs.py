"""Inputs that a worker reads again and again stay in its memory: a table that every batch is joined with, say.

An input is known by its content: the files, each with its size and time of change, and the columns taken. The second
time that a worker sees one, it keeps it as a table of its DuckDB, whose memory limit holds for it too; the least
recently used go first when all together would be too large.

    kept = KeptInputs(memory=1 << 30)
    connection.execute(f"CREATE TEMP VIEW customers AS {kept.select(connection, files)}")
"""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass

import duckdb

from midstream.kernels import quote_name
from midstream.maintenance.engine import Files
from midstream.spark.duckdb_inputs import select_files
from midstream.spark.footers import footer_of

_SHARE = 4
"""A quarter of the kernel's memory is for what is kept."""
_LARGEST = 256 << 20
"""Reading a larger one whole would be felt by whoever happens to come second."""
_REMEMBERED = 1000
_MOST_FILES = 200
"""Asking after more files than that costs more than reading them again saves."""

_Content = tuple[object, ...]


@dataclass(frozen=True)
class _Kept:
    table: str
    bytes: int


class KeptInputs:
    """What one DuckDB database of one worker keeps. A worker runs one task at a time."""

    def __init__(self, memory: int) -> None:
        self._room = memory // _SHARE
        self._kept: OrderedDict[_Content, _Kept] = OrderedDict()
        self._seen_once: OrderedDict[_Content, None] = OrderedDict()
        self._made = 0

    @property
    def bytes(self) -> int:
        return sum(kept.bytes for kept in self._kept.values())

    def select(self, connection: duckdb.DuckDBPyConnection, files: Files) -> str:
        """The input as a SELECT: from what is kept, or from the files."""
        text = select_files(files)
        size = _size_in_memory(files)
        if size is None or size > min(self._room, _LARGEST):
            return text
        content = (text, *((path, *_state(path)) for path in files.paths))
        if content in self._kept:
            self._kept.move_to_end(content)
        elif content in self._seen_once:
            del self._seen_once[content]
            try:
                self._keep(connection, content, text, size)
            except duckdb.OutOfMemoryException:
                return text
        else:
            self._seen_once[content] = None
            if len(self._seen_once) > _REMEMBERED:
                self._seen_once.popitem(last=False)
            return text
        return f"SELECT * FROM memory.main.{quote_name(self._kept[content].table, 'duckdb')}"

    def _keep(self, connection: duckdb.DuckDBPyConnection, content: _Content, text: str, size: int) -> None:
        while self.bytes + size > min(self._room, _LARGEST):
            _, oldest = self._kept.popitem(last=False)
            connection.execute(f"DROP TABLE memory.main.{quote_name(oldest.table, 'duckdb')}")
        self._made += 1
        table = f"kept {self._made}"
        connection.execute(f"CREATE TABLE memory.main.{quote_name(table, 'duckdb')} AS {text}")
        self._kept[content] = _Kept(table, size)


def _state(path: str) -> tuple[int, int]:
    seen = os.stat(path)
    return seen.st_size, seen.st_mtime_ns


def _size_in_memory(files: Files) -> int | None:
    """About how many bytes the columns taken need; None where keeping makes no sense: a share of a file is one
    task's of many, and text is read once."""
    if files.format != "parquet" or files.row_groups is not None or not 0 < len(files.paths) <= _MOST_FILES:
        return None
    taken = [column.stored_as or column.name for column in files.columns]
    return sum(footer_of(path).bytes_of(taken) for path in files.paths)
