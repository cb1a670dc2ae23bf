"""The objects of a JSON file, with the line on which each begins.

A file is either objects one after another (one on each line, usually) or one array of objects. Numbers
are kept as `Number`, the text as it was written.

    >>> list(documents("f.json"))                       # {"a": 1}⏎{"a": null}
    [(1, {'a': '1'}), (2, {'a': None})]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from midstream.errors import BadFile, StorageError

_SPACE = re.compile(r"[ \t\r\n]*")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for place, (key, _) in enumerate(pairs) if key in dict(pairs[:place]))
        raise ValueError(f'key "{twice}" stands twice in one object')
    return found


_DECODER = json.JSONDecoder(
    parse_int=str, parse_float=str, parse_constant=_refuse_constant, object_pairs_hook=_without_duplicates
)


def documents(path: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Each object with its line; what is no object is a `BadFile`."""
    text = _read(path)
    position = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    in_array = text.startswith("[", position)
    position += in_array
    line, counted = 1, 0
    while True:
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
        if position >= len(text) or (in_array and text[position] == "]"):
            return
        line, counted = line + text.count("\n", counted, position), position
        document, position = _document_at(text, position, line, path)
        yield line, document
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
        if in_array and text.startswith(",", position):
            position += 1


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise BadFile('invalid byte sequence for encoding "UTF8"', detail=path, sqlstate="22021") from wrong
    except OSError as wrong:
        raise StorageError(f'could not open file "{path}" for reading: {wrong.strerror}') from wrong


def _document_at(text: str, position: int, line: int, path: str) -> tuple[dict[str, object], int]:
    try:
        document, end = _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError) as wrong:
        raise _not_json(wrong, line, path) from None
    if not isinstance(document, dict):
        raise BadFile("a row of a JSON file must be an object", detail=f"{path}, line {line}", sqlstate="22P02")
    return document, end


def _not_json(wrong: Exception, line: int, path: str) -> BadFile:
    if isinstance(wrong, json.JSONDecodeError):
        line, why = wrong.lineno, wrong.msg
    else:
        why = str(wrong)
    return BadFile("invalid input syntax for type json", detail=f"{path}, line {line}: {why}", sqlstate="22P02")
