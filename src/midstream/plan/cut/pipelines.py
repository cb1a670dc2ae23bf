"""Stream pipelines: from the rows of streams to partials in groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from midstream.plan.context import Binding
from midstream.plan.cut.aggregates import (
    StateColumn,
)
from midstream.plan.cut.build import (
    Node,
    text_of,
)
from midstream.plan.cut.rows import RowPart
from midstream.plan.failing import cannot_fail
from midstream.plan.typing.nodes import type_of
from midstream.relations.view import Derived
from midstream.types import Type


@dataclass(frozen=True)
class Key:
    """A column of a state that rows are grouped by."""

    name: str
    node: Node = field(compare=False)
    is_hidden: bool = field(default=False, compare=False)
    """Whether a condition on the moment asks for it, and not the query."""

    @property
    def type(self) -> Type:
        return type_of(self.node)


@dataclass(frozen=True)
class Pipeline:
    """From the rows of streams to partials. Those of one name differ in columns and filters only, and share a pass; in
    columns only, where a row may fail that a filter keeps away."""

    name: str
    binding: Binding = field(compare=False, repr=False)
    rows: RowPart = field(compare=False, repr=False)
    keys: tuple[Key, ...] = ()
    columns: tuple[StateColumn, ...] = ()
    dead: Node | None = field(default=None, compare=False)
    """What tells, at a moment, that nobody will ask for a group again, over the state's columns."""

    @property
    def is_safe(self) -> bool:
        """Whether no row can make it fail that it has not in common with all of its name: another view may then depend
        on the same pass."""
        return all(cannot_fail(node) for node in (*(c.first for c in self.columns), *self.rows.filters))

    @property
    def relation(self) -> Derived:
        kinds = [(key.name, key.type) for key in self.keys] + [(c.name, c.type) for c in self.columns]
        return Derived(self.name, tuple(kinds))


def shared_rows(one: RowPart, other: RowPart) -> RowPart:
    """Rows that either needs: those that satisfy what both ask for."""
    wanted = {text_of(node) for node in other.filters}
    statics = {static.relation.name: static for static in (*one.statics, *other.statics)}
    return RowPart(
        one.source, [node for node in one.filters if text_of(node) in wanted], one.late, list(statics.values())
    )


def guards_of(rows: RowPart, keys: Sequence[Key]) -> list[str]:
    """The filters, if all of them have to stay: without one, a row that it keeps away could fail."""
    nodes = [rows.source, *rows.filters, *(key.node for key in keys)]
    return [] if all(map(cannot_fail, nodes)) else sorted(map(text_of, rows.filters))
