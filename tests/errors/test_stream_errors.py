"""What streams refuse, and how they say so: to the letter where a text is the point, and always with a way out."""

from __future__ import annotations

from typing import Any

import pytest

from asking import refusal

pytestmark = pytest.mark.spark
SETUP = """
CREATE STREAM posts (uid bigint NOT NULL, score int DEFAULT 1 CHECK (score >= 0), content text);
CREATE STREAM kept (a int NOT NULL, price numeric(5,2) CHECK (price > 0), tags int[], at timestamp, word varchar(3))
  WITH (retain = '7 days');
CREATE TABLE users (uid bigint PRIMARY KEY);
CREATE VIEW names AS SELECT uid FROM users
"""


TEXTS = {
    "SELECT * FROM posts": """\
ERROR:  stream "posts" keeps no rows that could be read
LINE 1: SELECT * FROM posts
                      ^
DETAIL: Its rows go to the views over it as they come.
HINT:   Create it WITH (retain = '7 days') to keep them, or WITH (ring = 1000000) to scan the newest, \
or read a view over it.""",
    "UPDATE posts SET score = 1": """\
ERROR:  cannot update stream "posts"
LINE 1: UPDATE posts SET score = 1
               ^
DETAIL: A stream is append-only: its rows are read as they come and are not there to be changed.
HINT:   INSERT, COPY and db.insert add rows. For rows that change, use a table.""",
    "INSERT INTO kept (a) SELECT a FROM kept": """\
ERROR:  INSERT INTO "kept" may not read "kept"
LINE 1: INSERT INTO kept (a) SELECT a FROM kept
                                           ^
DETAIL: A stream that is fed from itself would never end.
HINT:   Read a view over it, or a table.""",
    "CREATE STREAM s (a int PRIMARY KEY)": """\
ERROR:  stream "s" cannot have PRIMARY KEY
LINE 1: CREATE STREAM s (a int PRIMARY KEY)
                               ^
DETAIL: A row is checked by itself when it arrives: the rows before it are not there to compare with.
HINT:   NOT NULL and CHECK work on streams.""",
    "DROP TABLE posts": """\
ERROR:  "posts" is not a table
LINE 1: DROP TABLE posts
                   ^
HINT:   Use DROP STREAM to remove a stream.""",
    "INSERT INTO posts VALUES (1, 5, 'x'), (NULL, 6, 'y')": """\
ERROR:  null value in column "uid" of relation "posts" violates not-null constraint
DETAIL: Row 2 is (null, 6, y).""",
}


@pytest.mark.parametrize(("sql", "text"), TEXTS.items(), ids=TEXTS.keys())
def test_an_error_says_what_and_where_and_what_to_do(shop: Any, sql: str, text: str) -> None:
    assert str(refusal(shop, sql)) == text


APPEND_ONLY = [
    "UPDATE kept SET a = 1",
    "UPDATE kept SET a = users.uid FROM users WHERE users.uid = kept.a",
    "DELETE FROM kept",
    "DELETE FROM posts WHERE uid = 1",
    "MERGE INTO kept USING users ON users.uid = kept.a WHEN MATCHED THEN DELETE",
    "MERGE INTO kept USING users ON users.uid = kept.a WHEN NOT MATCHED THEN INSERT (a) VALUES (1)",
    "EXPLAIN UPDATE kept SET a = 1",
    "EXPLAIN DELETE FROM posts",
]


@pytest.mark.parametrize("sql", APPEND_ONLY)
def test_a_stream_is_append_only_and_says_so(shop: Any, sql: str) -> None:
    error = refusal(shop, sql)
    assert error.sqlstate == "42809"
    assert "append-only" in str(error)
    assert "INSERT" in str(error.hint)
    assert error.position is not None


REFUSED_ALTERATIONS = [
    "ALTER TABLE kept ADD COLUMN c int",
    "ALTER TABLE kept DROP COLUMN a",
    "ALTER TABLE kept ADD CONSTRAINT positive CHECK (a > 0)",
    "ALTER TABLE posts RENAME TO other",
    "ALTER STREAM kept ADD COLUMN c int",
    "ALTER FOREIGN TABLE kept ADD COLUMN c int",
    "TRUNCATE kept",
    "INSERT INTO kept (a) VALUES (1) RETURNING a",
    "INSERT INTO kept (a) VALUES (1) ON CONFLICT DO NOTHING",
]


@pytest.mark.parametrize("sql", REFUSED_ALTERATIONS)
def test_a_stream_is_not_altered(shop: Any, sql: str) -> None:
    assert refusal(shop, sql).sqlstate in ("42809", "0A000", "42601")


READS = [
    "SELECT count(*) FROM posts",
    "SELECT p.uid FROM users u JOIN posts p ON u.uid = p.uid",
    "SELECT uid FROM users WHERE EXISTS (SELECT 1 FROM posts)",
    "WITH p AS (SELECT * FROM posts) SELECT uid FROM p",
    "SELECT uid FROM users UNION ALL SELECT uid FROM posts",
    "INSERT INTO users SELECT uid FROM posts",
    "INSERT INTO kept (a) SELECT score FROM posts",
    "CREATE TABLE copy AS SELECT * FROM posts",
    "COPY posts TO '/nowhere/at/all.csv' CSV",
    "COPY (SELECT uid FROM posts) TO '/nowhere/at/all.csv' CSV",
    "DELETE FROM users WHERE uid IN (SELECT uid FROM posts)",
    "EXPLAIN SELECT * FROM posts",
    "TABLE posts",
]


@pytest.mark.parametrize("sql", READS)
def test_a_stream_without_history_is_not_read_and_the_hint_has_both_ways(shop: Any, sql: str) -> None:
    error = refusal(shop, sql)
    assert "posts" in str(error)
    assert "ring" in str(error.hint)
    assert "retain" in str(error.hint)


SELF_FED = [
    "INSERT INTO kept (a) SELECT a + 1 FROM kept",
    "INSERT INTO kept (a) SELECT q.a FROM (SELECT a FROM kept) AS q",
    "INSERT INTO kept (a) WITH q AS (SELECT a FROM kept) SELECT a FROM q",
    "INSERT INTO kept (a) SELECT 1 FROM users WHERE EXISTS (SELECT 1 FROM kept)",
    "INSERT INTO kept (a) SELECT 1 UNION ALL SELECT max(a) FROM kept",
    "INSERT INTO kept (a) VALUES ((SELECT max(a) FROM kept))",
    "INSERT INTO kept (a) SELECT a FROM kept AS OF SCN 1000000",
]


@pytest.mark.parametrize("sql", SELF_FED)
def test_a_stream_is_not_fed_from_itself(shop: Any, sql: str) -> None:
    error = refusal(shop, sql)
    assert "kept" in str(error)
    assert error.sqlstate in ("42803", "42P19", "0A000", "72000")


BAD_DEFINITIONS = {
    "CREATE STREAM posts (a int)": ("42P07", "already exists"),
    "CREATE STREAM users (a int)": ("42P07", "already exists"),
    "CREATE STREAM names (a int)": ("42P07", "already exists"),
    "CREATE TABLE posts (a int)": ("42P07", "already exists"),
    "CREATE VIEW posts AS SELECT 1 AS a": ("42P07", "already exists"),
    "CREATE FOREIGN TABLE s (a int) SERVER kafka": ("42704", "SERVER stream"),
    "CREATE FOREIGN TABLE s (a int)": ("42601", ""),
    "CREATE STREAM s (a int, A text)": ("42701", "more than once"),
    "CREATE STREAM s (a nonsense)": ("42704", "nonsense"),
    "CREATE STREAM s ()": ("42601", ""),
    "CREATE STREAM s": ("42601", ""),
    "CREATE STREAM s (a int UNIQUE)": ("42P16", "UNIQUE"),
    "CREATE STREAM s (a int, UNIQUE (a))": ("42P16", "UNIQUE"),
    "CREATE STREAM s (a int, PRIMARY KEY (a))": ("42P16", "PRIMARY KEY"),
    "CREATE STREAM s (a bigint REFERENCES users (uid))": ("42P16", "REFERENCES"),
    "CREATE STREAM s (a bigint, FOREIGN KEY (a) REFERENCES users (uid))": ("42P16", "REFERENCES"),
    "CREATE TABLE r (a bigint REFERENCES posts (uid))": ("42809", "posts"),
    "CREATE STREAM s (a int CHECK (b > 0))": ("42703", '"b"'),
    "CREATE STREAM s (a int CHECK (a > (SELECT 1)))": ("0A000", ""),
    "CREATE STREAM s (a int DEFAULT 'x')": ("22P02", "x"),
    "CREATE STREAM clog_posts (a int)": ("42939", "clog_"),
}


@pytest.mark.parametrize(("sql", "expected"), BAD_DEFINITIONS.items(), ids=BAD_DEFINITIONS.keys())
def test_a_definition_that_makes_no_sense(shop: Any, sql: str, expected: tuple[str, str]) -> None:
    error = refusal(shop, sql)
    assert (error.sqlstate, expected[1] in str(error)) == (expected[0], True), error


BAD_OPTIONS = {
    "retains = '7 days'": 'Did you mean "retain"?',
    "retention = '7 days'": "retain",
    "partition_lenght = 60, retain = '7 days'": 'Did you mean "partition_length"?',
    "timestam = 'at', retain = '7 days'": 'Did you mean "timestamp"?',
    "latenes = '1 minute'": 'Did you mean "lateness"?',
    "colour = 'red'": "colour",
    "retain = 'nonsense'": "7 days",
    "retain = '-1 day'": "-1 day",
    "retain = '0 seconds'": "0 seconds",
    "retain = '7 days', retain = '8 days'": "more than once",
    "retain": "",
    "partition_length = 60": "retain",
    "partition_length = 0, retain = '7 days'": "at least 1",
    "partition_length = -60, retain = '7 days'": "-60",
    "timestamp = 'nowhere', retain = '7 days'": "nowhere",
    "timestamp = 'a', retain = '7 days'": "timestamptz",
    "timestamp = 'at', retain = '7 days', lateness = '-5 minutes'": "-5 minutes",
    "timestamp = 'at', retain = '7 days', lateness = 'soon'": "soon",
}


@pytest.mark.parametrize(("options", "said"), BAD_OPTIONS.items(), ids=BAD_OPTIONS.keys())
def test_an_option_that_makes_no_sense(shop: Any, options: str, said: str) -> None:
    error = refusal(shop, f"CREATE STREAM s (a int, at timestamp) WITH ({options})")
    assert error.sqlstate in ("42601", "22023", "42P16", "42703", "42804")
    assert said in str(error), error


BAD_DROPS = {
    "DROP STREAM nowhere": ("42P01", "nowhere"),
    "DROP FOREIGN TABLE nowhere": ("42P01", "nowhere"),
    "DROP STREAM users": ("42809", "DROP TABLE"),
    "DROP STREAM names": ("42809", "DROP VIEW"),
    "DROP FOREIGN TABLE users": ("42809", "DROP TABLE"),
    "DROP TABLE kept": ("42809", "DROP STREAM"),
    "DROP TABLE IF EXISTS kept CASCADE": ("42809", "DROP STREAM"),
    "DROP VIEW kept": ("42809", "DROP STREAM"),
    "DROP STREAM kept, nowhere": ("42P01", "nowhere"),
}


@pytest.mark.parametrize(("sql", "expected"), BAD_DROPS.items(), ids=BAD_DROPS.keys())
def test_a_drop_of_something_else(shop: Any, sql: str, expected: tuple[str, str]) -> None:
    error = refusal(shop, sql)
    assert (error.sqlstate, expected[1] in str(error)) == (expected[0], True), error


BAD_INSERTS = {
    "INSERT INTO posts VALUES (1, 2, 'x', 4)": ("42601", "more expressions"),
    "INSERT INTO posts (uid, score) VALUES (1)": ("42601", "more target columns"),
    "INSERT INTO posts (uid, nothing) VALUES (1, 2)": ("42703", "nothing"),
    "INSERT INTO posts (uid, uid) VALUES (1, 2)": ("42701", "uid"),
    "INSERT INTO posts (score) VALUES (1)": ("23502", "uid"),
    "INSERT INTO posts DEFAULT VALUES": ("23502", "uid"),
    "INSERT INTO post VALUES (1)": ("42P01", "posts"),
    "INSERT INTO posts VALUES (1, 2), (2, -1)": ("23514", "(2, -1, null)"),
    "INSERT INTO kept (a) VALUES (1), (2147483648)": ("22003", "Row 2"),
    "INSERT INTO kept (a) VALUES (1), ('x')": ("22P02", "Row 2"),
    "INSERT INTO kept (a) VALUES (1), (true)": ("42804", "boolean"),
    "INSERT INTO kept (a, price) VALUES (1, 999.99), (2, 999.999)": ("22003", "Row 2"),
    "INSERT INTO kept (a, price) VALUES (1, 1), (2, 0)": ("23514", "(2, 0.00,"),
    "INSERT INTO kept (a, tags) VALUES (1, '{1,2}'), (2, '{1,x}')": ("22P02", "Row 2"),
    "INSERT INTO kept (a, tags) VALUES (1, ARRAY[1]), (2, ARRAY[3000000000])": ("22003", ""),
    "INSERT INTO kept (a, tags) VALUES (1, '{1'), (2, NULL)": ("22P02", "Row 1"),
    "INSERT INTO kept (a, at) VALUES (1, '2024-02-29'), (2, '2023-02-29')": ("22008", "Row 2"),
    "INSERT INTO kept (a, at) VALUES (1, '2024-02-29 23:59'), (2, '2024-02-29 24:01')": ("22008", "Row 2"),
    "INSERT INTO kept (a, at) VALUES (1, 'soon')": ("22007", "soon"),
    "INSERT INTO kept (a, word) VALUES (1, 'abc'), (2, 'abcd')": ("22001", "Row 2"),
    "INSERT INTO kept (a) SELECT x FROM (VALUES (1), (NULL)) AS v (x)": ("23502", "null"),
    "INSERT INTO kept (a, price) SELECT 7, x FROM (VALUES (1.0), (-3.5)) AS v (x)": ("23514", "(7, -3.50,"),
    "INSERT INTO kept (a) SELECT 1 / 0": ("22012", "zero"),
    "INSERT INTO kept (a) SELECT 'x'": ("22P02/42804", "x"),
}


@pytest.mark.parametrize(("sql", "expected"), BAD_INSERTS.items(), ids=BAD_INSERTS.keys())
def test_a_row_that_does_not_fit_names_itself_and_nothing_is_taken(
    shop: Any, sql: str, expected: tuple[str, str]
) -> None:
    error = refusal(shop, sql)
    assert error.sqlstate in expected[0].split("/"), error
    assert expected[1] in str(error), error


POSITIONS = {
    "SELECT *\nFROM posts": (2, 6),
    "COPY posts TO '/nowhere/at/all.csv' CSV": (1, 6),
    "UPDATE\n kept SET a = 1": (2, 2),
    "CREATE STREAM s (a int,\n  b int UNIQUE)": (2, 9),
    "CREATE STREAM s (a int) WITH (retains = '7 days')": (1, 31),
    "CREATE STREAM s (a int) WITH (retain = 'soon')": (1, 31),
    "CREATE STREAM s (a int) WITH (ring = 1000)": (1, 31),
    "CREATE VIEW v AS\n  SELECT a FROM kept": (2, 17),
    "INSERT INTO posts (uid, nothing) VALUES (1, 2)": (1, 25),
    "SELECT * FROM clog_kept": (1, 15),
}


@pytest.mark.parametrize(("sql", "position"), POSITIONS.items(), ids=POSITIONS.keys())
def test_an_error_points_at_its_place(shop: Any, sql: str, position: tuple[int, int]) -> None:
    assert refusal(shop, sql).position == position


def test_a_past_before_the_stream_is_told_as_such(shop: Any) -> None:
    error = refusal(shop, "SELECT a FROM kept AS OF SCN 0")
    assert error.sqlstate in ("42P01", "72000")
    assert 'Did you mean "kept"' not in str(error)
