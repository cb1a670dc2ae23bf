"""Every statement of the language parses into its class, prints back to an equal one, and so does its tree."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from sqlglot import exp

from midstream.sql import parse, parse_one, parse_query, statements, to_sql
from midstream.sql.dialect import Midstream
from midstream.sql.statements import Sql, Statement

_FILE = Path(__file__).with_name("statements.sql")
_CASES = re.findall(r"^-- ([A-Z]\w+)\n(.*?)(?=^--|\Z)", _FILE.read_text(), re.MULTILINE | re.DOTALL)


def _name(case: tuple[str, str]) -> str:
    return " ".join(case[1].split())[:60]


@pytest.mark.parametrize("case", _CASES, ids=_name)
def test_a_statement_is_read_into_its_class(case: tuple[str, str]) -> None:
    expected, text = case
    assert type(parse_one(text)).__name__ == expected


@pytest.mark.parametrize("case", _CASES, ids=_name)
def test_a_statement_prints_back_to_an_equal_one(case: tuple[str, str]) -> None:
    statement = parse_one(case[1])
    printed = to_sql(statement)
    assert parse_one(printed) == statement
    assert to_sql(parse_one(printed)) == printed


@pytest.mark.parametrize("case", _CASES, ids=_name)
def test_the_tree_of_a_statement_says_all_that_the_text_says(case: tuple[str, str]) -> None:
    statement = parse_one(case[1])
    for tree in _trees(statement):
        assert _read(tree.sql(dialect=Midstream)) == tree


def test_the_whole_file_is_one_script() -> None:
    script = parse(_FILE.read_text())
    assert [type(statement).__name__ for statement in script] == [expected for expected, _ in _CASES]


def test_no_statement_of_the_language_is_missing_from_the_file() -> None:
    classes = {c.__name__ for c in vars(statements).values() if isinstance(c, type) and issubclass(c, Statement)}
    assert {expected for expected, _ in _CASES} == classes - {"Statement"}


def _trees(statement: Statement) -> list[exp.Expression]:
    values = [getattr(statement, field.name) for field in fields(statement)]
    trees = [value.tree() for value in values if isinstance(value, Sql)]
    return [tree for tree in trees if not tree.find(exp.Var, bfs=False) or not isinstance(tree, exp.Values)]


def _read(text: str) -> exp.Expression:
    if text.startswith(("UPDATE", "DELETE", "MERGE")):
        statement = parse_one(text)
        assert isinstance(statement, statements.Update | statements.Delete | statements.Merge)
        return statement.tree.tree()
    return parse_query(text).tree()
