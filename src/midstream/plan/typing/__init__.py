"""Types: from a tree whose names are bound to one in which every value has a type and PostgreSQL's meaning.

Implicit casts become nodes, untyped literals are read as what their place asks for, operators and functions
become calls of overloads in the table (`plan.functions`). What has no meaning in PostgreSQL is refused here,
with the place in the user's text.

    infer_types(parse('SELECT "t"."a" + 1.5 AS "x" FROM "scan_0" AS "t"'), {"scan_0": {"a": INT}})
    type_of(its select list)  ->  numeric(12,1)
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from midstream.plan.typing.conversion import cast_for_assignment
from midstream.plan.typing.nodes import type_of
from midstream.plan.typing.queries import infer_query
from midstream.plan.typing.scalars import infer_value
from midstream.plan.typing.scopes import Scope
from midstream.types import Type

_QUERIES = (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)


def infer_types(tree: exp.Expression, scans: Mapping[str, Mapping[str, Type]]) -> exp.Expression:
    """A typed copy of a query, or of a scalar whose columns belong to the scan named ""."""
    copy = tree.copy()
    scope = Scope(scans)
    if isinstance(copy, _QUERIES):
        infer_query(copy, scope)
        return copy
    if "" in scans:
        scope = scope.with_source("", dict(scans[""]), stored=True)
    for alias, columns in scans.items():
        scope = scope.with_source(alias, dict(columns), stored=True)
    return infer_value(copy, scope)


__all__ = ["cast_for_assignment", "infer_types", "type_of"]
