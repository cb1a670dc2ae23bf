"""Tables beside windowed streams: which are read as of the making of a view, and that no way to keep it differs."""

from __future__ import annotations

from typing import Any

import pytest

from asking import rows, scn_now
from windowing import feed, plan_of

BELOW = {
    "a join": "SELECT name, count(*) AS many FROM s [WINDOW 2 ROWS] JOIN names USING (n) GROUP BY name",
    "a left join": "SELECT name, sum(s.n) AS t FROM s [WINDOW 2 ROWS] LEFT JOIN names ON names.n = s.n GROUP BY name",
    "a condition": "SELECT count(*) AS many FROM s [WINDOW 2 ROWS] WHERE EXISTS "
    "(SELECT 1 FROM names WHERE names.n = s.n AND name = 'one')",
    "a WITH query": "WITH known AS (SELECT n, max(name) AS name FROM names GROUP BY n) "
    "SELECT DISTINCT name FROM s [WINDOW 2 ROWS] JOIN known USING (n)",
    "an inner query": "SELECT name, count(*) AS many FROM (SELECT name FROM s [WINDOW 2 ROWS] JOIN names USING (n)) "
    "AS q GROUP BY name",
    "an aggregate": "SELECT max((SELECT name FROM names WHERE names.n = s.n)) AS name FROM s [WINDOW 2 ROWS]",
    "rows that must be kept": "SELECT name, cardinality(array_agg(s.n)) AS many FROM s [WINDOW 2 ROWS] "
    "JOIN names USING (n) GROUP BY name",
    "two windows": "SELECT name, count(*) AS many FROM s [WINDOW 2 ROWS] JOIN names USING (n) "
    "JOIN s [WINDOW 4 ROWS SLIDE 2 ROWS] AS b ON b.n = s.n GROUP BY name",
}
ABOVE = {
    "rows": "SELECT name, s.n FROM s [WINDOW 2 ROWS] JOIN names USING (n)",
    "groups": "SELECT name, many FROM (SELECT n, count(*) AS many FROM s [WINDOW 2 ROWS] GROUP BY n) AS g "
    "JOIN names USING (n)",
    "a value beside groups": "SELECT count(*) AS many, (SELECT max(name) FROM names) AS name FROM s [WINDOW 2 ROWS]",
}


@pytest.fixture
def named(db: Any) -> Any:
    db.sql("CREATE STREAM s (n int); CREATE TABLE names (n int, name text); INSERT INTO names VALUES (1, 'one')")
    return db


SOME = ("a join", "two windows", "a value beside groups")


@pytest.mark.parametrize("chosen", [SOME, pytest.param((*BELOW, *ABOVE), marks=pytest.mark.long)], ids=["some", "all"])
def test_a_table_below_a_grouping_is_frozen_however_the_view_is_kept(named: Any, chosen: tuple[str, ...]) -> None:
    """Both answer alike, before the table changes and after."""
    views = {f"v{place}": {**BELOW, **ABOVE}[what] for place, what in enumerate(chosen)}
    for view, query in views.items():
        named.sql(f"CREATE VIEW {view} AS {query}")
        named.sql(f"CREATE VIEW {view}_anew WITH (maintenance = 'reevaluate') AS {query}")
    made = scn_now(named)
    feed(named, 1, 1, 1, 1)
    before = {view: rows(named, f"SELECT * FROM {view}") for view in views}
    assert {view: rows(named, f"SELECT * FROM {view}_anew") for view in views} == before
    named.sql("UPDATE names SET name = 'uno'")
    feed(named, 1, 1)
    for view, what in zip(views, chosen, strict=True):
        after = rows(named, f"SELECT * FROM {view}")
        assert rows(named, f"SELECT * FROM {view}_anew") == after, what
        assert (after == before[view]) == (what in BELOW), what
        for name in (view, f"{view}_anew"):
            frozen = [line for line in plan_of(named, name).splitlines() if "frozen as of SCN" in line]
            assert len(frozen) == (what in BELOW), (what, name)
            assert all(int(line.rsplit(" ", 1)[1]) <= made for line in frozen)
            notices = [notice for notice in named.sql(f"DESCRIBE {name}").notices if "read as of SCN" in notice]
            assert len(notices) == (what in BELOW), (what, name)


def test_a_frozen_table_is_named_with_the_commit_of_its_own_view(named: Any) -> None:
    """The second view shares the rows that the first one keeps, and has a table of its own."""
    named.sql("CREATE VIEW v WITH (maintenance = 'reevaluate') AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    named.sql("UPDATE names SET name = 'uno'")
    now = scn_now(named)
    named.sql(f"CREATE VIEW w WITH (maintenance = 'reevaluate') AS {BELOW['a join']}")
    assert "Shared by views v, w" in plan_of(named, "w")
    assert f"frozen as of SCN {now}" in plan_of(named, "w")
    named.sql("DELETE FROM names")
    feed(named, 1, 1)
    assert rows(named, "SELECT * FROM w") == [("uno", 2)]
    assert rows(named, "SELECT * FROM v") == [(2,)]
