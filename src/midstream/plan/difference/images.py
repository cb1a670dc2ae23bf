"""What a query over tables can see of each: its rows before and after some commits, and what these changed.

`pst` is the table after the commits, `pre` before them, and `dlt` the rows that came (weight +1) and went (weight -1).
In a tree each is a scan of its own; a table that did not change is the same before and after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from sqlglot import exp

from midstream.plan.context import COMMIT, WEIGHT, Binding
from midstream.plan.cut.streams import with_fresh_aliases
from midstream.plan.nodes import quoted
from midstream.plan.typing.nodes import typed
from midstream.relations.table import Table
from midstream.types import BIGINT

Node = exp.Expression
Kind = Literal["insert", "delete", "mixed"]
"""What commits did to a table: rows came, rows went, or anything."""


class Image(Enum):
    PRE = "pre"
    PST = "pst"


@dataclass(frozen=True)
class Changed:
    """A table that commits changed: how, and how many rows it has and they touched, to choose the cheapest terms by."""

    kind: Kind
    rows: int = 0


_SETTLED, _PLACE = "settled", "place"


@dataclass(frozen=True)
class Images:
    binding: Binding
    changed: Mapping[int, Changed]
    same_constraints: bool = True
    """Whether the tables had their constraints before, too: what these prove of now, they prove of then."""
    watched: set[int] = field(default_factory=set)
    """The places of tables whose change some term has, or was proved to need none."""

    def table_of(self, node: exp.Table) -> Table | None:
        return table_of(self.binding, node)

    def change_of(self, node: Node) -> Changed | None:
        table = self.table_of(node) if isinstance(node, exp.Table) else None
        return self.changed.get(table.id) if table is not None else None

    def changed_tables(self, tree: Node) -> Iterator[exp.Table]:
        return (table for table in tree.find_all(exp.Table) if self.change_of(table) is not None)

    def reads_change(self, tree: Node) -> bool:
        return next(self.changed_tables(tree), None) is not None

    def watch(self, tree: Node) -> None:
        """Whatever a tree reads is accounted for."""
        self.watched.update(self.places_in(tree))

    def places_in(self, tree: Node) -> set[int]:
        """The places where a query reads tables that changed; copies of it have the same."""
        return {table.meta[_PLACE] for table in self.changed_tables(tree) if _PLACE in table.meta}

    def put_before(self, tree: Node) -> None:
        """Turns every changed table of a tree into what it was before, but where that is settled."""
        for node in list(self.changed_tables(tree)):
            if not node.meta.get(_SETTLED):
                node.set("this", quoted(self._scan(node, "before")))

    def settle(self, tree: Node) -> None:
        """What a tree reads is settled: what changed is the same, whichever image it is compared with."""
        for node in tree.find_all(exp.Table):
            node.meta[_SETTLED] = True

    def put_change(self, node: exp.Table) -> Node:
        """Turns an item into what changed of it; returns its weight."""
        node.set("this", quoted(self._scan(node, "delta")))
        return weight_of(node.alias)

    def _scan(self, node: exp.Table, source: Literal["before", "delta"]) -> str:
        key = next(key for key, name in self.binding.scans.items() if name == node.name)
        return self.binding.scans.setdefault(replace(key, source=source), f"scan_{len(self.binding.scans)}")

    def fresh(self, tree: Node) -> Node:
        """A copy whose sources have names of their own."""
        return with_fresh_aliases(self.binding, tree)


def table_of(binding: Binding, node: exp.Table) -> Table | None:
    """The table that an item stands for, as it is now."""
    key = next((key for key, name in binding.scans.items() if name == node.name), None)
    is_now = key is not None and key.source == "table" and key.as_of is None
    return key.relation if key is not None and is_now and isinstance(key.relation, Table) else None


def number_places(tree: Node) -> None:
    """Gives each place of a query where a table may be read a number."""
    for place, table in enumerate(tree.find_all(exp.Table)):
        table.meta[_PLACE] = place


def commit_of(alias: str) -> Node:
    return typed(exp.Column(this=quoted(COMMIT), table=quoted(alias)), BIGINT)


def weight_of(alias: str) -> Node:
    return typed(exp.Column(this=quoted(WEIGHT), table=quoted(alias)), BIGINT)
