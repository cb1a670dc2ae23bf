"""Which results of windows are to be had: of an interval, of many keys, after a jump in time, of a new definition."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from asking import refusal, rows, wait_for
from windowing import COUNTED, at, feed, feed_at, spans


@pytest.fixture
def counted(db: Any) -> Any:
    db.sql("CREATE STREAM s (n int)")
    return db


@pytest.fixture
def timed(db: Any) -> Any:
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    return db


def test_results_that_are_older_than_they_are_kept_are_not_read(counted: Any) -> None:
    """Also when no new window comes that would push them out."""
    counted.sql(f"CREATE VIEW v WITH (retain = '2 seconds') AS {COUNTED} s [WINDOW 2 ROWS]")
    feed(counted, 1, 2, 3, 4, 5, 6)
    assert spans(counted)[-1] == (4, 6, 2)
    wait_for(lambda: spans(counted) == [(4, 6, 2)])
    assert rows(counted, "SELECT * FROM v") == [(4, 6, 2)], "the newest stays"


def test_the_newest_session_of_each_key_is_one_of_those_that_are_kept(timed: Any) -> None:
    for name, retain in (("few", ""), ("all_of_them", " WITH (retain = 150)")):
        timed.sql(f"CREATE VIEW {name}{retain} AS SELECT max(n) AS n FROM e [SESSION 1 MINUTE BY n]")
    values = ", ".join(f"('{at(n / 10)}', {n})" for n in range(120))
    timed.sql(f"INSERT INTO e VALUES {values}, ('{at(60)}', 500)")
    assert sorted(rows(timed, "SELECT * FROM few")) == [(n,) for n in range(20, 120)]
    assert sorted(rows(timed, "SELECT * FROM all_of_them")) == [(n,) for n in range(120)]
    feed_at(timed, 70, stream="e")
    timed.sql(f"INSERT INTO e VALUES ('{at(70)}', 3), ('{at(90)}', 501)")
    assert (3,) in timed.sql("SELECT * FROM few").fetchall(), "a new session of an old key"


def test_a_jump_in_time_gives_the_windows_with_rows_and_the_last_ones(timed: Any, monkeypatch: Any) -> None:
    """Of the millions of windows that end at once, those that bring nothing new are left out."""
    monkeypatch.setattr("midstream.runtime.completion.MANY", 20)
    windows = {"growing": "[LANDMARK SLIDE 1 MINUTE]", "anew": "[LANDMARK SLIDE 1 MINUTE RESET 2 MINUTES]"}
    for name, window in windows.items():
        timed.sql(f"CREATE VIEW {name} WITH (retain = 5) AS {COUNTED} e {window}")
        timed.sql(
            f"CREATE VIEW {name}_handed_out AS SELECT window_start, window_end, max(n) AS n FROM {name} "
            "WHERE window_end < '2025-01-01' GROUP BY window_start, window_end"
        )
        timed.sql(f"CREATE VIEW {name}_count AS SELECT count(*) AS windows FROM {name}")
    timed.sql(f"INSERT INTO e VALUES ('{at(0.5)}', 1), ('{at(5000.5)}', 2), ('{at(5001.5)}', 3), ('9998-01-01', 4)")
    [(_, end, n)] = timed.sql("SELECT * FROM growing").fetchall()
    assert (end, n) == (datetime(9998, 1, 1), 3)
    expected = {
        "growing": [(at(0), at(1), 1), (at(0), at(5001), 2), (at(0), at(5002), 3)],
        "anew": [(at(0), at(1), 1), (at(5000), at(5001), 1), (at(5000), at(5002), 2)],
    }
    for name in windows:
        assert sorted(timed.sql(f"SELECT * FROM {name}_handed_out").fetchall()) == expected[name]
        assert timed.sql(f"SELECT * FROM {name}_count").fetchall() == [(23,)]


def test_a_window_view_is_replaced_and_begins_anew(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT window_end, sum(n) AS n FROM s [WINDOW 2 ROWS]")
    feed(counted, 1, 2, 3)
    assert rows(counted, "SELECT * FROM v") == [(2, 3)]
    counted.sql("CREATE OR REPLACE VIEW v AS SELECT window_end, max(n) AS n FROM s [WINDOW 3 ROWS]")
    assert rows(counted, "SELECT * FROM v") == []
    feed(counted, 4, 9, 5, 6)
    assert rows(counted, "SELECT * FROM v ALL WINDOWS") == [(3, 9)]


def test_a_session_may_be_written_as_a_table_function_of_a_table(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {COUNTED} TABLE(SESSION(TABLE e, DESCRIPTOR(at), INTERVAL '10 minutes'))")
    timed.sql(f"CREATE VIEW each AS {COUNTED} SESSION(TABLE e PARTITION BY n, DESCRIPTOR(at), INTERVAL '10 minutes')")
    feed_at(timed, 1, 5, 30)
    assert spans(timed) == [(1, 15, 2)]
    assert spans(timed, "each") == [(1, 11, 1), (5, 15, 1)]


def test_a_plan_tells_how_many_rows_are_kept_of_windows(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT n FROM s [WINDOW 2 ROWS]")
    feed(counted, 1, 2, 3, 4)
    assert len(rows(counted, "SELECT * FROM v ALL WINDOWS")) == 4
    [scan] = [line for (line,) in rows(counted, "EXPLAIN SELECT * FROM v ALL WINDOWS") if line.startswith("Scan")]
    assert "; 4 rows; " in scan


# The history of a stream


@pytest.fixture
def kept(db: Any) -> Any:
    """A stream that keeps its rows, with some of them out of order, and one that was late when it came."""
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at', retain = '7 days', lateness = '4 minutes')")
    feed_at(db, 3, 12)
    feed_at(db, 8, 7, 29)
    return db


def test_a_view_may_begin_with_the_history_of_its_stream(kept: Any) -> None:
    """It answers as one that was there before."""
    windows = {
        "tumbling": ("[WINDOW 10 MINUTES]", [(0, 10, 2), (10, 20, 1), (20, 30, 3)]),
        "sliding": ("[WINDOW 20 MINUTES SLIDE 10 MINUTES]", [(-10, 10, 2), (0, 20, 3), (10, 30, 4)]),
        "growing": ("[LANDMARK SLIDE 10 MINUTES]", [(0, 10, 2), (0, 20, 3), (0, 30, 6)]),
        "visits": ("[SESSION 6 MINUTES]", [(3, 18, 3), (26, 35, 3)]),
    }
    for name, (window, _) in windows.items():
        kept.sql(f"CREATE VIEW {name} WITH (backfill = true) AS {COUNTED} e {window}")
    assert spans(kept, "tumbling") == [(0, 10, 2), (10, 20, 1)]
    feed_at(kept, 20, 26)
    feed_at(kept, 27, 39)
    for name, (_, expected) in windows.items():
        assert spans(kept, name) == expected, name
    assert (20,) in rows(kept, "SELECT n FROM late_e"), "the watermark had reached minute 25"


def test_of_a_long_history_as_many_windows_have_results_as_are_kept(kept: Any) -> None:
    kept.sql(f"CREATE VIEW v WITH (backfill = true, retain = 3) AS {COUNTED} e [LANDMARK SLIDE 1 MINUTE]")
    assert spans(kept) == [(3, 23, 3), (3, 24, 3), (3, 25, 3)]
    feed_at(kept, 25, 30)
    assert spans(kept) == [(3, 24, 3), (3, 25, 3), (3, 26, 4)]


def test_a_history_tells_no_first_row(kept: Any) -> None:
    error = refusal(kept, f"CREATE VIEW v WITH (backfill = true) AS {COUNTED} e [WINDOW 2 ROWS]")
    assert "cannot begin with the history" in str(error)
