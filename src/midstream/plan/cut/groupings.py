"""One grouping query: its keys and aggregates become a pipeline, and itself a query over the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan.context import Binding, ScanKey
from midstream.plan.cut.aggregates import (
    KeptAggregate,
    ValuedAggregate,
    kept,
    name_of_call,
    presence,
    valued,
)
from midstream.plan.cut.build import (
    GREATER,
    Node,
    aggregates_of,
    both,
    call,
    digest,
    number,
    plain_column,
    stored_column,
    text_of,
)
from midstream.plan.cut.expiry import dead_of, fixed_key
from midstream.plan.cut.joined import Joined
from midstream.plan.cut.pipelines import Key, Pipeline
from midstream.plan.cut.rewriting import (
    READ_OFF,
    STATE_ALIAS,
    at_alias,
    is_scalar,
    leaves,
    unconverted,
    with_parts,
    with_window_parts,
)
from midstream.plan.cut.rows import RowPart, own_aliases
from midstream.plan.cut.streams import refuse
from midstream.plan.moments import has_moment
from midstream.plan.nodes import bare, is_constant, is_query, keep_place, place_of
from midstream.plan.typing.nodes import AggregateCall, type_of, typed
from midstream.plan.windows import is_window_bound
from midstream.relations.view import Derived
from midstream.types import BIGINT, INT

if TYPE_CHECKING:
    from midstream.plan.cut.views import Cutter


GROUP_KEYS = ("expressions", "grouping_sets", "rollup", "cube")


class Grouping:
    """One grouping query: its keys and aggregates become a pipeline, and itself a query over the state."""

    def __init__(self, cutter: Cutter, query: exp.Select, rows: RowPart) -> None:
        self.cutter = cutter
        self.binding = cutter.binding
        self.query = query
        self.rows = rows
        self.own = own_aliases(rows)
        self.keys = [self._checked_key(node) for node in self._key_nodes()]
        self.hidden: list[Key] = []
        self.late = [self._hoisted(node.copy()) for node in rows.late]
        self.passing = both(rows.filters)
        self.presence = presence(self.passing)

    def _key_nodes(self) -> list[Node]:
        group = self.query.args.get("group")
        if group is not None:
            found = [node for key in GROUP_KEYS for element in group.args.get(key) or [] for node in leaves(element)]
            return list({text_of(node): node for node in found}.values())
        if self.query.args.get("distinct") and not any(aggregates_of(bare(o)) for o in self.query.expressions):
            found = [bare(node) for node in self.query.expressions if not _is_one_value(unconverted(bare(node)))]
            return list({text_of(node): node for node in found}.values())
        return []

    def _checked_key(self, node: Node) -> Key:
        query = next((found for found in node.walk() if is_query(found)), None)
        if isinstance(query, Node):
            raise refuse(
                "a stream cannot be grouped by a subquery",
                query if place_of(query) else node,
                detail="What its rows are grouped by comes from the rows themselves and the tables that they are "
                "joined with.",
                hint="Join the table, and group by its column: FROM stream LEFT JOIN table ON … GROUP BY table.column.",
            )
        return self.key(node)

    def key(self, node: Node) -> Key:
        return Key("k_" + digest(f"{text_of(node)} {type_of(node)}"), node.copy())

    def _hoisted(self, node: Node) -> Node:
        """A late condition over hidden keys: whatever of it comes from the row alone is one. Of an interval that is
        computed, what it is computed from: equal intervals may be written in different ways."""
        if not has_moment(node) and self._is_of_row(node) and not _is_computed_interval(node):
            key = replace(self.key(node), is_hidden=True)
            if key not in self.hidden:
                self.hidden.append(key)
            return plain_column(STATE_ALIAS, key.name, key.type)
        return with_parts(node, lambda part: self._hoisted(part if place_of(part) else keep_place(part, node)))

    def _is_of_row(self, node: Node) -> bool:
        tables = {column.table for column in node.find_all(exp.Column)}
        return bool(tables) and tables <= self.own

    def cut(self) -> None:
        calls = self._calls()
        keeps = {text_of(node): kept(node, self.passing) for node in calls}
        values = {text_of(node): self._valued(node) for node in calls if keeps[text_of(node)] is None}
        plain = {text: keep for text, keep in keeps.items() if keep is not None}
        columns = [self.presence, *(column for keep in plain.values() for column in keep.columns)]
        pipeline = self.cutter.pipeline(self.rows, [*self.all_keys()], columns, self.dead())
        if values:
            Joined(self, pipeline, plain, {text_of(n): n for n in calls}, values).rewrite()
        else:
            self._rewrite(pipeline, plain)

    def all_keys(self) -> list[Key]:
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
            raise refuse(
                "an aggregate over a stream uses a column of a query around it",
                outer,
                detail="It is computed as rows come, and then it is not known for which row of that query.",
                hint="Group the stream in a subquery of its own, and put the column beside the aggregate above it.",
            )

    def _valued(self, node: AggregateCall) -> ValuedAggregate:
        found = valued(node, self.passing)
        if found is None:
            name, distinct = name_of_call(node), "DISTINCT " if node.args.get("distinct") else ""
            by_order = name in ("array_agg", "string_agg", "first", "last")
            raise Unsupported(
                f"aggregate {name}({distinct}…) cannot be kept in a continuous view",
                detail="Without ORDER BY its answer would depend on how the rows came."
                if by_order
                else "There is no rule by which its partial results are put together.",
                hint="Give it an ORDER BY inside its parentheses."
                if by_order
                else "docs/continuous-views.md lists the aggregates that can.",
                position=place_of(node),
            )
        return found

    def dead(self) -> Node | None:
        """No group whose hidden key fails one of these can come back, since moments only move on."""
        found = [dead for node in self.late if (dead := dead_of(node)) is not None]
        if not found:
            return None
        result = found[0]
        for node in found[1:]:
            result = typed(exp.Or(this=result, expression=node), type_of(result))
        return result

    def state(self, pipeline: Pipeline) -> tuple[exp.Table, str]:
        """The state as a FROM item; its relation is known only when all of its columns are."""
        alias = self.binding.fresh_alias("state")
        return self.binding.scan(ScanKey(_placeholder(pipeline.name, self.binding), "state", None), alias), alias

    def condition(self, alias: str) -> Node | None:
        there = call(GREATER, stored_column(alias, self.presence.name, BIGINT), number(0))
        return both([there, *(at_alias(node, alias) for node in self.late)])

    def _rewrite(self, pipeline: Pipeline, keeps: Mapping[str, KeptAggregate]) -> None:
        item, alias = self.state(pipeline)
        swap = self.swapper(
            lambda key: stored_column(alias, key.name, key.type), lambda text, node: keeps[text].finish(alias)
        )
        query = self.query
        query.set("from_", exp.From(this=item))
        condition = self.condition(alias)
        query.set("where", exp.Where(this=condition) if condition is not None else None)
        for key in GROUP_KEYS:
            group = query.args.get("group")
            if group is not None and group.args.get(key):
                group.set(key, [swap(node) if isinstance(node, Node) else node for node in group.args[key]])
        self.rewrite_outputs(swap)
        if query.args.get("having"):
            query.set("having", exp.Having(this=swap(query.args["having"].this)))
        if query.args.get("group") and not self.has_sets() and self._is_one_row_each():
            query.meta[READ_OFF] = pipeline.name

    def _is_one_row_each(self) -> bool:
        """Whether a group of the query is one group of the state: hidden keys have one value at a moment."""
        fixed = {name for node in self.late if (name := fixed_key(node)) is not None}
        return all(key.name in fixed for key in self.all_keys() if key not in self.keys)

    def rewrite_outputs(self, swap: Callable[[Node], Node]) -> None:
        outputs = []
        for node in self.query.expressions:
            name = node.alias_or_name
            outputs.append(
                typed(exp.Alias(this=swap(bare(node)), alias=exp.to_identifier(name, quoted=True)), type_of(node))
            )
        self.query.set("expressions", outputs)

    def swapper(
        self, of_key: Callable[[Key], Node], of_call: Callable[[str, AggregateCall], Node]
    ) -> Callable[[Node], Node]:
        keys = {text_of(key.node): key for key in self.keys}

        def swap(node: Node, inside: bool = False) -> Node:
            """`inside` a subquery, aggregates are its own."""
            if is_scalar(node) and (key := keys.get(text_of(node))) is not None:
                return of_key(key)
            if isinstance(node, AggregateCall) and node.this != "grouping" and not inside:
                return of_call(text_of(node), node)
            inside = inside or is_query(node)
            if isinstance(node, exp.Window):
                return with_window_parts(node, lambda part: swap(part, inside))
            swapped = with_parts(node, lambda part: swap(part, inside))
            if isinstance(swapped, exp.Column) and swapped.table in self.own:
                raise refuse(
                    f'column "{swapped.name}" is used above the grouping in a way that is not supported',
                    swapped,
                    detail="Above the grouping there are its keys and aggregates, and the rows are gone.",
                    hint="Group in a subquery, and compute the rest from its columns.",
                )
            return swapped

        return swap

    def grouping_calls(self) -> list[AggregateCall]:
        """What tells the sets of GROUPING SETS apart; where none has a key, they are all the same."""
        if not self.has_sets() or not self.keys:
            return []
        found = [typed(AggregateCall(this="grouping", expressions=[key.node.copy() for key in self.keys]), INT)]
        nodes = [bare(output) for output in self.query.expressions]
        nodes += [self.query.args["having"].this] if self.query.args.get("having") else []
        for node in nodes:
            found += [c for c in node.find_all(AggregateCall) if c.this == "grouping" and c not in found]
        return found

    def has_sets(self) -> bool:
        group = self.query.args.get("group")
        return group is not None and group.find(exp.GroupingSets, exp.Rollup, exp.Cube) is not None

    def set_group(self, query: exp.Select, swap: Callable[[Node], Node], more: Sequence[Node] = ()) -> None:
        group = self.query.args.get("group")
        if group is None:
            if more:
                query.set("group", exp.Group(expressions=[node.copy() for node in more]))
            return
        copy = group.copy()
        for key in GROUP_KEYS:
            if copy.args.get(key):
                copy.set(key, [swap(node) if isinstance(node, Node) else node for node in copy.args[key]])
        copy.set("expressions", [*(copy.args.get("expressions") or []), *(node.copy() for node in more)])
        query.set("group", copy)


def _placeholder(name: str, binding: Binding) -> Derived:
    """The relation of a state while its columns are still being collected: the one that is scanned already, if any."""
    known = next(
        (key.relation for key in binding.scans if isinstance(key.relation, Derived) and key.relation.name == name), None
    )
    return known if known is not None else Derived(name, ())


def _is_one_value(node: Node) -> bool:
    """Whether it is the same for all rows that are grouped."""
    return is_constant(node) or is_window_bound(node)


def _is_computed_interval(node: Node) -> bool:
    return not isinstance(node, exp.Column) and type_of(node).name == "interval"
