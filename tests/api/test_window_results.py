"""Sessions, and what becomes of results: views over views, subscribers, streams that have gone quiet."""

from __future__ import annotations

import re
import shutil
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import fault, refusal, rows, wait_for
from midstream.runtime.views import Views

DAY = datetime(2024, 1, 1)
SESSIONS = "SELECT window_start, window_end, string_agg(CAST(n AS text), ' ' ORDER BY at, n) AS rows FROM"


@pytest.fixture
def timed(db: Any) -> Any:
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    return db


@pytest.fixture
def counted(db: Any) -> Any:
    db.sql("CREATE STREAM s (n int)")
    return db


def feed(db: Any, *numbers: int) -> int:
    return int(db.sql("INSERT INTO s VALUES " + ", ".join(f"({number})" for number in numbers)).scn)


def feed_at(db: Any, *minutes: int, n: int | None = None) -> None:
    """One insert, with a row at each of some minutes; its number is the minute, or the one that is given."""
    values = (f"('{DAY + timedelta(minutes=minute)}', {minute if n is None else n})" for minute in minutes)
    db.sql(f"INSERT INTO e VALUES {', '.join(values)}")


def spans(db: Any, view: str = "v", which: str = " ALL WINDOWS") -> list[tuple[Any, ...]]:
    """Windows of a view that begins with window_start and window_end, in minutes."""
    found = db.sql(f"SELECT * FROM {view}{which}").fetchall()
    return sorted((_minutes(start), _minutes(end), *rest) for start, end, *rest in found)


def _minutes(time: datetime) -> float:
    return (time - DAY) / timedelta(minutes=1)


# Sessions


@pytest.mark.parametrize("source", ["e [SESSION 5 MINUTES]", "SESSION(e, at, INTERVAL '5 minutes')"])
def test_a_session_ends_when_nothing_has_come_for_that_long(timed: Any, source: str) -> None:
    timed.sql(f"CREATE VIEW v AS {SESSIONS} {source}")
    timed.sql(f"CREATE VIEW again WITH (maintenance = 'reevaluate') AS {SESSIONS} {source}")
    feed_at(timed, 1)
    feed_at(timed, 3, 10)
    feed_at(timed, 15, 16, 30)
    assert spans(timed) == spans(timed, "again") == [(1, 8, "1 3"), (10, 15, "10"), (15, 21, "15 16")]
    assert spans(timed, "v", "") == [(15, 21, "15 16")]


def test_sessions_that_were_handed_out_are_known_after_a_crash_though_their_rows_are_gone(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("midstream.runtime.states.FEW_FILES", 2)
    with midstream.connect(tmp_path / "live.db") as db:
        db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
        db.sql(f"CREATE VIEW v AS {SESSIONS} e [SESSION 5 MINUTES]")
        for minute in range(0, 160, 10):  # so the last merge is one of all files
            feed_at(db, minute)
            db.sql("SELECT * FROM v").fetchall()
        db._store.views.merger.wait()
        before = spans(db)
        # The folder as it is now is what a process leaves that is killed now.
        shutil.copytree(tmp_path / "live.db", tmp_path / "left.db")
    with midstream.connect(tmp_path / "left.db") as left:
        feed_at(left, 160)
        feed_at(left, 170)
        assert spans(left) == [*before, (150, 155, "150"), (160, 165, "160")]


def test_a_session_is_complete_when_the_watermark_has_reached_its_end(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {SESSIONS} e [SESSION 5 MINUTES]")
    feed_at(timed, 1)
    feed_at(timed, 5)
    feed_at(timed, 9)
    assert spans(timed) == []
    feed_at(timed, 14)
    assert spans(timed) == [(1, 14, "1 5 9")]


def test_a_row_between_two_sessions_makes_them_one(db: Any) -> None:
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at', lateness = '10 minutes')")
    db.sql(f"CREATE VIEW v AS {SESSIONS} e [SESSION 5 MINUTES]")
    feed_at(db, 0, 8)
    assert spans(db) == []
    feed_at(db, 4)
    feed_at(db, 12, 20)
    assert spans(db) == []
    feed_at(db, 28)
    assert spans(db) == [(0, 17, "0 4 8 12")]


def test_sessions_may_be_of_each_key(timed: Any) -> None:
    timed.sql(
        "CREATE VIEW v AS SELECT window_start, window_end, n, count(*) AS rows "
        "FROM e [SESSION 5 MINUTES BY n] GROUP BY n"
    )
    feed_at(timed, 0, 3, n=1)
    feed_at(timed, 4, n=2)
    feed_at(timed, 7, n=1)
    feed_at(timed, 11, n=2)
    assert spans(timed) == [(4, 9, 2, 1)]
    feed_at(timed, 30, n=3)
    assert spans(timed) == [(0, 12, 1, 3), (4, 9, 2, 1), (11, 16, 2, 1)]
    assert spans(timed, "v", "") == [(0, 12, 1, 3), (11, 16, 2, 1)], "the newest of each key"


def test_keys_of_sessions_are_equal_as_in_a_comparison(db: Any) -> None:
    db.sql("CREATE STREAM e (at timestamp, x double precision, y real, z numeric(4,2)) WITH (timestamp = 'at')")
    for key in "xyz":
        db.sql(f"CREATE VIEW by_{key} AS SELECT count(*) AS n FROM e [SESSION 5 MINUTES BY {key}]")
    db.sql(
        "INSERT INTO e VALUES ('2024-01-01', 0.0, '-0', 1), ('2024-01-01', '-0', 0, 1.0), "
        "('2024-01-01', 'NaN', 'NaN', 2), ('2024-01-01', 'NaN', 'NaN', 2.00), ('2024-01-01', NULL, NULL, NULL), "
        "('2024-01-02', 1, 1, 1)"
    )
    for key in "xyz":
        assert sorted(rows(db, f"SELECT n FROM by_{key} ALL WINDOWS")) == [(1,), (2,), (2,)], key


def test_a_filter_splits_no_session(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {SESSIONS} e [SESSION 5 MINUTES] WHERE n <> 4")
    timed.sql(
        "CREATE VIEW none AS SELECT window_start, window_end, count(*) AS n FROM e [SESSION 5 MINUTES] WHERE n > 99"
    )
    feed_at(timed, 1, 4, 8)
    feed_at(timed, 30)
    assert spans(timed) == [(1, 13, "1 8")]
    assert spans(timed, "none") == [(1, 13, 0)]


def test_a_session_needs_no_grouping(timed: Any) -> None:
    timed.sql("CREATE VIEW v AS SELECT window_start, window_end, n FROM e [SESSION 5 MINUTES] WHERE n > 1")
    feed_at(timed, 1, 2, 20, 21)
    feed_at(timed, 40)
    assert spans(timed) == [(1, 7, 2), (20, 26, 20), (20, 26, 21)]


def test_a_session_goes_on_when_the_database_is_opened_again(tmp_path: Path, database: Any) -> None:
    folder = str(tmp_path / "again.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
        db.sql(f"CREATE VIEW v AS {SESSIONS} e [SESSION 5 MINUTES]")
        db.sql(f"CREATE VIEW by_key AS {SESSIONS} e [SESSION 5 MINUTES BY n]")
        feed_at(db, 1, 3)
    with midstream.connect(folder) as db:
        feed_at(db, 6, n=3)
        feed_at(db, 20)
        assert spans(db) == [(1, 11, "1 3 3")]
        assert spans(db, "by_key") == [(1, 6, "1"), (3, 11, "3 3")]


def test_a_late_row_changes_no_session(timed: Any) -> None:
    timed.sql(f"CREATE VIEW v AS {SESSIONS} e [SESSION 5 MINUTES]")
    feed_at(timed, 10)
    feed_at(timed, 7, 13)
    feed_at(timed, 30)
    assert spans(timed) == [(10, 18, "10 13")]
    assert rows(timed, "SELECT n FROM late_e") == [(7,)]


def test_a_session_by_arrival_ends_by_the_clock(counted: Any) -> None:
    counted.sql("CREATE VIEW v AS SELECT window_end - window_start AS long, sum(n) AS n FROM s [SESSION 1 SECOND]")
    feed(counted, 1, 2)
    wait_for(lambda: bool(counted.sql("SELECT * FROM v").fetchall()))
    [(long, n)] = counted.sql("SELECT * FROM v").fetchall()
    assert (long, n) == (timedelta(seconds=1), 3)


@pytest.mark.parametrize(
    ("query", "sqlstate", "words"),
    [
        ("SELECT a.n FROM e [SESSION 5 MINUTES] a, e ‸[WINDOW 5 MINUTES] b", "0A000", "a session stands alone"),
        ("SELECT n FROM e [SESSION 5 MINUTES BY ‸user_id]", "42703", 'has no column "user_id"'),
        ("SELECT n FROM e [SESSION ‸0 MINUTES]", "22023", "greater than 0"),
        ("SELECT n FROM i [SESSION 5 MINUTES BY ‸length]", "0A000", "told apart by an interval"),
    ],
)
def test_what_is_no_session_is_refused(timed: Any, query: str, sqlstate: str, words: str) -> None:
    """‸ stands before what the error points at."""
    timed.sql("CREATE STREAM i (n int, length interval)")
    statement = f"CREATE VIEW v AS {query}"
    error = refusal(timed, statement.replace("‸", ""))
    assert (error.sqlstate, words in str(error)) == (sqlstate, True), error
    assert error.position == (1, statement.index("‸") + 1)


# Views over window views


def test_a_window_view_is_a_stream_of_results_for_another_view(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT window_end AS up_to, sum(n) AS n FROM s [WINDOW 2 ROWS]")
    counted.sql("CREATE VIEW total AS SELECT count(*) AS pairs, max(n) AS most FROM pairs")
    counted.sql("CREATE VIEW runs AS SELECT window_end, min(n) AS least FROM pairs [WINDOW 2 ROWS SLIDE 1 ROW]")
    feed(counted, 1, 2, 10, 20, 3)
    assert rows(counted, "SELECT * FROM total") == [(2, 30)]
    assert rows(counted, "SELECT * FROM runs ALL WINDOWS") == [(2, 3)]
    feed(counted, 4, 100, 0)
    assert rows(counted, "SELECT * FROM total") == [(4, 100)]
    assert rows(counted, "SELECT * FROM runs ALL WINDOWS") == [(2, 3), (3, 7), (4, 7)]
    assert rows(counted, "SELECT * FROM pairs") == [(8, 100)]


def test_a_view_sees_the_results_that_come_after_it_was_made(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    feed(counted, 1, 2, 3)
    assert rows(counted, "SELECT * FROM pairs") == [(3,)]
    counted.sql("CREATE VIEW total AS SELECT count(*) AS pairs, sum(n) AS n FROM pairs")
    feed(counted, 4, 5, 6)
    assert rows(counted, "SELECT * FROM total") == [(2, 18)]


def test_every_row_of_a_result_is_a_row_of_the_stream(counted: Any) -> None:
    counted.sql("CREATE VIEW odd AS SELECT n FROM s [WINDOW 3 ROWS] WHERE n % 2 = 1")
    counted.sql("CREATE VIEW many AS SELECT count(*) AS rows, sum(n) AS n FROM odd")
    feed(counted, 1, 2, 3, 4, 6, 8, 5, 5, 5)
    assert rows(counted, "SELECT * FROM many") == [(5, 19)]


def test_a_view_over_results_goes_on_when_the_database_is_opened_again(tmp_path: Path, database: Any) -> None:
    folder = str(tmp_path / "again.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE STREAM s (n int); CREATE VIEW pairs AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
        db.sql("CREATE VIEW total AS SELECT count(*) AS pairs, sum(n) AS n FROM pairs")
        feed(db, 1, 2, 3)
    with midstream.connect(folder) as db:
        assert rows(db, "SELECT * FROM total") == [(1, 3)]
        feed(db, 4)
    with midstream.connect(folder) as db:
        assert rows(db, "SELECT * FROM total") == [(2, 10)]


def test_a_view_and_a_view_over_it_are_read_at_one_moment(counted: Any, monkeypatch: Any) -> None:
    """Also if rows come while they are read: here, behind the moment at which the first has handed on its windows."""
    counted.sql(
        "CREATE VIEW v AS SELECT window_end FROM s [WINDOW 1 ROWS]; CREATE VIEW o AS SELECT count(*) AS n FROM v"
    )
    feed(counted, 1, 2)
    advance = Views._advance_windows_below

    def advance_and_feed(views: Any, *arguments: Any) -> None:
        advance(views, *arguments)
        feed(counted, 3)

    monkeypatch.setattr(Views, "_advance_windows_below", advance_and_feed)
    for _ in range(3):
        [(windows, last)] = rows(counted, "SELECT n, (SELECT max(window_end) FROM v) AS last FROM o")
        assert windows == last >= 2
    fed = counted.sql("SELECT count(*) FROM v ALL WINDOWS").fetchone()[0]
    monkeypatch.undo()
    assert rows(counted, "SELECT n, window_end FROM o, v") == [(fed, fed)]


def test_a_view_that_others_read_cannot_be_dropped_by_itself(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    counted.sql("CREATE VIEW total AS SELECT sum(n) AS n FROM pairs")
    assert '"total"' in str(refusal(counted, "DROP VIEW pairs"))
    counted.sql("DROP VIEW pairs CASCADE")
    assert counted.sql("SHOW VIEWS").fetchall() == []


# Subscribers


def test_a_subscriber_gets_every_window_in_order_as_it_closes(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT window_end, sum(n) AS n FROM s [WINDOW 2 ROWS]")
    feed(counted, 1, 1)
    assert rows(counted, "SELECT * FROM pairs") == [(2, 2)]
    with counted.subscribe("pairs") as changes:
        assert changes.poll(timeout=0) == []
        feed(counted, 2, 2, 3, 3, 4)
        got = gathered(changes, 2)
        feed(counted, 4)
        got += gathered(changes, 1)
    assert [change.row for change in got] == [{"window_end": end, "n": end} for end in (4, 6, 8)]
    assert {(change.kind, change.old) for change in got} == {("I", None)}
    assert sorted(change.scn for change in got) == [change.scn for change in got]


def gathered(changes: Any, count: int) -> list[Any]:
    got: list[Any] = []
    wait_for(lambda: len(got.extend(changes.poll(timeout=1)) or got) >= count)
    return got


def test_a_subscriber_may_begin_with_what_is_there_or_behind_a_commit(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT window_end, sum(n) AS n FROM s [WINDOW 2 ROWS]")
    feed(counted, 1, 1)
    counted.sql("SELECT * FROM pairs").fetchall()
    with counted.subscribe("pairs", after=0) as changes:
        [first] = gathered(changes, 1)
    feed(counted, 2, 2)
    counted.sql("SELECT * FROM pairs").fetchall()
    with counted.subscribe("pairs", snapshot=True) as changes:
        assert [change.row["window_end"] for change in gathered(changes, 1)] == [4]
    with counted.subscribe("pairs", after=first.scn) as changes:
        assert [change.row["window_end"] for change in gathered(changes, 1)] == [4]


def test_a_subscriber_waits_in_a_loop_until_it_is_closed(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    changes, got = counted.subscribe("pairs"), list[Any]()
    listener = threading.Thread(target=lambda: got.extend(change.row["n"] for change in changes))
    listener.start()
    feed(counted, 1, 2, 3, 4)
    wait_for(lambda: got == [3, 7])
    changes.close()
    listener.join(timeout=10)
    assert not listener.is_alive()


def test_a_subscriber_gets_more_windows_than_are_kept(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs WITH (retain = 1) AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    counted.sql("CREATE VIEW over_pairs AS SELECT max(n) AS n FROM pairs")
    counted.sql("CREATE VIEW singles WITH (retain = 3) AS SELECT n FROM s [WINDOW 1 ROWS]")
    with counted.subscribe("pairs") as pairs, counted.subscribe("singles") as singles:
        feed(counted, 1, 1, 2, 2, 3, 3)
        assert rows(counted, "SELECT * FROM pairs ALL WINDOWS") == [(6,)]
        assert [change.row["n"] for change in gathered(pairs, 3)] == [2, 4, 6]
        feed(counted, *range(4, 500))
        assert len(rows(counted, "SELECT * FROM singles ALL WINDOWS")) == 3
        assert [change.row["n"] for change in gathered(singles, 502)] == [1, 1, 2, 2, 3, *range(3, 500)]
        feed(counted, 500)
        assert [change.row["n"] for change in gathered(singles, 1)] == [500]


def test_the_files_of_windows_go_when_no_subscriber_waits_for_them(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs WITH (retain = 1) AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    others = set(Path(counted.path).glob("views/windows-*/*.parquet"))
    kept = lambda: len(set(Path(counted.path).glob("views/windows-*/*.parquet")) - others)  # noqa: E731
    with counted.subscribe("pairs"):
        for number in range(3):
            feed(counted, number, number)
            assert rows(counted, "SELECT * FROM pairs") == [(2 * number,)]
        assert kept() == 3
    wait_for(lambda: kept() == 1)


def test_results_that_a_subscriber_missed_are_told_not_skipped(counted: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("midstream.runtime.following.HELD_WINDOWS", 1)
    counted.sql("CREATE VIEW pairs WITH (retain = 1) AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    with counted.subscribe("pairs") as changes:
        feed(counted, 1, 1, 2, 2, 3, 3)
        assert rows(counted, "SELECT * FROM pairs") == [(6,)]
        error = fault(lambda: [changes.poll(timeout=1) for _ in range(3)])
    assert "pairs" in str(error)
    assert error.detail == "1 windows are gone."


def test_a_subscriber_is_told_when_the_view_goes(counted: Any) -> None:
    counted.sql("CREATE VIEW pairs AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    with counted.subscribe("pairs") as changes:
        counted.sql("DROP VIEW pairs")
        assert "pairs" in str(fault(lambda: changes.poll(timeout=5)))
    assert fault(lambda: counted.subscribe("nothing")).sqlstate == "42P01"


# Streams that have gone quiet


def test_an_idle_stream_closes_its_windows(timed: Any) -> None:
    timed.sql("CREATE VIEW v AS SELECT window_start, window_end, count(*) AS n FROM e [WINDOW 10 MINUTES]")
    timed.sql("SET idle = '1 second'")
    try:
        feed_at(timed, 3, 12, 14)
        wait_for(lambda: spans(timed) == [(0, 10, 1), (10, 20, 2)])
        feed_at(timed, 15)
        feed_at(timed, 22, 31)
        wait_for(lambda: (20, 30, 1) in spans(timed))
    finally:
        timed.sql("SET idle = 0")
    assert (10, 20, 2) in spans(timed), "a window that was handed out stays as it is"
    assert rows(timed, "SELECT n FROM late_e") == [(15,)]


def plan_of(db: Any, view: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall())


def test_explain_tells_how_a_window_is_kept_and_in_how_many_chunks(counted: Any) -> None:
    query = "SELECT sum(n) AS n FROM s [WINDOW 4 ROWS SLIDE 2 ROWS]"
    counted.sql(f"CREATE VIEW v AS {query}")
    counted.sql(f"CREATE VIEW again WITH (maintenance = 'reevaluate') AS {query}")
    counted.sql(f"CREATE VIEW kept WITH (maintenance = 'incremental') AS {query}")
    for number in range(0, 16, 2):
        feed(counted, number, number + 1)
        rows(counted, "SELECT * FROM v")
    assert "Maintenance: incremental, since no row of one stream needs to be kept" in plan_of(counted, "v")
    assert "Maintenance: every window is evaluated anew" in plan_of(counted, "again")
    assert "Maintenance: incremental, as the view says" in plan_of(counted, "kept")
    told = r"The newest basic window is absorbed in \d+ chunks \((found|being looked for); answers by chunks: 1: \d+ ms"
    assert re.search(told, plan_of(counted, "v"))


def test_a_window_that_fails_is_named_and_those_before_it_come(db: Any) -> None:
    db.sql("CREATE STREAM s (a int, b int)")
    db.sql("CREATE VIEW v AS SELECT sum(a) / sum(b) AS q FROM s [WINDOW 1 ROWS]")
    with db.subscribe("v") as changes:
        db.sql("INSERT INTO s VALUES (4, 2), (9, 3), (1, 1), (8, 2), (5, 0), (6, 1)")
        error = fault(lambda: db.sql("SELECT * FROM v").fetchall())
        assert (error.sqlstate, error.message) == ("22012", "division by zero")
        assert error.detail is not None and 'view "v" fails for window 4.' in error.detail
        assert error.hint is not None and "CREATE OR REPLACE VIEW" in error.hint
        assert [change.row["q"] for change in changes.poll(timeout=20)] == [2, 3, 1, 4]
    wait_for(lambda: "fails: division by zero" in dict(db.sql("SHOW STATUS").fetchall())["view v"])
    assert 'It goes no further: division by zero. The query of view "v" fails for window 4.' in plan_of(db, "v")
    db.sql("CREATE OR REPLACE VIEW v AS SELECT sum(a) / nullif(sum(b), 0) AS q FROM s [WINDOW 1 ROWS]")
    db.sql("INSERT INTO s VALUES (5, 0), (6, 1)")
    assert db.sql("SELECT * FROM v").fetchall() == [(6,)]
    assert "fails" not in dict(db.sql("SHOW STATUS").fetchall())["view v"]
    assert "It goes no further" not in plan_of(db, "v")
