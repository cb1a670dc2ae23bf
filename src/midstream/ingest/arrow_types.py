"""SQL types as Arrow types, and Arrow values as plain Python values.

`arrow_type` is what a column is stored as; `from_arrow(arrow_type(t)) == t` for every type but varchar,
char and json, which are all stored as strings. `to_rows` gives what a result's rows are made of.

    >>> arrow_type(NUMERIC(10, 2)), from_arrow(pa.uint32())
    (Decimal128Type(decimal128(10, 2)), Type(bigint))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, cast

import pyarrow as pa
import pyarrow.types as pat

from midstream.errors import TypeMismatch
from midstream.ingest.printed import print_interval
from midstream.kernels import STORED_INTERVAL, stored_type
from midstream.relations.table import Column
from midstream.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    JSON,
    MAX_PRECISION,
    NULL,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array_of,
)

INTERVAL_STRUCT = STORED_INTERVAL


def arrow_type(type: Type) -> pa.DataType:
    """What a value of the type is stored as."""
    return stored_type(type)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The physical schema of a table's own columns, in order."""
    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in columns])


# --- from Arrow ------------------------------------------------------------------------------------

_PLAIN: tuple[tuple[Callable[[pa.DataType], bool], Type], ...] = (
    (pat.is_null, NULL),
    (pat.is_boolean, BOOLEAN),
    (pat.is_int8, SMALLINT),
    (pat.is_uint8, SMALLINT),
    (pat.is_int16, SMALLINT),
    (pat.is_uint16, INT),
    (pat.is_int32, INT),
    (pat.is_uint32, BIGINT),
    (pat.is_int64, BIGINT),
    (pat.is_uint64, NUMERIC(20, 0)),
    (pat.is_float16, REAL),
    (pat.is_float32, REAL),
    (pat.is_float64, DOUBLE),
    (pat.is_string, TEXT),
    (pat.is_large_string, TEXT),
    (pat.is_string_view, TEXT),
    (pat.is_binary, BYTEA),
    (pat.is_large_binary, BYTEA),
    (pat.is_binary_view, BYTEA),
    (pat.is_fixed_size_binary, BYTEA),
    (pat.is_date, DATE),
    (pat.is_duration, INTERVAL),
)


def from_arrow(type: pa.DataType) -> Type:
    """The SQL type that holds every value of an Arrow type."""
    for is_one, sql_type in _PLAIN:
        if is_one(type):
            return sql_type
    if pat.is_timestamp(type):
        return TIMESTAMP if type.tz is None else TIMESTAMPTZ
    if pat.is_decimal(type):
        return _numeric(type)
    if pat.is_dictionary(type) or pat.is_run_end_encoded(type):
        return from_arrow(type.value_type)
    if is_arrow_list(type):
        return array_of(from_arrow(type.value_type))
    if type == INTERVAL_STRUCT or type == pa.month_day_nano_interval():
        return INTERVAL
    if isinstance(type, pa.BaseExtensionType) and type.extension_name == "arrow.json":
        return JSON
    raise TypeMismatch(f"Arrow type {type} has no SQL type", hint=_way_out(type))


def is_arrow_list(type: pa.DataType) -> bool:
    return bool(
        pat.is_list(type)
        or pat.is_large_list(type)
        or pat.is_fixed_size_list(type)
        or pat.is_list_view(type)
        or pat.is_large_list_view(type)
    )


def _numeric(type: Any) -> Type:
    precision, scale = type.precision, type.scale
    if scale < 0:
        precision, scale = precision - scale, 0
    precision = max(precision, scale)
    if precision > MAX_PRECISION:
        raise TypeMismatch(
            f"Arrow type {type} has no SQL type", hint=f"A numeric has at most {MAX_PRECISION} digits: cast it first."
        )
    return NUMERIC(precision, scale)


def _way_out(type: pa.DataType) -> str:
    if pat.is_nested(type):
        return "Turn it into columns of its own, or into JSON text."
    return "Cast it to text or to a number first."


# --- to plain Python values ------------------------------------------------------------------------


def to_rows(table: pa.Table, types: Sequence[Type]) -> list[tuple[object, ...]]:
    """The rows as tuples of plain Python values."""
    if not types:
        return [()] * table.num_rows
    columns = [python_values(column, type) for column, type in zip(table.columns, types, strict=True)]
    return list(zip(*columns, strict=True))


def python_values(column: pa.ChunkedArray | pa.Array, type: Type) -> list[object]:
    """One column as plain Python values."""
    try:
        values = _moments(column) if pat.is_timestamp(column.type) else cast("list[object]", column.to_pylist())
    except (OverflowError, ValueError):
        # Python's dates end at year 9999: a later one is given as text.
        return cast("list[object]", column.cast(pa.string()).to_pylist())
    if not holds_interval(type):
        return values
    return [python_value(value, type) for value in values]


def _moments(column: pa.ChunkedArray | pa.Array) -> list[object]:
    """Timestamps by adding to the epoch: several times faster than Arrow's own conversion."""
    epoch = datetime(1970, 1, 1, tzinfo=None if column.type.tz is None else timezone.utc)
    microseconds = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    return [None if each is None else epoch + timedelta(0, 0, each) for each in microseconds]


def python_value(value: object, type: Type) -> object:
    """One stored value as a plain Python value: intervals are the only ones that differ."""
    if value is None:
        return None
    if type.element is not None:
        return [python_value(each, type.element) for each in cast("list[object]", value)]
    if type.name == "interval" and isinstance(value, dict):
        return _python_interval(value["months"], value["days"], value["microseconds"])
    if isinstance(value, pa.MonthDayNano):
        return _python_interval(value.months, value.days, value.nanoseconds // 1000)
    return value


def holds_interval(type: Type) -> bool:
    return type.name == "interval" or (type.element is not None and holds_interval(type.element))


def _python_interval(months: int, days: int, microseconds: int) -> timedelta | str:
    if months == 0 and abs(days) < timedelta.max.days:
        try:
            return timedelta(days=days, microseconds=microseconds)
        except OverflowError:
            pass
    return print_interval(months, days, microseconds)
