"""Which queries over windows keep partials and which keep rows, and which tables they read as of the view's making."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from midstream.plan import BindContext
from midstream.plan.cut import ViewPlan, cut_view, fold
from midstream.relations.stream import Stream
from midstream.relations.table import Column, Table
from midstream.sql import parse_query
from midstream.types import INT, TEXT, TIMESTAMP

CONTEXT = BindContext(1, datetime(2027, 1, 1, tzinfo=timezone.utc))
ROWS = (Column("at", TIMESTAMP), Column("n", INT), Column("k", TEXT))
W = "[WINDOW 6 ROWS SLIDE 2 ROWS]"

PARTIALS = {
    "a grouping": f"SELECT k, avg(n) AS a, max(n) AS m FROM s {W} WHERE n > 1 GROUP BY k",
    "no keys": f"SELECT window_start, count(*) AS c FROM s {W}",
    "several keys and sets of them": f"SELECT k, n, count(*) AS c FROM s {W} GROUP BY ROLLUP (k, n)",
    "distinct rows": f"SELECT DISTINCT k FROM s {W}",
    "values that are counted": f"SELECT k, count(DISTINCT n) AS c, median(n) AS m FROM s {W} GROUP BY k",
    "a landmark": "SELECT sum(n) AS t FROM s [LANDMARK SLIDE 2 ROWS RESET 8 ROWS]",
    "a session": "SELECT sum(n) AS t FROM s [SESSION 10 MINUTES BY k]",
    "an inner query": f"SELECT x, count(*) AS c FROM (SELECT n + 1 AS x FROM s {W} WHERE k = 'a') AS q GROUP BY x",
    "a table": f"SELECT name, count(*) AS c FROM s {W} JOIN names USING (n) GROUP BY name",
    "a table that may have no match": f"SELECT name, count(*) AS c FROM s {W} LEFT JOIN names USING (n) GROUP BY name",
    "a table on the left": f"SELECT name, count(*) AS c FROM names RIGHT JOIN s {W} ON s.n = names.n GROUP BY name",
    "a table under EXISTS": f"SELECT count(*) AS c FROM s {W} WHERE EXISTS (SELECT 1 FROM names WHERE names.n = s.n)",
    "two groupings": f"SELECT max(c) AS m FROM (SELECT k, count(*) AS c FROM s {W} GROUP BY k) AS q",
    "groups that are joined": f"SELECT a.k, b.c FROM (SELECT k FROM s {W} GROUP BY k) AS a "
    f"JOIN (SELECT k, count(*) AS c FROM r {W} GROUP BY k) AS b USING (k)",
    "two streams together": f"SELECT k, count(*) AS c FROM (SELECT k, n FROM s {W} UNION ALL SELECT k, n FROM r {W}) "
    "AS q GROUP BY k",
    "three, with a table": f"SELECT q.k, count(*) AS c FROM (SELECT k, n FROM s {W} WHERE n > 1 UNION ALL SELECT k, "
    f"n + 1 FROM r {W} UNION ALL SELECT name, s.n FROM s {W} JOIN names USING (n)) AS q "
    "LEFT JOIN names ON names.n = q.n GROUP BY q.k",
    "groups that are put together": f"SELECT k, c FROM (SELECT k, count(*) AS c FROM s {W} GROUP BY k UNION ALL "
    f"SELECT k, count(*) FROM r {W} GROUP BY k) AS q WHERE c > 1",
    "sessions together": "SELECT count(*) AS c FROM (SELECT n FROM s [SESSION 10 MINUTES] "
    "UNION ALL SELECT -n FROM s [SESSION 10 MINUTES]) AS q",
}
KEPT_ROWS = {
    "rows": f"SELECT n FROM s {W}",
    "an aggregate that does not merge": f"SELECT array_agg(n) AS a FROM s {W}",
    "two windows": f"SELECT count(*) AS c FROM s {W} AS a JOIN r {W} AS b ON a.n = b.n",
    "a window on the side that may have no match": f"SELECT count(*) AS c FROM names LEFT JOIN s {W} ON s.n = names.n",
    "the newest rows": f"SELECT sum(n) AS t FROM (SELECT n FROM s {W} ORDER BY n LIMIT 2) AS q",
    "two streams in windows of their own": f"SELECT count(*) AS c FROM (SELECT n FROM s {W} "
    "UNION ALL SELECT n FROM r [WINDOW 2 ROWS]) AS q",
    "a stream and a table together": f"SELECT count(*) AS c FROM (SELECT n FROM s {W} UNION ALL SELECT n FROM names) "
    "AS q",
    "bounds of two streams": f"SELECT e, count(*) AS c FROM (SELECT window_end AS e FROM s {W} "
    f"UNION ALL SELECT window_start FROM r {W}) AS q GROUP BY e",
    "sessions of each key together": "SELECT count(*) AS c FROM (SELECT n FROM s [SESSION 10 MINUTES BY k] "
    "UNION ALL SELECT n FROM s [SESSION 10 MINUTES BY k]) AS q",
}


class Schema:
    def __init__(self) -> None:
        names = Table(9, "names", (Column("n", INT, id=1), Column("name", TEXT, id=2)))
        self.known = {"s": Stream(7, "s", ROWS, "at"), "r": Stream(8, "r", ROWS, "at"), "names": names}

    def relation(self, name: str, as_of: int | None = None) -> Any:
        return self.known.get(name)


def cut(query: str, **how: Any) -> ViewPlan:
    return cut_view(parse_query(query), Schema(), CONTEXT, **how)


def keepers(plan: ViewPlan) -> list[bool]:
    """Whether each pipeline keeps rows; when rows of sessions came is kept apart, and so is what pairs come to."""
    times = {scan.relation.name for query in plan.times for scan in query.scans}
    pipelines = [pipeline for pipeline in plan.pipelines if pipeline not in plan.pairs]
    return [fold([pipeline]).program.keeps_rows for pipeline in pipelines if pipeline.name not in times]


@pytest.mark.parametrize("query", PARTIALS.values(), ids=PARTIALS)
def test_partials_are_enough_for(query: str) -> None:
    assert not any(keepers(cut(query)))


@pytest.mark.parametrize("query", KEPT_ROWS.values(), ids=KEPT_ROWS)
def test_rows_are_kept_for(query: str) -> None:
    assert all(keepers(cut(query)))


@pytest.mark.parametrize("query", [*PARTIALS.values(), *KEPT_ROWS.values()], ids=[*PARTIALS, *KEPT_ROWS])
def test_what_is_evaluated_anew_keeps_rows_and_reads_the_same_tables_live(query: str) -> None:
    kept, anew = cut(query), cut(query, keep_rows=True)
    assert all(keepers(anew))
    assert live_tables(anew) == live_tables(kept)


def live_tables(plan: ViewPlan) -> list[str]:
    words = plan.window_words(0, {}) if not plan.times else {}
    return [scan.relation.name for scan in plan.upper(words).scans if scan.source == "table"]


def test_a_join_of_windows_keeps_the_same_rows_with_and_without_pairs() -> None:
    """So a view can go from one to the other while it runs."""
    by_pairs, anew = cut(KEPT_ROWS["two windows"]), cut(KEPT_ROWS["two windows"], pairs=False)
    assert by_pairs.pairs and not anew.pairs
    kept = [pipeline.name for pipeline in by_pairs.pipelines if pipeline not in by_pairs.pairs]
    assert kept == [pipeline.name for pipeline in anew.pipelines]
