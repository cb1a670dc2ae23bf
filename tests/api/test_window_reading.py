"""Which results of windows are to be had: of an interval, of many keys, after a jump in time, of a new definition."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from asking import rows
from windowing import COUNTED, at, feed, feed_at, spans, wait_for


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
    monkeypatch.setattr("midstream.runtime.windows.MANY", 20)
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
    feed_at(timed, 1, 5, 30)
    assert spans(timed) == [(1, 15, 2)]
