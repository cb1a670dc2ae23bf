"""The two kernels: what each calls a type, a name and a text, and what Parquet files hold.

An interval is stored as struct<months, days, microseconds>, since neither kernel's own form can be read
by the other. DuckDB computes with its own INTERVAL, Spark SQL with that struct.

    >>> kernel_type(NUMERIC(10, 2), "duckdb"), kernel_type(TIMESTAMP, "spark"), quote_name("a b", "spark")
    ('DECIMAL(10, 2)', 'TIMESTAMP_NTZ', '`a b`')
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa

from midstream.types import Type

Kernel = Literal["duckdb", "spark"]
KERNELS: tuple[Kernel, ...] = ("duckdb", "spark")

STORED_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
_TYPES: dict[str, tuple[str, str, pa.DataType]] = {
    "smallint": ("SMALLINT", "SMALLINT", pa.int16()),
    "int": ("INTEGER", "INT", pa.int32()),
    "bigint": ("BIGINT", "BIGINT", pa.int64()),
    "real": ("FLOAT", "FLOAT", pa.float32()),
    "double precision": ("DOUBLE", "DOUBLE", pa.float64()),
    "boolean": ("BOOLEAN", "BOOLEAN", pa.bool_()),
    "text": ("VARCHAR", "STRING", pa.string()),
    "varchar": ("VARCHAR", "STRING", pa.string()),
    "char": ("VARCHAR", "STRING", pa.string()),
    "json": ("VARCHAR", "STRING", pa.string()),
    "date": ("DATE", "DATE", pa.date32()),
    "timestamp": ("TIMESTAMP", "TIMESTAMP_NTZ", pa.timestamp("us")),
    "timestamptz": ("TIMESTAMPTZ", "TIMESTAMP_LTZ", pa.timestamp("us", "UTC")),
    "interval": ("INTERVAL", "STRUCT<`months`: INT, `days`: INT, `microseconds`: BIGINT>", STORED_INTERVAL),
    "bytea": ("BLOB", "BINARY", pa.binary()),
    "null": ("VARCHAR", "STRING", pa.null()),
}
"""Each type in DuckDB's SQL, in Spark's SQL, and as it is stored."""


def kernel_type(type: Type, kernel: Kernel) -> str:
    """The name of a type in a kernel's SQL."""
    if type.element is not None:
        element = kernel_type(type.element, kernel)
        return f"{element}[]" if kernel == "duckdb" else f"ARRAY<{element}>"
    if type.name == "numeric":
        return f"DECIMAL({type.precision}, {type.scale})"
    return _TYPES[type.name][0 if kernel == "duckdb" else 1]


def stored_type(type: Type) -> pa.DataType:
    """What Parquet files hold for a value of the type."""
    if type.element is not None:
        return pa.list_(stored_type(type.element))
    if type.name == "numeric":
        return pa.decimal128(type.precision, type.scale)
    return _TYPES[type.name][2]


def quote_name(name: str, kernel: Kernel) -> str:
    """An identifier that means exactly `name`."""
    mark = '"' if kernel == "duckdb" else "`"
    return mark + name.replace(mark, mark * 2) + mark


def quote_text(text: str, kernel: Kernel) -> str:
    """A string literal that means exactly `text`. Spark reads backslashes as escapes; DuckDB does not."""
    if kernel == "duckdb":
        return "'" + text.replace("'", "''") + "'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
