"""What queries over windows may be made of: streams put together, views beside windows, three windows, and more."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import refusal, rows, wait_for
from windowing import feed, feed_at, plan_of, spans

W = "[WINDOW 4 ROWS SLIDE 2 ROWS]"


@pytest.fixture
def counted(db: Any) -> Any:
    """Two streams whose rows are told apart by a number."""
    db.sql("CREATE STREAM s (n int); CREATE STREAM r (n int)")
    return db


def test_streams_are_put_together_below_a_grouping(counted: Any) -> None:
    counted.sql("CREATE TABLE names (n int, name text); INSERT INTO names VALUES (1, 'one'), (2, 'two'), (9, 'nine')")
    queries = {
        "united": "SELECT n % 2 AS odd, count(*) AS c, sum(n) AS t "
        f"FROM (SELECT n FROM s {W} UNION ALL SELECT -n FROM r {W} WHERE n < 9) AS q GROUP BY n % 2",
        "on_the_right": "SELECT name, count(*) AS c "
        f"FROM names RIGHT JOIN s {W} ON s.n = names.n AND s.n < 2 GROUP BY name",
    }
    for name, query in queries.items():
        counted.sql(f"CREATE VIEW {name} AS {query}")
        counted.sql(f"CREATE VIEW {name}_anew WITH (maintenance = 'reevaluate') AS {query}")
    feed(counted, 1, 2, 3, 4, 5, 1)
    assert rows(counted, "SELECT * FROM united") == [], "the other stream has not completed a window"
    feed(counted, 1, 9, 3, stream="r")
    feed(counted, 3, 2, stream="r")
    assert rows(counted, "SELECT * FROM united ALL WINDOWS") == [(-1, 3, -7), (0, 2, 6), (1, 2, 4)]
    feed(counted, 4, 1, 7, 8)
    feed(counted, 6, stream="r")
    assert rows(counted, "SELECT * FROM united") == [(-1, 2, -6), (0, 3, -4), (1, 3, 9)]
    assert rows(counted, "SELECT * FROM on_the_right ALL WINDOWS") == [
        ("one", 1), ("one", 1), ("one", 1), ("one", 2), (None, 2), (None, 3), (None, 3), (None, 3)
    ]  # fmt: skip
    for name in queries:
        assert rows(counted, f"SELECT * FROM {name} ALL WINDOWS") == rows(
            counted, f"SELECT * FROM {name}_anew ALL WINDOWS"
        )


def test_sums_of_many_basic_windows_are_in_no_other_window_of_the_same_state(db: Any) -> None:
    """A window of 64 basic windows takes sums of sixteen of them; a landmark over the same basic windows does not."""
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    sliding = "SELECT window_end, sum(n) AS n, max(n) AS most FROM e [WINDOW 64 MINUTES SLIDE 1 MINUTE]"
    growing = "SELECT window_end, sum(n) AS n, max(n) AS most FROM e [LANDMARK SLIDE 1 MINUTE]"
    db.sql(f"CREATE VIEW sliding WITH (retain = 1000) AS {sliding}")
    db.sql(f"CREATE VIEW growing WITH (retain = 1000) AS {growing}")
    db.sql(f"CREATE VIEW together WITH (retain = 1000) AS SELECT a.n, b.n AS more FROM ({sliding}) a, ({growing}) b")
    for last in range(13, 126, 14):
        feed_at(db, *range(last - 13, last + 1))
        assert rows(db, "SELECT n FROM growing") == [(sum(range(last)),)]
    ours = sum(range(last - 64, last))
    assert rows(db, "SELECT n, most FROM sliding") == [(ours, last - 1)]
    assert rows(db, "SELECT * FROM together") == [(ours, sum(range(last)))]
    wait_for(lambda: state_rows(db, "growing") < 64, 10)
    assert rows(db, "SELECT n FROM growing ALL WINDOWS") == sorted(
        ((sum(range(n + 1)),) for n in range(last)), key=repr
    )


def state_rows(db: Any, view: str) -> int:
    """How many rows of partials are kept for a view."""
    found = [line for line in plan_of(db, view).splitlines() if line.startswith("  State: ")]
    return sum(int(line.split(" rows of partials")[0].rsplit(" ", 1)[1].replace(",", "")) for line in found)


# Beside windows


def test_a_window_meets_a_continuous_view_and_a_stream_that_is_grouped(counted: Any) -> None:
    """Both are as of the result: all rows that had come by then."""
    counted.sql("CREATE VIEW total AS SELECT n, count(*) AS ever FROM r GROUP BY n")
    counted.sql("CREATE VIEW by_view AS SELECT s.n, ever FROM s [WINDOW 2 ROWS] LEFT JOIN total ON total.n = s.n")
    counted.sql(
        "CREATE VIEW by_stream AS SELECT w.n, w.c, g.ever"
        " FROM (SELECT n, count(*) AS c FROM s [WINDOW 2 ROWS] GROUP BY n) w"
        " LEFT JOIN (SELECT n, count(*) AS ever FROM r GROUP BY n) g ON g.n = w.n"
    )
    feed(counted, 1, 1, 2, stream="r")
    feed(counted, 1, 2)
    assert rows(counted, "SELECT * FROM by_view") == [(1, 2), (2, 1)]
    assert rows(counted, "SELECT * FROM by_stream") == [(1, 1, 2), (2, 1, 1)]
    feed(counted, 1, stream="r")
    assert rows(counted, "SELECT * FROM by_view") == [(1, 2), (2, 1)], "a result does not change any more"
    feed(counted, 1, 3)
    assert rows(counted, "SELECT * FROM by_view") == [(1, 3), (3, None)]
    assert rows(counted, "SELECT * FROM by_stream") == [(1, 1, 3), (3, 1, None)]


def test_three_windows_are_joined_row_by_row(counted: Any) -> None:
    counted.sql("CREATE STREAM q (n int)")
    text = (
        "SELECT a.window_end, a.n, b.n AS more, c.n AS most"
        " FROM s [WINDOW 2 ROWS] a JOIN r [WINDOW 2 ROWS] b ON b.n > a.n"
        " JOIN q [WINDOW 3 ROWS SLIDE 1 ROW] c ON c.n > b.n"
    )
    counted.sql(f"CREATE VIEW v AS {text}")
    counted.sql(f"CREATE VIEW anew WITH (maintenance = 'reevaluate') AS {text}")
    feed(counted, 1, 4, 2, 9)
    feed(counted, 2, 5, 8, 3, stream="r")
    assert rows(counted, "SELECT * FROM v") == []
    feed(counted, 3, 6, 0, 9, stream="q")
    expected = [(2, 1, 2, 3), (2, 1, 2, 6), (2, 1, 5, 6), (2, 4, 5, 6), (4, 2, 3, 6), (4, 2, 3, 9), (4, 2, 8, 9)]
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == rows(counted, "SELECT * FROM anew ALL WINDOWS") == expected


def test_results_of_windows_have_windows_by_their_own_time(db: Any) -> None:
    """The ends of windows are times like others."""
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    db.sql("CREATE VIEW v AS SELECT window_end AS ended, count(*) AS n FROM e [WINDOW 10 MINUTES]")
    db.sql(
        "CREATE VIEW hours AS SELECT window_start, window_end, count(*) AS windows, sum(n) AS n "
        "FROM TUMBLE(v, ended, INTERVAL '1 hour')"
    )
    feed_at(db, 1, 5, 12, 33, 55)
    assert spans(db, "hours") == []
    feed_at(db, 61)
    assert spans(db, "hours") == [(0, 60, 5, 4)], "the window that ends at 60 is of the next hour"
    feed_at(db, 71, 190)
    assert spans(db, "hours") == [(0, 60, 5, 4), (60, 120, 6, 3), (120, 180, 6, 0)]


@pytest.mark.parametrize("maintenance", ["incremental", "reevaluate"])
def test_bounds_of_a_window_stand_beside_sets_of_keys(counted: Any, maintenance: str) -> None:
    """An empty window has no groups, where GROUP BY names its bounds."""
    how = f"WITH (maintenance = '{maintenance}')"
    columns = "SELECT window_start AS a, n, count(*) AS c, sum(n) AS s FROM"
    listed = "GROUP BY GROUPING SETS ((window_start, n), (window_start))"
    counted.sql(f"CREATE VIEW listed {how} AS {columns} s {W} {listed}")
    counted.sql(f"CREATE VIEW beside {how} AS {columns} s {W} WHERE n < 3 GROUP BY window_start, ROLLUP (n)")
    feed(counted, 1, 1, 2, 3, 4, 5, 6)
    first, second = [(0, 1, 2, 2), (0, 2, 1, 2), (0, 3, 1, 3), (0, None, 4, 7)], [(2, None, 4, 14)]
    second += [(2, n, 1, n) for n in (2, 3, 4, 5)]
    assert sorted(rows(counted, "SELECT * FROM listed ALL WINDOWS"), key=repr) == sorted([*first, *second], key=repr)
    expected = [(0, 1, 2, 2), (0, 2, 1, 2), (0, None, 3, 4), (2, 2, 1, 2), (2, None, 1, 2)]
    assert sorted(rows(counted, "SELECT * FROM beside ALL WINDOWS"), key=repr) == sorted(expected, key=repr)
    feed(counted, 7, 8, 9)
    assert rows(counted, "SELECT * FROM beside") == []


def test_a_bound_in_some_sets_of_keys_is_refused(counted: Any) -> None:
    query = f"CREATE VIEW v AS SELECT window_start, count(*) AS c FROM s {W} GROUP BY ROLLUP (window_start, n)"
    error = refusal(counted, query)
    assert (error.sqlstate, error.position) == ("0A000", (1, query.index("(window_start") + 2))
    assert "GROUP BY window_start, ROLLUP" in (error.hint or "")


def test_rows_with_intervals_are_kept_as_they_came(db: Any, monkeypatch: Any) -> None:
    """1 day and 24 hours are equal, and two rows all the same."""
    monkeypatch.setattr("midstream.runtime.states.FEW_FILES", 2)
    db.sql("CREATE STREAM s (n int, length interval)")
    db.sql("CREATE VIEW v AS SELECT n, length FROM s [WINDOW 4 ROWS SLIDE 2 ROWS]")
    db.sql("CREATE VIEW same AS SELECT a.n, b.n AS m FROM s [WINDOW 4 ROWS] a JOIN s [WINDOW 4 ROWS] b USING (length)")
    for number, length in enumerate(["1 day", "24 hours", "1 mon 2 days 03:04:05", None, "00:00:01", "-1 day"]):
        db.sql("INSERT INTO s VALUES (?, ?)", [number, length])
        db.sql("SELECT * FROM v").fetchall()
    lengths = [(2, "1 mon 2 days 03:04:05"), (3, None), (4, timedelta(seconds=1)), (5, timedelta(days=-1))]
    assert sorted(rows(db, "SELECT * FROM v")) == lengths
    assert sorted(rows(db, "SELECT * FROM same")) == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]


def test_windows_that_spark_leaves_in_several_files_have_all_their_rows(database: Any, tmp_path: Path) -> None:
    """Also when the database is opened again, for who follows the view, and for a view over it."""
    expected = [(start, n) for start in range(0, 16, 2) for n in range(start, start + 4)]
    with midstream.connect(tmp_path / "spark.db", kernel="spark") as db:
        db.sql("CREATE STREAM s (n int)")
        db.sql(f"CREATE VIEW v AS SELECT window_start, n FROM s {W}; CREATE VIEW o AS SELECT count(*) AS c FROM v")
        with db.subscribe("v") as changes:
            feed(db, *range(18))
            assert sorted(rows(db, "SELECT * FROM v ALL WINDOWS")) == expected
            assert sorted(rows(db, "SELECT n FROM v")) == [(14,), (15,), (16,), (17,)]
            assert sorted(tuple(change.row.values()) for change in changes.poll(60)) == expected
        assert rows(db, "SELECT c FROM o") == [(len(expected),)]
    with midstream.connect(tmp_path / "spark.db") as db:
        assert sorted(rows(db, "SELECT * FROM v ALL WINDOWS")) == expected


# Jobs


def test_many_slides_are_absorbed_in_one_job_and_computed_in_few(counted: Any, monkeypatch: Any) -> None:
    """However many views there are over the stream; 64 windows for each core are one job."""
    counted.sql(
        "CREATE VIEW v WITH (retain = 10000) AS SELECT window_end, sum(n) AS n FROM s [WINDOW 4 ROWS SLIDE 2 ROWS]"
    )
    counted.sql("CREATE VIEW w AS SELECT n % 3 AS k, max(n) AS n FROM s [WINDOW 9 ROWS] GROUP BY n % 3")
    engine, labels = counted._store.engine, list[str]()
    run = engine.run

    def counting(kernel: str, pieces: Any, **how: Any) -> Any:
        labels.append(how["label"])
        return run(kernel, pieces, **how)

    monkeypatch.setattr(engine, "run", counting)
    counted.sql("INSERT INTO s SELECT n FROM generate_series(1, 1200) AS g(n)")
    assert len(rows(counted, "SELECT * FROM v ALL WINDOWS")) == 599
    assert rows(counted, "SELECT * FROM w") == [(0, 1197), (1, 1195), (2, 1196)]
    assert len([label for label in labels if "absorb" in label]) == 1, labels
    assert len([label for label in labels if label == 'windows of "v"']) == -(-599 // (64 * engine.cores)), labels


def test_rows_are_gone_when_partials_have_them(counted: Any) -> None:
    counted.sql(
        "CREATE VIEW v AS SELECT n % 2 AS k, sum(n) AS n FROM s [WINDOW 400 ROWS SLIDE 100 ROWS] GROUP BY n % 2"
    )
    for first in range(0, 1000, 250):
        counted.sql(f"INSERT INTO s SELECT n FROM generate_series({first}, {first + 249}) AS g(n)")
    assert rows(counted, "SELECT * FROM v") == [(0, 159800), (1, 160000)]
    [(_, reader)] = counted._store.views.readers_of(counted._store.catalog.state.relations["v"].id)
    assert not reader.state.program.keeps_rows
    assert reader.state.rows <= 2 * (10 + 4), "two groups of ten basic windows, some of them in two batches"
    status = next(status for status in counted._store.streams.status() if status.stream.name == "s")
    assert status.unabsorbed_rows == 0, "the log has none of them"


def test_a_join_of_windows_is_kept_by_the_way_that_takes_less_time(counted: Any) -> None:
    """Both ways are taken for some windows each, and give the same."""
    window = "[WINDOW 6 ROWS SLIDE 2 ROWS]"
    query = f"SELECT count(*) AS n, sum(s.n * r.n) AS m FROM s {window} JOIN r {window} ON s.n <= r.n"
    counted.sql(f"CREATE VIEW tried AS {query}")
    assert "that is being measured" in plan_of(counted, "tried")
    assert "now on the duckdb kernel: pairs of windows are joined there" in plan_of(counted, "tried")
    numbers: tuple[list[int], list[int]] = ([], [])
    for step in range(16):
        for stream, own in zip(("s", "r"), numbers, strict=True):
            new = [(step * 7 + len(own)) % 11, (step * 3) % 5]
            own += new
            counted.sql(f"INSERT INTO {stream} VALUES ({new[0]}), ({new[1]})")
        if step >= 2:
            s, r = (own[2 * step - 4 : 2 * step + 2] for own in numbers)
            pairs = [(a, b) for a in s for b in r if a <= b]
            assert rows(counted, "SELECT * FROM tried") == [
                (len(pairs), sum(a * b for a, b in pairs) if pairs else None)
            ]
    plan = plan_of(counted, "tried")
    assert "since that took less time (by pairs of basic windows: " in plan and ", anew over all rows: " in plan


ASKED = {
    # In WHERE, beside partials that know nothing of it.
    f"SELECT window_end, count(*) AS c FROM s {W} WHERE window_start > 0": [(4, 0), (6, 4), (8, 4)],
    f"SELECT n % 2 AS odd, count(*) AS c FROM s {W} WHERE window_end = 6 GROUP BY n % 2": [(0, 2), (1, 2)],
    f"SELECT window_end, sum(n) AS t FROM s {W} WHERE n > window_start + 2": [(4, 7), (6, 11), (8, 15)],
    f"SELECT count(*) AS c FROM s {W} WHERE now() < '2000-01-01'": [(0,), (0,), (0,)],
    # By a name that a subquery gave it.
    f"SELECT max(e) AS e, sum(n) AS t FROM (SELECT n, window_end AS e FROM s {W}) AS q": [(4, 10), (6, 18), (8, 26)],
    f"SELECT sum(n + b) AS t FROM (SELECT n, a + 1 AS b FROM (SELECT n, window_start AS a FROM s {W}) AS p) AS q": [
        (14,), (30,), (46,)
    ],
    f"SELECT e, count(*) AS c FROM (SELECT window_end AS e FROM s {W}) AS q WHERE e > 4 GROUP BY e": [(6, 4), (8, 4)],
    # In keys and outer joins.
    f"SELECT n - window_start AS place, count(*) AS c FROM s {W} WHERE n < 3 GROUP BY n - window_start": [
        (1, 1), (2, 1)
    ],
    f"SELECT DISTINCT (n - window_start) / 3 AS half FROM s {W}": [(0,), (0,), (0,), (1,), (1,), (1,)],
    f"SELECT x.name, count(*) AS c FROM s {W} LEFT JOIN (VALUES (2, 'two')) AS x (at, name) ON x.at = window_start"
    " GROUP BY x.name": [("two", 4), (None, 4), (None, 4)],
    f"SELECT DISTINCT window_start - 1 AS a, window_end - 1 AS b FROM s {W}": [(-1, 3), (1, 5), (3, 7)],
    f"SELECT max(window_start) AS a, max(window_end) AS b FROM s {W}": [(0, 4), (2, 6), (4, 8)],
    f"SELECT x.i, count(*) AS c FROM s {W} LEFT JOIN few AS x ON window_start = 2 AND x.i = 1 GROUP BY x.i": [
        (1, 4), (None, 4), (None, 4)
    ],
    f"SELECT DISTINCT ON (window_end) window_end, n FROM s {W} ORDER BY window_end, n DESC": [(4, 4), (6, 6), (8, 8)],
    # What only rows can answer.
    f"SELECT count(*) AS c FROM s {W} GROUP BY (SELECT max(i) FROM few WHERE i < n)": [
        (1,), (1,), (1,), (1,), (1,), (3,), (4,)
    ],
    f"SELECT DISTINCT (SELECT max(i) FROM few WHERE i <= n) AS m FROM s {W}": [(1,), (2,), (3,), (3,), (3,)],
    f"SELECT i, (SELECT sum(n + i) FROM s {W}) AS t FROM few WHERE i < 2": [(1, 14), (1, 22), (1, 30)],
    # In LATERAL.
    f"SELECT l.x % 2 AS odd, count(*) AS c FROM s {W} CROSS JOIN LATERAL (SELECT n - window_start AS x) AS l"
    " GROUP BY l.x % 2": [(0, 2), (0, 2), (0, 2), (1, 2), (1, 2), (1, 2)],
    f"SELECT count(*) AS c FROM s {W} CROSS JOIN LATERAL generate_series(1, window_end - n) AS g (x)": [
        (6,), (6,), (6,)
    ],
    # In what a condition below a grouping asks.
    f"SELECT window_end, max(n) AS m FROM s {W} WHERE EXISTS (SELECT 1 FROM few AS f WHERE f.i = n - window_start)": [
        (4, 3), (6, 5), (8, 7)
    ],
    f"SELECT count(*) AS c FROM s {W} WHERE (SELECT count(*) FROM few AS f WHERE f.i > window_start) > 0": [
        (0,), (4,), (4,)
    ],
    f"SELECT count(*) AS c FROM (SELECT n, window_start AS a FROM s {W}) AS q WHERE n IN (SELECT i + a FROM few)": [
        (3,), (3,), (3,)
    ],
    f"SELECT count(*) AS c, sum(i) AS t FROM (SELECT i FROM s {W} LEFT JOIN few ON i = n + window_start) AS q": [
        (4, 6), (4, None), (4, None)
    ],
}  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), ASKED.items())
def test_the_bounds_of_a_window_may_be_asked_for_with_each_row(counted: Any, query: str, expected: list[Any]) -> None:
    """Also where the results of several windows are computed together, and the same as evaluated anew."""
    counted.sql("CREATE TABLE few (i int); INSERT INTO few VALUES (1), (2), (3)")
    counted.sql(f"CREATE VIEW v AS {query}; CREATE VIEW anew WITH (maintenance = 'reevaluate') AS {query}")
    feed(counted, 1, 2, 3, 4, 5, 6, 7, 8)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == expected
    assert rows(counted, "SELECT * FROM anew ALL WINDOWS") == expected


def test_a_view_that_would_keep_rows_beside_a_table_is_explained(counted: Any) -> None:
    """The table would be frozen; before the view is made, it is not."""
    counted.sql("CREATE TABLE few (i int)")
    query = f"SELECT max(window_end) AS e FROM s {W} WHERE n IN (SELECT i FROM few)"
    lines = [line for (line,) in rows(counted, f"EXPLAIN CREATE VIEW v AS {query}")]
    assert any("as it was when the view was created" in line for line in lines)


def test_the_bounds_of_a_window_are_told_apart(counted: Any) -> None:
    query = f"CREATE VIEW v AS SELECT n - window_end AS a FROM s {W} GROUP BY n - window_start"
    assert "must appear in the GROUP BY clause" in str(refusal(counted, query))


@pytest.mark.parametrize("name", ["window_end", "q.window_end"])
def test_a_bound_that_a_subquery_does_not_give_is_told_where_to_select_it(counted: Any, name: str) -> None:
    query = f"CREATE VIEW v AS SELECT {name}, c FROM (SELECT count(*) AS c FROM s {W}) AS q"
    hint = "window_end is of a stream with a window behind it; where that is in a subquery, select it there."
    assert refusal(counted, query).hint == hint
