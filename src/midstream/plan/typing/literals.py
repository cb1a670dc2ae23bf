"""What a literal means, decided while binding so that the error has a place in the text.

A number in the text is int, bigint or numeric by its size; a string has no type until its surroundings give
it one, and is then read as PostgreSQL reads that type's input.

    '2020-02-30' as date     ->  DataError 22008
    '1 mon 2 days' as interval  ->  months 1, days 2, microseconds 0
"""

from __future__ import annotations

import datetime
import decimal
import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from midstream.errors import DataError, Position, Unsupported
from midstream.plan.functions.casts import LONG_NAMES
from midstream.types import BIGINT, DOUBLE, INT, MAX_PRECISION, NUMERIC, Type

EXACT = decimal.Context(prec=200)
"""In which no numeric is rounded: Python's own context has 28 digits, and a numeric 38."""
_LIMITS = {"smallint": 2**15, "int": 2**31, "bigint": 2**63}
_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


def number_type(text: str) -> Type:
    """The type of a number as it is written, sign included; what no numeric holds is double precision."""
    if re.fullmatch(r"-?\d{1,100}", text):
        whole = int(text)
        if -(2**31) <= whole < 2**31:
            return INT
        if -(2**63) <= whole < 2**63:
            return BIGINT
    value = Decimal(text)
    return DOUBLE if _digits(value) > MAX_PRECISION else numeric_type_of(value)


def _digits(value: Decimal) -> int:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    return max(len(digits) + exponent, 0) + max(0, -exponent)


def numeric_type_of(value: Decimal) -> Type:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = max(len(digits) + exponent, 0)
    if whole + scale > 38:
        raise DataError(
            f"the number {value} has more than 38 digits", sqlstate="22003", hint="Cast a string to double precision."
        )
    return NUMERIC(max(1, whole + scale), scale)


def read_literal(text: str, type: Type, position: Position | None) -> str:
    """The canonical text of a value of `type`; DataError where the text is not one."""
    if type.is_integer:
        return _read_integer(text, type, position)
    if type.name == "numeric":
        return _read_numeric(text, type, position)
    if type.is_float:
        return _read_float(text, type, position)
    reader = {
        "boolean": _read_boolean,
        "date": _read_date,
        "timestamp": _read_timestamp,
        "timestamptz": _read_timestamptz,
        "interval": _read_interval,
        "json": _read_json,
        "bytea": _read_bytea,
    }.get(type.name)
    return text if reader is None else reader(text, type, position)


def _invalid(text: str, type: Type, position: Position | None, sqlstate: str = "22P02") -> DataError:
    name = LONG_NAMES.get(type.name, type.name)
    return DataError(f'invalid input syntax for type {name}: "{text}"', sqlstate=sqlstate, position=position)


def _out_of_range(text: str, type: Type, position: Position | None, sqlstate: str = "22003") -> DataError:
    name = LONG_NAMES.get(type.name, type.name)
    return DataError(f'value "{text}" is out of range for type {name}', sqlstate=sqlstate, position=position)


def _read_integer(text: str, type: Type, position: Position | None) -> str:
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text):
        raise _invalid(text, type, position)
    value = int(text)
    limit = _LIMITS[type.name]
    if not -limit <= value < limit:
        raise _out_of_range(text, type, position)
    return str(value)


def _read_numeric(text: str, type: Type, position: Position | None) -> str:
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise _invalid(text, type, position) from None
    if not value.is_finite():
        raise Unsupported("numeric has no NaN and no Infinity here", position=position, hint="Use double precision.")
    return str_of_decimal(rounded(value, type, position))


def rounded(value: Decimal, type: Type, position: Position | None) -> Decimal:
    """`value` with the type's scale, half away from zero, or an overflow."""
    assert type.precision is not None and type.scale is not None
    with decimal.localcontext(EXACT):
        result = value.quantize(Decimal(1).scaleb(-type.scale), rounding=decimal.ROUND_HALF_UP)
        if abs(result) >= Decimal(10) ** (type.precision - type.scale):
            raise DataError(
                "numeric field overflow",
                detail=f"{value} does not fit numeric({type.precision},{type.scale}).",
                sqlstate="22003",
                position=position,
            )
    return result


def str_of_decimal(value: Decimal) -> str:
    return f"{value:f}"


def _read_float(text: str, type: Type, position: Position | None) -> str:
    word = text.strip().lower()
    if not re.fullmatch(r"[+-]?((\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|inf(inity)?)|nan", word):
        raise _invalid(text, type, position)
    value = float(word)
    if value in (float("inf"), float("-inf")) and "inf" not in word:
        raise _out_of_range(text, type, position)
    return repr(value)


def _read_boolean(text: str, type: Type, position: Position | None) -> str:
    word = text.strip().lower()
    if word and any(true.startswith(word) for true in _TRUE) and word != "o":
        return "true"
    if word and any(false.startswith(word) for false in _FALSE) and word != "o":
        return "false"
    raise _invalid(text, type, position)


_DATE = r"(\d{4,5})-(\d{1,2})-(\d{1,2})"
_TIME = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
_ZONE = r"(?:\s*(z|utc|gmt|[+-]\d{1,2}(?::?\d{2})?))?"
_MOMENT = re.compile(rf"{_DATE}(?:[ t]\s*{_TIME}{_ZONE})?{_ZONE}", re.IGNORECASE)


def _moment(text: str, type: Type, position: Position | None) -> tuple[datetime.datetime, datetime.timedelta]:
    """The written date and time, and its distance from UTC."""
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        if text.strip().lower() in ("infinity", "-infinity", "epoch", "now", "today", "tomorrow", "yesterday"):
            raise Unsupported(f"the special value '{text}' of {type} is not supported", position=position)
        raise _invalid(text, type, position, "22007")
    year, month, day, hour, minute, second, fraction, zone, other_zone = match.groups()
    micro = round(int((fraction or "0").ljust(9, "0")) / 1000)
    try:
        written = datetime.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0))
        written += datetime.timedelta(seconds=_seconds(second), microseconds=micro)
    except (ValueError, OverflowError):
        raise DataError(f'date/time field value out of range: "{text}"', sqlstate="22008", position=position) from None
    return written, _zone_offset(zone or other_zone)


def _seconds(text: str | None) -> int:
    seconds = int(text or 0)
    if seconds > 60:
        raise ValueError(text)
    return seconds


def _zone_offset(zone: str | None) -> datetime.timedelta:
    if zone is None or zone.lower() in ("z", "utc", "gmt"):
        return datetime.timedelta()
    digits = zone[1:].replace(":", "").ljust(4, "0") if len(zone) > 2 else f"0{zone[1:]}00"
    offset = datetime.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if zone[0] == "-" else offset


def _read_date(text: str, type: Type, position: Position | None) -> str:
    return _moment(text, type, position)[0].date().isoformat()


def _read_timestamp(text: str, type: Type, position: Position | None) -> str:
    return _moment(text, type, position)[0].isoformat(" ")


def _read_timestamptz(text: str, type: Type, position: Position | None) -> str:
    written, offset = _moment(text, type, position)
    try:
        return (written - offset).isoformat(" ")
    except OverflowError:
        raise _out_of_range(text, type, position, "22008") from None


def _read_json(text: str, type: Type, position: Position | None) -> str:
    import json

    def refuse(word: str) -> object:
        raise ValueError(word)

    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        raise _invalid(text, type, position) from None
    return text


def _read_bytea(text: str, type: Type, position: Position | None) -> str:
    """The bytes in hexadecimal."""
    if text.startswith("\\x"):
        try:
            return bytes.fromhex(text[2:]).hex()
        except ValueError:
            raise _invalid(text, type, position) from None
    if "\\" in text:
        raise Unsupported("bytea escapes are not supported", hint=r"Write it in hexadecimal: '\x00ff'.")
    return text.encode().hex()


class IntervalParts(NamedTuple):
    months: int
    days: int
    microseconds: int


_UNITS = {
    "microsecond": (0, 0, 1),
    "us": (0, 0, 1),
    "usec": (0, 0, 1),
    "millisecond": (0, 0, 1000),
    "ms": (0, 0, 1000),
    "msec": (0, 0, 1000),
    "second": (0, 0, 10**6),
    "sec": (0, 0, 10**6),
    "s": (0, 0, 10**6),
    "minute": (0, 0, 60 * 10**6),
    "min": (0, 0, 60 * 10**6),
    "m": (0, 0, 60 * 10**6),
    "hour": (0, 0, 3600 * 10**6),
    "hr": (0, 0, 3600 * 10**6),
    "h": (0, 0, 3600 * 10**6),
    "day": (0, 1, 0),
    "d": (0, 1, 0),
    "week": (0, 7, 0),
    "w": (0, 7, 0),
    "month": (1, 0, 0),
    "mon": (1, 0, 0),
    "year": (12, 0, 0),
    "yr": (12, 0, 0),
    "y": (12, 0, 0),
    "decade": (120, 0, 0),
    "century": (1200, 0, 0),
    "centurie": (1200, 0, 0),
}
_PIECE = re.compile(r"\s*([+-]?)(?:(\d+):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?|(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+))")


def _read_interval(text: str, type: Type, position: Position | None) -> str:
    parts = interval_parts(text)
    if parts is None:
        raise _invalid(text, type, position, "22007")
    return f"{parts.months} {parts.days} {parts.microseconds}"


def interval_parts(text: str, unit: str | None = None) -> IntervalParts | None:
    """Months, days and microseconds of an interval as PostgreSQL writes it; None: it is not one."""
    words = text.strip().lower()
    if unit is not None and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", words):
        words = f"{words} {unit.lower()}"
    if re.fullmatch(r"[+-]?\d+(\.\d*)?", words):
        words += " second"
    ago = words.endswith(" ago")
    words = words[: -len(" ago")] if ago else words
    total, at = [Decimal(0)] * 3, 0
    while at < len(words):
        match = _PIECE.match(words, at)
        piece = None if match is None else _interval_piece(match)
        if match is None or piece is None:
            return None
        total = [a + b for a, b in zip(total, piece, strict=True)]
        at = match.end() + len(words[match.end() :]) - len(words[match.end() :].lstrip())
    if not words:
        return None
    sign = -1 if ago else 1
    return IntervalParts(*(sign * int(part) for part in total))


def _interval_piece(match: re.Match[str]) -> list[Decimal] | None:
    sign = -1 if match[1] == "-" else 1
    if match[2] is not None:
        micro = int((match[5] or "0").ljust(6, "0"))
        seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)
        return [Decimal(0), Decimal(0), Decimal(sign * (seconds * 10**6 + micro))]
    unit = _UNITS.get(match[7]) or _UNITS.get(match[7].removesuffix("s"))
    if unit is None:
        return None
    return _spread(sign * Decimal(match[6]), unit)


def _spread(count: Decimal, unit: tuple[int, int, int]) -> list[Decimal]:
    """A fraction of a month goes to days (30 of them), of a day to microseconds; of a year to whole months."""
    months, days, micro = (count * part for part in unit)
    if unit[0] >= 12:
        return [Decimal(round(months)), Decimal(0), Decimal(0)]
    days += (months - int(months)) * 30
    micro += (days - int(days)) * 86_400 * 10**6
    return [Decimal(int(months)), Decimal(int(days)), Decimal(round(micro))]
