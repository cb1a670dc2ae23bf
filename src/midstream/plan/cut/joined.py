"""Groups joined with aggregates over their values: what DISTINCT, median, array_agg and the like become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.plan.cut.aggregates import (
    KeptAggregate,
    StateColumn,
    ValuedAggregate,
    largest_rank,
    name_of_call,
    presence,
)
from midstream.plan.cut.build import (
    GREATER,
    NOT_DISTINCT,
    Node,
    aggregate,
    aggregates_of,
    both,
    call,
    derived,
    digest,
    number,
    plain_column,
    select,
    stored_column,
)
from midstream.plan.cut.pipelines import Pipeline
from midstream.plan.cut.rewriting import at_alias, with_parts
from midstream.plan.failing import computed_where
from midstream.plan.typing.nodes import AggregateCall, type_of, typed
from midstream.types import BIGINT, INT, Type

if TYPE_CHECKING:
    from midstream.plan.cut.groupings import Grouping


@dataclass
class Joined:
    """The query over the states of one grouping, which has aggregates over values."""

    grouping: Grouping
    pipeline: Pipeline
    keeps: Mapping[str, KeptAggregate]
    calls: Mapping[str, AggregateCall]
    values: Mapping[str, ValuedAggregate]

    def rewrite(self) -> None:
        """The groups with their plain aggregates, joined with one query for each aggregate over values."""
        query, main = self.grouping.query, self.grouping.binding.fresh_alias("groups")
        grouping_calls = self.grouping.grouping_calls()
        base, names = self._groups(self.pipeline, self.keeps, grouping_calls)
        joins, found = [], dict[str, Node]()
        for text, value in self.values.items():
            alias = self.grouping.binding.fresh_alias("valued")
            answered = self._answers(value, self.calls[text])
            condition = both(
                [
                    call(NOT_DISTINCT, plain_column(main, name, kind), plain_column(alias, name, kind))
                    for name, kind in names
                ]
            )
            join = exp.Join(this=derived(answered, alias))
            if condition is not None:
                join.set("side", "LEFT")
                join.set("on", condition)
            joins.append(join)
            found[text] = self._answer_column(alias, self.calls[text])

        def of_call(text: str, node: AggregateCall) -> Node:
            return found[text].copy() if text in found else plain_column(main, plain_name(text), type_of(node))

        swap = self.grouping.swapper(lambda key: plain_column(main, key.name, key.type), of_call)

        def swap_all(node: Node) -> Node:
            return swap(without_grouping(node, main, grouping_calls))

        query.set("from_", exp.From(this=derived(base, main)))
        query.set("joins", joins)
        self.grouping.rewrite_outputs(swap_all)
        having = query.args.get("having")
        query.set("where", exp.Where(this=swap_all(having.this)) if having is not None else None)
        query.set("having", None)
        query.set("group", None)

    def _answer_column(self, alias: str, node: AggregateCall) -> Node:
        column = plain_column(alias, "value", type_of(node))
        if name_of_call(node) in ("count", "approx_count_distinct", "regr_count"):
            return call("coalesce(anyelement, ...)", column, number(0), type_=BIGINT)
        return column

    def _groups(
        self, pipeline: Pipeline, keeps: Mapping[str, KeptAggregate], grouping_calls: Sequence[AggregateCall]
    ) -> tuple[exp.Select, list[tuple[str, Type]]]:
        item, alias = self.grouping.state(pipeline)
        swap = self.grouping.swapper(
            lambda key: stored_column(alias, key.name, key.type), lambda t, n: keeps[t].finish(alias)
        )
        outputs = [(key.name, stored_column(alias, key.name, key.type)) for key in self.grouping.keys]
        outputs += [(f"grouping_{i}", swap(node.copy())) for i, node in enumerate(grouping_calls)]
        outputs += [(plain_name(text), keep.finish(alias)) for text, keep in keeps.items()]
        if not any(aggregates_of(node) for _, node in outputs) and not self.grouping.keys:
            outputs.append(("rows", self.grouping.presence.merge(alias)))
        base = select(outputs, item, where=self.grouping.condition(alias))
        self.grouping.set_group(base, swap)
        names = [(key.name, key.type) for key in self.grouping.keys] + ([("grouping_0", INT)] if grouping_calls else [])
        return base, names

    def _answers(self, value: ValuedAggregate, node: AggregateCall) -> exp.Select:
        """For each group: the aggregate over its values, each with how often it came."""
        value_keys = [self.grouping.key(computed_where(node.args.get("filter"), part)) for part in value.keys]
        weight = presence(value.where) if value.rank is None else largest_rank(value.rank, value.where)
        there = presence(value.where)
        pipeline = self.grouping.cutter.pipeline(
            self.grouping.rows,
            list({k.name: k for k in (*self.grouping.all_keys(), *value_keys)}.values()),
            [there, weight],
            self.grouping.dead(),
        )
        item, alias = self.grouping.state(pipeline)
        columns = [stored_column(alias, key.name, key.type) for key in value_keys]
        conditions: list[Node | None] = [call(GREATER, stored_column(alias, there.name, BIGINT), number(0))]
        conditions += [at_alias(late, alias) for late in self.grouping.late]
        if value.skips_nulls:
            conditions.append(typed(exp.Not(this=call("is null(any)", columns[0].copy())), type_of(conditions[0])))  # type: ignore[arg-type]
        source: Node = item
        where = both(conditions)
        if self.grouping.has_sets():
            source, alias, columns = self._told_apart(item, alias, columns, weight, where)
            where = None
        swap = self.grouping.swapper(lambda key: stored_column(alias, key.name, key.type), lambda t, n: n)
        shown = [(key.name, stored_column(alias, key.name, key.type)) for key in self.grouping.keys]
        sets = [(f"grouping_{i}", swap(c.copy())) for i, c in enumerate(self.grouping.grouping_calls()[:1])]
        own = [(f"value_{i}", column) for i, column in enumerate(columns)]
        counted: Node = number(1) if node.args.get("distinct") and value.rank is None else weight.merge(alias)
        inner = select([*shown, *sets, *own, ("weight", counted)], source, where=where)
        self.grouping.set_group(inner, swap, columns)
        if self.grouping.has_sets():
            # Equal sets give equal rows; the groups of each of them find the one answer.
            inner.set("distinct", exp.Distinct())
        groups = [(name, type_of(part)) for name, part in (*shown, *sets)]
        return self._over_values(inner, groups, [type_of(c) for c in columns], type_of(counted), value)

    def _told_apart(
        self, item: Node, alias: str, columns: Sequence[Node], weight: StateColumn, where: Node | None
    ) -> tuple[exp.Subquery, str, list[Node]]:
        """The state with its values under names of their own: where a set has not the key, the value is still there."""
        outputs = [(key.name, stored_column(alias, key.name, key.type)) for key in self.grouping.keys]
        outputs += [(f"value_{i}", column) for i, column in enumerate(columns)]
        outputs.append((weight.name, stored_column(alias, weight.name, weight.type)))
        apart = self.grouping.binding.fresh_alias("apart")
        values = [plain_column(apart, f"value_{i}", type_of(column)) for i, column in enumerate(columns)]
        return derived(select(outputs, item, where=where), apart), apart, values

    def _over_values(
        self,
        inner: exp.Select,
        groups: Sequence[tuple[str, Type]],
        kinds: Sequence[Type],
        weight_type: Type,
        value: ValuedAggregate,
    ) -> exp.Select:
        alias = self.grouping.binding.fresh_alias("counted")
        upto = total = None
        if value.ranked:
            inner = self._ranked(inner, alias, groups, kinds, value.descending)
            alias = self.grouping.binding.fresh_alias("ranked")
            upto, total = plain_column(alias, "upto", BIGINT), plain_column(alias, "total", BIGINT)
        columns = [plain_column(alias, f"value_{i}", kind) for i, kind in enumerate(kinds)]
        keys = [plain_column(alias, name, kind) for name, kind in groups]
        answer = value.over(columns, plain_column(alias, "weight", weight_type), upto, total)
        outputs = [*((name, key) for (name, _), key in zip(groups, keys, strict=True)), ("value", answer)]
        return select(outputs, derived(inner, alias), group=keys)

    def _ranked(
        self, inner: exp.Select, alias: str, groups: Sequence[tuple[str, Type]], kinds: Sequence[Type], descending: bool
    ) -> exp.Select:
        """How many values are not after each, and how many there are."""
        keys = [plain_column(alias, name, kind) for name, kind in groups]
        weight = plain_column(alias, "weight", BIGINT)
        order = exp.Ordered(this=plain_column(alias, "value_0", kinds[0]), desc=descending, nulls_first=False)
        outputs: list[tuple[str, Node]] = [(name, key) for (name, _), key in zip(groups, keys, strict=True)]
        outputs += [(f"value_{i}", plain_column(alias, f"value_{i}", kind)) for i, kind in enumerate(kinds)]
        outputs += [
            ("weight", weight),
            ("upto", _sum_over(weight, keys, order)),
            ("total", _sum_over(weight, keys, None)),
        ]
        return select(outputs, derived(inner, alias))


def plain_name(text: str) -> str:
    return "a_" + digest(text)


def _sum_over(weight: Node, keys: Sequence[Node], order: exp.Ordered | None) -> Node:
    window = exp.Window(
        this=aggregate("sum(bigint)", [weight], BIGINT),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=[order.copy()]) if order is not None else None,
        over="OVER",
    )
    return typed(window, BIGINT)


def without_grouping(node: Node, main: str, calls: Sequence[AggregateCall]) -> Node:
    """GROUPING(…) is a column of the groups."""
    if isinstance(node, AggregateCall) and node.this == "grouping":
        return plain_column(main, f"grouping_{list(calls).index(node)}", INT)
    return with_parts(node, lambda part: without_grouping(part, main, calls))
