"""What a table was before a commit: read as of that SCN, or taken from what is there now and the log; by cost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from asking import rows

PAIRS = "SELECT a.id, a.v AS left_v, b.v AS right_v FROM t AS a JOIN u AS b ON a.g = b.g"
"""A join: when both tables change, one of them is needed as it was."""


def plan_of(db: Any, view: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall())


@pytest.fixture
def tables(db: Any) -> Iterator[Any]:
    for table in "tu":
        db.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, g int, v int)")
        db.sql(f"INSERT INTO {table} SELECT i, i % 7, i * 3 FROM generate_series(1, 60) AS s(i)")
    db.sql(f"CREATE MATERIALIZED VIEW pairs WITH (refresh = 'on demand') AS {PAIRS}")
    yield db
    db.sql("SET preimage = 'auto'")


def commit(db: Any, choose: random.Random, next_id: int) -> None:
    """A transaction that changes both tables."""
    db.sql("BEGIN")
    for table in "tu":
        statements = [
            f"INSERT INTO {table} VALUES ({next_id}, {choose.randint(0, 6)}, {choose.randint(0, 9)})",
            f"UPDATE {table} SET v = v + 1 WHERE g = {choose.randint(0, 6)}",
            f"UPDATE {table} SET g = {choose.randint(0, 6)} WHERE id % 9 = {choose.randint(0, 8)}",
            f"DELETE FROM {table} WHERE id % 13 = {choose.randint(0, 12)}",
        ]
        for statement in choose.sample(statements, 2):
            db.sql(statement)
    db.sql("COMMIT")


def refreshed(db: Any) -> str:
    """The plan after a refresh that gave the right rows, by changes alone."""
    db.sql("REFRESH MATERIALIZED VIEW pairs")
    assert rows(db, "SELECT * FROM pairs") == rows(db, PAIRS)
    plan = plan_of(db, "pairs")
    assert "computed anew" not in plan
    return plan


def test_answers_are_the_same_however_what_was_is_read(tables: Any) -> None:
    choose = random.Random(5)
    for step in range(6):
        way = ("as of", "anti-join", "auto")[step % 3]
        tables.sql(f"SET preimage = '{way}'")
        for number in range(2):
            commit(tables, choose, 1000 + 2 * step + number)
        assert ("and the log: preimage = 'anti-join'" in refreshed(tables)) == (way == "anti-join")


def test_auto_takes_the_log_where_many_small_files_were_compacted(tables: Any) -> None:
    for number in range(12):
        for table in "tu":
            tables.sql(f"INSERT INTO {table} VALUES ({100 + number}, {number % 7}, 0)")
    assert "and the log" not in refreshed(tables), "what was is in one file"
    commit(tables, random.Random(1), 500)
    assert tables.upkeep().compacted_tables >= 2
    plan = refreshed(tables)
    assert "had before the last change was taken from what is there now and the log: there were more" in plan
    commit(tables, random.Random(2), 501)
    assert "and the log" not in refreshed(tables), "what was is in two files"


NAMES = ("n", "nth", "nth_last", "trans_scn", "dml_type", "old_new_mark", "numbered")


@pytest.mark.parametrize("way", ["as of", "anti-join"])
def test_a_column_may_have_any_name_however_what_was_is_read(db: Any, way: str) -> None:
    groups = {name: f"SELECT g, sum({name}) AS s, max({name}) AS m FROM of_{name} GROUP BY g" for name in NAMES}
    rows_of = {name: f"SELECT {name}, g FROM of_{name} WHERE {name} > 0" for name in NAMES}
    for name in NAMES:
        db.sql(f"CREATE TABLE of_{name} (id int PRIMARY KEY, {name} int, g text)")
        db.sql(f"INSERT INTO of_{name} VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 3, 'b'), (4, 3, 'c')")
        on_demand = "WITH (refresh = 'on demand')"
        db.sql(f"CREATE MATERIALIZED VIEW groups_{name} {on_demand} AS {groups[name]}")
        db.sql(f"CREATE MATERIALIZED VIEW rows_{name} {on_demand} AS {rows_of[name]}")
    db.sql(f"SET preimage = '{way}'")
    try:
        for name in NAMES:
            db.sql(f"UPDATE of_{name} SET {name} = {name} + 1 WHERE g = 'a'")
            gone = f"DELETE FROM of_{name} WHERE g = 'b'"
            db.sql(f"BEGIN; UPDATE of_{name} SET {name} = {name} + 4 WHERE id = 1; {gone}; COMMIT")
            for view, query in ((f"groups_{name}", groups[name]), (f"rows_{name}", rows_of[name])):
                db.sql(f"REFRESH MATERIALIZED VIEW {view}")
                assert rows(db, f"SELECT * FROM {view}") == rows(db, query), (name, view)
                assert "computed anew" not in plan_of(db, view)
    finally:
        db.sql("SET preimage = 'auto'")
