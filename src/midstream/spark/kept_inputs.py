"""Inputs that a worker reads again and again stay in its memory: a table that every batch is joined with, say, and what
pieces that come again compute from them first.

An input is known by its content: the files, each with its size and time of change, and the columns taken. The second
time that a worker sees one, it keeps it as a table of its DuckDB, whose memory limit holds for it too. Many small ones
that are read together become one table more, since a text over many tables takes longer to plan than to run. What is of
no file any more goes when the next is kept; the least recently used go first when all together would be too large.

    kept = KeptInputs(memory=1 << 30)
    connection.execute(f"CREATE TEMP VIEW customers AS {kept.select(connection, files)}")
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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

_TOGETHER = 8
"""So many small ones are one table."""
_SMALL = 1 << 20
_VALUE_BYTES = 16

_Content = tuple[object, ...]


@dataclass(frozen=True)
class _File:
    """One file of an input, or what was computed from several, which has no path."""

    content: _Content
    path: str
    text: str
    bytes: int


@dataclass(frozen=True)
class _Kept:
    """A table, and the files that are in it."""

    table: str
    files: tuple[_File, ...]

    @cached_property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @cached_property
    def contents(self) -> frozenset[_Content]:
        return frozenset(file.content for file in self.files)

    @property
    def is_there(self) -> bool:
        return all(os.path.exists(file.path) for file in self.files if file.path)


class KeptInputs:
    """What one DuckDB database of one worker keeps. A worker runs one task at a time."""

    def __init__(self, memory: int) -> None:
        self._room = min(memory // _SHARE, _LARGEST)
        self._kept: OrderedDict[frozenset[_Content], _Kept] = OrderedDict()
        self._seen_once: OrderedDict[_Content, None] = OrderedDict()
        self._made = 0
        self._in_use: set[frozenset[_Content]] = set()
        self._too_large: set[_Content] = set()

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
        asked = [_file(_only(files, [place])) for place in range(len(files.paths))]
        contents = {file.content for file in asked}
        if len(contents) < len(asked):
            return select_files(files)
        tables = self._together(contents)
        unkept: list[int] = []
        small: list[_Kept] = []
        for place, file in enumerate(asked):
            if file.content not in contents:
                continue
            kept = self._alone(connection, file)
            if kept is None:
                unkept.append(place)
            else:
                (small if kept.bytes <= _SMALL else tables).append(kept)
        tables += self._put_together(connection, small)
        texts = [f"SELECT * FROM {_quoted(kept.table)}" for kept in tables]
        if unkept:
            texts.append(select_files(_only(files, unkept)))
        return " UNION ALL ".join(texts)

    def _together(self, asked: set[_Content]) -> list[_Kept]:
        """Tables of many files, all of which are asked for; these are taken off what is asked for, so that no two
        tables have the same one."""
        found: list[_Kept] = []
        for kept in [kept for kept in self._kept.values() if len(kept.files) > 1]:
            if kept.contents <= asked:
                asked -= kept.contents
                found.append(kept)
        for kept in found:
            self._use(kept)
        return found

    def _put_together(self, connection: duckdb.DuckDBPyConnection, small: list[_Kept]) -> list[_Kept]:
        """The same as fewer tables, if they are many."""
        if len(small) < _TOGETHER:
            return small
        text = " UNION ALL ".join(f"SELECT * FROM {_quoted(kept.table)}" for kept in small)
        kept = self._keep(connection, tuple(file for one in small for file in one.files), text)
        return small if kept is None else [kept]

    def _alone(self, connection: duckdb.DuckDBPyConnection, file: _File) -> _Kept | None:
        """The table that a file is kept as, if it is, or is from now on."""
        if file.bytes > self._room:
            return None
        kept = self._kept.get(frozenset([file.content]))
        if kept is not None:
            self._use(kept)
            return kept
        if file.content in self._seen_once:
            del self._seen_once[file.content]
            return self._keep(connection, (file,), file.text)
        self._seen_once[file.content] = None
        if len(self._seen_once) > _REMEMBERED:
            self._seen_once.popitem(last=False)
        return None

    def _use(self, kept: _Kept) -> None:
        self._kept.move_to_end(kept.contents)
        self._in_use.add(kept.contents)

    def _keep(self, connection: duckdb.DuckDBPyConnection, files: tuple[_File, ...], text: str) -> _Kept | None:
        """Keeps files if there is room."""
        made = _Kept(self._new_name(), files)
        if not self._has_room(connection, made.bytes) or not _create(connection, made.table, text):
            return None
        return self._note(made)

    def view(self, connection: duckdb.DuckDBPyConnection, meaning: str, text: str) -> str | None:
        """What is computed from files, as a SELECT of it; None: it is too large to be kept. It has to be computed
        anyhow, so it is kept at once."""
        content = (meaning,)
        kept = self._kept.get(frozenset([content]))
        if kept is not None:
            self._use(kept)
        elif content not in self._too_large:
            kept = self._keep_view(connection, content, text)
        return None if kept is None else f"SELECT * FROM {_quoted(kept.table)}"

    def _keep_view(self, connection: duckdb.DuckDBPyConnection, content: _Content, text: str) -> _Kept | None:
        """How large it is shows when it is there; one that is too large is not tried again."""
        table = self._new_name()
        if not _create(connection, table, text):
            return None
        made = _Kept(table, (_File(content, "", text, _size_of_table(connection, table)),))
        if self._has_room(connection, made.bytes):
            return self._note(made)
        connection.execute(f"DROP TABLE {_quoted(table)}")
        if len(self._too_large) > _REMEMBERED:
            self._too_large.clear()
        self._too_large.add(content)
        return None

    def _new_name(self) -> str:
        self._made += 1
        return f"kept {self._made}"

    def _note(self, made: _Kept) -> _Kept:
        self._kept[made.contents] = made
        self._use(made)
        return made

    def _has_room(self, connection: duckdb.DuckDBPyConnection, size: int) -> bool:
        """Whether there is room for so many bytes, or can be made without what this task reads."""
        idle = [kept for known, kept in self._kept.items() if known not in self._in_use]
        for gone in [kept for kept in idle if not kept.is_there]:
            idle.remove(gone)
            self._drop(connection, gone)
        if size > self._room:
            return False
        while self.bytes + size > self._room:
            if not idle:
                return False
            self._drop(connection, idle.pop(0))
        return True

    def _drop(self, connection: duckdb.DuckDBPyConnection, gone: _Kept) -> None:
        del self._kept[gone.contents]
        connection.execute(f"DROP TABLE {_quoted(gone.table)}")


def _quoted(table: str) -> str:
    return f"memory.main.{quote_name(table, 'duckdb')}"


def _create(connection: duckdb.DuckDBPyConnection, table: str, text: str) -> bool:
    try:
        connection.execute(f"CREATE TABLE {_quoted(table)} AS {text}")
    except duckdb.OutOfMemoryException:
        return False
    return True


def _size_of_table(connection: duckdb.DuckDBPyConnection, table: str) -> int:
    """About how many bytes a table takes; texts count as if they were short."""
    asked = "SELECT estimated_size * column_count FROM duckdb_tables() WHERE table_name = ?"
    [(values,)] = connection.execute(asked, [table]).fetchall()
    return int(values) * _VALUE_BYTES


def _file(file: Files) -> _File:
    [path], text = file.paths, select_files(file)
    return _File((text, *_state(path)), path, text, _size_in_memory(file))


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
