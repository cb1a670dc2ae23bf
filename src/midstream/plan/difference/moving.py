"""Window functions over a table to which rows only come, whose frames end at the row (section 9 of the paper).

By a column that increases, rows come behind all that are there, and a frame reaches back so many rows, or so far. What
a row to come can reach are the last rows of its partition. They are kept, and a change costs what came:

    change  =  the answers of rows that came, over  kept + dlt(T)

Where values may be equal, a row that comes is a peer of the last ones, whose answers change with it: those are computed
after and before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.plan.context import COMMIT, WEIGHT, ScanKey
from midstream.plan.cut.build import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    aggregate,
    call,
    derived,
    number,
    output,
    plain_column,
    select,
    text_of,
)
from midstream.plan.cut.streams import items_of
from midstream.plan.difference.steps import Step
from midstream.plan.functions import FUNCTIONS
from midstream.plan.nodes import is_query
from midstream.plan.typing.nodes import AggregateCall, Convert, type_of, typed
from midstream.relations.table import IncreasingConstraint, Table
from midstream.relations.view import Derived
from midstream.types import BIGINT, BOOLEAN, Type

if TYPE_CHECKING:
    from midstream.plan.difference.terms import Terms

Node = exp.Expression
PLACE, NEWEST = "~at", "~newest"
_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lead")
"""They reach all rows before, or rows behind."""


@dataclass(frozen=True)
class _Reach:
    """How far the frame of a window function reaches back: so many rows, or as far as a bound says."""

    partition: tuple[Node, ...]
    """Of the window."""
    part: tuple[str, ...]
    """Of the table, within which values increase: the same or a larger one."""
    rows: int | None = None
    bound: Node | str | None = None


@dataclass(frozen=True)
class Moving:
    owner: Terms
    query: exp.Select
    item: exp.Table
    table: Table
    order: Node
    """The column that increases."""
    strictly: bool
    reaches: Sequence[_Reach]

    @classmethod
    def of(cls, terms: Terms, query: exp.Select) -> Moving | None:
        """None: a frame reaches all rows, or rows need not come behind those that are there."""
        growing = growing_table(terms, query)
        if growing is None:
            return None
        item, table = growing
        windows = [found for node in query.expressions for found in node.find_all(exp.Window)]
        found = [_reach_of(window, item.alias, table) for window in windows]
        reaches = [reach for reach in found if reach is not None]
        if len(reaches) < len(windows):
            return None
        places = [window.args["order"].expressions[0].this for window in windows]
        if len(set(map(text_of, places))) != 1 or len({reach.part for reach in reaches}) != 1:
            return None
        strictly = any(c.strictly and c.column == places[0].name and c.partition_by == reaches[0].part
                       for c in table.increasing)  # fmt: skip
        if not strictly and any(reach.rows is not None for reach in reaches):
            return None
        made = cls(terms, query, item, table, places[0], strictly, reaches)
        return made if all(kind.name != "interval" for _, kind in made._columns()) else None

    # --- what is computed ------------------------------------------------------------------------

    def terms(self) -> list[exp.Select]:
        self.owner.images.watch(self.item)
        why = "OVER: frames end at the row, and rows come behind those that are there"
        self.owner.note(Step("frames" if self.strictly else "keyed", self.table.name, why))
        both, kept = self._answers([self._kept(), self._new()]), self._answers([self._kept()])
        if not self.strictly:
            return [self._last(both, 1), self._last(kept, -1)]
        alias = self._alias("q")
        weight = plain_column(alias, WEIGHT, BIGINT)
        marks = [output(weight, WEIGHT)]
        if self.owner.by_commit:
            marks.insert(0, output(plain_column(alias, COMMIT, BIGINT), COMMIT))
        found = select(self._outputs(alias), derived(both, alias), where=call(GREATER, weight, number(0)))
        found.set("expressions", [*found.expressions, *marks])
        return [found]

    def whole(self) -> exp.Select:
        """The rows of the table that frames of rows to come reach."""
        alias = self._alias("t")
        return self._reached(select(self._shown(alias), self._scan(alias)))

    def fold(self) -> exp.Select | None:
        """The same, of those that were kept and those that came."""
        from midstream.plan.difference.algebraic import NEWER

        if self.owner.images.change_of(self.item) is None:
            return None
        return self._reached(self._union([self._kept(NEWER), self._new()]))

    @property
    def stored(self) -> tuple[tuple[str, Type], ...]:
        return tuple((f"c{place}", kind) for place, (_, kind) in enumerate(self._columns()))

    # --- rows ------------------------------------------------------------------------------------

    def _alias(self, name: str) -> str:
        return self.owner.images.binding.fresh_alias(name)

    def _columns(self) -> list[tuple[str, Type]]:
        return columns_read(self.query, self.item, self.table)

    def _shown(self, alias: str) -> list[tuple[str, Node]]:
        return [(name, plain_column(alias, name, kind)) for name, kind in self._columns()]

    def _scan(self, alias: str) -> exp.Table:
        return exp.Table(this=self.item.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))

    def _kept(self, name: str | None = None) -> exp.Select:
        from midstream.plan.difference.algebraic import KEPT

        alias = self._alias("s")
        key = ScanKey(Derived(name or KEPT, self.stored), "state", None)
        item = self.owner.images.binding.scan(key, alias)
        pairs = zip(self._columns(), self.stored, strict=True)
        columns = [(name, plain_column(alias, at, kind)) for (name, kind), (at, _) in pairs]
        return select([*columns, (WEIGHT, number(0)), (COMMIT, number(0))], item)

    def _new(self) -> exp.Select:
        alias = self._alias("d")
        item = self._scan(alias)
        weight = self.owner.images.put_change(item)
        return select([*self._shown(alias), (WEIGHT, weight), (COMMIT, plain_column(alias, COMMIT, BIGINT))], item)

    def _union(self, rows: Sequence[exp.Select]) -> Node:
        from midstream.plan.difference.terms import united

        return united(rows)

    def _below(self, rows: Node) -> exp.Select:
        """The query's rows below its window functions, taken from others than the table's; without columns."""
        found = exp.Select()
        found.set("from_", exp.From(this=derived(rows, self.item.alias)))
        if self.query.args.get("where"):
            found.set("where", self.query.args["where"].copy())
        return found

    def _own(self, name: str, kind: Type = BIGINT) -> Node:
        return plain_column(self.item.alias, name, kind)

    def _part(self) -> list[Node]:
        """Columns of the table within whose values rows come in order."""
        kinds = dict(self._columns())
        return [self._own(name, kinds[name]) for name in self.reaches[0].part]

    # --- answers ---------------------------------------------------------------------------------

    def _outputs(self, alias: str) -> list[tuple[str, Node]]:
        return [
            (node.alias_or_name, plain_column(alias, node.alias_or_name, type_of(node)))
            for node in self.query.expressions
        ]

    def _answers(self, rows: Sequence[exp.Select]) -> exp.Select:
        """The query over rows, each with its weight, its commit and its place; and the newest place that is kept."""
        found = self._below(self._union(rows))
        kind = type_of(self.order)
        is_kept = typed(call(EQUAL, self._own(WEIGHT), number(0)), BOOLEAN)
        kept = typed(exp.Case(ifs=[exp.If(this=is_kept, true=self.order.copy())]), kind)
        marks = [
            (WEIGHT, self._own(WEIGHT)),
            (COMMIT, self._own(COMMIT)),
            (PLACE, self.order),
            (NEWEST, over(aggregate(f"max({kind.name})", [kept], kind), self._part())),
        ]
        found.set(
            "expressions", [*(node.copy() for node in self.query.expressions), *(output(n, name) for name, n in marks)]
        )
        return found

    def _last(self, answers: exp.Select, weight: int) -> exp.Select:
        """The answers of rows that came, and of those that may be peers of such."""
        alias, kind = self._alias("q"), type_of(self.order)
        came = call(GREATER, plain_column(alias, WEIGHT, BIGINT), number(0))
        last = call(AT_LEAST, plain_column(alias, PLACE, kind), plain_column(alias, NEWEST, kind))
        where = typed(exp.Or(this=typed(came, BOOLEAN), expression=typed(last, BOOLEAN)), BOOLEAN)
        found = select(self._outputs(alias), derived(answers, alias), where=where)
        found.set("expressions", [*found.expressions, output(number(weight), WEIGHT)])
        return found

    # --- what is kept ----------------------------------------------------------------------------

    def _reached(self, rows: Node) -> exp.Select:
        """The rows that some frame of a row to come reaches."""
        inner, alias = self._below(rows), self._alias("q")
        marks: list[tuple[str, Node]] = []
        conditions: list[Node] = []
        for place, reach in enumerate(self.reaches):
            own, condition = self._mark(reach, f"~{place}", alias)
            marks += own
            conditions.append(condition)
        inner.set("expressions", [output(node, name) for name, node in [*self._shown(self.item.alias), *marks]])
        where = conditions[0]
        for condition in conditions[1:]:
            where = typed(exp.Or(this=where, expression=condition), BOOLEAN)
        return select(self._shown(alias), derived(inner, alias), where=where)

    def _mark(self, reach: _Reach, name: str, alias: str) -> tuple[list[tuple[str, Node]], Node]:
        kind = type_of(self.order)
        if reach.rows is not None:
            back = exp.Order(expressions=[exp.Ordered(this=self.order.copy(), desc=True, nulls_first=True)])
            row_number = over(aggregate("row_number()", [], BIGINT), reach.partition, back)
            return [(name, row_number)], call(AT_MOST, plain_column(alias, name, BIGINT), number(reach.rows))
        forward = exp.Order(expressions=[exp.Ordered(this=self.order.copy(), desc=False, nulls_first=False)])
        spec = exp.WindowSpec(kind="RANGE", start="CURRENT ROW", end=reach.bound, end_side="FOLLOWING")
        if isinstance(reach.bound, str):
            spec = exp.WindowSpec(kind="RANGE", start="CURRENT ROW", end="CURRENT ROW")
        newest = aggregate(f"max({kind.name})", [self.order], kind)
        # A row is within reach of the newest one if the newest is within the same reach ahead of it.
        marks = [
            (name, over(newest.copy(), self._part(), forward, spec)),
            (f"{name}m", over(newest, self._part())),
        ]
        return marks, call(EQUAL, *(plain_column(alias, mark, kind) for mark, _ in marks))


def growing_table(terms: Terms, query: exp.Select) -> tuple[exp.Table, Table] | None:
    """The one table that a query reads, if rows only come to it."""
    items = items_of(query)
    item = items[0] if len(items) == 1 else None
    table = terms.images.table_of(item) if isinstance(item, exp.Table) else None
    if table is None or any(is_query(node) for node in query.walk() if node is not query):
        return None
    assert isinstance(item, exp.Table)
    change = terms.images.change_of(item)
    return (item, table) if change is None or change.kind == "insert" else None


def columns_read(query: exp.Select, item: exp.Table, table: Table) -> list[tuple[str, Type]]:
    """The table's columns that the query reads."""
    used = {column.name for column in query.find_all(exp.Column) if column.table == item.alias}
    return [(column.name, column.type) for column in table.columns if column.name in used]


def over(
    function: Node, partition: Sequence[Node], order: exp.Order | None = None, spec: exp.WindowSpec | None = None
) -> Node:
    window = exp.Window(this=function, partition_by=[node.copy() for node in partition], order=order, over="OVER")
    if spec is not None:
        window.set("spec", spec)
    return typed(window, type_of(function))


def _reach_of(window: exp.Window, alias: str, table: Table) -> _Reach | None:
    """None: all rows before, or some that come behind."""
    growth, function = growth_of(window, alias, table), window.this
    if growth is None or not isinstance(function, AggregateCall):
        return None
    partition, part = tuple(window.args["partition_by"]), growth.partition_by
    name, spec = FUNCTIONS[function.this].name, window.args.get("spec")
    if name == "lag":
        offset = _constant(function.expressions[1]) if len(function.expressions) > 1 else 1
        return _Reach(partition, part, rows=offset) if offset is not None and offset >= 0 else None
    if name in _RANKS or spec is None or spec.args.get("exclude") not in (None, "NO OTHERS"):
        return None
    start, end = spec.args["start"], spec.args["end"]
    if end != "CURRENT ROW" and spec.args.get("end_side") != "PRECEDING":
        return None
    if start != "CURRENT ROW" and (isinstance(start, str) or spec.args.get("start_side") != "PRECEDING"):
        return None
    if spec.args["kind"] == "ROWS":
        rows = 0 if isinstance(start, str) else _constant(start)
        return _Reach(partition, part, rows=rows) if rows is not None else None
    if spec.args["kind"] != "RANGE" or (not isinstance(start, str) and not _is_even(start)):
        return None
    return _Reach(partition, part, bound=start)


def growth_of(window: exp.Window, alias: str, table: Table) -> IncreasingConstraint | None:
    """The constraint by which rows of a partition come in the order of the window."""
    order = window.args.get("order")
    if order is None or len(order.expressions) != 1 or order.expressions[0].args.get("desc"):
        return None
    column = order.expressions[0].this
    if not isinstance(column, exp.Column) or column.table != alias:
        return None
    stored = table.column(column.name)
    keys = table.primary_key.columns if table.primary_key is not None else ()
    if stored is None or not (stored.not_null or column.name in keys):
        return None
    own = {node.name for node in window.args["partition_by"] if isinstance(node, exp.Column)}
    found = [c for c in table.increasing if c.column == column.name and set(c.partition_by) <= own]
    return max(found, key=lambda constraint: constraint.strictly, default=None)


def _constant(node: Node) -> int | None:
    while isinstance(node, Convert):
        node = node.this
    return int(node.name) if isinstance(node, exp.Literal) and not node.is_string else None


def _is_even(bound: Node) -> bool:
    """Whether a bound is as far back from one row as it is ahead from another: months are not."""
    inner = bound
    while isinstance(inner, Convert):
        inner = inner.this
    if not isinstance(inner, exp.Literal):
        return False
    return type_of(bound).name != "interval" or str(inner.this).split()[0] == "0"
