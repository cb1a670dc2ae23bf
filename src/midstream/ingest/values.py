"""Python values as a column's values, by PostgreSQL's assignment casts.

A `str` is a literal without a type: it is read as the column's type. A number may become text, 1.5 becomes
2 in an int column, and true does not become 1. Columns whose values are all of one plain kind are
converted by Arrow's own loops.

    >>> values_to_arrow([(1, "2020-01-02"), (2, None)], columns, relation="days").num_rows
    2
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import cast

import pyarrow as pa

from midstream.errors import DataError, Error, SqlSyntaxError, TypeMismatch
from midstream.ingest.arrow_types import arrow_schema, arrow_type
from midstream.ingest.faults import BadRow, convert_columns, match_names, missing_column
from midstream.ingest.printed import print_value
from midstream.ingest.texts import fit_numeric, fit_text, fits_integer, is_out_of_float_range, parse_text, parse_texts
from midstream.relations.table import Column
from midstream.types import DOUBLE, Type

_LARGEST_EXACT_DIGITS = 38


def values_to_arrow(
    rows: Sequence[Sequence[object]], columns: Sequence[Column], *, relation: str, first_row: int = 1
) -> pa.Table:
    """Rows by position as the table's physical columns. `first_row` is the number of the first in errors."""
    _check_lengths(rows, len(columns))
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = convert_columns(
        columns,
        lambda number, column: column_to_arrow(by_column[number], column),
        relation=relation,
        row_at=lambda row: rows[row],
        first_row=first_row,
    )
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _check_lengths(rows: Sequence[Sequence[object]], expected: int) -> None:
    lengths = set(map(len, rows))
    if lengths <= {expected}:
        return
    number, row = next((number, row) for number, row in enumerate(rows, 1) if len(row) != expected)
    more = "more expressions than target columns" if len(row) > expected else "more target columns than expressions"
    raise SqlSyntaxError(f"INSERT has {more}", detail=f"Row {number} has {len(row)} values for {expected} columns.")


def dicts_to_arrow(
    rows: Sequence[Mapping[str, object]],
    columns: Sequence[Column],
    *,
    relation: str,
    defaults: Mapping[str, object] | None = None,
) -> pa.Table:
    """Rows by name. A key that a row lacks is the column's default, or NULL; a key too many is an error."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    written = {column: names[at] for column, at in match_names(names, columns, relation).items()}
    defaults = defaults or {}
    for column in columns if rows else ():
        if column.not_null and column.name not in written and column.name not in defaults:
            raise missing_column(column.name, relation)
    keys = [(written.get(column.name, column.name), defaults.get(column.name)) for column in columns]
    return values_to_arrow(
        [[row.get(key, default) for key, default in keys] for row in rows], columns, relation=relation
    )


# --- one column ------------------------------------------------------------------------------------


def column_to_arrow(values: Sequence[object], column: Column) -> pa.Array:
    """One column's values; the first that does not fit is a `BadRow`."""
    kinds = set(map(type, values))
    kinds.discard(_NONE)
    fast = _of_one_kind(values, kinds, column.type) if len(kinds) <= 1 else None
    return fast if fast is not None else _one_by_one(values, column)


_NONE = type(None)
_AS_IT_IS = {
    bool: ("boolean",),
    int: ("smallint", "int", "bigint", "numeric"),
    float: ("double precision",),
    Decimal: ("numeric",),
    bytes: ("bytea",),
}


def _of_one_kind(values: Sequence[object], kinds: set[type], to: Type) -> pa.Array | None:
    if not kinds:
        return pa.nulls(len(values), arrow_type(to))
    [kind] = kinds
    if kind is str:
        return _of_texts(cast("Sequence[str | None]", values), to)
    if to.name not in _AS_IT_IS.get(kind, ()):
        return None
    try:
        return pa.array(values, arrow_type(to))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


def _of_texts(values: Sequence[str | None], to: Type) -> pa.Array | None:
    try:
        texts = pa.array(values, pa.string())
    except UnicodeEncodeError:
        return None
    return parse_texts(to, texts)


def _one_by_one(values: Sequence[object], column: Column) -> pa.Array:
    converted: list[object] = []
    for row, value in enumerate(values):
        try:
            converted.append(assign(value, column.type, column.name))
        except Error as error:
            raise BadRow(row, error) from None
    return pa.array(converted, arrow_type(column.type))


# --- one value -------------------------------------------------------------------------------------


def assign(value: object, to: Type, column: str) -> object:
    """A Python value as the value that is stored in a column of type `to`."""
    if value is None:
        return None
    if isinstance(value, str):
        return parse_text(to, _encodable(str(value)))
    if to.element is not None and isinstance(value, (list, tuple)):
        return [assign(each, to.element, column) for each in value]
    if to.name == "json" and isinstance(value, (list, tuple, dict)):
        return _as_json(value)
    if to.is_text:
        return fit_text(to, _as_text(value, to, column))
    if isinstance(value, bool):
        return value if to.name == "boolean" else _refuse("boolean", to, column)
    if isinstance(value, (int, float, Decimal)):
        return _assign_number(value, to, column)
    if isinstance(value, date):
        return _assign_moment(value, to, column)
    if isinstance(value, timedelta) and to.name == "interval":
        return {"months": 0, "days": value.days, "microseconds": value.seconds * 1_000_000 + value.microseconds}
    if isinstance(value, pa.MonthDayNano) and to.name == "interval":
        return {"months": value.months, "days": value.days, "microseconds": value.nanoseconds // 1000}
    if isinstance(value, (bytes, bytearray, memoryview)) and to.name == "bytea":
        return bytes(value)
    if hasattr(value, "item"):  # a scalar of numpy
        return assign(value.item(), to, column)
    return _refuse(_kind_of(value), to, column)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None
    return text


def _assign_number(value: int | float | Decimal, to: Type, column: str) -> object:
    if to.is_integer:
        whole = _rounded(value)
        if whole is None or not fits_integer(to, whole):
            raise DataError(f"{to} out of range", sqlstate="22003")
        return whole
    if to.is_float:
        return _as_float(value, to)
    if to.name == "numeric":
        return fit_numeric(to, _as_decimal(value))
    return _refuse(_kind_of(value), to, column)


def _rounded(value: int | float | Decimal) -> int | None:
    """Numerics round half away from zero and floats half to even; what is no number has no integer."""
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return None
    if isinstance(value, float):
        return round(value)
    return int(value.to_integral_value(ROUND_HALF_UP)) if value.adjusted() < _LARGEST_EXACT_DIGITS else None


def _as_float(value: int | float | Decimal, to: Type) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if is_out_of_float_range(to, number) and not (isinstance(value, float) and math.isinf(value)):
        raise DataError(f'"{value}" is out of range for type {to}', sqlstate="22003")
    return number


def _as_decimal(value: int | float | Decimal) -> Decimal:
    if not math.isfinite(value):
        raise DataError(f'"{value}" cannot be stored in a numeric', hint="Use double precision.", sqlstate="22003")
    # PostgreSQL keeps the 15 digits of a float that are sure.
    return Decimal(f"{value:.15g}") if isinstance(value, float) else Decimal(value)


def _assign_moment(value: date, to: Type, column: str) -> object:
    if to.name == "date":
        return value.date() if isinstance(value, datetime) else value
    if to.name not in ("timestamp", "timestamptz"):
        return _refuse(_kind_of(value), to, column)
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    moment = moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return moment if to.name == "timestamptz" else moment.replace(tzinfo=None)


def _as_text(value: object, to: Type, column: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float, Decimal, date, timedelta)):
        return print_value(DOUBLE if isinstance(value, float) else to, value)
    if _kind_of(value) == "uuid":
        return str(value)
    return cast(str, _refuse(_kind_of(value), to, column))


def _as_json(value: object) -> str:
    try:
        return _encodable(json.dumps(value, ensure_ascii=False, allow_nan=False, default=str))
    except (ValueError, TypeError, RecursionError) as wrong:
        raise DataError("invalid input syntax for type json", detail=f"{wrong}.", sqlstate="22P02") from None


_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "int"),
    (float, "double precision"),
    (Decimal, "numeric"),
    (datetime, "timestamp"),
    (date, "date"),
    (timedelta, "interval"),
    (bytes, "bytea"),
    (list, "array"),
    (tuple, "array"),
)


def _kind_of(value: object) -> str:
    named = (name for kind, name in _KINDS if isinstance(value, kind))
    return next(named, type(value).__name__.lower())


def _refuse(kind: str, to: Type, column: str) -> object:
    raise mismatch(kind, to, column)


def mismatch(kind: str, to: Type, column: str) -> TypeMismatch:
    return TypeMismatch(
        f'column "{column}" is of type {to} but expression is of type {kind}',
        hint="You will need to rewrite or cast the expression.",
    )
