"""What each kernel calls our types, and how it says that a value is wrong.

An interval is DuckDB's INTERVAL there, and a struct of months, days and microseconds on Spark, whose own
intervals are either months or microseconds.
"""

from __future__ import annotations

from midstream.plan.functions.model import Kernel
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
    "null": "VARCHAR",
}
_SPARK = {
    "smallint": "SMALLINT",
    "int": "INT",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "STRING",
    "varchar": "STRING",
    "char": "STRING",
    "json": "STRING",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP_LTZ",
    "bytea": "BINARY",
    "null": "STRING",
    "interval": "STRUCT<`months`: INT, `days`: INT, `microseconds`: BIGINT>",
}


def kernel_type(type: Type, kernel: Kernel) -> str:
    """The name of a type in a kernel's SQL."""
    if type.element is not None:
        element = kernel_type(type.element, kernel)
        return f"{element}[]" if kernel == "duckdb" else f"ARRAY<{element}>"
    if type.name == "numeric":
        return f"DECIMAL({type.precision}, {type.scale})"
    return (_DUCKDB if kernel == "duckdb" else _SPARK)[type.name]


ERROR_MARK = "midstream"


def quoted(text: str, kernel: Kernel) -> str:
    """A string literal that means exactly `text`. Spark reads backslashes as escapes; DuckDB does not."""
    if kernel == "duckdb":
        return "'" + text.replace("'", "''") + "'"
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def raise_error(sqlstate: str, message: str, kernel: Kernel, value: str | None = None) -> str:
    """An expression that fails when it is computed; `value` is SQL text appended to the message in quotes."""
    text = quoted(f"{ERROR_MARK} {sqlstate}: {message}", kernel)
    if value is not None:
        text = f"concat({text}, ': \"', {value}, '\"')"
    return f"error({text})" if kernel == "duckdb" else f"raise_error({text})"
