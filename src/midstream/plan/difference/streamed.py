"""A continuous query over a stream: what comes to the stream, filtered and mapped, is the change.

Filters and maps may be nested, and stand side by side in UNION ALL: a row of the stream is then as many changes as
there are branches that let it through.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan import queries
from midstream.plan.bound import BoundQuery, Output, infer, kernel_names, seal
from midstream.plan.context import BindContext, Binding, ScanKey
from midstream.plan.cut.build import call, number, output, plain_column
from midstream.plan.cut.streams import is_grouping
from midstream.plan.difference.query import write_out_ctes
from midstream.plan.difference.terms import windows_of
from midstream.plan.nodes import place_of, subqueries
from midstream.plan.scopes import Scope
from midstream.plan.statements import new_binding
from midstream.plan.trees import BoundTree, name_outputs, projections, unique_names
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
    write_out_ctes(binding, tree)
    outputs = tuple(Output(name, type_of(node)) for name, node in zip(bound.names, projections(tree), strict=True))
    reads = list(_tables_of(tree, binding))
    _Marks(scn, position, len(reads)).add_to(tree)
    name_outputs(BoundTree(tree, bound.names), kernel_names(len(outputs) + 2))
    key = next(key for key, name in binding.scans.items() if name == reads[0].name)
    assert isinstance(key.relation, Stream)
    sealed = seal(binding, tree, [*outputs, Output(scn, BIGINT), Output(position, BIGINT)])
    return StreamedRows(key.relation, reads[0].name, outputs, sealed)


def _tables_of(tree: Node, binding: Binding) -> Iterator[exp.Table]:
    """Where the stream is read: once, or in each branch of UNION ALL. All else on the way filters and maps."""
    first: str | None = None
    for table in _plain_tables(tree):
        if not any(_is_raw(key) for key, name in binding.scans.items() if name == table.name):
            raise _not_plain(table)
        if first not in (None, table.name):
            raise _several_streams(table)
        first = table.name
        yield table


def _is_raw(key: ScanKey) -> bool:
    return key.source == "stream" and key.slots is None


def _plain_tables(query: Node) -> Iterator[exp.Table]:
    if query.args.get("limit") or query.args.get("offset"):
        raise _not_plain(query)
    match query:
        case exp.Subquery() if not query.args.get("joins"):
            yield from _plain_tables(query.this)
        case exp.Union() if not query.args.get("distinct"):
            yield from _plain_tables(query.this)
            yield from _plain_tables(query.expression)
        case exp.Select() if _filters_and_maps(query):
            item = query.args["from_"].this
            if isinstance(item, exp.Table):
                yield item
            else:
                yield from _plain_tables(item)
        case _:
            raise _not_plain(query)


def _filters_and_maps(query: exp.Select) -> bool:
    """Whether each row is made of one row of what stands in FROM."""
    item = query.args["from_"].this if query.args.get("from_") else None
    if not isinstance(item, exp.Table | exp.Subquery) or item.args.get("joins") or query.args.get("joins"):
        return False
    parts = [*query.expressions, query.args.get("where")]
    has_subquery = any(list(subqueries(part)) for part in parts if part is not None)
    return not (has_subquery or is_grouping(query) or windows_of(query))


@dataclass
class _Marks:
    """Has every query on the way from the stream hand on the SCN and the position of a row.

    Where a row is read in several branches, its copies are told apart: with two, those of position 7 are at 14 and 15.
    """

    scn: str
    position: str
    branches: int
    branch: int = 0

    def add_to(self, query: Node) -> tuple[str, str]:
        """What the two are called in the query's result."""
        query.set("order", None)
        match query:
            case exp.Select():
                return self._add_to_select(query)
            case exp.Union():
                self.add_to(query.this)
                return self.add_to(query.expression)
            case _:
                return self.add_to(query.this)

    def _add_to_select(self, query: exp.Select) -> tuple[str, str]:
        item = query.args["from_"].this
        if isinstance(item, exp.Table):
            marks = plain_column(item.alias, self.scn, BIGINT), self._own_place(item.alias)
        else:
            scn, position = self.add_to(item.this)
            marks = plain_column(item.alias, scn, BIGINT), plain_column(item.alias, position, BIGINT)
        names = unique_names([*(node.alias for node in query.expressions), self.scn, self.position])[-2:]
        query.set("expressions", [*query.expressions, *map(output, marks, names)])
        return names[0], names[1]

    def _own_place(self, alias: str) -> Node:
        place = plain_column(alias, self.position, BIGINT)
        if self.branches > 1:
            first = call("*(bigint, bigint)", place, number(self.branches), type_=BIGINT)
            place = call("+(bigint, bigint)", first, number(self.branch), type_=BIGINT)
        self.branch += 1
        return place


def _several_streams(table: exp.Table) -> Unsupported:
    return Unsupported(
        "a continuous query reads one stream",
        hint="Create one continuous query for each stream; they may have the same destination table.",
        position=place_of(table),
    )


def _not_plain(tree: Node) -> Unsupported:
    return Unsupported(
        "a continuous query over a stream can filter and map its rows, and no more",
        detail="For groups, joins and windows, rows would have to be kept.",
        hint="Create a continuous view over the stream, and a continuous query over that.",
        position=place_of(tree),
    )
