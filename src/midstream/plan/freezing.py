"""A query's text with every * written out, so that it keeps its columns when its tables get more.

SELECT * FROM users u JOIN orders USING (id)      SELECT id, name, oid FROM users u JOIN orders USING (id)
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from midstream.errors import Position
from midstream.plan import queries
from midstream.plan.context import BindContext
from midstream.plan.scopes import Scope
from midstream.plan.statements import new_binding
from midstream.relations.schema import Schema
from midstream.sql import parse_query
from midstream.sql.statements import Sql


def freeze_stars(
    query: Sql,
    schema: Schema,
    context: BindContext,
    *,
    takes_streams: bool = False,
    prepared: Callable[[exp.Expression], exp.Expression] = lambda tree: tree,
) -> Sql:
    """The same query without stars; one that cannot be written out, for columns of one name, stays. `prepared` takes
    away what cannot be bound."""
    text = query.text
    binding = new_binding(schema, context)
    binding.takes_streams = takes_streams
    queries.bind_query_tree(binding, prepared(parse_query(text).tree()), Scope())
    for place, columns in sorted(binding.stars, reverse=True):
        text = _written_out(text, _offset(text, place), ", ".join(columns))
    return parse_query(text)


def _written_out(text: str, start: int, columns: str) -> str:
    """TABLE t is a star as well."""
    if text[start : start + len("table")].lower() == "table":
        return f"{text[:start]}SELECT {columns} FROM{text[start + len('table') :]}"
    return text[:start] + columns + text[text.index("*", start) + 1 :]


def _offset(text: str, place: Position) -> int:
    line, column = place
    return sum(len(before) for before in text.splitlines(keepends=True)[: line - 1]) + column - 1
