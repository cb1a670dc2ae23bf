"""Sorting below the first grouping: refused where it decides which rows there are, dropped with a notice where not."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import pytest

from midstream.errors import Unsupported
from midstream.plan import BindContext
from midstream.plan.cut import cut_view
from midstream.relations.stream import Stream
from midstream.relations.table import Column, Table
from midstream.sql import parse_query
from midstream.types import INT

COLUMNS = (Column("k", INT), Column("n", INT))
DROPPED = (
    'ORDER BY without LIMIT on the rows of stream "s" is dropped: they are grouped above it, and no group depends on '
    "their order"
)


class Schema:
    known = {"s": Stream(7, "s", COLUMNS), "t": Table(8, "t", COLUMNS)}

    def relation(self, name: str, as_of: int | None = None) -> Any:
        return self.known.get(name)

    def names(self) -> Iterable[str]:
        return self.known


def plan_of(query: str) -> Any:
    return cut_view(parse_query(query), Schema(), BindContext(1, datetime.now(timezone.utc)))


@pytest.mark.parametrize(
    ("query", "unsorted"),
    [
        (
            "SELECT k, count(*) AS c FROM (SELECT k, n FROM s ORDER BY n) AS p GROUP BY k",
            "SELECT k, count(*) AS c FROM (SELECT k, n FROM s) AS p GROUP BY k",
        ),
        (
            "SELECT DISTINCT k FROM (SELECT k FROM s UNION ALL SELECT n FROM s ORDER BY 1) AS p",
            "SELECT DISTINCT k FROM (SELECT k FROM s UNION ALL SELECT n FROM s) AS p",
        ),
        (
            "WITH p AS (SELECT k FROM s ORDER BY n) SELECT (SELECT count(*) FROM p) AS a, (SELECT max(k) FROM p) AS b",
            "WITH p AS (SELECT k FROM s) SELECT (SELECT count(*) FROM p) AS a, (SELECT max(k) FROM p) AS b",
        ),
        (
            "SELECT k FROM t WHERE k IN (SELECT k FROM s ORDER BY n)",
            "SELECT k FROM t WHERE k IN (SELECT k FROM s)",
        ),
        (
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k ORDER BY s.n)",
            "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)",
        ),
    ],
)
def test_an_order_that_no_group_depends_on_is_dropped_and_told_once(query: str, unsorted: str) -> None:
    plan, same = plan_of(query), plan_of(unsorted)
    assert plan.notices == (DROPPED,)
    assert same.notices == ()
    assert [pipeline.name for pipeline in plan.pipelines] == [pipeline.name for pipeline in same.pipelines]


@pytest.mark.parametrize(
    ("query", "at"),
    [
        ("SELECT array_agg(k) AS a FROM (SELECT k FROM s ORDER BY n) AS p", "array_agg"),
        ("SELECT first(k) AS a FROM (SELECT k FROM s ORDER BY n) AS p", "first"),
        ("SELECT count(*) AS c FROM (SELECT k FROM s ORDER BY n LIMIT 3) AS p", "s ORDER"),
        ("SELECT count(*) AS c FROM (SELECT k FROM s ORDER BY n OFFSET 3) AS p", "s ORDER"),
    ],
)
def test_an_order_that_an_answer_would_depend_on_is_refused(query: str, at: str) -> None:
    with pytest.raises(Unsupported) as caught:
        plan_of(query)
    error = caught.value
    assert error.detail and error.hint
    assert error.position is not None
    assert query[error.position[1] - 1 :].startswith(at)


def test_an_order_above_the_grouping_stays() -> None:
    plan = plan_of("SELECT k, c FROM (SELECT k, count(*) AS c FROM s GROUP BY k ORDER BY c LIMIT 2) AS p")
    assert plan.notices == ()
    assert "ORDER BY" in plan.upper(plan.words(datetime.now(timezone.utc), 1)).sql("duckdb")
