"""The catalog as binding sees it: what a name stands for in one picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from midstream.relations.catalog import Catalog, CatalogState
from midstream.relations.schema import Relation


@dataclass(frozen=True)
class StateSchema:
    """The catalog as binding sees it from one picture."""

    catalog: Catalog
    state: CatalogState

    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        state = self.state if as_of is None else self.catalog.state_at(as_of)
        return state.relations.get(name)

    def names(self) -> Iterable[str]:
        return self.state.relations
