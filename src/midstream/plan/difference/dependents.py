"""What a row of a block depends on without being made of it: the right side of a LEFT JOIN, queries in expressions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from midstream.plan.cut.build import number, output
from midstream.plan.cut.streams import is_grouping, items_of
from midstream.plan.difference.images import Images
from midstream.plan.difference.keys import Meeting, add_where, aliases_in, columns_used, meeting_of
from midstream.plan.nodes import child, conjuncts, is_query, named
from midstream.plan.typing.nodes import type_of, typed
from midstream.types import BOOLEAN

Node = exp.Expression


@dataclass(frozen=True)
class Dependent:
    nodes: tuple[Node, ...]
    """What changes: an item of FROM with queries in its ON, or a query in an expression."""
    word: str
    change: Node | None
    """A query whose change has the keys that rows are met by; None: any row may be affected."""
    outside: tuple[Node, ...] = ()
    """The same keys of a row."""
    three_valued: bool = False
    """Whether NULL on either side may affect a row as well."""
    why: str = "{} meets its rows by no equality"
    """Why any row may be affected."""

    @property
    def reason(self) -> str:
        return self.why.format(self.word)


_WITHIN, _SCALAR = "a query within {} changed", "a scalar query"
_WATCHED = "watched"
"""Marks a condition that always holds, with what EXPLAIN calls the query in it."""


def dependents_of(images: Images, query: exp.Select) -> list[Dependent]:
    joins = [join for join in query.args.get("joins") or [] if join.args.get("side") == "LEFT"]
    found = [_of_left_join(images, join) for join in joins]
    with_joins = {id(node) for dependent in found for node in dependent.nodes}
    alone = [node for node in _queries(query) if id(node) not in with_joins]
    changed = [one for one in found if any(images.reads_change(node) for node in one.nodes)]
    return changed + [_of_query(images, node) for node in alone if images.reads_change(node)]


def _of_left_join(images: Images, join: exp.Join) -> Dependent:
    """The right side, with the queries that say which rows of it match; those over the left side alone stand for
    themselves."""
    item, on = child(join), join.args.get("on")
    inside, conditions = aliases_in(item), conjuncts(on)
    queries = [node for node in _queries_in(on) if columns_used(node) & inside] if on is not None else []
    nodes, meeting = (item, *queries), meeting_of(conditions, inside)
    if not meeting.inside:
        return Dependent(nodes, "LEFT JOIN", None)
    rows = exp.Select(expressions=[_key(node, place) for place, node in enumerate(meeting.inside)])
    _put_from(rows, item)
    watched = conditions_that_watch(images, queries, inside)
    if watched is None:
        return Dependent(nodes, "LEFT JOIN", None, why=_WITHIN)
    add_where(rows, watched)
    return Dependent(nodes, "LEFT JOIN", None if columns_used(rows) else rows, meeting.outside)


def _put_from(rows: exp.Select, item: Node) -> None:
    """An item of FROM as the only one; the joins in its parentheses as its own."""
    first = item.copy()
    while isinstance(first, exp.Paren):
        first = child(first)
    joins = first.args.get("joins") or []
    first.set("joins", None)
    rows.set("from_", exp.From(this=first))
    rows.set("joins", joins)


def _queries(query: exp.Select) -> Iterator[Node]:
    """The queries in expressions of a block, with EXISTS or IN around them."""
    parts: list[Node] = [*query.expressions]
    parts += [query.args["where"]] if query.args.get("where") else []
    parts += [join.args["on"] for join in query.args.get("joins") or [] if join.args.get("on")]
    for part in parts:
        yield from _queries_in(part)


def _queries_in(part: Node) -> Iterator[Node]:
    return (found for found in part.walk(prune=_holds_query) if _holds_query(found) and isinstance(found, Node))


def _holds_query(node: object) -> bool:
    return is_query(node) or isinstance(node, exp.Exists) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def _of_query(images: Images, node: Node) -> Dependent:
    inner = _inner(node)
    word = _word(node)
    if isinstance(node, exp.In) and not columns_used(inner):
        value = child(node)
        if _has_query(value):
            return Dependent((node,), word, None)
        values = tuple(value.expressions) if isinstance(value, exp.Tuple) else (value,)
        three_valued = not (_is_filter(node) or _never_null(images, node, inner))
        if not three_valued or len(values) == 1:
            return Dependent((node,), word, inner, values, three_valued)
    elif isinstance(inner, exp.Select) and not isinstance(node, exp.In):
        return _of_correlated(images, node, inner, word)
    return Dependent((node,), word, None)


def _word(node: Node) -> str:
    known: str | None = node.meta.get(_WATCHED)
    return known or ("EXISTS" if isinstance(node, exp.Exists) else "IN" if isinstance(node, exp.In) else _SCALAR)


def _inner(node: Node) -> Node:
    query = node.args["query"] if isinstance(node, exp.In) else node
    if isinstance(query, exp.Exists):
        query = child(query)
    while isinstance(query, exp.Subquery):
        query = child(query)
    return query


def _has_query(node: Node) -> bool:
    return any(is_query(found) for found in node.walk())


def _of_correlated(images: Images, node: Node, inner: exp.Select, word: str) -> Dependent:
    """A correlated query meets the rows around it by equalities in its WHERE."""
    meeting: Meeting = meeting_of(_conditions(inner), _own(inner))
    if not meeting.inside:
        return Dependent((node,), word, None)
    rows = _rows_of(images, inner, set())
    if rows is None:
        return Dependent((node,), word, None, why=_WITHIN)
    if columns_used(rows):
        return Dependent((node,), word, None)
    rows.set("expressions", [_key(key, place) for place, key in enumerate(meeting.inside)])
    return Dependent((node,), word, rows, meeting.outside)


def _own(inner: exp.Select) -> set[str]:
    return set[str]().union(*(aliases_in(item) for item in items_of(inner)))


def _conditions(inner: exp.Select) -> list[Node]:
    return conjuncts(inner.args["where"].this if inner.args.get("where") else None)


def _rows_of(images: Images, inner: exp.Select, around: set[str]) -> exp.Select | None:
    """The rows that a query is made of, still without columns, but for conditions that need more than sources
    `around`. What these conditions and the select list read besides changes with the rows. None: it may change where
    there is no row."""
    if not inner.args.get("from_"):
        return None
    known, conditions = around | _own(inner), _conditions(inner)
    above = [part for key, value in inner.args.items() if key not in ("from_", "joins", "where")
             for part in (value if isinstance(value, list) else [value]) if isinstance(part, Node)]  # fmt: skip
    if is_grouping(inner) and any(images.reads_change(part) for part in above):
        return None
    plain = [node for node in conditions if columns_used(node) <= known]
    others = [node for node in conditions if not columns_used(node) <= known]
    watched = conditions_that_watch(images, [*others, *above], known)
    if watched is None:
        return None
    rows = exp.Select(joins=[join.copy() for join in inner.args.get("joins") or []])
    rows.set("from_", inner.args["from_"].copy())
    add_where(rows, [*plain, *watched])
    return rows


# --- what is only watched ----------------------------------------------------------------------------


def conditions_that_watch(images: Images, parts: Sequence[Node], known: set[str]) -> list[Node] | None:
    """Conditions that always hold, over known sources: rows that have them depend on whatever queries in some
    expressions depend on. None: it cannot be told without other sources."""
    found: list[Node] = []
    for node in [node for part in parts for node in _queries_in(part) if images.reads_change(node)]:
        watched = _over_known(images, node, known)
        if watched is None:
            return None
        holds = typed(exp.Or(this=watched, expression=typed(exp.true(), BOOLEAN)), BOOLEAN)
        holds.meta[_WATCHED] = watched.meta[_WATCHED] = _word(node)
        found.append(holds)
    return found


def drop_watched(query: exp.Select) -> None:
    """Leaves out conditions that always hold."""
    conditions = _conditions(query)
    left = [node for node in conditions if not node.meta.get(_WATCHED)]
    if len(left) < len(conditions):
        query.set("where", None)
        add_where(query, left)


def _over_known(images: Images, node: Node, known: set[str]) -> Node | None:
    """Changes wherever a query in an expression does, and uses known sources only."""
    inner = _inner(node)
    if columns_used(node) <= known:
        return node.copy() if isinstance(node, exp.In) else _exists(inner.copy())
    if not isinstance(inner, exp.Select) or (isinstance(node, exp.In) and images.reads_change(child(node))):
        return None
    rows = _rows_of(images, inner, known)
    if rows is None or not columns_used(rows) <= known:
        return None
    rows.set("expressions", [output(number(1), "one")])
    return _exists(rows)


def _exists(query: Node) -> Node:
    return typed(exp.Exists(this=query), BOOLEAN)


def _key(node: Node, place: int) -> Node:
    return typed(named(node.copy(), f"k{place}"), type_of(node))


def _is_filter(node: exp.In) -> bool:
    """Whether it stands as a condition of its own, where NULL is as good as false."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.And):
        parent = parent.parent
    return isinstance(parent, exp.Where)


def _never_null(images: Images, node: exp.In, inner: Node) -> bool:
    value = child(node)
    outputs = inner.expressions if isinstance(inner, exp.Select) else []
    return len(outputs) == 1 and _is_required(images, node, value) and _is_required(images, inner, outputs[0])


def _is_required(images: Images, where: Node, value: Node) -> bool:
    """Whether a value is a column that is NOT NULL in its table, which no outer join has extended."""
    while isinstance(value, exp.Alias):
        value = child(value)
    if not isinstance(value, exp.Column):
        return False
    scope = where if isinstance(where, exp.Select) else where.find_ancestor(exp.Select)
    if scope is None or any(join.args.get("side") for join in scope.args.get("joins") or []):
        return False
    item = next((item for item in items_of(scope) if item.alias == value.table), None)
    table = images.table_of(item) if isinstance(item, exp.Table) else None
    column = table.column(value.name) if table is not None else None
    return column is not None and column.not_null and images.same_constraints
