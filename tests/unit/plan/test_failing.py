"""What may fail on some row is computed where the FILTER of its aggregate holds; all else is written as it stands."""

from __future__ import annotations

import pytest
from test_typing import bind


@pytest.mark.parametrize(
    "aggregate",
    [
        "sum(i) FILTER (WHERE b > 0)",
        "count(*) FILTER (WHERE i IS NULL AND t LIKE 'a%')",
        "max(i / 2) FILTER (WHERE i % 2 = 1)",
        "sum(10 / i)",
    ],
)
def test_what_cannot_fail_or_has_no_filter_is_not_guarded(aggregate: str) -> None:
    assert "CASE" not in bind(f"SELECT {aggregate} FROM x").sql("duckdb").partition('CASE WHEN ("x"."i" = 0)')[0]


@pytest.mark.parametrize(
    "aggregate",
    [
        "max(i + 1) FILTER (WHERE o)",
        "array_agg(b ORDER BY i + 1) FILTER (WHERE o)",
        "count(t LIKE v) FILTER (WHERE o)",
        "count(DISTINCT t::int) FILTER (WHERE o)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY i + 1) FILTER (WHERE o)",
    ],
)
def test_what_may_fail_is_computed_where_the_filter_holds(aggregate: str) -> None:
    bound = bind(f"SELECT {aggregate} FROM x")
    assert 'CASE WHEN "x"."o" THEN' in bound.sql("duckdb")
    assert "CASE WHEN `x`.`o` THEN" in bound.sql("spark")


def test_conditions_that_may_fail_are_asked_last() -> None:
    text = bind("SELECT count(*) FILTER (WHERE i + 1 > 2 AND b > 0 AND o) FROM x").sql("duckdb")
    assert text.index('"x"."o"') < text.index("THEN") < text.index('"x"."i" + 1')
