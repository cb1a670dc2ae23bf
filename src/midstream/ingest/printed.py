"""Values as PostgreSQL prints them.

`parse_text(type, print_value(type, v)) == v` for every storable value: what is exported can be read again.

    >>> print_value(parse_type("double precision[]"), [1.0, None, 1e20])
    '{1,NULL,1e+20}'
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from struct import pack, unpack
from typing import Any

import pyarrow as pa

from midstream.types import DOUBLE, TEXT, Type

LONGEST_SHOWN = 64
"""A value in an error's DETAIL is cut after this many characters, as PostgreSQL cuts it."""


def print_value(type: Type, value: object) -> str:
    """A value that is not NULL, as text."""
    if type.element is not None:
        return _array(type.element, value)  # type: ignore[arg-type]
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return print_float(value, single=type.name == "real")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return print_timestamp(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, Mapping):
        return print_interval(value["months"], value["days"], value["microseconds"])
    if isinstance(value, pa.MonthDayNano):
        return print_interval(value.months, value.days, value.nanoseconds // 1000)
    if isinstance(value, timedelta):
        return _print_timedelta(value)
    return str(value)


def _print_timedelta(value: timedelta) -> str:
    """One sign for all of it: Python's own parts of -1 hour are -1 day and 23 hours."""
    sign, length = (-1 if value < timedelta() else 1), abs(value)
    return print_interval(0, sign * length.days, sign * (length.seconds * 1_000_000 + length.microseconds))


def print_float(value: float, *, single: bool = False) -> str:
    """The shortest digits that read back as the same value, written as C's %g would."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    digits = _shortest_single(value) if single else repr(value)
    if "e" not in digits and not single and abs(value) < 1e15:
        return digits.removesuffix(".0")
    sign, mantissa, exponent = _take_apart(digits)
    if mantissa == "0":
        return sign + "0"
    if -4 <= exponent < (6 if single else 15):
        return sign + _positional(mantissa, exponent)
    fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
    return f"{sign}{mantissa[0]}{fraction}e{exponent:+03d}"


def _shortest_single(value: float) -> str:
    for precision in range(1, 10):
        digits = f"{value:.{precision}g}"
        if abs(float(digits)) < 3.4028236e38 and unpack("f", pack("f", float(digits)))[0] == value:
            return digits
    return repr(value)


def _take_apart(digits: str) -> tuple[str, str, int]:
    """'-12.50' is sign '-', mantissa '125', exponent 1: -1.25e1."""
    sign, (_, numbers, exponent) = ("-" if digits.startswith("-") else ""), Decimal(digits).as_tuple()
    text = "".join(map(str, numbers)).lstrip("0") or "0"
    return sign, text.rstrip("0") or "0", len(text) - 1 + int(exponent)


def _positional(mantissa: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + mantissa
    whole, fraction = mantissa[: exponent + 1].ljust(exponent + 1, "0"), mantissa[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def print_timestamp(value: datetime) -> str:
    """'2020-01-02 03:04:05.6', and '+00' behind it when it has a zone."""
    aware = value.tzinfo is not None
    if aware:
        value = value.astimezone(timezone.utc)
    text = value.replace(tzinfo=None).isoformat(" ")
    if value.microsecond:
        text = text.rstrip("0")
    return text + "+00" if aware else text


def print_interval(months: int, days: int, microseconds: int) -> str:
    """'1 year 2 mons -3 days +04:05:06.5', each part with its own sign."""
    years, months = int(months / 12), int(math.fmod(months, 12))
    parts: list[str] = []
    negative_before = False
    for number, unit in ((years, "year"), (months, "mon"), (days, "day")):
        if number:
            plus = "+" if negative_before and number > 0 else ""
            parts.append(f"{plus}{number} {unit}{'' if number == 1 else 's'}")
            negative_before = number < 0
    if microseconds or not parts:
        plus = "+" if negative_before and microseconds >= 0 else ""
        parts.append(("-" if microseconds < 0 else plus) + _clock(abs(microseconds)))
    return " ".join(parts)


def _clock(microseconds: int) -> str:
    seconds, fraction = divmod(microseconds, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


_NEEDS_QUOTES = re.compile(r'[{}",\\\s]')


def _array(element: Type, values: Sequence[object]) -> str:
    return "{" + ",".join(_array_element(element, value) for value in values) + "}"


def _array_element(element: Type, value: object) -> str:
    if value is None:
        return "NULL"
    text = print_value(element, value)
    if element.element is not None:
        return text
    if text == "" or text.upper() == "NULL" or _NEEDS_QUOTES.search(text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def plain(value: object) -> str:
    """A plain Python value for people to read; NULL has no text and is the caller's."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return plain_float(value)
        case Decimal():
            return format(value, "f")
        case timedelta():
            return _print_timedelta(value)
        case datetime():
            return value.isoformat(sep=" ")
        case bytes():
            return "\\x" + value.hex()
        case list() | tuple():
            return "{" + ",".join(_plain_element(item) for item in value) + "}"
        case _:
            return str(value)


def plain_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _plain_element(value: object) -> str:
    if value is None:
        return "NULL"
    text = plain(value)
    if isinstance(value, str) and (text == "" or text.upper() == "NULL" or any(c in text for c in '{},"\\ \t\n')):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def show_row(values: Sequence[object]) -> str:
    """A row for an error's DETAIL: '(4, null, Ann)'."""
    return "(" + ", ".join(_show(value) for value in values) + ")"


def _show(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, (list, tuple)):
        text = "{" + ",".join(_show(each) for each in value) + "}"
    else:
        text = print_value(DOUBLE if isinstance(value, float) else TEXT, value)
    # A text that is no Unicode may be what the error is about, and must be printed all the same.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."
