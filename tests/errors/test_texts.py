"""What common errors say, to the letter: what was wrong, where, why, what to do.

`python tests/errors/test_texts.py` writes texts.txt anew; read the difference before you commit it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import midstream

TEXTS = Path(__file__).with_name("texts.txt")
SETUP = """
CREATE TABLE users (uid bigint PRIMARY KEY, name text NOT NULL);
CREATE TABLE posts (uid bigint REFERENCES users (uid), score int CHECK (score >= 0), content text);
CREATE VIEW good_posts AS SELECT * FROM posts WHERE score > 10;
INSERT INTO users VALUES (1, 'Ann');
INSERT INTO posts VALUES (1, 5, 'hello')
"""


def cases() -> list[tuple[str, str]]:
    """(SQL, SQLSTATE and text) of every block."""
    blocks = TEXTS.read_text().strip("\n").split("\n\n")
    parted = [block.split("\n----\n") for block in blocks]
    return [(sql, expected.rstrip("\n")) for sql, expected in parted]


def said(session: Any, sql: str) -> str:
    try:
        session.sql(sql)
    except midstream.Error as error:
        return re.sub(r"The newest is \d+", "The newest is N", f"{error.sqlstate}\n{error}")
    return "no error"


@pytest.mark.parametrize(("sql", "expected"), cases(), ids=[sql.split("\n")[0][:50] for sql, _ in cases()])
def test_an_error_says_what_and_where_and_what_to_do(shop: Any, sql: str, expected: str) -> None:
    assert said(shop, sql) == expected


POSITIONS = [
    ("SELECT scor FROM posts", (1, 8)),
    ("SELECT *\nFROM nowhere", (2, 6)),
    ("SELECT 1 +\n  nofunction(2)", (2, 3)),
    ("SELECT 1;\nSELECT uid,\n nothing FROM posts", (3, 2)),
    ("SELECT 'ü😀', scor FROM posts", (1, 14)),
    ("SELECT uid FROM posts WHERE uid IN (SELECT ui FROM users)", (1, 44)),
    ("/* a comment\n of two lines */ SELECT scor FROM posts", (2, 25)),
    ("SELECT p.scor FROM posts p", (1, 8)),
    ("UPDATE posts SET scores = 1", (1, 18)),
    ("WITH x AS (SELECT nothing FROM posts) SELECT * FROM x", (1, 19)),
    ("CREATE VIEW v AS\n  SELECT nothing FROM posts", (2, 10)),
    ("INSERT INTO users SELECT nothing, 'x' FROM posts", (1, 26)),
    ("DELETE FROM posts WHERE nothing = 1", (1, 25)),
    ("SELECT uid FROM posts GROUP BY nothing", (1, 32)),
    ("SELECT uid FROM posts ORDER BY nothing", (1, 32)),
    ("CREATE TABLE t (a int, b nosuchtype)", (1, 26)),
    ("SELECT 1 FROM posts WHERE", (1, 26)),
    ("SELECT 1 )", (1, 10)),
]


@pytest.mark.parametrize(("sql", "position"), POSITIONS)
def test_an_error_points_at_its_place(shop: Any, sql: str, position: tuple[int, int]) -> None:
    with pytest.raises(midstream.Error) as caught:
        shop.sql(sql)
    assert caught.value.position == position
    caret = str(caught.value).split("\n")[2]
    assert caret.strip() == "^"


def test_an_error_of_running_keeps_its_class_and_text(shop: Any) -> None:
    with pytest.raises(midstream.Error) as caught:
        shop.sql("SELECT CAST(content AS int) FROM posts")
    assert caught.value.sqlstate == "22P02"
    assert "hello" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert "org.apache" not in str(caught.value)


def refill() -> None:
    with_spark = midstream.connect()
    with_spark.sql(SETUP)
    session = with_spark.session()
    blocks = [f"{sql}\n----\n{said(session, sql)}" for sql, _ in cases()]
    TEXTS.write_text("\n\n".join(blocks) + "\n")
    with_spark.close()


if __name__ == "__main__":
    refill()
