"""Pipelines of continuous views: what is shared, how many jobs run, how the state stays small, what expires."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import midstream
from asking import rows
from midstream.errors import StorageError

pytestmark = pytest.mark.spark
YEAR, WEEK, _ = datetime.now(timezone.utc).isocalendar()
THIS_WEEK = YEAR * 100 + WEEK
ABSORBED = ['absorb 12 rows of "events"']
SCHEMA = """
CREATE STREAM events (entity_id bigint, duration int, cost double precision, local_cost double precision,
  long_distance_cost double precision, long_distance boolean, local_calls int, week int, ts timestamp);
CREATE TABLE customers (id bigint, city_zip int, region_id int, type int, category int, value_type int);
INSERT INTO customers VALUES (1, 10, 100, 2, 1, 2), (2, 10, 100, 2, 1, 1), (3, 20, 200, 1, 1, 2)
"""
AIM = {
    "q1": "SELECT avg(t_duration) AS a FROM (SELECT sum(duration) AS t_duration FROM events "
    "WHERE week = current_week() GROUP BY entity_id HAVING sum(local_calls) > 2)",
    "q2": "SELECT max(max_cost) AS m FROM (SELECT max(cost) AS max_cost FROM events WHERE week = current_week() "
    "GROUP BY entity_id HAVING count(*) > 2)",
    "q3": "SELECT sum(t_cost) / sum(t_duration) AS cost_ratio FROM (SELECT sum(cost) AS t_cost, "
    "sum(duration) AS t_duration, count(*) AS num_calls FROM events WHERE week = current_week() GROUP BY entity_id) "
    "GROUP BY num_calls LIMIT 100",
    "q4": "SELECT city_zip, avg(num_calls) AS a, sum(duration_calls) AS d FROM (SELECT entity_id, "
    "count(*) AS num_calls, sum(duration) AS duration_calls FROM events "
    "WHERE NOT long_distance AND week = current_week() GROUP BY entity_id "
    "HAVING count(*) > 1 AND sum(duration) > 25) e, customers c WHERE e.entity_id = c.id GROUP BY city_zip",
    "q5": "SELECT c.region_id, sum(long_distance_cost) AS cost_long, sum(local_cost) AS cost_local FROM events e, "
    "customers c WHERE e.entity_id = c.id AND week = current_week() AND c.type = 2 AND c.category = 1 "
    "GROUP BY c.region_id",
    "q7": "SELECT sum(cost) / sum(duration) AS r FROM events e, customers c WHERE e.entity_id = c.id "
    "AND week = current_week() AND c.value_type = 2",
}


@contextmanager
def jobs_of(db: Any) -> Iterator[list[str]]:
    """The labels of the jobs that run meanwhile."""
    labels: list[str] = []
    engine, run = db._engine, db._engine.run

    def noted(kernel: str, pieces: Any, *, label: str = "", cancellation: Any = None) -> Any:
        if pieces:
            labels.append(label)
        return run(kernel, pieces, label=label, cancellation=cancellation)

    engine.run = noted
    try:
        yield labels
    finally:
        del engine.run


def events(week: int, rows: int = 12) -> str:
    values = [
        f"({n % 3 + 1}, {10 + n}, {n}.5, {n}, {2 * n}, {str(n % 2 == 0).lower()}, 1, {week}, '2027-01-01 00:00:00')"
        for n in range(rows)
    ]
    return "INSERT INTO events VALUES " + ", ".join(values)


@pytest.fixture
def aim(tmp_path: Path) -> Iterator[Any]:
    with midstream.connect(str(tmp_path / "aim.db")) as db:
        db.sql(SCHEMA)
        for name, query in AIM.items():
            db.sql(f"CREATE VIEW {name} AS {query}")
        yield db


def test_six_views_are_three_pipelines_and_one_job(aim: Any) -> None:
    readers = aim._store.views.readers()
    assert len(readers) == 3
    members = {view.name: view.id for view in aim._store.catalog.state.relations.values() if view.name in AIM}
    shared = max((reader.state.views for _, reader in readers), key=len)
    assert set(shared) == {members[name] for name in ("q1", "q2", "q3", "q4")}
    with jobs_of(aim) as jobs:
        aim.sql(events(THIS_WEEK))
        answers = {name: aim.sql(f"SELECT * FROM {name}").fetchall() for name in AIM}

    refreshes = {f'refresh "{name}"' for name in AIM}
    assert len(jobs) == len(set(jobs)), "looking at a result is none"
    assert set(jobs) - refreshes == set(ABSORBED) and refreshes - set(jobs) <= {'refresh "q1"'}
    assert answers["q1"] == [(pytest.approx(sum(10 + n for n in range(12)) / 3),)]
    assert answers["q5"] == [(100, pytest.approx(2.0 * sum(n for n in range(12) if n % 3 < 2)), pytest.approx(40.0))]
    with jobs_of(aim) as jobs:
        for name in AIM:
            assert sorted(aim.sql(f"SELECT * FROM {name}").fetchall()) == sorted(answers[name])
    assert jobs == [], "nothing has come"


def test_answers_that_are_waited_for_come_from_the_job_that_absorbs(aim: Any) -> None:
    for name in AIM:
        aim.sql(f"SELECT * FROM {name}")
    found = []
    for number in range(4):
        with jobs_of(aim) as jobs:
            aim.sql(events(THIS_WEEK, 12))
            answers = {name: aim.sql(f"SELECT * FROM {name}").fetchall() for name in AIM}
        assert answers["q3"] and answers["q5"][0][1] == pytest.approx(
            2.0 * (number + 1) * sum(n for n in range(12) if n % 3 < 2)
        )
        assert answers["q2"] == [(11.5,)]
        found.append(jobs)
    assert ABSORBED in found, "one job for all, if nothing came between the insert and the read"


def test_an_answer_that_fails_keeps_no_row_from_being_absorbed(aim: Any) -> None:
    aim.sql("CREATE VIEW broken AS SELECT 1 / (count(*) - 24) AS n FROM events")
    aim.sql("CREATE VIEW total AS SELECT count(*) AS n FROM events")
    for expected in (12, 24, 36):
        aim.sql(events(THIS_WEEK))
        try:
            assert aim.sql("SELECT n FROM broken").fetchall() == [(1 // (expected - 24) if expected > 24 else 0,)]
            assert expected != 24
        except midstream.Error as error:
            assert expected == 24 and "division by zero" in str(error)
        assert aim.sql("SELECT * FROM total").fetchall() == [(expected,)]


def test_a_batch_counts_once_for_those_who_had_it_when_another_failed(aim: Any) -> None:
    """The disk gives an error when the last of three pipelines wants to keep what it has made."""
    aim.sql("SET max_staleness = 0")
    *_, (_, last) = aim._store.views.readers()
    absorb, failures = last.absorb, []

    def fails_once(*arguments: Any) -> Any:
        if not failures:
            failures.append(arguments)
            raise StorageError("no space left on device")
        return absorb(*arguments)

    last.absorb = fails_once
    aim.sql("CREATE VIEW total AS SELECT entity_id % 1 AS k, count(*) AS n FROM events GROUP BY entity_id % 1")
    aim.sql(events(THIS_WEEK))
    assert aim.sql("SELECT n FROM total").fetchall() == [(12,)]
    assert aim.sql("SELECT * FROM q2").fetchall() == [(11.5,)]
    assert aim.sql("SELECT * FROM q1").fetchall() == [(pytest.approx(sum(10 + n for n in range(12)) / 3),)]
    assert aim.sql("SELECT * FROM q5").fetchall()[0][2] == pytest.approx(40.0)
    assert failures


def test_state_stays_small_and_loses_past_weeks_however_many_batches_come(aim: Any) -> None:
    for number in range(18):
        aim.sql(events(THIS_WEEK - 100 if number < 9 else THIS_WEEK, 3))
        aim.sql("SELECT * FROM q1")
    aim._store.views.merger.wait()
    readers = [reader for _, reader in aim._store.views.readers()]
    for reader in readers:
        assert len(reader.state.files) < 16
        assert max(file.level for file in reader.state.files) >= 1
    merged = [file for reader in readers for file in reader.state.files if file.level]
    values = [set(column.to_pylist()) for file in merged for column in pq.read_table(file.path).columns]
    assert not any(THIS_WEEK - 100 in found for found in values), "no read will ask for that week again"
    kept = [
        file
        for reader in readers
        for file in (*reader.state.files, *(f for static in reader.state.statics.values() for f in static.files))
    ]
    assert len(list((aim.path / "views").glob("*/*.parquet"))) == len(kept), "files that were merged are gone"
    assert aim.sql("SELECT * FROM q2").fetchall() == [(2.5,)]


def test_a_view_that_is_dropped_leaves_nothing(aim: Any) -> None:
    aim.sql(events(THIS_WEEK))
    aim.sql("SELECT * FROM q4")
    for name in ("q1", "q2", "q3", "q5", "q7"):
        aim.sql(f"DROP VIEW {name}")
    assert len(aim._store.views.readers()) == 1
    before = aim.sql("SELECT * FROM q4").fetchall()
    aim.sql("DROP VIEW q4")
    assert before and aim._store.views.readers() == []
    assert list((aim.path / "views").iterdir()) == []
    assert (
        aim.sql("INSERT INTO events VALUES (1, 1, 1, 1, 1, true, 1, 1, '2027-01-01 00:00:00')").status == "INSERT 0 1"
    )


def test_a_view_that_shares_a_pipeline_names_the_commit_of_its_own_tables(db: Any) -> None:
    """What the pipeline reads for the view that made it is older than what it reads for the one that joined."""
    db.sql("CREATE STREAM s (k int); CREATE TABLE a (k int); CREATE TABLE b (k int); INSERT INTO a VALUES (1)")
    db.sql("CREATE VIEW first AS SELECT k, count(*) AS n FROM s WHERE k IN (SELECT k FROM a) GROUP BY k")
    before = db.sql("INSERT INTO b VALUES (1)").scn
    known = db.sql("INSERT INTO b VALUES (2)").scn
    db.sql("CREATE VIEW second AS SELECT k, count(*) AS n FROM s WHERE k IN (SELECT k FROM b) GROUP BY k")
    db.sql(
        "CREATE VIEW third AS SELECT k, count(*) AS n FROM s WHERE k IN (SELECT k FROM a) AND k NOT IN "
        "(SELECT k FROM b WHERE k > 1) GROUP BY k"
    )
    assert len(db._store.views.readers()) == 1, "one pipeline for all"
    db.sql("DELETE FROM b; DELETE FROM a")
    frozen = {name: frozen_commits(db, name) for name in ("first", "second", "third")}
    assert all(len(commits) == 1 for commits in frozen.values()), "one commit for all that a view reads"
    assert frozen["first"].pop() < before
    assert known <= frozen["second"].pop() <= frozen["third"].pop()
    db.sql("INSERT INTO s VALUES (1), (2), (3)")
    assert rows(db, "SELECT * FROM first") == rows(db, "SELECT * FROM third") == [(1, 1)]
    assert rows(db, "SELECT * FROM second") == [(1, 1), (2, 1)]


@pytest.mark.parametrize(
    ("query", "inputs"),
    [
        ("SELECT o.day, count(*) AS n FROM s, o, c WHERE s.o = o.id AND o.c = c.id GROUP BY o.day", ["o c"]),
        ("SELECT o.day, count(*) AS n FROM s JOIN o ON s.o = o.id JOIN c ON o.c = c.id GROUP BY o.day", ["o c"]),
        ("SELECT c.age, count(*) AS n FROM c, s, o WHERE s.o = o.id AND o.c = c.id GROUP BY c.age", ["o c"]),
        ("SELECT c.name, count(*) AS n FROM s, o, c WHERE s.o = o.id AND o.c = c.id GROUP BY c.name", ["o", "c"]),
        ("SELECT o.day, count(*) AS n FROM s, o, c WHERE s.o = o.id AND o.c = c.age GROUP BY o.day", ["o", "c"]),
        ("SELECT o.day, count(*) AS n FROM s, o LEFT JOIN c ON o.c = c.id WHERE s.o = o.id GROUP BY o.day", ["o", "c"]),
        (
            "SELECT o.day, count(*) FROM s, o, c AS OF SCN ‹now› AS c WHERE s.o = o.id AND o.c = c.id GROUP BY o.day",
            ["o", "c"],
        ),
    ],
)
def test_tables_that_are_joined_along_a_key_are_one_static_input(db: Any, query: str, inputs: list[str]) -> None:
    """Unless it would have more rows, or texts would be there again and again."""
    db.sql(
        "CREATE TABLE c (id int PRIMARY KEY, name text, age int); CREATE TABLE o (id int PRIMARY KEY, c int, day date)"
    )
    db.sql("INSERT INTO c VALUES (1, 'Ada', 30); INSERT INTO o VALUES (1, 1, '2027-01-01'); CREATE STREAM s (o int)")
    [(now,)] = db.sql("SELECT current_scn()").fetchall()
    plan = [line for (line,) in db.sql(f"EXPLAIN CREATE VIEW v AS {query.replace('‹now›', str(now))}").fetchall()]
    told = [re.findall(r'"(\w+)"', line) for line in plan if line.lstrip().startswith("Static input")]
    assert sorted(sorted(tables) for tables in told) == sorted(sorted(names.split()) for names in inputs)


def frozen_commits(db: Any, view: str) -> set[int]:
    plan = [line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall()]
    told = [*(line for line in plan if "frozen as of SCN" in line), *db.sql(f"DESCRIBE {view}").notices]
    return {int(number) for line in told for number in re.findall(r"of SCN (\d+)", line)}
