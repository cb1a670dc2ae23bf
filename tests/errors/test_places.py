"""Every error about a statement points at what is wrong in it: also where the layer that found it knows no text."""

from __future__ import annotations

from typing import Any

import pytest

from asking import refusal

pytestmark = pytest.mark.spark
SETUP = """
CREATE TABLE users (id bigint PRIMARY KEY, name text, age int);
CREATE TABLE orders (oid bigint PRIMARY KEY, uid bigint REFERENCES users (id));
CREATE STREAM posts (uid bigint, score int);
CREATE VIEW totals AS SELECT uid, sum(score) AS s FROM posts GROUP BY uid;
CREATE VIEW over_totals AS SELECT sum(s) AS x FROM totals;
CREATE CONTINUOUS QUERY adults AS SELECT id FROM users WHERE age > 17;
CREATE QUEUE q
"""

# The place is where «» stand before a word.
MARKED = [
    "DROP TABLE «»nope",
    "DROP VIEW IF EXISTS nope, «»totals",
    "DROP TABLE orders, «»users",
    "DROP TABLE «»posts",
    "DROP CONTINUOUS QUERY «»nope",
    "DESCRIBE «»nope",
    "EXPLAIN VIEW «»nope",
    "EXPLAIN VIEW «»users",
    "EXPLAIN «»DROP TABLE users",
    "SHOW «»nope",
    "SET «»nope = 1",
    "SET «»kernel = 'abacus'",
    "RESET «»nope",
    "CREATE TABLE «»users (a int)",
    "CREATE TABLE «»late_x (a int)",
    "CREATE TABLE t (a int, PRIMARY KEY («»b))",
    "CREATE TABLE t (a int REFERENCES users («»nope))",
    "CREATE OR REPLACE VIEW «»users AS SELECT 1 AS a",
    "CREATE OR REPLACE VIEW «»totals AS SELECT uid FROM posts GROUP BY uid",
    "CREATE VIEW v (a, «»b) AS SELECT id FROM users",
    "CREATE VIEW v WITH («»nope = 1) AS SELECT uid, sum(score) FROM posts GROUP BY uid",
    "CREATE VIEW v WITH (key = «»'nope') AS SELECT uid, sum(score) FROM posts GROUP BY uid",
    "CREATE VIEW v WITH (backfill = true) AS SELECT uid, sum(score) FROM «»posts GROUP BY uid",
    "CREATE CONTINUOUS VIEW «»v AS SELECT id FROM users",
    "CREATE MATERIALIZED VIEW v (a, «»b) AS SELECT id FROM users",
    "CREATE MATERIALIZED VIEW v AS SELECT id, «»now() FROM users",
    "CREATE CONTINUOUS QUERY c AS SELECT id FROM users\nWHERE age > 3 AND «»current_date > '2020-01-01'",
    "CREATE CONTINUOUS QUERY c AS SELECT id, «»random() FROM users",
    "CREATE CONTINUOUS QUERY c AS SELECT «»cq_delta() FROM users",
    "CREATE CONTINUOUS QUERY c COMPUTE START WITH «»'garbage' PERIOD 1 HOUR AS SELECT id FROM users",
    "CREATE CONTINUOUS QUERY c DESTINATION «»nope AS SELECT id FROM users",
    "ALTER CONTINUOUS QUERY adults DESTINATION «»nope",
    "CREATE TRIGGER t ON adults FOR EACH ROW EXECUTE «»'no_such_module:f'",
    "CREATE QUEUE «»q",
    "SELECT cq_recompute(«»'nope')",
    "SUBSCRIBE TO adults AS OF SCN «»99999",
    "ALTER TABLE users ADD COLUMN «»name int",
    "ALTER TABLE users RENAME COLUMN «»nope TO x",
    "ALTER TABLE users RENAME TO «»orders",
    "ALTER TABLE users DROP CONSTRAINT «»nope",
    'CREATE TABLE t (a int, «»"~slot" int)',
    'CREATE STREAM s («»"~w" int)',
    'CREATE VIEW v AS SELECT uid AS «»"~s", sum(score) FROM posts GROUP BY uid',
    'ALTER TABLE users RENAME COLUMN age TO «»"~scn"',
    "ALTER TABLE users RENAME COLUMN age TO «»_row_id",
    "COPY users FROM «»'/no/such/file.csv' CSV",
    "COPY users TO «»'/no/such/folder/x.csv' CSV",
    "SELECT id FROM users WHERE id = «»? AND age = ?",
    "-- DROP VIEW totals\nDROP VIEW /* totals */ «»totals",
]


@pytest.mark.parametrize("marked", MARKED)
def test_an_error_points_at_what_is_wrong(shop: Any, marked: str) -> None:
    before, sql = marked.split("«»")[0], marked.replace("«»", "")
    error = refusal(shop, sql)
    assert error.position == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1), error
    assert str(error).split("\n")[2].strip() == "^"


def test_a_place_is_one_in_the_whole_text(shop: Any) -> None:
    assert refusal(shop, "SHOW TABLES;\n DROP TABLE nope").position == (2, 13)


@pytest.mark.parametrize("sql", ["INSERT INTO users VALUES (NULL, 'id', 1)", "SELECT 1 / (age - age) FROM users"])
def test_what_is_wrong_with_rows_has_no_place(shop: Any, sql: str) -> None:
    shop.sql("INSERT INTO users VALUES (1, 'Ann', 20)") if not shop.sql("SELECT * FROM users").fetchall() else None
    assert refusal(shop, sql).position is None
