r"""Ranges of bytes of plain CSV files, read by Arrow into the types of a table.

Arrow's reader is strict and several times as fast as texts that are tried against patterns, but it takes some texts
that PostgreSQL does not take: 0x1F as an integer, 1e-400 as zero, an hour without minutes. Blocks are searched for
anything that looks like one of them; where something does, the texts of the block are looked at one by one. So a
value that is read here is the value that the patterns give, and everything else is `NotPlain`: then somebody reads
the files the careful way, who also knows the line of what is wrong.

    >>> options = {"delimiter": ",", "null": "", "quote": '"', "escape": '"', "line_end": "\n",
    ...            "ranges": ((3, 900),), "states": (state_of("a.csv"),)}
    >>> read_ranges(Files(("a.csv",), (FileColumn("id", BIGINT),), "csv", options)).read_all()
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from midstream.kernels import stored_type
from midstream.maintenance.engine import FileColumn, Files
from midstream.types import Type

BLOCK_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 20
"""What Arrow converts at a time. A larger chunk and what becomes of it do not fit into the cache of a core."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class NotPlain(Exception):
    """Not certainly the CSV that everybody reads in the same way."""

    def __init__(self, why: str) -> None:
        super().__init__(f"[22P04] the CSV is not plain: {why}")


def is_ranged(files: Files) -> bool:
    return files.format == "csv" and "ranges" in files.options


def read_ranges(files: Files) -> pa.RecordBatchReader:
    """The rows of the ranges in their order. They are read when they are asked for, and once."""
    schema = pa.schema([(column.name, stored_type(column.type)) for column in files.columns])
    return pa.RecordBatchReader.from_batches(schema, _batches(files))


def _batches(files: Files) -> Iterator[pa.RecordBatch]:
    reader = _BlockReader(files)
    ranges, states = files.options["ranges"], files.options["states"]
    try:
        for path, (start, end), state in zip(files.paths, ranges, states, strict=True):  # type: ignore[call-overload]
            for block in _blocks(path, start, end, state):
                yield from reader.read(block).to_batches()
    except (pa.ArrowException, OSError) as failure:
        raise NotPlain(str(failure)) from failure


def _blocks(path: str, start: int, end: int, state: tuple[int, int]) -> Iterator[bytes]:
    """Whole lines, some megabytes at a time."""
    with open(path, "rb", buffering=0) as file:
        _check_state(file.fileno(), state)
        while start < end:
            file.seek(start)
            block = file.read(min(BLOCK_BYTES, end - start)) or b""
            if start + len(block) < end:
                block = block[: block.rfind(b"\n") + 1]
            if not block:
                raise NotPlain("a line is too long")
            yield block
            start += len(block)
        _check_state(file.fileno(), state)


def state_of(file: str | int) -> tuple[int, int]:
    """Size and time of change: the ranges of a file that changes between two tasks are not of one file."""
    seen = os.stat(file)
    return seen.st_size, seen.st_mtime_ns


def _check_state(file: int, state: tuple[int, int]) -> None:
    if state_of(file) != state:
        raise NotPlain("the file was changed")


# --- one block --------------------------------------------------------------------------------------


class _BlockReader:
    """Reads blocks of whole lines that have the columns of the files."""

    def __init__(self, files: Files) -> None:
        self._columns = files.columns
        self._options = {name: str(value) for name, value in files.options.items()}
        self._signs = {self._options[name].encode() for name in ("quote", "escape")} | {b"\r", b"\0"}

    def read(self, block: bytes) -> pa.Table:
        block = self._with_newlines(block)
        if any(sign in block for sign in self._signs) or block.startswith(_BYTE_ORDER_MARK):
            raise NotPlain("a quote, a carriage return or a sign that does not print stands in it")
        table = self._parse(block, self._types)
        for column in self._columns:
            if not _is_in_range(column.type, table[column.name]):
                raise NotPlain(f"a value of {column.name} is out of range")
        looks_odd = _any_match(pa.array([block], pa.binary()), self._odd_block)
        if looks_odd or not self._is_finite(table):
            self._check_texts(block, table)
        return table

    def _with_newlines(self, block: bytes) -> bytes:
        if self._options["line_end"] != "\r\n":
            return block
        shorter = block.replace(b"\r\n", b"\n")
        if len(block) - len(shorter) != shorter.count(b"\n"):
            raise NotPlain("lines end in different ways")
        return shorter

    @cached_property
    def _types(self) -> arrow_csv.ConvertOptions:
        return self._conversion({column.name: stored_type(column.type) for column in self._columns})

    @cached_property
    def _suspects(self) -> list[FileColumn]:
        """The columns that may have a text which Arrow reads and PostgreSQL does not."""
        return [column for column in self._columns if _family(column.type) in _ODD_BYTES]

    @cached_property
    def _texts(self) -> arrow_csv.ConvertOptions:
        names = [column.name for column in self._suspects]
        return self._conversion(dict.fromkeys(names, pa.string()), include_columns=names)

    def _conversion(self, types: dict[str, pa.DataType], **options: object) -> arrow_csv.ConvertOptions:
        return arrow_csv.ConvertOptions(
            column_types=types,
            null_values=[self._options["null"]],
            strings_can_be_null=True,
            true_values=_TRUE,
            false_values=_FALSE,
            **options,
        )

    def _parse(self, block: bytes, conversion: arrow_csv.ConvertOptions) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(block),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=_CHUNK_BYTES, column_names=[column.name for column in self._columns]
            ),
            arrow_csv.ParseOptions(
                delimiter=self._options["delimiter"],
                quote_char=False,
                double_quote=False,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            conversion,
        )

    @cached_property
    def _odd_block(self) -> str:
        """A pattern that every block has in which a line is empty or a text of a suspect is odd."""
        field_end = rf"(?:\n|\x{ord(self._options['delimiter']):02x}|\z)"
        found = dict.fromkeys(_odd_bytes(column.type) for column in self._suspects)
        return "|".join([_EMPTY_LINE, *found]).replace("$", field_end)

    def _is_finite(self, table: pa.Table) -> bool:
        floats = [table[column.name] for column in self._columns if column.type.is_float]
        return all(pc.all(pc.is_finite(values)).as_py() is not False for values in floats)

    def _check_texts(self, block: bytes, table: pa.Table) -> None:
        if block.startswith(b"\n") or b"\n\n" in block:
            raise NotPlain("a line is empty")
        texts = self._parse(block, self._texts)
        for column in self._suspects:
            if _has_odd_text(column.type, texts[column.name], table[column.name]):
                raise NotPlain(f"a value of {column.name} is written oddly")


def _family(type_: Type) -> str:
    return "integer" if type_.is_integer else "float" if type_.is_float else type_.name


# --- what a text must not be ------------------------------------------------------------------------

_TRUE = [word for each in ("true", "t", "yes", "y", "on", "1") for word in (each, each.upper(), each.title())]
_FALSE = [word for each in ("false", "f", "no", "n", "off", "0") for word in (each, each.upper(), each.title())]

_EMPTY_LINE = r"\A\n|\n\n"
"""Arrow makes a row of NULLs of it."""
_ODD_ZONE = r"[ T][0-9]{2}[Z+-]|:[0-9.]+[+-](?:1[6-9]|2)"
_ODD_BYTES = {
    "integer": r"0[xX]|0{11}",
    "float": r"[0-9.][eE]-|0{30}",
    "numeric": r"[0-9.][eE]",
    "timestamp": r"[ T][0-9]{2}$",
    "timestamptz": _ODD_ZONE,
}
"""What a block has if a column of the family has an odd text in it, and perhaps else; `$` ends a field."""
_ODD_TEXTS = {
    "integer": r"[xX]|[0-9]{31}",
    "numeric": r"[eE]",
    "timestamp": r"[ T][0-9]{2}$",
    "timestamptz": _ODD_ZONE,
}
"""What a text that only Arrow reads has in it."""


def _odd_bytes(type_: Type) -> str:
    pattern = _ODD_BYTES[_family(type_)]
    return f"{pattern}|{_too_many_digits(type_)}" if _may_wrap(type_) else pattern


def _odd_text(type_: Type) -> str:
    pattern = _ODD_TEXTS[_family(type_)]
    return f"{pattern}|^[^.]*{_too_many_digits(type_)}" if _may_wrap(type_) else pattern


def _may_wrap(type_: Type) -> bool:
    """Arrow reads the digits, then multiplies by the scale and does not see an overflow of 128 bits."""
    return type_.name == "numeric" and (type_.precision or 0) + (type_.scale or 0) > _MOST_DIGITS


def _too_many_digits(type_: Type) -> str:
    return f"[0-9]{{{(type_.precision or 0) - (type_.scale or 0) + 1}}}"


_MOST_DIGITS = 38
_NO_ZERO = r"^[^eE]*[1-9]"
_NOT_FINITE = r"^[ \t]*(?i:nan|[+-]?inf(?:inity)?)[ \t]*$"


def _has_odd_text(type_: Type, texts: pa.ChunkedArray, values: pa.ChunkedArray) -> bool:
    if not type_.is_float:
        return _any_match(texts, _odd_text(type_))
    vanished = pc.and_(pc.equal(values, 0), pc.match_substring_regex(texts, _NO_ZERO))
    is_named = pc.match_substring_regex(texts, _NOT_FINITE)
    overflown = pc.and_not(pc.invert(pc.is_finite(values)), is_named)
    return bool(pc.any(pc.or_(vanished, overflown)).as_py())


def _any_match(texts: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


_EPOCH = date(1970, 1, 1).toordinal()
_FIRST_DAY, _END_DAY = date.min.toordinal() - _EPOCH, date.max.toordinal() + 1 - _EPOCH
_DAY = 86_400_000_000


def _is_in_range(type_: Type, values: pa.ChunkedArray) -> bool:
    """Arrow knows the year 0, and gives a numeric more digits before the point than it may have."""
    if type_.name not in ("numeric", "date", "timestamp", "timestamptz"):
        return True
    least, most = pc.min_max(values).values()
    if not least.is_valid:
        return True
    if type_.name == "numeric":
        limit = Decimal(10) ** ((type_.precision or 0) - (type_.scale or 0))
        return bool(-limit < least.as_py() and most.as_py() < limit)
    unit = 1 if type_.name == "date" else _DAY
    return bool(_FIRST_DAY * unit <= least.value and most.value < _END_DAY * unit)
