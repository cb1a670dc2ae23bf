"""Conversions of typed nodes: an untyped literal is read as the type, anything else gets a `Convert` node."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from midstream.errors import TypeMismatch
from midstream.plan.functions.model import numeric_digits
from midstream.plan.moments import keep_moment
from midstream.plan.typing.coercion import as_numeric, casts_by_assignment, casts_explicitly
from midstream.plan.typing.literals import EXACT, interval_parts, numeric_type_of, read_literal, str_of_decimal
from midstream.plan.typing.nodes import Convert, is_unknown, type_of, typed
from midstream.sql.positions import mark, position_of
from midstream.types import NULL, TEXT, Type


def literal_value(node: exp.Expression) -> str | None:
    """The text of a constant that is not NULL."""
    if isinstance(node, exp.Literal):
        return str(node.this)
    if isinstance(node, exp.Boolean):
        return "true" if node.this else "false"
    return None


def constant(text: str, type: Type, like: exp.Expression | None = None) -> exp.Expression:
    """A typed constant that keeps the place of the node it came from."""
    if type.name == "boolean":
        node: exp.Expression = exp.Boolean(this=text == "true")
    else:
        node = exp.Literal(this=text, is_string=not type.is_number)
    if like is not None:
        keep_place(node, like)
    return typed(node, type)


def keep_place(new: exp.Expression, old: exp.Expression) -> None:
    place = position_of(old)
    if place is not None:
        mark(new, place)
    keep_moment(new, old)


def null_of(type: Type) -> exp.Expression:
    return typed(exp.Null(), type)


def convert(node: exp.Expression, to: Type) -> exp.Expression:
    """The node as a value of type `to`, whose rules have been checked before."""
    source = type_of(node)
    if source == to:
        return node
    if isinstance(node, exp.Null):
        return null_of(to)
    if source == NULL and isinstance(node, exp.Literal):
        return _read(node, to)
    if isinstance(node, exp.Literal) and source.is_number and to.is_number:
        exact = _renumbered(node, source, to)
        if exact is not None:
            return exact
    return typed(Convert(this=node), to)


def _read(node: exp.Literal, to: Type) -> exp.Expression:
    text = str(node.this)
    if to.element is not None:
        return _array_literal(node, text, to)
    if to.name in ("varchar", "char"):
        return convert(constant(text, TEXT, node), to)
    return constant(read_literal(text, to, position_of(node)), to, node)


def _array_literal(node: exp.Literal, text: str, to: Type) -> exp.Expression:
    """'{1,NULL,"a b"}' as an array of one dimension."""
    items = split_array_literal(text)
    if items is None or to.element is None:
        raise TypeMismatch(f'malformed array literal: "{text}"', position=position_of(node), sqlstate="22P02")
    values = [
        null_of(to.element) if item is None else convert(typed(exp.Literal.string(item), NULL), to.element)
        for item in items
    ]
    return typed(exp.Array(expressions=values), to)


def split_array_literal(text: str) -> list[str | None] | None:
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")):
        return None
    items: list[str | None] = []
    at, end = 1, len(body) - 1
    if not body[1:end].strip():
        return []
    while True:
        while at < end and body[at].isspace():
            at += 1
        word, quoted = "", at < end and body[at] == '"'
        if quoted:
            at += 1
            while at < end and body[at] != '"':
                at += body[at] == "\\"
                word += body[at]
                at += 1
            at += 1
            while at < end and body[at].isspace():
                at += 1
        else:
            stop = at
            while stop < end and body[stop] not in ',{}"':
                stop += 1
            word, at = body[at:stop].strip(), stop
        if not quoted and not word:
            return None
        items.append(None if not quoted and word.upper() == "NULL" else word)
        if at == end:
            return items
        if body[at] != ",":
            return None
        at += 1


def _renumbered(node: exp.Literal, source: Type, to: Type) -> exp.Expression | None:
    """A number written in another number type, where that loses nothing."""
    if source.is_float:
        return None
    value = Decimal(str(node.this))
    if to.is_float:
        return constant(repr(float(value)), to, node) if to.name == "double precision" else None
    if to.is_integer:
        whole = (
            value == value.to_integral_value() and abs(value) < 2 ** {"smallint": 15, "int": 31, "bigint": 63}[to.name]
        )
        return constant(str(int(value)), to, node) if whole else None
    precision, scale = numeric_digits(to)
    own = numeric_type_of(value.normalize(EXACT) if value else Decimal(0))
    own_precision, own_scale = numeric_digits(own)
    if own_scale <= scale and own_precision - own_scale <= precision - scale:
        return constant(str_of_decimal(value.quantize(Decimal(1).scaleb(-scale), context=EXACT)), to, node)
    return None


def exactly(node: exp.Expression, to: Type) -> exp.Expression | None:
    """A number that is written in the text as a value of another number type, if it is one of its values."""
    source = type_of(node)
    if source == to:
        return node
    if isinstance(node, exp.Literal) and source.is_number and to.is_number:
        return _renumbered(node, source, to)
    return None


def numeric_literal_type(node: exp.Expression) -> Type:
    """The tightest numeric of an exact number: the literal 3 is numeric(1,0), an int column numeric(10,0)."""
    if isinstance(node, exp.Literal) and not type_of(node).is_float:
        return numeric_type_of(Decimal(str(node.this)))
    return as_numeric(type_of(node))


def cast_explicitly(node: exp.Expression, to: Type) -> exp.Expression:
    """CAST and `::`."""
    source = type_of(node)
    if isinstance(node, exp.Array) and to.element is not None:
        return typed(exp.Array(expressions=[cast_explicitly(item, to.element) for item in node.expressions]), to)
    if is_unknown(node) or casts_explicitly(source, to):
        return convert(node, to)
    raise TypeMismatch(f"cannot cast type {source} to {to}", position=position_of(node), sqlstate="42846")


def cast_for_assignment(node: exp.Expression, to: Type, what: str) -> exp.Expression:
    """The node as a value for `what` (`column "a"`), by PostgreSQL's assignment cast."""
    source = type_of(node)
    if source == to or is_unknown(node):
        return _checked_length(convert(node, TEXT) if to.name in ("varchar", "char") else convert(node, to), to)
    if isinstance(node, exp.Array) and to.element is not None:
        return typed(
            exp.Array(expressions=[cast_for_assignment(item, to.element, what) for item in node.expressions]), to
        )
    if not casts_by_assignment(source, to):
        raise TypeMismatch(
            f"{what} is of type {to} but expression is of type {source}",
            hint="You will need to rewrite or cast the expression.",
            position=position_of(node),
        )
    if to.name in ("varchar", "char"):
        return _checked_length(convert(node, TEXT), to)
    return convert(node, to)


def _checked_length(node: exp.Expression, to: Type) -> exp.Expression:
    if to.name not in ("varchar", "char") or type_of(node) == to:
        return node
    return typed(Convert(this=node, assigned=True), to)


def interval_constant(node: exp.Interval) -> exp.Expression:
    unit = node.args.get("unit")
    parts = interval_parts(node.this.name, unit.name if unit is not None else None)
    if parts is None:
        raise TypeMismatch(
            f'invalid input syntax for type interval: "{node.this.name}"', position=position_of(node), sqlstate="22007"
        )
    return constant(f"{parts.months} {parts.days} {parts.microseconds}", Type("interval"), node)
