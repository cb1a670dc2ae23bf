"""The rows of a stream on their way to a grouping: FROM, joins and WHERE of the grouping query.

They are brought into one form, so that equal pipelines of different views are equal texts: raw subqueries are written
into the query around them, sources are named by their order, and what comes from tables alone is computed once and
stands there as a static input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from midstream.plan.bound import BoundQuery, Output, seal
from midstream.plan.context import Binding, ScanKey
from midstream.plan.cut.along_keys import join_along_keys
from midstream.plan.cut.build import (
    GREATER,
    Node,
    both,
    call,
    count_of_rows,
    derived,
    digest,
    number,
    select,
    stored_column,
    text_of,
)
from midstream.plan.cut.rewriting import is_scalar, unconverted
from midstream.plan.cut.streams import Status, Streams, items_of, refuse, rename_aliases, with_fresh_aliases
from midstream.plan.moments import has_moment, moments_in
from midstream.plan.nodes import (
    bare,
    child,
    conjuncts,
    is_constant,
    is_query,
    place_of,
    quoted,
    replace_item,
    table_alias,
)
from midstream.plan.pruning import column_uses
from midstream.plan.typing.nodes import type_of, typed
from midstream.plan.windows import is_window_bound
from midstream.relations.view import Derived


@dataclass(frozen=True)
class Static:
    """What a pipeline takes from tables: a query that runs once, when the view is created."""

    relation: Derived
    query: BoundQuery


@dataclass
class RowPart:
    """Where the rows of a grouping come from, and what each must satisfy."""

    source: exp.Select
    """FROM and joins, without anything else."""
    filters: list[Node]
    late: list[Node]
    """Conditions on the moment, or on a row of a query around: they hold when the view is read."""
    statics: list[Static]


def take_rows(binding: Binding, streams: Streams, query: exp.Select) -> RowPart:
    """Takes FROM, joins and WHERE off a grouping query, which then has only what stands above."""
    filters, late = settle_conditions(binding, streams, query)
    query.set("where", None)
    join_along_keys(streams, query, filters, late)
    statics = _take_statics(binding, streams, query, filters, late)
    source = exp.Select(joins=query.args.get("joins") or [])
    source.set("from_", query.args["from_"])
    query.set("from_", None)
    query.set("joins", None)
    return RowPart(source, filters, late, statics)


def settle_conditions(binding: Binding, streams: Streams, query: exp.Select) -> tuple[list[Node], list[Node]]:
    """Brings what stands below a grouping into one form. Returns the conditions on rows as they come, and those that
    wait for the moment of reading; raises where something else would have to."""
    write_out_ctes(binding, query)
    while _flatten_once(streams, query):
        pass
    own = {alias.name for part in row_parts(query) for alias in part.find_all(exp.TableAlias)}
    drop_bounds(query)
    _name_by_order(query, own)
    own = {alias.name for part in row_parts(query) for alias in part.find_all(exp.TableAlias)}
    _late_conditions_into_where(query, own)
    _refuse_moments(streams, query)
    conditions = conjuncts(query.args["where"].this if query.args.get("where") else None)
    late = [node for node in conditions if _is_late(node, own)]
    for node in late:
        _refuse_query_in_late(node)
    filters = [node for node in conditions if node not in late]
    for part in (*items_of(query), *(join.args["on"] for join in query.args.get("joins") or [] if join.args.get("on"))):
        if _outer_column(part, own) is not None:
            raise refuse(
                "a stream is joined with columns of a query around it",
                _outer_column(part, own),
                hint="Put the condition into WHERE.",
            )
    return filters, late


def own_aliases(part: RowPart) -> set[str]:
    return {alias.name for alias in part.source.find_all(exp.TableAlias)}


def row_parts(query: exp.Select) -> Iterator[Node]:
    for key in ("from_", "where"):
        if query.args.get(key):
            yield query.args[key]
    yield from query.args.get("joins") or []


def _outer_column(node: Node, own: set[str]) -> exp.Column | None:
    inner = {alias.name for alias in node.find_all(exp.TableAlias)}
    return next((c for c in node.find_all(exp.Column) if c.table not in own and c.table not in inner), None)


def _is_late(node: Node, own: set[str]) -> bool:
    return has_moment(node) or _outer_column(node, own) is not None


def _late_conditions_into_where(query: exp.Select, own: set[str]) -> None:
    """s JOIN t ON t.a = s.a AND s.day = current_date   ->   s JOIN t ON t.a = s.a WHERE s.day = current_date"""
    joins: list[exp.Join] = query.args.get("joins") or []
    for place, join in enumerate(joins):
        is_inner = not join.args.get("side") and (join.args.get("kind") or "INNER").upper() in ("INNER", "CROSS")
        if not is_inner or not join.args.get("on") or not _is_plain_join(joins[place + 1 :]):
            continue
        conditions = conjuncts(join.args["on"])
        late = [node for node in conditions if _is_late(node, own)]
        if late:
            join.set("on", both([node for node in conditions if node not in late]))
            _add_where(query, late)


def _refuse_query_in_late(node: Node) -> None:
    query = next((found for found in node.walk() if is_query(found)), None)
    if isinstance(query, Node):
        raise refuse(
            "a condition on the moment of reading, or on a query around, may hold no further query below a grouping",
            query,
            hint="Group first, and put the condition above.",
        )


def _refuse_moments(streams: Streams, query: exp.Select) -> None:
    """now() may stand in WHERE of the grouping, where it is asked when the view is read, and above the grouping. A key
    that is a bound of the window groups nothing."""
    from midstream.plan.cut.build import aggregates_of

    parts: list[Node] = [*items_of(query)]
    parts += [join.args["on"] for join in query.args.get("joins") or [] if join.args.get("on")]
    parts += [call for node in query.expressions for call in aggregates_of(bare(node))]
    if query.args.get("having"):
        parts += aggregates_of(query.args["having"].this)
    keys = [query.args["group"]] if query.args.get("group") else []
    if query.args.get("distinct") and not keys:
        keys = list(query.expressions)
    parts += [key for key in keys if not is_window_bound(unconverted(bare(key)))]
    for part in parts:
        moment = next(moments_in(part), None)
        if moment is not None:
            name, table = streams.name(query)
            raise refuse(
                f'the moment of reading is not known when rows of stream "{name}" come',
                moment if place_of(moment) else table,
                detail="now(), current_date, current_week() and current_scn() change, and the rows are gone by then.",
                hint="Put a condition on the moment into WHERE of the grouping query itself.",
            )


def drop_bounds(query: exp.Select) -> None:
    """GROUP BY window_start groups nothing, since it is one; but it gives no row for an empty window."""
    group = query.args.get("group")
    if group is None:
        return
    keys = group.args.get("expressions") or []
    left = [key for key in keys if not is_window_bound(unconverted(key))]
    if len(left) == len(keys):
        return
    group.set("expressions", left)
    if not left and not any(group.args.get(key) for key in ("grouping_sets", "rollup", "cube")):
        query.set("group", None)
        before = conjuncts(query.args["having"].this) if query.args.get("having") else []
        there = call(GREATER, count_of_rows(), number(0))
        query.set("having", exp.Having(this=both([there, *before])))


# --- one form ----------------------------------------------------------------------------------------


def write_out_ctes(binding: Binding, query: exp.Select, is_meant: Callable[[Node], bool] = lambda tree: True) -> None:
    """WITH queries that rows meet are written out where they are used."""
    known = {name: tree for name, tree in _ctes_around(query).items() if is_meant(tree)}
    for part in list(row_parts(query)):
        for table in [t for t in part.find_all(exp.Table) if t.name in known]:
            replace_item(table, derived(with_fresh_aliases(binding, known[table.name]), table.alias))


def _ctes_around(node: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    above: exp.Expression | None = node
    while above is not None:
        with_ = above.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            found.setdefault(cte.args["alias"].name, cte.this)
        parent = above.parent
        above = parent if isinstance(parent, exp.Expression) else None
    return found


def _flatten_once(streams: Streams, query: exp.Select) -> bool:
    """FROM (SELECT a + 1 AS b FROM s WHERE c) AS q … q.b   ->   FROM s … s.a + 1, with c in WHERE."""
    joins: list[exp.Join] = query.args.get("joins") or []
    first = query.args["from_"].this
    if _is_simple(streams, first):
        inner = first.this
        query.set("from_", inner.args.get("from_"))
        query.set("joins", [*(inner.args.get("joins") or []), *joins])
        _substitute(query, first.alias, inner)
        return True
    for place, join in enumerate(joins):
        is_inner = not join.args.get("side")
        if not (is_inner or _is_kept_side(join)) or not _is_plain_join(joins[place + 1 :]):
            continue
        item = join.this
        if not _is_simple(streams, item):
            continue
        inner = item.this
        # In parentheses, nothing is looked at any more.
        while _flatten_once(streams, inner):
            pass
        if is_inner:
            query.set("joins", [*joins[:place], *_opened(inner), *joins[place + 1 :]])
            if join.args.get("on"):
                _add_where(query, [join.args["on"]])
        else:
            join.set("this", _as_item(inner))
        _substitute(query, item.alias, inner)
        return True
    return False


def _opened(inner: exp.Select) -> list[exp.Join]:
    """The items of a subquery, joined to what stands before them. A join that keeps rows of its right side keeps them
    for each row that stands before the subquery, so it goes on in parentheses."""
    first, joins = inner.args["from_"].this, inner.args.get("joins") or []
    return [exp.Join(this=first), *joins] if _is_plain_join(joins) else [exp.Join(this=_as_item(inner))]


def _as_item(inner: exp.Select) -> Node:
    """The items of a subquery as one: a join in parentheses, if there are several."""
    first, joins = inner.args["from_"].this, inner.args.get("joins") or []
    if not joins:
        return cast(Node, first)
    first.set("joins", [*(first.args.get("joins") or []), *joins])
    return exp.Paren(this=first)


def _is_kept_side(join: exp.Join) -> bool:
    """Whether every row of the item is in the join, so that conditions on it hold before and after alike."""
    return (join.args.get("side") or "").upper() == "RIGHT"


def _is_plain_join(joins: Sequence[exp.Join]) -> bool:
    return all((join.args.get("side") or "") in ("", "LEFT") for join in joins)


def _is_simple(streams: Streams, item: Node) -> bool:
    if not isinstance(item, exp.Subquery) or not isinstance(item.this, exp.Select) or item.args.get("joins"):
        return False
    inner = item.this
    if any(inner.args.get(key) for key in ("group", "having", "distinct", "order", "limit", "offset", "with_")):
        return False
    return inner.args.get("from_") is not None and streams.of_query(inner) == Status.RAW


def _substitute(query: exp.Select, alias: str, inner: exp.Select) -> None:
    """Columns of a subquery that is no more are what they stood for."""
    if inner.args.get("where"):
        _add_where(query, conjuncts(inner.args["where"].this))
    meant = {node.alias_or_name: _told_apart(bare(node)) for node in inner.expressions}
    for column in [c for c in query.find_all(exp.Column) if c.table == alias]:
        column.replace(meant[column.name].copy())


def _told_apart(node: Node) -> Node:
    """A constant that has a name in a subquery is no constant where it is a key: of GROUPING SETS it may be NULL."""
    if is_constant(node) and not is_scalar(node):
        return typed(exp.Paren(this=node.copy()), type_of(node))
    return node


def _add_where(query: exp.Select, conditions: Sequence[Node]) -> None:
    before = conjuncts(query.args["where"].this if query.args.get("where") else None)
    combined = both([*before, *conditions])
    if combined is not None:
        query.set("where", exp.Where(this=combined))


def _name_by_order(query: exp.Select, own: set[str]) -> None:
    order = [alias.name for part in row_parts(query) for alias in part.find_all(exp.TableAlias)]
    rename_aliases(query, {name: f"~{number}" for number, name in enumerate(dict.fromkeys(order)) if name in own})


# --- what comes from tables ---------------------------------------------------------------------------


def _take_statics(
    binding: Binding, streams: Streams, query: exp.Select, filters: list[Node], late: Sequence[Node]
) -> list[Static]:
    found: list[Static] = []
    outer_sides = {id(join.this) for join in query.args.get("joins") or [] if join.args.get("side")}
    for item in items_of(query):
        if isinstance(item, exp.Table) and is_table(streams, item):
            pushed = _pushed(item, filters, query) if id(item) not in outer_sides and not _has_right(query) else []
            found.append(_static_table(binding, streams, [query, *filters, *late], item, pushed))
        elif isinstance(item, exp.Subquery) and is_query(item.this) and not streams.has_live(item):
            found.append(_static_query(binding, item))
    for part, is_above in [*((p, False) for p in (*row_parts(query), *filters)), *((p, True) for p in _above(query))]:
        for table in [t for t in part.find_all(exp.Table) if is_table(streams, t)]:
            if not is_above or in_aggregate(table, query):
                found.append(_static_table(binding, streams, [query, *filters, *late], table, []))
    return list({static.relation.name: static for static in found}.values())


def _above(query: exp.Select) -> list[Node]:
    return [*query.expressions, *([query.args["having"]] if query.args.get("having") else [])]


def in_aggregate(table: Node, query: exp.Select) -> bool:
    from midstream.plan.typing.nodes import AggregateCall

    above: exp.Expression | None = table
    while above is not None and above is not query:
        if isinstance(above, AggregateCall):
            return True
        parent = above.parent
        above = parent if isinstance(parent, exp.Expression) else None
    return False


def _has_right(query: exp.Select) -> bool:
    return any(join.args.get("side") for join in query.args.get("joins") or [] if join.args.get("side") != "LEFT")


def is_table(streams: Streams, table: exp.Table) -> bool:
    key = streams.key_of(table)
    return key is not None and key.source in ("table", "changes", "history")


def _pushed(item: exp.Table, filters: list[Node], query: exp.Select) -> list[Node]:
    """Conditions on one table alone hold for it before it is joined."""
    alias = item.alias
    pushed = [
        node
        for node in filters
        if {c.table for c in node.find_all(exp.Column)} == {alias} and not any(is_query(n) for n in node.walk())
    ]
    for node in pushed:
        filters.remove(node)
    return pushed


def _static_table(
    binding: Binding, streams: Streams, users: Sequence[Node], table: exp.Table, conditions: Sequence[Node]
) -> Static:
    """The columns of a table that are used, of the rows that satisfy some conditions."""
    key = streams.key_of(table)
    assert key is not None
    alias = table.alias
    uses: set[str] = set().union(*(column_uses(node)[alias] for node in users))
    types = key.columns()
    names = [name for name in types if name in uses] or [next(iter(types))]
    source = exp.Table(this=table.this.copy(), alias=table.args["alias"].copy())
    outputs = [(name, stored_column(alias, name, types[name])) for name in names]
    tree = select(outputs, source, where=both(conditions))
    static = _sealed(binding, tree, [Output(name, types[name]) for name in names])
    _put(binding, table, static, alias)
    return static


def freeze_table(binding: Binding, streams: Streams, query: exp.Select, table: exp.Table) -> Static:
    """A table of a query, as it was when the view was created."""
    return _static_table(binding, streams, [query], table, [])


def _static_query(binding: Binding, item: exp.Subquery) -> Static:
    inner = child(item)
    first = inner
    while not isinstance(first, exp.Select):
        first = first.this
    outputs = [Output(node.alias_or_name, type_of(node)) for node in first.expressions]
    static = _sealed(binding, inner.copy(), outputs)
    _put(binding, item, static, item.alias)
    return static


def _sealed(binding: Binding, tree: Node, outputs: Sequence[Output]) -> Static:
    relation = Derived(f"static_{digest(identity(binding, tree))}", tuple((o.name, o.type) for o in outputs))
    return Static(relation, seal(binding, tree, outputs))


def identity(binding: Binding, tree: Node) -> str:
    """A text that equal queries of different views have in common, whatever number their scans have."""
    named = {name: _identity_of(key) for key, name in binding.scans.items()}
    copy = tree.copy()
    for table in copy.find_all(exp.Table):
        if not isinstance(table.this, exp.Func):
            table.set("this", quoted(named.get(table.name, table.name)))
    return text_of(copy)


def _identity_of(key: ScanKey) -> str:
    relation = key.relation
    if isinstance(relation, Derived):
        return relation.name
    plain = f"{key.source} {relation.id} {key.as_of}"
    return f"{plain} {key.slots}" if key.slots is not None else plain


def take_static(binding: Binding, static: Static) -> str:
    """The name of a static input: the same in all views, so that texts over it are the same."""
    return binding.scans.setdefault(ScanKey(static.relation, "static", None), static.relation.name)


def _put(binding: Binding, item: Node, static: Static, alias: str) -> None:
    replace_item(item, exp.Table(this=quoted(take_static(binding, static)), alias=table_alias(alias)))


def restricted(streams: Streams, source: exp.Select, stream: str | None) -> exp.Select | None:
    """The source with only those branches of UNION ALL that read a stream, by the name of its scan; None: only those
    that read none. Nothing is left where no branch is one of these."""
    copy = source.copy()
    for item in items_of(copy):
        if streams.of_item(item) == Status.RAW and not _restrict_item(streams, item, stream):
            return None
    return copy


def _restrict_item(streams: Streams, item: Node, stream: str | None) -> bool:
    for join in item.args.get("joins") or []:
        if streams.of_item(join.this) == Status.RAW and not _restrict_item(streams, join.this, stream):
            return False
    match item:
        case exp.Table():
            return not streams.is_stream(item) or item.name == stream
        case exp.Subquery() if is_query(item.this):
            if streams.of_query(item.this) != Status.RAW:
                # It is joined with a stream in its parentheses.
                return True
            kept = _restrict_query(streams, item.this, stream)
            if kept is None:
                return False
            item.set("this", kept)
            return True
        case exp.Paren() | exp.Subquery():
            return _restrict_item(streams, child(item), stream)
        case _:
            return True


def _restrict_query(streams: Streams, query: Node, stream: str | None) -> Node | None:
    status = streams.of_query(query)
    if status != Status.RAW:
        return query if stream is None else None
    match query:
        case exp.SetOperation():
            sides = [_restrict_query(streams, side, stream) for side in (query.this, query.expression)]
            kept = [side for side in sides if side is not None]
            if len(kept) == 2:
                query.set("this", kept[0])
                query.set("expression", kept[1])
                return query
            return kept[0] if kept else None
        case exp.Subquery():
            inner = _restrict_query(streams, child(query), stream)
            return None if inner is None else inner
        case exp.Select():
            for item in items_of(query):
                if streams.of_item(item) == Status.RAW and not _restrict_item(streams, item, stream):
                    return None
            return query
        case _:
            return None
