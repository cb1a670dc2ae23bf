"""Windows and the time of a stream: what is late for whom, where landmarks begin, how far a stream had come before."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import midstream
from asking import rows, wait_for
from holding import held

DAY = "2027-03-01"


def at(clock: str) -> datetime:
    return datetime.fromisoformat(f"{DAY} {clock}")


def insert(db: Any, stream: str, *moments: str | None) -> Any:
    values = ", ".join(f"('{DAY} {clock}', {n})" if clock else f"(NULL, {n})" for n, clock in enumerate(moments, 1))
    return db.sql(f"INSERT INTO {stream} VALUES {values}")


def test_a_row_that_is_late_for_windows_by_time_is_in_those_by_rows_and_by_arrival(db: Any) -> None:
    """Also where the stream's own time is ahead of this machine's."""
    db.sql("CREATE STREAM s (ts timestamp, v int) WITH (timestamp = 'ts')")
    db.sql("CREATE VIEW by_rows AS SELECT window_start, count(*) AS n FROM s [WINDOW 3 ROWS]")
    db.sql("CREATE VIEW by_time AS SELECT window_start, count(*) AS n FROM s [WINDOW 1 HOUR]")
    insert(db, "s", "10:00")
    insert(db, "s", "09:00", "11:10")
    insert(db, "s", "09:30", "11:20", "11:30")
    assert rows(db, "SELECT * FROM by_rows ALL WINDOWS") == [(0, 3), (3, 3)]
    assert rows(db, "SELECT * FROM by_time ALL WINDOWS") == [(at("10:00"), 1)]
    assert len(rows(db, "SELECT * FROM late_s")) == 2


def test_late_rows_are_seen_up_to_the_moment_of_the_read(db: Any) -> None:
    """Also where the batch that brought them has later ones, too."""
    db.sql("CREATE STREAM s (ts timestamp, v int) WITH (timestamp = 'ts')")
    db.sql("CREATE VIEW by_time AS SELECT window_start, count(*) AS n FROM s [WINDOW 1 HOUR]")
    insert(db, "s", "10:00")
    assert rows(db, "SELECT * FROM late_s") == []
    with held(db, "absorb") as jobs, db.session() as reader:
        insert(db, "s", "10:30")
        assert jobs.reached.wait(60)
        insert(db, "s", "09:00")
        reader.sql("BEGIN")
        insert(db, "s", "09:30")
        jobs.release()
        assert rows(reader, "SELECT ts FROM late_s") == [(at("09:00"),)]
        assert rows(reader, "SELECT count(*) FROM late_s") == [(1,)]
        reader.sql("ROLLBACK")
    assert sorted(rows(db, "SELECT ts FROM late_s")) == [(at("09:00"),), (at("09:30"),)]


def test_rows_without_a_time_are_in_windows_by_rows(db: Any) -> None:
    db.sql("CREATE STREAM s (ts timestamp, v int)")
    db.sql("CREATE VIEW by_time AS SELECT window_start, count(*) AS n FROM TUMBLE(s, ts, INTERVAL '10' MINUTES)")
    db.sql("CREATE VIEW by_rows AS SELECT window_start, sum(v) AS n FROM s [WINDOW 2 ROWS]")
    insert(db, "s", "10:00", None)
    insert(db, "s", "10:10", None)
    assert rows(db, "SELECT * FROM by_rows ALL WINDOWS") == [(0, 3), (2, 3)]
    assert rows(db, "SELECT * FROM by_time ALL WINDOWS") == [(at("10:00"), 1)]


def test_a_landmark_begins_with_its_own_slide_whoever_shares_its_basic_windows(db: Any) -> None:
    db.sql("CREATE STREAM s (ts timestamp, v int) WITH (timestamp = 'ts')")
    for minutes in (10, 20):
        db.sql(
            f"CREATE VIEW every_{minutes} AS SELECT window_start, window_end, count(*) AS n "
            f"FROM s [LANDMARK SLIDE {minutes} MINUTES]"
        )
    insert(db, "s", "10:13", "10:30", "11:00")
    starts = {minutes: rows(db, f"SELECT window_start FROM every_{minutes}") for minutes in (10, 20)}
    assert starts == {10: [(at("10:10"),)], 20: [(at("10:00"),)]}
    assert rows(db, "SELECT window_end, n FROM every_20 ALL WINDOWS") == [
        (at("10:20"), 1),
        (at("10:40"), 2),
        (at("11:00"), 2),
    ]


def test_a_join_knows_how_far_a_stream_had_come_before_the_view(db: Any) -> None:
    for stream in ("one", "other"):
        db.sql(f"CREATE STREAM {stream} (ts timestamp, v int) WITH (timestamp = 'ts')")
    db.sql("CREATE VIEW others AS SELECT count(*) AS n FROM other [WINDOW 10 MINUTES]")
    insert(db, "other", "12:00")
    db.sql(
        "CREATE VIEW joined AS SELECT a.window_start, count(*) AS n "
        "FROM one [WINDOW 10 MINUTES] a LEFT JOIN other [WINDOW 10 MINUTES] b ON a.v = b.v"
    )
    insert(db, "one", "11:00", "11:30")
    assert rows(db, "SELECT * FROM joined ALL WINDOWS") == [(at("11:00"), 1), (at("11:10"), 0), (at("11:20"), 0)]


def test_a_landmark_in_a_join_begins_with_its_first_row_also_when_windows_went_before(db: Any) -> None:
    for stream in ("one", "other"):
        db.sql(f"CREATE STREAM {stream} (ts timestamp, v int) WITH (timestamp = 'ts')")
    db.sql(
        "CREATE VIEW joined AS SELECT a.window_start, b.window_start AS since "
        "FROM one [WINDOW 10 MINUTES] a LEFT JOIN other [LANDMARK SLIDE 10 MINUTES] b ON a.v = b.v"
    )
    db.sql("SET idle = '300 milliseconds'")
    try:
        insert(db, "one", "10:05")
        wait_for(lambda: rows(db, "SELECT window_start FROM joined ALL WINDOWS") == [(at("10:00"),)])
        insert(db, "other", "10:15")
        insert(db, "one", "10:15", "10:25")
        wait_for(lambda: (at("10:10"),) in rows(db, "SELECT window_start FROM joined ALL WINDOWS"))
        assert (at("10:10"), at("10:10")) in rows(db, "SELECT * FROM joined ALL WINDOWS")
    finally:
        db.sql("RESET idle")


def test_who_goes_on_from_windows_that_are_gone_is_told(db: Any) -> None:
    db.sql("CREATE STREAM s (v int)")
    db.sql("CREATE VIEW last_three WITH (retain = 3) AS SELECT sum(v) AS v FROM s [WINDOW 1 ROWS]")
    scns = []
    for number in range(6):
        scns.append(db.sql(f"INSERT INTO s VALUES ({number})").scn)
        assert rows(db, "SELECT * FROM last_three") == [(number,)]
    with db.subscribe("last_three", after=scns[2]) as changes:
        assert [change.row["v"] for change in changes.poll(10)] == [3, 4, 5]
    with pytest.raises(midstream.HistoryGone, match="no longer kept"):
        db.subscribe("last_three", after=scns[0])


def test_a_landmark_without_a_slide_says_what_is_missing(db: Any) -> None:
    db.sql("CREATE STREAM s (v int)")
    with pytest.raises(midstream.Error, match='syntax error at or near "]"'):
        db.sql("CREATE VIEW v AS SELECT count(*) AS n FROM s [LANDMARK]")
