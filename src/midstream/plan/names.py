"""What a result column is called when nobody has named it: PostgreSQL's choice.

SELECT a, count(*), a::text, 1 FROM t       a, count, a, ?column?
"""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.calls import function_name
from midstream.plan.nodes import name_of, without_parentheses

NAMELESS = "?column?"
_TYPE_NAMES = {
    exp.DType.INT: "int4",
    exp.DType.BIGINT: "int8",
    exp.DType.SMALLINT: "int2",
    exp.DType.FLOAT: "float4",
    exp.DType.DOUBLE: "float8",
    exp.DType.DECIMAL: "numeric",
    exp.DType.BOOLEAN: "bool",
    exp.DType.TEXT: "text",
    exp.DType.VARCHAR: "varchar",
    exp.DType.CHAR: "bpchar",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamptz",
    exp.DType.INTERVAL: "interval",
    exp.DType.VARBINARY: "bytea",
    exp.DType.JSON: "json",
}
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
_SPELLED = {
    exp.Boolean: "bool",
    exp.Case: "case",
    exp.Coalesce: "coalesce",
    exp.Array: "array",
    exp.Exists: "exists",
    exp.Nullif: "nullif",
}
_OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Condition)


def output_name(node: exp.Expression) -> str:
    """The name of a result column, from the expression as the user wrote it."""
    if isinstance(node, exp.Alias):
        return name_of(node.args["alias"])
    return _guess(without_parentheses(node)) or NAMELESS


def _guess(node: exp.Expression) -> str | None:
    if isinstance(node, exp.Column):
        return name_of(node.this)
    if isinstance(node, exp.Cast):
        inner = without_parentheses(node.this)
        return _guess(inner) if not isinstance(inner, exp.Literal) and _guess(inner) else _type_name(node)
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return (_guess(default) if isinstance(default, exp.Column) else None) or "case"
    if isinstance(node, exp.Subquery):
        return _of_query(node.this)
    if isinstance(node, exp.Window | exp.Filter | exp.WithinGroup | exp.Bracket):
        return _guess(node.this)
    if isinstance(node, exp.Interval):
        return "interval"
    return _of_call(node)


def _of_call(node: exp.Expression) -> str | None:
    for kind, spelled in _SPELLED.items():
        if isinstance(node, kind):
            return spelled
    if isinstance(node, exp.Trim) and node.meta.get("name") == "trim":
        return _TRIMS.get(str(node.args.get("position") or "").upper(), "btrim")
    is_operator = isinstance(node, exp.Binary | exp.Connector | exp.Unary) and "name" not in node.meta
    is_call = isinstance(node, exp.Func) or "name" in node.meta
    return function_name(node) if is_call and not is_operator else None


def _type_name(cast: exp.Cast) -> str | None:
    return _TYPE_NAMES.get(cast.to.this)


def _of_query(query: exp.Expression) -> str | None:
    while not isinstance(query, exp.Select):
        if not isinstance(query.this, exp.Expression):
            return None
        query = query.this
    first = query.expressions[0] if query.expressions else None
    return None if first is None else output_name(first)
