"""Where the changes of a continuous query go: to tables and to queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import fault, refuses, rows
from banking import NEGATIVE, WITH_KIND, changes_of, dequeued, pay

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
