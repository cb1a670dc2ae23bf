"""Continuous queries over tables that grow, streams, views, and rows that are equal by order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from asking import fault, refuses, rows
from banking import changes_of, heard_from, pay

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
