"""Two answers differ by their rows alone: not by the order of the rows, and not by the last bits of a float."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from answers import same_rows

BIG = 2**53

SAME = [
    ([(BIG + 1, 3), (BIG, 3)], [(BIG, 3), (BIG + 1, 3)]),
    ([(0.1 + 0.2, "a"), (0.3, "b")], [(0.3, "a"), (0.1 + 0.2, "b")]),
    ([(0.12345678951,), (0.12345678952,)], [(0.12345678952,), (0.12345678951,)]),
    ([(float("nan"), 1), (-0.0, 2)], [(0.0, 2), (float("nan"), 1)]),
    ([(Decimal("1.50"),), (None,), ([1, None],)], [([1, None],), (1.5,), (None,)]),
]
DIFFERENT = [
    ([(BIG,)], [(BIG + 1,)]),
    ([(1, "a"), (2, "b")], [(1, "b"), (2, "a")]),
    ([(1,), (1,), (2,)], [(1,), (2,), (2,)]),
    ([(1.0,)], [(1.000001,)]),
    ([(None,)], [(0,)]),
    ([(1,)], [(True,)]),
]


@pytest.mark.parametrize(("one", "two"), SAME)
def test_rows_in_another_order_are_the_same_answer(one: list[Any], two: list[Any]) -> None:
    assert same_rows(one, two, ordered=False)


@pytest.mark.parametrize(("one", "two"), DIFFERENT)
def test_other_rows_are_another_answer(one: list[Any], two: list[Any]) -> None:
    assert not same_rows(one, two, ordered=False)


def test_an_order_that_was_asked_for_counts() -> None:
    assert same_rows([(1,), (2,)], [(1,), (2,)], ordered=True)
    assert not same_rows([(1,), (2,)], [(2,), (1,)], ordered=True)
