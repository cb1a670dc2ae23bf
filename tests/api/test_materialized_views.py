"""Materialized views over tables through the Python interface: when they are up to date, what they tell and refuse.

That they answer what their queries answer is in `tests/laws/test_changes.py`; here are the statements one by one.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import fault, in_threads, refuses, rows, wait_for
from banking import changes_of

TOTALS = "SELECT uid, count(*) AS n, sum(price) AS price FROM orders GROUP BY uid"
PATIENCE = 30.0


@pytest.fixture
def shop(db: Any) -> Any:
    db.sql("CREATE TABLE users (id bigint PRIMARY KEY, name text, region text)")
    db.sql(
        "CREATE TABLE orders (oid bigint PRIMARY KEY, uid bigint REFERENCES users (id) ON DELETE CASCADE, price int)"
    )
    db.sql("INSERT INTO users VALUES (1, 'Ann', 'north'), (2, 'Bob', 'south')")
    db.sql("INSERT INTO orders VALUES (10, 1, 5), (11, 1, 7), (12, 2, 1)")
    return db


def changes(db: Any, view: str, first: int, last: int) -> Counter[tuple[Any, ...]]:
    """Kind, SCN and row of each change."""
    found = db.sql(f"SELECT * FROM {view} CHANGES FROM SCN {first} TO SCN {last}").arrow().to_pylist()
    return Counter((row.pop("_change_type"), row.pop("_commit_version"), tuple(row.values())) for row in found)


# What a read sees


def test_a_read_sees_every_commit_before_it(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]
    shop.sql("UPDATE orders SET uid = 2 WHERE oid = 10")
    assert rows(shop, "SELECT * FROM totals WHERE price > 8") == [(2, 3, 15)]
    shop.sql("DELETE FROM users WHERE id = 2")
    assert rows(shop, "SELECT * FROM totals") == [(1, 1, 7)]


def test_a_view_over_an_empty_table_is_empty_and_an_aggregate_is_not(shop: Any) -> None:
    shop.sql("DELETE FROM orders")
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE MATERIALIZED VIEW all_in_all AS SELECT count(*) AS n, sum(price) AS price FROM orders")
    assert rows(shop, "SELECT * FROM totals") == []
    assert rows(shop, "SELECT * FROM all_in_all") == [(0, None)]
    shop.sql("INSERT INTO orders VALUES (1, 1, 3)")
    assert rows(shop, "SELECT * FROM totals") == [(1, 1, 3)]
    assert rows(shop, "SELECT * FROM all_in_all") == [(1, 3)]
    shop.sql("DELETE FROM orders")
    assert rows(shop, "SELECT * FROM totals") == []
    assert rows(shop, "SELECT * FROM all_in_all") == [(0, None)]


def test_a_view_may_read_others_and_be_joined(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql(
        "CREATE MATERIALIZED VIEW by_region AS SELECT u.region, sum(t.price) AS price "
        "FROM totals t JOIN users u ON u.id = t.uid GROUP BY u.region"
    )
    shop.sql("CREATE VIEW rich AS SELECT region FROM by_region WHERE price > 10")
    assert rows(shop, "SELECT * FROM by_region") == [("north", 12), ("south", 1)]
    shop.sql("BEGIN; INSERT INTO orders VALUES (13, 2, 20); UPDATE users SET region = 'east' WHERE id = 1; COMMIT")
    assert rows(shop, "SELECT * FROM by_region") == [("east", 12), ("south", 21)]
    assert rows(shop, "SELECT * FROM rich") == [("east",), ("south",)]
    assert rows(shop, "SELECT u.name, t.n FROM totals t, users u WHERE u.id = t.uid") == [("Ann", 2), ("Bob", 2)]


def test_intervals_are_stored_and_change(db: Any) -> None:
    db.sql("CREATE TABLE e (id int PRIMARY KEY, iv interval, ivs interval[])")
    db.sql("CREATE MATERIALIZED VIEW me AS SELECT id, iv, ivs FROM e")
    day = timedelta(days=1)
    db.sql("INSERT INTO e VALUES (1, INTERVAL '1 day', NULL), (2, INTERVAL '2 days', ARRAY[INTERVAL '1 day'])")
    assert rows(db, "SELECT * FROM me") == [(1, day, None), (2, 2 * day, [day])]
    db.sql("BEGIN; DELETE FROM e WHERE id = 1; UPDATE e SET id = id + 10; COMMIT")
    assert rows(db, "SELECT * FROM e") == rows(db, "SELECT * FROM me") == [(12, 2 * day, [day])]
    with db.session() as session:
        session.sql("BEGIN")
        session.sql("UPDATE e SET iv = iv * 2")
        session.sql("INSERT INTO e VALUES (5, INTERVAL '1 month', NULL), (6, INTERVAL '3 days', NULL)")
        session.sql("DELETE FROM e WHERE id = 6")
        assert rows(session, "SELECT * FROM e") == [(12, 4 * day, [day]), (5, "1 mon", None)]
        session.sql("COMMIT")
    assert rows(db, "SELECT * FROM me") == [(12, 4 * day, [day]), (5, "1 mon", None)]


def test_all_that_a_statement_reads_is_of_one_commit(shop: Any) -> None:
    shop.sql("CREATE MATERIALIZED VIEW all_in_all AS SELECT count(*) AS n FROM orders")
    done: list[bool] = []

    def write() -> None:
        with shop.session() as session:
            for number in range(100, 115):
                session.sql(f"INSERT INTO orders VALUES ({number}, 1, 1)")
        done.append(True)

    def read() -> None:
        with shop.session() as session:
            while not done:
                [(kept, counted)] = session.sql(
                    "SELECT (SELECT n FROM all_in_all), (SELECT count(*) FROM orders)"
                ).fetchall()
                assert kept == counted

    in_threads([write, read])
    assert rows(shop, "SELECT * FROM all_in_all") == [(18,)]


def test_a_view_made_while_rows_come_loses_and_doubles_none(shop: Any) -> None:
    made: list[bool] = []

    def write(first: int) -> None:
        with shop.session() as session:
            number = first
            while not made or number < first + 5:
                session.sql(f"INSERT INTO orders VALUES ({number}, 1, 1)")
                number += 1

    def make() -> None:
        with shop.session() as session:
            for n in range(3):
                session.sql(f"CREATE MATERIALIZED VIEW seen_{n} AS SELECT oid FROM orders WHERE oid >= 1000")
        made.append(True)

    in_threads([lambda: write(1000), lambda: write(5000), make])
    there = rows(shop, "SELECT oid FROM orders WHERE oid >= 1000")
    for n in range(3):
        assert rows(shop, f"SELECT oid FROM seen_{n}") == there


def test_a_transaction_sees_its_own_changes_in_a_view_that_was_read_before(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]
    shop.sql("BEGIN; INSERT INTO orders VALUES (13, 2, 9)")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]
    shop.sql("ROLLBACK")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]


WRITES = {
    "INSERT INTO seen SELECT uid, n FROM totals": [(1, 3), (2, 1)],
    "UPDATE seen SET n = totals.n FROM totals WHERE totals.uid = seen.uid": [(1, 3)],
    "DELETE FROM seen WHERE uid IN (SELECT uid FROM totals WHERE n = 3)": [],
    "MERGE INTO seen USING totals ON totals.uid = seen.uid WHEN MATCHED THEN UPDATE SET n = totals.n "
    "WHEN NOT MATCHED THEN INSERT VALUES (totals.uid, totals.n)": [(1, 3), (2, 1)],
    "DROP TABLE seen; CREATE TABLE seen AS SELECT uid, n FROM totals": [(1, 3), (2, 1)],
}


@pytest.mark.parametrize("opening", ["", "BEGIN"])
@pytest.mark.parametrize("write", WRITES)
def test_what_is_written_from_a_view_is_its_answer_at_that_commit(
    shop: Any, monkeypatch: pytest.MonkeyPatch, write: str, opening: str
) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE TABLE seen (uid bigint, n bigint)")
    if not write.startswith("INSERT"):
        shop.sql("INSERT INTO seen VALUES (1, 0)")
    # Nobody refreshes the view in the background.
    monkeypatch.setattr(shop._store.queries, "wake", lambda: None)
    shop.sql(opening)
    shop.sql("INSERT INTO orders VALUES (13, 1, 9)")
    shop.sql(write)
    assert rows(shop, "SELECT uid, n FROM seen") == WRITES[write]
    if opening:
        shop.sql("COMMIT")
    assert rows(shop, "SELECT uid, n FROM seen") == WRITES[write]


def test_a_continuous_view_reads_the_answer_of_its_own_scn(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}; CREATE STREAM clicks (uid bigint)")
    # Nobody refreshes the view in the background.
    monkeypatch.setattr(shop._store.queries, "wake", lambda: None)
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    shop.sql(
        "CREATE VIEW frozen AS SELECT t.uid, sum(t.n) AS n FROM clicks c JOIN totals t ON t.uid = c.uid GROUP BY t.uid"
    )
    shop.sql(
        "CREATE VIEW living AS SELECT c.uid, c.clicks, t.n FROM "
        "(SELECT uid, count(*) AS clicks FROM clicks GROUP BY uid) c JOIN totals t ON t.uid = c.uid"
    )
    shop.sql("INSERT INTO clicks VALUES (1), (2)")
    assert rows(shop, "SELECT * FROM frozen") == [(1, 2), (2, 2)]
    assert rows(shop, "SELECT * FROM living") == [(1, 1, 2), (2, 1, 2)]
    shop.sql("INSERT INTO orders VALUES (14, 2, 9)")
    assert rows(shop, "SELECT * FROM frozen") == [(1, 2), (2, 2)]
    assert rows(shop, "SELECT l.*, t.n FROM living l JOIN totals t ON t.uid = l.uid") == [(1, 1, 2, 2), (2, 1, 3, 3)]


def test_a_copy_of_a_view_has_what_the_transaction_changed(shop: Any, tmp_path: Path) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("BEGIN; INSERT INTO orders VALUES (13, 2, 9)")
    shop.sql(f"COPY (SELECT uid, n FROM totals ORDER BY uid) TO '{tmp_path}/totals.csv' CSV")
    shop.sql("ROLLBACK")
    assert (tmp_path / "totals.csv").read_text() == "1,2\n2,2\n"


@pytest.mark.parametrize("source", ["totals CHANGES FROM SCN 5 TO SCN 5", "clog_totals"])
def test_changes_of_a_view_are_not_read_inside_a_transaction(shop: Any, source: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("BEGIN")
    error = fault(lambda: shop.sql(f"SELECT * FROM {source}"))
    shop.sql("ROLLBACK")
    assert (error.sqlstate, error.position) == ("25001", (1, 15))
    assert rows(shop, "SELECT uid, n FROM clog_totals") == [(1, 2), (2, 1)]


def test_a_read_of_a_view_that_is_replaced_meanwhile_reads_the_new_one(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE VIEW also AS SELECT uid, n FROM totals")
    materialized = shop._store.queries.materialized
    bring = materialized.bring

    def replaced_first(*arguments: Any) -> Any:
        monkeypatch.undo()
        shop.session().sql(f"CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT uid, n + 1 AS n FROM ({TOTALS})")
        return bring(*arguments)

    monkeypatch.setattr(materialized, "bring", replaced_first)
    assert rows(shop, "SELECT * FROM also") == [(1, 3), (2, 2)]


def test_waiting_takes_views(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.wait("totals", shop.sql("INSERT INTO orders VALUES (13, 2, 9)").scn)
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]


def test_views_are_there_after_a_restart(database: Any, tmp_path: Path) -> None:
    folder = str(tmp_path / "again.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE TABLE orders (oid bigint PRIMARY KEY, uid bigint, price int)")
        db.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
        db.sql("INSERT INTO orders VALUES (1, 1, 5)")
        assert rows(db, "SELECT * FROM totals") == [(1, 1, 5)]
        db.sql("INSERT INTO orders VALUES (2, 1, 5)")
    with midstream.connect(folder) as db:
        assert rows(db, "SELECT * FROM totals") == [(1, 2, 10)]
        db.sql("DELETE FROM orders WHERE oid = 1")
        assert rows(db, "SELECT * FROM totals") == [(1, 1, 5)]


# When they are refreshed


def test_on_demand_a_view_stays_as_it_is_until_it_is_refreshed(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (refresh = 'on demand') AS {TOTALS}")
    scn = shop.sql("INSERT INTO orders VALUES (13, 2, 9)").scn
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]
    refreshed = shop.sql("REFRESH MATERIALIZED VIEW totals")
    [(reached,)] = refreshed.fetchall()
    assert reached >= scn
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]
    changes = f"SELECT uid, _commit_version FROM totals CHANGES FROM SCN {refreshed.scn} TO SCN {refreshed.scn}"
    assert {tuple(row) for row in shop.sql(changes).fetchall()} == {(2, refreshed.scn)}, "it is a commit of its own"


def test_refresh_full_runs_the_query_again(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (refresh = 'on demand') AS {TOTALS}")
    scn = shop.sql("INSERT INTO orders VALUES (13, 2, 9)").scn
    [(reached,)] = shop.sql("REFRESH MATERIALIZED VIEW totals FULL").fetchall()
    assert reached >= scn
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]
    shop.sql("DELETE FROM orders WHERE uid = 2")
    shop.sql("REFRESH MATERIALIZED VIEW totals").fetchall()
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12)]


@pytest.mark.parametrize("refresh", ["on commit", "full"])
def test_these_are_up_to_date_at_every_read(shop: Any, refresh: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (refresh = '{refresh}') AS {TOTALS}")
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]
    [(reached,)] = shop.sql("REFRESH MATERIALIZED VIEW totals").fetchall()
    assert reached > 0


def test_a_view_with_a_period_is_refreshed_by_itself(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (refresh = '1 second') AS {TOTALS}")
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    wait_for(lambda: rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)], PATIENCE)


def test_a_view_with_a_long_period_waits_for_it_unless_it_is_asked(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (refresh = '10 minutes') AS {TOTALS}")
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]
    shop.sql("REFRESH MATERIALIZED VIEW totals").fetchall()
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]


@pytest.mark.parametrize(
    ("options", "word"),
    [("refresh = 'sometimes'", "sometimes"), ("refreshing = 'full'", "refreshing"), ("refresh = '-1 minute'", "")],
)
def test_options_that_mean_nothing_are_refused(shop: Any, options: str, word: str) -> None:
    refuses(shop, f"CREATE MATERIALIZED VIEW totals WITH ({options}) AS {TOTALS}", word)


def test_what_cannot_be_kept_by_changes_is_refused_under_incremental(shop: Any) -> None:
    query = "SELECT oid, price FROM orders ORDER BY price DESC, oid LIMIT 2"
    refuses(shop, f"CREATE MATERIALIZED VIEW best WITH (refresh = 'incremental') AS {query}", "LIMIT")
    shop.sql(f"CREATE MATERIALIZED VIEW best AS {query}")
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    assert rows(shop, "SELECT * FROM best") == [(11, 7), (13, 9)]
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (refresh = 'incremental') AS {TOTALS}")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 2, 10)]


def test_explain_names_what_cannot_be_kept_by_changes(shop: Any) -> None:
    def plan(query: str) -> str:
        return repr(shop.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").fetchall()).lower()

    assert "limit" in plan("SELECT oid, price FROM orders ORDER BY price DESC, oid LIMIT 2")
    assert "limit" not in plan(TOTALS)
    assert rows(shop, "SHOW VIEWS") == []


@pytest.mark.parametrize("name", ["nobody", "users", "plain"])
def test_only_a_materialized_view_can_be_refreshed(shop: Any, name: str) -> None:
    shop.sql("CREATE VIEW plain AS SELECT id FROM users")
    refuses(shop, f"REFRESH MATERIALIZED VIEW {name}", name)


# Their changes


def test_changes_of_a_view_include_both_ends(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")

    def commit(statement: str) -> int:
        """And waits for the view, which may take several commits as one when they come fast."""
        scn = int(shop.sql(statement).scn)
        shop.wait("totals", scn)
        return scn

    one = commit("INSERT INTO orders VALUES (13, 2, 9)")
    two = commit("DELETE FROM orders WHERE uid = 1")
    three = commit("INSERT INTO orders VALUES (14, 1, 4)")

    def net(first: int, last: int) -> Counter[tuple[Any, ...]]:
        told = changes(shop, "totals", first, last)
        plus = Counter(row for kind, _, row in told.elements() if kind in ("insert", "update_postimage"))
        minus = Counter(row for kind, _, row in told.elements() if kind in ("delete", "update_preimage"))
        assert all(first <= scn <= last for _, scn, _ in told)
        plus.subtract(minus)
        return Counter({row: count for row, count in plus.items() if count})

    assert net(one, one) == {(2, 2, 10): 1, (2, 1, 1): -1}
    assert net(two, two) == {(1, 2, 12): -1}
    assert net(two, three) == {(1, 2, 12): -1, (1, 1, 4): 1}
    assert net(one, three) == {(2, 2, 10): 1, (2, 1, 1): -1, (1, 2, 12): -1, (1, 1, 4): 1}


@pytest.mark.parametrize("bounds", ["FROM SCN 9999990 TO SCN 9999999", "FROM SCN 5 TO SCN 2", "FROM SCN -1 TO SCN 2"])
def test_changes_need_commits_that_were_there(shop: Any, bounds: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    refuses(shop, f"SELECT * FROM totals CHANGES {bounds}")


def test_changes_before_the_view_was_made_are_not_known(shop: Any) -> None:
    before = shop.sql("INSERT INTO orders VALUES (13, 2, 9)").scn
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    refuses(shop, f"SELECT * FROM totals CHANGES FROM SCN {before} TO SCN {before}", "totals")


def test_a_plain_view_has_no_changes(shop: Any) -> None:
    shop.sql("CREATE VIEW plain AS SELECT id FROM users")
    refuses(shop, "SELECT * FROM plain CHANGES FROM SCN 1 TO SCN 2", "plain")


def test_subscribers_of_a_view_see_inserts_and_deletes(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    with shop.subscribe("totals") as feed:
        shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
        assert sorted(changes_of(feed, 2)) == [("D", (2, 1, 1), (2, 1, 1)), ("I", (2, 2, 10), None)]


def test_subscribers_of_a_view_with_a_key_see_updates(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (key = 'uid') AS {TOTALS}")
    with shop.subscribe("totals", snapshot=True) as feed:
        assert sorted(changes_of(feed, 2)) == [("I", (1, 2, 12), None), ("I", (2, 1, 1), None)]
        shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
        assert changes_of(feed, 1) == [("U", (2, 2, 10), (2, 1, 1))]


# Making, replacing, dropping, writing


def test_or_replace_begins_anew(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT region, count(*) AS n FROM users GROUP BY region")
    assert rows(shop, "SELECT * FROM totals") == [("north", 1), ("south", 1)]
    shop.sql("DELETE FROM users WHERE id = 1")
    assert rows(shop, "SELECT * FROM totals") == [("south", 1)]


def test_replacing_is_refused_if_a_reader_would_break(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE MATERIALIZED VIEW most AS SELECT max(price) AS price FROM totals")
    refuses(shop, "CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT id FROM users", "most")
    assert rows(shop, "SELECT * FROM most") == [(12,)]


@pytest.mark.parametrize("through", ["totals", "most", "named"])
def test_a_view_that_would_read_itself_through_others_is_refused(shop: Any, through: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE MATERIALIZED VIEW most AS SELECT uid, price FROM totals; CREATE VIEW named AS SELECT * FROM most")
    error = refuses(shop, f"CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT uid, 1 AS n, price FROM {through}")
    assert (error.sqlstate, error.position) == ("42P17", (1, 78))
    assert error.message == 'view "totals" would read itself'
    assert rows(shop, "SELECT * FROM named") == [(1, 12), (2, 1)]


@pytest.mark.parametrize("made_anew", ["CREATE OR REPLACE", "DROP VIEW totals; CREATE"])
def test_changes_are_not_told_across_a_view_that_was_made_anew(shop: Any, made_anew: str) -> None:
    first = shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}").scn
    last = shop.sql(f"{made_anew} MATERIALIZED VIEW totals AS SELECT oid FROM orders").scn
    error = refuses(shop, f"SELECT * FROM totals CHANGES FROM SCN {first} TO SCN {last}", "made anew")
    assert (error.sqlstate, error.position) == ("72000", (1, 15))
    assert len(changes(shop, "totals", last, last)) == 3


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ('"Region, old"', ["Region, old"]),
        (' "Region, old" , N', ["Region, old", "n"]),
        ("N", ["n"]),
    ],
)
def test_names_in_a_key_are_read_as_sql_reads_names(shop: Any, key: str, columns: list[str]) -> None:
    query = """SELECT region AS "Region, old", sum(id) AS n FROM users GROUP BY region"""
    shop.sql(f"CREATE MATERIALIZED VIEW per_region WITH (key = '{key}') AS {query}")
    assert [row[0] for row in shop.sql("DESCRIBE per_region").fetchall() if row[2]] == columns


def test_readers_of_a_replaced_view_read_the_new_one(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE MATERIALIZED VIEW most AS SELECT max(price) AS price FROM totals")
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT oid, CAST(price AS bigint) AS price FROM orders")
    assert rows(shop, "SELECT * FROM most") == [(7,)]
    shop.sql("INSERT INTO orders VALUES (13, 2, 9)")
    assert rows(shop, "SELECT * FROM most") == [(9,)]


def test_what_others_read_is_not_dropped_without_cascade(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("CREATE MATERIALIZED VIEW most AS SELECT max(price) AS price FROM totals")
    shop.sql("CREATE CONTINUOUS QUERY watch COMPUTE ON COMMIT AS SELECT uid, price FROM totals")
    refuses(shop, "DROP TABLE orders", "totals")
    refuses(shop, "DROP VIEW totals", "most", "watch")
    shop.sql("DROP VIEW totals CASCADE")
    assert rows(shop, "SHOW VIEWS") == []
    assert rows(shop, "SHOW CONTINUOUS QUERIES") == []
    refuses(shop, "SELECT * FROM totals", "totals")
    shop.sql("DROP VIEW IF EXISTS totals")


def test_drop_materialized_view_says_it_aloud(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    shop.sql("DROP MATERIALIZED VIEW totals")
    assert rows(shop, "SHOW VIEWS") == []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO totals VALUES (1, 2, 3)",
        "UPDATE totals SET n = 0",
        "DELETE FROM totals",
        "MERGE INTO totals USING users ON users.id = totals.uid WHEN MATCHED THEN DELETE",
        "COPY totals FROM 'nowhere.csv'",
        "EXPLAIN DELETE FROM totals",
    ],
)
def test_a_view_is_not_written(shop: Any, statement: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    refuses(shop, statement, "totals")
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]


@pytest.mark.parametrize(
    "alteration",
    [
        "ADD COLUMN z int",
        "DROP COLUMN n",
        "RENAME COLUMN n TO m",
        "RENAME TO others",
        "ADD PRIMARY KEY (uid)",
        "ALTER COLUMN n SET DEFAULT 1",
        "ALTER COLUMN n SET NOT NULL",
    ],
)
def test_a_view_is_not_altered_as_a_table(shop: Any, alteration: str) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    error = refuses(shop, f"ALTER TABLE totals {alteration}", "materialized view")
    assert (error.sqlstate, error.position) == ("42809", (1, 13))
    assert rows(shop, "SELECT * FROM totals") == [(1, 2, 12), (2, 1, 1)]


def test_rows_of_tables_do_not_refer_to_those_of_a_view(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals WITH (key = 'uid') AS {TOTALS}")
    refuses(shop, "CREATE TABLE notes (uid bigint REFERENCES totals (uid))", "not a table")
    fault(lambda: shop.insert("totals", [(1, 2, 3)]))


def test_a_name_is_taken_once(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    assert refuses(shop, f"CREATE MATERIALIZED VIEW totals AS {TOTALS}", "totals").sqlstate == "42P07"
    assert refuses(shop, "CREATE MATERIALIZED VIEW users AS SELECT 1 AS one", "users").sqlstate == "42P07"


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT nothing FROM orders", "nothing"),
        ("SELECT oid FROM nowhere", "nowhere"),
        ("SELECT oid, oid FROM orders", "oid"),
    ],
)
def test_a_view_that_means_nothing_is_refused(shop: Any, query: str, word: str) -> None:
    refuses(shop, f"CREATE MATERIALIZED VIEW v AS {query}", word)


def test_a_query_that_fails_at_creation_leaves_nothing(shop: Any) -> None:
    refuses(shop, "CREATE MATERIALIZED VIEW v AS SELECT oid, 1 / (price - 5) AS x FROM orders")


def test_show_and_describe_tell_of_views(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    assert [row[0] for row in shop.sql("SHOW VIEWS").fetchall()] == ["totals"]
    described = shop.sql("DESCRIBE totals").fetchall()
    assert [row[:2] for row in described][:3] == [("uid", "bigint"), ("n", "bigint"), ("price", "bigint")]
    assert "orders" in repr(shop.sql("EXPLAIN VIEW totals").fetchall())
