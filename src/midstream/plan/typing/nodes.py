"""Typed nodes: sqlglot's tree with our type on every scalar, and calls that no generator rewrites.

After typing, a scalar is a column, a literal, NULL, a boolean, CASE, AND, OR, NOT, IN, EXISTS, a subquery, or
one of the nodes here. `Call.this` is the key of an overload in the table of functions.
"""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from midstream.errors import InternalError
from midstream.types import NULL, Type

_TYPE = "midstream_type"
Node = TypeVar("Node", bound=exp.Expression)


class Call(exp.Expression):
    """A function or operator of the table, its arguments already of the overload's types."""

    arg_types = {"this": True, "expressions": False}


class AggregateCall(exp.Expression, exp.AggFunc):
    """An aggregate or window function with all that belongs to it but OVER."""

    arg_types = {"this": True, "expressions": False, "distinct": False, "order": False, "filter": False}


class Convert(exp.Expression):
    """A cast to the node's own type; `explicit` cuts varchar(n), an assignment does not."""

    arg_types = {"this": True, "assigned": False}


class Raw(exp.Expression):
    """A column of a stored relation that a kernel must convert first, such as an interval."""

    arg_types = {"this": True}


class Stored(exp.Expression):
    """An interval as the struct that files and results hold: the reverse of `Raw`."""

    arg_types = {"this": True}


def typed(node: Node, type: Type) -> Node:
    node.meta[_TYPE] = type
    return node


def has_type(node: exp.Expression) -> bool:
    return _TYPE in node.meta


def type_of(node: exp.Expression) -> Type:
    """The type of a typed node; an alias and parentheses have that of what they hold."""
    if isinstance(node, (exp.Alias, exp.Paren)) and not has_type(node):
        return type_of(node.this)
    type = node.meta.get(_TYPE)
    if not isinstance(type, Type):
        raise InternalError(f"no type was inferred for {node.sql()}")
    return type


def is_unknown(node: exp.Expression) -> bool:
    """An untyped literal or NULL: it takes the type of its surroundings."""
    return type_of(node) == NULL
