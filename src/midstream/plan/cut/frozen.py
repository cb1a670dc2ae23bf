"""Tables below the grouping of a windowed stream whose rows are kept: they are as they were when the view was created.

Where partials are kept, rows have met the tables when they came, so a table below a grouping is a static input. Where
rows are kept instead, since the view is evaluated anew or nothing else is possible, the same tables are static inputs
of the upper query. So what a view answers does not depend on how it is kept.

    SELECT place, count(*) FROM s [WINDOW 2 ROWS] JOIN places USING (sensor) GROUP BY place
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from midstream.plan.context import Binding
from midstream.plan.cut.build import Node
from midstream.plan.cut.rows import Static, freeze_table, in_aggregate, is_table, row_parts, write_out_ctes
from midstream.plan.cut.streams import Streams, is_grouping

FROZEN = "frozen"
"""The mark of a query whose pipeline has static inputs for the upper query, with their names."""


def freeze_tables(binding: Binding, streams: Streams, items: list[exp.Subquery]) -> list[Static]:
    """The static inputs of all groupings above windowed streams that keep their rows."""
    found: list[Static] = []
    for item in items:
        query = _first_grouping(item)
        if query is None:
            continue
        write_out_ctes(binding, query, lambda tree: not streams.has_live(tree))
        own = [freeze_table(binding, streams, query, table) for table in list(_tables_below(streams, query))]
        item.this.meta[FROZEN] = tuple(static.relation.name for static in own)
        found += own
    return found


def _first_grouping(item: Node) -> exp.Select | None:
    """The first query above that groups what it reads, if the rows come to it as rows."""
    parent = item.parent
    while isinstance(parent, exp.Select | exp.From | exp.Join | exp.Subquery | exp.Paren | exp.SetOperation):
        if isinstance(parent, exp.Select) and is_grouping(parent):
            return parent
        if isinstance(parent, exp.SetOperation) and parent.args.get("distinct", True):
            return None
        parent = parent.parent
    return None


def _tables_below(streams: Streams, query: exp.Select) -> Iterator[exp.Table]:
    for part in row_parts(query):
        yield from _tables(streams, part)
    above = [*query.expressions, *([query.args["having"]] if query.args.get("having") else [])]
    for part in above:
        yield from (table for table in _tables(streams, part) if in_aggregate(table, query))


def _tables(streams: Streams, part: Node) -> Iterator[exp.Table]:
    """Those that rows meet; what another grouping of streams has below or above it is its own business."""
    for node in part.walk(prune=lambda node: _is_grouped(streams, node)):
        if isinstance(node, exp.Table) and is_table(streams, node):
            yield node


def _is_grouped(streams: Streams, node: exp.Expr) -> bool:
    return isinstance(node, exp.Select) and is_grouping(node) and streams.has_live(node)
