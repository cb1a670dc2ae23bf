"""The change of a whole query, ready for both kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from midstream.plan import queries
from midstream.plan.bound import BoundQuery, Output, infer, kernel_names, seal
from midstream.plan.context import COMMIT, WEIGHT, BindContext, Binding
from midstream.plan.cut.build import GREATER, LESS, call, count_of_rows, derived, number, plain_column, select
from midstream.plan.cut.streams import with_fresh_aliases
from midstream.plan.difference.images import Changed, Images, number_places
from midstream.plan.difference.steps import NotSeparable, Step, Unit, Units
from midstream.plan.difference.terms import BACKED, Terms, backed_part, outputs_of, united
from midstream.plan.difference.ties import with_ties_broken
from midstream.plan.nodes import replace_item
from midstream.plan.scopes import Scope
from midstream.plan.statements import new_binding
from midstream.plan.trees import name_outputs, projections
from midstream.plan.typing import type_of
from midstream.plan.typing.nodes import typed
from midstream.relations.schema import Schema
from midstream.sql.statements import Sql
from midstream.types import BIGINT, BOOLEAN

Node = exp.Expression


@dataclass(frozen=True)
class Difference:
    """How a query's change is computed when some of its tables changed in some way."""

    query: BoundQuery | None
    """Its rows: the query's columns, c0, c1, …, and as the last one how often the row came, less how often it went,
    which is never nought. None: the query did not change."""
    steps: tuple[Step, ...]
    by_commit: bool = False
    """Whether the SCN of the commit stands before that last column."""
    units: tuple[Unit, ...] = ()
    """It holds only if all rows that came to these children, or went, refer to rows that came to their parents, or
    went."""


def bind_difference(
    query: Sql,
    schema: Schema,
    context: BindContext,
    changed: Mapping[int, Changed],
    *,
    same_constraints: bool = True,
    uses_units: Units = "none",
    in_full: bool = False,
    by_commit: bool = False,
    has_backing: bool = False,
) -> Difference | None:
    """`changed`: the tables that changed, by their ids; `same_constraints`: tables had their constraints before, too;
    `in_full`: the query is computed before and after, and compared; `by_commit`: each row says which commit it is a
    change of; `has_backing`: what can be kept of its groups or frames is. None: it cannot."""
    binding, tree, outputs = bound_tree(query, schema, context)
    terms = Terms(Images(binding, changed, same_constraints), uses_units, by_commit, has_backing)
    try:
        found = terms.recomputed(tree, "refresh = 'full'") if in_full else terms.of_query(tree)
    except NotSeparable:
        return None
    if not found:
        return Difference(None, tuple(terms.steps), by_commit)
    marks = [Output(COMMIT, BIGINT)] if by_commit else []
    net = terms.with_shared(_net(binding, united(found), by_commit))
    sealed = seal(binding, net, [*outputs, *marks, Output(WEIGHT, BIGINT)])
    return Difference(sealed, tuple(terms.steps), by_commit, tuple(terms.units))


def bind_answer(query: Sql, schema: Schema, context: BindContext) -> BoundQuery:
    """The query itself, with the order of rows that its change goes by."""
    binding, tree, outputs = _inferred(query, schema, context)
    return seal(binding, with_ties_broken(binding, tree), outputs)


def bound_tree(query: Sql, schema: Schema, context: BindContext) -> tuple[Binding, Node, list[Output]]:
    """A query as a tree without WITH, whose columns are called c0, c1, …"""
    binding, tree, outputs = _inferred(query, schema, context)
    write_out_ctes(binding, tree)
    number_places(tree)
    part = backed_part(tree)
    if part is not None:
        part.meta[BACKED] = True
    return binding, tree, outputs


def _inferred(query: Sql, schema: Schema, context: BindContext) -> tuple[Binding, Node, list[Output]]:
    binding = new_binding(schema, context)
    bound = queries.bind_query_tree(binding, query.tree(), Scope())
    tree = infer(binding, name_outputs(bound, kernel_names(len(bound.names))).tree)
    outputs = [Output(name, type_of(node)) for name, node in zip(bound.names, projections(tree), strict=True)]
    return binding, tree, outputs


def write_out_ctes(binding: Binding, tree: Node) -> None:
    """WITH queries stand where they are used: what is computed of each may differ from place to place."""
    for with_ in list(tree.find_all(exp.With)):
        for cte in reversed(with_.expressions):
            name = cte.args["alias"].name
            for use in [table for table in tree.find_all(exp.Table) if table.name == name]:
                replace_item(use, derived(with_fresh_aliases(binding, cte.this), use.alias))
        if with_.parent is not None:
            with_.parent.set("with_", None)


def _net(binding: Binding, union: Node, by_commit: bool) -> exp.Select:
    """Each row once, with how often it came, less how often it went, where that is not nought."""
    alias = binding.fresh_alias("d")
    columns = [(name, plain_column(alias, name, kind)) for name, kind in outputs_of(union)]
    if by_commit:
        columns.append((f"c{len(columns)}", plain_column(alias, COMMIT, BIGINT)))
    # Counts, not a sum of weights: DuckDB 2.0.0 draws wrong conclusions from what it knows of constants in such a sum.
    weight = plain_column(alias, WEIGHT, BIGINT)
    came = count_of_rows(call(GREATER, weight, number(0)))
    went = count_of_rows(call(LESS, weight, number(0)))
    total = call("-(bigint, bigint)", came.copy(), went.copy(), type_=BIGINT)
    net = select([*columns, (f"c{len(columns)}", total)], derived(union, alias), group=[node for _, node in columns])
    either = exp.Or(this=call(GREATER, came.copy(), went.copy()), expression=call(LESS, came.copy(), went.copy()))
    net.set("having", exp.Having(this=typed(either, BOOLEAN)))
    return net
