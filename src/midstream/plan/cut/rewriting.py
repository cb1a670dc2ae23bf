"""Trees with some of their parts exchanged."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import cast

from sqlglot import exp

from midstream.plan.cut.build import (
    Node,
    both,
    stored_column,
    text_of,
)
from midstream.plan.nodes import is_query
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, Raw, type_of


def with_parts(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its parts changed; parts of parts are the change's own business."""
    for key, value in list(node.args.items()):
        if isinstance(value, Node):
            node.set(key, change(value))
        elif isinstance(value, list):
            node.set(key, [change(part) if isinstance(part, Node) else part for part in value])
    return node


def with_window_parts(window: exp.Window, change: Callable[[Node], Node]) -> Node:
    """The function before OVER is no aggregate of the grouping; its arguments are."""
    function = window.this
    with_parts(function, change)
    for key, value in list(window.args.items()):
        if key == "this":
            continue
        if isinstance(value, Node):
            window.set(key, with_parts(value, change) if isinstance(value, exp.Order) else change(value))
        elif isinstance(value, list):
            window.set(key, [change(part) if isinstance(part, Node) else part for part in value])
    return window


def leaves(element: object) -> list[Node]:
    if isinstance(element, exp.GroupingSets | exp.Rollup | exp.Cube | exp.Tuple):
        return [leaf for part in element.expressions for leaf in leaves(part)]
    return [element] if isinstance(element, Node) else []


def each_set_once(group: exp.Group) -> exp.Group:
    """GROUPING SETS ((a), (b), (a))   ->   GROUPING SETS ((a), (b))"""
    written = [sets_of(element) for element in group.expressions]
    sets = [tuple(key for part in parts for key in part) for parts in product(*written)]
    different = {frozenset(map(text_of, keys)): keys for keys in reversed(sets)}
    if len(different) == len(sets):
        return group
    if set(different) == {frozenset()}:
        return exp.Group(expressions=[])
    tuples = [exp.Tuple(expressions=[key.copy() for key in keys]) for keys in different.values()]
    return exp.Group(expressions=[exp.GroupingSets(expressions=tuples)])


def sets_of(element: Node) -> list[tuple[Node, ...]]:
    """The sets of keys that an element of GROUP BY stands for."""
    parts = [tuple(leaves(part)) for part in element.expressions]
    match element:
        case exp.GroupingSets():
            return [keys for part in element.expressions for keys in sets_of(part)]
        case exp.Rollup():
            return [tuple(key for part in parts[:end] for key in part) for end in range(len(parts), -1, -1)]
        case exp.Cube():
            chosen = product(*[(part, ()) for part in parts])
            return [tuple(key for part in choice for key in part) for choice in chosen]
        case _:
            return [tuple(leaves(element))]


def unconverted(node: Node) -> Node:
    while isinstance(node, Convert):
        node = node.this
    return node


STATE_ALIAS = "~state"
"""What late conditions call the state until it has an alias."""


def at_alias(node: Node, alias: str) -> Node:
    """A late condition over a state of this name."""
    copy = node.copy()
    for column in [c for c in copy.find_all(exp.Column) if c.table == STATE_ALIAS]:
        swapped = stored_column(alias, column.name, type_of(column))
        if column is copy:
            return swapped
        column.replace(swapped)
    return copy


READ_OFF = "read off"
"""The mark of a query whose groups are groups of a state, with the name of its pipeline."""


def read_off(tree: Node, merged: frozenset[str]) -> Node:
    """The query over states in which each group is one row: nothing is left to merge there."""
    for query in [s for s in tree.find_all(exp.Select) if s.meta.get(READ_OFF) in merged]:
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
        return with_window_parts(node, _without_merges)
    return with_parts(node, _without_merges)


_SCALARS = (exp.Column, exp.Case, exp.And, exp.Or, exp.Not, exp.In, exp.Exists, exp.Array, exp.Paren)


def is_scalar(node: Node) -> bool:
    return isinstance(node, (*_SCALARS, Call, Convert, Raw))
