"""Continuous queries through the Python interface: what is handed out, when, and in which state.

That changes are right for every shape of query is in `tests/laws/test_changes.py`; here are the statements one by one.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import fault, refuses, rows, wait_for
from banking import NEGATIVE, PERSONS, WITH_KIND, changes_of, dequeued, heard_from, pay, state_of

# The changes themselves


def test_rows_enter_change_and_leave_the_result(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance") as feed:
        scns = [pay(bank, (1, -5)), pay(bank, (1, -3), (2, 4)), pay(bank, (1, 20))]
        heard = heard_from(feed, 3)
    assert [change.scn for change in heard] == scns
    assert [change.kind for change in heard] == ["I", "U", "D"]
    assert [change.row for change in heard] == [
        {"acct": 1, "amt": -5},
        {"acct": 1, "amt": -8},
        {"acct": 1, "amt": -8},
    ]
    assert [change.old for change in heard] == [None, {"acct": 1, "amt": -5}, {"acct": 1, "amt": -8}]


def test_without_a_key_an_update_is_a_delete_and_an_insert(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 13 WHERE id = 1")
        heard = changes_of(feed, 2)
    assert sorted(heard) == [("D", (1, "Ann", 12), (1, "Ann", 12)), ("I", (1, "Ann", 13), None)]


def test_a_change_of_the_key_is_a_delete_and_an_insert(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET id = 7 WHERE id = 1")
        heard = changes_of(feed, 2)
    assert sorted(heard) == [("D", (1, "Ann", 12), (1, "Ann", 12)), ("I", (7, "Ann", 12), None)]


def test_a_key_that_moves_to_another_row_is_an_update(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("BEGIN; DELETE FROM users WHERE id = 1; INSERT INTO users VALUES (1, 'Eve', 'east', 9); COMMIT")
        heard = changes_of(feed, 1)
    assert heard == [("U", (1, "Eve", 9), (1, "Ann", 12))]


def test_a_change_of_what_the_query_does_not_show_is_none(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS {PERSONS}")
    with bank.subscribe("young") as feed:
        scn = bank.sql("UPDATE users SET region = 'west'").scn
        bank.wait("young", scn)
        assert feed.poll(timeout=0.2) == []


def test_equal_rows_count(bank: Any) -> None:
    bank.sql("CREATE CONTINUOUS QUERY amounts COMPUTE ON COMMIT AS SELECT amt FROM banking_transactions")
    with bank.subscribe("amounts") as feed:
        pay(bank, (1, 5), (2, 5), (3, 5))
        assert changes_of(feed, 3) == [("I", (5,), None)] * 3
        bank.sql("DELETE FROM banking_transactions WHERE acct < 3")
        assert changes_of(feed, 2) == [("D", (5,), (5,))] * 2


def test_a_transaction_that_comes_to_nothing_changes_nothing(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("BEGIN; UPDATE users SET age = 1 WHERE id = 2; ROLLBACK")
        bank.sql("BEGIN; UPDATE users SET age = 1 WHERE id = 2; UPDATE users SET age = 30 WHERE id = 2; COMMIT")
        scn = bank.sql("INSERT INTO users VALUES (3, 'Cid', 'east', 40)").scn
        bank.wait("young", scn)
        assert feed.poll(timeout=0.2) == []


def test_all_tables_of_one_commit_are_one_output(bank: Any) -> None:
    bank.sql("CREATE TABLE orders (oid bigint PRIMARY KEY, uid bigint REFERENCES users (id) ON DELETE CASCADE)")
    bank.sql(
        "CREATE CONTINUOUS QUERY ordered PRIMARY KEY (oid) COMPUTE ON COMMIT AS "
        "SELECT o.oid, u.name FROM orders o, users u WHERE u.id = o.uid"
    )
    with bank.subscribe("ordered") as feed:
        with bank.session() as session:
            session.sql("BEGIN; INSERT INTO users VALUES (5, 'Dan', 'north', 17)")
            session.sql("INSERT INTO orders VALUES (50, 5), (51, 5), (10, 1)")
            session.sql("UPDATE users SET name = 'Anna' WHERE id = 1")
            scn = session.sql("COMMIT").scn
        heard = heard_from(feed, 3)
        assert {change.scn for change in heard} == {scn}
        assert sorted(tuple(c.row.values()) for c in heard) == [(10, "Anna"), (50, "Dan"), (51, "Dan")]
        bank.sql("DELETE FROM users WHERE id = 5")
        assert sorted(changes_of(feed, 2)) == [("D", (50, "Dan"), (50, "Dan")), ("D", (51, "Dan"), (51, "Dan"))]


def test_on_commit_is_commit_by_commit_also_when_it_lags(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance") as feed:
        scns = [pay(bank, (1, -1)) for _ in range(12)]
        heard = heard_from(feed, 12)
    assert [change.scn for change in heard] == scns
    assert [change.row["amt"] for change in heard] == [-n for n in range(1, 13)]


def test_only_the_kinds_that_are_wanted_are_handed_out(bank: Any, called: list[Any]) -> None:
    bank.sql("CREATE TABLE overdrawn (acct bigint, amt bigint, kind text, was bigint)")
    for name, destination in (("to_table", "overdrawn"), ("to_queue", "QUEUE q")):
        bank.sql(
            f"CREATE CONTINUOUS QUERY {name} PRIMARY KEY (acct) COMPUTE ON COMMIT DESTINATION {destination} "
            f"WITH (kinds = 'I, U') AS {WITH_KIND}"
        )
    bank.sql("CREATE TRIGGER warn ON to_queue FOR EACH ROW EXECUTE 'listeners:note'")
    assert dequeued(bank, "one") == []
    with bank.subscribe("to_table") as feed:
        pay(bank, (1, -5))
        pay(bank, (1, -3), (2, -1))
        scn = pay(bank, (1, 20), (2, 20), (3, -1))
        for name in ("to_table", "to_queue"):
            bank.wait(name, scn)
        wanted = [(1, -5, "I", None), (1, -8, "U", -5), (2, -1, "I", None), (3, -1, "I", None)]
        assert sorted((tuple(change.row.values()) for change in feed.poll()), key=repr) == wanted
    assert rows(bank, "SELECT * FROM overdrawn") == wanted
    assert sorted(dequeued(bank, "one"), key=repr) == wanted
    wait_for(lambda: len(called) >= 4)
    assert sorted((tuple(change.row.values()) for change in called), key=repr) == wanted
    refuses(bank, f"CREATE CONTINUOUS QUERY odd COMPUTE ON COMMIT WITH (kinds = 'I, X') AS {NEGATIVE}", "kinds")


# Subscribers


def test_rows_that_are_there_at_creation_are_not_handed_out(bank: Any) -> None:
    pay(bank, (1, -5))
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance") as feed:
        pay(bank, (2, -1))
        assert changes_of(feed, 1) == [("I", (2, -1), None)]


def test_a_subscriber_may_have_a_snapshot_first(bank: Any) -> None:
    pay(bank, (1, -5), (2, -6))
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance", snapshot=True) as feed:
        assert sorted(changes_of(feed, 2)) == [("I", (1, -5), None), ("I", (2, -6), None)]
        pay(bank, (1, 10), (2, -1))
        assert sorted(changes_of(feed, 2)) == [("D", (1, -5), (1, -5)), ("U", (2, -7), (2, -6))]


def test_a_subscriber_goes_on_from_an_scn(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    first, second, third = pay(bank, (1, -1)), pay(bank, (2, -2)), pay(bank, (3, -3))
    bank.wait("negative_balance", third)
    with bank.subscribe("negative_balance", after=first) as feed:
        assert [change.scn for change in heard_from(feed, 2)] == [second, third]
    with bank.subscribe("negative_balance", after=third) as feed:
        fourth = pay(bank, (4, -4))
        assert [change.scn for change in heard_from(feed, 1)] == [fourth]


def test_a_subscription_can_be_iterated(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance") as feed:
        pay(bank, (1, -1))
        pay(bank, (2, -2))
        heard = iter(feed)
        assert [next(heard).row["acct"], next(heard).row["acct"]] == [1, 2]


def test_polling_waits_no_longer_than_it_was_told(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance") as feed:
        began = time.monotonic()
        assert feed.poll(timeout=0.3) == []
        assert 0.2 < time.monotonic() - began < 10


def test_subscribers_do_not_take_from_each_other(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT AS {NEGATIVE}")
    with bank.subscribe("negative_balance") as one, bank.subscribe("negative_balance") as two:
        pay(bank, (1, -1))
        assert changes_of(one, 1) == changes_of(two, 1) == [("I", (1, -1), None)]


def test_a_subscription_can_be_closed_twice_and_after_its_database(database: Any, tmp_path: Path) -> None:
    with midstream.connect(str(tmp_path / "closed.db")) as db:
        db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
        db.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT AS {NEGATIVE}")
        feed = db.subscribe("negative_balance")
    fault(lambda: db.subscribe("negative_balance"))
    feed.close()
    feed.close()


def test_nothing_can_be_subscribed_that_is_not_there(bank: Any) -> None:
    assert "nobody" in str(fault(lambda: bank.subscribe("nobody")))
    assert "nobody" in str(fault(lambda: bank.wait("nobody", 1)))


@pytest.mark.parametrize("scn", ["x", 1.5, True])
def test_an_scn_is_a_whole_number(bank: Any, scn: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    for work in (lambda: bank.subscribe("young", after=scn), lambda: bank.wait("young", scn)):
        assert f"an SCN is a whole number, not {scn!r}" in str(fault(work))
    assert "not None" in str(fault(lambda: bank.wait("young", None)))


def test_waiting_returns_when_it_was_computed(bank: Any) -> None:
    bank.sql("CREATE TABLE overdrawn (acct bigint, amt bigint)")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION overdrawn AS {NEGATIVE}")
    for n in range(1, 4):
        bank.wait("negative_balance", pay(bank, (n, -n)))
        assert len(rows(bank, "SELECT * FROM overdrawn")) == n


# When it is computed


def test_on_demand_waits_for_the_call_and_gives_the_net_change(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE BATCHED ON DEMAND AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 13 WHERE id = 1")
        bank.sql("INSERT INTO users VALUES (3, 'Cid', 'east', 5)")
        bank.sql("DELETE FROM users WHERE id = 3")
        scn = bank.sql("UPDATE users SET age = 14 WHERE id = 1").scn
        assert feed.poll(timeout=0.3) == []
        [(reached,)] = bank.sql("SELECT cq_recompute('young')").fetchall()
        assert reached >= scn
        assert changes_of(feed, 1) == [("U", (1, "Ann", 14), (1, "Ann", 12))]
        bank.sql("SELECT cq_recompute('young')").fetchall()
        assert feed.poll(timeout=0.2) == []


def test_on_demand_is_batched_if_nothing_is_said(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON DEMAND AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 13 WHERE id = 1")
        bank.sql("UPDATE users SET age = 12 WHERE id = 1")
        bank.sql("SELECT cq_recompute('young')").fetchall()
        assert feed.poll(timeout=0.2) == []


@pytest.mark.parametrize("words", ["TRANSACTIONAL DELTA ON DEMAND", "TRANSACTIONAL ON DEMAND"])
def test_transactional_is_commit_by_commit(bank: Any, words: str) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE {words} AS {PERSONS}")
    with bank.subscribe("young") as feed:
        scns = [bank.sql(f"UPDATE users SET age = {age} WHERE id = 1").scn for age in (13, 14, 12)]
        assert feed.poll(timeout=0.3) == []
        bank.sql("SELECT cq_recompute('young')").fetchall()
        heard = heard_from(feed, 3)
    assert [change.scn for change in heard] == scns
    assert [(change.old["age"], change.row["age"]) for change in heard] == [(12, 13), (13, 14), (14, 12)]


def test_a_periodic_query_computes_by_itself(bank: Any) -> None:
    bank.sql(
        "CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE BATCHED START WITH '2020-01-01' PERIOD 1 SECOND AS "
        f"{PERSONS}"
    )
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 13 WHERE id = 1")
        assert changes_of(feed, 1) == [("U", (1, "Ann", 13), (1, "Ann", 12))]


def test_a_periodic_query_does_not_begin_before_its_time_unless_it_is_asked(bank: Any) -> None:
    bank.sql(
        "CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE TRANSACTIONAL DELTA "
        f"START WITH '2099-01-01' PERIOD 1 HOUR AS {PERSONS}"
    )
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 13 WHERE id = 1")
        bank.sql("UPDATE users SET age = 14 WHERE id = 1")
        assert feed.poll(timeout=1.5) == []
        bank.sql("SELECT cq_recompute('young')").fetchall()
        assert [change[1][2] for change in changes_of(feed, 2)] == [13, 14]


def test_compute_can_be_altered(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS {PERSONS}")
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 13 WHERE id = 1")
        assert len(changes_of(feed, 1)) == 1
        bank.sql("ALTER CONTINUOUS QUERY young COMPUTE BATCHED ON DEMAND")
        bank.sql("UPDATE users SET age = 14 WHERE id = 1")
        bank.sql("UPDATE users SET age = 15 WHERE id = 1")
        assert feed.poll(timeout=0.3) == []
        bank.sql("SELECT cq_recompute('young')").fetchall()
        assert changes_of(feed, 1) == [("U", (1, "Ann", 15), (1, "Ann", 13))]
        bank.sql("ALTER CONTINUOUS QUERY young COMPUTE ON COMMIT")
        bank.sql("UPDATE users SET age = 16 WHERE id = 1")
        assert changes_of(feed, 1) == [("U", (1, "Ann", 16), (1, "Ann", 15))]


def test_only_what_computes_on_demand_can_be_recomputed(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    refuses(bank, "SELECT cq_recompute('young')", "young")
    refuses(bank, "SELECT cq_recompute('nobody')", "nobody")
    refuses(bank, "SELECT cq_recompute('users')", "users")


# States


def test_a_suspended_query_remembers_and_catches_up_commit_by_commit(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    assert state_of(bank, "negative_balance") == "ACTIVE"
    with bank.subscribe("negative_balance") as feed:
        bank.sql("ALTER CONTINUOUS QUERY negative_balance SUSPEND")
        assert state_of(bank, "negative_balance") == "SUSPENDED"
        scns = [pay(bank, (1, -1)), pay(bank, (1, -1)), pay(bank, (1, 2))]
        assert feed.poll(timeout=0.5) == []
        bank.sql("ALTER CONTINUOUS QUERY negative_balance ACTIVATE")
        assert state_of(bank, "negative_balance") == "ACTIVE"
        heard = heard_from(feed, 3)
    assert [change.scn for change in heard] == scns
    assert [change.kind for change in heard] == ["I", "U", "D"]


def test_an_inactive_query_remembers_nothing(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    bank.sql("ALTER CONTINUOUS QUERY negative_balance DEACTIVATE")
    assert state_of(bank, "negative_balance") == "INACTIVE"
    pay(bank, (1, -1))
    bank.sql("ALTER CONTINUOUS QUERY negative_balance ACTIVATE")
    with bank.subscribe("negative_balance") as feed:
        pay(bank, (1, -1), (2, -1))
        assert sorted(changes_of(feed, 2)) == [("I", (2, -1), None), ("U", (1, -2), (1, -1))]


def test_states_last_over_a_restart(database: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "states.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
        for name in ("working", "suspended", "inactive"):
            db.sql(f"CREATE CONTINUOUS QUERY {name} COMPUTE ON COMMIT AS {NEGATIVE}")
        db.sql("ALTER CONTINUOUS QUERY suspended SUSPEND; ALTER CONTINUOUS QUERY inactive DEACTIVATE")
        first = pay(db, (1, -1))
    with midstream.connect(folder) as db:
        states = [state_of(db, name) for name in ("working", "suspended", "inactive")]
        assert states == ["ACTIVE", "SUSPENDED", "INACTIVE"]
        second = pay(db, (2, -1))
        db.sql("ALTER CONTINUOUS QUERY suspended ACTIVATE; ALTER CONTINUOUS QUERY inactive ACTIVATE")
        third = pay(db, (3, -1))
        for name, scns in [("working", [first, second, third]), ("suspended", [first, second, third])]:
            with db.subscribe(name, after=first - 1) as feed:
                assert [change.scn for change in heard_from(feed, 3)] == scns
        db.wait("inactive", third)
        with db.subscribe("inactive", after=second) as feed:
            assert [change.scn for change in heard_from(feed, 1)] == [third]


def test_unknown_queries_cannot_be_altered_or_dropped(bank: Any) -> None:
    for statement in ("ALTER CONTINUOUS QUERY nobody SUSPEND", "DROP CONTINUOUS QUERY nobody"):
        refuses(bank, statement, "nobody")
    bank.sql("DROP CONTINUOUS QUERY IF EXISTS nobody")


def test_a_dropped_query_is_gone(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    bank.sql("DROP CONTINUOUS QUERY young")
    assert bank.sql("SHOW CONTINUOUS QUERIES").fetchall() == []
    bank.sql("UPDATE users SET age = 13 WHERE id = 1")
    fault(lambda: bank.subscribe("young"))
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")


def test_what_a_query_reads_is_not_dropped_under_it(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young COMPUTE ON COMMIT AS {PERSONS}")
    refuses(bank, "DROP TABLE users", "young")
    bank.sql("DROP TABLE users CASCADE")
    assert bank.sql("SHOW CONTINUOUS QUERIES").fetchall() == []


def test_a_destination_is_not_dropped_under_its_query(bank: Any) -> None:
    bank.sql("CREATE TABLE overdrawn (acct bigint, amt bigint)")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION overdrawn AS {NEGATIVE}")
    refuses(bank, "DROP TABLE overdrawn", "negative_balance")


def test_show_and_describe_tell_of_queries(bank: Any) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS {PERSONS}")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON DEMAND AS {NEGATIVE}")
    assert [row[0] for row in rows(bank, "SHOW CONTINUOUS QUERIES")] == ["negative_balance", "young"]
    described = bank.sql("DESCRIBE young").fetchall()
    assert [row[:2] for row in described][:3] == [("id", "bigint"), ("name", "text"), ("age", "int")]


# In the transaction that makes what they read


def test_a_query_may_be_made_together_with_the_tables_that_it_reads(bank: Any) -> None:
    with bank.session() as session:
        session.sql("BEGIN")
        session.sql("CREATE TABLE born (a int); INSERT INTO born VALUES (1); CREATE VIEW shown AS SELECT a FROM born")
        session.sql("CREATE CONTINUOUS QUERY news COMPUTE ON COMMIT AS SELECT a FROM shown")
        session.sql("INSERT INTO born VALUES (2)")
        session.sql("COMMIT")
    with bank.subscribe("news", snapshot=True) as feed:
        assert sorted(change.row["a"] for change in feed.poll()) == [1, 2]
        bank.wait("news", bank.sql("INSERT INTO born VALUES (3)").scn)
        assert [(change.kind, change.row["a"]) for change in feed.poll()] == [("I", 3)]


@pytest.mark.parametrize(
    "statements",
    [
        "CREATE STREAM fresh (id int); CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT id FROM fresh",
        "CREATE STREAM fresh (id int); CREATE VIEW v AS SELECT count(*) AS n FROM fresh",
        "CREATE TABLE fresh (id int); CREATE CONTINUOUS QUERY q AS SELECT id FROM fresh JOIN mu USING (id)",
        "CREATE VIEW fresh AS SELECT id FROM mu; CREATE CONTINUOUS QUERY q COMPUTE ON COMMIT AS SELECT id FROM fresh",
        "CREATE VIEW fresh AS SELECT count(*) AS n FROM s; CREATE CONTINUOUS QUERY q AS SELECT n FROM fresh",
    ],
)
def test_what_begins_with_something_that_a_transaction_makes_is_refused_in_it(bank: Any, statements: str) -> None:
    bank.sql("CREATE STREAM s (a int); CREATE MATERIALIZED VIEW mu AS SELECT id FROM users")
    first, last = statements.split(";")
    with bank.session() as session:
        session.sql("BEGIN")
        session.sql(first)
        error = fault(lambda: session.sql(last.strip()))
        assert "can be made after COMMIT" in error.message
        assert error.position == (1, last.strip().index("fresh") + 1)
        session.sql("ROLLBACK")
    for statement in statements.split(";"):
        bank.sql(statement)
