"""How a type is called by each kernel, by Arrow and in Parquet files.

An interval is stored in Parquet as struct<months, days, microseconds>, since neither kernel's own form
can be read by the other. Spark SQL computes with that struct; DuckDB with its own INTERVAL.

    >>> duckdb_type(NUMERIC(10, 2)), spark_type(TIMESTAMP)
    ('DECIMAL(10,2)', 'timestamp_ntz')
"""

from __future__ import annotations

import pyarrow as pa

from midstream.types import Type

_DUCKDB = {
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "char": "VARCHAR",
    "json": "VARCHAR",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "interval": "INTERVAL",
    "bytea": "BLOB",
    "null": "INTEGER",
}
_SPARK = {
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "real": "float",
    "double precision": "double",
    "boolean": "boolean",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "json": "string",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp_ltz",
    "interval": "struct<months: int, days: int, microseconds: bigint>",
    "bytea": "binary",
    "null": "int",
}
_ARROW: dict[str, pa.DataType] = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "json": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "interval": pa.month_day_nano_interval(),
    "bytea": pa.binary(),
    "null": pa.int32(),
}
STORED_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])


def duckdb_type(type_: Type) -> str:
    if type_.element is not None:
        return f"{duckdb_type(type_.element)}[]"
    if type_.name == "numeric":
        return f"DECIMAL({type_.precision},{type_.scale})"
    return _DUCKDB[type_.name]


def spark_type(type_: Type) -> str:
    if type_.element is not None:
        return f"array<{spark_type(type_.element)}>"
    if type_.name == "numeric":
        return f"decimal({type_.precision},{type_.scale})"
    return _SPARK[type_.name]


def arrow_type(type_: Type) -> pa.DataType:
    """What an answer has in memory."""
    if type_.element is not None:
        return pa.list_(arrow_type(type_.element))
    if type_.name == "numeric":
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.name]


def stored_arrow_type(type_: Type) -> pa.DataType:
    """What Parquet files hold."""
    if type_.element is not None:
        return pa.list_(stored_arrow_type(type_.element))
    return STORED_INTERVAL if type_.name == "interval" else arrow_type(type_)


def plain_table(table: pa.Table) -> pa.Table:
    """The same rows with the one Arrow type for each SQL type that both kernels agree on, all columns nullable."""
    schema = pa.schema([pa.field(field.name, _plain(field.type)) for field in table.schema])
    if schema.equals(table.schema, check_metadata=True):
        return table
    return pa.table([_recast(c, f.type) for c, f in zip(table.columns, schema, strict=True)], schema=schema)


def _recast(column: pa.ChunkedArray, to: pa.DataType) -> pa.ChunkedArray:
    if _is_stored_interval(column.type):
        return pa.chunked_array([_intervals(chunk) for chunk in column.chunks], to)
    return column if column.type == to and not pa.types.is_nested(to) else column.cast(to)


def _is_stored_interval(type_: pa.DataType) -> bool:
    return pa.types.is_struct(type_) and [field.name for field in type_] == [field.name for field in STORED_INTERVAL]


def _intervals(stored: pa.StructArray) -> pa.Array:
    values = [None if v is None else _interval(v["months"], v["days"], v["microseconds"]) for v in stored.to_pylist()]
    return pa.array(values, pa.month_day_nano_interval())


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
