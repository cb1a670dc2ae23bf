"""The doors to binding: a query, a condition, a default."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from midstream.errors import InvalidQuery, TypeMismatch, Unsupported
from midstream.plan import queries
from midstream.plan.bound import (
    BoundQuery,
    BoundScalar,
    Output,
    assign,
    infer,
    kernel_names,
    refusals_of,
    seal,
    top_select,
)
from midstream.plan.calls import refuse_calls
from midstream.plan.context import BindContext, Binding, ScanKey
from midstream.plan.expressions import bind_expression
from midstream.plan.nodes import bare, place_of, subqueries
from midstream.plan.scopes import Namespace, Scope, Source, SourceColumn
from midstream.plan.trees import name_outputs, projections
from midstream.plan.typing import type_of
from midstream.relations.schema import Relation, RowHolder, Schema
from midstream.relations.table import Column
from midstream.sql import parse_expression, parse_query
from midstream.sql.statements import Sql
from midstream.types import BOOLEAN


def new_binding(schema: Schema, context: BindContext) -> Binding:
    return Binding(schema, context, lambda text: parse_query(text).tree())


def bind_query(query: Sql, schema: Schema, context: BindContext) -> BoundQuery:
    """A query over tables, ordinary views and change logs, ready for both kernels."""
    binding = new_binding(schema, context)
    bound = queries.bind_query_tree(binding, query.tree(), Scope())
    tree = name_outputs(bound, kernel_names(len(bound.names))).tree
    tree = infer(binding, tree)
    types = [type_of(node) for node in projections(tree)]
    outputs = [Output(name, type_) for name, type_ in zip(bound.names, types, strict=True)]
    return seal(binding, tree, outputs)


class _NoRelations:
    """A condition and a default read no relation."""

    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        return None

    def names(self) -> tuple[str, ...]:
        return ()


_ROW = "row"


def _binding_of_definition(context: BindContext) -> Binding:
    """The parameters are those of the statement that it is checked for, not of the definition."""
    return new_binding(_NoRelations(), replace(context, parameters=(), taken_out=0))


def bind_condition(condition: Sql | str, table: RowHolder, context: BindContext) -> BoundScalar:
    """A CHECK over one row of a table."""
    node = _tree_of(condition)
    binding = _binding_of_definition(context)
    _refuse_subquery(node, "check constraint")
    alias = binding.fresh_alias(_ROW)
    columns = tuple(SourceColumn(name, name) for name in table.column_names)
    scope = Scope().inside(Namespace.of(Source(table.name, alias, columns)))
    bound = bind_expression(binding, node, scope)
    refuse_calls(bound, "check constraints")
    select = exp.Select(expressions=[bound])
    select.set("from_", exp.From(this=binding.scan(ScanKey(table, "table", None), alias)))
    typed = bare(top_select(infer(binding, select)).expressions[0])
    if type_of(typed) != BOOLEAN:
        raise TypeMismatch(
            f"argument of CHECK must be type boolean, not type {type_of(typed)}", position=place_of(node)
        )
    return _sealed_scalar(typed)


def bind_default(column: Column, context: BindContext) -> BoundScalar:
    """The DEFAULT of a column, of exactly its type: one value for all rows of a statement."""
    binding = _binding_of_definition(context)
    select = exp.Select(expressions=[default_of(binding, column)])
    return _sealed_scalar(assign(bare(top_select(infer(binding, select, keep_unknown=True)).expressions[0]), column))


def bind_default_tree(binding: Binding, node: exp.Expression) -> exp.Expression:
    _refuse_subquery(node, "DEFAULT expression")
    used = node.find(exp.Column)
    if used is not None:
        raise Unsupported("cannot use column reference in DEFAULT expression", position=place_of(used))
    bound = bind_expression(binding, node, Scope())
    refuse_calls(bound, "DEFAULT expressions")
    return bound


def default_of(binding: Binding, column: Column) -> exp.Expression:
    """What a column gets when nobody gives it a value."""
    if column.default is None:
        return exp.Null()
    return bind_default_tree(binding, parse_expression(column.default).tree())


def _tree_of(text: Sql | str) -> exp.Expression:
    return parse_expression(text).tree() if isinstance(text, str) else text.tree()


def _refuse_subquery(node: exp.Expression, where: str) -> None:
    found = next(subqueries(node), None)
    if found is not None:
        raise InvalidQuery(f"cannot use subquery in {where}", sqlstate="0A000", position=place_of(found))


def _sealed_scalar(typed: exp.Expression) -> BoundScalar:
    typed.pop()
    used = sorted({node.name for node in typed.find_all(exp.Column)})
    for node in typed.find_all(exp.Column):
        node.set("table", None)
    return BoundScalar(type_of(typed), tuple(used), refusals_of(typed), typed)
