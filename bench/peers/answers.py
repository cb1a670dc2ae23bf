"""Whether two systems gave the same answer: the same rows in any order, doubles but for the last digits.

difference([[1, 0.3]], [[1, 0.1 + 0.2]])      # None
difference([[1, 0.3]], [[2, 0.3]])            # "1 row and 1 row; first that differ: [1, 0.3] and [2, 0.3]"
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Rows = Sequence[Sequence[Any]]
TOLERANCE = 1e-9


class WrongAnswer(Exception):
    """A fast wrong answer is worth nothing: the benchmark stops."""


def difference(left: Rows, right: Rows, tolerance: float = TOLERANCE) -> str | None:
    """None where they are the same, otherwise what differs."""
    ours, theirs = (sorted((list(map(_plain, row)) for row in rows), key=_order) for rows in (left, right))
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=False) if not _same_row(a, b, tolerance)]
    if len(ours) == len(theirs) and not pairs:
        return None
    first = f"; first that differ: {pairs[0][0]} and {pairs[0][1]}" if pairs else ""
    return f"{len(ours):,} rows and {len(theirs):,} rows{first}"


def rest_of(part: Rows, whole: Rows, tolerance: float = TOLERANCE) -> list[Sequence[Any]]:
    """The rows of a part that the whole does not have, each row of the whole counted once."""
    left = [list(map(_plain, row)) for row in whole]
    strange = []
    for row in part:
        plain = list(map(_plain, row))
        place = next((at for at, other in enumerate(left) if _same_row(plain, other, tolerance)), None)
        if place is None:
            strange.append(row)
        else:
            del left[place]
    return strange


def _plain(value: Any) -> Any:
    """A Decimal as a double, a day as text: one spelling for what any system may hand out."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if hasattr(value, "as_tuple") else str(value)


def _order(row: Sequence[Any]) -> list[tuple[str, float]]:
    """Numbers by nine digits: two doubles that differ in the last one must not change the order of rows."""
    return [("", float(f"{value:.9g}")) if isinstance(value, (int, float)) else (f"text {value}", 0.0) for value in row]


def _same_row(left: Sequence[Any], right: Sequence[Any], tolerance: float) -> bool:
    return len(left) == len(right) and all(_same(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _same(left: Any, right: Any, tolerance: float) -> bool:
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return math.isclose(left, right, rel_tol=TOLERANCE, abs_tol=tolerance)
    return bool(left == right)
