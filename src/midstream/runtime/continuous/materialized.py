"""Materialized views: stored answers, brought up to date by changes.

The stored answer is a table of its own, and a refresh is a commit to it: rows that went are deleted, rows that came are
inserted, and with a key both become an update. Together with it goes the SCN that the answer is now of.

A read takes the answer at the SCN that it reads everything else at: the tables of that picture, and the stored answer
as its refresh to that picture left it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from midstream.errors import Cancelled, DataError, Error, InternalError, TransactionConflict
from midstream.kernels import Kernel, quote_name
from midstream.maintenance.engine import Answer, Cancellation, FileColumn, Piece, WriteParquet
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.table import ROW_ID, ROW_ID_TYPE
from midstream.relations.view import ContinuousView
from midstream.runtime.continuous import backing
from midstream.runtime.continuous.backing import Fold
from midstream.runtime.continuous.computing import Change, context_at
from midstream.runtime.continuous.log import QueryLog, log_name
from midstream.runtime.continuous.texts import MISSING, apply_text, duplicates_text, full_net_text
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.query import prepare
from midstream.runtime.reading import Between, Picture, Sources, table_files
from midstream.runtime.results import Moment
from midstream.runtime.rows import RowSet, stored_columns
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.transaction import Glimpse, Transaction
from midstream.runtime.writing import ACTION, Writer
from midstream.types import TEXT, Type

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries

ATTEMPTS = 5


STORED = "stored"
NO_FIT = "the stored rows did not fit the change, as sums of floating point numbers may not"


@dataclass(frozen=True)
class _Net:
    """What the stored rows lack and have too much, as a text over inputs."""

    kernel: Kernel
    sources: Sources
    text: str
    fold: Fold | None
    """What becomes of what is kept beside it."""


@dataclass(frozen=True)
class _Due:
    """A view that is to be refreshed."""

    view: MaterializedView
    between: Between
    net: _Net | None
    """None: what was committed does not touch it."""
    reason: str | None
    """Why it is computed in full, if it is."""
    began: float


@dataclass(frozen=True)
class _Open:
    """A refresh under way."""

    due: _Due
    net: _Net
    transaction: Transaction
    piece: Piece
    columns: tuple[tuple[str, Type], ...]
    stop: Cancellation | None

    @property
    def pieces(self) -> list[tuple[Kernel, Piece]]:
        fold = self.net.fold
        beside = [(fold.kernel, fold.piece)] if fold is not None and fold.piece is not None else []
        return [(self.net.kernel, self.piece), *beside]

    def close(self) -> None:
        self.transaction.end()


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
            self._bring(views, state, cancellation)
            return self.picture(state)

    def moment(
        self,
        views: Iterable[ContinuousView],
        stored: Iterable[MaterializedView],
        settings: Mapping[str, object],
        cancellation: Cancellation | None = None,
    ) -> Moment:
        """The results of continuous views, and beside them the stored answers of the same SCN."""
        if not any(view.when == "on commit" for view in stored):
            return self._store.views.moment(views, settings, cancellation)
        with self._queries.computing:
            # Older results than those of now would lie before answers that are stored.
            found = self._store.views.moment(views, {**settings, "max_staleness": 0.0}, cancellation)
            self._bring(stored, found.state, cancellation)
            return replace(found, state=self.picture(found.state))

    def bring_to_base(self, transaction: Transaction, views: Iterable[MaterializedView]) -> None:
        """Views that are kept on commit have the answers of the picture that a transaction began with: what is made
        of them in it begins there."""
        wanted = [view for view in views if view.id not in transaction.defined]
        if not wanted:
            return
        with self._queries.computing:
            newest = self._store.catalog.state.relations
            for view in self.kept_below(wanted, transaction.base):
                if newest.get(view.name) != view or self._queries.log_of(view).position > transaction.base.scn:
                    raise TransactionConflict(f'"{view.name}" was refreshed meanwhile', hint="Run the statement again.")
            self._bring(wanted, transaction.base, None)
            transaction.see(self.picture(transaction.base))

    def picture(self, state: CatalogState) -> CatalogState:
        """A picture with the newest stored answers of views that are kept on commit; others change with commits of
        their own, which may lie behind it."""
        newest = self._store.catalog.state.versions
        views = (r for r in state.relations.values() if isinstance(r, MaterializedView))
        stored = {view.id for view in views if view.when == "on commit"}
        return replace(state, versions={**state.versions, **{id: newest[id] for id in stored if id in newest}})

    def _bring(self, views: Iterable[MaterializedView], state: CatalogState, stop: Cancellation | None) -> None:
        """Those that are kept on commit, and all such that they read."""
        wanted = list(views)
        try:
            for failure in self._refresh_all(self.kept_below(wanted, state), state, stop).values():
                raise failure
        except Error as failure:
            self._refuse_replaced(wanted, state, failure)
            raise

    def _refuse_replaced(self, views: Sequence[MaterializedView], state: CatalogState, failure: Error) -> None:
        """What was dropped or replaced while it was brought up to date is another one for who asks again."""
        newest = self._store.catalog.state.relations
        gone = next((view for view in views if newest.get(view.name) != view), None)
        if gone is not None or newest is not state.relations:
            name = gone.name if gone is not None else views[0].name
            raise TransactionConflict(
                f'"{name}", or what it reads, was replaced meanwhile', hint="Run the statement again."
            ) from failure

    def kept_below(self, views: Iterable[MaterializedView], state: CatalogState) -> list[MaterializedView]:
        """The views that are kept on commit among these and what they read, each once."""
        found: dict[int, MaterializedView] = {}
        for view in views:
            found |= {below.id: below for below in self.kept_below(self._below(view, state), state)}
            if view.when == "on commit":
                found[view.id] = view
        return list(found.values())

    def are_at(self, views: Iterable[MaterializedView], scn: int) -> bool:
        """Whether those that are kept on commit have the answers of an SCN."""
        return all(self._queries.log_of(view).position >= scn for view in views if view.when == "on commit")

    def _below(self, view: MaterializedView, state: CatalogState) -> list[MaterializedView]:
        return [t for t in self._queries.plans_of(view).tables(state) if isinstance(t, MaterializedView)]

    # --- refreshing --------------------------------------------------------------------------------

    def refresh(
        self, view: MaterializedView, *, in_full: bool = False, cancellation: Cancellation | None = None
    ) -> tuple[int, int]:
        """Brings it, and what it reads, up to now; returns the SCN that its answer is of, and the one that its changes
        have: another one where the refresh is a commit of its own."""
        with self._queries.computing:
            state = self._store.catalog.state
            self._bring(self._below(view, state), state, cancellation)
            due = self._due(view, state, in_full)
            if due is not None:
                self._refresh_one(due, cancellation)
            catalog = self._store.catalog
            written = catalog.commits_that_changed([view.id], state.scn, catalog.state.scn)
            return state.scn, (written or [state.scn])[-1]

    def refresh_all(self, views: Sequence[MaterializedView]) -> None:
        """The same for several. One that fails is as it was, and so are those that read it."""
        with self._queries.computing:
            state = self._store.catalog.state
            below = self.kept_below([below for view in views for below in self._below(view, state)], state)
            self._refresh_all([*below, *(view for view in views if view not in below)], state, None)

    def _refresh_all(
        self, views: Sequence[MaterializedView], state: CatalogState, stop: Cancellation | None
    ) -> dict[int, Error]:
        """Views that do not read each other in one job; then those that read them. What went wrong, by view."""
        failures: dict[int, Error] = {}
        left = list(views)
        while left:
            ids = {view.id for view in left}
            ready = [view for view in left if not any(below.id in ids for below in self._below(view, state))]
            left = [view for view in left if view not in ready]
            due = list[_Due]()
            for view in ready:
                failed = next((failures[b.id] for b in self._below(view, state) if b.id in failures), None)
                try:
                    found = self._due(view, state) if failed is None else None
                except Error as failure:
                    failed, found = failure, None
                if failed is not None:
                    failures[view.id] = failed
                if found is not None:
                    due.append(found)
            failures |= self._refresh_together(due, stop)
        return failures

    def _refresh_together(self, due: Sequence[_Due], stop: Cancellation | None) -> dict[int, Error]:
        failures: dict[int, Error] = {}
        with ExitStack() as open_ones:
            opened = [open_ones.enter_context(closing(self._open(one, stop))) for one in due if one.net is not None]
            try:
                answers = self._run(opened, stop) if len(opened) > 1 else None
            except Cancelled:
                raise
            except Error:
                # Nobody waits for another's fault.
                answers = None
            for one in due:
                try:
                    place = next((n for n, other in enumerate(opened) if other.due is one), None)
                    fits = None
                    if answers is not None and place is not None:
                        with suppress(TransactionConflict):
                            fits = self._take(opened[place], answers[place])
                    if fits is None:
                        self._refresh_one(one, stop)
                    elif not fits:
                        self._refresh_in_full(one, NO_FIT, stop)
                except Cancelled:
                    raise
                except Error as failure:
                    failures[one.view.id] = failure
        return failures

    def _due(self, view: MaterializedView, state: CatalogState, in_full: bool = False) -> _Due | None:
        """What has to be done for a view; None: nothing has changed."""
        began, log = time.monotonic(), self._queries.log_of(view)
        between = self._between(view, log, state)
        was_replaced = not self._queries.plans_of(view).is_same(between.before, between.state)
        if not in_full and not was_replaced and not self._has_changed(view, between):
            log.position = max(log.position, state.scn)
            self._queries.tell()
            return None
        reason = "REFRESH … FULL" if in_full else "refresh = 'full'" if view.refresh == "full" else None
        if was_replaced:
            reason = "a view that it reads was replaced"
        net = self._by_changes(view, between, log) if reason is None else self._in_full(view, between, log)
        return _Due(view, between, net, reason, began)

    def _refresh_one(self, due: _Due, stop: Cancellation | None) -> None:
        """By a job of its own."""
        try:
            if not self._apply(due, stop):
                self._refresh_in_full(due, NO_FIT, stop)
        except DataError as failure:
            if due.reason is not None or due.view.refresh == "incremental":
                raise
            # Two rows that were never there together, say, may meet in a term.
            self._refresh_in_full(due, f"by changes, it failed: {failure.message}", stop)

    def _refresh_in_full(self, due: _Due, reason: str, stop: Cancellation | None) -> None:
        """What cannot be had by changes is computed again."""
        net = self._in_full(due.view, due.between, self._queries.log_of(due.view))
        self._apply(replace(due, net=net, reason=reason), stop)

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

    def _apply(self, due: _Due, stop: Cancellation | None) -> bool:
        """Commits a change to the stored rows, by a job of its own; False: they did not fit it, so nothing was done."""
        if due.net is None:
            self._move(due)
            return True
        for attempt in range(ATTEMPTS):
            with closing(self._open(due, stop)) as opened:
                try:
                    [answers] = self._run([opened], stop)
                    return self._take(opened, answers)
                except TransactionConflict:
                    if attempt == ATTEMPTS - 1:
                        raise
        raise InternalError("unreachable")

    def _move(self, due: _Due) -> None:
        """Nothing of its answer has changed."""
        log, scn = self._queries.log_of(due.view), due.between.state.scn
        same = backing.readable(self._queries.plans_of(due.view), due.between, log.backing)
        kept = replace(same, at=scn) if same else log.backing
        self._queries.save(due.view, replace(log, position=scn, last_full=due.reason or log.last_full, backing=kept))

    def _open(self, due: _Due, stop: Cancellation | None) -> _Open:
        """A transaction for the stored rows, and the piece that finds out what becomes of them."""
        view, net = due.view, due.net
        assert net is not None
        self._add_stored(view, due.between, net.sources)
        transaction = Transaction(self._store)
        names = list(view.column_names)
        key = [names.index(name) for name in view.key.columns] if view.key is not None else []
        columns = ((ROW_ID, ROW_ID_TYPE), (ACTION, TEXT), *stored_columns(view)[1:])
        text = apply_text(net.text, STORED, len(names), key, net.kernel)
        renamed = ", ".join(
            f"{old} AS {quote_name(new, net.kernel)}"
            for old, (new, _) in zip(["id", "action", *(f"c{p}" for p in range(len(names)))], columns, strict=True)
        )
        output = WriteParquet(str(transaction.staging()), columns)
        piece = net.sources.piece(f"SELECT {renamed} FROM ({text}) AS actions", output)
        return _Open(due, net, transaction, piece, columns, stop)

    def _run(self, opened: Sequence[_Open], stop: Cancellation | None) -> list[list[Answer]]:
        """One job for all: of each, what becomes of its rows, and of what is kept beside them."""
        pieces = [one.pieces for one in opened]
        wanted = [piece for own in pieces for piece in own]
        answers = iter(run_by_kernel(self._store, wanted, label="refresh", cancellation=stop))
        return [[next(answers) for _ in own] for own in pieces]

    def _take(self, opened: _Open, answers: Sequence[Answer]) -> bool:
        """Commits what a job has found out; False: the stored rows did not fit it."""
        due, net, transaction = opened.due, opened.net, opened.transaction
        log = self._queries.log_of(due.view)
        writer = Writer(transaction, context_at(transaction.state), DEFAULTS, opened.stop)
        rows = RowSet(opened.columns, files=tuple(file for file in answers[0].files if file.rows))
        if not writer.take_actions(due.view, rows, MISSING):
            return False
        kept = net.fold.after(self._store, answers[1] if len(answers) > 1 else None) if net.fold is not None else None
        scn = due.between.state.scn
        moved = replace(log, position=scn, last_full=due.reason or log.last_full, backing=kept)
        transaction.kept[log_name(due.view.id)] = moved.written()
        _publish(transaction, due.view, scn, opened.stop)
        log.become(moved)
        for file in net.fold.gone if net.fold is not None else ():
            file.doom()
        self._note_cost(due.view, time.monotonic() - due.began)
        self._queries.tell()
        return True

    # --- keys --------------------------------------------------------------------------------------

    def answers_with_keys(
        self, query: ContinuousQuery, state: CatalogState, files: Sequence[KeptFile], key: Sequence[int]
    ) -> list[object] | None:
        """A key that several rows of the answer had after some of the changes up to it."""
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
