"""Materialized views: stored answers, brought up to date by changes.

The stored answer is a table of its own, and a refresh is a commit to it: rows that went are deleted, rows that came are
inserted, and with a key both become an update. Together with it goes the SCN that the answer is now of.

A read takes the answer at the SCN that it reads everything else at: the tables of that picture, and the stored answer
as its refresh to that picture left it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from midstream.errors import InternalError, TransactionConflict
from midstream.kernels import Kernel, quote_name
from midstream.maintenance.engine import Cancellation, FileColumn, WriteParquet
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.table import ROW_ID, ROW_ID_TYPE
from midstream.runtime.continuous import backing
from midstream.runtime.continuous.backing import Fold
from midstream.runtime.continuous.computing import Change, context_at
from midstream.runtime.continuous.log import Backing, QueryLog, log_name
from midstream.runtime.continuous.texts import MISSING, apply_text, duplicates_text, full_net_text
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.query import prepare
from midstream.runtime.reading import Between, Picture, Sources, table_files
from midstream.runtime.rows import RowSet, stored_columns
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.transaction import Glimpse, Transaction
from midstream.runtime.writing import ACTION, Writer
from midstream.types import TEXT

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries

ATTEMPTS = 5


class Misfit:
    """That stored rows were not those that a change begins with."""


MISFIT = Misfit()
STORED = "stored"


@dataclass(frozen=True)
class _Net:
    """What the stored rows lack and have too much, as a text over inputs."""

    kernel: Kernel
    sources: Sources
    text: str
    fold: Fold | None
    """What becomes of what is kept beside it."""


class Materialized:
    """Thread-safe: whoever refreshes holds the lock of those who compute."""

    def __init__(self, store: Store, queries: Queries) -> None:
        self._store = store
        self._queries = queries

    # --- what a statement sees ---------------------------------------------------------------------

    def bring(self, views: Iterable[MaterializedView], cancellation: Cancellation | None = None) -> CatalogState:
        """A picture in which views that are kept on commit have the answers of its SCN."""
        with self._queries.computing:
            state = self._store.catalog.state
            for view in views:
                self._bring(view, state, cancellation)
            return self.picture(state)

    def bring_to_base(self, transaction: Transaction, views: Iterable[MaterializedView]) -> None:
        """Views that are kept on commit have the answers of the picture that a transaction began with: what is made
        of them in it begins there."""
        wanted = [view for view in views if view.id not in transaction.defined]
        if not wanted:
            return
        with self._queries.computing:
            for view in wanted:
                if self._queries.log_of(view).position > transaction.base.scn:
                    raise TransactionConflict(f'"{view.name}" was refreshed meanwhile', hint="Run the statement again.")
                self._bring(view, transaction.base, None)
            transaction.see(self.picture(transaction.base))

    def picture(self, state: CatalogState) -> CatalogState:
        """A picture with the newest stored answers."""
        newest = self._store.catalog.state.versions
        stored = {r.id for r in state.relations.values() if isinstance(r, MaterializedView)}
        return replace(state, versions={**state.versions, **{id: newest[id] for id in stored if id in newest}})

    def _bring(self, view: MaterializedView, state: CatalogState, cancellation: Cancellation | None) -> None:
        for below in self._below(view, state):
            self._bring(below, state, cancellation)
        if view.when == "on commit":
            self._refresh(view, state, cancellation=cancellation)

    def _below(self, view: MaterializedView, state: CatalogState) -> list[MaterializedView]:
        return [t for t in self._queries.plans_of(view).tables(state) if isinstance(t, MaterializedView)]

    # --- refreshing --------------------------------------------------------------------------------

    def refresh(
        self, view: MaterializedView, *, in_full: bool = False, cancellation: Cancellation | None = None
    ) -> int:
        """Brings it, and what it reads, up to now; returns the SCN that its answer is of."""
        with self._queries.computing:
            state = self._store.catalog.state
            for below in self._below(view, state):
                self._bring(below, state, cancellation)
            self._refresh(view, state, in_full=in_full, cancellation=cancellation)
            return state.scn

    def _refresh(
        self,
        view: MaterializedView,
        state: CatalogState,
        *,
        in_full: bool = False,
        cancellation: Cancellation | None = None,
    ) -> None:
        began, log = time.monotonic(), self._queries.log_of(view)
        between = self._between(view, log, state)
        was_replaced = not self._queries.plans_of(view).is_same(between.before, between.state)
        if not in_full and not was_replaced and not self._has_changed(view, between):
            log.position = max(log.position, state.scn)
            self._queries.tell()
            return
        reason = "REFRESH … FULL" if in_full else "refresh = 'full'" if view.refresh == "full" else None
        if was_replaced:
            reason = "a view that it reads was replaced"
        if reason is None and not self._apply(view, between, self._by_changes(view, between, log), cancellation, None):
            reason = "the stored rows did not fit the change, as sums of floating point numbers may not"
        if reason is not None:
            self._apply(view, between, self._in_full(view, between, log), cancellation, reason)
        self._note_cost(view, time.monotonic() - began)

    def _note_cost(self, view: MaterializedView, seconds: float) -> None:
        from midstream.runtime.continuous.stepping import Spent

        spent = self._queries.spent.setdefault(view.id, Spent())
        spent.computed, spent.jobs = spent.computed + 1, spent.jobs + 1
        spent.seconds, spent.last_seconds = spent.seconds + seconds, seconds

    def _between(self, view: MaterializedView, log: QueryLog, state: CatalogState) -> Between:
        """The tables before and after."""
        return Between(self.picture(state), self._store.catalog.state_at(log.position))

    def _has_changed(self, view: MaterializedView, between: Between) -> bool:
        tables = self._queries.plans_of(view).tables(between.state)
        return any(self._store.catalog.changes(table.id, *between.range) for table in tables)

    def _by_changes(self, view: MaterializedView, between: Between, log: QueryLog) -> _Net | None:
        plans, folder = self._queries.plans_of(view), self._queries.folder(view.id)
        kept = backing.before(plans, between, log.backing, folder)
        change = plans.change(between, kept=kept.files if kept is not None else None)
        if not isinstance(change, Change):
            return None
        return _Net(change.kernel, change.sources, change.net, backing.fold(plans, between, kept, folder, log.backing))

    def _in_full(self, view: MaterializedView, between: Between, log: QueryLog) -> _Net:
        bound = self._queries.plans_of(view).bound(between.state)
        picture: Picture = Glimpse(between.state)
        choice, sources = prepare(self._store, picture, bound, {**DEFAULTS, "kernel": view.kernel})
        self._add_stored(view, between, sources)
        text = full_net_text(bound.sql(choice.kernel), STORED, len(view.columns), choice.kernel)
        gone = Fold(None, gone=log.backing.files) if log.backing is not None else None
        return _Net(choice.kernel, sources, text, gone)

    def _add_stored(self, view: MaterializedView, between: Between, sources: Sources) -> None:
        """The stored rows as `id` and c0, c1, …"""
        if STORED in sources.inputs:
            return
        files = table_files(self._store, self._store.catalog.state, view, (ROW_ID, *view.column_names))
        names = ["id", *(f"c{place}" for place in range(len(view.columns)))]
        columns = tuple(
            FileColumn(name, column.type, column.name) for name, column in zip(names, files.columns, strict=True)
        )
        sources.inputs[STORED] = replace(files, columns=columns)

    def _apply(
        self,
        view: MaterializedView,
        between: Between,
        net: _Net | None,
        cancellation: Cancellation | None,
        reason: str | None,
    ) -> bool:
        """Commits a change to the stored rows; False: they did not fit it, and nothing was done."""
        log = self._queries.log_of(view)
        moved = replace(log, position=between.state.scn, last_full=reason or log.last_full)
        if net is None:
            same = backing.readable(self._queries.plans_of(view), between, log.backing)
            self._queries.save(
                view, replace(moved, backing=replace(same, at=between.state.scn) if same else log.backing)
            )
            return True
        self._add_stored(view, between, net.sources)
        for attempt in range(ATTEMPTS):
            transaction = Transaction(self._store)
            try:
                writer = Writer(transaction, context_at(transaction.state), DEFAULTS, cancellation)
                kept = self._write(writer, view, net)
                if isinstance(kept, Misfit):
                    return False
                moved = replace(moved, backing=kept)
                transaction.kept[log_name(view.id)] = moved.written()
                _publish(transaction, view, between.state.scn, cancellation)
                log.become(moved)
                for file in net.fold.gone if net.fold is not None else ():
                    file.doom()
                self._queries.tell()
                return True
            except TransactionConflict:
                if attempt == ATTEMPTS - 1:
                    raise
            finally:
                transaction.end()
        raise InternalError("unreachable")

    def _write(self, writer: Writer, view: MaterializedView, net: _Net) -> Backing | Misfit | None:
        """Returns what is then kept beside it."""
        names = list(view.column_names)
        key = [names.index(name) for name in view.key.columns] if view.key is not None else []
        columns = ((ROW_ID, ROW_ID_TYPE), (ACTION, TEXT), *stored_columns(view)[1:])
        text = apply_text(net.text, STORED, len(names), key, net.kernel)
        renamed = ", ".join(
            f"{old} AS {quote_name(new, net.kernel)}"
            for old, (new, _) in zip(["id", "action", *(f"c{p}" for p in range(len(names)))], columns, strict=True)
        )
        output = WriteParquet(str(writer.transaction.staging()), columns)
        piece = net.sources.piece(f"SELECT {renamed} FROM ({text}) AS actions", output)
        beside = [(net.fold.kernel, net.fold.piece)] if net.fold is not None and net.fold.piece is not None else []
        stop = writer.cancellation
        answer, *more = run_by_kernel(self._store, [(net.kernel, piece), *beside], label="refresh", cancellation=stop)
        rows = RowSet(columns, files=tuple(file for file in answer.files if file.rows))
        if not writer.take_actions(view, rows, MISSING):
            return MISFIT
        return net.fold.after(self._store, more[0] if more else None) if net.fold is not None else None

    # --- keys --------------------------------------------------------------------------------------

    def answers_with_keys(
        self, query: ContinuousQuery, state: CatalogState, files: Sequence[KeptFile], key: Sequence[int]
    ) -> list[object] | None:
        """A key that came with some changes and that several rows of the answer have."""
        from midstream.runtime.continuous.stepping import log_input

        bound = self._queries.plans_of(query).bound(state)
        choice, sources = prepare(self._store, Glimpse(state), bound, {**DEFAULTS, "kernel": query.kernel})
        sources.inputs["changes"] = log_input(query, files)
        piece = sources.piece(duplicates_text(bound.sql(choice.kernel), key))
        [answer] = self._store.engine.run(choice.kernel, [piece], label="key of a continuous query")
        found = answer.table
        return list(found.slice(0, 1).to_pylist()[0].values()) if found is not None and found.num_rows else None


def _publish(transaction: Transaction, view: MaterializedView, scn: int, cancellation: Cancellation | None) -> None:
    """One that is kept on commit is at each SCN what it is then; others change when they are refreshed."""
    from midstream.runtime.commit import commit, publish_answer

    if view.when == "on commit" and view.id in transaction.changes:
        publish_answer(transaction, scn)
    else:
        commit(transaction, DEFAULTS, cancellation)
