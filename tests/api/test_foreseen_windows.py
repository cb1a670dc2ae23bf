"""Windows that are computed in the jobs that absorb their last rows: of one stream, or of two at the same time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from asking import fault, rows, wait_for
from holding import held
from windowing import feed, feed_at, plan_of

TOLD = "windows in the jobs that absorbed their last rows"
JOINED = (
    "SELECT count(*) AS pairs, max(a.n) AS n, sum(b.n) AS m FROM s [WINDOW 4 ROWS SLIDE 2 ROWS] AS a"
    " JOIN other [WINDOW 4 ROWS SLIDE 2 ROWS] AS b ON a.n = b.n"
)


@pytest.fixture
def timed(db: Any) -> Any:
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    return db


@pytest.fixture
def counted(db: Any) -> Any:
    db.sql("CREATE STREAM s (n int)")
    return db


@pytest.fixture
def joined(counted: Any) -> Iterator[Any]:
    """Kept by pairs of basic windows, and evaluated anew."""
    counted.sql("CREATE STREAM other (n int)")
    for name, maintenance in (("by_pairs", "incremental"), ("anew", "reevaluate")):
        counted.sql(f"CREATE VIEW {name} WITH (maintenance = '{maintenance}') AS {JOINED}")
    yield counted


def pairs_of(ours: list[int], others: list[int]) -> list[tuple[Any, ...]]:
    """The newest window that both streams complete."""
    end = min(len(ours), len(others)) // 2 * 2
    found = [a for a in ours[end - 4 : end] for b in others[end - 4 : end] if a == b]
    return [(len(found), max(found, default=None), sum(found) if found else None)]


def windows_told(db: Any, view: str) -> int:
    plan = plan_of(db, view)
    return int(plan.split(f" {TOLD}")[0].split()[-1].replace(",", "")) if TOLD in plan else 0


def test_a_window_takes_no_job_of_its_own_when_its_last_rows_tell_that_it_is_complete(timed: Any) -> None:
    timed.sql("CREATE STREAM s (n int)")
    timed.sql("CREATE VIEW v AS SELECT n % 2 AS odd, sum(n) AS n FROM s [WINDOW 4 ROWS SLIDE 2 ROWS] GROUP BY n % 2")
    timed.sql("CREATE VIEW t AS SELECT window_end, count(*) AS n FROM e [WINDOW 10 MINUTES SLIDE 5 MINUTES]")
    for number in range(16):
        feed(timed, number)
        feed_at(timed, 2 * number)
        odds = [n for n in range(max(number - (number + 1) % 2 - 3, 0), number + number % 2) if n % 2]
        if number >= 3:
            assert dict(rows(timed, "SELECT odd, n FROM v"))[1] == sum(odds[-2:]), number
    assert len(rows(timed, "SELECT * FROM t ALL WINDOWS")) == 30 // 5
    for view in ("v", "t"):
        assert "windows in the jobs that absorbed their last rows" in plan_of(timed, view)


def test_joins_and_queries_above_a_grouping_take_no_job_of_their_own_either(counted: Any) -> None:
    counted.sql("CREATE STREAM other (n int)")
    queries = {
        "joined": "SELECT count(*) AS pairs, max(a.n) AS n FROM s [WINDOW 3 ROWS SLIDE 1 ROWS] AS a"
        " JOIN other [WINDOW 3 ROWS SLIDE 1 ROWS] AS b ON a.n = b.n",
        "top": "SELECT n, c FROM (SELECT n, count(*) AS c FROM s [WINDOW 4 ROWS SLIDE 1 ROWS] GROUP BY n) AS g"
        " ORDER BY c DESC, n LIMIT 1",
    }
    for name, query in queries.items():
        counted.sql(f"CREATE VIEW {name} AS {query}")
    counted.sql(f"CREATE VIEW anew WITH (maintenance = 'reevaluate') AS {queries['top']}")
    ours, others = [], []
    for number in (3, 1, 3, 2, 2, 3, 5, 5, 5, 1):
        ours.append(number)
        feed(counted, number)
        if len(ours) >= 4:
            first = min((-ours[-4:].count(n), n) for n in ours[-4:])
            for view in ("top", "anew"):
                assert rows(counted, f"SELECT * FROM {view}") == [(first[1], -first[0])]
        counted.sql(f"INSERT INTO other VALUES ({number % 4})")
        others.append(number % 4)
        pairs = [a for a in ours[-3:] for b in others[-3:] if a == b]
        if len(ours) >= 3:
            assert rows(counted, "SELECT * FROM joined") == [(len(pairs), max(pairs, default=None))]
    for view in ("joined", "top", "anew"):
        assert "windows in the jobs that absorbed their last rows" in plan_of(counted, view)


def test_a_result_that_fails_keeps_no_row_from_being_absorbed(counted: Any) -> None:
    """It is computed beside the rows at first, and then by itself."""
    counted.sql("CREATE VIEW v AS SELECT 12 / (sum(n) - 3) AS n FROM s [WINDOW 2 ROWS]")
    counted.sql("CREATE VIEW w AS SELECT sum(n) AS n FROM s [WINDOW 2 ROWS]")
    counted.sql("CREATE VIEW total AS SELECT sum(n) AS n FROM s")
    for numbers, last in (((4, 5), 9), ((1, 1), 2), ((1, 2), 3), ((7, 7), 14), ((8, 1), 9)):
        feed(counted, *numbers)
        assert rows(counted, "SELECT * FROM w") == [(last,)]
    assert rows(counted, "SELECT * FROM total") == [(37,)]
    assert "division by zero" in str(fault(lambda: rows(counted, "SELECT * FROM v")))


def test_the_last_of_two_streams_completes_a_join_and_its_pairs_in_one_job(joined: Any) -> None:
    ours, others, draw = list[int](), list[int](), random.Random(4)
    for step in range(12):
        for stream, known in (("s", ours), ("other", others)):
            numbers = [draw.randrange(4) for _ in range(2)]
            known += numbers
            feed(joined, *numbers, stream=stream)
            for view in ("by_pairs", "anew"):
                answer = rows(joined, f"SELECT * FROM {view}")
                assert answer == (pairs_of(ours, others) if len(others) >= 4 else []), (step, view)
    for view in ("by_pairs", "anew"):
        assert windows_told(joined, view) >= 8


@pytest.mark.parametrize("first", ["s", "other"])
def test_a_batch_that_another_job_is_about_to_absorb_counts(joined: Any, first: str) -> None:
    """One stream's rows stand still on their way: the other's job foresees with them, and nothing is handed out before
    they are there."""
    second = "other" if first == "s" else "s"
    streams: dict[str, list[int]] = {"s": [1, 2, 3, 1], "other": [1, 1, 2, 3]}
    for name, numbers in streams.items():
        feed(joined, *numbers, stream=name)
    for view in ("by_pairs", "anew"):
        # Nothing is foreseen of a view that has yet to hand out its first window.
        assert rows(joined, f"SELECT * FROM {view}") == pairs_of(streams["s"], streams["other"])
    before = {view: windows_told(joined, view) for view in ("by_pairs", "anew")}
    with held(joined, f'absorb 2 rows of "{first}"') as jobs:
        streams[first] += [3, 3]
        feed(joined, 3, 3, stream=first)
        assert jobs.reached.wait(30)
        streams[second] += [3, 2]
        scn = joined.sql(f"INSERT INTO {second} VALUES (3), (2)").scn
        readers = joined._store.streams.readers_of
        wait_for(lambda: any(entry.absorbed >= scn for entry, _ in readers("pipeline")))
    for view, told in before.items():
        assert rows(joined, f"SELECT * FROM {view}") == pairs_of(streams["s"], streams["other"])
        assert windows_told(joined, view) == told + 1
