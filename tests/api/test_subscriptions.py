"""Who is told of changes: listeners of a channel, SUBSCRIBE as a statement, full queues, subscribers of views."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from asking import fault, rows, scn_now

PATIENCE = 30.0


@pytest.fixture
def bank(db: Any) -> Iterator[Any]:
    db.sql("DROP QUEUE IF EXISTS q")
    db.sql("CREATE TABLE payments (acct int, amt int)")
    db.sql(
        "CREATE CONTINUOUS QUERY red PRIMARY KEY (acct) COMPUTE ON COMMIT"
        " AS SELECT acct, sum(amt) AS amt FROM payments GROUP BY acct HAVING sum(amt) < 0"
    )
    yield db
    db.sql("SET max_queue = 10000000")
    db.sql("SET foreign_key_units = 'auto'")


def pay(db: Any, acct: int, amt: int) -> int:
    return int(db.sql(f"INSERT INTO payments VALUES ({acct}, {amt})").scn)


def heard(feed: Any, least: int) -> list[tuple[str, int, int]]:
    found: list[Any] = []
    until = time.monotonic() + PATIENCE
    while len(found) < least and time.monotonic() < until:
        found += feed.poll(timeout=1)
    return [(change.kind, *change.row.values()) for change in found]


# Channels


def test_those_who_listen_to_a_channel_are_told_in_order(bank: Any) -> None:
    bank.sql("CREATE TRIGGER tell ON red FOR EACH ROW NOTIFY red_light")
    with bank.listen("red_light") as one, bank.listen("red_light") as two, bank.listen("another") as nobody:
        for acct in range(5):
            pay(bank, acct, -1 - acct)
        pay(bank, 3, 10)
        wanted = [*(("I", acct, -1 - acct) for acct in range(5)), ("D", 3, -4)]
        assert heard(one, 6) == wanted
        assert heard(two, 6) == wanted
        assert nobody.poll(timeout=0.05) == []


def test_who_does_not_listen_is_told_nothing_later(bank: Any) -> None:
    bank.sql("CREATE TRIGGER tell ON red FOR EACH ROW NOTIFY red_light")
    with bank.listen("red_light") as first:
        pay(bank, 1, -1)
        assert heard(first, 1) == [("I", 1, -1)]
    with bank.listen("red_light") as second:
        pay(bank, 2, -2)
        assert heard(second, 1) == [("I", 2, -2)]
    bank.sql("DROP TRIGGER tell")
    with bank.listen("red_light") as third:
        bank.wait("red", pay(bank, 3, -3))
        assert third.poll(timeout=0.3) == []


# SUBSCRIBE


def test_subscribe_as_a_statement_gives_what_there_is_and_goes_on(bank: Any) -> None:
    bank.wait("red", pay(bank, 1, -5))
    result = bank.sql("SUBSCRIBE TO red WITH (snapshot)")
    with result.changes as changes:
        assert [row[-2:] for row in result.fetchall()] == [(1, -5)]
        pay(bank, 1, -2)
        assert heard(changes, 1) == [("U", 1, -7)]


def test_subscribe_goes_on_after_a_commit(bank: Any) -> None:
    first, second = pay(bank, 1, -5), pay(bank, 2, -6)
    bank.wait("red", second)
    for scn, wanted in ((first - 1, [1, 2]), (first, [2]), (second, [])):
        result = bank.sql(f"SUBSCRIBE TO red AS OF SCN {scn}")
        result.changes.close()
        assert [row[-2] for row in result.fetchall()] == wanted
    assert "nobody" in str(fault(lambda: bank.sql("SUBSCRIBE TO nobody")))


def test_names_are_found_as_sql_would_find_them(bank: Any) -> None:
    with bank.subscribe("RED") as feed:
        bank.wait("Red", pay(bank, 1, -5), timeout=PATIENCE)
        assert heard(feed, 1) == [("I", 1, -5)]
    for ask in (lambda: bank.subscribe("rad"), lambda: bank.wait("rad", 1)):
        assert fault(ask).hint == 'Did you mean "red"?'


def test_a_query_that_is_there_is_not_made_again(bank: Any) -> None:
    other = "CREATE CONTINUOUS QUERY {}red AS SELECT acct FROM payments"
    assert fault(lambda: bank.sql(other.format(""))).sqlstate == "42P07"
    before = bank.sql("SHOW CONTINUOUS QUERIES").fetchall()
    bank.sql(other.format("IF NOT EXISTS "))
    assert bank.sql("SHOW CONTINUOUS QUERIES").fetchall() == before


def test_every_kind_of_view_has_subscribers(bank: Any) -> None:
    bank.sql("CREATE VIEW plain AS SELECT acct, count(*) AS n FROM payments GROUP BY acct")
    bank.sql(
        "CREATE MATERIALIZED VIEW stored WITH (key = 'acct') AS SELECT acct, count(*) AS n FROM payments GROUP BY acct"
    )
    bank.sql("CREATE STREAM ticks (k int, v int)")
    bank.sql("CREATE VIEW live WITH (key = 'k') AS SELECT k, sum(v) AS v FROM ticks GROUP BY k")
    with bank.subscribe("plain") as plain, bank.subscribe("stored") as stored, bank.subscribe("live") as live:
        for n in (1, 2):
            pay(bank, 7, 1)
            bank.sql("INSERT INTO ticks VALUES (1, 5)")
            told = sorted(heard(plain, n))
            assert told == ([("I", 7, 1)] if n == 1 else [("D", 7, 1), ("I", 7, 2)])
            rows(bank, "SELECT * FROM stored")
            assert heard(stored, 1) == [("I" if n == 1 else "U", 7, n)]
            assert heard(live, 1) == [("I" if n == 1 else "U", 1, 5 * n)]


def test_a_reader_who_is_slow_holds_up_nobody_and_misses_nothing(bank: Any) -> None:
    with bank.subscribe("red") as slow, bank.subscribe("red") as quick:
        for acct in range(30):
            pay(bank, acct, -1)
            if acct % 10 == 0:
                assert heard(quick, 1)
        bank.wait("red", scn_now(bank))
        assert heard(slow, 30) == [("I", acct, -1) for acct in range(30)]


# Snapshots


def test_a_snapshot_as_of_a_commit_is_followed_by_what_changed_after_it(bank: Any) -> None:
    bank.sql(
        "CREATE MATERIALIZED VIEW sums WITH (key = 'acct') AS SELECT acct, sum(amt) AS amt FROM payments GROUP BY acct"
    )
    scns = list[int]()
    for acct, amt in ((1, -5), (2, -6), (1, -1)):
        scns.append(pay(bank, acct, amt))
        rows(bank, "SELECT * FROM sums")
    bank.wait("red", scns[-1])
    for name in ("red", "sums"):
        with bank.subscribe(name, snapshot=True, after=scns[0]) as feed:
            assert heard(feed, 1) == [("I", 1, -5)]
            assert heard(feed, 2) == [("I", 2, -6), ("U", 1, -6)]
        with bank.subscribe(name, snapshot=True, after=scns[1]) as feed:
            assert sorted(heard(feed, 2)) == [("I", 1, -5), ("I", 2, -6)]
            assert heard(feed, 1) == [("U", 1, -6)]
    result = bank.sql(f"SUBSCRIBE TO red WITH (snapshot) AS OF SCN {scns[0]}")
    result.changes.close()
    assert [row[-2:] for row in result.fetchall()] == [(1, -5), (2, -6), (1, -6)]
    assert "no longer kept" in str(fault(lambda: bank.subscribe("red", snapshot=True, after=1)))


def test_net_changes_do_not_follow_a_snapshot_that_lies_within_one_of_them(bank: Any) -> None:
    bank.sql("CREATE CONTINUOUS QUERY all_paid COMPUTE BATCHED ON DEMAND AS SELECT acct, amt FROM payments")
    scn = pay(bank, 1, 1)
    pay(bank, 1, 2)
    bank.sql("SELECT cq_recompute('all_paid')").fetchall()
    error = fault(lambda: bank.subscribe("all_paid", snapshot=True, after=scn))
    assert "hands out net changes" in str(error) and "Leave the SCN out" in str(error)


# Readers who are slow


def test_what_waits_for_a_reader_is_handed_out_in_pieces(bank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bank.sql("CREATE MATERIALIZED VIEW paid WITH (key = 'acct') AS SELECT acct, amt FROM payments")
    bank.sql("INSERT INTO payments VALUES (1, -1), (2, -2), (3, -3), (4, -4), (5, -5)")
    bank.wait("red", scn_now(bank))
    monkeypatch.setattr("midstream.serving.subscriptions._MANY", 2)
    for name in ("red", "paid"):
        with bank.subscribe(name, snapshot=True) as feed:
            pieces = [feed.poll() for _ in range(4)]
            assert [len(piece) for piece in pieces] == [2, 2, 1, 0]
            assert sorted(change.row["acct"] for piece in pieces for change in piece) == [1, 2, 3, 4, 5]
    with bank.subscribe("paid") as feed:
        for acct in (6, 7, 8):
            pay(bank, acct, 1)
            rows(bank, "SELECT * FROM paid")
        assert [[change.row["acct"] for change in feed.poll()] for _ in range(3)] == [[6, 7], [8], []]


def test_who_listens_and_does_not_read_is_told_of_the_gap(bank: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.serving.subscriptions._MANY", 3)
    bank.sql("CREATE TRIGGER tell ON red FOR EACH ROW NOTIFY red_light")
    with bank.listen("red_light") as slow, bank.listen("red_light") as quick:
        bank.sql("INSERT INTO payments VALUES (1, -1), (2, -2)")
        assert len(heard(quick, 2)) == 2
        bank.sql("INSERT INTO payments VALUES (3, -3), (4, -4)")
        assert len(heard(quick, 2)) == 2
        assert len(heard(slow, 3)) == 3
        error = fault(lambda: slow.poll(timeout=1))
        assert error.sqlstate == "53400" and 'channel "red_light" told more than was read' in str(error)


# Queues


def test_a_queue_that_is_full_stops_its_query_and_goes_on_when_it_was_read(bank: Any) -> None:
    bank.sql("CREATE CONTINUOUS QUERY waits COMPUTE ON COMMIT DESTINATION QUEUE q AS SELECT acct, amt FROM payments")
    bank.sql("SELECT * FROM dequeue('q', 'reader')").fetchall()
    bank.sql("SET max_queue = 3")
    for acct in range(3):
        bank.wait("waits", pay(bank, acct, 1))
    last = pay(bank, 3, 1)
    error = fault(lambda: bank.wait("waits", last))
    assert 'queue "q" is full' in str(error) and "max_queue is 3" in str(error)
    assert pay(bank, 4, 1) > last, "those who commit are not concerned"
    assert [row[:2] for row in bank.sql("SELECT * FROM dequeue('q', 'reader')").fetchall()] == [
        (n, 1) for n in range(3)
    ]
    bank.sql("ALTER CONTINUOUS QUERY waits ACTIVATE")
    bank.wait("waits", scn_now(bank))
    assert [row[:2] for row in bank.sql("SELECT * FROM dequeue('q', 'reader')").fetchall()] == [(3, 1), (4, 1)]


# Rows that come with those that they refer to


@pytest.mark.parametrize("units", ["on", "off", "auto"])
def test_lines_of_new_and_of_older_orders(bank: Any, units: str) -> None:
    bank.sql(f"SET foreign_key_units = '{units}'")
    bank.sql("CREATE TABLE orders (id int PRIMARY KEY, who text)")
    bank.sql("CREATE TABLE lines (order_id int REFERENCES orders (id) ON DELETE CASCADE, item text)")
    bank.sql("INSERT INTO orders VALUES (1, 'Ann')")
    query = "SELECT who, item FROM orders JOIN lines ON order_id = id"
    bank.sql(f"CREATE CONTINUOUS QUERY items COMPUTE ON COMMIT AS {query}")
    with bank.subscribe("items") as feed:
        told: list[Any] = []
        for lines in ((2, 2), (1,), (3, 1, 3), (1, 2, 3)):
            with bank.session() as session:
                session.sql("BEGIN")
                for order in sorted(set(lines)):
                    if not rows(session, f"SELECT 1 FROM orders WHERE id = {order}"):
                        session.sql(f"INSERT INTO orders VALUES ({order}, 'who {order}')")
                for place, order in enumerate(lines):
                    session.sql(f"INSERT INTO lines VALUES ({order}, 'item {place}')")
                session.sql("COMMIT")
            told += heard(feed, len(lines))
        assert sorted(told) == sorted(("I", *row) for row in rows(bank, query))
        for gone in ("DELETE FROM orders WHERE id = 2", "DELETE FROM orders WHERE id = 3; DELETE FROM lines"):
            before = rows(bank, query)
            bank.sql(f"BEGIN; {gone}; COMMIT")
            went = Counter(before) - Counter(rows(bank, query))
            assert sorted(heard(feed, went.total())) == sorted(("D", *row) for row in went.elements())


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("SELECT cq_recompute('red') + 1", "Call it by itself: SELECT cq_recompute('query')."),
        ("SELECT 1 FROM payments WHERE unsubscribe('q', 'r')", "Call it by itself"),
        ("SELECT dequeue('q', 'r')", "It stands in FROM"),
    ],
)
def test_what_does_something_is_no_part_of_a_query(bank: Any, query: str, hint: str) -> None:
    error = fault(lambda: bank.sql(query))
    assert "does something, and cannot be part of a query" in str(error) and hint in str(error)
