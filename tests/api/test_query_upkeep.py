"""How continuous queries are looked after: by the clock, while others compute, in shared jobs, when all is closed."""

from __future__ import annotations

import sys
import threading
import time
import types
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import fault, rows, wait_for
from holding import held_by_another
from midstream.runtime.reading import Between

PATIENCE = 30.0


@pytest.fixture
def users(db: Any) -> Any:
    db.sql("CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, age int)")
    db.sql("INSERT INTO users VALUES (1, 'Ann', 12), (2, 'Bob', 30)")
    return db


def ages(feed: Any, least: int) -> list[int]:
    heard: list[Any] = []
    until = time.monotonic() + PATIENCE
    while len(heard) < least and time.monotonic() < until:
        heard += feed.poll(timeout=1)
    return [change.row["age"] for change in heard]


# The clock


def test_transactional_by_the_clock_is_commit_by_commit_and_stays_aligned(users: Any) -> None:
    users.sql(
        "CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE TRANSACTIONAL DELTA "
        "START WITH '2099-01-01' PERIOD 1 HOUR AS SELECT id, age FROM users WHERE age < 18"
    )
    queries = users._store.queries
    query = queries.find("young")
    begin = datetime(2099, 1, 1, tzinfo=timezone.utc).timestamp()
    with users.subscribe("young") as feed:
        for age in (13, 14, 12):
            users.sql(f"UPDATE users SET age = {age} WHERE id = 1")
        assert feed.poll() == []
        assert queries.log_of(query).next_at == begin
        queries.save(query, replace(queries.log_of(query), next_at=0.0))
        queries.wake()
        assert ages(feed, 3) == [13, 14, 12]
        wait_for(lambda: queries.log_of(query).next_at == begin)


def test_a_clock_that_is_set_in_a_transaction_runs(users: Any) -> None:
    users.sql("CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON DEMAND AS SELECT id, age FROM users")
    queries = users._store.queries
    with users.session() as session, users.subscribe("young") as feed:
        session.sql("BEGIN")
        session.sql("ALTER CONTINUOUS QUERY young COMPUTE BATCHED START WITH '2020-01-01' PERIOD 1 SECOND")
        session.sql("UPDATE users SET age = 13 WHERE id = 1")
        session.sql("COMMIT")
        assert ages(feed, 1) == [13]
        session.sql("BEGIN; ALTER CONTINUOUS QUERY young COMPUTE ON DEMAND; COMMIT")
        assert queries.log_of(queries.find("young")).next_at is None


# While others compute


def test_who_commits_does_not_wait_for_who_computes(users: Any) -> None:
    users.sql("CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS SELECT id, age FROM users")
    users.sql("CREATE MATERIALIZED VIEW ages AS SELECT age, count(*) AS n FROM users GROUP BY age")
    with users.subscribe("young") as feed:
        with held_by_another(users._store.queries.computing):
            scn = users.sql("UPDATE users SET age = 13 WHERE id = 1").scn
            assert users.sql("SELECT age FROM users WHERE id = 1").fetchall() == [(13,)]
            assert feed.poll() == []
            for name in ("young", "ages"):
                began = time.monotonic()
                error = fault(lambda name=name: users.wait(name, scn, timeout=0.2))
                assert error.sqlstate == "57014" and f'"{name}" has not reached SCN {scn} in time' in str(error)
                assert time.monotonic() - began < PATIENCE / 2
        users.wait("ages", scn, timeout=PATIENCE)
        assert ages(feed, 1) == [13]


def test_waiting_for_a_continuous_view_ends_in_time(users: Any) -> None:
    users.sql("CREATE STREAM posts (uid bigint)")
    users.sql("CREATE VIEW totals AS SELECT uid, count(*) AS n FROM posts GROUP BY uid")
    scn = users.sql("INSERT INTO posts VALUES (1)").scn
    views = users._store.views
    with held_by_another(views._turn("view", users._store.catalog.state.relations["totals"].id)):
        error = fault(lambda: users.wait("totals", scn, timeout=0.2))
        assert f'"totals" has not reached SCN {scn} in time' in str(error)
    users.wait("totals", scn, timeout=PATIENCE)


def test_many_queries_share_a_job(users: Any) -> None:
    for number in range(20):
        users.sql(
            f"CREATE CONTINUOUS QUERY q{number} PRIMARY KEY (id) COMPUTE ON COMMIT AS "
            f"SELECT id, age + {number} AS age FROM users WHERE age < 18"
        )
    queries = users._store.queries
    feeds = [users.subscribe(f"q{number}") for number in range(20)]
    before = queries.jobs
    with held_by_another(queries.computing):
        scn = users.sql("UPDATE users SET age = 13 WHERE id = 1").scn
    for number in range(20):
        users.wait(f"q{number}", scn)
    assert queries.jobs == before + 1
    assert [ages(feed, 1) for feed in feeds] == [[13 + number] for number in range(20)]
    for feed in feeds:
        feed.close()


# Destinations


def test_columns_that_a_query_does_not_fill_get_their_defaults_also_by_a_job(
    users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.sql('CREATE TABLE seen (id bigint, note text DEFAULT \'new\', n int DEFAULT 1 + 1, "more ""so" int)')
    users.sql("CREATE CONTINUOUS QUERY ids COMPUTE ON COMMIT DESTINATION seen AS SELECT id FROM users")
    users.wait("ids", users.sql("INSERT INTO users VALUES (3, 'Cid', 5)").scn)
    monkeypatch.setattr("midstream.runtime.continuous.delivering.FEW_ROWS", 0)
    users.wait("ids", users.sql("INSERT INTO users VALUES (4, 'Dan', 6)").scn)
    assert rows(users, "SELECT * FROM seen") == [(3, "new", 2, None), (4, "new", 2, None)]


@pytest.mark.parametrize("few", [200_000, 0])
def test_what_does_not_fit_the_destination_is_refused_also_by_a_job(
    users: Any, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("midstream.runtime.continuous.delivering.FEW_ROWS", few)
    users.sql("CREATE TABLE seen (name varchar(3), age smallint)")
    users.sql("CREATE CONTINUOUS QUERY names COMPUTE ON COMMIT DESTINATION seen AS SELECT name, age FROM users")
    users.wait("names", users.sql("INSERT INTO users VALUES (3, 'Cid', 5)").scn)
    scn = users.sql("INSERT INTO users VALUES (4, 'Daniel', 6)").scn
    assert "value too long for type varchar(3)" in str(fault(lambda: users.wait("names", scn)))
    users.sql("ALTER CONTINUOUS QUERY names DEACTIVATE; ALTER CONTINUOUS QUERY names ACTIVATE")
    scn = users.sql("INSERT INTO users VALUES (5, 'Eve', 70000)").scn
    assert "smallint out of range" in str(fault(lambda: users.wait("names", scn)))
    assert rows(users, "SELECT * FROM seen") == [("Cid", 5)]


# Triggers


def test_a_change_that_was_not_tried_three_times_is_tried_again_and_not_parked(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, has_failed = list[Any](), threading.Event()
    opened = list[Any]()

    def fail_while_it_closes(change: Any) -> None:
        calls.append(change.id)
        if len(calls) == 1:
            has_failed.set()
            assert opened[0]._store.queries.triggers._stop.wait(PATIENCE)
            raise ValueError("not now")

    module = types.ModuleType("closing_listeners")
    vars(module)["call"] = fail_while_it_closes
    monkeypatch.setitem(sys.modules, "closing_listeners", module)
    folder = str(tmp_path / "closing.db")
    with midstream.connect(folder) as db:
        opened.append(db)
        db.sql("CREATE TABLE t (a int); CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT a FROM t")
        db.sql("CREATE TRIGGER warn ON q FOR EACH ROW EXECUTE 'closing_listeners:call'")
        db.sql("INSERT INTO t VALUES (1)")
        assert has_failed.wait(PATIENCE)
    with midstream.connect(folder) as db:
        wait_for(lambda: len(calls) == 2)
        assert calls[0] == calls[1]
        assert db.sql("SELECT * FROM dead_warn").fetchall() == []


# Plans


def test_terms_go_by_the_sizes_that_tables_have_now(users: Any) -> None:
    users.sql("CREATE TABLE visits (who bigint, place int)")
    users.sql("INSERT INTO visits VALUES (1, 1)")
    users.sql("INSERT INTO users SELECT id, 'new', 20 FROM generate_series(10, 30) AS s (id)")
    users.sql(
        "CREATE CONTINUOUS QUERY seen COMPUTE ON DEMAND AS "
        "SELECT u.name, v.place FROM users u, visits v WHERE u.id = v.who"
    )
    orders = ["dlt(users) >< pre(visits)", "dlt(visits) >< pre(users)"]
    queries, query = users._store.queries, users._store.queries.find("seen")
    for order in orders:
        assert any(order in line for (line,) in users.sql("EXPLAIN CONTINUOUS QUERY seen").fetchall())
        before = users._store.catalog.state
        users.sql("BEGIN; UPDATE users SET name = 'x' WHERE id = 1; UPDATE visits SET place = 2; COMMIT")
        change = queries.plans_of(query).change(Between(users._store.catalog.state, before))
        assert change.difference.steps[0].text == order
        users.sql("INSERT INTO visits SELECT id, 1 FROM generate_series(1000, 2000) AS s (id)")


def test_plans_stay_when_something_else_is_defined(db: Any) -> None:
    """With many queries, every CREATE would else cost as much as planning all of them."""
    db.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    db.sql("CREATE VIEW small AS SELECT id, n FROM t WHERE n < 10")
    db.sql("CREATE CONTINUOUS QUERY q COMPUTE ON DEMAND AS SELECT id, n FROM small")
    catalog, queries = db._store.catalog, db._store.queries
    plans = queries.plans_of(queries.find("q"))
    known = plans.bound(catalog.state)
    db.sql("CREATE TABLE other (n int)")
    db.sql("CREATE CONTINUOUS QUERY another COMPUTE ON DEMAND AS SELECT n FROM other")
    assert plans.bound(catalog.state) is known
    db.sql("ALTER TABLE t ADD COLUMN more int")
    assert plans.bound(catalog.state) is not known
    known = plans.bound(catalog.state)
    db.sql("CREATE OR REPLACE VIEW small AS SELECT id, n FROM t WHERE n < 20")
    assert plans.bound(catalog.state) is not known
