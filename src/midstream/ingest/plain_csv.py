"""Plain CSV files as ranges of bytes, so that tasks can share one file and read it without patterns.

Where nothing is quoted, every line end ends a record, and a file can be cut behind any of them. Whether a file is so
is only guessed here, from its beginning; the tasks look at every byte, and when one of them refuses, the files are
read by `files.split` instead. A range has no more rows than bytes.

    >>> [piece.options["ranges"] for piece in plain_pieces(input, table.columns, tasks=2)]
    [((17, 31200450),), ((31200450, 62400811),)]
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from midstream.ingest.csv_records import BYTE_ORDER_MARK, CsvRules, read_bytes
from midstream.ingest.files import FileInput, InputFile
from midstream.maintenance.engine import FileColumn, Files
from midstream.relations.table import Column
from midstream.types import TEXT, Type

SMALLEST_SHARE = 4 << 20
"""Bytes of a task: with fewer, starting it costs more than it saves."""
_FIRST_BYTES = 1 << 16
_READ_AS_THEY_ARE = frozenset(
    ["smallint", "int", "bigint", "real", "double precision", "numeric", "boolean", "date", "timestamp", "timestamptz"]
)
"""Types that tasks read directly; the texts of others are turned into values by SQL."""


@dataclass(frozen=True)
class _Range:
    file: InputFile
    start: int
    end: int
    line_end: str
    state: tuple[int, int]

    @property
    def bytes(self) -> int:
        return self.end - self.start

    def is_like(self, other: _Range) -> bool:
        """Whether one task can read both."""
        return self.file.columns == other.file.columns and self.line_end == other.line_end


class _Refused(Exception):
    """A file that is not plain at first sight."""


def plain_pieces(
    input: FileInput, columns: Sequence[Column], tasks: int, *, smallest_share: int = SMALLEST_SHARE
) -> list[Files]:
    """The files as ranges for tasks, in the order of their rows; none where a file is seen not to be plain."""
    if input.format != "csv":
        return []
    share = max(-(-sum(file.bytes for file in input.files) // max(tasks, 1)), smallest_share)
    types = {column.name: column.type for column in columns}
    try:
        return [_piece(ranges, input.rules, types) for ranges in _shares(input, share)]
    except _Refused:
        return []


def _shares(input: FileInput, share: int) -> Iterator[list[_Range]]:
    """Ranges that together have about so many bytes."""
    pending: list[_Range] = []
    for file in input.files:
        for each in _ranges(file, input.rules, share, sum(one.bytes for one in pending)):
            if pending and not each.is_like(pending[0]):
                yield pending
                pending = []
            pending.append(each)
            if sum(one.bytes for one in pending) >= share:
                yield pending
                pending = []
    if pending:
        yield pending


def _ranges(file: InputFile, rules: CsvRules, share: int, taken: int) -> Iterator[_Range]:
    """The records of a file behind its header; the first range fills up a share of which some is taken."""
    state = _state(file.path)
    data = read_bytes(file.path)
    position = len(BYTE_ORDER_MARK) if data[:3] == BYTE_ORDER_MARK else 0
    first = rules.any_record.match(data, position)
    if first is None:
        raise _Refused
    line_end = "\r\n" if first[0].endswith(b"\r\n") else "\n"
    if rules.header:
        position = first.end()
    if rules.quote.encode() in data[position : position + _FIRST_BYTES]:
        raise _Refused
    while position < len(data):
        end = _line_end_after(data, position + share - taken)
        yield _Range(file, position, end, line_end, state)
        position, taken = end, 0


def _line_end_after(data: mmap.mmap | bytes, position: int) -> int:
    found = data.find(b"\n", position - 1)
    return found + 1 if found >= 0 else len(data)


def _state(path: str) -> tuple[int, int]:
    seen = os.stat(path)
    return seen.st_size, seen.st_mtime_ns


def _piece(ranges: Sequence[_Range], rules: CsvRules, types: dict[str, Type]) -> Files:
    options: dict[str, object] = {name: getattr(rules, name) for name in ("delimiter", "null", "quote", "escape")}
    options |= {
        "line_end": ranges[0].line_end,
        "ranges": tuple((each.start, each.end) for each in ranges),
        "states": tuple(each.state for each in ranges),
    }
    columns = tuple(FileColumn(column.name, _read_as(types[column.name])) for column in ranges[0].file.columns)
    size = sum(each.bytes for each in ranges)
    return Files(tuple(each.file.path for each in ranges), columns, "csv", options, bytes=size)


def _read_as(type: Type) -> Type:
    return type if type.name in _READ_AS_THEY_ARE else TEXT
