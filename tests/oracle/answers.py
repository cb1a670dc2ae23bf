"""Whether two answers are the same: rows as a multiset, floats to the last bits, numbers by value.

NaN equals NaN and -0.0 equals 0.0, as PostgreSQL has it; 1.50 and 1.5 are one number.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]


def same_rows(one: Sequence[Row], two: Sequence[Row], *, ordered: bool) -> bool:
    if len(one) != len(two):
        return False
    if not ordered:
        one, two = sorted(one, key=_row_key), sorted(two, key=_row_key)
    return all(
        len(left) == len(right) and all(same_value(a, b) for a, b in zip(left, right, strict=True))
        for left, right in zip(one, two, strict=True)
    )


def same_value(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float, Decimal)) and isinstance(b, (int, float, Decimal)):
        return _same_number(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same_value(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dt.datetime) and isinstance(b, dt.datetime):
        return (a.tzinfo is None) == (b.tzinfo is None) and a == b
    return type(a) is type(b) and bool(a == b)


def _same_number(a: int | float | Decimal, b: int | float | Decimal) -> bool:
    if not isinstance(a, float) and not isinstance(b, float):
        return a == b
    x, y = float(a), float(b)
    if math.isnan(x) or math.isnan(y):
        return math.isnan(x) and math.isnan(y)
    return x == y or math.isclose(x, y, rel_tol=1e-12, abs_tol=1e-13)


def _row_key(row: Row) -> tuple[Any, ...]:
    return tuple(_key(value) for value in row)


def _key(value: Any) -> tuple[Any, ...]:
    match value:
        case None:
            return (0,)
        case bool():
            return (1, value)
        case int() | float() | Decimal():
            number = float(value)
            return (2, 1, 0.0) if math.isnan(number) else (2, 0, float(f"{number:.9g}") + 0.0)
        case dt.datetime():
            return (4, value.astimezone(dt.timezone.utc).isoformat() if value.tzinfo else value.isoformat())
        case list() | tuple():
            return (5, tuple(_key(element) for element in value))
        case _:
            return (3, str(value))
