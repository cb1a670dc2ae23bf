"""A view's query, cut: pipelines that keep partials of streams, and the upper query over them.

    SELECT a, avg(b) FROM s WHERE c > 0 GROUP BY a HAVING count(*) > 2
    pipeline   keys a; sum(b), count(b), count(*), each over rows with c > 0
    upper      SELECT a, sum(p1) / sum(p2) FROM state WHERE p3 > 0 GROUP BY a HAVING sum(p3) > 2

The upper query merges the partials itself, so it may read them from any number of files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import cast

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan import queries
from midstream.plan.bound import BoundQuery, Output, infer, kernel_names, seal
from midstream.plan.context import BindContext, Binding, ScanKey
from midstream.plan.cut.aggregates import (
    KeptAggregate,
    StateColumn,
    ValuedAggregate,
    kept,
    largest_rank,
    name_of_call,
    presence,
    valued,
)
from midstream.plan.cut.build import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
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
    text_of,
)
from midstream.plan.cut.rows import RowPart, identity, own_aliases, take_rows
from midstream.plan.cut.streams import Streams, check_rows, is_grouping, is_tested, prepare, refuse
from midstream.plan.moments import at_moment, has_moment, kinds_in, words_of
from midstream.plan.nodes import bare, is_constant, is_query, place_of
from midstream.plan.pruning import prune
from midstream.plan.scopes import Scope
from midstream.plan.statements import new_binding
from midstream.plan.trees import name_outputs, projections
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, Raw, type_of, typed
from midstream.relations.schema import Schema
from midstream.relations.view import ContinuousView, Derived
from midstream.sql.statements import Sql
from midstream.types import BIGINT, INT, Type

_GROUP_KEYS = ("expressions", "grouping_sets", "rollup", "cube")


@dataclass(frozen=True)
class Key:
    """A column of a state that rows are grouped by."""

    name: str
    node: Node = field(compare=False)

    @property
    def type(self) -> Type:
        return type_of(self.node)


@dataclass(frozen=True)
class Pipeline:
    """From the rows of streams to partials. Those of one name differ in columns and filters only, and share a pass."""

    name: str
    binding: Binding = field(compare=False, repr=False)
    rows: RowPart = field(compare=False, repr=False)
    keys: tuple[Key, ...] = ()
    columns: tuple[StateColumn, ...] = ()
    dead: Node | None = field(default=None, compare=False)
    """What tells, at a moment, that nobody will ask for a group again, over the state's columns."""

    @property
    def is_safe(self) -> bool:
        """Whether no row can make it fail: another view may then depend on the same pass."""
        return all(_cannot_fail(node) for node in (*(c.first for c in self.columns), *self.rows.filters))

    @property
    def relation(self) -> Derived:
        kinds = [(key.name, key.type) for key in self.keys] + [(c.name, c.type) for c in self.columns]
        return Derived(self.name, tuple(kinds))


@dataclass(frozen=True)
class ViewPlan:
    outputs: tuple[Output, ...]
    pipelines: tuple[Pipeline, ...]
    notices: tuple[str, ...]
    reads: tuple[ContinuousView, ...]
    """Other continuous views that the upper query reads."""
    moments: tuple[str, ...]
    """What the upper query takes from the moment of reading."""
    _binding: Binding = field(repr=False, compare=False)
    _upper: Node = field(repr=False, compare=False)
    _sealed: dict[str, BoundQuery] = field(default_factory=dict, repr=False, compare=False)

    def words(self, now: datetime, scn: int) -> dict[str, str]:
        """With equal words and inputs, the answer of the upper query is the same."""
        return words_of(self.moments, now, scn) if self.moments else {}

    def upper(self, words: Mapping[str, str], merged: frozenset[str] = frozenset()) -> BoundQuery:
        """The upper query at a moment, over states, tables as of the read, and other views. Of the pipelines that are
        named as merged, each group comes in one row."""
        key = repr([sorted(words.items()), sorted(merged)])
        if key not in self._sealed:
            if len(self._sealed) > 8:
                self._sealed.clear()
            tree = read_off(at_moment(self._upper, dict(words)).copy(), merged)
            self._sealed[key] = seal(self._binding, tree, self.outputs)
        return self._sealed[key]

    @property
    def mergeable(self) -> frozenset[str]:
        """Pipelines whose groups can be read off as they are once each is one row."""
        return frozenset(str(s.meta[_READ_OFF]) for s in self._upper.find_all(exp.Select) if _READ_OFF in s.meta)


def cut_view(query: Sql, schema: Schema, context: BindContext) -> ViewPlan:
    """Binds a view's query and cuts it, or refuses it, saying which rule it breaks and where."""
    binding = new_binding(schema, context)
    binding.takes_streams = True
    bound = queries.bind_query_tree(binding, query.tree(), Scope())
    notices = _drop_order(bound.tree)
    tree = infer(binding, name_outputs(bound, kernel_names(len(bound.names))).tree)
    outputs = tuple(Output(n, type_of(node)) for n, node in zip(bound.names, projections(tree), strict=True))
    prune(tree)
    prepare(binding, tree)
    cutter = _Cutter(binding, Streams(binding))
    for grouping in cutter.groupings(tree):
        cutter.cut(grouping)
    _complete_states(binding, cutter.pipelines)
    views = tuple(key.relation for key in binding.scans if isinstance(key.relation, ContinuousView))
    return ViewPlan(outputs, tuple(cutter.pipelines), tuple(notices), views, kinds_in(tree), binding, tree)


def _complete_states(binding: Binding, pipelines: Sequence[Pipeline]) -> None:
    """Scans of states were made before all columns of the states were known."""
    relations = {pipeline.name: pipeline.relation for pipeline in pipelines}
    binding.scans = {
        replace(key, relation=relations[key.relation.name]) if key.source == "state" else key: name
        for key, name in binding.scans.items()
    }


def _drop_order(tree: Node) -> list[str]:
    if tree.args.get("order") is None or tree.args.get("limit") or tree.args.get("offset"):
        return []
    tree.set("order", None)
    return ["ORDER BY without LIMIT is dropped: a view has no order, the query that reads it may have one"]


class _Cutter:
    """Cuts the groupings of one tree, and collects the pipelines."""

    def __init__(self, binding: Binding, streams: Streams) -> None:
        self.binding = binding
        self.streams = streams
        self.pipelines: list[Pipeline] = []

    def groupings(self, tree: Node) -> list[exp.Select]:
        """The queries that group raw streams."""
        found = [query for query in tree.find_all(exp.Select) if self.streams.reads_raw(query)]
        return [query for query in found if is_grouping(query)]

    def cut(self, query: exp.Select) -> None:
        check_rows(self.streams, query, is_top=True)
        rows = take_rows(self.binding, self.streams, query)
        _Grouping(self, query, rows).cut()
        if is_tested(query):
            query.set("distinct", None)

    def pipeline(
        self, rows: RowPart, keys: Sequence[Key], columns: Sequence[StateColumn], dead: Node | None
    ) -> Pipeline:
        """The pipeline of these keys, with further columns if it is there already."""
        for key in keys:
            _refuse_interval(key)
        parts = [identity(self.binding, _selected(rows.source)), *(key.name for key in keys)]
        name = "state_" + digest("; ".join(parts))
        unique = tuple({column.name: column for column in columns}.values())
        known = next((i for i, pipeline in enumerate(self.pipelines) if pipeline.name == name), None)
        if known is None:
            self.pipelines.append(Pipeline(name, self.binding, rows, tuple(keys), unique, dead))
            return self.pipelines[-1]
        before = self.pipelines[known]
        shared = shared_rows(before.rows, rows)
        more = tuple({column.name: column for column in (*before.columns, *unique)}.values())
        same_dead = dead is not None and before.dead is not None and text_of(dead) == text_of(before.dead)
        self.pipelines[known] = replace(before, rows=shared, columns=more, dead=dead if same_dead else None)
        return self.pipelines[known]


def _selected(source: exp.Select) -> exp.Select:
    copy = source.copy()
    copy.set("expressions", [number(1)])
    return copy


def shared_rows(one: RowPart, other: RowPart) -> RowPart:
    """Rows that either needs: those that satisfy what both ask for."""
    wanted = {text_of(node) for node in other.filters}
    statics = {static.relation.name: static for static in (*one.statics, *other.statics)}
    return RowPart(
        one.source, [node for node in one.filters if text_of(node) in wanted], one.late, list(statics.values())
    )


def _refuse_interval(key: Key) -> None:
    if key.type.name == "interval" or (key.type.element is not None and key.type.element.name == "interval"):
        raise refuse(
            "a stream cannot be grouped by an interval",
            key.node,
            detail="Equal intervals may be written in different ways.",
            hint="Group by its length: extract(epoch FROM …).",
        )


class _Grouping:
    """One grouping query: its keys and aggregates become a pipeline, and itself a query over the state."""

    def __init__(self, cutter: _Cutter, query: exp.Select, rows: RowPart) -> None:
        self.cutter = cutter
        self.binding = cutter.binding
        self.query = query
        self.rows = rows
        self.own = own_aliases(rows)
        self.keys = [self._key(node) for node in self._key_nodes()]
        self.hidden: list[Key] = []
        self.late = [self._hoisted(node.copy()) for node in rows.late]
        self.passing = both(rows.filters)
        self.presence = presence(self.passing)

    # --- keys ------------------------------------------------------------------------------------

    def _key_nodes(self) -> list[Node]:
        group = self.query.args.get("group")
        if group is not None:
            found = [node for key in _GROUP_KEYS for element in group.args.get(key) or [] for node in _leaves(element)]
            return list({text_of(node): node for node in found}.values())
        if self.query.args.get("distinct") and not any(aggregates_of(bare(o)) for o in self.query.expressions):
            found = [bare(node) for node in self.query.expressions if not is_constant(_unconverted(bare(node)))]
            return list({text_of(node): node for node in found}.values())
        return []

    def _key(self, node: Node) -> Key:
        return Key("k_" + digest(f"{text_of(node)} {type_of(node)}"), node.copy())

    def _hoisted(self, node: Node) -> Node:
        """A late condition over hidden keys: whatever of it comes from the row alone is one."""
        if not has_moment(node) and self._is_of_row(node):
            key = self._key(node)
            if key not in self.hidden:
                self.hidden.append(key)
            return plain_column(_STATE, key.name, key.type)
        return _with_parts(node, self._hoisted)

    def _is_of_row(self, node: Node) -> bool:
        tables = {column.table for column in node.find_all(exp.Column)}
        return bool(tables) and tables <= self.own

    # --- the cut ---------------------------------------------------------------------------------

    def cut(self) -> None:
        calls = self._calls()
        keeps = {text_of(node): kept(node, self.passing) for node in calls}
        values = {text_of(node): self._valued(node) for node in calls if keeps[text_of(node)] is None}
        plain = {text: keep for text, keep in keeps.items() if keep is not None}
        columns = [self.presence, *(column for keep in plain.values() for column in keep.columns)]
        pipeline = self.cutter.pipeline(self.rows, [*self._all_keys()], columns, self._dead())
        if values:
            self._rewrite_joined(pipeline, plain, {text_of(n): n for n in calls}, values)
        else:
            self._rewrite(pipeline, plain)

    def _all_keys(self) -> list[Key]:
        return list({key.name: key for key in (*self.keys, *self.hidden)}.values())

    def _calls(self) -> list[AggregateCall]:
        nodes = [bare(output) for output in self.query.expressions]
        nodes += [self.query.args["having"].this] if self.query.args.get("having") else []
        calls = [found for node in nodes for found in aggregates_of(node)]
        for node in calls:
            self._check_call(node)
        return list({text_of(node): node for node in calls}.values())

    def _check_call(self, node: AggregateCall) -> None:
        inner = {alias.name for alias in node.find_all(exp.TableAlias)}
        outer = next((c for c in node.find_all(exp.Column) if c.table not in self.own | inner), None)
        if outer is not None:
            raise refuse("an aggregate over a stream uses a column of a query around it", outer)

    def _valued(self, node: AggregateCall) -> ValuedAggregate:
        found = valued(node, self.passing)
        if found is None:
            name, distinct = name_of_call(node), "DISTINCT " if node.args.get("distinct") else ""
            raise Unsupported(
                f"aggregate {name}({distinct}…) cannot be kept in a continuous view",
                detail="Its partial results cannot be merged."
                if name not in ("array_agg", "string_agg", "first", "last")
                else "Without ORDER BY its answer would depend on how the rows came.",
                hint="Give it an ORDER BY inside its parentheses."
                if name in ("array_agg", "string_agg", "first", "last")
                else "docs/continuous-views.md lists the aggregates that can.",
                position=place_of(node),
            )
        return found

    def _dead(self) -> Node | None:
        """No group whose hidden key fails one of these can come back, since moments only move on."""
        found = [dead for node in self.late if (dead := _dead_of(node)) is not None]
        if not found:
            return None
        result = found[0]
        for node in found[1:]:
            result = typed(exp.Or(this=result, expression=node), type_of(result))
        return result

    # --- the query over the state ----------------------------------------------------------------

    def _state(self, pipeline: Pipeline) -> tuple[exp.Table, str]:
        """The state as a FROM item; its relation is known only when all of its columns are."""
        alias = self.binding.fresh_alias("state")
        return self.binding.scan(ScanKey(_placeholder(pipeline.name, self.binding), "state", None), alias), alias

    def _condition(self, alias: str) -> Node | None:
        there = call(GREATER, stored_column(alias, self.presence.name, BIGINT), number(0))
        return both([there, *(_at_alias(node, alias) for node in self.late)])

    def _rewrite(self, pipeline: Pipeline, keeps: Mapping[str, KeptAggregate]) -> None:
        item, alias = self._state(pipeline)
        swap = self._swapper(
            lambda key: stored_column(alias, key.name, key.type), lambda text, node: keeps[text].finish(alias)
        )
        query = self.query
        query.set("from_", exp.From(this=item))
        condition = self._condition(alias)
        query.set("where", exp.Where(this=condition) if condition is not None else None)
        for key in _GROUP_KEYS:
            group = query.args.get("group")
            if group is not None and group.args.get(key):
                group.set(key, [swap(node) if isinstance(node, Node) else node for node in group.args[key]])
        self._rewrite_outputs(swap)
        if query.args.get("having"):
            query.set("having", exp.Having(this=swap(query.args["having"].this)))
        if query.args.get("group") and not self._has_sets() and self._is_one_row_each():
            query.meta[_READ_OFF] = pipeline.name

    def _is_one_row_each(self) -> bool:
        """Whether a group of the query is one group of the state: hidden keys have one value at a moment."""
        fixed = {name for node in self.late if (name := _fixed_key(node)) is not None}
        return all(key.name in fixed for key in self._all_keys() if key not in self.keys)

    def _rewrite_outputs(self, swap: Callable[[Node], Node]) -> None:
        outputs = []
        for node in self.query.expressions:
            name = node.alias_or_name
            outputs.append(
                typed(exp.Alias(this=swap(bare(node)), alias=exp.to_identifier(name, quoted=True)), type_of(node))
            )
        self.query.set("expressions", outputs)

    def _swapper(
        self, of_key: Callable[[Key], Node], of_call: Callable[[str, AggregateCall], Node]
    ) -> Callable[[Node], Node]:
        keys = {text_of(key.node): key for key in self.keys}

        def swap(node: Node, inside: bool = False) -> Node:
            """`inside` a subquery, aggregates are its own."""
            if _is_scalar(node) and (key := keys.get(text_of(node))) is not None:
                return of_key(key)
            if isinstance(node, AggregateCall) and node.this != "grouping" and not inside:
                return of_call(text_of(node), node)
            inside = inside or is_query(node)
            if isinstance(node, exp.Window):
                return _with_window_parts(node, lambda part: swap(part, inside))
            swapped = _with_parts(node, lambda part: swap(part, inside))
            if isinstance(swapped, exp.Column) and swapped.table in self.own:
                raise refuse(
                    f'column "{swapped.name}" is used above the grouping in a way that is not supported', swapped
                )
            return swapped

        return swap

    # --- with values -----------------------------------------------------------------------------

    def _rewrite_joined(
        self,
        pipeline: Pipeline,
        keeps: Mapping[str, KeptAggregate],
        calls: Mapping[str, AggregateCall],
        values: Mapping[str, ValuedAggregate],
    ) -> None:
        """The groups with their plain aggregates, joined with one query for each aggregate over values."""
        query, main = self.query, self.binding.fresh_alias("groups")
        grouping_calls = self._grouping_calls()
        base, names = self._groups(pipeline, keeps, grouping_calls)
        joins, found = [], dict[str, Node]()
        for text, value in values.items():
            alias = self.binding.fresh_alias("valued")
            answered = self._answers(value, calls[text])
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
            found[text] = self._answer_column(alias, calls[text])

        def of_call(text: str, node: AggregateCall) -> Node:
            return found[text].copy() if text in found else plain_column(main, _plain_name(text), type_of(node))

        swap = self._swapper(lambda key: plain_column(main, key.name, key.type), of_call)

        def swap_all(node: Node) -> Node:
            return swap(_without_grouping(node, main, grouping_calls))

        query.set("from_", exp.From(this=derived(base, main)))
        query.set("joins", joins)
        self._rewrite_outputs(swap_all)
        having = query.args.get("having")
        query.set("where", exp.Where(this=swap_all(having.this)) if having is not None else None)
        query.set("having", None)
        query.set("group", None)

    def _answer_column(self, alias: str, node: AggregateCall) -> Node:
        column = plain_column(alias, "value", type_of(node))
        if name_of_call(node) in ("count", "approx_count_distinct", "regr_count"):
            return call("coalesce(anyelement, ...)", column, number(0), type_=BIGINT)
        return column

    def _grouping_calls(self) -> list[AggregateCall]:
        """What tells the sets of GROUPING SETS apart."""
        if not self._has_sets():
            return []
        found = [typed(AggregateCall(this="grouping", expressions=[key.node.copy() for key in self.keys]), INT)]
        nodes = [bare(output) for output in self.query.expressions]
        nodes += [self.query.args["having"].this] if self.query.args.get("having") else []
        for node in nodes:
            found += [c for c in node.find_all(AggregateCall) if c.this == "grouping" and c not in found]
        return found

    def _has_sets(self) -> bool:
        group = self.query.args.get("group")
        return group is not None and group.find(exp.GroupingSets, exp.Rollup, exp.Cube) is not None

    def _groups(
        self, pipeline: Pipeline, keeps: Mapping[str, KeptAggregate], grouping_calls: Sequence[AggregateCall]
    ) -> tuple[exp.Select, list[tuple[str, Type]]]:
        item, alias = self._state(pipeline)
        swap = self._swapper(lambda key: stored_column(alias, key.name, key.type), lambda t, n: keeps[t].finish(alias))
        outputs = [(key.name, stored_column(alias, key.name, key.type)) for key in self.keys]
        outputs += [(f"grouping_{i}", swap(node.copy())) for i, node in enumerate(grouping_calls)]
        outputs += [(_plain_name(text), keep.finish(alias)) for text, keep in keeps.items()]
        if not any(aggregates_of(node) for _, node in outputs) and not self.keys:
            outputs.append(("rows", self.presence.merge(alias)))
        base = select(outputs, item, where=self._condition(alias))
        self._set_group(base, swap)
        names = [(key.name, key.type) for key in self.keys] + ([("grouping_0", INT)] if grouping_calls else [])
        return base, names

    def _set_group(self, query: exp.Select, swap: Callable[[Node], Node], more: Sequence[Node] = ()) -> None:
        group = self.query.args.get("group")
        if group is None:
            if more:
                query.set("group", exp.Group(expressions=[node.copy() for node in more]))
            return
        copy = group.copy()
        for key in _GROUP_KEYS:
            if copy.args.get(key):
                copy.set(key, [swap(node) if isinstance(node, Node) else node for node in copy.args[key]])
        copy.set("expressions", [*(copy.args.get("expressions") or []), *(node.copy() for node in more)])
        query.set("group", copy)

    def _answers(self, value: ValuedAggregate, node: AggregateCall) -> exp.Select:
        """For each group: the aggregate over its values, each with how often it came."""
        value_keys = [self._key(part) for part in value.keys]
        weight = presence(value.where) if value.rank is None else largest_rank(value.rank, value.where)
        there = presence(value.where)
        pipeline = self.cutter.pipeline(
            self.rows,
            list({k.name: k for k in (*self._all_keys(), *value_keys)}.values()),
            [there, weight],
            self._dead(),
        )
        item, alias = self._state(pipeline)
        columns = [stored_column(alias, key.name, key.type) for key in value_keys]
        conditions: list[Node | None] = [call(GREATER, stored_column(alias, there.name, BIGINT), number(0))]
        conditions += [_at_alias(late, alias) for late in self.late]
        if value.skips_nulls:
            conditions.append(typed(exp.Not(this=call("is null(any)", columns[0].copy())), type_of(conditions[0])))  # type: ignore[arg-type]
        swap = self._swapper(lambda key: stored_column(alias, key.name, key.type), lambda t, n: n)
        shown = [(key.name, stored_column(alias, key.name, key.type)) for key in self.keys]
        sets = [(f"grouping_{i}", swap(c.copy())) for i, c in enumerate(self._grouping_calls()[:1])]
        own = [(f"value_{i}", column) for i, column in enumerate(columns)]
        counted: Node = number(1) if node.args.get("distinct") and value.rank is None else weight.merge(alias)
        inner = select([*shown, *sets, *own, ("weight", counted)], item, where=both(conditions))
        self._set_group(inner, swap, columns)
        groups = [(name, type_of(part)) for name, part in (*shown, *sets)]
        return self._over_values(inner, groups, [type_of(c) for c in columns], type_of(counted), value)

    def _over_values(
        self,
        inner: exp.Select,
        groups: Sequence[tuple[str, Type]],
        kinds: Sequence[Type],
        weight_type: Type,
        value: ValuedAggregate,
    ) -> exp.Select:
        alias = self.binding.fresh_alias("counted")
        upto = total = None
        if value.ranked:
            inner = self._ranked(inner, alias, groups, kinds, value.descending)
            alias = self.binding.fresh_alias("ranked")
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


_STATE = "~state"
_SCALARS = (exp.Column, exp.Case, exp.And, exp.Or, exp.Not, exp.In, exp.Exists, exp.Array, exp.Paren)


_READ_OFF = "read off"
_SAFE_CALLS: tuple[str, ...] = (
    "=(",
    "<>(",
    "<(",
    "<=(",
    ">(",
    ">=(",
    "is ",
    "coalesce(",
    "nullif(",
    "like(",
    "greatest(",
    "least(",
)
_SAFE_CALLS += ("sketch ",)


def _cannot_fail(node: Node) -> bool:
    """Columns, constants, comparisons and what is made of these; sums are kept in types that hold them."""
    if isinstance(node, AggregateCall) and "moments" in str(node.this):
        # The variance of infinities is an error.
        return False
    if isinstance(node, Call):
        return str(node.this).startswith(_SAFE_CALLS) and all(map(_cannot_fail, node.expressions))
    if isinstance(node, Convert):
        to, source = type_of(node), type_of(node.this)
        widens = to.name == "double precision" and source.is_number
        return (widens or to.is_text or source == to) and _cannot_fail(node.this)
    return all(_cannot_fail(part) for part in node.iter_expressions())


def read_off(tree: Node, merged: frozenset[str]) -> Node:
    """The query over states in which each group is one row: nothing is left to merge there."""
    for query in [s for s in tree.find_all(exp.Select) if s.meta.get(_READ_OFF) in merged]:
        query.set("group", None)
        having = query.args.get("having")
        conditions = [query.args["where"].this if query.args.get("where") else None]
        conditions += [_without_merges(having.this)] if having is not None else []
        query.set("having", None)
        query.set("expressions", [_without_merges(node) for node in query.expressions])
        condition = both(conditions)
        query.set("where", exp.Where(this=condition) if condition is not None else None)
    return tree


def _without_merges(node: Node) -> Node:
    if isinstance(node, AggregateCall):
        return cast(Node, node.expressions[0])
    if is_query(node):
        return node
    if isinstance(node, exp.Window):
        return _with_window_parts(node, _without_merges)
    return _with_parts(node, _without_merges)


def _fixed_key(node: Node) -> str | None:
    """The hidden key that a late condition gives one value: key = moment."""
    if str(node.this) != EQUAL or len(node.expressions) != 2:
        return None
    for key, other in (node.expressions, reversed(node.expressions)):
        if isinstance(key, exp.Column) and key.table == _STATE and other.find(exp.Column) is None:
            return key.name
    return None


def _is_scalar(node: Node) -> bool:
    return isinstance(node, (*_SCALARS, Call, Convert, Raw))


def _placeholder(name: str, binding: Binding) -> Derived:
    """The relation of a state while its columns are still being collected: the one that is scanned already, if any."""
    known = next(
        (key.relation for key in binding.scans if isinstance(key.relation, Derived) and key.relation.name == name), None
    )
    return known if known is not None else Derived(name, ())


def _plain_name(text: str) -> str:
    return "a_" + digest(text)


def _sum_over(weight: Node, keys: Sequence[Node], order: exp.Ordered | None) -> Node:
    window = exp.Window(
        this=aggregate("sum(bigint)", [weight], BIGINT),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=[order.copy()]) if order is not None else None,
        over="OVER",
    )
    return typed(window, BIGINT)


def _without_grouping(node: Node, main: str, calls: Sequence[AggregateCall]) -> Node:
    """GROUPING(…) is a column of the groups."""
    if isinstance(node, AggregateCall) and node.this == "grouping":
        return plain_column(main, f"grouping_{list(calls).index(node)}", INT)
    return _with_parts(node, lambda part: _without_grouping(part, main, calls))


def _at_alias(node: Node, alias: str) -> Node:
    """A late condition over a state of this name."""
    copy = node.copy()
    for column in [c for c in copy.find_all(exp.Column) if c.table == _STATE]:
        swapped = stored_column(alias, column.name, type_of(column))
        if column is copy:
            return swapped
        column.replace(swapped)
    return copy


def _leaves(element: object) -> list[Node]:
    if isinstance(element, exp.GroupingSets | exp.Rollup | exp.Cube | exp.Tuple):
        return [leaf for part in element.expressions for leaf in _leaves(part)]
    return [element] if isinstance(element, Node) else []


def _unconverted(node: Node) -> Node:
    while isinstance(node, Convert):
        node = node.this
    return node


def _with_parts(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its parts changed; parts of parts are the change's own business."""
    for key, value in list(node.args.items()):
        if isinstance(value, Node):
            node.set(key, change(value))
        elif isinstance(value, list):
            node.set(key, [change(part) if isinstance(part, Node) else part for part in value])
    return node


def _with_window_parts(window: exp.Window, change: Callable[[Node], Node]) -> Node:
    """The function before OVER is no aggregate of the grouping; its arguments are."""
    function = window.this
    _with_parts(function, change)
    for key, value in list(window.args.items()):
        if key == "this":
            continue
        if isinstance(value, Node):
            window.set(key, _with_parts(value, change) if isinstance(value, exp.Order) else change(value))
        elif isinstance(value, list):
            window.set(key, [change(part) if isinstance(part, Node) else part for part in value])
    return window


# --- what will not come back -------------------------------------------------------------------------

_MONOTONE: tuple[str, ...] = (
    "-(timestamptz, interval)",
    "-(timestamp, interval)",
    "+(timestamptz, interval)",
    "+(timestamp, interval)",
)
_MONOTONE += ("-(date, int)", "+(date, int)", "-(date, interval)", "+(date, interval)")
_MIRRORED = {EQUAL: EQUAL, GREATER: LESS, AT_LEAST: AT_MOST, LESS: GREATER, AT_MOST: AT_LEAST}


def _dead_of(node: Node) -> Node | None:
    """For `key = moment`, `key > moment` and `key >= moment`: that the key is before the moment."""
    signature = str(node.this)
    if signature not in _MIRRORED or len(node.expressions) != 2:
        return None
    key, moment = node.expressions
    if has_moment(key):
        key, moment, signature = moment, key, _MIRRORED[signature]
    if has_moment(key) or not _is_moving_on(moment) or not _is_hidden(key):
        return None
    if signature in (EQUAL, AT_LEAST):
        return call(LESS, key.copy(), moment.copy())
    return call(AT_MOST, key.copy(), moment.copy()) if signature == GREATER else None


def _is_hidden(node: Node) -> bool:
    node = _unconverted(node)
    return isinstance(node, exp.Column) and node.table == _STATE


def _is_moving_on(node: Node) -> bool:
    """Whether an expression of a moment never goes back as time passes."""
    node = _unconverted(node)
    if isinstance(node, exp.Literal):
        return has_moment(node)
    is_shifted = str(node.this) in _MONOTONE and not any(has_moment(part) for part in node.expressions[1:])
    return is_shifted and _is_moving_on(node.expressions[0])
