"""Rows for programs: CSV, JSON lines and Arrow.

CSV is what `COPY … FROM … CSV HEADER` reads back: nothing is NULL, `""` is empty text. JSON is one object a
line, with numbers of any precision as they are. Arrow is the IPC stream format.

    >>> print(json_line(["id", "name"], ["bigint", "text"], (1, "Ada")))
    {"id": 1, "name": "Ada"}
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, BinaryIO, Literal

import pyarrow as pa

from midstream.ingest.printed import plain, plain_float

if TYPE_CHECKING:
    from midstream import Result


Format = Literal["table", "csv", "json", "arrow"]


def write_csv(result: Result, stream: BinaryIO) -> None:
    _write_line(stream, ",".join(_csv_field(name) for name in result.columns))
    for row in result.fetchall():
        _write_line(stream, ",".join(_csv_field(value) for value in row))


def write_json(result: Result, stream: BinaryIO) -> None:
    names = unique_names(result.columns)
    for row in result.fetchall():
        _write_line(stream, json_line(names, result.types, row))


def write_arrow(result: Result, stream: BinaryIO) -> None:
    table = result.arrow()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)


def json_line(names: Sequence[str], types: Sequence[str], row: Sequence[object]) -> str:
    cells = zip(names, types, row, strict=True)
    return "{" + ", ".join(f"{json.dumps(name)}: {_json_value(value, type)}" for name, type, value in cells) + "}"


def unique_names(columns: Sequence[str]) -> list[str]:
    """A query may give one name to two columns, an object may not: the second `n` becomes `n_2`."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _write_line(stream: BinaryIO, line: str) -> None:
    stream.write(line.encode() + b"\n")


def _csv_field(value: object) -> str:
    if value is None:
        return ""
    text = plain(value)
    if text == "" or any(character in text for character in ',"\n\r') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _json_value(value: object, type: str) -> str:
    match value:
        case float() if not math.isfinite(value):
            return json.dumps(plain_float(value))
        case Decimal():
            return format(value, "f")
        case list() | tuple():
            return "[" + ", ".join(_json_value(item, type.removesuffix("[]")) for item in value) + "]"
        case str() if type == "json":
            return " ".join(value.splitlines())
        case None | bool() | int() | float() | str():
            return json.dumps(value, ensure_ascii=False)
        case datetime() | date() | time():
            return json.dumps(value.isoformat())
        case _:
            return json.dumps(plain(value), ensure_ascii=False)
