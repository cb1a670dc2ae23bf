"""Continuous queries over continuous views and over streams: answers that are compared, and rows that only come."""

from __future__ import annotations

from typing import Any

import pytest

from asking import fault, rows

TOTALS = "SELECT uid, score FROM totals"


@pytest.fixture
def posts(db: Any) -> Any:
    db.sql("DROP QUEUE IF EXISTS q")
    db.sql("CREATE STREAM posts (uid bigint, score int)")
    db.sql("CREATE VIEW totals AS SELECT uid, sum(score) AS score FROM posts GROUP BY uid")
    db.sql("INSERT INTO posts VALUES (1, 1)")
    return db


def post(db: Any, *values: tuple[int, int]) -> int:
    return int(db.sql("INSERT INTO posts VALUES " + ", ".join(map(str, values))).scn)


def told(feed: Any) -> list[tuple[Any, ...]]:
    """What has come by now."""
    return sorted((change.kind, *change.row.values()) for change in feed.poll(timeout=0))


def state_of(db: Any, name: str) -> str:
    [shown] = [row for row in db.sql("SHOW CONTINUOUS QUERIES").fetchall() if row[0] == name]
    [state] = {str(cell).upper() for cell in shown} & {"ACTIVE", "SUSPENDED", "INACTIVE"}
    return state


# States


def test_what_changed_of_a_view_while_its_query_was_inactive_is_never_handed_out(posts: Any) -> None:
    posts.sql(f"CREATE CONTINUOUS QUERY top PRIMARY KEY (uid) COMPUTE ON COMMIT AS {TOTALS}")
    posts.wait("top", post(posts, (1, 1)))
    posts.sql("ALTER CONTINUOUS QUERY top DEACTIVATE")
    post(posts, (1, 10), (2, 5))
    error = fault(lambda: posts.subscribe("top", snapshot=True))
    assert '"top" is inactive' in str(error)
    posts.sql("ALTER CONTINUOUS QUERY top ACTIVATE")
    with posts.subscribe("top") as feed, posts.subscribe("top", snapshot=True) as whole:
        assert told(whole) == [("I", 1, 12), ("I", 2, 5)]
        posts.wait("top", post(posts, (2, 2)))
        assert told(feed) == told(whole) == [("U", 2, 7)]


def test_a_suspended_query_over_a_view_catches_up(posts: Any) -> None:
    posts.sql(f"CREATE CONTINUOUS QUERY top PRIMARY KEY (uid) COMPUTE ON COMMIT AS {TOTALS}")
    with posts.subscribe("top") as feed:
        posts.sql("ALTER CONTINUOUS QUERY top SUSPEND")
        scn = post(posts, (1, 10), (2, 5))
        posts.sql("ALTER CONTINUOUS QUERY top ACTIVATE")
        posts.wait("top", scn)
        assert told(feed) == [("I", 2, 5), ("U", 1, 11)]


# Snapshots


def test_a_snapshot_is_what_the_changes_after_it_begin_with(posts: Any) -> None:
    posts.sql(f"CREATE CONTINUOUS QUERY top PRIMARY KEY (uid) COMPUTE BATCHED ON DEMAND AS {TOTALS}")
    post(posts, (1, 1), (2, 5))
    with posts.subscribe("top", snapshot=True) as feed:
        assert told(feed) == [("I", 1, 1)], "not yet computed, so not yet there"
        posts.sql("SELECT cq_recompute('top')").fetchall()
        assert told(feed) == [("I", 2, 5), ("U", 1, 2)]
    assert "SCN" in str(fault(lambda: posts.subscribe("top", snapshot=True, after=1)))


# Keys


def test_a_key_that_other_rows_of_a_view_had_all_along_suspends_its_query(posts: Any) -> None:
    posts.sql("CREATE CONTINUOUS QUERY ranks PRIMARY KEY (score) COMPUTE BATCHED ON DEMAND AS " + TOTALS)
    with posts.subscribe("ranks") as feed:
        post(posts, (2, 1))
        error = fault(lambda: posts.sql("SELECT cq_recompute('ranks')").fetchall())
        assert "Key (score)=(1) belongs to more than one row" in str(error)
        assert state_of(posts, "ranks") == "SUSPENDED"
        post(posts, (2, 3))
        posts.sql("ALTER CONTINUOUS QUERY ranks ACTIVATE")
        posts.sql("SELECT cq_recompute('ranks')").fetchall()
        assert told(feed) == [("I", 2, 4)]


def test_a_key_that_a_view_violates_already_is_refused(posts: Any) -> None:
    post(posts, (2, 1))
    error = fault(lambda: posts.sql(f"CREATE CONTINUOUS QUERY ranks PRIMARY KEY (score) COMPUTE ON COMMIT AS {TOTALS}"))
    assert "violates its primary key" in str(error)
    assert posts.sql("SHOW CONTINUOUS QUERIES").fetchall() == []


def test_a_key_over_a_stream_is_refused_because_nothing_could_check_it(posts: Any) -> None:
    create = "CREATE CONTINUOUS QUERY good PRIMARY KEY (uid) COMPUTE ON COMMIT AS SELECT uid, score FROM posts"
    error = fault(lambda: posts.sql(create))
    assert "PRIMARY KEY" in str(error) and "posts" in str(error)
    assert posts.sql("SHOW CONTINUOUS QUERIES").fetchall() == []


# How they are kept


def test_a_query_over_a_view_is_not_kept_by_changes_alone(posts: Any) -> None:
    create = "CREATE CONTINUOUS QUERY top {} COMPUTE ON COMMIT AS " + TOTALS
    error = fault(
        lambda: posts.sql("CREATE CONTINUOUS QUERY top COMPUTE ON COMMIT WITH (refresh = 'incremental') AS " + TOTALS)
    )
    assert "cannot be kept by changes alone" in str(error) and "totals" in str(error)
    assert any("compared with the last" in notice for notice in posts.sql(create.format("")).notices)


def test_every_result_of_a_window_view_is_compared_with_the_one_before(posts: Any) -> None:
    posts.sql("CREATE VIEW last_three AS SELECT uid, sum(score) AS score FROM posts [WINDOW 3 ROWS] GROUP BY uid")
    posts.sql("CREATE CONTINUOUS QUERY tops PRIMARY KEY (uid) COMPUTE ON COMMIT AS SELECT uid, score FROM last_three")
    with posts.subscribe("tops") as feed:
        posts.wait("tops", post(posts, (1, 1), (1, 2), (2, 4)))
        assert told(feed) == [("I", 1, 3), ("I", 2, 4)]
        posts.wait("tops", post(posts, (2, 4)))
        assert told(feed) == [], "no window was complete"
        posts.wait("tops", post(posts, (2, 1), (3, 9)))
        assert told(feed) == [("D", 1, 3), ("I", 3, 9), ("U", 2, 5)]
    assert rows(posts, "SELECT * FROM last_three") == [(2, 5), (3, 9)]
