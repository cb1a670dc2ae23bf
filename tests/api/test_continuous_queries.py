"""Continuous queries through the Python interface: what is handed out, when, to whom, in which state; what is refused.

That changes are right for every shape of query is in `tests/laws/test_changes.py`; here are the statements one by one.
"""

from __future__ import annotations

import sys
import time
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import fault, refusal, rows

NEGATIVE = "SELECT acct, sum(amt) AS amt FROM banking_transactions GROUP BY acct HAVING sum(amt) < 0"
WITH_KIND = (
    "SELECT acct, sum(amt) AS amt, cq_delta() AS kind, cq_old_value(amt) AS was "
    "FROM banking_transactions GROUP BY acct HAVING sum(amt) < 0"
)
PERSONS = "SELECT id, name, age FROM users WHERE age < 18"
PATIENCE = 30.0


@pytest.fixture
def bank(db: Any) -> Any:
    """The tables of the examples."""
    db.sql("DROP QUEUE IF EXISTS q")
    db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
    db.sql("CREATE TABLE users (id bigint PRIMARY KEY, name text NOT NULL, region text, age int)")
    db.sql("INSERT INTO users VALUES (1, 'Ann', 'north', 12), (2, 'Bob', 'south', 30)")
    return db


def pay(db: Any, *payments: tuple[int, int]) -> int:
    """One commit; its SCN."""
    return int(db.sql("INSERT INTO banking_transactions VALUES " + ", ".join(map(str, payments))).scn)


def changes_of(feed: Any, least: int) -> list[tuple[Any, ...]]:
    """What comes, at least so many changes: kind, row and old as tuples."""
    heard = heard_from(feed, least)
    return [(c.kind, tuple(c.row.values()), None if c.old is None else tuple(c.old.values())) for c in heard]


def heard_from(feed: Any, least: int) -> list[Any]:
    heard: list[Any] = []
    until = time.monotonic() + PATIENCE
    while len(heard) < least and time.monotonic() < until:
        heard += feed.poll(timeout=1)
    heard += feed.poll(timeout=0.05)
    assert len(heard) >= least, f"only {heard} came"
    return heard


def state_of(db: Any, name: str) -> str:
    [shown] = [row for row in db.sql("SHOW CONTINUOUS QUERIES").fetchall() if row[0] == name]
    [state] = {str(cell).upper() for cell in shown} & {"ACTIVE", "SUSPENDED", "INACTIVE"}
    return state


def wait_for(claim: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while not claim():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


def refuses(db: Any, statement: str, *words: str) -> midstream.Error:
    """The error of a statement; each word is in its text, and no query was made or lost by it."""
    before = sorted(row[0] for row in db.sql("SHOW CONTINUOUS QUERIES").fetchall())
    error = fault(lambda: db.sql(statement).fetchall())
    assert sorted(row[0] for row in db.sql("SHOW CONTINUOUS QUERIES").fetchall()) == before
    for word in words:
        assert word in str(error), f"{word!r} is not in: {error}"
    return error


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


# Destinations


def test_all_kinds_go_to_the_destination(bank: Any) -> None:
    bank.sql("CREATE TABLE overdrawn (acct bigint, amt bigint, kind text, was bigint)")
    bank.sql(
        "CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT "
        f"DESTINATION overdrawn AS {WITH_KIND}"
    )
    pay(bank, (1, -5))
    pay(bank, (1, -3))
    bank.wait("negative_balance", pay(bank, (1, 20)))
    assert rows(bank, "SELECT * FROM overdrawn") == [(1, -5, "I", None), (1, -8, "D", -8), (1, -8, "U", -5)]


def test_a_destination_is_a_table_like_any_other(bank: Any) -> None:
    bank.sql("CREATE TABLE overdrawn (acct bigint, amt bigint)")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION overdrawn AS {NEGATIVE}")
    bank.wait("negative_balance", pay(bank, (1, -5)))
    bank.sql("DELETE FROM overdrawn; INSERT INTO overdrawn VALUES (99, 0)")
    bank.wait("negative_balance", pay(bank, (2, -6)))
    assert rows(bank, "SELECT * FROM overdrawn") == [(2, -6), (99, 0)]


def test_a_destination_may_be_read_by_another_query(bank: Any) -> None:
    bank.sql("CREATE TABLE overdrawn (acct bigint, amt bigint)")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION overdrawn AS {NEGATIVE}")
    bank.sql(
        "CREATE CONTINUOUS QUERY how_often PRIMARY KEY (acct) COMPUTE ON COMMIT AS "
        "SELECT acct, count(*) AS n FROM overdrawn GROUP BY acct"
    )
    with bank.subscribe("how_often") as feed:
        pay(bank, (1, -5))
        pay(bank, (1, -5))
        changes = changes_of(feed, 2)
    assert changes[0] == ("I", (1, 1), None)
    assert changes[-1][1] == (1, 3), "the second commit brings a delete and an insert"


def test_a_destination_that_is_not_there_is_told_by_its_create_table(bank: Any) -> None:
    create = f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION overdrawn AS {WITH_KIND}"
    hint = refuses(bank, create, "overdrawn").hint
    assert hint is not None
    assert "CREATE TABLE" in hint
    bank.sql(hint[hint.index("CREATE TABLE") : hint.rindex(")") + 1])
    bank.sql(create)
    bank.wait("negative_balance", pay(bank, (1, -5)))
    assert rows(bank, "SELECT acct, amt, kind, was FROM overdrawn") == [(1, -5, "I", None)]


@pytest.mark.parametrize(
    "columns", ["acct bigint", "acct text, amt bigint", "acct bigint, amt bigint, more int NOT NULL"]
)
def test_a_destination_that_does_not_fit_is_refused(bank: Any, columns: str) -> None:
    bank.sql(f"CREATE TABLE overdrawn ({columns})")
    create = f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION overdrawn AS {NEGATIVE}"
    assert "CREATE TABLE" in str(refuses(bank, create, "overdrawn"))


def test_a_query_may_not_write_what_it_reads(bank: Any) -> None:
    refuses(
        bank,
        "CREATE CONTINUOUS QUERY loop COMPUTE ON COMMIT DESTINATION banking_transactions AS "
        "SELECT acct, amt FROM banking_transactions WHERE amt < 0",
        "banking_transactions",
    )


def test_the_table_that_would_fit_has_its_names_quoted_where_they_must_be(bank: Any) -> None:
    query = 'SELECT acct AS "Order", amt AS "select" FROM banking_transactions'
    error = fault(lambda: bank.sql(f'CREATE CONTINUOUS QUERY found DESTINATION "No Such" AS {query}'))
    assert str(error.hint).startswith('CREATE TABLE "No Such" ("Order" bigint, "select" int)')


def test_a_destination_keeps_the_columns_that_a_query_writes_to(bank: Any) -> None:
    bank.sql("CREATE TABLE paid (amt int, acct bigint, at timestamptz DEFAULT now())")
    bank.sql("CREATE CONTINUOUS QUERY found DESTINATION paid AS SELECT acct, amt FROM banking_transactions")
    for alteration in ("RENAME COLUMN acct TO who", "DROP COLUMN amt", "RENAME TO spent"):
        assert refuses(bank, f"ALTER TABLE paid {alteration}", "found").sqlstate == "2BP01"
    bank.sql("ALTER TABLE paid RENAME COLUMN at TO written_at")
    bank.sql("ALTER TABLE paid ADD COLUMN note text")
    bank.wait("found", pay(bank, (7, 5)))
    assert rows(bank, "SELECT acct, amt, note FROM paid") == [(7, 5, None)]


def test_another_destination_takes_what_comes_from_then_on(bank: Any) -> None:
    bank.sql("CREATE TABLE one (acct bigint, amt bigint); CREATE TABLE two (acct bigint, amt bigint)")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION one AS {NEGATIVE}")
    bank.wait("negative_balance", pay(bank, (1, -1)))
    bank.sql("ALTER CONTINUOUS QUERY negative_balance DESTINATION two")
    bank.wait("negative_balance", pay(bank, (2, -2)))
    assert rows(bank, "SELECT * FROM one") == [(1, -1)]
    assert rows(bank, "SELECT * FROM two") == [(2, -2)]
    refuses(bank, "ALTER CONTINUOUS QUERY negative_balance DESTINATION three", "three")


# Queues


@pytest.fixture
def queued(bank: Any) -> Any:
    bank.sql(
        "CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT DESTINATION QUEUE q "
        f"AS {WITH_KIND}"
    )
    return bank


def dequeued(db: Any, subscriber: str, count: int = 100) -> list[tuple[Any, ...]]:
    found = db.sql(f"SELECT acct, amt, kind, was FROM dequeue('q', '{subscriber}', {count})").fetchall()
    return [tuple(row) for row in found]


def test_a_subscriber_gets_what_comes_after_its_first_dequeue_once_and_in_order(queued: Any) -> None:
    queued.wait("negative_balance", pay(queued, (9, -9)))
    assert dequeued(queued, "one") == []
    pay(queued, (1, -1))
    pay(queued, (1, -1))
    queued.wait("negative_balance", pay(queued, (1, 5)))
    assert dequeued(queued, "one", 2) == [(1, -1, "I", None), (1, -2, "U", -1)]
    assert dequeued(queued, "one", 2) == [(1, -2, "D", -2)]
    assert dequeued(queued, "one") == []


def test_every_subscriber_of_a_queue_gets_everything(queued: Any) -> None:
    assert dequeued(queued, "one") == dequeued(queued, "two") == []
    queued.wait("negative_balance", pay(queued, (1, -1)))
    assert dequeued(queued, "one") == [(1, -1, "I", None)]
    queued.wait("negative_balance", pay(queued, (2, -2)))
    assert dequeued(queued, "one") == [(2, -2, "I", None)]
    assert dequeued(queued, "two") == [(1, -1, "I", None), (2, -2, "I", None)]


def test_a_queue_can_be_made_before_the_query(bank: Any) -> None:
    bank.sql("CREATE QUEUE q")
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION QUEUE q AS {WITH_KIND}")
    assert dequeued(bank, "one") == []
    bank.wait("negative_balance", pay(bank, (1, -1)))
    assert dequeued(bank, "one") == [(1, -1, "I", None)]


def test_what_a_queue_holds_is_there_after_a_restart(database: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "queues.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
        db.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT DESTINATION QUEUE q AS {WITH_KIND}")
        assert dequeued(db, "one") == []
        for n in range(1, 4):
            pay(db, (n, -n))
        db.wait("negative_balance", pay(db, (4, -4)))
        assert [row[0] for row in dequeued(db, "one", 2)] == [1, 2]
    with midstream.connect(folder) as db:
        db.wait("negative_balance", pay(db, (5, -5)))
        assert [row[0] for row in dequeued(db, "one")] == [3, 4, 5]
        assert dequeued(db, "one") == []


def test_two_who_dequeue_for_one_subscriber_share_what_there_is(queued: Any) -> None:
    assert dequeued(queued, "one") == []
    for n in range(1, 5):
        pay(queued, (n, -n))
    queued.wait("negative_balance", pay(queued, (5, -5)))
    with queued.session() as one, queued.session() as two:
        got = [*dequeued(one, "one", 2), *dequeued(two, "one", 2), *dequeued(one, "one", 2)]
    assert [row[0] for row in got] == [1, 2, 3, 4, 5]


def test_a_queue_is_dropped(queued: Any) -> None:
    refuses(queued, "DROP QUEUE q", "negative_balance")
    queued.sql("DROP CONTINUOUS QUERY negative_balance")
    queued.sql("DROP QUEUE q")
    refuses(queued, "SELECT * FROM dequeue('q', 'one', 1)", "q")
    queued.sql("DROP QUEUE IF EXISTS q")
    refuses(queued, "DROP QUEUE q", "q")


@pytest.mark.parametrize("count", ["-1", "'many'", "NULL"])
def test_dequeue_takes_a_count(queued: Any, count: str) -> None:
    refuses(queued, f"SELECT * FROM dequeue('q', 'one', {count})")


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


# Triggers


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The changes that triggers were called with; functions of the module `listeners`."""
    seen: list[Any] = []
    module = types.ModuleType("listeners")

    def note(change: Any) -> None:
        seen.append(change)

    def fail_for_two(change: Any) -> None:
        seen.append(change)
        if change.row["acct"] == 2:
            raise ValueError("not two")

    def fail_at_first(change: Any) -> None:
        seen.append(change)
        if len(seen) < 3:
            raise ValueError("not yet")

    def leave(change: Any) -> None:
        seen.append(change)
        raise (SystemExit if change.row["acct"] == 1 else KeyboardInterrupt)("enough")

    for function in (note, fail_for_two, fail_at_first, leave):
        setattr(module, function.__name__, function)
    monkeypatch.setitem(sys.modules, "listeners", module)
    return seen


@pytest.fixture
def watched(bank: Any) -> Any:
    bank.sql(f"CREATE CONTINUOUS QUERY negative_balance PRIMARY KEY (acct) COMPUTE ON COMMIT AS {NEGATIVE}")
    return bank


def test_a_trigger_is_called_with_every_change(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
    scns = [pay(watched, (1, -5)), pay(watched, (1, -3)), pay(watched, (1, 20))]
    wait_for(lambda: len(called) >= 3)
    assert [(c.kind, c.scn) for c in called] == list(zip("IUD", scns, strict=True))
    assert called[1].row == {"acct": 1, "amt": -8}
    assert called[1].old == {"acct": 1, "amt": -5}


def test_changes_have_ids_that_name_the_query_the_commit_and_a_number(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
    scn = pay(watched, (1, -5), (2, -6), (3, -7))
    wait_for(lambda: len(called) >= 3)
    ids = [tuple(change.id) for change in called]
    assert {(name, at) for name, at, _ in ids} == {("negative_balance", scn)}
    assert len(set(ids)) == 3


def test_a_trigger_that_fails_is_tried_again(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:fail_at_first'")
    pay(watched, (1, -5))
    wait_for(lambda: len(called) >= 3)
    pay(watched, (2, -5))
    wait_for(lambda: len(called) >= 4)
    assert [change.row["acct"] for change in called] == [1, 1, 1, 2]
    assert watched.sql("SELECT count(*) FROM dead_warn").fetchall() == [(0,)]


def test_after_three_tries_a_change_is_parked_and_the_query_goes_on(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:fail_for_two'")
    for acct in (1, 2, 3):
        pay(watched, (acct, -5))
    wait_for(lambda: len(called) >= 5)
    assert [change.row["acct"] for change in called] == [1, 2, 2, 2, 3]
    wait_for(lambda: len(rows(watched, "SELECT * FROM dead_warn")) == 1)
    assert "not two" in repr(rows(watched, "SELECT * FROM dead_warn"))
    assert state_of(watched, "negative_balance") == "ACTIVE"
    watched.sql("DROP TABLE dead_warn")
    pay(watched, (2, -1))
    wait_for(lambda: "dead_warn" in {row[0] for row in watched.sql("SHOW TABLES").fetchall()})
    assert [(row[2], "not two" in row[5]) for row in rows(watched, "SELECT * FROM dead_warn")] == [("U", True)]


def test_a_trigger_that_wants_to_end_the_program_is_tried_and_parked_as_well(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:leave'")
    pay(watched, (1, -5))
    pay(watched, (2, -6))
    wait_for(lambda: len(watched.sql("SELECT * FROM dead_warn").fetchall()) == 2)
    assert [change.row["acct"] for change in called] == [1, 1, 1, 2, 2, 2]
    errors = [error for (error,) in watched.sql("SELECT error FROM dead_warn ORDER BY scn").fetchall()]
    assert [error.split(":")[0] for error in errors] == ["SystemExit", "KeyboardInterrupt"]


def test_triggers_go_on_after_a_restart_without_one_call_more(database: Any, tmp_path: Path, called: list[Any]) -> None:
    folder = str(tmp_path / "triggers.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE TABLE banking_transactions (acct bigint, amt int)")
        db.sql(f"CREATE CONTINUOUS QUERY negative_balance COMPUTE ON COMMIT AS {NEGATIVE}")
        db.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
        pay(db, (1, -5))
        wait_for(lambda: len(called) >= 1)
    with midstream.connect(folder) as db:
        pay(db, (2, -5))
        wait_for(lambda: len(called) >= 2)
    assert [change.row["acct"] for change in called] == [1, 2]


def test_a_dropped_trigger_is_not_called(watched: Any, called: list[Any]) -> None:
    watched.sql("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'")
    watched.sql("DROP TRIGGER warn")
    watched.wait("negative_balance", pay(watched, (1, -5)))
    refuses(watched, "DROP TRIGGER warn", "warn")
    watched.sql("DROP TRIGGER IF EXISTS warn")
    assert called == []


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("CREATE TRIGGER warn ON nobody FOR EACH ROW EXECUTE 'listeners:note'", "nobody"),
        ("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'no_such_module:note'", "no_such_module"),
        ("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:nothing'", "nothing"),
        ("CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners'", "listeners"),
    ],
)
def test_a_trigger_needs_a_query_and_a_function(watched: Any, called: list[Any], statement: str, word: str) -> None:
    refuses(watched, statement, word)


def test_a_trigger_name_is_taken_once(watched: Any, called: list[Any]) -> None:
    create = "CREATE TRIGGER warn ON negative_balance FOR EACH ROW EXECUTE 'listeners:note'"
    watched.sql(create)
    refuses(watched, create, "warn")


# Window functions


def test_a_window_function_over_a_table_that_grows(bank: Any) -> None:
    bank.sql("CREATE TABLE temps (loc int NOT NULL, time int NOT NULL, temp int)")
    bank.sql("ALTER TABLE temps ADD CONSTRAINT up STRICTLY INCREASING time PARTITION BY loc")
    bank.sql(
        "CREATE CONTINUOUS QUERY hot COMPUTE ON COMMIT AS SELECT loc, time, temp FROM (SELECT loc, time, temp, "
        "lag(temp, 1) OVER (PARTITION BY loc ORDER BY time) AS prev_temp FROM temps) AS t "
        "WHERE temp >= 90 AND prev_temp < 90"
    )
    with bank.subscribe("hot") as feed:
        for values in ["(1, 1, 80), (2, 1, 95)", "(1, 2, 95), (2, 2, 99)", "(1, 3, 96)", "(2, 3, 70), (2, 4, 91)"]:
            scn = bank.sql(f"INSERT INTO temps VALUES {values}").scn
        bank.wait("hot", scn)
        assert changes_of(feed, 2) == [("I", (1, 2, 95), None), ("I", (2, 4, 91), None)]
    for refused in ("UPDATE temps SET temp = 1", "DELETE FROM temps"):
        refuses(bank, refused, "hot")
    bank.sql("DROP CONTINUOUS QUERY hot")
    bank.sql("UPDATE temps SET temp = 1")


def test_without_its_constraint_a_table_that_only_grew_may_change(bank: Any) -> None:
    bank.sql("CREATE TABLE temps (loc int NOT NULL, time int NOT NULL, temp int)")
    up = "CONSTRAINT up STRICTLY INCREASING time PARTITION BY loc"
    bank.sql(f"ALTER TABLE temps ADD {up}; INSERT INTO temps VALUES (1, 1, 10), (1, 2, 20)")
    lag = "SELECT time, lag(temp) OVER (PARTITION BY loc ORDER BY time) AS was FROM temps"
    bank.sql(f"CREATE CONTINUOUS QUERY lags COMPUTE ON COMMIT AS {lag}")
    bank.sql("INSERT INTO temps VALUES (1, 3, 30)")
    bank.sql("ALTER TABLE temps DROP CONSTRAINT up")
    with bank.subscribe("lags", snapshot=True) as feed:
        bank.sql("DELETE FROM temps WHERE time = 3; UPDATE temps SET temp = 5 WHERE time = 2")
        bank.sql(f"INSERT INTO temps VALUES (1, 4, 40); ALTER TABLE temps ADD {up}")
        bank.wait("lags", bank.sql("INSERT INTO temps VALUES (1, 5, 50)").scn)
        held = Counter[Any]()
        for change in heard_from(feed, 6):
            held[tuple(change.row.values())] += 1 if change.kind == "I" else -1
    assert sorted((+held).elements(), key=repr) == rows(bank, lag) and min(held.values()) >= 0
    refuses(bank, "DELETE FROM temps", "lags")


@pytest.mark.parametrize("kind", ["CONTINUOUS QUERY", "MATERIALIZED VIEW"])
def test_rows_that_a_window_function_goes_through_are_changed_by_nobody(bank: Any, kind: str) -> None:
    bank.sql("CREATE TABLE places (loc int PRIMARY KEY)")
    bank.sql(
        "CREATE TABLE temps (loc int NOT NULL REFERENCES places (loc) ON DELETE CASCADE, time int NOT NULL, temp int)"
    )
    bank.sql("ALTER TABLE temps ADD CONSTRAINT up STRICTLY INCREASING time PARTITION BY loc")
    bank.sql("INSERT INTO places VALUES (1), (2); INSERT INTO temps VALUES (1, 1, 80)")
    how = "COMPUTE ON COMMIT" if kind == "CONTINUOUS QUERY" else ""
    bank.sql(
        f"CREATE {kind} hot {how} AS "
        "SELECT loc, time, temp - lag(temp) OVER (PARTITION BY loc ORDER BY time) AS more FROM temps"
    )
    merge = "MERGE INTO temps USING (SELECT 1 AS loc, 90 AS temp) AS s ON temps.loc = s.loc WHEN MATCHED THEN "
    for refused in (
        "UPDATE temps SET temp = 1",
        "DELETE FROM temps",
        merge + "UPDATE SET temp = s.temp",
        merge + "DELETE",
        "DELETE FROM places WHERE loc = 1",
    ):
        assert "hot" in str(fault(lambda refused=refused: bank.sql(refused)))
    assert rows(bank, "SELECT * FROM temps") == [(1, 1, 80)]
    assert rows(bank, "SELECT * FROM places") == [(1,), (2,)]
    bank.sql("DELETE FROM places WHERE loc = 2")
    bank.sql(merge + "DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (1, 2, 90)")
    bank.sql(f"DROP {kind} hot")
    bank.sql("DELETE FROM places WHERE loc = 1")
    assert rows(bank, "SELECT * FROM temps") == []


# Streams and views


def test_new_rows_of_a_stream_are_the_change(bank: Any) -> None:
    bank.sql("CREATE STREAM posts (uid bigint, score int)")
    bank.sql("INSERT INTO posts VALUES (1, 1000)")
    bank.sql(
        "CREATE CONTINUOUS QUERY good COMPUTE ON COMMIT AS SELECT uid, score * 2 AS twice FROM posts WHERE score > 5"
    )
    with bank.subscribe("good") as feed:
        scns = [
            bank.sql("INSERT INTO posts VALUES (1, 6), (2, 5), (3, 7)").scn,
            bank.sql("INSERT INTO posts VALUES (4, 9)").scn,
        ]
        heard = heard_from(feed, 3)
    assert [tuple(change.row.values()) for change in heard] == [(1, 12), (3, 14), (4, 18)]
    assert {change.kind for change in heard} == {"I"}
    assert [change.scn for change in heard] == [scns[0], scns[0], scns[1]]


def test_a_continuous_view_changes_from_one_result_to_the_next(bank: Any) -> None:
    bank.sql("CREATE STREAM posts (uid bigint, score int)")
    bank.sql("CREATE VIEW totals AS SELECT uid, sum(score) AS score FROM posts GROUP BY uid")
    bank.sql("INSERT INTO posts VALUES (1, 1)")
    bank.sql(
        "CREATE CONTINUOUS QUERY top PRIMARY KEY (uid) COMPUTE ON COMMIT AS "
        "SELECT uid, score FROM totals WHERE score < 9"
    )
    with bank.subscribe("top") as feed:
        bank.wait("top", bank.sql("INSERT INTO posts VALUES (1, 2), (2, 5)").scn)
        assert sorted(changes_of(feed, 2)) == [("I", (2, 5), None), ("U", (1, 3), (1, 1))]
        bank.wait("top", bank.sql("INSERT INTO posts VALUES (2, 5)").scn)
        assert changes_of(feed, 1) == [("D", (2, 5), (2, 5))]


def test_a_plain_view_is_its_query(bank: Any) -> None:
    bank.sql("CREATE VIEW minors AS SELECT id, name FROM users WHERE age < 18")
    bank.sql("CREATE CONTINUOUS QUERY young PRIMARY KEY (id) COMPUTE ON COMMIT AS SELECT id, name FROM minors")
    with bank.subscribe("young") as feed:
        bank.sql("UPDATE users SET age = 40 WHERE id = 1")
        assert changes_of(feed, 1) == [("D", (1, "Ann"), (1, "Ann"))]


@pytest.mark.parametrize(
    "query",
    [
        "TABLE users",
        "TABLE users UNION ALL SELECT id, name, region, age FROM users WHERE age > 18",
        "SELECT id, name, region, age FROM users UNION ALL SELECT * FROM users WHERE age > 18",
        "WITH u AS (TABLE users) TABLE u",
        "SELECT * FROM users UNION VALUES (1, 'Ann', 'north', 12)",
    ],
)
def test_a_query_may_name_its_columns_by_a_table_or_a_star(bank: Any, query: str) -> None:
    bank.sql(f"CREATE CONTINUOUS QUERY found COMPUTE ON COMMIT AS {query}")
    bank.sql("ALTER TABLE users ADD COLUMN note text")
    with bank.subscribe("found") as feed:
        bank.sql("INSERT INTO users VALUES (3, 'Cy', 'west', 8, 'new')")
        assert changes_of(feed, 1) == [("I", (3, "Cy", "west", 8), None)]


def test_values_are_a_query_that_never_changes(bank: Any) -> None:
    bank.sql("CREATE CONTINUOUS QUERY found COMPUTE ON COMMIT AS VALUES (1, 'a'), (2, 'b')")
    assert [name for name, *_ in bank.sql("DESCRIBE found").fetchall()] == ["column1", "column2"]
    bank.wait("found", pay(bank, (1, 1)))
    bank.sql("DROP CONTINUOUS QUERY found")


def test_those_who_depend_on_a_table_are_told_by_what_they_are(bank: Any) -> None:
    bank.sql("CREATE CONTINUOUS QUERY found COMPUTE ON COMMIT AS SELECT name FROM users")
    for alteration in ("RENAME TO people", "DROP COLUMN name", "RENAME COLUMN name TO title"):
        error = refuses(bank, f"ALTER TABLE users {alteration}", "found")
        assert error.detail == 'They are continuous query "found".'


EQUAL_BY_ORDER = {
    "rows": "SELECT id, g, row_number() OVER (PARTITION BY g ORDER BY o) AS place FROM peers",
    "lags": "SELECT id, lag(id) OVER (PARTITION BY g ORDER BY o) AS before_it FROM peers",
    "sums": "SELECT id, sum(id) OVER (PARTITION BY g ORDER BY o ROWS 2 PRECEDING) AS s FROM peers",
    "first": "SELECT id, g FROM peers ORDER BY o LIMIT 5",
    "lists": "SELECT g, array_agg(id) AS ids, string_agg(o::text, ',') AS os FROM peers GROUP BY g",
    "largest": "SELECT g, max_by(id, o) AS a, min_by(id, o) FILTER (WHERE id > 2) AS b, first(id ORDER BY o) AS c "
    "FROM peers GROUP BY g",
}


def test_rows_that_are_equal_by_order_go_as_they_came(db: Any) -> None:
    db.sql("CREATE TABLE peers (id int PRIMARY KEY, g int, o int)")
    db.sql("INSERT INTO peers SELECT i, i % 2, i % 3 FROM generate_series(1, 12) AS s(i)")
    for name, query in EQUAL_BY_ORDER.items():
        db.sql(f"CREATE CONTINUOUS QUERY {name} COMPUTE ON COMMIT AS {query}")
        db.sql(f"CREATE MATERIALIZED VIEW {name}_stored AS {query}")
    feeds = {name: db.subscribe(name, snapshot=True) for name in EQUAL_BY_ORDER}
    held = {name: Counter[str]() for name in EQUAL_BY_ORDER}
    for way, statement in (
        ("as of", "INSERT INTO peers VALUES (20, 1, 1), (21, 0, 1)"),
        ("anti-join", "UPDATE peers SET o = 1 WHERE id = 6"),
        ("as of", "DELETE FROM peers WHERE id = 3"),
        ("anti-join", "UPDATE peers SET g = 1 - g WHERE id IN (2, 20)"),
        ("as of", "BEGIN; DELETE FROM peers WHERE id = 20; INSERT INTO peers VALUES (3, 1, 1); COMMIT"),
    ):
        db.sql(f"SET preimage = '{way}'")
        scn = db.sql(statement).scn
        for name, feed in feeds.items():
            db.wait(name, scn)
            for change in [*feed.poll(), *feed.poll()]:
                held[name][str(tuple(change.row.values()))] += 1 if change.kind == "I" else -1
            assert set(held[name].values()) <= {0, 1}, (name, statement)
            stored = [str(row) for row in db.sql(f"SELECT * FROM {name}_stored").fetchall()]
            assert Counter(stored) == +held[name], (name, statement)
            assert "computed anew" not in plan_of(db, f"{name}_stored")
    db.sql("SET preimage = 'auto'")
    for feed in feeds.values():
        feed.close()


def plan_of(db: Any, view: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall())


@pytest.mark.parametrize("items", ["id, name, id", "id, name AS kind, cq_delta() AS kind"])
def test_a_name_that_is_handed_out_twice_is_told_at_its_place(bank: Any, items: str) -> None:
    create = f"CREATE CONTINUOUS QUERY found AS SELECT {items} FROM users"
    error = refuses(bank, create, "more than once", "AS")
    assert error.position == (1, create.rindex(items.rpartition(", ")[2]) + 1)


# kernels

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
