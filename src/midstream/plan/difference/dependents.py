"""What a row of a block depends on without being made of it: the right side of a LEFT JOIN, queries in expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from midstream.plan.cut.build import conjuncts
from midstream.plan.cut.streams import items_of
from midstream.plan.difference.images import Images
from midstream.plan.difference.keys import Meeting, add_where, aliases_in, columns_used, meeting_of
from midstream.plan.nodes import child, is_query, named
from midstream.plan.typing.nodes import type_of, typed

Node = exp.Expression


@dataclass(frozen=True)
class Dependent:
    node: Node
    """What changes: an item of FROM, or a query in an expression."""
    word: str
    change: Node | None
    """A query whose change has the keys that rows are met by; None: any row may be affected."""
    outside: tuple[Node, ...]
    """The same keys of a row."""
    three_valued: bool = False
    """Whether NULL on either side may affect a row as well."""


def dependents_of(images: Images, query: exp.Select) -> list[Dependent]:
    found = [
        _of_left_join(join)
        for join in query.args.get("joins") or []
        if join.args.get("side") == "LEFT" and images.reads_change(join.this)
    ]
    return found + [_of_query(images, node) for node in _queries(query) if images.reads_change(node)]


def _of_left_join(join: exp.Join) -> Dependent:
    item = child(join)
    inside = aliases_in(item)
    meeting = meeting_of(conjuncts(join.args.get("on")), inside)
    rows = exp.Select(expressions=[_key(node, place) for place, node in enumerate(meeting.inside)])
    _put_from(rows, item)
    change = rows if meeting.inside else None
    return Dependent(item, "LEFT JOIN", change, meeting.outside)


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
        for found in part.walk(prune=_holds_query):
            if _holds_query(found) and isinstance(found, Node):
                yield found


def _holds_query(node: object) -> bool:
    return is_query(node) or isinstance(node, exp.Exists) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def _of_query(images: Images, node: Node) -> Dependent:
    inner = _inner(node)
    word = "EXISTS" if isinstance(node, exp.Exists) else "IN" if isinstance(node, exp.In) else "a scalar query"
    if isinstance(node, exp.In) and not columns_used(inner):
        value = child(node)
        if _has_query(value) or images.reads_change(value):
            return Dependent(node, word, None, ())
        values = tuple(value.expressions) if isinstance(value, exp.Tuple) else (value,)
        three_valued = not (_is_filter(node) or _never_null(images, node, inner))
        if not three_valued or len(values) == 1:
            return Dependent(node, word, inner, values, three_valued)
        return Dependent(node, word, None, ())
    if isinstance(inner, exp.Select) and not isinstance(node, exp.In):
        correlated = _correlated(inner)
        if correlated is not None:
            return Dependent(node, word, *correlated)
    return Dependent(node, word, None, ())


def _inner(node: Node) -> Node:
    query = node.args["query"] if isinstance(node, exp.In) else node
    if isinstance(query, exp.Exists):
        query = child(query)
    while isinstance(query, exp.Subquery):
        query = child(query)
    return query


def _has_query(node: Node) -> bool:
    return any(is_query(found) for found in node.walk())


def _correlated(inner: exp.Select) -> tuple[Node, tuple[Node, ...]] | None:
    """The keys by which a correlated query meets the rows around it: by equalities in its WHERE."""
    own = set().union(*(aliases_in(item) for item in items_of(inner))) if inner.args.get("from_") else set()
    conditions = conjuncts(inner.args["where"].this if inner.args.get("where") else None)
    meeting: Meeting = meeting_of(conditions, own)
    if not meeting.inside:
        return None
    rows = exp.Select(
        expressions=[_key(node, place) for place, node in enumerate(meeting.inside)],
        joins=[join.copy() for join in inner.args.get("joins") or []],
    )
    rows.set("from_", inner.args["from_"].copy())
    plain = [node.copy() for node in conditions if columns_used(node) <= own]
    add_where(rows, plain)
    return None if columns_used(rows) else (rows, meeting.outside)


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
    return column is not None and column.not_null
