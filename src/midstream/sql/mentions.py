"""What a tree mentions by name: columns, relations, and the columns that an UPDATE assigns."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqlglot import exp

from midstream.errors import Position
from midstream.sql.lexer import Source, read_statement
from midstream.sql.positions import position_of
from midstream.sql.statements import Sql, Statement, Update

_IDENTIFIER = re.compile(r'"(?:[^"]|"")*"|\w+')


def columns_named(sql: Sql) -> tuple[str, ...]:
    """Every column name in an expression, once each."""
    return tuple(dict.fromkeys(column.name for column in sql.tree().find_all(exp.Column)))


def relations_named(sql: Sql) -> tuple[str, ...]:
    """Every relation name in a query, once each; names of its own WITH clauses are among them."""
    return tuple(dict.fromkeys(table.name for table in sql.tree().find_all(exp.Table)))


def place_of_relation(sql: Sql, name: str) -> Position | None:
    """Where a query first names a relation."""
    return next((position_of(table) for table in sql.tree().find_all(exp.Table) if table.name == name), None)


def place_of_parameter(sql: Sql) -> Position | None:
    """Where a query has its first `?` or `$n`."""
    return min((place for node in sql.tree().find_all(exp.Parameter) if (place := position_of(node))), default=None)


def place_of_output(sql: Sql, name: str) -> Position | None:
    """Where a query's select list has a name for the second time."""
    query = sql.tree()
    while not isinstance(query, exp.Select) and isinstance(query.this, exp.Expression):
        query = query.this
    named = [output for output in query.expressions if output.alias_or_name == name]
    return position_of(named[1]) if len(named) > 1 else None


def assigned_columns(statement: Update) -> frozenset[str]:
    """The columns that SET names."""
    targets = [assignment.this for assignment in statement.tree.tree().expressions]
    names = [
        column for target in targets for column in (target.expressions if isinstance(target, exp.Tuple) else [target])
    ]
    return frozenset(column.name for column in names)


def with_columns_renamed(sql: Sql, names: Mapping[str, str]) -> str:
    """The expression's text with other names for some of its columns; `sql` was read from that very text.

    >>> from midstream.sql import parse_expression
    >>> with_columns_renamed(parse_expression("age > 17 AND name <> 'age'"), {"age": "years"})
    '"years" > 17 AND name <> \\'age\\''
    """
    text = sql.text
    places = [
        (position[1] - 1, names[column.name])
        for column in sql.tree().find_all(exp.Column)
        if column.name in names and (position := position_of(column.this)) is not None
    ]
    for start, name in sorted(places, reverse=True):
        written = _IDENTIFIER.match(text, start)
        end = written.end() if written else start
        text = text[:start] + '"' + name.replace('"', '""') + '"' + text[end:]
    return text


def place_of_name(statement: Statement, name: str, after: str = "") -> Position | None:
    """Where a statement's text first has a name, as a whole word, behind another one."""
    text = statement.text
    start = text.lower().find(after.lower()) + len(after) if after else 0
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text[start:], re.IGNORECASE)
    if found is None:
        return None
    return place_in(statement, start + found.start())


def place_of_value(statement: Statement, number: int) -> Position | None:
    """Where the value of that number, from 0, stands in the first row of VALUES."""
    tokens, _ = read_statement(Source(statement.text), 0)
    words = [token.value for token in tokens]
    if "values" not in words:
        return None
    depth = passed = 0
    for token in tokens[words.index("values") + 1 :]:
        if depth == 1 and passed == number and token.value not in (",", ")"):
            return place_in(statement, token.start)
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.value, 0) if token.kind == "operator" else 0
        passed += token.kind == "operator" and token.value == "," and depth == 1
    return None


def quoted_name(statement: Statement, prefix: str) -> tuple[str, Position] | None:
    """The first quoted name that begins so, and where it stands."""
    if f'"{prefix}' not in statement.text:
        return None
    tokens, _ = read_statement(Source(statement.text), 0)
    named = (token for token in tokens if token.kind == "quoted" and token.value.startswith(prefix))
    return next(((token.value, place_in(statement, token.start)) for token in named), None)


def place_in(statement: Statement, offset: int) -> Position:
    """Where an offset into a statement's own text is in what was handed to `parse`."""
    before = statement.text[:offset].split("\n")
    line, column = statement.start
    return line + len(before) - 1, len(before[-1]) + (column if len(before) == 1 else 1)
