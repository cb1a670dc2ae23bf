"""Lengths of time as whole microseconds: `90 MINUTES`, `1 hour 30 minutes`, `02:00:00`.

>>> microseconds_of("1 hour 30 minutes")
5400000000
"""

from __future__ import annotations

import re
from fractions import Fraction

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "ms": 1_000,
    "second": 1_000_000,
    "sec": 1_000_000,
    "minute": 60_000_000,
    "min": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_PART = re.compile(r"\s*(?:(\d+(?:\.\d+)?)\s*([a-z]+)|(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?)", re.IGNORECASE)


def unit_of(word: str) -> int | None:
    """Microseconds in a unit, singular or plural; months and years have no fixed length."""
    word = word.lower()
    return MICROSECONDS.get(word) or MICROSECONDS.get(word.removesuffix("s"))


def microseconds_of(text: str) -> int | None:
    """The length that a text says, or None if it says none."""
    at, total = 0, Fraction(0)
    while part := _PART.match(text, at):
        at = part.end()
        if part[3] is not None:
            total += int(part[3]) * MICROSECONDS["hour"] + int(part[4]) * MICROSECONDS["minute"]
            total += Fraction(part[5] or 0) * MICROSECONDS["second"]
        else:
            unit = unit_of(part[2])
            if unit is None:
                return None
            total += Fraction(part[1]) * unit
    whole = at > 0 and not text[at:].strip() and total.denominator == 1
    return int(total) if whole else None
