"""Continuous queries that are refused, and those that stop because a key does not hold."""

from __future__ import annotations

from typing import Any

import pytest

import midstream
from asking import fault, refusal, refuses, rows
from banking import PERSONS, changes_of, heard_from, state_of

# A key that does not hold


def test_a_key_that_is_not_unique_suspends_the_query_and_nothing_is_lost(bank: Any) -> None:
    bank.sql(
        "CREATE CONTINUOUS QUERY regions PRIMARY KEY (region) COMPUTE BATCHED ON DEMAND "
        "AS SELECT region, name FROM users"
    )
    with bank.subscribe("regions") as feed:
        bank.sql("INSERT INTO users VALUES (3, 'Cid', 'north', 5), (4, 'Dan', 'west', 6)")
        assert "region" in str(fault(lambda: bank.sql("SELECT cq_recompute('regions')").fetchall()))
        assert state_of(bank, "regions") == "SUSPENDED"
        bank.sql("DELETE FROM users WHERE id = 3")
        bank.sql("ALTER CONTINUOUS QUERY regions ACTIVATE")
        bank.sql("SELECT cq_recompute('regions')").fetchall()
        assert changes_of(feed, 1) == [("I", ("west", "Dan"), None)]


def test_a_key_that_did_not_hold_for_a_commit_suspends_a_query_that_goes_commit_by_commit(session: Any) -> None:
    session.sql("CREATE TABLE k (id int PRIMARY KEY, a int, v int); INSERT INTO k VALUES (1, 1, 10)")
    for number, words in enumerate(("TRANSACTIONAL ON DEMAND", "BATCHED ON DEMAND")):
        session.sql(f"CREATE CONTINUOUS QUERY q{number} PRIMARY KEY (a) COMPUTE {words} AS SELECT a, v FROM k")
    session.sql("INSERT INTO k VALUES (2, 1, 20)")
    session.sql("DELETE FROM k WHERE id = 1")
    error = fault(lambda: session.sql("SELECT cq_recompute('q0')"))
    assert error.sqlstate == "23505"
    assert "Key (a)=(1) belongs to more than one row" in str(error)
    session.sql("SELECT cq_recompute('q1')")
    assert [state_of(session, name) for name in ("q0", "q1")] == ["SUSPENDED", "ACTIVE"]


def test_a_key_may_come_go_and_come_again(session: Any) -> None:
    session.sql("CREATE TABLE k (id int PRIMARY KEY, a int, v int); INSERT INTO k VALUES (1, 1, 10)")
    session.sql("CREATE CONTINUOUS QUERY q PRIMARY KEY (a) COMPUTE TRANSACTIONAL ON DEMAND AS SELECT a, v FROM k")
    for statement in (
        "DELETE FROM k",
        "INSERT INTO k VALUES (2, 1, 10)",
        "UPDATE k SET v = 11",
        "DELETE FROM k",
        "INSERT INTO k VALUES (3, 1, 12), (4, 2, 10)",
        "DELETE FROM k WHERE a = 2",
    ):
        session.sql(statement)
    session.sql("SELECT cq_recompute('q')")
    assert state_of(session, "q") == "ACTIVE"
    # The same row once more, and one of the two goes: it was there twice for a commit.
    session.sql("INSERT INTO k VALUES (5, 1, 12)")
    session.sql("DELETE FROM k WHERE id = 3")
    assert fault(lambda: session.sql("SELECT cq_recompute('q')")).sqlstate == "23505"


def test_a_key_that_is_null_suspends_the_query(bank: Any) -> None:
    bank.sql(
        "CREATE CONTINUOUS QUERY regions PRIMARY KEY (region) COMPUTE BATCHED ON DEMAND "
        "AS SELECT region, name FROM users"
    )
    bank.sql("INSERT INTO users VALUES (3, 'Cid', NULL, 5)")
    assert "region" in str(fault(lambda: bank.sql("SELECT cq_recompute('regions')").fetchall()))
    assert state_of(bank, "regions") == "SUSPENDED"


def test_on_commit_a_broken_key_is_told_to_those_who_wait(bank: Any) -> None:
    bank.sql("CREATE CONTINUOUS QUERY regions PRIMARY KEY (region) COMPUTE ON COMMIT AS SELECT region, name FROM users")
    scn = bank.sql("INSERT INTO users VALUES (3, 'Cid', 'north', 5)").scn
    assert "region" in str(fault(lambda: bank.wait("regions", scn)))
    assert state_of(bank, "regions") == "SUSPENDED"
    assert "region" in repr(bank.sql("SHOW CONTINUOUS QUERIES").fetchall())


def test_a_commit_that_cannot_be_computed_is_taken_with_those_that_mend_it(bank: Any) -> None:
    bank.sql("CREATE TABLE parts (id int, of_all int)")
    bank.sql("CREATE CONTINUOUS QUERY shares COMPUTE ON COMMIT AS SELECT id, 100 / of_all AS share FROM parts")
    with bank.subscribe("shares") as feed:
        scn = bank.sql("INSERT INTO parts VALUES (1, 0)").scn
        error = fault(lambda: bank.wait("shares", scn))
        assert "division by zero" in str(error)
        assert "this commit stays as it was" in str(error.hint)
        assert "COMPUTE BATCHED ON DEMAND" in str(error.hint)
        bank.sql("UPDATE parts SET of_all = 4")
        bank.sql("ALTER CONTINUOUS QUERY shares ACTIVATE")
        assert "division by zero" in str(fault(lambda: bank.wait("shares", scn)))
        bank.sql("ALTER CONTINUOUS QUERY shares COMPUTE BATCHED ON DEMAND")
        bank.sql("ALTER CONTINUOUS QUERY shares ACTIVATE; SELECT cq_recompute('shares')")
        assert changes_of(feed, 1) == [("I", (1, 25), None)]


def test_what_can_be_mended_is_said_to_go_on(bank: Any) -> None:
    bank.sql("CREATE TABLE kept (id bigint, name varchar(3))")
    bank.sql("CREATE CONTINUOUS QUERY names COMPUTE ON COMMIT DESTINATION kept AS SELECT id, name FROM users")
    scn = bank.sql("INSERT INTO users VALUES (3, 'Cecily', 'north', 5)").scn
    error = fault(lambda: bank.wait("names", scn))
    assert error.hint == "ALTER CONTINUOUS QUERY names ACTIVATE goes on from there, once the cause is mended."
    bank.sql("ALTER CONTINUOUS QUERY names SUSPEND")
    error = fault(lambda: bank.wait("names", scn))
    assert error.hint == "ALTER CONTINUOUS QUERY names ACTIVATE goes on from there."


def test_a_key_that_does_not_hold_at_first_is_refused(bank: Any) -> None:
    bank.sql("INSERT INTO users VALUES (3, 'Cid', 'north', 5)")
    create = "CREATE CONTINUOUS QUERY regions PRIMARY KEY (region) COMPUTE ON COMMIT AS SELECT region, name FROM users"
    refuses(bank, create, "Key (region)=(north) belongs to more than one row")
    bank.sql("UPDATE users SET region = NULL WHERE id = 3")
    refuses(bank, create, "has a NULL")
    bank.sql("DELETE FROM users WHERE id = 3")
    bank.sql(create)


def test_a_query_stops_when_a_view_that_it_reads_is_replaced_and_begins_anew(bank: Any) -> None:
    bank.sql("CREATE VIEW minors AS SELECT id, name FROM users WHERE age < 18")
    bank.sql("CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS SELECT id, name FROM minors")
    bank.sql("CREATE MATERIALIZED VIEW stored AS SELECT id, name FROM minors")
    scn = bank.sql("CREATE OR REPLACE VIEW minors AS SELECT id, name FROM users WHERE age < 40").scn
    error = fault(lambda: bank.wait("young", scn))
    assert "was replaced" in str(error)
    assert error.hint == "DEACTIVATE and ACTIVATE it: it then begins anew."
    scn = bank.sql("UPDATE users SET name = 'Anna' WHERE id = 1").scn
    assert "was replaced" in str(fault(lambda: bank.wait("young", scn)))
    assert state_of(bank, "young") == "SUSPENDED"
    assert rows(bank, "SELECT * FROM stored") == [(1, "Anna"), (2, "Bob")]
    bank.sql("ALTER CONTINUOUS QUERY young DEACTIVATE; ALTER CONTINUOUS QUERY young ACTIVATE")
    with bank.subscribe("young", snapshot=True) as feed:
        assert sorted(changes_of(feed, 2)) == [("I", (1, "Anna"), None), ("I", (2, "Bob"), None)]
        bank.sql("UPDATE users SET age = 50 WHERE id = 2")
        assert changes_of(feed, 1) == [("D", (2, "Bob"), (2, "Bob"))]


# What is refused


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT id FROM users ORDER BY id LIMIT 1", "LIMIT"),
        ("SELECT max(age) AS age FROM users", "max"),
        ("SELECT region, age, count(*) AS n FROM users GROUP BY ROLLUP (region, age)", "ROLLUP"),
    ],
)
def test_what_is_not_kept_by_changes_is_refused_if_it_must_be(bank: Any, query: str, reason: str) -> None:
    create = "CREATE CONTINUOUS QUERY q1 COMPUTE ON COMMIT {} AS " + query
    error = refuses(bank, create.format("WITH (refresh = 'incremental')"), "cannot be kept by changes alone")
    assert error.detail
    assert any("computed before and after" in notice for notice in bank.sql(create.format("")).notices)


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        (f"CREATE CONTINUOUS QUERY q PRIMARY KEY (nothing) COMPUTE ON COMMIT AS {PERSONS}", "nothing"),
        (f"CREATE CONTINUOUS QUERY q PRIMARY KEY (region) COMPUTE ON COMMIT AS {PERSONS}", "region"),
        ("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT nothing FROM users", "nothing"),
        ("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT id FROM nowhere", "nowhere"),
        ("CREATE CONTINUOUS QUERY users COMPUTE ON COMMIT AS SELECT id FROM users", "users"),
        ("CREATE CONTINUOUS QUERY q COMPUTE SOMETIMES AS SELECT id FROM users", "SOMETIMES"),
        ("CREATE CONTINUOUS QUERY q COMPUTE START WITH 'soon' PERIOD 1 HOUR AS SELECT id FROM users", "soon"),
        ("CREATE CONTINUOUS QUERY q COMPUTE START WITH '2027-01-01' PERIOD 0 HOURS AS SELECT id FROM users", ""),
        ("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT id, id FROM users", "id"),
        ("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT id, cq_old_value(nothing) AS o FROM users", "nothing"),
        ("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT id FROM users WHERE cq_delta() = 'I'", "cq_delta"),
        (
            "CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS "
            "SELECT id FROM (SELECT id, cq_delta() AS d FROM users) AS u",
            "cq_delta",
        ),
        ("CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS DELETE FROM users", ""),
        ("SELECT id, cq_delta() AS kind FROM users", "cq_delta"),
        ("SELECT id, cq_old_value(id) AS was FROM users", "cq_old_value"),
        ("CREATE MATERIALIZED VIEW v AS SELECT id, cq_delta() AS kind FROM users", "cq_delta"),
    ],
)
def test_what_means_nothing_is_refused(bank: Any, statement: str, word: str) -> None:
    assert refuses(bank, statement, word).sqlstate


def test_a_name_is_taken_once(bank: Any) -> None:
    create = f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}"
    bank.sql(create)
    assert refuses(bank, create, "young").sqlstate == "42P07"
    assert refuses(bank, "CREATE TABLE young (a int)", "young").sqlstate == "42P07"


def test_a_continuous_query_is_not_read_or_written_like_a_table(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    refuses(bank, "SELECT * FROM young", "young")
    refuses(bank, "INSERT INTO young VALUES (1, 'x', 2)", "young")
    refuses(bank, "DROP TABLE young", "young")


def test_names_in_quotes_stay_as_they_are(bank: Any) -> None:
    bank.sql('CREATE TABLE "To Do" ("Id" int, "kind" text)')
    bank.sql(
        'CREATE CONTINUOUS QUERY "New Ones" PRIMARY KEY ("Id") COMPUTE ON COMMIT AS SELECT "Id", "kind" FROM "To Do"'
    )
    with bank.subscribe("New Ones") as feed:
        bank.sql("INSERT INTO \"To Do\" VALUES (1, 'a')")
        [change] = heard_from(feed, 1)
    assert change.row == {"Id": 1, "kind": "a"}


# What Spark cannot compute


ELDERS = "SELECT id, (SELECT count(*) FROM users AS other WHERE other.age >= users.age) AS place FROM users"


@pytest.mark.parametrize("kind", ["CONTINUOUS QUERY", "MATERIALIZED VIEW"])
def test_what_changes_in_a_query_and_spark_cannot_compute_is_refused_when_spark_must(bank: Any, kind: str) -> None:
    bank.sql("SET kernel = 'spark'")
    assert rows(bank, f"{ELDERS} ORDER BY id") == [(1, 2), (2, 1)], "it can answer the query"
    said = refusal(bank, f"CREATE {kind} elders AS {ELDERS}")
    assert isinstance(said, midstream.Unsupported)
    assert "more than equalities" in str(said.detail) and "auto" in str(said.hint)
    bank.sql(f"SET kernel = 'auto'; CREATE {kind} elders AS {ELDERS}")
    bank.wait("elders", bank.sql("INSERT INTO users VALUES (3, 'Cy', 'west', 20)").scn)
    bank.sql(f"DROP {kind} elders")


def test_a_scalar_query_beside_aggregates_is_refused_by_spark_with_a_reason(bank: Any) -> None:
    query = (
        "SELECT region, count(*), (SELECT max(age) FROM users AS o WHERE o.region = u.region) FROM users u GROUP BY 1"
    )
    bank.sql("SET kernel = 'spark'")
    assert "beside aggregates" in str(refusal(bank, query).detail)
    bank.sql("SET kernel = 'auto'")
    assert sorted(rows(bank, query)) == [("north", 1, 12), ("south", 1, 30)]


def test_a_scalar_query_in_the_condition_of_a_join_is_refused_by_spark_with_a_reason(session: Any, kernel: str) -> None:
    session.sql("CREATE TABLE t (g int, k int); INSERT INTO t VALUES (1, 1), (2, 1)")
    query = "SELECT x.g, y.k FROM t AS x JOIN t AS y ON x.g = y.g AND 1 < (SELECT max(z.g) FROM t AS z WHERE z.k = x.g)"
    if kernel == "duckdb":
        assert rows(session, query) == [(1, 1)]
    else:
        assert "in the condition of a join" in str(fault(lambda: session.sql(query).fetchall()))


@pytest.mark.parametrize("kind", ["CONTINUOUS QUERY", "MATERIALIZED VIEW"])
def test_late_rows_have_no_changes_to_keep_anything_by(session: Any, kind: str) -> None:
    session.sql("CREATE STREAM readings (at timestamp, value int) WITH (timestamp = 'at')")
    session.sql("CREATE VIEW late AS SELECT value FROM late_readings")
    error = refuses(session, f"CREATE {kind} kept AS SELECT value FROM late_readings", 'late rows of "readings"')
    assert error.position is not None and error.sqlstate == "0A000"
    refuses(session, f"CREATE {kind} kept AS SELECT value FROM late", 'late rows of "readings"')
