"""A continuous query over a stream: what comes to the stream, filtered and mapped, is the change."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan import queries
from midstream.plan.bound import BoundQuery, Output, infer, kernel_names, seal
from midstream.plan.context import BindContext
from midstream.plan.cut.build import output, plain_column
from midstream.plan.cut.streams import is_grouping
from midstream.plan.difference.terms import windows_of
from midstream.plan.nodes import is_query, place_of
from midstream.plan.scopes import Scope
from midstream.plan.statements import new_binding
from midstream.plan.trees import name_outputs, projections
from midstream.plan.typing import type_of
from midstream.relations.schema import Schema
from midstream.relations.stream import Stream
from midstream.sql.statements import Sql
from midstream.types import BIGINT

Node = exp.Expression


@dataclass(frozen=True)
class StreamedRows:
    """The rows of a stream as a query has them, each with the SCN and the position that it came with."""

    stream: Stream
    scan: str
    outputs: tuple[Output, ...]
    query: BoundQuery
    """The columns c0, c1, …, then the SCN and the position."""


def bind_streamed(query: Sql, schema: Schema, context: BindContext, scn: str, position: str) -> StreamedRows:
    """`scn` and `position` are what the rows of a batch call these."""
    binding = new_binding(schema, context)
    binding.takes_streams = True
    bound = queries.bind_query_tree(binding, query.tree(), Scope())
    tree = infer(binding, name_outputs(bound, kernel_names(len(bound.names))).tree)
    item = _only_stream(tree)
    outputs = tuple(Output(name, type_of(node)) for name, node in zip(bound.names, projections(tree), strict=True))
    marks = [plain_column(item.alias, name, BIGINT) for name in (scn, position)]
    assert isinstance(tree, exp.Select)
    names = kernel_names(len(outputs) + 2)[-2:]
    tree.set("expressions", [*tree.expressions, *(output(node, name) for node, name in zip(marks, names, strict=True))])
    tree.set("order", None)
    key = next(key for key, name in binding.scans.items() if name == item.name)
    assert isinstance(key.relation, Stream)
    sealed = seal(binding, tree, [*outputs, Output(scn, BIGINT), Output(position, BIGINT)])
    return StreamedRows(key.relation, item.name, outputs, sealed)


def _only_stream(tree: Node) -> exp.Table:
    if not isinstance(tree, exp.Select) or is_grouping(tree) or windows_of(tree):
        raise _not_plain(tree)
    item = tree.args["from_"].this if tree.args.get("from_") else None
    has_more = tree.args.get("joins") or tree.args.get("limit") or tree.args.get("offset")
    if not isinstance(item, exp.Table) or has_more or any(is_query(node) for node in tree.walk() if node is not tree):
        raise _not_plain(tree)
    return item


def _not_plain(tree: Node) -> Unsupported:
    return Unsupported(
        "a continuous query over a stream can filter and map its rows, and no more",
        detail="For groups, joins and windows, rows would have to be kept.",
        hint="Create a continuous view over the stream, and a continuous query over that.",
        position=place_of(tree),
    )
