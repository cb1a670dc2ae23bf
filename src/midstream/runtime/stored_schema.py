"""The catalog as binding sees it: what a name stands for in one picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from midstream.plan import BoundQuery
from midstream.relations.catalog import Catalog, CatalogState
from midstream.relations.query import MaterializedView
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


@dataclass(frozen=True)
class ComputedSchema(StateSchema):
    """The same where stored answers do not count: a materialized view that is kept on commit is its query. So it is
    inside a transaction, over what that sees, and for what is kept of streams, over the tables of any SCN."""

    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        found = super().relation(name, as_of)
        is_kept = isinstance(found, MaterializedView) and found.when == "on commit"
        return found.as_view if is_kept and isinstance(found, MaterializedView) else found


def stored_answers(bound: BoundQuery) -> list[MaterializedView]:
    """The materialized views that are kept on commit and whose stored rows, or changes of them, a query reads."""
    return [
        scan.relation
        for scan in bound.scans
        if isinstance(scan.relation, MaterializedView)
        and scan.relation.when == "on commit"
        and scan.source in ("table", "changes")
        and scan.as_of is None
    ]
