"""Windows over streams, rule by rule, with rows that can be counted by hand.

Random windows, and rows in any order, are in `tests/laws/test_windows.py`.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import refusal, rows, wait_for
from windowing import COUNTED, at, feed, feed_at, spans


@pytest.fixture
def counted(db: Any) -> Any:
    """A stream whose rows are told apart by a number."""
    db.sql("CREATE STREAM s (n int)")
    return db


@pytest.fixture
def timed(db: Any) -> Any:
    """A stream that has a time of its own, and allows no lateness."""
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    return db


# Windows by rows


@pytest.mark.parametrize(
    ("window", "expected"),
    {
        "[WINDOW 3 ROWS]": [(0, 3, "0 1 2"), (3, 6, "3 4 5"), (6, 9, "6 7 8")],
        "[WINDOW 4 ROWS SLIDE 2 ROWS]": [
            (0, 4, "0 1 2 3"),
            (2, 6, "2 3 4 5"),
            (4, 8, "4 5 6 7"),
            (6, 10, "6 7 8 9"),
        ],
        "[WINDOW 5 ROWS SLIDE 3 ROWS]": [(0, 5, "0 1 2 3 4"), (3, 8, "3 4 5 6 7")],
        "[WINDOW 2 ROWS SLIDE 5 ROWS]": [(0, 2, "0 1"), (5, 7, "5 6")],
        "[LANDMARK SLIDE 4 ROWS]": [(0, 4, "0 1 2 3"), (0, 8, "0 1 2 3 4 5 6 7")],
        "[LANDMARK SLIDE 2 ROWS RESET 4 ROWS]": [
            (0, 2, "0 1"),
            (0, 4, "0 1 2 3"),
            (4, 6, "4 5"),
            (4, 8, "4 5 6 7"),
            (8, 10, "8 9"),
        ],
        "[WINDOW 1 ROW SLIDE 4 ROWS]": [(0, 1, "0"), (4, 5, "4"), (8, 9, "8")],
    }.items(),
)
def test_windows_by_rows(counted: Any, window: str, expected: list[Any]) -> None:
    """Ten rows, in three inserts that end within windows."""
    query = f"SELECT window_start, window_end, string_agg(CAST(n AS text), ' ' ORDER BY n) AS rows FROM s {window}"
    counted.sql(f"CREATE VIEW v AS {query}")
    counted.sql(f"CREATE VIEW again WITH (maintenance = 'reevaluate') AS {query}")
    feed(counted, 0)
    feed(counted, 1, 2, 3, 4, 5, 6)
    feed(counted, 7, 8, 9)
    assert spans(counted) == spans(counted, "again") == expected
    assert counted.sql("SELECT * FROM v").fetchall() == [expected[-1]]


def test_row_numbers_begin_with_the_first_row_that_the_view_sees(counted: Any) -> None:
    feed(counted, 0, 1, 2)
    counted.sql(f"CREATE VIEW v AS {COUNTED} s [WINDOW 2 ROWS]")
    feed(counted, 3, 4, 5)
    assert spans(counted) == [(0, 2, 2)]


def test_every_window_of_a_large_insert_is_handed_out(counted: Any) -> None:
    counted.sql(f"CREATE VIEW v WITH (retain = 10000) AS {COUNTED} s [WINDOW 4 ROWS SLIDE 2 ROWS]")
    counted.sql("INSERT INTO s SELECT n FROM generate_series(1, 3001) AS g(n)")
    assert spans(counted) == [(2 * k, 2 * k + 4, 4) for k in range(1499)]


# Windows by the time of the stream


def test_ends_of_windows_are_multiples_of_the_slide_since_1970(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 7 MINUTES]")
    feed_at(timed, 0, 20)
    [(start, end, n)] = rows(timed, "SELECT * FROM v ALL WINDOWS WHERE n > 0")
    assert (end - start, n) == (timedelta(minutes=7), 1)
    assert (end - datetime(1970, 1, 1)) % timedelta(minutes=7) == timedelta(0)
    assert start <= at(0) < end


def test_windows_before_1970_are_aligned_alike(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 SECONDS]")
    timed.sql("INSERT INTO e VALUES ('1969-12-31 23:59:45', 1), ('1969-12-31 23:59:55', 2), ('1970-01-01 00:00:00', 3)")
    eve, new_year = datetime(1969, 12, 31, 23, 59), datetime(1970, 1, 1)
    assert rows(timed, "SELECT * FROM v ALL WINDOWS") == [
        (eve.replace(second=40), eve.replace(second=50), 1),
        (eve.replace(second=50), new_year, 1),
    ]


def test_the_start_is_in_a_window_and_the_end_is_not(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    timed.sql(f"INSERT INTO e VALUES ('{at(0)}', 1), ('{at(10) - timedelta(microseconds=1)}', 2), ('{at(10)}', 3)")
    assert spans(timed) == [(0, 10, 2)]


def test_a_window_is_complete_when_the_watermark_has_reached_its_end(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(timed, 3)
    timed.sql(f"INSERT INTO e VALUES ('{at(10) - timedelta(microseconds=1)}', 2)")
    assert timed.sql("SELECT * FROM v").fetchall() == []
    feed_at(timed, 10)
    assert spans(timed) == [(0, 10, 2)]


def test_before_the_first_complete_window_there_is_no_row_at_all(timed: Any) -> None:
    timed.sql("CREATE VIEW v AS SELECT count(*) AS n FROM e [WINDOW 10 MINUTES]")
    assert timed.sql("SELECT * FROM v").fetchall() == []
    feed_at(timed, 3)
    assert timed.sql("SELECT * FROM v").fetchall() == timed.sql("SELECT * FROM v ALL WINDOWS").fetchall() == []


def test_an_empty_window_gives_what_sql_gives_for_no_rows(timed: Any) -> None:
    timed.sql("CREATE VIEW v AS SELECT window_start, window_end, count(*) AS n, sum(n) AS t FROM e [WINDOW 10 MINUTES]")
    timed.sql("CREATE VIEW by_n AS SELECT n, count(*) AS many FROM e [WINDOW 10 MINUTES] GROUP BY n")
    timed.sql(f"CREATE VIEW by_start AS {COUNTED} e [WINDOW 10 MINUTES] GROUP BY window_start, window_end")
    feed_at(timed, 3, 31)
    assert spans(timed) == [(0, 10, 1, 3), (10, 20, 0, None), (20, 30, 0, None)]
    assert timed.sql("SELECT * FROM by_n").fetchall() == []
    assert timed.sql("SELECT * FROM by_n ALL WINDOWS").fetchall() == [(3, 1)]
    assert spans(timed, "by_start") == [(0, 10, 1)]


def test_a_window_that_began_before_the_first_row_counts(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 30 MINUTES SLIDE 10 MINUTES]")
    feed_at(timed, 25, 51)
    assert spans(timed) == [(0, 30, 1), (10, 40, 1), (20, 50, 1)]


@pytest.mark.parametrize(
    ("window", "expected"),
    {
        "e [WINDOW 15 MINUTES SLIDE 10 MINUTES]": [(-5, 10, "3 9"), (5, 20, "9 12"), (15, 30, "26"), (25, 40, "26")],
        "e [WINDOW 5 MINUTES SLIDE 20 MINUTES]": [(15, 20, None), (35, 40, None)],
        "e [LANDMARK SLIDE 20 MINUTES]": [(0, 20, "3 9 12"), (0, 40, "3 9 12 26")],
        "e [LANDMARK SLIDE 10 MINUTES RESET 20 MINUTES]": [
            (0, 10, "3 9"),
            (0, 20, "3 9 12"),
            (20, 30, "26"),
            (20, 40, "26"),
        ],
        "TUMBLE(e, at, INTERVAL '20 minutes')": [(0, 20, "3 9 12"), (20, 40, "26")],
        "TUMBLE(e, INTERVAL '20 minutes')": [(0, 20, "3 9 12"), (20, 40, "26")],
        "HOP(e, at, INTERVAL '20 minutes', INTERVAL '30 minutes')": [(-10, 20, "3 9 12"), (10, 40, "12 26")],
        "TABLE(TUMBLE(TABLE e, DESCRIPTOR(at), INTERVAL '20 minutes'))": [(0, 20, "3 9 12"), (20, 40, "26")],
    }.items(),
)
def test_windows_by_time(timed: Any, window: str, expected: list[Any]) -> None:
    query = f"SELECT window_start, window_end, string_agg(CAST(n AS text), ' ' ORDER BY n) AS rows FROM {window} AS x"
    timed.sql(f"CREATE VIEW v AS {query}")
    timed.sql(f"CREATE VIEW again WITH (maintenance = 'reevaluate') AS {query}")
    feed_at(timed, 3)
    feed_at(timed, 12, 9, 26)
    feed_at(timed, 40)
    assert spans(timed) == spans(timed, "again") == expected


def test_the_landmark_begins_with_the_oldest_row_in_time(db: Any) -> None:
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at', lateness = '10 minutes')")
    db.sql(f"CREATE VIEW v AS {COUNTED} e [LANDMARK SLIDE 10 MINUTES]")
    feed_at(db, 25)
    assert spans(db) == []
    feed_at(db, 18)
    feed_at(db, 42)
    assert spans(db) == [(10, 20, 1), (10, 30, 2)]


@pytest.mark.parametrize(
    ("type_", "first", "start", "end"),
    [
        ("timestamptz", "2024-01-01 01:30:00+01", datetime(2024, 1, 1, tzinfo=timezone.utc), timedelta(days=1)),
        ("date", "2024-01-01", datetime(2024, 1, 1), timedelta(days=1)),
    ],
)
def test_a_time_may_be_a_moment_or_a_day(db: Any, type_: str, first: str, start: datetime, end: timedelta) -> None:
    db.sql(f"CREATE STREAM e (at {type_}) WITH (timestamp = 'at')")
    db.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 1 DAY]")
    db.sql(f"INSERT INTO e VALUES ('{first}'), ('2024-01-02')")
    assert db.sql("SELECT * FROM v").fetchall() == [(start, start + end, 1)]


# Late rows


def test_rows_within_the_lateness_fall_into_their_window(db: Any) -> None:
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at', lateness = '10 minutes')")
    db.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(db, 15)
    feed_at(db, 19.9)
    assert spans(db) == [], "the watermark stands before minute 10"
    feed_at(db, 9.9)
    feed_at(db, 20)
    assert spans(db) == [(0, 10, 1)]
    feed_at(db, 10)
    feed_at(db, 30)
    assert spans(db) == [(0, 10, 1), (10, 20, 3)]
    assert db.sql("SELECT * FROM late_e").fetchall() == []


def test_a_late_row_is_counted_and_kept_and_in_no_window(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    timed.sql(f"CREATE VIEW growing AS {COUNTED} e [LANDMARK SLIDE 10 MINUTES]")
    feed_at(timed, 5)
    feed_at(timed, 4)
    feed_at(timed, 5)
    feed_at(timed, 12, 11)
    feed_at(timed, 9, 20)
    assert spans(timed) == [(0, 10, 2), (10, 20, 2)]
    assert spans(timed, "growing") == [(0, 10, 2), (0, 20, 4)]
    assert rows(timed, "SELECT at, n FROM late_e") == [(at(4), 4), (at(9), 9)]
    assert dict(timed.sql("SHOW STATUS").fetchall())["late rows of stream e"] == "2"


def test_the_watermark_moves_at_the_end_of_an_insert(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(timed, 35, 5, 20, 5)
    feed_at(timed, 35, 34)
    assert spans(timed) == [(0, 10, 2), (10, 20, 0), (20, 30, 1)]
    assert rows(timed, "SELECT n FROM late_e") == [(34,)]


def test_views_made_at_different_times_agree_on_what_is_late(timed: Any) -> None:
    """The second one comes when the stream has already reached minute 25."""
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(timed, 25)
    timed.sql(f"CREATE VIEW later AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(timed, 15)
    feed_at(timed, 26)
    feed_at(timed, 41)
    assert spans(timed) == [(20, 30, 2), (30, 40, 0)]
    assert spans(timed, "later") == [(20, 30, 1), (30, 40, 0)]
    assert rows(timed, "SELECT n FROM late_e") == [(15,)]


def test_the_watermark_is_that_of_the_stream_not_of_its_first_view(timed: Any) -> None:
    feed_at(timed, 25)
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(timed, 15)
    feed_at(timed, 31)
    feed_at(timed, 45)
    assert spans(timed) == [(30, 40, 1)]
    assert rows(timed, "SELECT n FROM late_e") == [(15,)]


def test_a_row_without_a_time_is_in_no_window_and_is_kept_as_late(db: Any) -> None:
    db.sql("CREATE STREAM e (at timestamp, n int)")
    db.sql(f"CREATE VIEW v AS {COUNTED} TUMBLE(e, at, INTERVAL '10 minutes')")
    db.sql(f"INSERT INTO e VALUES ('{at(3)}', 1), (NULL, 2), ('{at(10)}', 3)")
    db.sql("INSERT INTO e VALUES (NULL, 4)")
    assert spans(db) == [(0, 10, 1)]
    assert rows(db, "SELECT at, n FROM late_e") == [(None, 2), (None, 4)]


# Queries over windows


def test_a_windowed_stream_needs_no_grouping(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT n FROM s [WINDOW 4 ROWS SLIDE 2 ROWS] WHERE n % 2 = 1")
    feed(counted, 1, 2, 3, 4, 5, 6)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(1,), (3,), (3,), (5,)]
    assert rows(counted, "SELECT * FROM v") == [(3,), (5,)]


def test_a_filter_takes_no_row_out_of_the_count(counted: Any) -> None:
    """Rows are numbered as they come to the stream, before WHERE."""
    counted.sql("CREATE VIEW v AS SELECT window_start, window_end, sum(n) AS n FROM s [WINDOW 3 ROWS] WHERE n > 4")
    feed(counted, 1, 2, 5, 6, 1, 7, 1, 1, 1)
    assert spans(counted) == [(0, 3, 5), (3, 6, 13), (6, 9, None)]


def test_the_alias_stands_behind_the_bracket(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT x.window_end, max(x.n) AS n FROM s [WINDOW 2 ROWS] AS x WHERE x.n > 0")
    feed(counted, 1, 9)
    assert counted.sql("SELECT * FROM v").fetchall() == [(2, 9)]


def test_bounds_may_be_selected_grouped_by_and_computed_with(counted: Any) -> None:
    counted.sql(
        "CREATE VIEW v AS SELECT n % 2 AS odd, window_end - window_start AS size, max(n) - window_start AS more "
        "FROM s [WINDOW 3 ROWS] GROUP BY n % 2 HAVING window_end > 3"
    )
    counted.sql(f"CREATE VIEW grouped AS {COUNTED} s [WINDOW 3 ROWS] WHERE n > window_start GROUP BY 1, 2")
    feed(counted, 1, 2, 3, 14, 15, 16)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(0, 3, 13), (1, 3, 12)]
    assert spans(counted, "grouped") == [(0, 3, 3), (3, 6, 3)]


def test_a_group_is_of_one_window(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT n, count(*) AS many FROM s [WINDOW 4 ROWS] GROUP BY n HAVING count(*) > 1")
    feed(counted, 1, 1, 2, 3, 3, 3, 3, 1)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(1, 2), (3, 3)]
    assert rows(counted, "SELECT * FROM v") == [(3, 3)]


def test_a_window_joins_a_table(counted: Any) -> None:
    counted.sql("CREATE TABLE names (n int, name text)")
    counted.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
    counted.sql(
        "CREATE VIEW v AS SELECT name, count(*) AS many FROM s [WINDOW 3 ROWS] LEFT JOIN names ON names.n = s.n "
        "GROUP BY name"
    )
    counted.sql("CREATE VIEW plain AS SELECT name, s.n FROM s [WINDOW 3 ROWS] JOIN names ON names.n = s.n")
    feed(counted, 1, 2, 1, 5, 2, 2)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [("one", 2), ("two", 1), ("two", 2), (None, 1)]
    assert rows(counted, "SELECT * FROM plain") == [("two", 2), ("two", 2)]


def test_a_table_below_a_grouping_is_read_as_of_the_making_of_the_view(counted: Any) -> None:
    counted.sql("CREATE TABLE names (n int, name text); INSERT INTO names VALUES (1, 'one')")
    counted.sql(
        "CREATE VIEW v AS SELECT name, count(*) AS many FROM s [WINDOW 2 ROWS] AS s JOIN names USING (n) GROUP BY name"
    )
    feed(counted, 1)
    counted.sql("UPDATE names SET name = 'uno'")
    feed(counted, 1, 1, 1)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [("one", 2), ("one", 2)]


def test_a_join_of_windows_hands_out_a_window_when_both_have_completed_it(counted: Any) -> None:
    counted.sql("CREATE STREAM r (n int)")
    counted.sql(
        "CREATE VIEW v AS SELECT a.window_end AS ours, b.window_end AS theirs, count(*) AS pairs "
        "FROM s [WINDOW 2 ROWS] a JOIN r [WINDOW 3 ROWS SLIDE 1 ROW] b ON a.n = b.n"
    )
    feed(counted, 1, 2, 3, 3, 5, 5)
    assert counted.sql("SELECT * FROM v").fetchall() == []
    feed(counted, 2, 3, stream="r")
    assert counted.sql("SELECT * FROM v").fetchall() == []
    feed(counted, 3, 7, stream="r")
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(2, 3, 1), (4, 4, 4)]
    feed(counted, 5, 5, 5, 5, stream="r")
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(2, 3, 1), (4, 4, 4), (6, 5, 2)]


def test_a_join_of_windows_by_time_waits_for_the_slower_stream(timed: Any) -> None:
    timed.sql("CREATE STREAM f (at timestamp, n int) WITH (timestamp = 'at')")
    timed.sql(
        "CREATE VIEW v AS SELECT a.window_start, b.window_end, count(b.n) AS pairs "
        "FROM e [WINDOW 10 MINUTES] a LEFT JOIN f [WINDOW 20 MINUTES SLIDE 10 MINUTES] b ON b.n < a.n"
    )
    feed_at(timed, 3, 15, 31)
    assert spans(timed) == []
    feed_at(timed, 2, 11, 22, stream="f")
    assert spans(timed) == [(0, 10, 1), (10, 20, 2)]
    feed_at(timed, 30, stream="f")
    assert spans(timed) == [(0, 10, 1), (10, 20, 2), (20, 30, 0)]


def test_a_stream_joins_itself_in_two_windows(counted: Any) -> None:
    counted.sql(
        "CREATE VIEW v AS SELECT max(a.n) AS newest, count(*) AS smaller "
        "FROM s [WINDOW 1 ROW] a JOIN s [WINDOW 3 ROWS SLIDE 1 ROW] b ON b.n < a.n"
    )
    feed(counted, 5, 1, 2, 9, 9)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(5, 2), (None, 0), (None, 0)]


def test_a_window_that_nobody_reads_holds_nobody_up(counted: Any) -> None:
    counted.sql(
        "CREATE VIEW v AS WITH unread AS (SELECT * FROM s [WINDOW 90 ROWS]) SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]"
    )
    feed(counted, 1, 2, 3)
    assert counted.sql("SELECT * FROM v").fetchall() == [(3,)]


def test_all_windows_can_be_asked_like_a_table(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT window_end, sum(n) AS n FROM s [WINDOW 2 ROWS]")
    feed(counted, 1, 2, 3, 4, 5, 6)
    assert rows(counted, "SELECT w.n FROM v ALL WINDOWS AS w WHERE w.window_end > 2") == [(11,), (7,)]
    query = "SELECT count(*), max(new.n) - min(old.n) AS growth FROM v AS new, v ALL WINDOWS AS old"
    assert rows(counted, query) == [(3, 8)]


# What is kept


def test_the_last_hundred_results_are_kept_unless_retain_says_otherwise(counted: Any) -> None:
    views = {"hundred": "", "three": " WITH (retain = 3)", "day": " WITH (retain = '1 day')"}
    for name, options in views.items():
        counted.sql(f"CREATE VIEW {name}{options} AS SELECT window_start AS w, sum(n) AS n FROM s [WINDOW 1 ROW]")
    feed(counted, *range(60))
    feed(counted, *range(60, 120))
    kept = {name: rows(counted, f"SELECT w, n FROM {name} ALL WINDOWS") for name in views}
    assert {name: len(found) for name, found in kept.items()} == {"hundred": 100, "three": 3, "day": 120}
    assert kept["three"] == [(117, 117), (118, 118), (119, 119)]
    assert min(kept["hundred"]) == (20, 20)


def test_a_database_opened_again_goes_on_in_the_middle_of_a_window(tmp_path: Path, database: Any) -> None:
    folder = str(tmp_path / "again.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE STREAM s (n int); CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
        db.sql(f"CREATE VIEW v AS {COUNTED} s [WINDOW 4 ROWS SLIDE 2 ROWS]")
        db.sql(f"CREATE VIEW by_time AS {COUNTED} e [WINDOW 10 MINUTES]")
        feed(db, 1, 2, 3, 4, 5)
        feed_at(db, 5, 12)
    with midstream.connect(folder) as db:
        assert spans(db) == [(0, 4, 4)]
        assert spans(db, "by_time") == [(0, 10, 1)]
        feed(db, 6, 7)
        feed_at(db, 11)
    with midstream.connect(folder) as db:
        feed(db, 8)
        feed_at(db, 13, 20)
        assert spans(db) == [(0, 4, 4), (2, 6, 4), (4, 8, 4)]
        assert spans(db, "by_time") == [(0, 10, 1), (10, 20, 2)]
        assert rows(db, "SELECT n FROM late_e") == [(11,)]


def test_dropping_a_view_frees_its_files(tmp_path: Path, database: Any) -> None:
    folder = tmp_path / "dropped.db"
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE STREAM s (n int)")
        db.sql(f"CREATE VIEW v AS {COUNTED} s [WINDOW 4 ROWS SLIDE 2 ROWS]")
        db.sql("CREATE VIEW plain AS SELECT n FROM s [WINDOW 4 ROWS]")
        feed(db, *range(9))
        assert spans(db) == [(0, 4, 4), (2, 6, 4), (4, 8, 4)]
        assert len(rows(db, "SELECT * FROM plain")) == 4
        assert _files(folder)
        db.sql("DROP VIEW v; DROP VIEW plain")
        wait_for(lambda: not _files(folder))


def _files(folder: Path) -> list[Path]:
    return [path for path in (folder / "views").rglob("*") if path.is_file()]


def test_files_do_not_pile_up_behind_a_sliding_window(tmp_path: Path, database: Any) -> None:
    """What has left the window goes, and so do results beyond those kept."""
    folder = tmp_path / "sliding.db"
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE STREAM s (n int)")
        db.sql(f"CREATE VIEW v WITH (retain = 2) AS {COUNTED} s [WINDOW 4 ROWS SLIDE 2 ROWS]")
        for step in range(40):
            feed(db, 2 * step, 2 * step + 1)
            db.sql("SELECT * FROM v").fetchall()
        assert spans(db) == [(74, 78, 4), (76, 80, 4)]
        wait_for(lambda: len(_files(folder)) < 30)


# What is shared


def test_views_with_the_same_basic_windows_share_a_pipeline(counted: Any) -> None:
    windows = {"a": "[WINDOW 4 ROWS SLIDE 2 ROWS]", "b": "[WINDOW 6 ROWS SLIDE 2 ROWS]", "c": "[WINDOW 2 ROWS]"}
    for name, window in windows.items():
        counted.sql(f"CREATE VIEW {name} AS SELECT sum(n) AS n FROM s {window}")
    readers = [name for name, _ in counted.sql("SHOW STATUS").fetchall() if name.startswith("reader ")]
    assert len(readers) == 1, readers
    explained = "\n".join(line for (line,) in counted.sql("EXPLAIN VIEW b").fetchall())
    assert "Basic windows of 2 rows: 3 make up a window" in explained
    assert "Shared by views a, b, c" in explained
    feed(counted, 1, 2, 3, 4, 5, 6)
    assert [rows(counted, f"SELECT * FROM {name}") for name in "abc"] == [[(18,)], [(21,)], [(11,)]]
    counted.sql("DROP VIEW a; DROP VIEW b")
    feed(counted, 7, 8)
    assert rows(counted, "SELECT * FROM c") == [(15,)]


SLIDES = {"two": (4, 2), "four": (12, 4), "six": (6, 6), "eight": (16, 8), "nine": (9, 9), "hop": (2, 10)}
"""All but the ninth can be made of basic windows of two rows."""
HOURLY = "VIEW hourly AS SELECT window_end, sum(n) AS n FROM e [WINDOW 60 MINUTES SLIDE 20 MINUTES]"


def test_views_whose_slides_are_multiples_share_the_smallest_basic_windows(tmp_path: Path, database: Any) -> None:
    folder, given, choose = str(tmp_path / "shared.db"), list[int](), random.Random(4)
    for round in range(3):
        with midstream.connect(folder) as db:
            if not round:
                db.sql("CREATE STREAM s (n int)")
                for name, (size, slide) in SLIDES.items():
                    window = f"[WINDOW {size} ROWS SLIDE {slide} ROWS]"
                    db.sql(f"CREATE VIEW {name} AS SELECT window_start, sum(n) AS n, max(n) AS most FROM s {window}")
                readers = [name for name, _ in db.sql("SHOW STATUS").fetchall() if name.startswith("reader ")]
                assert len(readers) == 2, readers
            explained = "\n".join(line for (line,) in db.sql("EXPLAIN VIEW eight").fetchall())
            assert "Basic windows of 2 rows, since another view keeps these: 8 make up a window" in explained
            assert "Shared by views eight, four, hop, six, two" in explained
            for _ in range(3):
                some = [choose.randint(-9, 9) for _ in range(choose.randint(1, 30))]
                given += some
                feed(db, *some)
            for name, (size, slide) in SLIDES.items():
                starts = range(0, len(given) - size + 1, slide)
                expected = [(start, sum(own := given[start : start + size]), max(own)) for start in starts]
                assert sorted(db.sql(f"SELECT * FROM {name} ALL WINDOWS").fetchall()) == expected, name


def test_views_by_time_share_basic_windows_too(timed: Any) -> None:
    timed.sql("CREATE VIEW fine AS SELECT window_end, sum(n) AS n FROM e [WINDOW 10 MINUTES SLIDE 5 MINUTES]")
    plan = "\n".join(line for (line,) in timed.sql(f"EXPLAIN CREATE {HOURLY}").fetchall())
    assert "Basic windows of 300 s, since another view keeps these: 12 make up a window" in plan
    timed.sql(f"CREATE {HOURLY}")
    feed_at(timed, *range(0, 130, 3))
    assert sorted(timed.sql("SELECT n FROM hourly ALL WINDOWS").fetchall()) == sorted(
        (sum(n for n in range(0, 130, 3) if end - 60 <= n < end),) for end in range(20, 130, 20)
    )
    feed_at(timed, 131)
    timed.sql("CREATE " + HOURLY.replace("hourly", "later"))
    explained = "\n".join(line for (line,) in timed.sql("EXPLAIN VIEW later").fetchall())
    assert "Basic windows of 1,200 s: 3 make up a window" in explained, "rows have come to the others"


def test_views_are_cut_anew_to_share_basic_windows_with_later_ones(tmp_path: Path, database: Any) -> None:
    """Slides of 4 and 6 rows have basic windows of 2 in common; then one comes with a slide of 3."""
    folder, given, choose = str(tmp_path / "anew.db"), list[int](), random.Random(5)
    slides = {"four": (12, 4), "six": (12, 6), "three": (9, 3)}
    for round in range(2):
        with midstream.connect(folder) as db:
            if not round:
                db.sql("CREATE STREAM s (n int)")
            for name, (size, slide) in slides.items() if not round else ():
                window = f"[WINDOW {size} ROWS SLIDE {slide} ROWS]"
                db.sql(f"CREATE VIEW {name} AS SELECT window_start, sum(n) AS n, max(n) AS most FROM s {window}")
            explained = "\n".join(line for (line,) in db.sql("EXPLAIN VIEW four").fetchall())
            assert "Basic windows of 1 rows, since another view keeps these: 12 make up a window" in explained
            assert "Shared by views four, six, three" in explained
            for _ in range(3):
                some = [choose.randint(-9, 9) for _ in range(choose.randint(1, 30))]
                given += some
                feed(db, *some)
            for name, (size, slide) in slides.items():
                starts = range(0, len(given) - size + 1, slide)
                expected = [(start, sum(own := given[start : start + size]), max(own)) for start in starts]
                assert sorted(db.sql(f"SELECT * FROM {name} ALL WINDOWS").fetchall()) == expected, name


def test_a_session_has_no_basic_windows_to_share(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 20 MINUTES SLIDE 10 MINUTES]")
    timed.sql(f"CREATE VIEW visits AS {COUNTED} e [SESSION 8 MINUTES]")
    explained = "\n".join(line for (line,) in timed.sql("EXPLAIN VIEW v").fetchall())
    assert "Basic windows of 600 s: 2 make up a window" in explained
    assert "Shared by views" not in explained


def test_a_view_that_shares_a_pipeline_begins_with_its_own_rows(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [LANDMARK SLIDE 10 MINUTES]")
    feed_at(timed, 1, 2)
    timed.sql(f"CREATE VIEW later AS {COUNTED} e [LANDMARK SLIDE 10 MINUTES]")
    feed_at(timed, 3, 11)
    assert spans(timed) == [(0, 10, 3)]
    assert spans(timed, "later") == [(0, 10, 1)]


# Commits


def test_rows_of_a_transaction_come_when_it_commits(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    with counted.session() as session:
        session.sql("BEGIN")
        feed(session, 1, 2)
        assert counted.sql("SELECT * FROM v").fetchall() == []
        session.sql("ROLLBACK; BEGIN")
        feed(session, 3, 4)
        session.sql("COMMIT")
    assert counted.sql("SELECT * FROM v").fetchall() == [(7,)]


def test_a_refused_insert_moves_nothing(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} e [WINDOW 10 MINUTES]")
    feed_at(timed, 3)
    refusal(timed, f"INSERT INTO e VALUES ('{at(50)}', 1), (NULL, 2)")
    feed_at(timed, 4)
    assert spans(timed) == []
    assert rows(timed, "SELECT * FROM late_e") == []


# Arrival time


def test_windows_by_arrival_have_every_row_once_and_close_by_the_clock(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT window_start, window_end, count(*) AS n FROM s [WINDOW 1 SECOND]")
    begun = datetime.now(timezone.utc).replace(tzinfo=None)
    for number in range(5):
        feed(counted, number, number)
    wait_for(lambda: sum(n for *_, n in counted.sql("SELECT * FROM v ALL WINDOWS").fetchall()) == 10)
    found = counted.sql("SELECT * FROM v ALL WINDOWS").fetchall()
    for start, end, _ in found:
        assert end - start == timedelta(seconds=1) and start.microsecond == 0
        assert begun - timedelta(seconds=1) < start and end <= datetime.now(timezone.utc).replace(tzinfo=None)
    starts = [start for start, *_ in found]
    assert len(set(starts)) == len(starts)
    assert max(starts) - min(starts) == timedelta(seconds=len(starts) - 1), "a window is missing"


# Refusals

REFUSED = {
    "SELECT count(*) AS n FROM s ‸[WINDOW 2 ROWS]": ("42809", "a window over a stream stands in the query of a view"),
    "SELECT n FROM ‸t [WINDOW 2 ROWS]": ("42809", '"t" is not a stream, and only a stream has windows'),
    "CREATE VIEW x AS SELECT n FROM ‸t [WINDOW 2 ROWS]": (
        "42809",
        '"t" is not a stream, and only a stream has windows',
    ),
    "CREATE VIEW x AS SELECT n FROM ‸late_e [WINDOW 2 ROWS]": ("42809", '"late_e" is a log'),
    "CREATE VIEW x AS WITH s AS (SELECT 1 AS n) SELECT n FROM ‸s [WINDOW 2 ROWS]": ("42809", '"s" is a WITH query'),
    "CREATE VIEW x AS SELECT ‸window_start, sum(n) AS n FROM per_two [WINDOW 2 ROWS]": (
        "42803",
        'Give it another name in "per_two"',
    ),
    "CREATE VIEW x AS SELECT n FROM ‸per_two": ("0A000", "FROM per_two ALL WINDOWS"),
    "CREATE VIEW x AS SELECT count(*) AS n FROM e [WINDOW 2 ROWS] e JOIN ‸s ON s.n = e.n": (
        "0A000",
        'stream "s" is joined with a window',
    ),
    "SELECT * FROM ‸total ALL WINDOWS": ("42809", '"total" is not a view over windows'),
    "SELECT * FROM ‸s ALL WINDOWS": ("42809", '"s" is not a view over windows'),
    "SELECT * FROM ‸t ALL WINDOWS": ("42809", '"t" is not a view over windows'),
    "CREATE VIEW x AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS] a JOIN s ‸[WINDOW 1 HOUR] b ON a.n = b.n": (
        "0A000",
        "windows by rows and by time cannot stand in one view",
    ),
    "CREATE VIEW x AS SELECT count(*) AS n FROM e [WINDOW 1 HOUR] a JOIN e ‸[WINDOW 2 HOURS] b ON a.n = b.n": (
        "0A000",
        "windows by time in one view must slide by the same time",
    ),
    "CREATE VIEW x AS SELECT count(*) AS n FROM s [WINDOW 3 ROWS SLIDE ‸1 MINUTE]": (
        "42601",
        "either in rows or in time",
    ),
    "CREATE VIEW x AS SELECT count(*) AS n FROM s [WINDOW ‸0 ROWS]": ("22023", "greater than 0"),
    "CREATE VIEW x AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS SLIDE ‸0 ROWS]": ("22023", "greater than 0"),
    "CREATE VIEW x AS SELECT count(*) AS n FROM s [WINDOW 5 ‸MONTHS]": ("42601", 'at or near "MONTHS"'),
    "CREATE VIEW x AS SELECT count(*) AS n FROM s [SESSION ‸5 ROWS]": (
        "42601",
        "after a time, not after a number of rows",
    ),
    "CREATE VIEW x AS SELECT count(*) AS n FROM TUMBLE(e, ‸nope, INTERVAL '1 hour')": ("42703", 'has no column "nope"'),
    "CREATE VIEW x AS SELECT count(*) AS n FROM TUMBLE(e, ‸n, INTERVAL '1 hour')": ("42804", "needs a timestamp"),
    "CREATE VIEW x AS SELECT ‸window_start, count(*) AS n FROM s": ("42703", '"window_start" does not exist'),
    "CREATE VIEW x AS SELECT ‸window_end FROM s [WINDOW 2 ROWS] a, s [WINDOW 4 ROWS] b": ("42702", "ambiguous"),
    "CREATE VIEW x WITH (retain = 0) AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]": ("22023", '"retain" takes'),
    "CREATE VIEW x WITH (retain = 'soon') AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]": ("22023", '"retain" takes'),
    "CREATE VIEW x WITH (retain = -5) AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]": ("22023", '"retain" takes'),
    "CREATE VIEW x WITH (maintenance = 'lazy') AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]": (
        "22023",
        '"maintenance" takes',
    ),
    "CREATE VIEW x WITH (keep = 5) AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]": ("22023", '"keep"'),
    "CREATE VIEW x WITH (retain = 5) AS SELECT count(*) AS n FROM s": (
        "22023",
        '"retain" is one of views over windows',
    ),
}


@pytest.fixture
def refusing(db: Any) -> Any:
    db.sql("CREATE STREAM s (n int); CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    db.sql("CREATE TABLE t (n int); CREATE VIEW total AS SELECT sum(n) AS n FROM s")
    db.sql("CREATE VIEW per_two AS SELECT window_start, sum(n) AS n FROM s [WINDOW 2 ROWS]")
    return db


@pytest.mark.parametrize("statement", REFUSED)
def test_what_is_no_window_is_refused(refusing: Any, statement: str) -> None:
    """‸ stands before what the error must point at."""
    sqlstate, words = REFUSED[statement]
    error = refusal(refusing, statement.replace("‸", ""))
    assert (error.sqlstate, words in str(error)) == (sqlstate, True), error
    if "‸" in statement:
        assert error.position == (1, statement.index("‸") + 1), error
