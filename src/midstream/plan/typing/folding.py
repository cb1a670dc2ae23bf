"""Constants that are computed while binding, where a kernel wants them as numbers in the text.

0.5 + 0.1   of type numeric   ->   0.6
1 / 4       of integers       ->   0
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal, DivisionByZero, InvalidOperation, Overflow

from sqlglot import exp

from midstream.errors import DataError
from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import is_query
from midstream.plan.typing.literals import EXACT, rounded
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, type_of
from midstream.types import Type

Number = Decimal | float


def is_constant(node: exp.Expression) -> bool:
    """Whether a typed expression is the same for every row."""
    return not any(_varies(part) for part in node.walk())


def _varies(node: exp.Expr) -> bool:
    if isinstance(node, Call):
        return FUNCTIONS[str(node.this)].volatile
    return isinstance(node, exp.Column | AggregateCall | exp.Window) or (
        isinstance(node, exp.Expression) and is_query(node)
    )


def constant_number(node: exp.Expression) -> Number | None:
    """The value of a typed expression of numbers, casts and the four operations; None: it is not that, or has none."""
    try:
        return _number(node)
    except (DataError, ValueError, ArithmeticError, InvalidOperation, DivisionByZero, Overflow):
        return None


def _number(node: exp.Expression) -> Number | None:
    match node:
        case exp.Literal() if type_of(node).is_number:
            return _as(Decimal(str(node.this)) if not type_of(node).is_float else float(str(node.this)), type_of(node))
        case exp.Paren() | Convert():
            value = _number(node.this)
            return None if value is None else _as(value, type_of(node))
        case Call():
            return _called(node)
        case _:
            return None


def _called(node: Call) -> Number | None:
    values = [_number(argument) for argument in node.expressions]
    name, kind = FUNCTIONS[str(node.this)].name, type_of(node)
    if name not in "+-*/" or not kind.is_number or None in values:
        return None
    match [float(value) if kind.is_float else value for value in values if value is not None]:
        case [value]:
            result = value if name == "+" else _negated(value) if name == "-" else None
        case [Decimal() as left, Decimal() as right]:
            result = _exactly(name, left, right)
        case [float() as left, float() as right]:
            result = {"+": left + right, "-": left - right, "*": left * right}.get(name)
            result = left / right if result is None else result
        case _:
            return None
    if result is not None and kind.is_integer:
        result = Decimal(math.trunc(result))
    return None if result is None else _as(result, kind)


def _exactly(name: str, left: Decimal, right: Decimal) -> Decimal:
    match name:
        case "+":
            return EXACT.add(left, right)
        case "-":
            return EXACT.subtract(left, right)
        case "*":
            return EXACT.multiply(left, right)
        case _:
            return EXACT.divide(left, right)


def _negated(value: Number) -> Number:
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _as(value: Number, kind: Type) -> Number | None:
    """A number in a number type; None where it is not one of its values."""
    match kind.name:
        case "double precision":
            return float(value)
        case "real":
            return float(struct.unpack("f", struct.pack("f", float(value)))[0])
        case "numeric":
            exact = Decimal(repr(value)) if isinstance(value, float) else value
            return rounded(exact, kind, None)
        case _ if kind.is_integer:
            return Decimal(int(value)) if value == int(value) else None
        case _:
            return None
