"""VALUES of literals and parameters as plain Python values: an INSERT of them needs no query."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from midstream.sql.statements import Sql


class _NotPlain(Exception):
    """An expression that must be computed."""


def plain_values(query: Sql | None, parameters: Sequence[object]) -> tuple[tuple[object, ...], ...] | None:
    """The rows of a VALUES that has literals and all of the parameters alone; None for any other query."""
    tree = query.tree() if query is not None else None
    if not isinstance(tree, exp.Values) or tree.args.get("alias"):
        return None
    used: set[int] = set()
    try:
        rows = tuple(
            tuple(_value(cell, parameters, used) for cell in row.expressions)
            for row in tree.expressions
            if isinstance(row, exp.Tuple)
        )
    except _NotPlain:
        return None
    whole = len(rows) == len(tree.expressions) and len({len(row) for row in rows}) == 1
    return rows if whole and used == set(range(1, len(parameters) + 1)) else None


def _value(node: exp.Expression, parameters: Sequence[object], used: set[int]) -> object:
    match node:
        case exp.Parameter():
            number = int(node.name)
            if not 0 < number <= len(parameters):
                raise _NotPlain
            used.add(number)
            return parameters[number - 1]
        case exp.Null():
            return None
        case exp.Boolean():
            return bool(node.this)
        case exp.Literal() if node.is_string:
            return str(node.this)
        case exp.Literal():
            return _number(str(node.this))
        case exp.Neg(this=exp.Literal() as inner) if not inner.is_string:
            # Minus would round to the 28 digits of Python's context.
            value = _number(str(inner.this))
            return value.copy_negate() if isinstance(value, Decimal) else -value
    raise _NotPlain


def _number(text: str) -> int | Decimal:
    if text.isdigit() and text.isascii():
        return int(text)
    if set(text) <= set("0123456789."):
        return Decimal(text)
    raise _NotPlain
