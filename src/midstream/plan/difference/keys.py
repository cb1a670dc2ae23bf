"""Keys that a change touches: the values by which rows of one part of a query meet those of another.

    … WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.uid AND u.age < t.limit)      u.id meets t.uid

A row of t can be affected by a change of u only if its uid is among the ids of rows that came or went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from midstream.plan.cut.build import EQUAL, NOT_DISTINCT, both, call, derived, equated, plain_column
from midstream.plan.cut.streams import items_of
from midstream.plan.nodes import conjuncts, is_query
from midstream.plan.typing.nodes import type_of

Node = exp.Expression


@dataclass(frozen=True)
class Meeting:
    """Pairs of expressions that are equal where two parts meet: of the part inside, and of the rows outside."""

    inside: tuple[Node, ...]
    outside: tuple[Node, ...]


def aliases_in(tree: Node) -> set[str]:
    return {alias.name for alias in tree.find_all(exp.TableAlias)}


def columns_used(node: Node) -> set[str]:
    """The sources that an expression uses, those of its own subqueries left out."""
    own = aliases_in(node)
    return {column.table for column in node.find_all(exp.Column)} - own


def meeting_of(conditions: Sequence[Node], inside: set[str]) -> Meeting:
    """What equalities say about rows of sources `inside` and of others."""
    pairs: list[tuple[Node, Node]] = []
    for condition in conditions:
        for one, other in equated(condition):
            ours, theirs = columns_used(one), columns_used(other)
            if ours and ours <= inside and theirs and not theirs & inside and not _has_query(one, other):
                pairs.append((one, other))
                break
    return Meeting(tuple(one for one, _ in pairs), tuple(other for _, other in pairs))


def _has_query(*nodes: Node) -> bool:
    return any(is_query(found) for node in nodes for found in node.walk())


def restrict(query: exp.Select, keys: exp.Select, alias: str, outside: Sequence[Node], *, nulls: bool) -> None:
    """Leaves only rows whose values are among the keys, k0, k1, …; with `nulls`, a NULL is one of them."""
    signature = NOT_DISTINCT if nulls else EQUAL
    conditions = [
        call(signature, node.copy(), plain_column(alias, f"k{number}", type_of(node)))
        for number, node in enumerate(outside)
    ]
    joins: list[exp.Join] = query.args.get("joins") or []
    join, condition = exp.Join(this=derived(keys, alias)), both(conditions)
    assert condition is not None
    place = _place_beside(query, set().union(*(columns_used(node) for node in outside)))
    if place is None:
        query.set("joins", [*joins, join])
        add_where(query, [condition])
    else:
        join.set("on", condition)
        query.set("joins", [*joins[:place], join, *joins[place:]])


def _place_beside(query: exp.Select, used: set[str]) -> int | None:
    """Behind the one item that the keys are of, so that it is the first to become small."""
    items = items_of(query)
    for number, item in enumerate(items):
        if used == {item.alias} and item.alias and not item.args.get("joins"):
            sides = [join.args.get("side") or "" for join in query.args.get("joins") or []]
            is_outer = number > 0 and sides[number - 1]
            # Rows of a RIGHT or FULL join would lose their match, and stand without one.
            return None if is_outer or {"RIGHT", "FULL"} & set(sides[number:]) else number
    return None


def add_where(query: exp.Select, conditions: Sequence[Node]) -> None:
    before = conjuncts(query.args["where"].this if query.args.get("where") else None)
    combined = both([*before, *conditions])
    if combined is not None:
        query.set("where", exp.Where(this=combined))
