"""What is refused, in which words."""

from __future__ import annotations

import pytest

from midstream.errors import Error
from midstream.sql import parse, parse_expression, parse_one, parse_query

_TEXTS = {
    "SELECT a, FROM t": """\
ERROR:  syntax error at or near "FROM"
LINE 1: SELECT a, FROM t
                  ^""",
    "SELECT a FROM": """\
ERROR:  syntax error at end of input
LINE 1: SELECT a FROM
                     ^""",
    "SELECT * FROM `t`": """\
ERROR:  syntax error at or near "`"
LINE 1: SELECT * FROM `t`
                      ^
HINT:   Names are quoted with double quotes: "name".""",
    "SELECT * FROM other.t": """\
ERROR:  schema "other" does not exist
LINE 1: SELECT * FROM other.t
                      ^
DETAIL: The only schema is "public".""",
    "SELECT * FROM 'a.csv'": """\
ERROR:  syntax error at or near "'a.csv'"
LINE 1: SELECT * FROM 'a.csv'
                      ^
HINT:   Files are read with COPY table FROM 'path'.""",
    "SELECT 'abc": """\
ERROR:  unterminated quoted string at or near "'abc"
LINE 1: SELECT 'abc
               ^""",
    "INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING": """\
ERROR:  ON CONFLICT is not supported
LINE 1: INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING
                                 ^
HINT:   For a table, use MERGE INTO … USING … ON … WHEN NOT MATCHED THEN INSERT …. A stream has no keys.""",
    "DELETE FROM t RETURNING a": """\
ERROR:  RETURNING is not supported
LINE 1: DELETE FROM t RETURNING a
                      ^
HINT:   SELECT the rows in the same transaction.""",
    "SELECT * FROM t FOR UPDATE": """\
ERROR:  a locking clause (FOR UPDATE, FOR SHARE) is not supported
LINE 1: SELECT * FROM t FOR UPDATE
                        ^
DETAIL: Readers never wait for writers here; a write conflict ends in SQLSTATE 40001.
HINT:   Leave it out.""",
    "CREATE TEMP TABLE t (a int)": """\
ERROR:  CREATE TEMP is not supported
LINE 1: CREATE TEMP TABLE t (a int)
               ^
HINT:   Every table is kept; drop it when it is done with.""",
    "CREATE TABLE t (a int, A int)": """\
ERROR:  column "a" specified more than once
LINE 1: CREATE TABLE t (a int, A int)
                               ^""",
    "SELECT * FROM t LATERAL VIEW explode(a) x": """\
ERROR:  LATERAL VIEW is not supported
LINE 1: SELECT * FROM t LATERAL VIEW explode(a) x
                        ^
HINT:   Use CROSS JOIN LATERAL unnest(…) AS alias (column).""",
    "SELECT a FROM t LIMIT 1, 2": """\
ERROR:  LIMIT #,# syntax is not supported
LINE 1: SELECT a FROM t LIMIT 1, 2
                               ^
HINT:   Use separate LIMIT and OFFSET clauses.""",
    "SELECT * FROM s [WINDOW 5 ROWS SLIDE 1 MINUTE]": """\
ERROR:  a window is measured either in rows or in time, not in both
LINE 1: SELECT * FROM s [WINDOW 5 ROWS SLIDE 1 MINUTE]
                                             ^""",
    "SELECT * FROM s [WINDOW 1 MONTH]": """\
ERROR:  syntax error at or near "MONTH"
LINE 1: SELECT * FROM s [WINDOW 1 MONTH]
                                  ^
HINT:   A window is measured in ROWS, or in MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS.""",
    "SELECT * FROM s [WINDOW INTERVAL '10 minutes']": """\
ERROR:  syntax error at or near "INTERVAL"
LINE 1: SELECT * FROM s [WINDOW INTERVAL '10 minutes']
                                ^
HINT:   Write a number and a unit: 10 MINUTES, or 1000 ROWS.""",
    "SELECT * FROM s [WINDOW 10]": """\
ERROR:  syntax error at or near "]"
LINE 1: SELECT * FROM s [WINDOW 10]
                                  ^
HINT:   A window is measured in ROWS, or in MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS or WEEKS.""",
    "SELECT * FROM s [LANDMARK]": """\
ERROR:  syntax error at or near "]"
LINE 1: SELECT * FROM s [LANDMARK]
                                 ^
HINT:   A landmark says how often it gives a result: [LANDMARK SLIDE 1 HOUR].""",
    "SELECT * FROM s x [WINDOW 5 ROWS]": """\
ERROR:  syntax error at or near "["
LINE 1: SELECT * FROM s x [WINDOW 5 ROWS]
                          ^
HINT:   The alias stands behind the bracket: FROM stream [WINDOW …] AS alias.""",
}


@pytest.mark.parametrize("text", _TEXTS)
def test_an_error_says_what_where_and_what_to_do(text: str) -> None:
    with pytest.raises(Error) as caught:
        parse(text)
    assert str(caught.value) == _TEXTS[text]


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ("", None),
        (" ; -- nothing\n;", None),
        ("GRANT SELECT ON t TO x", "0A000"),
        ("LOCK TABLE t", "0A000"),
        ("CREATE INDEX i ON t (a)", "0A000"),
        ("CREATE UNIQUE INDEX i ON t (a)", "0A000"),
        ("CREATE FUNCTION f() RETURNS int AS 'x'", "0A000"),
        ("CREATE SCHEMA s", "0A000"),
        ("CREATE OR REPLACE TABLE t (a int)", "42601"),
        ("CREATE TABLE t (a int) PARTITION BY RANGE (a)", "0A000"),
        ("CREATE TABLE t (a int) USING parquet", "0A000"),
        ("CREATE TABLE t (a int) WITH (x = 1)", "0A000"),
        ("CREATE TABLE t (a serial)", "42704"),
        ("CREATE TABLE t (a time)", "42704"),
        ("CREATE TABLE t (a timestamp(3))", "0A000"),
        ("CREATE TABLE t (a numeric(50, 2))", "22023"),
        ("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY)", "0A000"),
        ("CREATE TABLE t (a int REFERENCES u DEFERRABLE)", "0A000"),
        ("CREATE TABLE t (a int REFERENCES u ON DELETE SET NULL)", "0A000"),
        ("CREATE TABLE t (a int REFERENCES u ON UPDATE CASCADE)", "0A000"),
        ("CREATE TABLE t (LIKE u)", "0A000"),
        ("CREATE TABLE other.t (a int)", "3F000"),
        ("ALTER TABLE t ALTER a TYPE bigint", "0A000"),
        ("ALTER TABLE t OWNER TO x", "0A000"),
        ("TRUNCATE t", "0A000"),
        ("PRAGMA x", "0A000"),
        ("USE db", "0A000"),
        ("SAVEPOINT a", "0A000"),
        ("ROLLBACK TO a", "0A000"),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", "0A000"),
        ("SELECT a INTO b FROM t", "0A000"),
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (1)", "0A000"),
        ("SELECT * FROM ONLY t", "0A000"),
        ("SELECT * FROM t CLUSTER BY a", "0A000"),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1))", "0A000"),
        ("SELECT * FROM f() AS t (a int)", "0A000"),
        ("SELECT a FROM t GROUP BY a WITH ROLLUP", "42601"),
        ("SELECT * EXCEPT (a) FROM t", "42601"),
        ("SELECT TOP 5 a FROM t", "42601"),
        ("SELECT a FROM t FETCH FIRST 1 ROW WITH TIES", "0A000"),
        ("WITH x AS (DELETE FROM t) SELECT 1", "0A000"),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "0A000"),
        ("INSERT OVERWRITE t VALUES (1)", "0A000"),
        ("INSERT INTO t VALUES (1, 2), (3)", "42601"),
        ("INSERT INTO t VALUES ()", "42601"),
        ("UPDATE t SET t.a = 1", "42601"),
        ("UPDATE t SET a[1] = 1", "0A000"),
        ("UPDATE t SET a = 1 LIMIT 1", "0A000"),
        ("MERGE INTO t USING s ON true WHEN MATCHED THEN UPDATE SET *", "0A000"),
        ("MERGE INTO t USING s ON true WHEN NOT MATCHED THEN DELETE", "42601"),
        ("MERGE INTO t USING s ON true WHEN NOT MATCHED THEN INSERT (a) VALUES (1, 2)", "42601"),
        ("COPY t FROM PROGRAM 'ls'", "42501"),
        ("COPY t FROM 'x' (FORMAT xml)", "0A000"),
        ("COPY t FROM 'x' CSV CSV", "42601"),
        ("COPY t FROM 'x' WITH (DELIMITER ';;')", "22023"),
        ("COPY t TO STDIN", "42601"),
        ("SELECT x'ff'", "0A000"),
        ("SELECT U&'x'", "0A000"),
        ('SELECT a COLLATE "C"', "0A000"),
        ("SELECT a @@ b", "42883"),
        ("SELECT 1a", "42601"),
        ("SELECT DEFAULT", "42601"),
        ("SELECT f(VARIADIC x)", "0A000"),
        ("SELECT first_value(a) IGNORE NULLS OVER () FROM t", "0A000"),
        ("SELECT extract(fortnight FROM a)", "22023"),
        ("SELECT a::foo", "42704"),
        ("SELECT other.f(1)", "3F000"),
        ("SELECT ?, $1", "42601"),
        ("SELECT '\0'", "22021"),
        ("SELECT '\ud800'", "22021"),
        ("SELECT E'\\xff'", "22025"),
        ("SELECT E'\\0'", "22025"),
        ("SELECT * FROM s [WINDOW 0 ROWS]", "22023"),
        ("SELECT * FROM s [SESSION 5 ROWS]", "42601"),
        ("SELECT * FROM s [WINDOW 5 MONTHS]", "42601"),
        ("SELECT * FROM t AS OF TIMESTAMP '2020-01-01'", "0A000"),
        ("SELECT * FROM HOP(s, ts, interval '1 day')", "42601"),
        ("SELECT * FROM TUMBLE(s, ts, interval '1 month')", "22023"),
        ("SELECT * FROM m MATCH_RECOGNIZE (PATTERN (a | b) DEFINE a AS true)", "0A000"),
        ("CREATE VIEW v AS INITIALIZE x[i] AS SELECT 1 UPDATE v[j] AS SELECT 2 PARTITION LENGTH 5", "42601"),
        ("CREATE VIEW v AS SELECT 1 WITH (a = 1)", "0A000"),
        ("CREATE TRIGGER a BEFORE INSERT ON t EXECUTE 'x'", "0A000"),
        ("SUBSCRIBE TO v WITH (foo)", "42601"),
        ("SHOW a b", "42601"),
        ("EXPLAIN (FORMAT json) SELECT 1", "42601"),
        ("nonsense", "42601"),
    ],
)
def test_what_is_not_read_is_refused(text: str, sqlstate: str | None) -> None:
    if sqlstate is None:
        assert parse(text) == []
        return
    with pytest.raises(Error) as caught:
        parse(text)
    assert caught.value.sqlstate == sqlstate
    assert caught.value.position is not None
    assert caught.value.sql == text


_DEEP = {
    "parentheses": "SELECT " + "(" * 5000 + "1" + ")" * 5000,
    "signs": "SELECT " + "- " * 5000 + "1",
    "sums": "SELECT 1" + " + 1" * 5000,
    "calls": "SELECT " + "f(" * 5000,
    "casts": "SELECT a" + "::int" * 5000,
    "cases": "SELECT " + "CASE WHEN " * 5000,
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 500 + "t" + ")" * 500,
    "scalar subqueries": "SELECT " + "(SELECT " * 99 + "1" + ")" * 99,
    "unions": "SELECT 1" + " UNION SELECT 1" * 5000,
    "intersections": "SELECT 1" + " INTERSECT SELECT 1" * 5000,
    "arrays": "SELECT ARRAY" + "[" * 5000,
    "joins": "SELECT * FROM a" + " JOIN a" * 5000,
    "withs": "WITH a AS (" * 5000,
}


@pytest.mark.parametrize("text", _DEEP.values(), ids=_DEEP)
def test_what_is_nested_too_deeply_is_refused_and_nothing_crashes(text: str) -> None:
    with pytest.raises(Error, match="nested too deeply") as caught:
        parse(text)
    assert caught.value.sqlstate == "54001"


def test_long_conditions_and_lists_are_fine() -> None:
    tree = parse_query("SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(3000))).tree()
    assert max(node.depth for node in tree.walk()) < 30
    parse("SELECT a FROM t WHERE a IN (" + ", ".join(map(str, range(3000))) + ")")


@pytest.mark.parametrize("read", [parse_query, parse_expression, parse_one])
@pytest.mark.parametrize("text", ["", "SELECT 1; SELECT 2", "1 1", "DROP TABLE t; DROP TABLE u"])
def test_one_thing_is_read_where_one_is_asked_for(read: object, text: str) -> None:
    assert callable(read)
    with pytest.raises(Error):
        read(text)
