"""Rows written to a file: COPY … TO.

The file appears whole or not at all: it is written under another name beside its place and renamed. CSV is
as PostgreSQL writes it, so that COPY FROM reads back the same rows: NULL is nothing, empty text is `""`.

    >>> export(pa.table({"a": [1, None]}), [INT], "out.csv", {"header": True})
    2
"""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.errors import InvalidParameter, OutOfResources, StorageError
from midstream.ingest.arrow_types import arrow_schema
from midstream.ingest.conform import conform
from midstream.ingest.csv_records import CsvRules
from midstream.ingest.files import csv_rules, file_format
from midstream.ingest.printed import print_value
from midstream.relations.table import Column
from midstream.types import Type

_ROWS_AT_ONCE = 50_000
Batches = Iterable[Any]
"""An Arrow table, a reader, or record batches one after another."""


def export(
    rows: Batches, types: Sequence[Type], path: str, options: Mapping[str, object], names: Sequence[str] | None = None
) -> int:
    """Writes the rows in the format of the options or of the path's suffix, and says how many they were."""
    format = file_format(options, [path])
    rules = csv_rules(options, format)
    batches = _batches(rows)
    if format == "parquet":
        return _replace(path, lambda file: _write_parquet(file, batches, types, names))
    if format == "json":
        return _replace(path, lambda file: _write_json(file, batches, types, names))
    return _replace(path, lambda file: write_csv(file, batches, types, rules, names))


def _batches(rows: Batches) -> Iterable[pa.Table]:
    if isinstance(rows, pa.Table):
        if rows.num_rows == 0:
            yield rows
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            yield rows.slice(start, _ROWS_AT_ONCE)
        return
    for batch in rows:
        yield batch if isinstance(batch, pa.Table) else pa.Table.from_batches([batch])


def _replace(path: str, write: Callable[[BinaryIO], int]) -> int:
    """Writes beside the path and renames; whatever goes wrong, the path is as it was."""
    path = path.removeprefix("file://")
    if os.path.isdir(path):
        raise InvalidParameter(f'could not open file "{path}" for writing: Is a directory', sqlstate="42809")
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{uuid.uuid4().hex}")
    try:
        with open(beside, "xb") as file:
            rows = write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as wrong:
        raise _cannot_write(path, wrong) from wrong
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
    return rows


def _cannot_write(path: str, wrong: OSError) -> StorageError | OutOfResources:
    message = f'could not write file "{path}": {wrong.strerror or wrong}'
    if wrong.errno == 28:
        return OutOfResources(message, sqlstate="53100")
    return StorageError(message, sqlstate="58P01" if wrong.errno == 2 else "58030")


# --- Parquet ---------------------------------------------------------------------------------------


def _write_parquet(
    file: BinaryIO, batches: Iterable[pa.Table], types: Sequence[Type], names: Sequence[str] | None
) -> int:
    writer: pq.ParquetWriter | None = None
    rows = 0
    for batch in batches:
        columns = [Column(name, t) for name, t in zip(names or batch.column_names, types, strict=True)]
        if writer is None:
            _check_different([column.name for column in columns])
            writer = pq.ParquetWriter(file, arrow_schema(columns))
        writer.write_table(conform(batch, columns, relation="the result", by_name=False))
        rows += batch.num_rows
    if writer is not None:
        writer.close()
    return rows


def _check_different(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(
                f'two columns of the result are called "{name}"', hint="Give them different names with AS."
            )


# --- CSV -------------------------------------------------------------------------------------------


def write_csv(
    file: BinaryIO,
    batches: Iterable[pa.Table],
    types: Sequence[Type],
    rules: CsvRules,
    names: Sequence[str] | None = None,
) -> int:
    """CSV lines as PostgreSQL writes them; with HEADER the names come first."""
    rows = 0
    header = rules.header
    for batch in batches:
        if header:
            written = [_quoted_field(name, rules) for name in (names or batch.column_names)]
            file.write((rules.delimiter.join(written) + "\n").encode())
            header = False
        rows += batch.num_rows
        texts = [texts_of(column, type) for column, type in zip(batch.columns, types, strict=True)]
        fields = [_csv_field(column, rules, alone=len(texts) == 1) for column in texts]
        _write_lines(file, fields, rules.delimiter, batch.num_rows)
    return rows


def _quoted_field(text: str, rules: CsvRules) -> str:
    return cast(str, _csv_field(pa.array([text]), rules)[0].as_py())


def _csv_field(texts: pa.Array, rules: CsvRules, alone: bool = False) -> pa.Array:
    """Quotes around what would else be read as NULL, as another field or as another line."""
    special = "".join("\\" + each for each in {rules.delimiter, rules.quote}) + "\\r\\n"
    needs = pc.or_(pc.match_substring_regex(texts, f"[{special}]"), pc.equal(texts, rules.null))
    if alone:
        # On a line of its own it would end the data for PostgreSQL.
        needs = pc.or_(needs, pc.equal(texts, "\\."))
    escaped = texts
    if rules.escape != rules.quote:
        escaped = pc.replace_substring(escaped, rules.escape, rules.escape * 2)
    escaped = pc.replace_substring(escaped, rules.quote, rules.escape + rules.quote)
    inside = pc.binary_join_element_wise(rules.quote, escaped, rules.quote, "")
    return pc.fill_null(pc.if_else(needs, inside, texts), rules.null)


def _write_lines(file: BinaryIO, fields: Sequence[pa.Array], delimiter: str, rows: int) -> None:
    if not fields or not rows:
        file.write(b"\n" * rows)
        return
    joined = pc.binary_join_element_wise(*fields, delimiter) if len(fields) > 1 else fields[0]
    file.write("\n".join(joined.to_pylist()).encode() + b"\n")


def texts_of(column: pa.ChunkedArray, type: Type) -> pa.Array:
    """A column as PostgreSQL prints it."""
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    if type.is_integer or type.is_text or type.name in ("json", "date"):
        return array.cast(pa.string())
    if type.name == "boolean":
        return pc.if_else(array, "t", "f")
    if type.name in ("timestamp", "timestamptz"):
        return _moment_texts(array, type)
    if type.name == "numeric" and (type.scale or 0) <= _LARGEST_PLAIN_SCALE:
        return array.cast(pa.string())
    return pa.array([None if v is None else print_value(type, v) for v in array.to_pylist()], pa.string())


_LARGEST_PLAIN_SCALE = 6
"""Arrow prints smaller decimals with an exponent."""


def _moment_texts(array: pa.Array, type: Type) -> pa.Array:
    microseconds = array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())
    texts = microseconds.cast(pa.timestamp("us")).cast(pa.string())
    texts = pc.replace_substring_regex(texts, r"\.?0+$", "")
    return pc.binary_join_element_wise(texts, "+00", "") if type.name == "timestamptz" else texts


# --- JSON ------------------------------------------------------------------------------------------


def _write_json(file: BinaryIO, batches: Iterable[pa.Table], types: Sequence[Type], names: Sequence[str] | None) -> int:
    """One object for each row, on a line of its own; NULLs are null."""
    rows = 0
    for batch in batches:
        written = list(names or batch.column_names)
        _check_different(written)
        keys = [json.dumps(name, ensure_ascii=False) + ":" for name in written]
        columns = [
            [key + text for text in _json_texts(column, type)]
            for key, column, type in zip(keys, batch.columns, types, strict=True)
        ]
        lines = ("{" + ",".join(fields) + "}\n" for fields in zip(*columns, strict=True))
        file.write("".join(lines).encode())
        rows += batch.num_rows
    return rows


def json_object(columns: Iterable[tuple[str, Type]], row: Mapping[str, object]) -> str:
    """One row of plain Python values, written as a row of a file is."""
    fields = (f"{json.dumps(name, ensure_ascii=False)}:{_json_value(row[name], type)}" for name, type in columns)
    return "{" + ",".join(fields) + "}"


def _json_texts(column: pa.ChunkedArray, type: Type) -> list[str]:
    if type.is_integer or type.name == "numeric":
        return cast("list[str]", pc.fill_null(texts_of(column, type), "null").to_pylist())
    if type.is_text:
        return ["null" if text is None else encode_basestring(text) for text in column.to_pylist()]
    if type.is_time:
        return ["null" if text is None else _json_moment(text, type) for text in texts_of(column, type).to_pylist()]
    return [_json_value(value, type) for value in column.to_pylist()]


def _json_moment(text: str, type: Type) -> str:
    iso = text.replace(" ", "T")
    return f'"{iso}:00"' if type.name == "timestamptz" else f'"{iso}"'


def _json_value(value: Any, type: Type) -> str:
    if value is None:
        return "null"
    if type.name == "json":
        # JSON has no line ends inside strings: those that are there are only layout.
        return cast(str, value).replace("\r", " ").replace("\n", " ")
    if type.element is not None:
        return "[" + ",".join(_json_value(each, type.element) for each in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, Decimal)) or (isinstance(value, float) and math.isfinite(value)):
        return print_value(type, value)
    if isinstance(value, datetime):
        return _json_moment(print_value(type, value), type)
    return json.dumps(print_value(type, value), ensure_ascii=False)
