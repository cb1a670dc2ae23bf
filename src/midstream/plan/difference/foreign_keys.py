"""What foreign keys prove (section 7 of the paper): terms that are empty, and rows that need only meet what changed.

A row of the child refers to one of the parent, by the parent's key, before the commits and after them.

    rows only came to the parent    none of them meets a row that the child had before: pre(child) >< dlt(parent) = 0
    rows only went from the parent  none of them meets a row that the child has now:    pst(child) >< dlt(parent) = 0

Rows mostly come, and go, as units: an order with its lines. Then dlt(lines) need only meet dlt(orders).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from sqlglot import exp

from midstream.plan.cut.build import EQUAL
from midstream.plan.cut.rewriting import unconverted
from midstream.plan.cut.streams import items_of
from midstream.plan.nodes import conjuncts
from midstream.plan.typing.nodes import Call
from midstream.relations.table import ForeignKey
from midstream.types import Type

if TYPE_CHECKING:
    from midstream.plan.difference.terms import Terms

Node = exp.Expression


class Component(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def tag(self) -> int: ...
    @property
    def item(self) -> Node | None: ...


C = TypeVar("C", bound=Component)


@dataclass(frozen=True)
class _Reference:
    """The child's item refers to the parent's, and the query joins them by it."""

    child: exp.Table
    parent: exp.Table
    key: ForeignKey

    @property
    def text(self) -> str:
        return f'foreign key "{self.key.name}"'


def references_in(terms: Terms, query: exp.Select) -> list[_Reference]:
    images = terms.images
    outer = {id(join.this) for join in query.args.get("joins") or [] if join.args.get("side")}
    tables = [item for item in items_of(query) if isinstance(item, exp.Table) and id(item) not in outer]
    equal = _equal_columns(query)
    found = []
    for child in tables:
        table = images.table_of(child)
        for key in table.foreign_keys if table is not None else ():
            for parent in tables:
                referred = images.table_of(parent)
                if parent is child or referred is None or referred.name != key.table:
                    continue
                pairs = zip(key.columns, key.referred, strict=True)
                if all(frozenset([(child.alias, ours), (parent.alias, theirs)]) in equal for ours, theirs in pairs):
                    found.append(_Reference(child, parent, key))
    return found


def _equal_columns(query: exp.Select) -> set[frozenset[tuple[str, str]]]:
    conditions = conjuncts(query.args["where"].this if query.args.get("where") else None)
    for join in query.args.get("joins") or []:
        if not join.args.get("side"):
            conditions += conjuncts(join.args.get("on"))
    found = set()
    for condition in conditions:
        if isinstance(condition, Call) and condition.this == EQUAL:
            left, right = (unconverted(node) for node in condition.expressions)
            if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                found.add(frozenset([(left.table, left.name), (right.table, right.name)]))
    return found


def in_order(terms: Terms, query: exp.Select, components: Sequence[C]) -> list[C]:
    """Large tables first, since what comes later is needed as it was; but a parent that rows only came to before its
    children, and one that rows only went from behind them, so that its term is empty."""
    by_item = {id(component.item): component for component in components}
    before: dict[int, set[int]] = {component.tag: set() for component in components}
    for reference in references_in(terms, query):
        child, parent = by_item.get(id(reference.child)), by_item.get(id(reference.parent))
        change = terms.images.change_of(reference.parent)
        if child is None or parent is None or change is None:
            continue
        if change.kind == "insert":
            before[child.tag].add(parent.tag)
        elif change.kind == "delete":
            before[parent.tag].add(child.tag)
    left, ordered = sorted(components, key=lambda component: -component.rows), list[C]()
    while left:
        done = {component.tag for component in ordered}
        free = [component for component in left if before[component.tag] <= done] or left
        ordered.append(free[0])
        left.remove(free[0])
    return ordered


def proof_of_empty(terms: Terms, query: exp.Select, components: Sequence[C], place: int) -> str | None:
    """Why the term of a component gives nothing."""
    own = components[place]
    change = terms.images.change_of(own.item) if own.item is not None else None
    if change is None or not terms.images.same_constraints:
        return None
    places = {id(component.item): number for number, component in enumerate(components)}
    for reference in references_in(terms, query):
        if reference.parent is not own.item:
            continue
        child = places.get(id(reference.child))
        if change.kind == "insert" and (child is None or child > place):
            return f"{reference.text}: no earlier row refers to one that came"
        if change.kind == "delete" and (child is None or child < place):
            return f"{reference.text}: no row is left that refers to one that went"
    return None


def is_separable(terms: Terms, query: exp.Select, components: Sequence[C], place: int) -> bool:
    """Whether a change of one item meets, at the end of several commits, just what it met at its own: nothing else
    changed, or only parents, to which rows came."""
    others = [number for number in range(len(components)) if number != place]
    if not others:
        return True
    changes = [terms.images.change_of(component.item) for component in components if component.item is not None]
    only_came = all(change is not None and change.kind == "insert" for change in changes)
    return (
        only_came
        and len(changes) == len(components)
        and all(proof_of_empty(terms, query, components, number) is not None for number in others)
    )


def unit_of(
    terms: Terms, query: exp.Select, components: Sequence[C], place: int
) -> tuple[C, tuple[str, ...], tuple[str, ...]] | None:
    """The parent whose rows the rows of a child probably came with, or went with, and the columns that meet."""
    own = components[place]
    change = terms.images.change_of(own.item) if own.item is not None else None
    if change is None or change.kind == "mixed" or not terms.images.same_constraints or terms.uses_units == "none":
        return None
    # A parent that rows came to stands before its child, and one that rows went from behind it.
    others = components[:place] if change.kind == "insert" else components[place + 1 :]
    for reference in references_in(terms, query):
        for component in others:
            if reference.child is own.item and reference.parent is component.item:
                parent = terms.images.change_of(reference.parent)
                if parent is not None and parent.kind == change.kind:
                    return component, reference.key.columns, reference.key.referred
    return None


def types_of(terms: Terms, query: exp.Select, component: Component, names: Sequence[str]) -> list[Type]:
    assert isinstance(component.item, exp.Table)
    table = terms.images.table_of(component.item)
    assert table is not None
    columns = [table.column(name) for name in names]
    return [column.type for column in columns if column is not None]
