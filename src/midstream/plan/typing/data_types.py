"""sqlglot's data types as ours."""

from __future__ import annotations

from sqlglot import exp

from midstream.errors import TypeMismatch
from midstream.types import NUMERIC, UNBOUNDED_NUMERIC, Type, array_of

_NAMES = {
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.FLOAT: "real",
    exp.DType.DOUBLE: "double precision",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "varchar",
    exp.DType.CHAR: "char",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamptz",
    exp.DType.INTERVAL: "interval",
    exp.DType.VARBINARY: "bytea",
    exp.DType.BINARY: "bytea",
    exp.DType.JSON: "json",
    exp.DType.JSONB: "json",
    exp.DType.BPCHAR: "char",
}


def type_of_cast(node: exp.DataType) -> Type:
    if node.this == exp.DType.ARRAY:
        return array_of(type_of_cast(node.expressions[0]))
    numbers = [int(part.this.name) for part in node.expressions if isinstance(part, exp.DataTypeParam)]
    if node.this == exp.DType.DECIMAL:
        return NUMERIC(*(numbers or UNBOUNDED_NUMERIC))
    name = _NAMES.get(node.this)
    if name is None:
        raise TypeMismatch(f'type "{node.sql(dialect="postgres").lower()}" does not exist', sqlstate="42704")
    if name in ("varchar", "char") and numbers:
        return Type(name, numbers[0])
    return Type("text" if name == "varchar" else name)


def is_unbounded_numeric(node: exp.DataType) -> bool:
    """`numeric` alone: a cast that keeps every digit of an exact number."""
    return node.this == exp.DType.DECIMAL and not node.expressions
