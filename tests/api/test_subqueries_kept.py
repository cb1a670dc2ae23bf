"""Queries within queries, wherever they may stand: a change of their tables comes to materialized views and continuous
queries, and is what it makes of the answer."""

from __future__ import annotations

from typing import Any

import pytest

from asking import fault, rows

NESTED = (
    "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND NOT EXISTS "
    "(SELECT 1 FROM c WHERE c.k = a.k AND c.j = b.j))",
    "SELECT a.id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.j > "
    "(SELECT max(c.j) FROM c WHERE c.k = a.v))",
    "SELECT a.id, (SELECT max(b.j + (SELECT sum(c.j) FROM c)) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT a.id, (SELECT (SELECT max(c.j) FROM c WHERE c.k = b.k) FROM b WHERE b.id = a.id) AS n FROM a",
    "SELECT a.id, (SELECT sum(b.j) FROM b WHERE b.k = a.k HAVING sum(b.j) >= (SELECT max(c.j) FROM c)) AS n FROM a",
    "SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.j NOT IN "
    "(SELECT c.j FROM c WHERE c.k = a.v))",
)
BESIDE_WINDOWS = (
    "SELECT a.id, (SELECT count(*) FROM b WHERE b.k = a.k) AS n, row_number() OVER (PARTITION BY a.k ORDER BY a.id) "
    "AS r FROM a",
    "SELECT a.id, a.k IN (SELECT b.j FROM b) AS found, count(*) OVER (PARTITION BY a.v) AS n FROM a",
    "SELECT a.id, sum((SELECT count(*) FROM b WHERE b.k = a.k)) OVER (PARTITION BY a.v) AS n FROM a",
    "SELECT a.id, rank() OVER (PARTITION BY a.v ORDER BY (SELECT count(*) FROM b WHERE b.k = a.k)) AS n FROM a",
    "SELECT DISTINCT EXISTS (SELECT 1 FROM b WHERE b.k = a.k) AS found, count(*) OVER (PARTITION BY a.v) AS n FROM a",
)
IN_OUTER_JOINS = (
    "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.k = a.k AND EXISTS (SELECT 1 FROM c WHERE c.j = b.j)",
    "SELECT a.id, b.id AS bid FROM a LEFT JOIN b ON b.k = a.k AND b.j = (SELECT max(c.j) FROM c WHERE c.k = b.k)",
    "SELECT a.id, b.id AS bid FROM a RIGHT JOIN b ON b.k = a.k AND EXISTS (SELECT 1 FROM c WHERE c.j = b.j)",
    "SELECT a.id, b.id AS bid FROM a FULL JOIN b ON b.k = a.k AND b.j IN (SELECT c.j FROM c)",
)
ABOVE_GROUPS = (
    "SELECT k, count(*) AS n FROM a GROUP BY k HAVING count(*) > (SELECT c.j FROM c WHERE c.k = a.k AND c.j = 1)",
    "SELECT k, sum(v) AS n FROM a GROUP BY k HAVING k IN (SELECT c.k FROM c)",
    "SELECT k, count(*) AS n FROM a GROUP BY k HAVING EXISTS (SELECT 1 FROM c WHERE c.k = a.k)",
    "SELECT k, avg(v) AS n FROM a GROUP BY k HAVING sum(v) > (SELECT max(c.j) FROM c)",
    "SELECT k, count(*) AS n, (SELECT count(*) FROM c WHERE c.k = a.k) AS m FROM a GROUP BY k",
    "SELECT count(*) AS n, (SELECT count(*) FROM c) AS m FROM a",
    "SELECT k, count(*) AS n, grouping(k) AS g FROM a GROUP BY k",
)
IN_FUNCTIONS = (
    "SELECT s.i FROM generate_series(1, (SELECT max(c.j) FROM c)) AS s(i)",
    "SELECT a.id, s.i FROM a LEFT JOIN generate_series(1, (SELECT max(c.j) FROM c)) AS s(i) ON s.i = a.k",
)
SHAPES = {
    "nested": NESTED,
    "beside_windows": BESIDE_WINDOWS,
    "in_outer_joins": IN_OUTER_JOINS,
    "above_groups": ABOVE_GROUPS,
    "in_functions": IN_FUNCTIONS,
}
COMMITS = (
    "INSERT INTO c VALUES (1, 1), (20, 0)",
    "INSERT INTO b VALUES (3, 1, 2)",
    "UPDATE c SET j = 2 WHERE k = 20",
    "INSERT INTO a VALUES (3, 1, 20), (4, 3, 10)",
    "BEGIN; DELETE FROM c WHERE k = 1; UPDATE b SET k = 2 WHERE id = 1; COMMIT",
    "DELETE FROM b WHERE k = 2",
    "DELETE FROM c",
)


@pytest.fixture
def three(db: Any) -> Any:
    db.sql("CREATE TABLE a (id int PRIMARY KEY, k int, v int)")
    db.sql("CREATE TABLE b (id int PRIMARY KEY, k int, j int)")
    db.sql("CREATE TABLE c (k int, j int)")
    db.sql("INSERT INTO a VALUES (1, 1, 10), (2, 2, 20)")
    db.sql("INSERT INTO b VALUES (1, 1, 1), (2, 2, 1)")
    return db


@pytest.mark.parametrize("place", SHAPES)
def test_a_view_takes_in_what_changes_in_its_inner_queries(three: Any, place: str) -> None:
    for number, query in enumerate(SHAPES[place]):
        three.sql(f"CREATE MATERIALIZED VIEW m{number} AS {query}")
    for commit in COMMITS:
        three.sql(commit)
        for number, query in enumerate(SHAPES[place]):
            assert rows(three, f"SELECT * FROM m{number}") == rows(three, query), f"after {commit}: {query}"


def test_a_continuous_query_hands_out_what_changes_in_its_inner_queries(three: Any) -> None:
    queries = [NESTED[0], NESTED[5], IN_OUTER_JOINS[0], ABOVE_GROUPS[1]]
    for number, query in enumerate(queries):
        three.sql(f"CREATE CONTINUOUS QUERY q{number} COMPUTE ON COMMIT AS {query}")
    feeds = [three.subscribe(f"q{number}") for number in range(len(queries))]
    answers = [dict.fromkeys(rows(three, query), 1) for query in queries]
    for commit in COMMITS:
        scn = three.sql(commit).scn
        for number, (query, feed, answer) in enumerate(zip(queries, feeds, answers, strict=True)):
            three.wait(f"q{number}", scn)
            for change in feed.poll(timeout=0.01):
                if change.kind != "I":
                    del answer[tuple(change.old.values())]
                if change.kind != "D":
                    answer[tuple(change.row.values())] = 1
            assert set(answer) == set(rows(three, query)), f"after {commit}: {query}"
    for feed in feeds:
        feed.close()


def test_what_is_watched_by_keys_may_be_asked_to_be_incremental(three: Any) -> None:
    for number, query in enumerate([NESTED[0], *BESIDE_WINDOWS, *IN_OUTER_JOINS[:2]]):
        three.sql(f"CREATE MATERIALIZED VIEW m{number} WITH (refresh = 'incremental') AS {query}")


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (NESTED[1], "a scalar query meets its rows by no equality"),
        (NESTED[2], "a query within a scalar query changed"),
        (IN_OUTER_JOINS[2], "EXISTS meets its rows by no equality"),
        (ABOVE_GROUPS[0], "a query above the grouping changed"),
        (IN_FUNCTIONS[0], "a function in FROM reads a table that changed"),
    ],
)
def test_what_any_row_may_depend_on_is_refused_under_incremental(three: Any, query: str, reason: str) -> None:
    error = fault(lambda: three.sql(f"CREATE MATERIALIZED VIEW m WITH (refresh = 'incremental') AS {query}"))
    assert reason in str(error)


def test_a_constraint_that_came_later_says_nothing_of_the_rows_before_it(db: Any) -> None:
    db.sql("CREATE TABLE a (k int); CREATE TABLE c (k int)")
    db.sql("INSERT INTO a VALUES (1), (2); INSERT INTO c VALUES (1), (NULL)")
    query = "SELECT k FROM a WHERE k NOT IN (SELECT k FROM c)"
    db.sql(f"CREATE MATERIALIZED VIEW m WITH (refresh = 'on demand') AS {query}")
    db.sql("DELETE FROM c WHERE k IS NULL")
    db.sql("ALTER TABLE a ALTER COLUMN k SET NOT NULL; ALTER TABLE c ALTER COLUMN k SET NOT NULL")
    db.sql("REFRESH MATERIALIZED VIEW m")
    assert rows(db, "SELECT * FROM m") == rows(db, query) == [(2,)]


def test_spark_computes_what_changes_of_rows_with_scalar_queries(three: Any) -> None:
    query = "SELECT id, (SELECT max(j) FROM b WHERE b.k = a.k) AS n FROM a"
    three.sql("SET kernel = 'spark'")
    three.sql(f"CREATE MATERIALIZED VIEW m AS {query}")
    of_both = "BEGIN; INSERT INTO a VALUES (4, 2, 1); INSERT INTO b VALUES (9, 2, 5); COMMIT"
    of_one = ("INSERT INTO a VALUES (3, 1, 1)", "UPDATE b SET j = 7 WHERE id = 1", "DELETE FROM a WHERE id = 1")
    for commit in (*of_one, of_both):
        three.sql(commit)
        assert rows(three, "SELECT * FROM m") == rows(three, query), f"after {commit}"
