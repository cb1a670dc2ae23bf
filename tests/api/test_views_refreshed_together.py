"""Materialized views that are refreshed together: in one job, and none at another's expense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from asking import fault, rows, wait_for


@pytest.fixture
def shop(db: Any) -> Any:
    db.sql("CREATE TABLE items (id int PRIMARY KEY, kind text, price int)")
    db.sql("INSERT INTO items VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)")
    return db


@contextmanager
def jobs_of(db: Any, broken: str = "") -> Iterator[Counter[str]]:
    """The jobs by label. Those with a piece that has this text fail meanwhile."""
    engine, run, seen = db._engine, db._engine.run, Counter[str]()

    def noted(kernel: str, pieces: Any, *, label: str = "", cancellation: Any = None) -> Any:
        if pieces:
            seen[label] += 1
        if broken and any(broken in piece.sql for piece in pieces):
            raise fault(lambda: db.sql("SELECT 1 / 0"))
        return run(kernel, pieces, label=label, cancellation=cancellation)

    engine.run = noted
    try:
        yield seen
    finally:
        del engine.run


def settled(db: Any, *names: str) -> None:
    for name in names:
        db.wait(name, db.sql("SELECT current_scn()").fetchall()[0][0])


VIEWS = {
    "totals": (
        "SELECT kind, count(*) AS n, sum(price) AS price FROM items GROUP BY kind",
        [("a", 2, 41), ("b", 2, 50)],
    ),
    "dear": ("SELECT id FROM items WHERE price > 15", [(2,), (3,), (4,)]),
    "kinds": ("SELECT DISTINCT kind FROM items", [("a",), ("b",)]),
}


def test_one_job_refreshes_all_views_that_a_commit_touches(shop: Any) -> None:
    for name, (query, _) in VIEWS.items():
        shop.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    settled(shop, *VIEWS)
    with jobs_of(shop) as seen:
        shop.sql("BEGIN; INSERT INTO items VALUES (4, 'b', 30); UPDATE items SET price = 11 WHERE id = 1; COMMIT")
        settled(shop, *VIEWS)
    assert seen["refresh"] == 1
    for name, (_, answer) in VIEWS.items():
        assert rows(shop, f"SELECT * FROM {name}") == answer


def test_views_over_views_take_a_job_for_each_level(shop: Any) -> None:
    shop.sql("CREATE MATERIALIZED VIEW low AS SELECT kind, sum(price) AS price FROM items GROUP BY kind")
    shop.sql("CREATE MATERIALIZED VIEW other AS SELECT id FROM items WHERE price > 15")
    shop.sql("CREATE MATERIALIZED VIEW high AS SELECT max(price) AS most FROM low")
    shop.sql("CREATE MATERIALIZED VIEW crossed AS SELECT l.kind, o.id FROM low l, other o WHERE l.price > o.id * 14")
    settled(shop, "low", "other", "high", "crossed")
    with jobs_of(shop) as seen:
        shop.sql("INSERT INTO items VALUES (4, 'b', 30)")
        settled(shop, "high", "crossed", "other")
    assert seen["refresh"] == 2
    assert rows(shop, "SELECT * FROM high") == [(50,)]
    assert rows(shop, "SELECT * FROM crossed") == [("a", 2), ("b", 2), ("b", 3)]


def test_a_view_that_fails_holds_back_those_that_read_it_and_no_others(shop: Any) -> None:
    shop.sql("CREATE MATERIALIZED VIEW bad AS SELECT id, 100 / (price - 50) AS share FROM items")
    shop.sql("CREATE MATERIALIZED VIEW above AS SELECT count(*) AS n FROM bad")
    shop.sql("CREATE MATERIALIZED VIEW good AS SELECT count(*) AS n FROM items")
    settled(shop, "bad", "above", "good")
    shop.sql("INSERT INTO items VALUES (4, 'b', 50)")
    wait_for(lambda: rows(shop, "SELECT * FROM good") == [(4,)])
    for name in ("bad", "above"):
        assert "division by zero" in str(fault(lambda name=name: rows(shop, f"SELECT * FROM {name}")))  # type: ignore[misc]
    shop.sql("UPDATE items SET price = 40 WHERE id = 4")
    assert rows(shop, "SELECT * FROM above") == [(4,)]
    assert (4, -10) in rows(shop, "SELECT * FROM bad"), "the zero was there between two refreshes"


def test_what_a_view_did_not_come_to_is_not_lost_for_those_above(shop: Any) -> None:
    """Its refresh counts for the commit that it is of, which those above must not have left behind."""
    shop.sql("CREATE MATERIALIZED VIEW low AS SELECT kind, sum(price) AS price FROM items GROUP BY kind")
    shop.sql("CREATE MATERIALIZED VIEW high AS SELECT max(price) AS most FROM low")
    shop.sql("CREATE TABLE heard (kind text, price bigint, op text)")
    shop.sql(
        "CREATE CONTINUOUS QUERY told COMPUTE ON COMMIT DESTINATION heard"
        " AS SELECT kind, price, cq_delta() AS op FROM low"
    )
    settled(shop, "low", "high", "told")
    with jobs_of(shop, broken="sum(") as seen:
        shop.sql("INSERT INTO items VALUES (4, 'b', 30)")
        wait_for(lambda: seen["refresh"] >= 1)
    assert rows(shop, "SELECT * FROM high") == [(50,)]
    settled(shop, "told")
    assert rows(shop, "SELECT * FROM heard") == [("b", 20, "D"), ("b", 50, "I")]
