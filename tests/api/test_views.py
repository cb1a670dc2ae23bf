"""Continuous views through the Python interface: what a read sees, when, at what cost, and what stays after a restart.

What views answer is in the scripts of `tests/sql/views` and in `tests/laws/test_views.py`; here are threads, commits,
clocks and folders.
"""

from __future__ import annotations

import math
import re
import statistics
import threading
import time
from datetime import datetime, timedelta, timezone
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import midstream
from asking import in_threads, rows, scn_now, wait_for
from holding import held


@pytest.fixture
def fed(db: Any) -> Any:
    db.sql("CREATE STREAM s (step int, n int)")
    db.sql("CREATE VIEW steps AS SELECT step, count(*) AS rows FROM s GROUP BY step")
    db.sql("CREATE VIEW total AS SELECT count(*) AS rows, coalesce(sum(n), 0) AS n FROM s")
    return db


def insert_step(db: Any, step: int, count: int = 3) -> int:
    return int(db.sql("INSERT INTO s VALUES " + ", ".join(f"({step}, {n})" for n in range(count))).scn)


def jobs_run(db: Any) -> int:
    """How many jobs Spark has been given so far."""
    context = db._engine._lease.result().spark.sparkContext
    return int(context._jsc.sc().dagScheduler().numTotalJobs())


# What a read sees


def test_a_read_sees_every_row_acknowledged_before_it_began(fed: Any) -> None:
    acknowledged, lock, done = [0], threading.Lock(), threading.Event()

    def feed(first: int) -> None:
        for step in range(first, first + 10):
            insert_step(fed, step)
            with lock:
                acknowledged[0] += 3

    def feed_all() -> None:
        try:
            in_threads([lambda first=first: feed(first) for first in (0, 100, 200)])  # type: ignore[misc]
        finally:
            done.set()

    def read() -> None:
        last, reader = 0, fed.session()
        while not done.is_set() or last < 90:
            least = acknowledged[0]
            [(seen, _)] = reader.sql("SELECT rows, n FROM total").fetchall()
            assert seen >= least, f"{least} rows were acknowledged, the view has {seen}"
            assert seen >= last, "rows went away"
            assert seen % 3 == 0, "an insert was seen by half"
            last = seen
        reader.close()

    in_threads([feed_all, read, read])
    assert rows(fed, "SELECT DISTINCT rows FROM steps") == [(3,)]
    assert fed.sql("SELECT count(*) FROM steps").fetchone() == (30,)


def test_a_statement_reads_all_views_at_one_commit(db: Any) -> None:
    db.sql("CREATE STREAM one (n int); CREATE STREAM other (n int)")
    db.sql("CREATE VIEW a AS SELECT count(*) AS n FROM one; CREATE VIEW b AS SELECT count(*) AS n FROM other")
    db.sql("CREATE TABLE beside (n int)")
    done = threading.Event()

    def feed() -> None:
        with db.session() as session:
            for n in range(15):
                session.sql(f"BEGIN; INSERT INTO one VALUES ({n}); INSERT INTO beside VALUES ({n})")
                session.sql(f"INSERT INTO other VALUES ({n}); COMMIT")
        done.set()

    def read() -> None:
        with db.session() as session:
            while not done.is_set():
                query = "SELECT (SELECT n FROM a), (SELECT n FROM b), (SELECT count(*) FROM beside)"
                [(one, other, beside)] = session.sql(query).fetchall()
                assert one == other == beside

    in_threads([feed, read])
    assert rows(db, "SELECT a.n, b.n FROM a, b") == [(15, 15)]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO kept SELECT (SELECT n FROM a), (SELECT n FROM b), (SELECT count(*) FROM beside)",
        "UPDATE kept SET a = (SELECT n FROM a), b = (SELECT n FROM b), c = (SELECT count(*) FROM beside)",
        "MERGE INTO kept USING (SELECT a.n AS a, b.n AS b, (SELECT count(*) FROM beside) AS c FROM a, b) AS new"
        " ON false WHEN NOT MATCHED THEN INSERT (a, b, c) VALUES (new.a, new.b, new.c)",
        "DROP TABLE kept; CREATE TABLE kept AS SELECT a.n AS a, b.n AS b, (SELECT count(*) FROM beside) AS c FROM a, b",
    ],
)
def test_a_statement_that_writes_reads_all_views_at_one_commit(
    db: Any, statement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE STREAM s (n int); CREATE TABLE beside (n int)")
    db.sql("CREATE VIEW a AS SELECT count(*) AS n FROM s; CREATE VIEW b AS SELECT sum(n) AS n FROM s")
    db.sql("CREATE TABLE kept (a bigint, b bigint, c bigint)")
    if statement.startswith("UPDATE"):
        db.sql("INSERT INTO kept VALUES (0, 0, 0)")
    views, feeder = db._store.views, db.session()
    moment = views.moment

    def feed() -> None:
        feeder.sql("BEGIN; INSERT INTO s VALUES (1); INSERT INTO beside VALUES (1); COMMIT")

    def fed_before_and_after(*arguments: Any, **named: Any) -> Any:
        feed()
        found = moment(*arguments, **named)
        feed()
        return found

    feed()
    monkeypatch.setattr(views, "moment", fed_before_and_after)
    db.sql(statement)
    monkeypatch.undo()
    feeder.close()
    [(a, b, c)] = rows(db, "SELECT a, b, c FROM kept")
    assert a == b == c > 0


def test_a_view_made_while_a_stream_is_fed_sees_the_inserts_after_one_commit(fed: Any) -> None:
    scns: dict[int, int] = {}
    created: dict[str, int] = {}

    def feed(first: int) -> None:
        for step in range(first, first + 12):
            scns[step] = insert_step(fed, step)

    def make() -> None:
        for number in range(3):
            wait_for(lambda least=5 * number: len(scns) > least)  # type: ignore[misc]
            name = f"new_{number}"
            query = "SELECT step, count(*) AS rows, max(n) AS n FROM s GROUP BY step"
            created[name] = fed.sql(f"CREATE VIEW {name} AS {query}").scn

    in_threads([lambda: feed(0), lambda: feed(100), make])
    for name in created:
        seen = fed.sql(f"SELECT step, rows FROM {name}").fetchall()
        assert {count for _, count in seen} <= {3}, "an insert by half"
        first = min((scns[step] for step, _ in seen), default=10**9)
        assert {step for step, _ in seen} == {step for step, scn in scns.items() if scn >= first}, "a hole"
        assert {step for step, scn in scns.items() if scn > created[name]} <= {step for step, _ in seen}


def test_a_view_over_two_streams_begins_with_both_at_one_commit(db: Any) -> None:
    db.sql("CREATE STREAM one (n int); CREATE STREAM other (n int)")
    done = threading.Event()
    counted = "(SELECT count(*) AS n FROM one) AS a, (SELECT count(*) AS n FROM other) AS b"

    def feed() -> None:
        with db.session() as session:
            while not done.is_set():
                session.sql("BEGIN; INSERT INTO one VALUES (1); INSERT INTO other VALUES (1); COMMIT")

    def make() -> None:
        try:
            for number in range(6):
                db.sql(
                    f"CREATE VIEW pair_{number} AS SELECT a.n AS x, b.n AS y FROM {counted} WHERE a.n > {-number - 1}"
                )
        finally:
            done.set()

    in_threads([feed, feed, make])
    pairs = [db.sql(f"SELECT x, y FROM pair_{number}").fetchone() for number in range(6)]
    assert all(one == other for one, other in pairs), f"half of a transaction: {pairs}"


def test_a_result_names_the_commit_that_it_is_of(fed: Any) -> None:
    inserted = insert_step(fed, 1)
    result = fed.sql("SELECT * FROM total")
    assert result.scn == inserted == scn_now(fed)
    again = insert_step(fed, 2)
    assert fed.sql("SELECT * FROM steps").scn == again == inserted + 1


def test_a_transaction_is_seen_when_it_commits(fed: Any) -> None:
    with fed.session() as writer:
        writer.sql("BEGIN; INSERT INTO s VALUES (1, 1), (1, 2)")
        assert rows(fed, "SELECT rows FROM total") == [(0,)]
        assert writer.sql("SELECT rows FROM total").fetchall() == [(0,)]
        writer.sql("COMMIT")
        assert rows(fed, "SELECT rows FROM total") == [(2,)]
        writer.sql("BEGIN; INSERT INTO s VALUES (9, 9); ROLLBACK")
    assert rows(fed, "SELECT rows, n FROM total") == [(2, 3)]


def test_rows_come_in_every_way(fed: Any, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("7,1\n7,2\n")
    fed.sql("CREATE TABLE source (step int, n int); INSERT INTO source VALUES (5, 1), (6, 2)")
    fed.sql("INSERT INTO s VALUES (1, 10)")
    fed.sql("INSERT INTO s (n, step) VALUES (?, ?)", [20, 1])
    fed.sql("INSERT INTO s SELECT step, n FROM source")
    fed.sql(f"COPY s FROM '{tmp_path / 'rows.csv'}' CSV")
    fed.insert("s", [{"step": 8, "n": 1}, {"step": 8}])
    fed.insert("s", pa.table({"step": pa.array(range(1000), pa.int32()), "n": pa.array(range(1000), pa.int32())}))
    assert fed.sql("SELECT rows FROM total").fetchone() == (1 + 1 + 2 + 2 + 2 + 1000,)
    assert rows(fed, "SELECT step, rows FROM steps WHERE rows > 1") == [
        (1, 3), (5, 2), (6, 2), (7, 3), (8, 3)
    ]  # fmt: skip


def test_many_rows_and_many_groups(db: Any) -> None:
    db.sql("CREATE STREAM s (k int, n bigint)")
    db.sql("CREATE VIEW v AS SELECT k, count(*) AS rows, sum(n) AS n FROM s GROUP BY k")
    groups, rounds = 60_000, 3
    for number in range(rounds):
        keys = pa.array(range(groups), pa.int32())
        db.insert("s", pa.table({"k": keys, "n": pa.array([number] * groups, pa.int64())}))
        summed = "SELECT count(*), sum(rows), sum(n), min(rows), max(rows) FROM v"
        done = number + 1
        expected = (groups, groups * done, groups * sum(range(done)), done, done)
        assert db.sql(summed).fetchone() == expected
    assert db.sql("SELECT * FROM v WHERE k = 777").fetchall() == [(777, 3, 3)]


# What a read costs


def test_a_read_with_nothing_new_runs_no_job(fed: Any) -> None:
    insert_step(fed, 1)
    expected = rows(fed, "SELECT * FROM steps")

    def ten_reads_without_a_job() -> bool:
        before = jobs_run(fed)
        assert all(rows(fed, "SELECT * FROM steps") == expected for _ in range(10))
        return jobs_run(fed) == before

    wait_for(ten_reads_without_a_job, 20)


def test_a_changed_table_above_the_grouping_changes_the_answer(fed: Any) -> None:
    fed.sql("CREATE TABLE names (step int, name text); INSERT INTO names VALUES (1, 'one')")
    fed.sql(
        "CREATE VIEW named AS SELECT t.name, s.rows FROM (SELECT step, count(*) AS rows FROM s GROUP BY step) AS s "
        "LEFT JOIN names t ON t.step = s.step"
    )
    insert_step(fed, 1)
    insert_step(fed, 2)
    assert rows(fed, "SELECT * FROM named") == [("one", 3), (None, 3)]
    fed.sql("UPDATE names SET name = 'first'")
    assert rows(fed, "SELECT * FROM named") == [("first", 3), (None, 3)]
    fed.sql("BEGIN; DELETE FROM names; INSERT INTO names VALUES (2, 'two'); COMMIT")
    assert rows(fed, "SELECT * FROM named") == [("two", 3), (None, 3)]


def test_a_view_over_a_stored_answer_has_what_was_committed_before_the_read(fed: Any) -> None:
    fed.sql("CREATE TABLE t (k int); INSERT INTO t VALUES (1)")
    fed.sql("CREATE MATERIALIZED VIEW stored AS SELECT sum(k) AS k FROM t")
    fed.sql("CREATE VIEW over_it AS SELECT s.rows, stored.k FROM (SELECT count(*) AS rows FROM s) AS s, stored")
    fed.sql("CREATE VIEW over_that AS SELECT rows + k AS n FROM over_it")
    insert_step(fed, 1)
    assert rows(fed, "SELECT * FROM over_it") == [(3, 1)]
    # Nobody else computes stored answers meanwhile.
    with fed._store.queries.computing:
        fed.sql("INSERT INTO t VALUES (10)")
        assert rows(fed, "SELECT * FROM over_it") == [(3, 11)]
        fed.sql("INSERT INTO t VALUES (100)")
        assert rows(fed, "SELECT n FROM over_that") == [(114,)]


def test_max_staleness_takes_an_older_result(fed: Any) -> None:
    insert_step(fed, 1)
    lenient = fed.session()
    lenient.sql("SET max_staleness = '1 hour'")
    assert rows(lenient, "SELECT rows FROM total") == [(3,)]
    insert_step(fed, 2)
    stale = lenient.sql("SELECT rows FROM total")
    assert stale.fetchall() in ([(3,)], [(6,)])
    assert rows(fed, "SELECT rows FROM total") == [(6,)], "another session asks for fresh rows"
    lenient.sql("SET max_staleness = '0 seconds'")
    insert_step(fed, 3)
    assert rows(lenient, "SELECT rows FROM total") == [(9,)]
    lenient.close()


def test_a_transaction_takes_no_result_that_is_older_than_its_tables(fed: Any) -> None:
    fed.sql("CREATE TABLE t (k int); INSERT INTO t VALUES (1), (2)")
    fed.sql("CREATE VIEW both_counts AS SELECT rows, (SELECT count(*) FROM t) AS others FROM total")
    assert rows(fed, "SELECT * FROM both_counts") == [(0, 2)]
    lenient = fed.session()
    lenient.sql("SET max_staleness = '1 hour'")
    insert_step(fed, 1)
    fed.sql("INSERT INTO t VALUES (3)")
    lenient.sql("BEGIN; INSERT INTO t VALUES (4)")
    assert rows(lenient, "SELECT * FROM both_counts") == [(3, 4)]
    lenient.sql("ROLLBACK")
    lenient.close()


def test_a_stale_result_is_not_read_with_a_table_that_is_newer(fed: Any) -> None:
    lenient = fed.session()
    lenient.sql("SET max_staleness = '1 hour'")
    assert rows(lenient, "SELECT rows FROM total") == [(0,)]
    insert_step(fed, 1)
    fed.sql("CREATE TABLE t (k int); INSERT INTO t VALUES (1)")
    assert rows(lenient, "SELECT rows, (SELECT count(*) FROM t) FROM total") == [(3, 1)]
    lenient.close()


# Time


def test_a_predicate_on_time_holds_when_the_view_is_read(db: Any) -> None:
    db.sql("CREATE STREAM s (at timestamp, n int)")
    db.sql("CREATE VIEW recent AS SELECT count(*) AS rows FROM s WHERE at > now() - interval '4 seconds'")
    db.sql("CREATE VIEW old AS SELECT count(*) AS rows FROM s WHERE at < now() - interval '4 seconds'")
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    db.insert("s", [{"at": now, "n": 1}, {"at": now - timedelta(hours=2), "n": 2}])
    begun = time.monotonic()
    counted = db.sql("SELECT rows FROM recent").fetchone()
    if time.monotonic() - begun < 3:
        assert counted == (1,)
    wait_for(lambda: rows(db, "SELECT rows FROM recent") == [(0,)], 10)
    wait_for(lambda: rows(db, "SELECT rows FROM old") == [(2,)], 10)


def test_a_row_of_the_future_counts_when_its_time_has_come(db: Any) -> None:
    db.sql("CREATE STREAM s (at timestamp)")
    db.sql("CREATE VIEW due AS SELECT count(*) AS rows FROM s WHERE at <= now()")
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    db.insert("s", [{"at": now + timedelta(seconds=4)}, {"at": now + timedelta(days=1)}])
    first = rows(db, "SELECT rows FROM due")
    assert first == [(0,)] or datetime.now(timezone.utc).replace(tzinfo=None) > now + timedelta(seconds=4)
    wait_for(lambda: rows(db, "SELECT rows FROM due") == [(1,)], 15)


# Numbers


def test_the_variance_is_stable_under_any_cut(db: Any) -> None:
    """Of values far from zero: sums of squares would lose all digits, Welford's way loses half of them."""
    db.sql("CREATE STREAM s (g int, x double precision)")
    db.sql("CREATE VIEW v AS SELECT var_pop(x) AS v, stddev(x) AS s, regr_sxx(x, x) AS xx, corr(x, g) AS c FROM s")
    values = [1e8 + (n % 7) * 0.25 for n in range(60)]
    for start in [*range(20), 20, 45]:
        end = start + 1 if start < 20 else {20: 45, 45: 60}[start]
        db.insert("s", [{"g": n % 3, "x": values[n]} for n in range(start, end)])
        if start % 5 == 0:
            db.sql("SELECT * FROM v")
    shifted = [value - 1e8 for value in values]
    [(variance, deviation, squares, correlation)] = db.sql("SELECT * FROM v").fetchall()
    assert math.isclose(variance, statistics.pvariance(shifted), rel_tol=1e-6)
    assert math.isclose(deviation, statistics.stdev(shifted), rel_tol=1e-6)
    assert math.isclose(squares, statistics.pvariance(shifted) * 60, rel_tol=1e-6)
    expected = statistics.correlation(shifted, [n % 3 for n in range(60)])
    assert math.isclose(correlation, expected, rel_tol=1e-5)


def test_sketches_are_near_however_the_rows_come(db: Any) -> None:
    db.sql("CREATE STREAM s (n int)")
    db.sql("CREATE VIEW v AS SELECT approx_count_distinct(n) AS d, approx_percentile(n, 0.9) AS p FROM s")
    numbers = [n * 7919 % 20_000 for n in range(40_000)]
    for start in (0, 100, 5_000, 5_001, 30_000):
        end = {0: 100, 100: 5_000, 5_000: 5_001, 5_001: 30_000, 30_000: 40_000}[start]
        db.insert("s", pa.table({"n": pa.array(numbers[start:end], pa.int32())}))
        db.sql("SELECT * FROM v")
    [(distinct, ninth)] = db.sql("SELECT * FROM v").fetchall()
    assert abs(distinct - 20_000) < 2_000
    assert abs(ninth - 18_000) < 500


def test_a_row_that_a_view_cannot_take_harms_no_other_view(fed: Any) -> None:
    fed.sql("CREATE VIEW shares AS SELECT sum(100 / n) AS share FROM s")
    fed.sql("INSERT INTO s VALUES (1, 5), (2, 0)")
    assert rows(fed, "SELECT rows, n FROM total") == [(2, 5)]
    with pytest.raises(midstream.Error) as caught:
        fed.sql("SELECT * FROM shares").fetchall()
    assert caught.value.sqlstate == "22012", caught.value
    fed.sql("INSERT INTO s VALUES (3, 1)")
    assert rows(fed, "SELECT rows, n FROM total") == [(3, 6)]
    fed.sql("DROP VIEW shares")
    assert rows(fed, "SELECT step, rows FROM steps") == [(1, 1), (2, 1), (3, 1)]


def test_a_sum_that_is_too_large_harms_no_other_view(db: Any) -> None:
    db.sql("CREATE STREAM s (z numeric(38, 0), b int)")
    db.sql("CREATE VIEW totals AS SELECT sum(z) AS a FROM s")
    db.sql("CREATE VIEW different AS SELECT count(DISTINCT b) AS a FROM s")
    db.sql("CREATE VIEW every AS SELECT count(*) AS a FROM s")
    db.sql(f"INSERT INTO s VALUES ({'9' * 38}, 1), ({'9' * 38}, 2)")
    assert rows(db, "SELECT * FROM every") == [(2,)]
    assert rows(db, "SELECT * FROM different") == [(2,)]
    with pytest.raises(midstream.Error) as caught:
        db.sql("SELECT * FROM totals").fetchall()
    assert caught.value.sqlstate == "22003", caught.value


@pytest.mark.parametrize(("precision", "scale"), [(38, 0), (38, 10), (38, 25), (29, 28)])
def test_a_sum_may_be_too_large_on_its_way(session: Any, precision: int, scale: int) -> None:
    session.sql(f"CREATE STREAM s (k int, z numeric({precision}, {scale}))")
    session.sql("CREATE VIEW totals AS SELECT sum(z) AS a, sum(z) FILTER (WHERE k > 1) AS b FROM s")
    most = Decimal("9" * precision).scaleb(-scale, Context(prec=50))
    session.sql(f"INSERT INTO s VALUES (1, {most:f}), (1, {most:f}), (2, NULL)")
    if precision == 38:
        with pytest.raises(midstream.DataError):
            session.sql("SELECT a FROM totals").fetchall()
    session.sql(f"INSERT INTO s VALUES (1, -{most:f}), (3, -0.5)")
    half = Decimal("-0.5") if scale else Decimal(-1)
    expected = Context(prec=50).add(most, half)
    assert session.sql("SELECT a, b FROM totals").fetchall() == [(expected, half)]


def test_a_pattern_that_cannot_be_read_harms_no_other_view(db: Any) -> None:
    db.sql("CREATE STREAM s (k int, t text, p text)")
    db.sql("CREATE VIEW liked AS SELECT k, count(*) FILTER (WHERE t LIKE p) AS a FROM s GROUP BY k")
    db.sql("CREATE VIEW every AS SELECT k, count(*) AS a FROM s GROUP BY k")
    db.sql("INSERT INTO s VALUES (3, 'x', 'x\\')")
    assert rows(db, "SELECT * FROM every") == [(3, 1)]
    with pytest.raises(midstream.DataError) as caught:
        db.sql("SELECT * FROM liked").fetchall()
    assert caught.value.sqlstate == "22025", caught.value


# Histories and lives


def test_backfill_starts_from_the_kept_history(db: Any) -> None:
    db.sql("CREATE STREAM s (k text, n int) WITH (retain = '7 days')")
    db.sql("INSERT INTO s VALUES ('a', 1), ('b', 2)")
    db.sql("INSERT INTO s VALUES ('a', 3)")
    db.sql("CREATE VIEW whole WITH (backfill = true) AS SELECT k, sum(n) AS n, count(*) AS rows FROM s GROUP BY k")
    db.sql("CREATE VIEW since AS SELECT k, sum(n) AS n, count(*) AS rows FROM s GROUP BY k")
    assert rows(db, "SELECT * FROM whole") == [("a", 4, 2), ("b", 2, 1)]
    assert rows(db, "SELECT * FROM since") == []
    db.sql("INSERT INTO s VALUES ('b', 10), ('c', 20)")
    assert rows(db, "SELECT * FROM whole") == [("a", 4, 2), ("b", 12, 2), ("c", 20, 1)]
    assert rows(db, "SELECT * FROM since") == [("b", 10, 1), ("c", 20, 1)]
    assert rows(db, "SELECT k, sum(n), count(*) FROM s GROUP BY k") == rows(db, "SELECT * FROM whole")


def test_backfill_while_the_stream_is_fed(db: Any) -> None:
    db.sql("CREATE STREAM s (step int, n int) WITH (retain = '7 days')")
    definition = "AS SELECT step, count(*) AS rows FROM s GROUP BY step"

    def feed() -> None:
        for step in range(20):
            insert_step(db, step)

    def make() -> None:
        for number in range(2):
            db.sql(f"CREATE VIEW v{number} WITH (backfill = true) {definition}")

    in_threads([feed, make])
    for number in range(2):
        assert rows(db, f"SELECT * FROM v{number}") == sorted([(step, 3) for step in range(20)], key=repr)


def test_or_replace_has_no_gap_for_readers(fed: Any) -> None:
    insert_step(fed, 1)
    fed.sql("CREATE VIEW v AS SELECT count(*) AS n FROM s")
    done = threading.Event()

    def read() -> None:
        with fed.session() as session:
            while not done.is_set():
                assert session.sql("SELECT * FROM v").fetchall() is not None

    def replace() -> None:
        try:
            for number in range(4):
                fed.sql(f"CREATE OR REPLACE VIEW v AS SELECT count(*) + {number} AS n, max(n) AS m FROM s")
                insert_step(fed, 10 + number)
        finally:
            done.set()

    in_threads([read, replace])
    assert rows(fed, "SELECT * FROM v") == [(3 + 3, 2)]


def test_dropped_views_leave_nothing_behind(fed: Any) -> None:
    insert_step(fed, 1)
    fed.sql("SELECT * FROM steps; SELECT * FROM total")
    fed.sql("CREATE VIEW v AS SELECT n, count(*) AS rows, median(step) AS m FROM s GROUP BY n")
    kept = {path for path in Path(fed.path).rglob("*") if path.is_dir()}
    insert_step(fed, 2)
    assert rows(fed, "SELECT rows FROM v") == [(1,), (1,), (1,)]
    fed.sql("DROP VIEW v")
    with pytest.raises(midstream.Error) as caught:
        fed.sql("SELECT * FROM v")
    assert caught.value.sqlstate == "42P01"
    assert rows(fed, "SELECT rows FROM total") == [(6,)]
    fed.upkeep()
    after = {path for path in Path(fed.path).rglob("*") if path.is_dir()}
    assert len(after) <= len(kept), sorted(str(path) for path in after - kept)


def test_a_view_dropped_while_rows_are_absorbed_leaves_nothing_behind(fed: Any) -> None:
    fed.sql("CREATE VIEW v AS SELECT n, count(*) AS rows, median(step) AS m FROM s GROUP BY n")
    [folder, *others] = {
        Path(reader.state.folder)
        for _, reader in fed._store.views.readers_of(fed._store.catalog.state.relations["v"].id)
    }
    with held(fed, "absorb") as jobs:
        insert_step(fed, 1)
        assert jobs.reached.wait(60)
        fed.sql("DROP VIEW v")
    assert rows(fed, "SELECT rows FROM total") == [(3,)]
    wait_for(lambda: not any(path.exists() for path in (folder, *others)))


def test_a_dropped_stream_takes_its_views_when_told_so(fed: Any) -> None:
    fed.sql("CREATE VIEW reader AS SELECT sum(rows) AS rows FROM steps")
    with pytest.raises(midstream.Error) as caught:
        fed.sql("DROP STREAM s")
    assert caught.value.sqlstate == "2BP01"
    assert "steps" in str(caught.value) and "total" in str(caught.value)
    insert_step(fed, 1)
    assert rows(fed, "SELECT rows FROM reader") == [(3,)]
    fed.sql("DROP STREAM s CASCADE")
    assert [row[0] for row in fed.sql("SHOW VIEWS").fetchall()] == []


def test_everything_is_there_after_a_restart(database: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "kept.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE STREAM s (step int, n int); CREATE TABLE t (step int, name text)")
        db.sql("INSERT INTO t VALUES (1, 'one')")
        db.sql("CREATE VIEW v AS SELECT t.name, count(*) AS rows FROM s LEFT JOIN t ON t.step = s.step GROUP BY t.name")
        db.sql("CREATE VIEW w AS SELECT sum(rows) AS rows FROM v")
        insert_step(db, 1)
        assert rows(db, "SELECT * FROM v") == [("one", 3)]
        insert_step(db, 2)
    with midstream.connect(folder) as db:
        assert rows(db, "SELECT * FROM v") == [("one", 3), (None, 3)]
        db.sql("UPDATE t SET name = 'other'")
        insert_step(db, 1)
    for _ in range(2):
        with midstream.connect(folder) as db:
            assert rows(db, "SELECT * FROM v") == [("one", 6), (None, 3)]
            assert rows(db, "SELECT * FROM w") == [(9,)]


def test_views_in_a_transaction_come_with_it_or_not_at_all(fed: Any) -> None:
    with fed.session() as session:
        session.sql("BEGIN; CREATE VIEW v AS SELECT count(*) AS n FROM s; ROLLBACK")
        insert_step(fed, 1)
        with pytest.raises(midstream.Error):
            fed.sql("SELECT * FROM v")
        session.sql("BEGIN; CREATE VIEW v AS SELECT count(*) AS n FROM s; COMMIT")
    insert_step(fed, 2)
    assert rows(fed, "SELECT n FROM v") == [(3,)]


# Seeing


def test_show_describe_and_explain_tell_of_views(fed: Any) -> None:
    fed.sql("CREATE TABLE names (step int, name text)")
    made = fed.sql(
        "CREATE VIEW named AS SELECT t.name, count(*) AS n FROM s JOIN names t ON t.step = s.step GROUP BY 1"
    )
    fed.sql("INSERT INTO names VALUES (1, 'late')")
    insert_step(fed, 1)
    assert {row[0] for row in fed.sql("SHOW VIEWS").fetchall()} == {"steps", "total", "named"}
    assert [row[:2] for row in fed.sql("DESCRIBE named").fetchall()][:2] == [("name", "text"), ("n", "bigint")]
    for statement in ("EXPLAIN VIEW named", "DESCRIBE named"):
        result = fed.sql(statement)
        told = "\n".join([*(" ".join(map(str, row)) for row in result.fetchall()), *result.notices])
        assert "names" in told, told
        assert {str(made.scn), str(made.scn - 1)} & set(re.findall(r"\d+", told)), told
    explained = "\n".join(str(row[0]) for row in fed.sql("EXPLAIN VIEW steps").fetchall())
    assert "GROUP BY" in explained.upper()
    assert "s" in explained
    before = {row[0] for row in fed.sql("SHOW VIEWS").fetchall()}
    planned = "\n".join(str(row[0]) for row in fed.sql("EXPLAIN CREATE VIEW x AS SELECT max(n) AS n FROM s").fetchall())
    assert "max" in planned.lower()
    assert {row[0] for row in fed.sql("SHOW VIEWS").fetchall()} == before
