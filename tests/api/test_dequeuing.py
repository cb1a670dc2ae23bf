"""Queues: dequeue inside transactions, what goes when all have read it, and what a queue that nobody reads keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from asking import fault


@pytest.fixture
def queued(db: Any) -> Iterator[Any]:
    db.sql("DROP QUEUE IF EXISTS q")
    db.sql("CREATE TABLE payments (acct int, amt int)")
    db.sql("CREATE CONTINUOUS QUERY paid COMPUTE ON COMMIT DESTINATION QUEUE q AS SELECT acct, amt FROM payments")
    yield db
    db.sql("SET max_queue = 10000000")


def pay(db: Any, *accounts: int) -> None:
    """A commit for each; when it returns, all are in the queue."""
    for acct in accounts:
        scn = db.sql(f"INSERT INTO payments VALUES ({acct}, 1)").scn
    db.wait("paid", scn)


def taken(session: Any, subscriber: str, count: int = 100) -> list[int]:
    return [row[0] for row in session.sql(f"SELECT acct FROM dequeue('q', '{subscriber}', {count})").fetchall()]


def test_names_and_the_count_may_be_parameters(queued: Any) -> None:
    assert queued.sql("SELECT * FROM dequeue('q', ?)", ["one"]).fetchall() == []
    pay(queued, 1, 2, 3)
    one = queued.sql("SELECT acct FROM dequeue($1, $2, $3) WHERE amt = $4", ["q", "one", 2, 1]).fetchall()
    assert one == [(1,), (2,)]
    assert queued.sql("SELECT acct + ? FROM dequeue('q', ?)", [10, "one"]).fetchall() == [(13,)]
    error = fault(lambda: queued.sql("SELECT * FROM dequeue('q', ?)", ["one", "two"]))
    assert error.message == "the statement has 1 parameter, but 2 values were given"
    assert "no value for $2" in str(fault(lambda: queued.sql("SELECT * FROM dequeue($1, $2)", ["q"])))


# Transactions


def test_what_a_transaction_has_dequeued_it_does_not_get_again(queued: Any) -> None:
    assert taken(queued, "one") == []
    pay(queued, 1, 2, 3)
    with queued.session() as session:
        session.sql("BEGIN")
        assert [taken(session, "one", 1), taken(session, "one", 1)] == [[1], [2]]
        session.sql("ROLLBACK")
        session.sql("BEGIN")
        assert [taken(session, "one", 2), taken(session, "one"), taken(session, "one")] == [[1, 2], [3], []]
        session.sql("COMMIT")
    assert taken(queued, "one") == []


def test_a_subscriber_may_begin_inside_a_transaction(queued: Any) -> None:
    with queued.session() as session:
        session.sql("BEGIN")
        assert taken(session, "one") == []
        pay(queued, 1)
        assert taken(session, "one") == [1]
        session.sql("COMMIT")
    assert taken(queued, "one") == []


def test_a_commit_moves_the_subscribers_that_it_has_dequeued_for_and_no_other(queued: Any) -> None:
    assert taken(queued, "one") == taken(queued, "two") == []
    pay(queued, 1, 2)
    with queued.session() as session:
        session.sql("BEGIN")
        assert taken(session, "one") == [1, 2]
        assert taken(queued, "two") == [1, 2]
        session.sql("INSERT INTO payments VALUES (9, 9)")
        session.sql("COMMIT")
        session.sql("BEGIN")
        session.sql("CREATE TRIGGER tell ON paid FOR EACH ROW NOTIFY channel")
        pay(queued, 3)
        assert taken(queued, "two") == [9, 3]
        session.sql("COMMIT")
    assert taken(queued, "two") == []
    assert taken(queued, "one") == [9, 3]


def test_of_two_who_dequeue_the_same_changes_the_first_to_commit_has_them(queued: Any) -> None:
    assert taken(queued, "one") == []
    pay(queued, 1, 2)
    with queued.session() as first, queued.session() as second:
        for session in (first, second):
            session.sql("BEGIN")
            assert taken(session, "one", 1) == [1]
        second.sql("INSERT INTO payments VALUES (8, 8)")
        first.sql("COMMIT")
        error = fault(lambda: second.sql("COMMIT"))
    assert error.sqlstate == "40001" and 'subscriber "one"' in str(error)
    assert queued.sql("SELECT count(*) FROM payments WHERE acct = 8").fetchall() == [(0,)]
    assert taken(queued, "one") == [2]


def test_two_dequeues_of_one_statement_share_what_there_is(queued: Any) -> None:
    assert taken(queued, "one") == []
    pay(queued, 1, 2)
    both = "SELECT a.acct, b.acct FROM dequeue('q', 'one', 1) AS a, dequeue('q', 'one', 1) AS b"
    assert queued.sql(both).fetchall() == [(1, 2)]
    assert taken(queued, "one") == []


# What is kept


def kept(db: Any) -> int:
    """How many changes there are in the log of the query, without what can go."""
    queries = db._store.queries
    queries.tidy()
    return int(queries.log_of(queries.find("paid")).rows)


def test_what_all_subscribers_have_had_goes(queued: Any) -> None:
    assert taken(queued, "one") == taken(queued, "two") == []
    pay(queued, 1, 2, 3, 4)
    assert taken(queued, "one") == [1, 2, 3, 4]
    assert taken(queued, "two", 2) == [1, 2]
    assert kept(queued) == 3, "the commit that somebody may have had a part of, and what came after it"
    assert taken(queued, "two") == [3, 4]
    assert kept(queued) == 0
    pay(queued, 5)
    assert taken(queued, "one") == [5]
    assert kept(queued) == 1
    queued.sql("SELECT unsubscribe('q', 'two')").fetchall()
    assert kept(queued) == 0


def test_a_trigger_that_was_dropped_holds_nothing(queued: Any) -> None:
    assert taken(queued, "one") == []
    queued.sql("CREATE TRIGGER tell ON paid FOR EACH ROW NOTIFY channel")
    queued.sql("DROP TRIGGER tell")
    pay(queued, 1, 2, 3)
    assert taken(queued, "one") == [1, 2, 3]
    assert kept(queued) == 0


def test_a_queue_that_nobody_reads_keeps_no_more_than_max_queue(queued: Any) -> None:
    queued.sql("SET max_queue = 3")
    for acct in range(1, 6):
        pay(queued, acct)
    queries = queued._store.queries
    assert 1 <= queries.log_of(queries.find("paid")).rows <= 3
    assert taken(queued, "one") == [], "whoever comes gets what comes from then on"
    pay(queued, 8)
    assert taken(queued, "one") == [8]
