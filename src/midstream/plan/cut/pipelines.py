"""Stream pipelines: from the rows of streams to partials in groups."""

from __future__ import annotations

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
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, type_of
from midstream.relations.view import Derived
from midstream.types import Type


@dataclass(frozen=True)
class Key:
    """A column of a state that rows are grouped by."""

    name: str
    node: Node = field(compare=False)

    @property
    def type(self) -> Type:
        return type_of(self.node)


@dataclass(frozen=True)
class Pipeline:
    """From the rows of streams to partials. Those of one name differ in columns and filters only, and share a pass."""

    name: str
    binding: Binding = field(compare=False, repr=False)
    rows: RowPart = field(compare=False, repr=False)
    keys: tuple[Key, ...] = ()
    columns: tuple[StateColumn, ...] = ()
    dead: Node | None = field(default=None, compare=False)
    """What tells, at a moment, that nobody will ask for a group again, over the state's columns."""

    @property
    def is_safe(self) -> bool:
        """Whether no row can make it fail: another view may then depend on the same pass."""
        return all(_cannot_fail(node) for node in (*(c.first for c in self.columns), *self.rows.filters))

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


_SAFE_CALLS: tuple[str, ...] = (
    "=(",
    "<>(",
    "<(",
    "<=(",
    ">(",
    ">=(",
    "is ",
    "coalesce(",
    "nullif(",
    "like(",
    "greatest(",
    "least(",
)
_SAFE_CALLS += ("sketch ",)


def _cannot_fail(node: Node) -> bool:
    """Columns, constants, comparisons and what is made of these; sums are kept in types that hold them."""
    if isinstance(node, AggregateCall) and "moments" in str(node.this):
        # The variance of infinities is an error.
        return False
    if isinstance(node, Call):
        return str(node.this).startswith(_SAFE_CALLS) and all(map(_cannot_fail, node.expressions))
    if isinstance(node, Convert):
        to, source = type_of(node), type_of(node.this)
        widens = to.name == "double precision" and source.is_number
        return (widens or to.is_text or source == to) and _cannot_fail(node.this)
    return all(_cannot_fail(part) for part in node.iter_expressions())
