"""Continuous queries over streams: what comes to a stream, filtered and mapped, is what changed; each row once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import midstream


@pytest.fixture
def fed(db: Any) -> Any:
    db.sql("CREATE STREAM posts (author text, score int); CREATE TABLE t (a int)")
    return db


GOOD = "SELECT author, score * 2 AS twice FROM posts WHERE score > 5"


def test_every_row_is_handed_out_once_while_tables_are_changed_too(fed: Any) -> None:
    fed.sql(f"CREATE CONTINUOUS QUERY good AS {GOOD}; CREATE CONTINUOUS QUERY other AS SELECT a FROM t")
    with fed.subscribe("good") as changes:
        got: list[tuple[str, int]] = []
        for number in range(6):
            scn = fed.sql(f"INSERT INTO posts VALUES ('a{number}', 7), ('b', 1), ('c{number}', 9)").scn
            fed.sql("INSERT INTO t VALUES (1)")
            fed.wait("good", scn)
            found = changes.poll()
            assert {change.scn for change in found} == {scn}
            got += [(change.row["author"], change.row["twice"]) for change in found]
    assert got == [pair for number in range(6) for pair in ((f"a{number}", 14), (f"c{number}", 18))]


@pytest.mark.spark
def test_a_destination_has_each_row_once_over_a_restart(tmp_path: Path) -> None:
    with midstream.connect(tmp_path / "db") as db:
        db.sql("CREATE STREAM posts (author text, score int); CREATE TABLE seen (author text, twice int, kind text)")
        db.sql(f"CREATE CONTINUOUS QUERY good DESTINATION seen AS {GOOD.replace(' FROM', ', cq_delta() AS kind FROM')}")
        db.wait("good", db.sql("INSERT INTO posts VALUES ('a', 6), ('b', 2)").scn)
        db.sql("INSERT INTO posts VALUES ('c', 8)")
    with midstream.connect(tmp_path / "db") as db:
        db.wait("good", db.sql("INSERT INTO posts VALUES ('d', 9)").scn)
        assert db.sql("SELECT * FROM seen ORDER BY author").fetchall() == [
            ("a", 12, "I"),
            ("c", 16, "I"),
            ("d", 18, "I"),
        ]


def test_on_demand_it_is_computed_up_to_now_whatever_was_committed_last(fed: Any) -> None:
    fed.sql(f"CREATE CONTINUOUS QUERY good COMPUTE ON DEMAND AS {GOOD}")
    fed.sql("SELECT cq_recompute('good')")
    with fed.subscribe("good") as changes:
        fed.sql("INSERT INTO posts VALUES ('a', 7)")
        newest = fed.sql("INSERT INTO t VALUES (1)").scn
        assert fed.sql("SELECT cq_recompute('good')").fetchall() == [(newest,)]
        assert [change.row["author"] for change in changes.poll(5)] == ["a"]
        fed.sql("SELECT cq_recompute('good')")
        assert changes.poll() == []


def test_suspended_it_remembers_and_inactive_it_does_not(fed: Any) -> None:
    fed.sql(f"CREATE CONTINUOUS QUERY good AS {GOOD}")
    with fed.subscribe("good") as changes:
        fed.sql("ALTER CONTINUOUS QUERY good SUSPEND")
        scn = fed.sql("INSERT INTO posts VALUES ('a', 6)").scn
        fed.sql("ALTER CONTINUOUS QUERY good ACTIVATE")
        fed.wait("good", scn)
        assert [change.row["author"] for change in changes.poll(5)] == ["a"]
    fed.sql("ALTER CONTINUOUS QUERY good DEACTIVATE")
    fed.sql("INSERT INTO posts VALUES ('b', 6)")
    fed.sql("ALTER CONTINUOUS QUERY good ACTIVATE")
    with fed.subscribe("good") as changes:
        fed.wait("good", fed.sql("INSERT INTO posts VALUES ('c', 6)").scn)
        assert [change.row["author"] for change in changes.poll(5)] == ["c"]


@pytest.mark.parametrize(
    "marked",
    [
        "SELECT ^author, count(*) AS n FROM posts GROUP BY author",
        "SELECT ^author FROM posts JOIN t ON t.a = posts.score",
        "SELECT DISTINCT ^author FROM posts",
        "SELECT ^author FROM posts WHERE score > (SELECT max(a) FROM t)",
        "SELECT ^author FROM posts LIMIT 1",
        "SELECT author FROM ^posts [WINDOW 2 ROWS]",
        "SELECT ^author FROM posts UNION SELECT author FROM posts",
        "SELECT author FROM posts UNION ALL SELECT ^'b'",
        "SELECT author FROM posts UNION ALL SELECT CAST(a AS text) FROM ^t",
        "SELECT author FROM (SELECT ^author, count(*) AS n FROM posts GROUP BY author) AS p",
        "SELECT author FROM (SELECT ^author FROM posts LIMIT 1) AS p",
        "SELECT author FROM (SELECT ^author, row_number() OVER (ORDER BY score) AS n FROM posts) AS p",
        "SELECT ^author FROM (SELECT author FROM posts) AS p JOIN t ON true",
    ],
)
def test_what_would_have_to_keep_rows_is_refused(fed: Any, marked: str) -> None:
    statement = f"CREATE CONTINUOUS QUERY q AS {marked}"
    with pytest.raises(midstream.Unsupported, match="filter and map its rows") as caught:
        fed.sql(statement.replace("^", ""))
    assert "view" in str(caught.value.hint)
    assert caught.value.position == (1, statement.index("^") + 1)
    assert fed.sql("SHOW CONTINUOUS QUERIES").fetchall() == []


@pytest.mark.parametrize("kernel", ["duckdb", "spark"])
@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT name || '!' AS it FROM (SELECT author AS name FROM posts WHERE score > 5) AS p", ["a!", "c!"]),
        ("SELECT author AS it FROM (SELECT * FROM posts WHERE score < 9) AS p WHERE score > 5", ["a"]),
        (
            "WITH good AS (SELECT author, score AS _scn FROM posts WHERE score > 5) SELECT author AS it FROM good AS g "
            "UNION ALL SELECT 'low' FROM posts WHERE score < 5 UNION ALL SELECT upper(author) FROM good WHERE _scn > 8",
            ["a", "low", "c", "C"],
        ),
        ("SELECT it FROM (SELECT author AS it FROM posts UNION ALL (SELECT 'x' FROM posts)) AS p", list("axbxcx")),
    ],
)
def test_filters_and_maps_may_be_nested_and_stand_side_by_side(
    fed: Any, query: str, wanted: list[str], kernel: str
) -> None:
    fed.sql(f"SET kernel = '{kernel}'; CREATE CONTINUOUS QUERY q AS {query}")
    with fed.subscribe("q") as changes:
        fed.wait("q", fed.sql("INSERT INTO posts VALUES ('a', 7), ('b', 1), ('c', 9)").scn)
        found = changes.poll(5)
    assert [change.row["it"] for change in found] == wanted
    assert len({change.id for change in found}) == len(wanted), "each change has an id of its own"


def test_branches_of_union_all_tell_what_happened_and_fill_a_destination(fed: Any) -> None:
    fed.sql("CREATE TABLE seen (it text, kind text)")
    fed.sql(
        "CREATE CONTINUOUS QUERY q DESTINATION seen AS SELECT author AS it, cq_delta() AS kind FROM posts "
        "UNION ALL SELECT upper(author), cq_delta() FROM posts WHERE score > 5"
    )
    fed.wait("q", fed.sql("INSERT INTO posts VALUES ('a', 7), ('b', 1)").scn)
    assert sorted(fed.sql("SELECT it, kind FROM seen").fetchall()) == [("A", "I"), ("a", "I"), ("b", "I")]


def test_a_query_over_two_streams_is_refused(fed: Any) -> None:
    fed.sql("CREATE STREAM pages (author text)")
    with pytest.raises(midstream.Unsupported, match="reads one stream") as caught:
        fed.sql("CREATE CONTINUOUS QUERY q AS SELECT author FROM posts UNION ALL SELECT author FROM pages")
    assert "one continuous query for each" in str(caught.value.hint)


def test_a_view_over_the_stream_hands_out_groups(fed: Any) -> None:
    fed.sql("CREATE VIEW totals AS SELECT author, sum(score) AS total FROM posts GROUP BY author")
    fed.sql("CREATE CONTINUOUS QUERY high PRIMARY KEY (author) AS SELECT * FROM totals WHERE total > 10")
    with fed.subscribe("high") as changes:
        fed.wait("high", fed.sql("INSERT INTO posts VALUES ('a', 6), ('b', 2)").scn)
        assert changes.poll() == []
        fed.wait("high", fed.sql("INSERT INTO posts VALUES ('a', 6)").scn)
        [first] = changes.poll(5)
        assert (first.kind, first.row) == ("I", {"author": "a", "total": 12})
        fed.wait("high", fed.sql("INSERT INTO posts VALUES ('a', 1)").scn)
        [second] = changes.poll(5)
        assert (second.kind, second.row["total"], second.old) == ("U", 13, {"author": "a", "total": 12})
