"""Whether two answers are the same: rows as a multiset, floats but for the last bits, other numbers exactly.

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
    if ordered:
        return all(same_value(left, right) for left, right in zip(one, two, strict=True))
    return _pair_up(sorted(one, key=_key), sorted(two, key=_key))


def _pair_up(one: list[Row], two: list[Row]) -> bool:
    """Whether each row has a partner of its own. Floats that differ in their last bits may have sorted the two
    sides differently, so the partner is searched for; it is nearly always the first one."""
    for row in one:
        partner = next((place for place, other in enumerate(two) if same_value(row, other)), None)
        if partner is None:
            return False
        del two[partner]
    return True


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


def _key(value: Any) -> tuple[Any, ...]:
    """Sorts values of all kinds, each kind by itself."""
    match value:
        case None:
            return (0,)
        case bool():
            return (1, value)
        case int() | float() | Decimal():
            return (2, 1, 0) if math.isnan(value) else (2, 0, value)
        case dt.datetime():
            return (4, value.astimezone(dt.timezone.utc).isoformat() if value.tzinfo else value.isoformat())
        case list() | tuple():
            return (5, tuple(_key(element) for element in value))
        case _:
            return (3, str(value))
