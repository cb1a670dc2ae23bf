"""An alias never has a column's name, which Spark would take for that column."""

from __future__ import annotations

from datetime import datetime, timezone

from midstream.plan import BindContext, bind_query
from midstream.relations.schema import Relation
from midstream.relations.table import Column, Table
from midstream.sql import parse_query
from midstream.types import INT

DEPT = Table(1, "dept", (Column("id", INT), Column("name", INT)))
EMP = Table(2, "emp", (Column("dept", INT), Column("pay", INT)))


class TwoTables:
    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        return {"dept": DEPT, "emp": EMP}.get(name)

    def names(self) -> list[str]:
        return ["dept", "emp"]


def spark_text(sql: str) -> str:
    context = BindContext(scn=1, now=datetime(2026, 1, 1, tzinfo=timezone.utc))
    return bind_query(parse_query(sql), TwoTables(), context).sql("spark")


def test_an_alias_with_a_columns_name_gets_another() -> None:
    text = spark_text("SELECT id, (SELECT sum(pay) FROM emp WHERE dept = dept.id) FROM dept")
    assert "AS `dept_`" in text
    assert "`dept_`.`id`" in text
    assert "`dept`.`id`" not in text


def test_other_aliases_stay() -> None:
    assert "AS `d`" in spark_text("SELECT d.id FROM dept d")
