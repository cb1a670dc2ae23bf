"""What Spark would order in another way than PostgreSQL runs on DuckDB."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from midstream.plan import BindContext, BoundQuery, bind_query
from midstream.relations.schema import Relation
from midstream.relations.table import Column, Table
from midstream.sql import parse_query
from midstream.types import INT, array_of

T = Table(1, "t", (Column("a", INT), Column("l", array_of(INT))))


class OneTable:
    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        return T if name == "t" else None

    def names(self) -> list[str]:
        return ["t"]


def bound(sql: str) -> BoundQuery:
    context = BindContext(scn=1, now=datetime(2026, 1, 1, tzinfo=timezone.utc))
    return bind_query(parse_query(sql), OneTable(), context)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t ORDER BY l",
        "SELECT l < l FROM t",
        "SELECT greatest(l, l) FROM t",
        "SELECT row_number() OVER (ORDER BY l) FROM t",
    ],
)
def test_the_order_of_arrays_is_duckdbs_to_find(sql: str) -> None:
    assert set(bound(sql).refusals) == {"spark"}


def test_other_orders_run_on_both() -> None:
    assert not bound("SELECT l FROM t WHERE l = l ORDER BY a").refusals


def test_a_chain_of_operators_stays_short() -> None:
    assert len(bound("SELECT a" + " % a" * 40 + " FROM t").sql("duckdb")) < 5_000
