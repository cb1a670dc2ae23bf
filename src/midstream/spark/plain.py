"""Tables as both kernels hand them back: one Arrow type for each SQL type.

DuckDB and Spark name the elements of lists differently, and Spark computes with the struct that stands for an
interval; what people get is the same from either.

    >>> plain_table(pa.table({"a": pa.array(["x"], pa.large_string())})).schema.types
    [DataType(string)]
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from midstream.kernels import STORED_INTERVAL


def plain_table(table: pa.Table) -> pa.Table:
    """The same rows with the one Arrow type for each SQL type that both kernels agree on, all columns nullable."""
    schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in table.schema])
    if schema.equals(table.schema, check_metadata=True):
        return table
    return pa.table([_recast(c, f.type) for c, f in zip(table.columns, schema, strict=True)], schema=schema)


def _recast(column: pa.ChunkedArray, to: pa.DataType) -> pa.ChunkedArray:
    if _holds_stored_interval(column.type):
        return pa.chunked_array([_intervals(chunk) for chunk in column.chunks], to)
    return column if column.type == to and not pa.types.is_nested(to) else column.cast(to)


def _is_stored_interval(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) and [field.name for field in type_] == [field.name for field in STORED_INTERVAL]


def _holds_stored_interval(type_: pa.DataType) -> bool:
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return _holds_stored_interval(type_.value_type)
    return _is_stored_interval(type_)


def _intervals(stored: pa.Array) -> pa.Array:
    return pa.array([_with_intervals(value) for value in stored.to_pylist()], _plain(stored.type))


def _with_intervals(value: Any) -> object:
    """A stored interval as one, or each in an array of them."""
    if isinstance(value, list):
        return [_with_intervals(item) for item in value]
    return None if value is None else _interval(value["months"], value["days"], value["microseconds"])


def _interval(months: int, days: int, microseconds: int) -> pa.MonthDayNano:
    return pa.MonthDayNano([months, days, microseconds * 1000])


def _plain(type_: pa.DataType) -> pa.DataType:
    if _is_stored_interval(type_):
        return pa.month_day_nano_interval()
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    return type_
