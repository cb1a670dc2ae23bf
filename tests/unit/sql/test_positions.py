"""Positions are lines and columns of the whole text, wherever the statement stands in it."""

from __future__ import annotations

import pytest
from sqlglot import exp

from midstream.errors import Error
from midstream.sql import operator_position_of, parse, parse_query, position_of
from midstream.sql.statements import CreateTable, InsertValues, Select

SCRIPT = """-- a script
BEGIN;
SELECT a,
       t.b + max(c)
  FROM t; INSERT INTO t
 VALUES (1);  /* x */ COMMIT"""


def test_statements_know_where_they_start_and_how_they_were_written() -> None:
    statements = parse(SCRIPT)
    assert [statement.start for statement in statements] == [(2, 1), (3, 1), (5, 11), (6, 23)]
    assert [statement.text for statement in statements] == [
        "BEGIN",
        "SELECT a,\n       t.b + max(c)\n  FROM t",
        "INSERT INTO t\n VALUES (1)",
        "COMMIT",
    ]
    assert isinstance(statements[2], InsertValues)


def test_nodes_know_where_they_were_written() -> None:
    select = parse(SCRIPT)[1]
    assert isinstance(select, Select)
    tree = select.query.tree()
    first, second = tree.expressions
    assert position_of(first) == (3, 8)
    assert position_of(second) == (4, 8)
    assert operator_position_of(second) == (4, 12)
    assert position_of(second.expression) == (4, 14)
    assert [position_of(table) for table in tree.find_all(exp.Table)] == [(5, 8)]


def test_a_node_made_later_stands_where_its_first_part_does() -> None:
    column = parse_query("SELECT  a").tree().expressions[0]
    assert position_of(exp.Neg(this=exp.Paren(this=column.copy()))) == (1, 9)
    assert position_of(exp.Null()) is None


def test_columns_and_constraints_know_where_they_were_written() -> None:
    [table] = parse("CREATE TABLE t (\n  a int,\n  b int CHECK (b > 0)\n)")
    assert isinstance(table, CreateTable)
    assert [column.position for column in table.columns] == [(2, 3), (3, 3)]
    assert [constraint.position for constraint in table.constraints] == [(3, 9)]


def test_an_error_further_down_a_script_points_there() -> None:
    with pytest.raises(Error) as caught:
        parse("SELECT 1;\nSELECT 'ä',\n  2 +;")
    assert caught.value.position == (3, 6)
    assert str(caught.value) == 'ERROR:  syntax error at or near ";"\nLINE 3:   2 +;\n             ^'
