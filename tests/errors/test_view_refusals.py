"""Views that the rules do not allow are refused when they are made: the rule, the relation, the place, a way out.

Every refusal leaves everything as it was. The words are the rule's; the position is that of the part of the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import midstream
from asking import refusal

pytestmark = pytest.mark.spark
SETUP = """
CREATE STREAM posts (uid bigint, score int, week int, at timestamp, tags text[], life interval);
CREATE STREAM likes (uid bigint, by_uid bigint);
CREATE TABLE users (uid bigint, region text);
INSERT INTO users VALUES (1, 'north'), (2, 'south');
CREATE VIEW totals AS SELECT uid, count(*) AS n, sum(score) AS score FROM posts GROUP BY uid;
CREATE VIEW readers AS SELECT sum(n) AS n FROM totals;
INSERT INTO posts (uid, score) VALUES (1, 5), (2, 6)
"""


@dataclass(frozen=True)
class Refused:
    """A query, the words that its refusal must have, and the part of the text that it must point at."""

    query: str
    words: str
    at: str


UNGROUPED = [
    Refused("SELECT uid, score FROM posts", "posts", "posts"),
    Refused("SELECT *\nFROM posts\nWHERE score > 5", "posts", "posts"),
    Refused("SELECT u.region, p.score FROM posts p JOIN users u ON u.uid = p.uid", "posts", "posts"),
    Refused("SELECT p.uid, u.region FROM users u, posts p WHERE u.uid = p.uid", "posts", "posts"),
    Refused("SELECT uid FROM posts UNION ALL SELECT uid FROM users", "posts", "posts"),
    Refused("SELECT uid FROM users UNION ALL SELECT uid FROM posts", "posts", "posts"),
    Refused("WITH p AS (SELECT uid FROM posts) SELECT uid FROM p", "posts", "posts"),
    Refused("SELECT uid, row_number() OVER (PARTITION BY uid ORDER BY at) AS n FROM posts", "posts", ""),
    Refused("SELECT n, likes.uid FROM (SELECT count(*) AS n FROM posts) AS p CROSS JOIN likes", "likes", "likes"),
    Refused("SELECT uid, unnest(tags) AS tag FROM posts", "posts", ""),
]
TWO_STREAMS = [
    Refused("SELECT p.uid, count(*) AS n FROM posts p JOIN likes l ON l.uid = p.uid GROUP BY p.uid", "likes", ""),
    Refused("SELECT count(*) AS n FROM posts, likes WHERE posts.uid = likes.uid", "likes", ""),
    Refused("SELECT count(*) AS n FROM posts a JOIN posts b ON a.uid = b.uid", "posts", ""),
    Refused("SELECT count(*) AS n FROM posts p LEFT JOIN likes l ON l.uid = p.uid", "likes", ""),
    Refused("SELECT p.uid, count(*) AS n FROM posts p JOIN totals t ON t.uid = p.uid GROUP BY p.uid", "totals", ""),
    Refused(
        "SELECT p.uid, max(l.n) AS n FROM posts p JOIN (SELECT uid, count(*) AS n FROM likes GROUP BY uid) AS l "
        "ON l.uid = p.uid GROUP BY p.uid",
        "likes",
        "",
    ),
]
KEPT_SIDES = [
    Refused(
        "SELECT u.region, count(p.uid) AS n FROM users u LEFT JOIN posts p ON p.uid = u.uid GROUP BY u.region",
        "LEFT JOIN",
        "",
    ),
    Refused(
        "SELECT u.region, count(p.uid) AS n FROM posts p RIGHT JOIN users u ON p.uid = u.uid GROUP BY u.region",
        "RIGHT JOIN",
        "",
    ),
    Refused(
        "SELECT u.region, count(*) AS n FROM posts p FULL JOIN users u ON p.uid = u.uid GROUP BY u.region",
        "FULL JOIN",
        "",
    ),
    Refused("SELECT count(*) AS n FROM users u FULL OUTER JOIN posts p ON p.uid = u.uid", "posts", ""),
]
SORTED_BELOW = [
    Refused(
        "SELECT uid, count(*) AS n FROM (SELECT uid FROM posts ORDER BY at LIMIT 10) AS p GROUP BY uid", "posts", ""
    ),
    Refused("SELECT count(*) AS n FROM (SELECT uid FROM posts LIMIT 10) AS p", "LIMIT", ""),
    Refused(
        "SELECT count(*) AS n FROM (SELECT uid, rank() OVER (ORDER BY score) AS r FROM posts) AS p WHERE r < 3",
        "posts",
        "",
    ),
    Refused("SELECT count(*) AS n FROM (SELECT uid FROM posts OFFSET 3) AS p", "OFFSET", ""),
]
NO_MERGE = [
    Refused("SELECT uid, kurtosis(score) AS k FROM posts GROUP BY uid", "kurtosis", "kurtosis"),
    Refused("SELECT uid,\n  count(*) AS n,\n  skewness(score) AS k FROM posts GROUP BY uid", "skewness", "skewness"),
]
NOT_DETERMINISTIC = [
    Refused("SELECT uid, count(*) AS n FROM posts WHERE random() < 0.5 GROUP BY uid", "random", "random"),
    Refused("SELECT sum(score * random()) AS n FROM posts", "random", "random"),
    Refused("SELECT round(random()) AS r, count(*) AS n FROM posts GROUP BY 1", "random", "random"),
    Refused(
        "SELECT count(*) AS n FROM posts p CROSS JOIN LATERAL (SELECT random() AS r) AS l WHERE l.r > 0.5",
        "random",
        "random",
    ),
]
INTERVALS = [
    Refused("SELECT count(*) AS n FROM posts WHERE at > now() - life", "condition on the moment", "life"),
    Refused("SELECT count(*) AS n FROM posts WHERE now() - at < 2 * life", "condition on the moment", "life"),
]
RECURSIVE = [
    Refused(
        "WITH RECURSIVE r AS (SELECT uid FROM posts UNION SELECT uid + 1 FROM r) SELECT count(*) AS n FROM r",
        "recursive",
        "r",
    ),
]
REFUSED = {
    "ungrouped": UNGROUPED,
    "two streams": TWO_STREAMS,
    "kept side": KEPT_SIDES,
    "sorted below": SORTED_BELOW,
    "no merge": NO_MERGE,
    "not deterministic": NOT_DETERMINISTIC,
    "intervals": INTERVALS,
    "recursive": RECURSIVE,
}
WAYS = ["CREATE CONTINUOUS VIEW v AS ", "CREATE OR REPLACE VIEW readers AS ", "EXPLAIN CREATE VIEW v AS "]
CASES = [(rule, case) for rule, cases in REFUSED.items() for case in cases]


def name_of(rule: str, case: Refused) -> str:
    return f"{rule}: {case.query[:70]}"


@pytest.mark.parametrize(("rule", "case"), CASES, ids=[name_of(*case) for case in CASES])
def test_a_view_that_the_rules_do_not_allow(shop: Any, rule: str, case: Refused) -> None:
    error = refusal(shop, f"CREATE VIEW v AS {case.query}")
    assert error.sqlstate in ("0A000", "42803", "42P16", "42P19", "42P20"), error
    assert case.words.lower() in str(error).lower(), error
    assert error.position is not None, error
    assert error.hint, error
    assert points_at(f"CREATE VIEW v AS {case.query}", error.position, case.at), error


@pytest.mark.parametrize("rule", REFUSED)
@pytest.mark.parametrize("how", WAYS)
def test_however_it_is_made(shop: Any, rule: str, how: str) -> None:
    """EXPLAIN may refuse, or say in its text why it cannot be kept."""
    case = REFUSED[rule][0]
    before = shop.sql("SELECT * FROM readers").fetchall()
    try:
        told = "\n".join(str(row[0]) for row in shop.sql(how + case.query).fetchall())
        assert how.startswith("EXPLAIN")
        assert case.words.lower() in told.lower()
    except midstream.Error as error:
        assert error.sqlstate != "XX000", error
        assert case.words.lower() in str(error).lower(), error
    assert shop.sql("SELECT * FROM readers").fetchall() == before


def points_at(sql: str, position: tuple[int, int], text: str) -> bool:
    """Whether the position is inside the view's query and, where a text is given, at one of its occurrences."""
    line, column = position
    lines = sql.split("\n")
    if not (1 <= line <= len(lines) and 1 <= column <= len(lines[line - 1])):
        return False
    return lines[line - 1][column - 1 :].lower().startswith(text.lower())


def test_rules_have_texts_of_their_own(shop: Any) -> None:
    """Eight rules, eight messages."""
    messages = {rule: refusal(shop, f"CREATE VIEW v AS {cases[0].query}").message for rule, cases in REFUSED.items()}
    details = {rule: refusal(shop, f"CREATE VIEW v AS {cases[0].query}").detail for rule, cases in REFUSED.items()}
    assert len({(messages[rule], details[rule]) for rule in REFUSED}) == len(REFUSED)


def test_a_refused_replacement_leaves_the_old_view(shop: Any) -> None:
    before = sorted(shop.sql("SELECT * FROM totals").fetchall())
    refusal(shop, "CREATE OR REPLACE VIEW totals AS SELECT uid FROM posts")
    assert sorted(shop.sql("SELECT * FROM totals").fetchall()) == before


def test_a_replacement_that_would_break_a_reader(shop: Any) -> None:
    error = refusal(shop, "CREATE OR REPLACE VIEW totals AS SELECT uid, max(score) AS best FROM posts GROUP BY uid")
    assert "readers" in str(error)


OTHERS = {
    "CREATE VIEW v AS SELECT count(*) AS n FROM nowhere": "42P01",
    "CREATE VIEW v AS SELECT nothing, count(*) AS n FROM posts GROUP BY nothing": "42703",
    "CREATE VIEW v AS SELECT uid, score, count(*) AS n FROM posts GROUP BY uid": "42803",
    "CREATE VIEW v AS SELECT nofunction(score) AS n FROM posts GROUP BY 1": "42883",
    "CREATE VIEW v AS SELECT sum(tags) AS n FROM posts": "42883",
    "CREATE VIEW v AS SELECT uid, uid FROM posts GROUP BY uid": "42701",
    "CREATE VIEW v AS SELECT histogram_numeric(score, 5) AS h FROM posts": "0A000/42883",
    "CREATE VIEW v WITH (backfil = true) AS SELECT count(*) AS n FROM posts": "22023/42601",
    "CREATE VIEW v WITH (backfill = true) AS SELECT count(*) AS n FROM posts": "22023/42P16/0A000/42809",
    "CREATE VIEW v WITH (backfill = 7) AS SELECT count(*) AS n FROM posts": "22023/42601",
    "INSERT INTO totals VALUES (1, 1, 1)": "42809",
    "UPDATE totals SET n = 1": "42809",
    "DELETE FROM totals": "42809",
    "COPY totals FROM '/nowhere.csv' CSV": "42809",
    "DROP TABLE totals": "42809",
    "DROP STREAM totals": "42809",
    "DROP VIEW totals": "2BP01",
    "DROP STREAM posts": "2BP01",
    "DROP VIEW nowhere": "42P01",
    "SET max_staleness = 'soon'": "22023",
    "SET max_staleness = '-1 second'": "22023",
}


@pytest.mark.parametrize(("sql", "sqlstate"), OTHERS.items(), ids=OTHERS.keys())
def test_other_mistakes_with_views(shop: Any, sql: str, sqlstate: str) -> None:
    error = refusal(shop, sql)
    assert error.sqlstate in sqlstate.split("/"), error


def test_a_table_that_a_view_reads_is_not_dropped(shop: Any) -> None:
    shop.sql("CREATE VIEW frozen AS SELECT count(*) AS n FROM posts p JOIN users u ON u.uid = p.uid")
    error = refusal(shop, "DROP TABLE users")
    assert (error.sqlstate, "frozen" in str(error)) == ("2BP01", True)
    shop.sql("DROP VIEW frozen")


def test_nothing_of_all_this_has_changed_the_views(shop: Any) -> None:
    assert sorted(shop.sql("SELECT * FROM totals").fetchall()) == [(1, 1, 5), (2, 1, 6)]


@pytest.mark.parametrize("name", ["totals", "readers"])
def test_a_replacement_that_would_read_itself_through_others(shop: Any, name: str) -> None:
    error = refusal(shop, "CREATE OR REPLACE VIEW totals AS\nSELECT 1 AS uid, n, n AS score FROM " + name)
    assert (error.sqlstate, error.message) == ("42P17", 'view "totals" would read itself')
    assert error.position == (2, 37)
    assert error.hint


def test_an_ordinary_view_that_would_read_itself_through_others(shop: Any) -> None:
    shop.sql("CREATE VIEW a AS SELECT uid FROM users; CREATE VIEW b AS SELECT uid FROM a")
    assert refusal(shop, "CREATE OR REPLACE VIEW a AS SELECT uid FROM b").sqlstate == "42P17"
    shop.sql("DROP VIEW b; DROP VIEW a")


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("CREATE VIEW v AS SELECT uid,\n week AS uid FROM posts GROUP BY 1, 2", (2, 2)),
        ("CREATE VIEW v (x, x) AS SELECT uid, region FROM users", (1, 16)),
    ],
)
def test_a_column_name_that_comes_twice_has_its_place(shop: Any, sql: str, at: tuple[int, int]) -> None:
    error = refusal(shop, sql)
    assert (error.sqlstate, error.position) == ("42701", at)
    assert error.hint


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "SELECT (SELECT max(region) FROM users u WHERE u.uid = p.uid) AS r, count(*) AS n FROM posts p GROUP BY 1",
            "grouped by a subquery",
        ),
        (
            "SELECT score + (SELECT count(*) FROM users) AS s, count(*) AS n FROM posts GROUP BY 1",
            "grouped by a subquery",
        ),
        (
            "SELECT uid, count(*) AS n FROM (SELECT uid FROM posts UNION ALL SELECT max(uid) FROM likes) q GROUP BY 1",
            "put together with a grouped one",
        ),
        ("SELECT uid, (SELECT sum(p.score + u.uid) FROM posts p) AS s FROM users u", "column of a query around it"),
        ("SELECT count(*) AS n FROM posts AS OF SCN ‹now›", "not AS OF an SCN"),
        ("SELECT histogram_numeric(score, 5) AS h FROM posts", "aggregate histogram_numeric is not supported"),
        ("SELECT count(*) AS n FROM users WHERE uid IN (SELECT uid FROM posts LIMIT 1)", "is not grouped"),
        ("SELECT count(*) AS n FROM users WHERE EXISTS (SELECT 1 FROM posts LIMIT 0)", "is not grouped"),
    ],
)
def test_a_refusal_says_why_where_and_what_to_do(shop: Any, query: str, words: str) -> None:
    [(now,)] = shop.sql("SELECT current_scn()").fetchall()
    error = refusal(shop, f"CREATE VIEW v AS {query.replace('‹now›', str(now))}")
    assert words in error.message, error
    assert (error.sqlstate, bool(error.detail), bool(error.hint)) == ("0A000", True, True), error
    assert error.position is not None, error


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED VIEW"])
@pytest.mark.parametrize("relation", ["posts", "users"])
@pytest.mark.parametrize("mark", ["?", "$1"])
def test_what_is_kept_has_no_parameters(shop: Any, kind: str, relation: str, mark: str) -> None:
    text = f"CREATE {kind} v AS SELECT count(*) AS n FROM {relation} WHERE uid = {mark}"
    error = refusal(shop, lambda: shop.sql(text, [4]))
    assert (error.sqlstate, error.position) == ("42P02", (1, len(text) - len(mark) + 1))
    assert "may have no parameters" in error.message
    assert error.detail and error.hint
