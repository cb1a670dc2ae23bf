"""Inputs that a worker reads again and again stay in its memory: a table that every batch is joined with, say.

An input is known by its content: the files, each with its size and time of change, and the columns taken. The second
time that a worker sees one, it keeps it as a table of its DuckDB, whose memory limit holds for it too. What is of no
file any more goes when the next is kept; the least recently used go first when all together would be too large.

    kept = KeptInputs(memory=1 << 30)
    connection.execute(f"CREATE TEMP VIEW customers AS {kept.select(connection, files)}")
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
    path: str
    bytes: int


class KeptInputs:
    """What one DuckDB database of one worker keeps. A worker runs one task at a time."""

    def __init__(self, memory: int) -> None:
        self._room = memory // _SHARE
        self._kept: OrderedDict[_Content, _Kept] = OrderedDict()
        self._seen_once: OrderedDict[_Content, None] = OrderedDict()
        self._made = 0
        self._in_use: set[_Content] = set()

    @property
    def bytes(self) -> int:
        return sum(kept.bytes for kept in self._kept.values())

    def begin(self) -> None:
        """A task begins: what earlier ones used may go again."""
        self._in_use.clear()

    def select(self, connection: duckdb.DuckDBPyConnection, files: Files) -> str:
        """The input as a SELECT: from what is kept, or from the files. Each file is kept for itself, so that one more
        does not make all the others new."""
        if not 0 < len(files.paths) <= _MOST_FILES or not _is_keepable(files):
            return select_files(files)
        texts: list[str] = []
        unkept: list[int] = []
        for place in range(len(files.paths)):
            table = self._table(connection, _only(files, [place]))
            if table is None:
                unkept.append(place)
            else:
                texts.append(f"SELECT * FROM memory.main.{quote_name(table, 'duckdb')}")
        if unkept:
            texts.append(select_files(_only(files, unkept)))
        return " UNION ALL ".join(texts)

    def _table(self, connection: duckdb.DuckDBPyConnection, file: Files) -> str | None:
        """The table that a file is kept as, if it is, or is from now on."""
        [path] = file.paths
        text = select_files(file)
        size = _size_in_memory(file)
        if size > min(self._room, _LARGEST):
            return None
        content = (text, *_state(path))
        if content in self._kept:
            self._kept.move_to_end(content)
        elif content in self._seen_once:
            del self._seen_once[content]
            if not self._keep(connection, content, path, text, size):
                return None
        else:
            self._seen_once[content] = None
            if len(self._seen_once) > _REMEMBERED:
                self._seen_once.popitem(last=False)
            return None
        self._in_use.add(content)
        return self._kept[content].table

    def _keep(self, connection: duckdb.DuckDBPyConnection, content: _Content, path: str, text: str, size: int) -> bool:
        """Keeps an input if there is room, or can be made without what this task reads."""
        idle = [known for known in self._kept if known not in self._in_use]
        for known in [known for known in idle if not os.path.exists(self._kept[known].path)]:
            idle.remove(known)
            self._drop(connection, known)
        while self.bytes + size > min(self._room, _LARGEST):
            if not idle:
                return False
            self._drop(connection, idle.pop(0))
        self._made += 1
        table = f"kept {self._made}"
        try:
            connection.execute(f"CREATE TABLE memory.main.{quote_name(table, 'duckdb')} AS {text}")
        except duckdb.OutOfMemoryException:
            return False
        self._kept[content] = _Kept(table, path, size)
        return True

    def _drop(self, connection: duckdb.DuckDBPyConnection, known: _Content) -> None:
        gone = self._kept.pop(known)
        connection.execute(f"DROP TABLE memory.main.{quote_name(gone.table, 'duckdb')}")


def _state(path: str) -> tuple[int, int]:
    seen = os.stat(path)
    return seen.st_size, seen.st_mtime_ns


def _is_keepable(files: Files) -> bool:
    """A share of a file is one task's of many, and text is read once."""
    return files.format == "parquet" and files.row_groups is None and files.numbered is None


def _only(files: Files, places: Sequence[int]) -> Files:
    """Some of the files of an input, with their own values."""
    values = tuple((name, type_, tuple(own[place] for place in places)) for name, type_, own in files.file_values)
    return replace(files, paths=tuple(files.paths[place] for place in places), file_values=values)


def _size_in_memory(file: Files) -> int:
    """About how many bytes the columns taken need."""
    taken = [column.stored_as or column.name for column in file.columns]
    return sum(footer_of(path).bytes_of(taken) for path in file.paths)
