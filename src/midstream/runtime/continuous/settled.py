"""The commits at which the stored answers that a query reads are known to be those of that commit.

A refresh takes several commits together, and what it changes of a stored answer counts from the last of them on. Up to
there, the picture of a commit has the tables after it beside an answer from before it: a query over both would hand out
what never was. So a query goes from one settled SCN to the next, and takes the commits between as one.

    commits to t     4   5   6   7
    refreshes        4           7      of a view over t
    steps            4           7      of a query over the view, and over t as well
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from midstream.relations.catalog import CatalogState
from midstream.relations.query import MaterializedView
from midstream.runtime.continuous.computing import Kept
from midstream.runtime.store import Store

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries


def settled(store: Store, queries: Queries, query: Kept, scns: Sequence[int], first: int, last: int) -> list[int]:
    """Those of some SCNs between two, both of which are settled."""
    state = store.catalog.state
    views = queries.materialized.kept_below(queries.plans_of(query).stored(state), state)
    for view in views:
        told = _told(store, queries, view, state, first, last)
        scns = [scn for scn in scns if told.is_settled(scn)]
    return list(scns)


def _told(store: Store, queries: Queries, view: MaterializedView, state: CatalogState, first: int, last: int) -> _Told:
    ids = [table.id for table in queries.plans_of(view).tables(state)]
    below = store.catalog.commits_that_changed(ids, first, last) if ids else []
    return _Told(store, queries, view, first, last, store.catalog.commits_that_changed([view.id], first, last), below)


@dataclass(frozen=True)
class _Told:
    """What is known of a stored answer between two SCNs at which it is settled."""

    store: Store
    queries: Queries
    view: MaterializedView
    first: int
    last: int
    refreshed: Sequence[int]
    """When it became another one,"""
    below: Sequence[int]
    """and when something that it reads did."""

    def is_settled(self, scn: int) -> bool:
        """Whether nothing that it reads became another one since it was settled, or until it is settled without having
        become another one itself."""
        since = max(known for known in (self.first, *self.refreshed) if known <= scn)
        if not any(since < other <= scn for other in self.below) and self._is_same(since, scn):
            return True
        later = (other for other in (*self.refreshed, *self.below) if other > scn)
        return not any(later) and self._is_same(scn, self.last)

    def _is_same(self, before: int, after: int) -> bool:
        """Whether the views that its query reads are the same ones."""
        if before == after:
            return True
        catalog = self.store.catalog
        return self.queries.plans_of(self.view).is_same(catalog.state_at(before), catalog.state_at(after))
