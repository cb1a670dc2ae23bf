"""Continuous views at work: they are made, read, kept small, and dropped here.

A view's pipelines are readers of its streams, which turn every batch into files of partials. A read takes an SCN, waits
until they have all up to it, and runs the upper query over the files, as one job. The result is kept with its SCN, and
answers for as long as nothing has come and no table of the upper query has changed; whoever waits shares a refresh.
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import pairwise
from typing import TypedDict, cast

from midstream.errors import Cancelled, Error, TransactionConflict, UndefinedName
from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Cancellation, FileColumn, Files
from midstream.plan import BindContext
from midstream.plan.cut import ViewPlan, cut_view
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.schema import Schema
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView
from midstream.runtime.awaiting import Awaiting
from midstream.runtime.beside import Taking
from midstream.runtime.crowd import Crowd
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.lateness import LATE, LateReader, time_at, wait_for
from midstream.runtime.making import Maker, fill
from midstream.runtime.merging import Merger
from midstream.runtime.pipelines import PIPELINE, PipelineReader
from midstream.runtime.query import choose_kernel
from midstream.runtime.readers import Foresight, Taken
from midstream.runtime.reading import Picture
from midstream.runtime.refreshing import Inputs, Refresh, plan_refresh
from midstream.runtime.results import Moment, Result
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import HOLDER, KeptFile, State, hold_folder
from midstream.runtime.store import Store
from midstream.runtime.transaction import Glimpse
from midstream.runtime.waiting import held
from midstream.runtime.windows import Windows
from midstream.sql import parse_query
from midstream.sql.statements import Sql

LONG = 2.0
"""A view whose refresh takes so many seconds keeps nobody else waiting."""
LATELY = 10.0
"""A view whose result was computed and read within so many seconds is refreshed together with others."""


@dataclass(frozen=True)
class Measured:
    """A refresh, and the seconds of each of its steps."""

    result: Result
    kernel: Kernel
    waited: float
    """Until the view's pipelines had absorbed everything,"""
    inner: float
    """until the views that it reads had their results,"""
    computed: float
    """and until the upper query had run."""


class Views:
    """Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._turns: dict[tuple[str, int], threading.RLock] = {}
        self._plans: dict[tuple[int, bool], tuple[object, ViewPlan]] = {}
        self._results: dict[int, Result] = {}
        self._crowds: dict[tuple[int, ...], Crowd] = {}
        self.windows = Windows(store, self)
        self.merger = Merger(
            store, self.plan, self.windows, self._is_read, lambda: [reader for _, reader in self.readers()]
        )
        self._maker = Maker(store, self.plan, self._cut_by, self._forget_plan, self.readers, self._attend)
        self._awaiting = Awaiting(store, self.plan, self.readers_of, self._planned_now)
        self.path = store.path / "views"
        self.refreshes: dict[int, tuple[int, float]] = {}
        """How often each view was refreshed, and how long that took, since the database was opened."""

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Takes up what is there, and removes what no view needs: a CREATE VIEW that did not come to its end, say."""
        self.path.mkdir(exist_ok=True)
        known = {v.id for v in self._store.catalog.state.relations.values() if isinstance(v, ContinuousView)}
        for entry, reader in self.readers():
            if not known & set(reader.state.views):
                self._store.streams.unregister(entry.id)
        folders: dict[str, set[str]] = {}
        for entry, reader in self.readers():
            self._attend(reader)
            hold_folder(reader.state.folder)
            static = [file for kept in reader.state.statics.values() for file in kept.files]
            ahead = self._store.streams.absorber.made_by(entry.id)
            names = {os.path.basename(path) for path in (*(f.path for f in (*reader.state.files, *static)), *ahead)}
            folders.setdefault(os.path.basename(reader.state.folder), {HOLDER}).update(names)
        for view in self._store.catalog.state.relations.values():
            if isinstance(view, ContinuousView) and view.is_windowed:
                kept = [file.path for file in self.windows.log_of(view).files]
                folders[os.path.basename(self.windows.folder(view.id))] = set(map(os.path.basename, kept))
        for _, late in self._store.streams.readers_of(LATE):
            if isinstance(late, LateReader):
                folders[os.path.basename(late.folder)] = {os.path.basename(file.path) for file in late.files}
        for name in os.listdir(self.path):
            if name not in folders:
                shutil.rmtree(self.path / name, ignore_errors=True)
                continue
            for file in os.listdir(self.path / name):
                if file not in folders[name]:
                    (self.path / name / file).unlink(missing_ok=True)
        self._store.streams.absorber.foresee = self._foresee
        self.windows.start()

    def _foresee(self, taken: Taken, others: Sequence[Taken]) -> Sequence[Foresight]:
        own = _pipelines(taken)
        if not own:
            return []
        beside = [taking for other in others for taking in _pipelines(other)]
        awaited = self._awaiting.foresee([reader for reader, _ in own], taken.batch)
        return [*self.windows.foresee(own, beside), *awaited]

    def _attend(self, reader: PipelineReader) -> None:
        reader.grown = self._grown
        reader.seed = lambda stream, scn: time_at(self._store, stream, scn)

    def _is_read(self, state: State) -> bool:
        """Whether somebody reads a view that has partials in a state."""
        found = [result for id in state.views if (result := self._results.get(id)) is not None]
        return any(result.was_read and time.monotonic() - result.at < LATELY for result in found)

    def _grown(self, reader: PipelineReader) -> None:
        """A pipeline has absorbed a batch."""
        self.merger.grown(reader)
        if reader.feed.slots is not None:
            self.windows.wake()

    def close(self) -> None:
        self.windows.close()
        self.merger.close()
        self._results.clear()

    def readers(self) -> list[tuple[ReaderEntry, PipelineReader]]:
        found = self._store.streams.readers_of(PIPELINE)
        return [(entry, reader) for entry, reader in found if isinstance(reader, PipelineReader)]

    def readers_of(self, view_id: int) -> list[tuple[ReaderEntry, PipelineReader]]:
        return [(entry, reader) for entry, reader in self.readers() if view_id in reader.state.views]

    def plan(self, view: ContinuousView, state: CatalogState | None = None, *, pairs: bool = True) -> ViewPlan:
        """The view's query, cut; made again when definitions have changed. Without `pairs`, a join of windows is over
        the rows of both, which are kept either way."""
        from midstream.runtime.stored_schema import ComputedSchema

        state = state or self._store.catalog.state
        with self._lock:
            known = self._plans.get((view.id, pairs))
        if known is not None and known[0] is state.relations:
            return known[1]
        context = BindContext(state.scn, datetime.now(timezone.utc))
        schema = ComputedSchema(self._store.catalog, state)
        plan = self.cut(view, schema, context, pairs=pairs)
        with self._lock:
            self._plans[view.id, pairs] = (state.relations, plan)
        return plan

    def cut(self, view: ContinuousView, schema: Schema, context: BindContext, *, pairs: bool = True) -> ViewPlan:
        """The view's query, cut as it is kept."""
        how = how_it_is_cut(view)
        how["pairs"] = how["pairs"] and pairs
        plan = cut_view(parse_query(view.query), schema, context, **how)
        how["unit"] = self._unit_kept(view, plan)
        return plan if how["unit"] is None else cut_view(parse_query(view.query), schema, context, **how)

    def _unit_kept(self, view: ContinuousView, plan: ViewPlan) -> int | None:
        """The size of a view's basic windows, if it has been cut anew to share those of a later one."""
        kept = {r.feed.slots.unit for _, r in self.readers_of(view.id) if r.feed.slots is not None}
        known = {window.slots.unit for window in plan.windows}
        return min(kept) if len(plan.windows) == 1 and not plan.times and len(kept) == 1 and kept != known else None

    def _cut_by(self, view: ContinuousView, state: CatalogState, unit: int) -> ViewPlan:
        """The plan that a view would have with smaller basic windows."""
        from midstream.runtime.stored_schema import ComputedSchema

        context = BindContext(state.scn, datetime.now(timezone.utc))
        how = how_it_is_cut(view)
        how["unit"] = unit
        return cut_view(parse_query(view.query), ComputedSchema(self._store.catalog, state), context, **how)

    def _forget_plan(self, view_id: int) -> None:
        with self._lock:
            for pairs in (True, False):
                self._plans.pop((view_id, pairs), None)

    def keeps(self, view: ContinuousView, plan: ViewPlan) -> bool:
        """Whether the partials that are kept for a view are those that a plan asks for."""
        kept = {reader.state.program.name: dict(reader.state.program.columns) for _, reader in self.readers_of(view.id)}
        return all(
            kept.get(pipeline.name, {}).items() >= dict(pipeline.relation.columns).items()
            for pipeline in plan.pipelines
            if pipeline not in plan.pairs
        )

    # --- creating --------------------------------------------------------------------------------

    def cut_new(
        self, query: Sql, state: CatalogState, context: BindContext, how: HowToCut, settings: Mapping[str, object]
    ) -> tuple[ViewPlan, int | None]:
        """The plan of a new view, which the kernel that is set can run, and the size of its basic windows if that is
        another view's."""
        from midstream.runtime.stored_schema import ComputedSchema

        schema = ComputedSchema(self._store.catalog, state)
        plan, how = cut_view(query, schema, context, **how), how.copy()
        choose_kernel(plan.shown(context.now, context.scn), 0, settings)
        for unit in self._maker.common_units(plan, state):
            how["unit"] = unit
            finer = cut_view(query, schema, context, **how)
            if self._maker.would_share(finer, state, unit):
                return finer, unit
        return plan, None

    def create(
        self, view: ContinuousView, picture: Picture, settings: Mapping[str, object], cancellation: Cancellation | None
    ) -> None:
        """Makes the pipelines of a view that is about to be committed: it sees every insert after one SCN."""
        try:
            if view.is_windowed:
                self._store.streams.created(view.basket, ())
            self._maker.make(view, self.plan(view, picture.state), picture, settings, cancellation)
        except BaseException:
            self.drop(view.id)
            raise

    def fill(self, view_id: int, cancellation: Cancellation | None = None) -> None:
        """Takes in what the streams of a view had kept when it began, if that is still to be done."""
        with self._turn("view", view_id):
            for entry, reader in self.readers_of(view_id):
                if reader.state.backfill is not None:
                    fill(self._store, entry, reader, reader.state.backfill, cancellation)
                    self.windows.wake()

    def drop(self, view_id: int) -> None:
        """Frees all that a view had for itself."""
        self._forget_plan(view_id)
        with self._lock:
            result = self._results.pop(view_id, None)
            self._turns.pop(("view", view_id), None)
        if result is not None:
            for file in result.files:
                file.doom()
        self.windows.drop(view_id)
        self._store.streams.drop_basket(view_id)
        for entry, reader in self.readers_of(view_id):
            left = tuple(id for id in reader.state.views if id != view_id)
            if left:
                reader.state.views = left
                self._store.streams.rewrite(entry.id, reader.state.written)
                continue
            self._store.streams.unregister(entry.id)
            self.merger.forget(entry.id)
            for path in self._store.streams.absorber.made_by(entry.id):
                self._store.streams.files.remove(path)
            reader.state.doom()

    # --- reading ---------------------------------------------------------------------------------

    def moment(
        self,
        views: Iterable[ContinuousView],
        settings: Mapping[str, object],
        cancellation: Cancellation | None = None,
        since: int = 0,
    ) -> Moment:
        """The results of views at one SCN that has every row acknowledged so far; where `max_staleness` lets them be
        older, not older than an SCN."""
        wanted = {view.id: view for view in views}
        moment = self._moment(wanted, settings, cancellation, since)
        for id in wanted:
            moment.results[id].was_read = True
        return moment

    def moment_within(
        self,
        views: Sequence[ContinuousView],
        seen: Glimpse,
        settings: Mapping[str, object],
        cancellation: Cancellation | None,
    ) -> Moment:
        """The results of views over the tables that a transaction sees, all with the same rows of streams: those
        acknowledged so far."""
        found = self.moment(views, settings, cancellation, since=seen.state.scn)
        if not any(self._sees_apart(view, found.state, seen) for view in views):
            return Moment(seen.state, found.results, seen.changes)
        with ExitStack() as turns:
            for key in self._turn_keys(views):
                turns.enter_context(held(self._turn(*key), cancellation))
            state = turns.enter_context(self._store.streams.cut())
            results = {view.id: self._within(view, state, seen, settings, cancellation) for view in views}
        return Moment(seen.state, results, seen.changes)

    def tables_above(self, view: ContinuousView) -> list[Table]:
        """The tables that a view reads as they are at the read, itself or through views below."""
        if view.is_windowed:
            return []
        plan = self.plan(view)
        scans = plan.at_any_moment(plan.words(datetime.now(timezone.utc), self._store.catalog.state.scn)).scans
        own = [scan.relation for scan in scans if isinstance(scan.relation, Table) and scan.as_of is None]
        return [*own, *(table for inner in plan.reads for table in self.tables_above(inner))]

    def _sees_apart(self, view: ContinuousView, state: CatalogState, seen: Glimpse) -> bool:
        """Whether a transaction sees other rows in the tables above a view than there are at an SCN."""
        ids = [table.id for table in self.tables_above(view)]
        return any(seen.pending(id) or seen.state.versions.get(id) != state.versions.get(id) for id in ids)

    def _within(
        self,
        view: ContinuousView,
        state: CatalogState,
        seen: Glimpse,
        settings: Mapping[str, object],
        cancellation: Cancellation | None,
    ) -> Result:
        """With the rows of streams as of a cut, and the tables as a transaction sees them: for nobody else."""
        if not self._sees_apart(view, state, seen):
            return self._refreshed([view], state, settings, cancellation)[view.id]
        self._wait(view, state, cancellation)
        inner = {other.id: self._within(other, state, seen, settings, cancellation) for other in self.inner_views(view)}
        kept, plan = self.kept_of(self._readers_for(view, state), state), self.plan(view, state)
        picture, folder = Moment(seen.state, inner, seen.changes), self._results_folder(view.id)
        refresh = plan_refresh(self._store, view, plan, kept, picture, settings, folder)
        label, wanted = f'read "{view.name}" in a transaction', [(refresh.kernel, refresh.piece)]
        [answer] = run_by_kernel(self._store, wanted, label=label, cancellation=cancellation)
        result = refresh.result(answer, 0.0)
        for file in result.files:
            file.doom()
        return result

    def results_of(
        self, views: Sequence[ContinuousView], state: CatalogState, stop: Cancellation | None
    ) -> dict[int, Result]:
        """The results of views at the SCN of a cut."""
        return self._refreshed(list(views), state, DEFAULTS, stop) if views else {}

    @contextmanager
    def turn(self, view_id: int) -> Iterator[None]:
        """Nobody else computes a view meanwhile."""
        with self._turn("view", view_id):
            yield

    def _moment(
        self,
        wanted: dict[int, ContinuousView],
        settings: Mapping[str, object],
        cancellation: Cancellation | None,
        since: int,
    ) -> Moment:
        self._advance_windows_below(wanted.values(), cancellation)
        still = self._unchanged(wanted.values())
        if still is not None:
            return still
        begun, began = self._store.catalog.state.scn, time.monotonic()
        patience = float(cast(float, settings.get("max_staleness", 0.0)))
        stale = self._recent(wanted.values(), patience, since)
        if stale is not None:
            return stale
        keys = self._turn_keys(wanted.values())
        with self._crowd(keys) as crowd, ExitStack() as turns:
            for key in keys:
                turns.enter_context(held(self._turn(*key), cancellation))
            known = self._known(wanted.values(), begun, began)
            if known is not None:
                return known
            crowd.gather()
            others = self._companions(wanted, turns)
            with self._store.streams.cut() as state:
                read_as_streams = {view.id for view in self._windows_below(wanted.values())}
                fixed = self._handed_on([v for v in wanted.values() if v.id in read_as_streams], state)
                asked = [view for view in wanted.values() if view.id not in fixed]
                try:
                    results = self._refreshed([*asked, *others.values()], state, settings, cancellation)
                except Cancelled:
                    raise
                except Error:
                    if not others:
                        raise
                    # It may be the fault of a view that nobody has asked for.
                    results = self._refreshed(asked, state, settings, cancellation)
        return Moment(state, {**results, **fixed})

    def _handed_on(self, views: Iterable[ContinuousView], state: CatalogState) -> dict[int, Result]:
        """Views over windows that are read together with views over them: what these have been handed, and no more,
        since nobody else computes them now."""
        return {view.id: self.windows.at_hand(view, state) for view in views}

    def measured(
        self, view: ContinuousView, settings: Mapping[str, object], cancellation: Cancellation | None
    ) -> Measured:
        """Computes the result of a view anew, whether or not the kept one holds, and says what each step took."""
        self._advance_windows_below([view], cancellation)
        with ExitStack() as turns:
            for key in self._turn_keys([view]):
                turns.enter_context(self._turn(*key))
            state = turns.enter_context(self._store.streams.cut())
            times = [time.monotonic()]
            self._wait(view, state, cancellation)
            times.append(time.monotonic())
            inner = self._refreshed(self.inner_views(view), state, settings, cancellation)
            times.append(time.monotonic())
            refresh = self._planned_now(view, state, settings, inner)
            label, wanted = f'refresh "{view.name}"', [(refresh.kernel, refresh.piece)]
            [answer] = run_by_kernel(self._store, wanted, label=label, cancellation=cancellation)
            times.append(time.monotonic())
            result = self._keep(refresh, answer, times[3] - times[2])
        steps = tuple(after - before for before, after in pairwise(times))
        return Measured(result, refresh.kernel, *steps)

    def _advance_windows_below(self, views: Iterable[ContinuousView], stop: Cancellation | None) -> None:
        """Views over windows hand on every window that is complete by now to the views that read them as streams."""
        below = self._windows_below(views)
        if not below:
            return
        state = self._store.catalog.state
        self._advance_windows_below(below, stop)
        for view in below:
            self.windows.newest(view, state, DEFAULTS, stop)

    def _windows_below(self, views: Iterable[ContinuousView]) -> list[ContinuousView]:
        """Views over windows that views read as streams."""
        baskets = {reader.stream.id for id in self.with_inner(views) for _, reader in self.readers_of(id)
                   if reader.stream.is_basket}  # fmt: skip
        relations = self._store.catalog.state.relations.values() if baskets else ()
        return [view for view in relations if isinstance(view, ContinuousView) and view.id in baskets]

    def _companions(self, wanted: Mapping[int, ContinuousView], turns: ExitStack) -> dict[int, ContinuousView]:
        """Views over the same streams whose last result somebody has read: they will be asked for next, and cost less
        together. Nobody waits for them: one that is being refreshed already is left alone."""
        streams = {entry.stream_id for id in wanted for entry, _ in self.readers_of(id)}
        ids = {id for entry, reader in self.readers() if entry.stream_id in streams for id in reader.state.views}
        found = {}
        for view in self._store.catalog.state.relations.values():
            if not isinstance(view, ContinuousView) or view.id in wanted or view.id not in ids:
                continue
            result = self._results.get(view.id)
            if result is None or not result.was_read or time.monotonic() - result.at > LATELY or self.plan(view).reads:
                continue
            turn = self._turn("view", view.id)
            if turn.acquire(blocking=False):
                turns.callback(turn.release)
                found[view.id] = view
        return found

    def _turn(self, kind: str, id: int) -> threading.RLock:
        with self._lock:
            return self._turns.setdefault((kind, id), threading.RLock())

    @contextmanager
    def _crowd(self, keys: Sequence[tuple[str, int]]) -> Iterator[Crowd]:
        """Those who read views over the same streams."""
        streams = tuple(id for kind, id in keys if kind == "stream")
        with self._lock:
            crowd = self._crowds.setdefault(streams, Crowd())
        with crowd.joined():
            yield crowd

    def _turn_keys(self, views: Iterable[ContinuousView]) -> list[tuple[str, int]]:
        """What a refresh waits its turn for. Those who wait for one stream go together: the first refreshes for all. A
        view that takes long is refreshed for itself."""
        ids = self.with_inner(views)
        quick = [id for id in ids if (known := self._results.get(id)) is None or known.seconds < LONG]
        streams = {entry.stream_id for id in quick for entry, _ in self.readers_of(id)}
        return [*(("stream", id) for id in sorted(streams)), *(("view", id) for id in sorted(ids))]

    def with_inner(self, views: Iterable[ContinuousView]) -> set[int]:
        """Views, and all continuous views below them."""
        found: set[int] = set()
        for view in views:
            found.add(view.id)
            found |= self.with_inner(self.inner_views(view))
        return found

    def last(self, view_id: int) -> Result | None:
        """The newest result of a view, if one is kept."""
        with self._lock:
            return self._results.get(view_id)

    def known(self, views: Iterable[ContinuousView], state: CatalogState) -> Moment:
        """What is kept of views now, fresh or not: to be looked at, not read."""
        found = {v.id: self.windows.at_hand(v, state) if v.is_windowed else self.last(v.id) for v in views}
        empty = Result(state, state.scn, (), {}, {}, 0.0, 0)
        return Moment(state, {id: result or empty for id, result in found.items()})

    def inner_views(self, view: ContinuousView) -> list[ContinuousView]:
        """The continuous views that a view's upper query reads."""
        return list(self.plan(view).reads)

    def _unchanged(self, views: Iterable[ContinuousView]) -> Moment | None:
        """Results that hold because nothing at all has happened since somebody last looked."""
        state = self._store.catalog.state
        found = {}
        for view in views:
            if view.is_windowed:
                newest = self.windows.settled(view)
                if newest is None:
                    return None
                found[view.id] = newest
                continue
            result, known = self._results.get(view.id), self._plans.get((view.id, True))
            if result is None or result.through != state.scn or known is None or known[0] is not state.relations:
                return None
            if known[1].reads or known[1].words(datetime.now(timezone.utc), state.scn) != result.words:
                return None
            found[view.id] = result
        return Moment(state, found)

    def _recent(self, views: Iterable[ContinuousView], patience: float, since: int) -> Moment | None:
        """Results that are not older than the reader allows, all of one SCN. Definitions have stayed the same since:
        the query was bound to those of now, and what it reads beside the views is read as of that SCN."""
        if patience <= 0:
            return None
        with self._lock:
            results = {view.id: self._results.get(view.id) for view in views}
        found = {id: result for id, result in results.items() if result is not None}
        if len(found) < len(results) or len({result.scn for result in found.values()}) != 1:
            return None
        if any(time.monotonic() - result.at > patience or result.through < since for result in found.values()):
            return None
        state = next(iter(found.values())).state
        return Moment(state, found) if state.relations is self._store.catalog.state.relations else None

    def _known(self, views: Iterable[ContinuousView], begun: int, began: float) -> Moment | None:
        """Results that hold now, or that somebody got at one SCN while we waited."""
        state = self._store.catalog.state
        views = list(views)
        with self._lock:
            found = {view.id: self._results.get(view.id) for view in views}
        results = {id: result for id, result in found.items() if result is not None}
        if len(results) < len(found):
            return None
        if all(self._holds(view, results[view.id], state) for view in views):
            for result in results.values():
                result.through = max(result.through, state.scn)
            return Moment(state, results)
        newest = max((result.state for result in results.values()), key=lambda at: at.scn)
        if any(self._reads_clock(view) and results[view.id].at < began for view in views):
            return None
        if begun <= newest.scn <= min(result.through for result in results.values()):
            return Moment(newest, results)
        return None

    def _reads_clock(self, view: ContinuousView) -> bool:
        return bool(self.plan(view).moments) or any(map(self._reads_clock, self.inner_views(view)))

    def _holds(self, view: ContinuousView, result: Result, state: CatalogState) -> bool:
        """Whether nothing that a result depends on has changed up to an SCN."""
        plan, streams = self.plan(view), self._store.streams
        if plan.words(datetime.now(timezone.utc), state.scn) != result.words:
            return False
        if any(state.versions.get(table) != version for table, version in result.versions.items()):
            return False
        for entry, reader in self.readers_of(view.id):
            if streams.has_news(entry.stream_id, max(entry.absorbed, result.scn), state.scn):
                return False
            if any(file.upto > result.scn for file in list(reader.state.files)):
                return False
        with self._lock:
            inner = [(other, self._results.get(other.id)) for other in self.inner_views(view)]
        if any(other.is_windowed for other, _ in inner):
            return False
        return all(
            known is not None and known.scn <= result.scn and self._holds(other, known, state) for other, known in inner
        )

    def _refreshed(
        self,
        views: Sequence[ContinuousView],
        state: CatalogState,
        settings: Mapping[str, object],
        cancellation: Cancellation | None,
    ) -> dict[int, Result]:
        """The views' answers at the SCN of a cut; those that must be computed are one job."""
        found: dict[int, Result] = {}
        stale: list[ContinuousView] = []
        for view in views:
            if view.is_windowed:
                found[view.id] = self.windows.newest(view, state, settings, cancellation)
                continue
            known = self._results.get(view.id)
            if known is not None and self._holds(view, known, state):
                known.through = max(known.through, state.scn)
                found[view.id] = known
            else:
                stale.append(view)
        if not stale:
            return found
        with self._awaiting.asked(stale, state, settings) as awaited:
            for view in stale:
                self._wait(view, state, cancellation)
        for refresh, answer, seconds in awaited.found.values():
            found[refresh.view.id] = self._keep(refresh, answer, seconds)
        planned = [self._planned(view, state, settings, cancellation) for view in stale if view.id not in found]
        if not planned:
            return found
        started = time.monotonic()
        label = "refresh " + ", ".join(f'"{refresh.view.name}"' for refresh in planned)
        wanted = [(refresh.kernel, refresh.piece) for refresh in planned]
        answers = run_by_kernel(self._store, wanted, label=label, cancellation=cancellation)
        for refresh, answer in zip(planned, answers, strict=True):
            found[refresh.view.id] = self._keep(refresh, answer, time.monotonic() - started)
        return found

    def _wait(self, view: ContinuousView, state: CatalogState, cancellation: Cancellation | None) -> None:
        """Until a view's pipelines have all up to the SCN of a cut."""
        try:
            self.fill(view.id, cancellation)
            for entry, reader in self._readers_for(view, state):
                wait_for(self._store, entry, reader, state.scn, cancellation)
        except UndefinedName:
            raise _gone(view) from None

    def _planned(
        self,
        view: ContinuousView,
        state: CatalogState,
        settings: Mapping[str, object],
        cancellation: Cancellation | None,
    ) -> Refresh:
        inner = self._refreshed(self.inner_views(view), state, settings, cancellation)
        return self._planned_now(view, state, settings, inner)

    def _readers_for(self, view: ContinuousView, state: CatalogState) -> list[tuple[ReaderEntry, PipelineReader]]:
        readers = self.readers_of(view.id)
        if not readers and self.plan(view, state).pipelines:
            raise _gone(view)
        return readers

    def _planned_now(
        self,
        view: ContinuousView,
        state: CatalogState,
        settings: Mapping[str, object],
        inner: Mapping[int, Result] | None = None,
    ) -> Refresh:
        """With what its pipelines have now."""
        kept = self.kept_of(self._readers_for(view, state), state)
        plan, folder = self.plan(view, state), self._results_folder(view.id)
        return plan_refresh(self._store, view, plan, kept, Moment(state, inner or {}), settings, folder)

    @staticmethod
    def kept_of(readers: Sequence[tuple[ReaderEntry, PipelineReader]], state: CatalogState) -> Inputs:
        """What the pipelines of a view have up to an SCN."""
        files = dict[str, list[KeptFile]]()
        for _, reader in readers:
            files.setdefault(reader.state.program.name, []).extend(reader.state.upto(state.scn))
        return Inputs({reader.state.program.name: reader.state.program for _, reader in readers}, files)

    def _keep(self, refresh: Refresh, answer: Answer, seconds: float) -> Result:
        id, result = refresh.view.id, refresh.result(answer, seconds)
        with self._lock:
            before = self._results.get(id)
            self._results[id] = result
            count, spent = self.refreshes.get(id, (0, 0.0))
            self.refreshes[id] = (count + 1, spent + result.seconds)
        for file in before.files if before is not None else ():
            file.doom()
        return result

    def _results_folder(self, view_id: int) -> str:
        return str(self._store.path / "staging" / f"view-{view_id}")

    def input_of(self, view: ContinuousView, result: Result, columns: Sequence[str]) -> Files:
        """A result as an input: files name its columns by their place."""
        kinds = dict(view.columns)
        places = {name: f"c{number}" for number, name in enumerate(view.column_names)}
        shown = tuple(FileColumn(name, kinds[name], places[name]) for name in columns)
        return Files(
            tuple(file.path for file in result.files),
            shown,
            rows=result.rows,
            bytes=sum(file.bytes for file in result.files),
        )


class HowToCut(TypedDict):
    keep_rows: bool
    pairs: bool
    unit: int | None


def how_to_cut(kernel: str, maintenance: str, unit: int | None = None) -> HowToCut:
    """What a view's options mean for its plan: pairs of windows are DuckDB's."""
    return {"keep_rows": maintenance == "reevaluate", "pairs": kernel != "spark", "unit": unit}


def how_it_is_cut(view: ContinuousView) -> HowToCut:
    return how_to_cut(view.kernel, view.maintenance, view.unit)


def _gone(view: ContinuousView) -> TransactionConflict:
    return TransactionConflict(
        f'view "{view.name}" was dropped or replaced by a concurrent transaction', hint="Run the query again."
    )


def _pipelines(taken: Taken) -> list[Taking]:
    return [(reader, taken.batch) for reader in taken.readers if isinstance(reader, PipelineReader)]
