"""Binding of one SELECT, clause by clause: FROM, WHERE, the select list, GROUP BY, HAVING, DISTINCT, ORDER BY."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from midstream.errors import DuplicateName, InvalidQuery, SqlSyntaxError, Unsupported
from midstream.plan import sources
from midstream.plan.calls import (
    check_nesting,
    function_name,
    has_window,
    is_set_returning,
    refuse_calls,
    refuse_set_returning,
)
from midstream.plan.context import Binding
from midstream.plan.expressions import bind_expression, refuse_outer_aggregates
from midstream.plan.grouping import Grouping, check_grouped, group_clause, is_grouped, resolve_grouping
from midstream.plan.names import output_name
from midstream.plan.nodes import (
    bare,
    column,
    derived,
    is_constant,
    keep_place,
    name_of,
    named,
    outside_subqueries,
    place_of,
)
from midstream.plan.ordering import SortKey, limit_and_offset, sort_keys
from midstream.plan.scopes import Namespace, Scope, find_source
from midstream.plan.support import refuse_arguments
from midstream.plan.trees import BoundTree, unique_names

_CLAUSES = "expressions from_ joins where group having windows distinct order limit offset with_ laterals".split()


@dataclass
class _Parts:
    """The clauses of one SELECT, bound."""

    outputs: list[exp.Expression]
    names: list[str]
    from_: exp.From | None
    joins: list[exp.Join]
    where: exp.Expression | None
    grouping: Grouping | None
    having: exp.Expression | None
    keys: list[SortKey]
    is_grouped: bool = False

    def select(self, outputs: Sequence[exp.Expression]) -> exp.Select:
        """The query with a select list of its own, and without ORDER BY."""
        select = exp.Select(expressions=list(outputs), joins=self.joins)
        select.set("from_", self.from_)
        if self.where is not None:
            select.set("where", exp.Where(this=self.where))
        group, condition = group_clause(self.grouping) if self.grouping is not None else (None, None)
        if group is not None:
            select.set("group", group)
        conditions = [part for part in (self.having, condition) if part is not None]
        if conditions:
            select.set("having", exp.Having(this=exp.and_(*conditions, copy=False)))
        return select


def bind_select(binding: Binding, query: exp.Select, outer: Scope) -> BoundTree:
    refuse_arguments(query, _CLAUSES)
    from_, joins, namespace = sources.bind_from(binding, query, outer)
    scope = outer.inside(namespace)
    scope = replace(scope, windows=_named_windows(binding, query, scope))
    parts = _bind_clauses(binding, query, scope, from_, joins)
    _check_calls(parts, scope)
    modifiers = limit_and_offset(binding, query)
    tree = _finish(binding, query, parts, scope)
    for key, node in modifiers.items():
        tree.set(key, node)
    return BoundTree(tree, tuple(parts.names))


def _bind_clauses(
    binding: Binding, query: exp.Select, scope: Scope, from_: exp.From | None, joins: list[exp.Join]
) -> _Parts:
    bind = partial(_bind, binding, scope)
    own = {source.alias for source in scope.namespace.all_sources}
    where = _condition(query.args.get("where"), bind, "WHERE", own)
    names, outputs = _bind_select_list(binding, query, scope)
    grouping = resolve_grouping(query.args.get("group"), names, outputs, scope, bind)
    having = _condition(query.args.get("having"), bind, "HAVING", own)
    keys = sort_keys(query.args.get("order"), names, outputs, bind)
    parts = _Parts(outputs, names, from_, joins, where, grouping, having, keys)
    used = [*outputs, *(key.expression for key in keys)]
    parts.is_grouped = is_grouped(grouping, having, used) or any(node.find(exp.Grouping) for node in used)
    return parts


def _bind(binding: Binding, scope: Scope, node: exp.Expression) -> exp.Expression:
    return bind_expression(binding, node, scope)


def _condition(
    clause: exp.Expression | None,
    bind: Callable[[exp.Expression], exp.Expression],
    word: str,
    own_aliases: set[str],
) -> exp.Expression | None:
    if clause is None:
        return None
    condition = bind(clause.this)
    refuse_outer_aggregates(condition, own_aliases)
    refuse_calls(condition, word, aggregates=word == "WHERE")
    return condition


def _named_windows(binding: Binding, query: exp.Select, scope: Scope) -> dict[str, exp.Window]:
    """The WINDOW clause, bound; a definition may build on an earlier one."""
    windows: dict[str, exp.Window] = {}
    for window in query.args.get("windows") or []:
        name = name_of(window.this)
        if name in windows:
            raise DuplicateName(f'window "{name}" is already defined', sqlstate="42P20", position=place_of(window))
        bound = bind_expression(binding, window, replace(scope, windows=windows))
        refuse_calls(exp.Tuple(expressions=list(bound.iter_expressions())), "window definitions", aggregates=False)
        assert isinstance(bound, exp.Window)
        windows[name] = bound
    return windows


# --- the select list -----------------------------------------------------------------------------


def _bind_select_list(binding: Binding, query: exp.Select, scope: Scope) -> tuple[list[str], list[exp.Expression]]:
    names: list[str] = []
    outputs: list[exp.Expression] = []
    for node in query.expressions:
        for name, output in _bind_item(binding, node, scope):
            names.append(name)
            outputs.append(output)
    if not outputs:
        raise SqlSyntaxError("the select list is empty", position=place_of(query))
    return names, outputs


def _bind_item(binding: Binding, node: exp.Expression, scope: Scope) -> list[tuple[str, exp.Expression]]:
    if isinstance(node, exp.Star):
        return _expand_star(binding, node, scope.namespace)
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        source = find_source(name_of(node.args["table"]), scope, node)
        _note_star(binding, node, [source.written(c.name) for c in source.columns])
        return [(c.name, keep_place(source.column(c.kernel_name), node)) for c in source.columns]
    name = output_name(node)
    output = bind_expression(binding, bare(node), scope)
    if isinstance(output, exp.Tuple):
        raise Unsupported("a row cannot be a result column", position=place_of(output))
    return [(name, output)]


def _expand_star(binding: Binding, star: exp.Star, namespace: Namespace) -> list[tuple[str, exp.Expression]]:
    refuse_arguments(star, ())
    if not namespace.all_sources:
        raise SqlSyntaxError("SELECT * with no tables specified is not valid", position=place_of(star))
    _note_star(binding, star, [namespace.written(visible) for visible in namespace.columns])
    return [(visible.name, keep_place(visible.node.copy(), star)) for visible in namespace.columns]


def _note_star(binding: Binding, star: exp.Expression, written: list[str | None]) -> None:
    """A star in a view's own text has no place in the statement, and one over equal names cannot be written out."""
    place, names = place_of(star), tuple(name for name in written if name is not None)
    if place is not None and len(names) == len(written):
        binding.stars.append((place, names))


# --- checks --------------------------------------------------------------------------------------


def _check_calls(parts: _Parts, scope: Scope) -> None:
    keys = [key.expression for key in parts.keys]
    used = [*parts.outputs, *keys] + ([parts.having] if parts.having is not None else [])
    own = {source.alias for source in scope.namespace.all_sources}
    for expression in used:
        check_nesting(expression)
    if parts.is_grouped:
        for expression in used:
            refuse_outer_aggregates(expression, own)
        check_grouped(used, _grouping_of(parts), scope.namespace.all_sources)


def _grouping_of(parts: _Parts) -> Grouping:
    return parts.grouping if parts.grouping is not None else Grouping()


# --- DISTINCT, ORDER BY --------------------------------------------------------------------------


def _finish(binding: Binding, query: exp.Select, parts: _Parts, scope: Scope) -> exp.Select:
    _move_set_returning(binding, parts)
    distinct = query.args.get("distinct")
    on = distinct.args.get("on") if distinct is not None else None
    on_keys = _on_keys(binding, parts, list(on.expressions), scope) if on is not None else []
    parts.keys = [key for key in parts.keys if not is_constant(key.expression)]
    if distinct is None:
        return _sorted(binding, parts)
    return _distinct(binding, parts) if on is None else _distinct_on(binding, parts, on_keys)


def _sorted(binding: Binding, parts: _Parts) -> exp.Select:
    if not parts.keys:
        return parts.select(parts.outputs)
    if not parts.is_grouped and all(isinstance(key.expression, exp.Column) for key in parts.keys):
        select = parts.select(parts.outputs)
        select.set("order", exp.Order(expressions=[key.ordered(key.expression.copy()) for key in parts.keys]))
        return select
    wrapped = _wrap(binding, parts, [key.expression for key in parts.keys if key.output is None])
    return wrapped.select(parts.keys)


@dataclass
class _Wrapped:
    """A query as a FROM item, with columns for its outputs and for further keys."""

    item: exp.Expression
    outputs: list[exp.Expression]
    extra: list[exp.Expression]

    def key_columns(self, keys: Sequence[SortKey]) -> list[exp.Expression]:
        rest = iter(self.extra)
        return [self.outputs[key.output] if key.output is not None else next(rest) for key in keys]

    def select(self, keys: Sequence[SortKey]) -> exp.Select:
        select = exp.Select(expressions=[output.copy() for output in self.outputs])
        select.set("from_", exp.From(this=self.item))
        ordered = [key.ordered(node.copy()) for key, node in zip(keys, self.key_columns(keys), strict=True)]
        if ordered:
            select.set("order", exp.Order(expressions=ordered))
        return select


def _wrap(binding: Binding, parts: _Parts, extra: Sequence[exp.Expression], distinct: bool = False) -> _Wrapped:
    """The query in a FROM clause. Constants stay outside, where an untyped one can still take any type."""
    alias = binding.fresh_alias("q")
    outside = [not distinct and is_constant(output) for output in parts.outputs]
    names = unique_names([*parts.names, *(f"key_{i}" for i in range(len(extra)))])
    expressions = [*parts.outputs, *(node.copy() for node in extra)]
    kept = [i for i in range(len(expressions)) if i >= len(outside) or not outside[i]]
    inner = parts.select([named(expressions[i], names[i]) for i in kept] or [exp.Literal.number("1")])
    if distinct:
        inner.set("distinct", exp.Distinct())
    refs = [
        bare(expressions[i]) if i < len(outside) and outside[i] else column(alias, names[i])
        for i in range(len(expressions))
    ]
    width = len(parts.outputs)
    return _Wrapped(derived(inner, alias), refs[:width], refs[width:])


def _distinct(binding: Binding, parts: _Parts) -> exp.Select:
    hidden = next((key for key in parts.keys if key.output is None), None)
    if hidden is not None:
        raise InvalidQuery(
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            sqlstate="42P10",
            position=place_of(hidden.expression),
        )
    if parts.keys:
        return _wrap(binding, parts, [], distinct=True).select(parts.keys)
    select = parts.select(parts.outputs)
    select.set("distinct", exp.Distinct())
    return select


def _on_keys(binding: Binding, parts: _Parts, written: list[exp.Expression], scope: Scope) -> list[SortKey]:
    """What DISTINCT ON tells rows apart by, which ORDER BY must begin with."""
    order = exp.Order(expressions=[exp.Ordered(this=node) for node in written])
    on = sort_keys(order, parts.names, parts.outputs, partial(_bind, binding, scope))
    _check_distinct_on(on, parts, scope)
    return on


def _distinct_on(binding: Binding, parts: _Parts, on: list[SortKey]) -> exp.Select:
    """DISTINCT ON keeps the first row of each group, in the order of ORDER BY."""
    hidden = [key.expression for key in (*on, *parts.keys) if key.output is None]
    wrapped = _wrap(binding, parts, hidden, distinct=False)
    columns = wrapped.key_columns([*on, *parts.keys])
    partition, order = columns[: len(on)], columns[len(on) :]
    numbered = _number_rows(
        binding, wrapped, partition, [k.ordered(c.copy()) for k, c in zip(parts.keys, order, strict=True)]
    )
    return _first_rows(numbered, wrapped, parts.keys, order)


def _check_distinct_on(on: list[SortKey], parts: _Parts, scope: Scope) -> None:
    used = [key.expression for key in on]
    for expression in used:
        check_nesting(expression)
    if parts.is_grouped:
        check_grouped(used, _grouping_of(parts), scope.namespace.all_sources)
    leading = [key.expression for key in parts.keys[: len(on)]]
    if any(expression not in used for expression in leading):
        raise InvalidQuery(
            "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
            sqlstate="42P10",
            position=place_of(used[0]),
        )


@dataclass
class _Numbered:
    item: exp.Expression
    alias: str
    columns: list[str]
    number: str


def _number_rows(
    binding: Binding, wrapped: _Wrapped, partition: Sequence[exp.Expression], order: list[exp.Ordered]
) -> _Numbered:
    alias = binding.fresh_alias("q")
    carried = [node for node in (*wrapped.outputs, *wrapped.extra) if isinstance(node, exp.Column)]
    names = unique_names([*(node.name for node in carried), "row_number"])
    window = exp.Window(this=exp.RowNumber(), partition_by=[node.copy() for node in partition], over="OVER")
    window.set("order", exp.Order(expressions=order or [exp.Ordered(this=partition[0].copy(), nulls_first=False)]))
    outputs = [named(node.copy(), name) for node, name in zip(carried, names, strict=False)]
    select = exp.Select(expressions=[*outputs, named(window, names[-1])])
    select.set("from_", exp.From(this=wrapped.item))
    return _Numbered(derived(select, alias), alias, [node.name for node in carried], names[-1])


def _first_rows(
    numbered: _Numbered, wrapped: _Wrapped, keys: Sequence[SortKey], order: Sequence[exp.Expression]
) -> exp.Select:
    def outside(node: exp.Expression) -> exp.Expression:
        return column(numbered.alias, node.name) if isinstance(node, exp.Column) else node.copy()

    select = exp.Select(expressions=[outside(node) for node in wrapped.outputs])
    select.set("from_", exp.From(this=numbered.item))
    first = exp.EQ(this=column(numbered.alias, numbered.number), expression=exp.Literal.number("1"))
    select.set("where", exp.Where(this=first))
    if keys:
        ordered = [key.ordered(outside(node)) for key, node in zip(keys, order, strict=True)]
        select.set("order", exp.Order(expressions=ordered))
    return select


# --- set-returning functions ---------------------------------------------------------------------


def _move_set_returning(binding: Binding, parts: _Parts) -> None:
    """SELECT a, unnest(b) FROM t becomes SELECT t.a, u.x FROM t CROSS JOIN LATERAL unnest(t.b) AS u (x)."""
    found = [i for i, output in enumerate(parts.outputs) if _has_set_returning(output)]
    if not found:
        return
    call = parts.outputs[found[0]]
    simple = len(found) == 1 and is_set_returning(call) and not parts.is_grouped
    if not simple or any(has_window(output) for output in parts.outputs):
        raise Unsupported(
            "a set-returning function must stand alone in the select list",
            hint=f"Put {function_name(next(filter(is_set_returning, outside_subqueries(call))))} into the FROM clause.",
            position=place_of(call),
        )
    for key in parts.keys:
        if key.output is None:
            refuse_set_returning(key.expression, "ORDER BY")
    alias = binding.fresh_alias("unnest")
    item = sources.table_function(call, alias, ["value"])
    value = column(alias, "value")
    if parts.from_ is None:
        parts.from_ = exp.From(this=item)
    else:
        parts.joins.append(exp.Join(this=item, kind="CROSS"))
    parts.keys = [
        SortKey(key.output, value, key.descending, key.nulls_first) if key.output == found[0] else key
        for key in parts.keys
    ]
    parts.outputs[found[0]] = value


def _has_set_returning(output: exp.Expression) -> bool:
    return any(is_set_returning(node) for node in outside_subqueries(output))
