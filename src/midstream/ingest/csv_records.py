"""The records of a CSV file, with the line on which each begins, as PostgreSQL splits them.

Nothing is NULL, `""` is empty text, quoted fields may span lines. A field that has a quote inside but not at
its start is refused: PostgreSQL and the kernels read it differently.

    >>> list(records("f.csv", CsvRules(), ("id", "name")))          # 1,"a⏎b"⏎2,⏎
    [(1, ('1', 'a\\nb')), (3, ('2', None))]
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from midstream.errors import BadFile, StorageError

_LINE_END = b"(?:\\r\\n|\\n|\\r)"
_LINE_END_OR_LAST = b"(?:\\r\\n|\\n|\\r|\\Z)"

Record = tuple[int, tuple[str | None, ...]]


@dataclass(frozen=True)
class CsvRules:
    """How a CSV file is written: COPY's options."""

    header: bool = False
    delimiter: str = ","
    null: str = ""
    quote: str = '"'
    escape: str = '"'

    @cached_property
    def field(self) -> bytes:
        """A pattern of one field: quoted, or without any quote."""
        quote, escape, delimiter = (re.escape(each.encode()) for each in (self.quote, self.escape, self.delimiter))
        pair = (
            escape + quote
            if escape == quote
            else b"%s[%s%s]|%s(?![%s%s])" % (escape, quote, escape, escape, quote, escape)
        )
        plain = b"[^%s]*" % (quote if escape == quote else quote + escape)
        return b"(?:%s%s(?:(?:%s)%s)*%s|[^%s%s\\r\\n]*)" % (quote, plain, pair, plain, quote, quote, delimiter)

    def record(self, fields: int) -> bytes:
        """A pattern of one record without the end of its line."""
        return self.field + b"(?:%s%s){%d}" % (re.escape(self.delimiter.encode()), self.field, fields - 1)

    @cached_property
    def any_record(self) -> re.Pattern[bytes]:
        """A record with any number of fields."""
        return re.compile(
            b"%s(?:%s%s)*" % (self.field, re.escape(self.delimiter.encode()), self.field) + _LINE_END_OR_LAST
        )

    @cached_property
    def next_field(self) -> re.Pattern[bytes]:
        return re.compile(b"(%s)(%s|\\Z)" % (self.field, re.escape(self.delimiter.encode())))

    def split(self, record: bytes) -> tuple[str | None, ...]:
        """The fields of one record without the end of its line."""
        if self.quote.encode() not in record:
            return tuple(None if text == self.null else text for text in record.decode("utf-8").split(self.delimiter))
        fields: list[str | None] = []
        position = 0
        while True:
            match = self.next_field.match(record, position)
            assert match is not None
            fields.append(self._value(match[1]))
            if not match[2]:
                return tuple(fields)
            position = match.end()

    def _value(self, field: bytes) -> str | None:
        text = field.decode("utf-8")
        if not text.startswith(self.quote):
            return None if text == self.null else text
        inside, quote, escape = text[1:-1], self.quote, self.escape
        if escape not in inside:
            return inside
        return re.sub(re.escape(escape) + f"([{re.escape(quote)}{re.escape(escape)}])", r"\1", inside)


BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_bytes(path: str) -> mmap.mmap | bytes:
    """The file's content, mapped and not read."""
    try:
        with Path(path).open("rb") as file:
            if file.seek(0, 2) == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as wrong:
        raise StorageError(f'could not open file "{path}" for reading: {wrong.strerror}') from wrong


def header_of(path: str, rules: CsvRules) -> tuple[str, ...]:
    """The names in the first record of a file; none for an empty file."""
    data = read_bytes(path)
    match = rules.any_record.match(data, _start(data))
    if match is None:
        raise _broken(data, _start(data), 1, rules, path)
    try:
        fields = rules.split(match[0].rstrip(b"\r\n")) if data else ()
    except UnicodeDecodeError:
        raise _not_utf8(path, 1) from None
    return tuple(name or "" for name in fields)


def line_end_of(path: str, rules: CsvRules) -> str:
    """What ends the first record of a file, and so all of them."""
    data = read_bytes(path)
    match = rules.any_record.match(data, _start(data))
    record = match[0] if match is not None else b""
    return next((end.decode() for end in (b"\r\n", b"\n", b"\r") if record.endswith(end)), "\n")


def _start(data: mmap.mmap | bytes) -> int:
    return len(BYTE_ORDER_MARK) if data[:3] == BYTE_ORDER_MARK else 0


def records(path: str, rules: CsvRules, names: Sequence[str]) -> Iterator[Record]:
    """Each record after the header; one that has not exactly the named fields is a `BadFile` with its line."""
    data = read_bytes(path)
    pattern = re.compile(rules.record(len(names)) + _LINE_END_OR_LAST)
    position, line, end = _start(data), 1, len(data)
    first = rules.header
    while position < end:
        match = pattern.match(data, position)
        if match is None:
            raise _malformed(data, position, line, rules, names, path)
        if not first:
            try:
                yield line, rules.split(_without_line_end(match[0]))
            except UnicodeDecodeError:
                raise _not_utf8(path, line) from None
        first = False
        line += _line_ends(match[0])
        position = match.end()


def check_structure(path: str, rules: CsvRules, names: Sequence[str]) -> None:
    """Refuses a file whose records are not what the kernels would take them for; most files need no look.

    A file without quotes, carriage returns and empty lines is split the same way by everyone."""
    data = read_bytes(path)
    record = rules.record(len(names))
    many, one = re.compile(b"(?:" + record + _LINE_END + b"){1,500}"), re.compile(record + _LINE_END_OR_LAST)
    position, end = _start(data), len(data)
    is_plain = data.find(rules.quote.encode()) < 0 and data.find(b"\r") < 0
    if is_plain and not _has_empty_line(data, len(names)):
        # The first record is looked at all the same: often it is the whole file that does not fit.
        end = min(end, position + 1)
    while position < end:
        match = many.match(data, position) or one.match(data, position)
        if match is None:
            line = _line_ends(data[:position]) + 1
            raise _malformed(data, position, line, rules, names, path)
        position = match.end()


def _has_empty_line(data: mmap.mmap | bytes, fields: int) -> bool:
    if fields == 1:
        return False
    return data.find(b"\n\n") >= 0 or data.find(b"\n\r\n") >= 0 or data[:1] in (b"\n", b"\r")


def _without_line_end(record: bytes) -> bytes:
    if record.endswith(b"\r\n"):
        return record[:-2]
    return record[:-1] if record.endswith((b"\n", b"\r")) else record


def _line_ends(text: bytes) -> int:
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


# --- what is wrong ---------------------------------------------------------------------------------


def _malformed(
    data: mmap.mmap | bytes, position: int, line: int, rules: CsvRules, names: Sequence[str], path: str
) -> BadFile:
    match = rules.any_record.match(data, position)
    if match is None:
        return _broken(data, position, line, rules, path)
    try:
        found = len(rules.split(_without_line_end(match[0])))
    except UnicodeDecodeError:
        return _not_utf8(path, line)
    if found > len(names):
        return BadFile("extra data after last expected column", detail=f"{path}, line {line}")
    return BadFile(f'missing data for column "{names[found]}"', detail=f"{path}, line {line}")


def _broken(data: mmap.mmap | bytes, position: int, line: int, rules: CsvRules, path: str) -> BadFile:
    if _is_unterminated(data, position, rules):
        return BadFile("unterminated CSV quoted field", detail=f"{path}, line {line}")
    return BadFile(
        "a quote stands inside a field that is not quoted as a whole",
        detail=f"{path}, line {line}",
        hint=f"Put {rules.quote} around the whole field, and write {rules.escape}{rules.quote} for each quote inside.",
    )


def _is_unterminated(data: mmap.mmap | bytes, position: int, rules: CsvRules) -> bool:
    """Whether the fields from here on end in a quote that nothing closes."""
    delimiter, quote = rules.delimiter.encode(), rules.quote.encode()
    field = re.compile(rules.field + re.escape(delimiter))
    while (match := field.match(data, position)) is not None:
        position = match.end()
    opened = data[position : position + 1] == quote
    return opened and re.compile(rules.field).match(data, position).end() == position  # type: ignore[union-attr]


def _not_utf8(path: str, line: int) -> BadFile:
    return BadFile(
        'invalid byte sequence for encoding "UTF8"',
        detail=f"{path}, line {line}",
        hint="Convert the file to UTF-8 first.",
        sqlstate="22021",
    )
