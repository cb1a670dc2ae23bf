"""INSERT … VALUES of plain literals, read by one regular expression instead of the grammar.

A thousand rows take a few milliseconds, because no token or node is made for a value. What the expression
does not cover (expressions, comments, rows of unequal length, a mistake) gives None, and the grammar reads the
statement with the same meaning.

    >>> read_bulk_insert(Source("INSERT INTO t VALUES (1, 'a'), (2, NULL)"), 0)[0].rows
    ((1, 'a'), (2, None))
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

from midstream.sql.keywords import NO_BARE_NAME
from midstream.sql.lexer import Source, skip_space, unescape
from midstream.sql.statements import DEFAULT, InsertValues

_SPACE = r"[ \t\n\r\f\v]"
_NAME = r'[A-Za-z_][A-Za-z0-9_$]*|"(?:[^"]|"")+"'
_HEADER = re.compile(
    rf"insert{_SPACE}+into{_SPACE}+(?:public\.)?({_NAME})"
    rf"(?:{_SPACE}*\({_SPACE}*((?:{_NAME})(?:{_SPACE}*,{_SPACE}*(?:{_NAME}))*){_SPACE}*\))?"
    rf"{_SPACE}*\bvalues{_SPACE}*(?=\()",
    re.IGNORECASE,
)
_VALUE = (
    r"('[^']*(?:''[^']*)*'|[-+]?(?:[0-9]{1,300}(?:\.[0-9]{1,300})?|\.[0-9]{1,300})(?:[eE][-+]?[0-9]{1,4})?"
    r"|[nN][uU][lL][lL]|[tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|[dD][eE][fF][aA][uU][lL][tT]"
    r"|[eE]'(?:[^'\\]|''|\\.)*')"
)
_FIRST_ROW = re.compile(rf"\({_SPACE}*{_VALUE}(?:{_SPACE}*,{_SPACE}*{_VALUE})*{_SPACE}*\)", re.DOTALL)
_ONE_VALUE = re.compile(_VALUE, re.DOTALL)
_ONE_NAME = re.compile(_NAME)
_FRACTION = re.compile("[.eE]")
_WORDS = {"null": None, "true": True, "false": False, "default": DEFAULT}


@lru_cache(maxsize=64)
def _row_patterns(width: int) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A row with the comma behind it, and a row alone."""
    comma = f"{_SPACE}*,{_SPACE}*"
    row = rf"\({_SPACE}*{comma.join([_VALUE] * width)}{_SPACE}*\)"
    return re.compile(row + comma, re.DOTALL), re.compile(row, re.DOTALL)


def read_bulk_insert(source: Source, start: int) -> tuple[InsertValues, int] | None:
    """The insert that begins at an offset, and where the next statement begins."""
    header = _HEADER.match(source.text, start)
    if header is None:
        return None
    names = [_name(written) for written in (header[1], *_ONE_NAME.findall(header[2] or ""))]
    written_rows = _written_rows(source.text, header.end())
    if None in names or written_rows is None:
        return None
    rows, end = written_rows
    after = skip_space(source, end)
    if after < len(source.text) and source.text[after] != ";":
        return None
    table, *columns = [name for name in names if name is not None]
    values = tuple(zip(*[_column(source, start, texts) for texts in zip(*rows, strict=True)], strict=True))
    statement = InsertValues(table, tuple(columns), values, text=source.text[start:end], start=source.position(start))
    return statement, after + 1


def _written_rows(text: str, at: int) -> tuple[list[tuple[str, ...]], int] | None:
    first = _FIRST_ROW.match(text, at)
    if first is None:
        return None
    with_comma, alone = _row_patterns(len(_ONE_VALUE.findall(text, at, first.end())))
    rows = []
    match = with_comma.match(text, at)
    while match is not None:
        rows.append(match.groups())
        at = match.end()
        match = with_comma.match(text, at)
    last = alone.match(text, at)
    if last is None:
        return None
    rows.append(last.groups())
    return rows, last.end()


def _name(written: str) -> str | None:
    """The name that a text stands for; None if it cannot be one."""
    if written[0] == '"':
        return written[1:-1].replace('""', '"')
    lower = written.lower()
    return None if lower in NO_BARE_NAME else lower


def _column(source: Source, start: int, texts: tuple[str, ...]) -> list[object]:
    """The values of one column. Most columns are of one kind, which is read without a look at each value."""
    if all(map(str.isdigit, texts)):
        return list(map(int, texts))
    if all(text[0] == "'" for text in texts):
        return [text[1:-1].replace("''", "'") for text in texts]
    return [_value(source, start, text) for text in texts]


def _value(source: Source, start: int, text: str) -> object:
    first = text[0]
    if first == "'":
        return text[1:-1].replace("''", "'")
    if text.isdigit():
        return int(text)
    if first in "0123456789+-.":
        return Decimal(text) if _FRACTION.search(text) else int(text)
    if first in "eE":
        return unescape(source, text[2:-1], start)
    return _WORDS[text.lower()]
