"""Continuous queries over continuous views: there is no log of what changed, so answers are kept and compared.

The last answer lies in a file beside the changes. A new one is computed when what the query reads may have changed; its
difference from the last is handed out, and it takes the last one's place.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from midstream.maintenance.engine import Cancellation, WriteParquet
from midstream.relations.query import ContinuousQuery
from midstream.relations.table import Table
from midstream.runtime.continuous.log import log_columns
from midstream.runtime.continuous.texts import answer_check, changes_text, full_net_text
from midstream.runtime.pipelines import kept_files
from midstream.runtime.query import prepare
from midstream.runtime.results import Moment
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile, as_input
from midstream.runtime.store import Store
from midstream.types import Type

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries

LAST = "last_answer"


@dataclass(frozen=True)
class Compared:
    """What a new answer has changed, and the answer itself."""

    scn: int
    changes: list[KeptFile]
    answer: list[KeptFile]


@dataclass
class Answers:
    store: Store
    queries: Queries
    _seen: dict[int, object] = field(default_factory=dict)
    """What the last answer of each query was computed from."""

    def first(self, query: ContinuousQuery) -> Compared:
        """The answer that a new query, or one that was activated, begins with."""
        moment = self._moment(query, None)
        found = self._run(query, moment, None, None)
        self._seen[query.id] = self._basis(query, moment)
        return found

    def forget(self, id: int) -> None:
        self._seen.pop(id, None)

    def next(self, query: ContinuousQuery, last: Sequence[KeptFile], cancellation: Cancellation | None) -> Compared:
        """The same answer where nothing that it reads has changed."""
        moment = self._moment(query, cancellation)
        basis = self._basis(query, moment)
        if self._seen.get(query.id) == basis:
            return Compared(moment.state.scn, [], list(last))
        found = self._run(query, moment, last, cancellation)
        self._seen[query.id] = basis
        return found

    def _moment(self, query: ContinuousQuery, cancellation: Cancellation | None) -> Moment:
        plans, state = self.queries.plans_of(query), self.store.catalog.state
        return self.queries.materialized.moment(plans.views(state), plans.stored(state), DEFAULTS, cancellation)

    def _basis(self, query: ContinuousQuery, moment: Moment) -> object:
        scans = self.queries.plans_of(query).bound(moment.state).scans
        tables = {s.relation.id: moment.state.versions[s.relation.id] for s in scans if isinstance(s.relation, Table)}
        return tables, {id: (id_of(result.files), result.windows) for id, result in moment.results.items()}

    def _run(
        self,
        query: ContinuousQuery,
        moment: Moment,
        last: Sequence[KeptFile] | None,
        cancellation: Cancellation | None,
    ) -> Compared:
        from midstream.runtime.continuous.stepping import key_places

        folder = self.queries.folder(query.id)
        os.makedirs(folder, exist_ok=True)
        bound = self.queries.plans_of(query).bound(moment.state)
        choice, sources = prepare(self.store, moment, bound, {**DEFAULTS, "kernel": query.kernel})
        text, width = bound.sql(choice.kernel), len(query.columns)
        key = key_places(query)
        checks = [answer_check(key, choice.kernel)] if key else []
        pieces = [sources.piece(text, WriteParquet(folder, answer_columns(query), compressed=False), checks)]
        if last is not None:
            sources.inputs[LAST] = as_input(last, answer_columns(query))
            net = full_net_text(text, LAST, width, choice.kernel)
            changes = changes_text(net, width, key, moment.state.scn, choice.kernel)
            output = WriteParquet(folder, log_columns([type_ for _, type_ in query.columns]), compressed=False)
            pieces.append(sources.piece(changes, output))
        found = self.store.engine.run(choice.kernel, pieces, label="changes", cancellation=cancellation)
        self.queries.jobs += 1
        scn = moment.state.scn
        self.queries.stepper.check_key(query, found[0])
        return Compared(
            scn,
            [file for file in kept_files(self.store, found[1:], scn) if file.rows],
            kept_files(self.store, found[:1], scn),
        )


def answer_columns(query: ContinuousQuery) -> tuple[tuple[str, Type], ...]:
    return tuple((f"c{place}", type_) for place, (_, type_) in enumerate(query.columns))


def id_of(files: Sequence[KeptFile]) -> tuple[str, ...]:
    return tuple(file.path for file in files)
