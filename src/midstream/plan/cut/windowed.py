"""Windowed streams in a view's query: which are absorbed into partials, and which keep their rows.

A window is a finite relation, so anything may be done with it. What groups one windowed stream is cut like any other
view, with the basic window as a hidden key: partials are kept, and the rows go. Whatever else is done, a join of two
windows say, is done over the rows themselves, which are kept as long as their basic window is in scope, less those
that conditions on them alone let go at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan.context import Binding
from midstream.plan.cut.aggregates import kept, valued
from midstream.plan.cut.build import (
    AT_LEAST,
    LESS,
    Node,
    aggregates_of,
    both,
    call,
    output,
    plain_column,
)
from midstream.plan.cut.rows import drop_bounds, settle_conditions
from midstream.plan.cut.streams import Streams, check_rows, is_grouping, mark_tested
from midstream.plan.moments import has_moment, moment_of, moments_in, rename_moment
from midstream.plan.nodes import bare, conjuncts, is_query
from midstream.plan.typing.nodes import Call, typed
from midstream.plan.windows import WINDOWED, bound_literal, pair_moment
from midstream.relations.window import PLACE, SLOT
from midstream.types import BIGINT


def settle_windows(
    binding: Binding, streams: Streams, tree: Node, *, keep_rows: bool = False
) -> list[tuple[exp.Select, list[exp.Subquery]]]:
    """Decides for every windowed stream of a tree; with `keep_rows`, all keep their rows. Returns the queries that
    group pairs of rows of two windows, which can be kept as partials, too."""
    for query in tree.find_all(exp.Select):
        drop_bounds(query)
    absorbed: set[int] = set()
    for query in [query for query in tree.find_all(exp.Select) if is_grouping(query)]:
        items = list(_windowed(query))
        if items and not keep_rows and _can_absorb(binding, streams, query, items):
            absorbed |= {id(item) for item in items}
            for union in _unions_below(query, items):
                _lift_slots(union)
    for item in [item for item in tree.find_all(exp.Subquery) if WINDOWED in item.meta]:
        if id(item) not in absorbed:
            _keep_rows(binding, item)
    groupings = [query for query in tree.find_all(exp.Select) if is_grouping(query)]
    found = [(query, _paired(query)) for query in groupings if not keep_rows]
    return [(query, items) for query, items in found if items and binding.windows[items[0].meta[WINDOWED]].gap is None]


def row_keepers(tree: Node) -> list[exp.Subquery]:
    """The windowed streams that keep their rows, once that is decided."""
    return [item for item in tree.find_all(exp.Subquery) if WINDOWED in item.meta and item.this.args.get("distinct")]


def _paired(query: exp.Select) -> list[exp.Subquery]:
    """The two windows whose pairs of rows a query groups, if it reads nothing else and every pair counts for itself."""
    joins = query.args.get("joins") or []
    items = [query.args["from_"].this if query.args.get("from_") else None, *(join.this for join in joins)]
    if len(items) != 2 or any(join.args.get("side") for join in joins):
        return []
    if not all(isinstance(item, exp.Subquery) and WINDOWED in item.meta for item in items):
        return []
    if items[0].meta[WINDOWED] != items[1].meta[WINDOWED] or query.find_ancestor(exp.Subquery, exp.SetOperation):
        return []
    conditions = [join.args["on"] for join in joins if join.args.get("on")]
    conditions += [query.args["where"].this] if query.args.get("where") else []
    nodes = [*conditions, *_outputs(query), *([query.args["group"]] if query.args.get("group") else [])]
    if any(is_query(part) for node in nodes for part in node.walk()) or any(map(has_moment, conditions)):
        return []
    calls = [found for node in _outputs(query) for found in aggregates_of(node)]
    is_kept = all(kept(found, None) is not None and not has_moment(found) for found in calls)
    return items if is_kept and calls else []


def take_pairs(query: exp.Select, items: list[exp.Subquery]) -> RowPairs:
    """The pairs of rows of two windows, under conditions of their own on the basic windows of each side; a pair is in a
    window as long as the older of its two basic windows is."""
    number_, slots = int(items[0].meta[WINDOWED]), []
    for side, item in enumerate(items):
        inner = item.this
        source = inner.args["from_"].this.alias
        inner.set("expressions", [*inner.expressions, output(plain_column(source, SLOT, BIGINT), SLOT)])
        for literal in moments_in(inner.args["where"]):
            rename_moment(literal, pair_moment(side, moment_of(literal).rsplit(" ", 1)[1]))
        slots.append(plain_column(item.alias, SLOT, BIGINT))
    older = typed(Call(this=_LEAST, expressions=slots), BIGINT)
    first, last = (bound_literal(number_, which) for which in ("first", "last"))
    late = [call(AT_LEAST, older, first), call(LESS, older.copy(), last)]
    return RowPairs(query, late)


@dataclass(frozen=True)
class RowPairs:
    query: exp.Select
    late: list[Node]


_LEAST = "least(comparable, ...)"


def _windowed(query: exp.Select) -> Iterator[exp.Subquery]:
    """The windowed streams whose rows a grouping query groups: those with no other grouping in between."""
    for item in query.find_all(exp.Subquery):
        if WINDOWED in item.meta and _grouping_of(item) is query:
            yield item


def _grouping_of(item: Node) -> exp.Select | None:
    """The nearest query that groups the rows of an item of FROM, if they come to it as rows."""
    node, parent = item, item.parent
    while parent is not None:
        if isinstance(parent, exp.Select):
            if is_grouping(parent):
                return parent
            if not isinstance(parent.parent, exp.Subquery | exp.Union):
                return None
        elif isinstance(parent, exp.Join):
            if node is not parent.this or (parent.args.get("side") or "RIGHT") != "RIGHT":
                return None
        elif isinstance(parent, exp.Union):
            if parent.args.get("distinct", True):
                return None
        elif not isinstance(parent, exp.From | exp.Subquery | exp.Paren):
            return None
        node, parent = parent, parent.parent
    return None


def _can_absorb(binding: Binding, streams: Streams, query: exp.Select, items: list[exp.Subquery]) -> bool:
    keys = [streams.key_of(table) for item in items for table in item.find_all(exp.Table)]
    raw = [table for table in streams.raw_tables(query) if (key := streams.key_of(table)) and key not in keys]
    if raw or len({item.meta[WINDOWED] for item in items}) > 1:
        return False
    if not all(_can_lift(union, items) for union in _unions_below(query, items)):
        return False
    calls = [found for node in _outputs(query) for found in aggregates_of(node)]
    if any(kept(found, None) is None and valued(found, None) is None for found in calls):
        return False
    by = [query.args["group"]] if query.args.get("group") else query.expressions if query.args.get("distinct") else []
    if any(is_query(part) for node in by for part in node.walk()):
        return False
    own = {alias.name for alias in query.find_all(exp.TableAlias)}
    if any(column.table not in own for found in calls for column in found.find_all(exp.Column)):
        return False
    try:
        check_rows(streams, query.copy(), is_top=True)
        settle_conditions(binding, streams, _lifted(query))
    except Unsupported:
        return False
    return True


# --- UNION ALL below a grouping ----------------------------------------------------------------------


def _unions_below(query: exp.Select, items: list[exp.Subquery]) -> list[exp.Subquery]:
    """The items of FROM below a grouping that put windowed streams together with others, each once."""
    found: dict[int, exp.Subquery] = {}
    for item in items:
        above = item.parent
        while above is not None and above is not query:
            if isinstance(above, exp.Subquery) and above.alias and isinstance(_opened(above.this), exp.Union):
                found[id(above)] = above
            above = above.parent
    return list(found.values())


def _opened(query: Node) -> Node:
    """A query without the parentheses around it."""
    while isinstance(query, exp.Subquery) and not query.alias:
        query = query.this
    return query


def _can_lift(union: exp.Subquery, items: list[exp.Subquery]) -> bool:
    """Whether each branch has one windowed stream, whose basic windows can be told apart outside of the union."""
    for branch in _branches(union.this):
        own = [item for item in items if item.find_ancestor(exp.Select) is branch]
        if not isinstance(branch, exp.Select) or len(own) != 1 or _is_in_session(own[0]):
            return False
        inner = list(moments_in(own[0].this))
        if len(list(moments_in(branch))) != len(inner) or branch.args.get("with_"):
            return False
    return True


def _branches(query: Node) -> Iterator[Node]:
    query = _opened(query)
    if isinstance(query, exp.Union):
        yield from _branches(query.this)
        yield from _branches(query.expression)
    else:
        yield query


def _is_in_session(item: exp.Subquery) -> bool:
    """Sessions have conditions on keys, too."""
    return len(list(moments_in(item.this))) != 2


def _lifted(query: exp.Select) -> exp.Select:
    copy = query.copy()
    for union in _unions_below(copy, list(_windowed(copy))):
        _lift_slots(union)
    return copy


def _lift_slots(union: exp.Subquery) -> None:
    """FROM (SELECT a FROM s WHERE slot in window UNION ALL …) AS u
    FROM (SELECT a, slot FROM s UNION ALL …) AS u WHERE u.slot in window"""
    around = union.find_ancestor(exp.Select)
    assert around is not None
    conditions: list[Node] = []
    for branch in _branches(union.this):
        [item] = [found for found in branch.find_all(exp.Subquery) if WINDOWED in found.meta]
        inner, number_ = item.this, int(item.meta[WINDOWED])
        source = inner.args["from_"].this.alias
        inner.set("where", None)
        inner.set("expressions", [*inner.expressions, output(plain_column(source, SLOT, BIGINT), SLOT)])
        branch.set("expressions", [*branch.expressions, output(plain_column(item.alias, SLOT, BIGINT), SLOT)])
        slot = plain_column(union.alias, SLOT, BIGINT)
        first, last = (bound_literal(number_, which) for which in ("first", "last"))
        conditions = [call(AT_LEAST, slot, first), call(LESS, slot.copy(), last)]
    before = conjuncts(around.args["where"].this) if around.args.get("where") else []
    around.set("where", exp.Where(this=both([*before, *conditions])))


def _outputs(query: exp.Select) -> list[Node]:
    having = query.args.get("having")
    return [*(bare(node) for node in query.expressions), *([having.this] if having is not None else [])]


def _keep_rows(binding: Binding, item: exp.Subquery) -> None:
    """The rows of a windowed stream as keys of a state, each for itself by its number in the stream."""
    inner = item.this
    source = inner.args["from_"].this.alias
    outputs = [node for node in inner.expressions if node.alias_or_name != PLACE]
    inner.set("expressions", [*outputs, output(plain_column(source, PLACE, BIGINT), PLACE)])
    _push_conditions(item, {node.alias_or_name: bare(node) for node in outputs})
    inner.set("distinct", exp.Distinct())
    mark_tested(inner)


def _push_conditions(item: exp.Subquery, meant: dict[str, Node]) -> None:
    """Conditions on the rows alone hold before they are kept."""
    query = item.find_ancestor(exp.Select)
    if query is None or query.args.get("where") is None or not _is_inner(item, query):
        return
    alias = item.alias
    left: list[Node] = []
    pushed: list[Node] = []
    for condition in conjuncts(query.args["where"].this):
        tables = {column.table for column in condition.find_all(exp.Column)}
        is_own = tables == {alias} and not has_moment(condition) and not any(is_query(n) for n in condition.walk())
        (pushed if is_own else left).append(condition)
    if not pushed:
        return
    inner = item.this
    moved = []
    for condition in pushed:
        copy = exp.Paren(this=condition.copy())
        for column in list(copy.find_all(exp.Column)):
            column.replace(meant[column.name].copy())
        moved.append(copy.this)
    inner.set("where", exp.Where(this=both([*conjuncts(inner.args["where"].this), *moved])))
    remaining = both(left)
    query.set("where", exp.Where(this=remaining) if remaining is not None else None)


def _is_inner(item: exp.Subquery, query: exp.Select) -> bool:
    """Whether an item of FROM is joined by inner joins only."""
    joins = query.args.get("joins") or []
    direct = [query.args["from_"].this, *(join.this for join in joins)]
    return any(item is one for one in direct) and not any(join.args.get("side") for join in joins)
