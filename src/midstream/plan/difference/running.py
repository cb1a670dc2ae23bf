"""Window functions over a table to which rows only come, whose frames begin at the first row (section 9 of the paper).

By a column that strictly increases, rows come behind all that are there, so the answers that were given stay. What a
row to come needs of the rows before it are sums, one row for each partition, which are kept as those of groups are:

    change  =  the answers of rows that came, over  the sums of their partitions + dlt(T)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.plan.context import COMMIT, WEIGHT
from midstream.plan.cut.build import GREATER, aggregate, call, derived, number, output, plain_column, select, text_of
from midstream.plan.cut.rewriting import with_parts
from midstream.plan.difference.algebraic import Groups
from midstream.plan.difference.moving import columns_read, growing_table, growth_of, over
from midstream.plan.difference.steps import Step
from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import bare, named
from midstream.plan.typing.conversion import null_of
from midstream.plan.typing.nodes import AggregateCall, type_of, typed
from midstream.relations.table import Table
from midstream.types import BIGINT

if TYPE_CHECKING:
    from midstream.plan.difference.terms import Terms

Node = exp.Expression
_RANKS = ("row_number", "rank", "dense_rank")
"""Where no two rows are equal, each is how many rows there are so far."""


@dataclass(frozen=True)
class Running:
    owner: Terms
    query: exp.Select
    table: Table
    order: str
    """The column that increases."""
    calls: dict[str, AggregateCall]
    """What each window function is an aggregate of, by its text."""
    partitions: Groups
    """A group for each partition,"""
    rows: Groups
    """and for each row: the keys of its partition, then the columns that the query reads."""

    @classmethod
    def of(cls, terms: Terms, query: exp.Select) -> Running | None:
        """None: a frame ends elsewhere, or rows need not come behind those that are there."""
        from midstream.plan.difference.terms import windows_of

        growing, windows = growing_table(terms, query), windows_of(query)
        if growing is None:
            return None
        item, table = growing
        growths = [growth_of(window, item.alias, table) for window in windows]
        parts = {tuple(text_of(node) for node in window.args["partition_by"]) for window in windows}
        orders = {growth.column if growth is not None and growth.strictly else None for growth in growths}
        if len(parts) != 1 or len(orders) != 1 or None in orders:
            return None
        calls = {text_of(window): _aggregate_of(window) for window in windows}
        found = {text: node for text, node in calls.items() if node is not None}
        if len(found) < len(calls):
            return None
        [order], keys = orders, windows[0].args["partition_by"]
        own = [plain_column(item.alias, name, kind) for name, kind in columns_read(query, item, table)]
        grouping = _grouping(query, list(found.values()))
        partitions = Groups.of(terms, grouping, keys, grows=True)
        rows = Groups.of(terms, grouping, [*keys, *own], grows=True)
        if partitions is None or rows is None or order is None:
            return None
        return cls(terms, query, table, order, found, partitions, rows)

    def terms(self) -> list[exp.Select]:
        from midstream.plan.difference.terms import united

        change = self.rows.change()
        if change is None:
            return []
        why = "OVER: frames begin at the first row, and rows come behind those that are there"
        self.owner.note(Step("frames", self.table.name, why))
        together = united([self._new(self.rows.signed(change(), 1)), self._before(change())])
        alias = self.owner.images.binding.fresh_alias("q")
        marks = [WEIGHT, *([COMMIT] if self.owner.by_commit else [])]
        answers = self._answers(together, marks)
        weight = plain_column(alias, WEIGHT, BIGINT)
        outputs = [
            (node.alias_or_name, plain_column(alias, node.alias_or_name, type_of(node)))
            for node in self.query.expressions
        ]
        found = select(outputs, derived(answers, alias), where=call(GREATER, weight, number(0)))
        shown = [output(plain_column(alias, name, BIGINT), name) for name in reversed(marks)]
        found.set("expressions", [*found.expressions, *shown])
        return [found]

    # --- rows: keys of the partition, columns, marks, sums -----------------------------------------

    @property
    def _keys(self) -> int:
        return len(self.partitions.keys)

    def _new(self, came: Node) -> exp.Select:
        """Each row that came as the sums of itself alone."""
        alias = self.owner.images.binding.fresh_alias("r")
        keys = self.rows.key_columns(alias)
        alone = exp.WindowSpec(kind="ROWS", start="CURRENT ROW", end="CURRENT ROW")

        def of_itself(node: Node) -> Node:
            return _each_over(node, [key for _, key in keys[: self._keys]], self._ordered(alias), alone)

        sums = [(column.name, of_itself(column.first(alias))) for column in self.rows.columns()]
        commit = [(COMMIT, plain_column(alias, COMMIT, BIGINT))] if self.owner.by_commit else []
        return select([*keys, (WEIGHT, number(1)), *commit, *sums], derived(came, alias))

    def _before(self, change: Node) -> exp.Select:
        """The sums of partitions that rows came to, as rows before all others."""
        alias = self.owner.images.binding.fresh_alias("s")
        nulls = [(name, null_of(kind)) for name, kind in self.rows.types()[self._keys : len(self.rows.keys)]]
        sums = [(column.name, plain_column(alias, column.name, column.type)) for column in self.partitions.columns()]
        commit = [(COMMIT, number(0))] if self.owner.by_commit else []
        columns = [*self.partitions.key_columns(alias), *nulls, (WEIGHT, number(0)), *commit, *sums]
        return select(columns, derived(self.partitions.kept_before(change), alias))

    def _ordered(self, alias: str) -> exp.Order:
        return exp.Order(expressions=[exp.Ordered(this=self._column(alias, self.order), desc=False, nulls_first=True)])

    def _column(self, alias: str, name: str) -> Node:
        """A column of the table."""
        names = [node.name for node in self.rows.keys[self._keys :]]
        return dict(self.rows.key_columns(alias))[f"k{self._keys + names.index(name)}"]

    # --- answers -----------------------------------------------------------------------------------

    def _answers(self, rows: Node, marks: Sequence[str]) -> exp.Select:
        alias = self.owner.images.binding.fresh_alias("u")
        keys = [key for _, key in self.partitions.key_columns(alias)]
        so_far = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")

        def rewritten(node: Node) -> Node:
            if isinstance(node, exp.Window):
                kept = self.rows.kept[text_of(self.calls[text_of(node)])]
                return _each_over(kept.finish(alias), keys, self._ordered(alias), so_far)
            if isinstance(node, exp.Column):
                return self._column(alias, node.name)
            return with_parts(node, rewritten)

        outputs = [(node.alias_or_name, rewritten(bare(node).copy())) for node in self.query.expressions]
        shown = [(name, plain_column(alias, name, BIGINT)) for name in marks]
        return select([*outputs, *shown], derived(rows, alias))


def _aggregate_of(window: exp.Window) -> AggregateCall | None:
    """None: its frame is not all rows up to this one."""
    function, spec = window.this, window.args.get("spec")
    if not isinstance(function, AggregateCall):
        return None
    if FUNCTIONS[function.this].name in _RANKS:
        counted = aggregate("count()", [], BIGINT)
        assert isinstance(counted, AggregateCall)
        return counted
    if spec is None:
        return function
    is_whole = spec.args["start"] == "UNBOUNDED" and spec.args.get("start_side") == "PRECEDING"
    ends_here = spec.args["end"] == "CURRENT ROW" and spec.args.get("exclude") in (None, "NO OTHERS")
    return function if is_whole and ends_here else None


def _grouping(query: exp.Select, calls: Sequence[AggregateCall]) -> exp.Select:
    """The rows of a query, grouped, with these aggregates."""
    outputs = [typed(named(node.copy(), f"a{place}"), type_of(node)) for place, node in enumerate(calls)]
    found = exp.Select(expressions=outputs)
    for key in ("from_", "where"):
        if query.args.get(key):
            found.set(key, query.args[key].copy())
    return found


def _each_over(node: Node, partition: Sequence[Node], order: exp.Order, spec: exp.WindowSpec) -> Node:
    """An expression with each of its aggregates taken over a frame."""
    if isinstance(node, AggregateCall):
        return over(node, partition, order.copy(), spec.copy())
    return with_parts(node, lambda part: _each_over(part, partition, order, spec))
