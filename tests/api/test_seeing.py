"""SHOW, DESCRIBE and EXPLAIN tell what there is and what will run."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def shop(db: Any) -> Any:
    db.sql(
        "CREATE TABLE zebra (id int PRIMARY KEY, \"Name\" text NOT NULL DEFAULT 'x', price numeric(10,2), tags text[])"
    )
    db.sql("CREATE TABLE ape (id int)")
    db.sql("CREATE VIEW stripes AS SELECT id AS stripe, price FROM zebra")
    return db


def names(result: Any) -> list[str]:
    return sorted(row[0] for row in result.fetchall())


def test_the_first_column_of_every_show_is_the_name(shop: Any) -> None:
    assert names(shop.sql("SHOW TABLES")) == ["ape", "zebra"]
    assert names(shop.sql("SHOW VIEWS")) == ["stripes"]
    assert names(shop.sql("SHOW STREAMS")) == []
    assert names(shop.sql("SHOW CONTINUOUS QUERIES")) == []
    assert all(isinstance(row[0], str) for row in shop.sql("SHOW STATUS").fetchall())
    for what in ("TABLES", "VIEWS", "STREAMS", "STATUS"):
        assert shop.sql(f"SHOW {what}").columns[0] == "name"


def test_describe_names_columns_types_and_constraints(shop: Any) -> None:
    rows = shop.sql("DESCRIBE zebra").fetchall()
    assert [row[0] for row in rows][:4] == ["id", "Name", "price", "tags"]
    assert [row[1] for row in rows][:4] == ["int", "text", "numeric(10,2)", "text[]"]
    text = repr(rows)
    assert "_row_id" not in text
    assert "zebra_pkey" in text or "PRIMARY KEY" in text.upper()


def test_describe_of_a_view(shop: Any) -> None:
    rows = shop.sql("DESCRIBE stripes").fetchall()
    assert [row[:2] for row in rows][:2] == [("stripe", "int"), ("price", "numeric(10,2)")]


@pytest.mark.parametrize("kernel", ["duckdb", "spark"])
def test_explain_shows_the_kernel_and_its_sql_and_runs_nothing(shop: Any, kernel: str) -> None:
    session = shop.session()
    session.sql(f"SET kernel = '{kernel}'")
    plan = "\n".join(row[0] for row in session.sql("EXPLAIN SELECT 1 / id FROM zebra WHERE price > 5").fetchall())
    assert kernel in plan.lower()
    assert "zebra" in plan
    assert "price" in plan
    session.close()


def test_explain_analyze_runs_it(shop: Any) -> None:
    shop.sql("INSERT INTO zebra (id, price) VALUES (1, 2), (2, 3)")
    plan = "\n".join(row[0] for row in shop.sql("EXPLAIN (ANALYZE) SELECT id FROM zebra").fetchall())
    assert "2" in plan
    assert "ms" in plan


def test_explain_of_a_change_changes_nothing(shop: Any) -> None:
    shop.sql("EXPLAIN INSERT INTO ape VALUES (1)")
    shop.sql("EXPLAIN DELETE FROM ape")
    assert shop.sql("SELECT * FROM ape").fetchall() == []
