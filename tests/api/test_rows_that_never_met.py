"""Rows that no answer ever had: those that came and went meanwhile, and pairs of one from before and one from after.

A query that cannot compute with them, since it divides by zero, must be kept all the same."""

from __future__ import annotations

from typing import Any

import pytest

from asking import fault, rows

RATIO = "SELECT a.k, a.x / b.y AS ratio FROM a JOIN b ON b.k = a.k"


@pytest.fixture
def pair(db: Any) -> Any:
    db.sql("CREATE TABLE a (id int PRIMARY KEY, k int, x int)")
    db.sql("CREATE TABLE b (id int PRIMARY KEY, k int, y int)")
    db.sql("INSERT INTO a VALUES (1, 1, 5), (3, 3, 9)")
    db.sql("INSERT INTO b VALUES (2, 2, 0), (3, 3, 3)")
    return db


def meet(db: Any) -> None:
    """Whichever of the tables a term takes as it was, an old row meets a new one."""
    db.sql("BEGIN; DELETE FROM a WHERE id = 1; INSERT INTO a VALUES (2, 2, 6); UPDATE a SET x = 12 WHERE id = 3;")
    db.sql("DELETE FROM b WHERE id = 2; INSERT INTO b VALUES (1, 1, 0); COMMIT")


def reach(db: Any, mode: str, scn: int) -> None:
    if "DEMAND" in mode:
        db.sql("SELECT cq_recompute('q')")
    else:
        db.wait("q", scn)


def plan_of(db: Any, what: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN {what}").fetchall())


def test_what_came_and_went_is_not_computed_with(db: Any) -> None:
    db.sql("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.sql("CREATE TABLE heard (id int, share int, op text)")
    query = "SELECT id, 100 / (v - 50) AS share, cq_delta() AS op FROM t"
    db.sql("INSERT INTO t VALUES (1, 10), (2, 20), (5, 0)")
    db.sql(f"CREATE CONTINUOUS QUERY q COMPUTE BATCHED ON DEMAND DESTINATION heard AS {query}")
    db.sql("CREATE MATERIALIZED VIEW v WITH (refresh = 'on demand') AS SELECT id, 100 / (v - 50) AS share FROM t")
    for statement in (
        "INSERT INTO t VALUES (3, 50)",
        "UPDATE t SET v = 60 WHERE id = 3",
        "UPDATE t SET v = 50 WHERE id = 1",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (4, 50)",
        "DELETE FROM t WHERE id = 4",
        "UPDATE t SET v = 50 WHERE id IN (2, 5)",
        "UPDATE t SET v = 20 WHERE id = 2",
        "UPDATE t SET v = 30 WHERE id = 5",
    ):
        db.sql(statement)
    db.sql("SELECT cq_recompute('q')")
    db.sql("REFRESH MATERIALIZED VIEW v")
    assert rows(db, "SELECT * FROM heard") == [(1, -2, "D"), (3, 10, "I"), (5, -2, "D"), (5, -5, "I")]
    assert rows(db, "SELECT * FROM v") == [(2, -3), (3, 10), (5, -5)]
    for told in (plan_of(db, "CONTINUOUS QUERY q"), plan_of(db, "MATERIALIZED VIEW v")):
        assert "computed anew" not in told


@pytest.mark.parametrize("mode", ["ON COMMIT", "BATCHED ON DEMAND", "TRANSACTIONAL DELTA ON DEMAND"])
def test_a_query_goes_on_by_comparing_answers_where_a_term_fails(pair: Any, mode: str) -> None:
    pair.sql("CREATE TABLE heard (k int, ratio int, op text)")
    select = RATIO.replace("AS ratio", "AS ratio, cq_delta() AS op")
    pair.sql(f"CREATE CONTINUOUS QUERY q COMPUTE {mode} DESTINATION heard AS {select}")
    meet(pair)
    scn = pair.sql("UPDATE a SET x = 15 WHERE id = 3").scn
    reach(pair, mode, scn)
    heard = rows(pair, "SELECT * FROM heard")
    assert sum({"I": 1, "D": -1}[op] * ratio for _, ratio, op in heard) == 15 // 3 - 9 // 3
    assert "by changes, it failed: division by zero" in plan_of(pair, "CONTINUOUS QUERY q")
    scn = pair.sql("UPDATE a SET x = 18 WHERE id = 3").scn
    reach(pair, mode, scn)
    assert {(3, 5, "D"), (3, 6, "I")} <= set(rows(pair, "SELECT * FROM heard"))


def test_a_materialized_view_goes_on_too(pair: Any) -> None:
    pair.sql(f"CREATE MATERIALIZED VIEW v AS {RATIO}")
    meet(pair)
    assert rows(pair, "SELECT * FROM v") == [(3, 4)]
    assert "by changes, it failed: division by zero" in plan_of(pair, "MATERIALIZED VIEW v")


def test_one_that_must_be_kept_by_changes_is_refused_instead(pair: Any) -> None:
    pair.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS {RATIO}")
    pair.sql(f"CREATE CONTINUOUS QUERY q COMPUTE ON DEMAND WITH (refresh = 'incremental') AS {RATIO}")
    meet(pair)
    assert "division by zero" in str(fault(lambda: rows(pair, "SELECT * FROM v")))
    assert "division by zero" in str(fault(lambda: rows(pair, "SELECT cq_recompute('q')")))
    pair.sql("REFRESH MATERIALIZED VIEW v FULL")
    assert rows(pair, "SELECT * FROM v") == [(3, 4)]
