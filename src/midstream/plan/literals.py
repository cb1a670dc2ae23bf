"""Values that are known when a statement is bound, as typed literals: parameters, and the statement's moment.

A text stays untyped, as PostgreSQL's `unknown`: what stands beside it decides what it is.

    >>> literal_of(-7).sql(), literal_of(date(2027, 1, 31)).sql()
    ('-7', "CAST('2027-01-31' AS DATE)")
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from numbers import Integral, Real

from sqlglot import exp

from midstream.errors import InvalidParameter
from midstream.types import MAX_PRECISION

_LARGEST_BIGINT = 2**63 - 1


def literal_of(value: object, number: int = 1) -> exp.Expression:
    """A Python value as SQL; `number` is the parameter's, for the error."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case str():
            return _text(value, number)
        case datetime():
            return timestamp_literal(value)
        case date():
            return date_literal(value)
        case timedelta():
            return _cast(_interval_text(value), "INTERVAL")
        case bytes() | bytearray() | memoryview():
            return _cast("\\x" + bytes(value).hex(), "VARBINARY")
        case Decimal():
            return _decimal(value, number)
        case list() | tuple():
            return _array(value, number)
    if isinstance(value, Integral):
        return integer_literal(int(value))
    if isinstance(value, Real):
        return _cast(_float_text(float(value)), "DOUBLE")
    raise InvalidParameter(
        f"parameter ${number} has a value of Python type {type(value).__name__}, which is no SQL value",
        hint="Give None, bool, int, float, Decimal, str, datetime, date, timedelta, bytes, or a list of these.",
    )


def integer_literal(value: int) -> exp.Expression:
    if value == -_LARGEST_BIGINT - 1:
        return _cast(str(value), "BIGINT")
    magnitude = exp.Literal.number(str(abs(value)))
    return exp.Neg(this=magnitude) if value < 0 else magnitude


def timestamp_literal(value: datetime) -> exp.Expression:
    """With a time zone it is a timestamptz, in UTC; without, a timestamp."""
    if value.tzinfo is None:
        return _cast(value.isoformat(" "), "TIMESTAMP")
    return _cast(value.astimezone(timezone.utc).isoformat(" "), "TIMESTAMPTZ")


def date_literal(value: date) -> exp.Expression:
    return _cast(value.isoformat(), "DATE")


def _cast(text: str, to: str) -> exp.Cast:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(to))


def _text(value: str, number: int) -> exp.Expression:
    if "\x00" in value:
        raise InvalidParameter(f"parameter ${number} is a text with a NUL character", sqlstate="22021")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidParameter(f"parameter ${number} is a text with half a surrogate pair", sqlstate="22021")
    return exp.Literal.string(value)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _decimal(value: Decimal, number: int) -> exp.Expression:
    if not value.is_finite():
        raise InvalidParameter(f"parameter ${number} is {value}, which numeric cannot hold", sqlstate="22003")
    text = format(value, "f")
    whole, _, fraction = text.lstrip("-").partition(".")
    precision = max(len(whole.lstrip("0")) + len(fraction), 1)
    if precision > MAX_PRECISION:
        raise InvalidParameter(
            f"parameter ${number} has {precision} digits, and numeric holds {MAX_PRECISION}", sqlstate="22003"
        )
    return _cast(text, f"DECIMAL({precision}, {len(fraction)})")


def _interval_text(value: timedelta) -> str:
    seconds = Decimal(value.seconds) + Decimal(value.microseconds) / 1_000_000
    return f"{value.days} days {seconds} seconds"


def _array(values: Sequence[object], number: int) -> exp.Expression:
    return exp.Array(expressions=[literal_of(value, number) for value in values])
