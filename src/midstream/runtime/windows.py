"""Views over windows at work: when windows are complete, their results are computed, all that are due in one job.

A thread looks after them: it is woken when rows have been absorbed, and by the clock where windows go by arrival. A
reader of such a view does the same for the view it reads, so it sees every window that the rows before it complete.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING
from weakref import WeakSet

from midstream.errors import Cancelled, DataError, Error, InternalError
from midstream.log.journal import Insert
from midstream.maintenance.engine import Cancellation
from midstream.plan.cut import Program, ViewPlan
from midstream.plan.windows import session_words
from midstream.relations.catalog import CatalogState
from midstream.relations.view import ContinuousView
from midstream.relations.window import EVER, Window
from midstream.runtime.beside import Taking
from midstream.runtime.chunking import Chunking
from midstream.runtime.completion import Completion, spans_of
from midstream.runtime.following import Follower
from midstream.runtime.foreseeing import Foreknowledge, Means, can_be_foreseen, foresee, position_after
from midstream.runtime.idling import Idling
from midstream.runtime.lateness import is_behind, wait_for
from midstream.runtime.pairs import NO_PAIRS, Pairs
from midstream.runtime.pipelines import PipelineReader
from midstream.runtime.readers import Foresight
from midstream.runtime.results import Moment, Result
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.totals import NewTotal, Total
from midstream.runtime.trials import Trial
from midstream.runtime.window_job import AT_ONCE, Span, WindowJob
from midstream.runtime.window_log import WindowLog, WindowResult, files_of
from midstream.runtime.window_rows import rows_of

if TYPE_CHECKING:
    from midstream.runtime.views import Views

_RETRY = 1.0
PAIRS, ANEW = "pairs", "anew"


@dataclass
class Spent:
    """What the windows of a view have cost since the database was opened."""

    windows: int = 0
    """Computed in jobs of their own,"""
    jobs: int = 0
    seconds: float = 0.0
    last_windows: int = 0
    last_seconds: float = 0.0
    foreseen: int = 0
    """and in those that absorbed their last rows."""

    def add(self, windows: int, seconds: float) -> None:
        self.windows, self.jobs, self.seconds = self.windows + windows, self.jobs + 1, self.seconds + seconds
        self.last_windows, self.last_seconds = windows, seconds


class Windows:
    """Thread-safe."""

    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views
        self._logs: dict[int, WindowLog] = {}
        self._lock = threading.RLock()
        self.news = threading.Condition()
        """Told whenever a window has a result."""
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._cancellation = Cancellation()
        self._thread = threading.Thread(target=self._run, name="midstream-windows", daemon=True)
        self._failed: dict[int, tuple[float, Error]] = {}
        self._followers: dict[int, WeakSet[Follower]] = {}
        self.spent: dict[int, Spent] = {}
        self.chunking: dict[int, Chunking] = {}
        """In how many chunks the newest basic window of a view by rows is absorbed."""
        self.trials: dict[int, Trial] = {}
        """How joins of windows are kept where the view leaves it open."""
        self.completion = Completion(store, views)
        self._foreknown = Foreknowledge(store)
        self._idling = Idling(store, views, self)

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        self._cancellation.cancel()
        with self.news:
            self.news.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Rows have been absorbed."""
        self._wake.set()

    def folder(self, view_id: int) -> str:
        return str(self._store.path / "views" / f"windows-{view_id}")

    def log_of(self, view: ContinuousView) -> WindowLog:
        with self._lock:
            if view.id not in self._logs:
                text = self._store.catalog.kept(_name(view.id))
                self._logs[view.id] = WindowLog.read(text, self.folder(view.id)) if text else WindowLog()
            return self._logs[view.id]

    def needed(self, view: ContinuousView, plan: ViewPlan) -> dict[str, str] | None:
        """The words of the next window: what is dead for it is dead for all that come. None: none has begun."""
        log = self.log_of(view)
        if plan.times:
            if log.horizon is None:
                return None
            return session_words(0, log.horizon, log.horizon, [""] * len(plan.windows[0].by), plan.windows[0].slots)
        return plan.window_words(log.next, log.firsts) if log.next is not None else None

    def first_needed(self, view: ContinuousView, plan: ViewPlan, program: Program) -> int:
        """The first basic window of a state that a window to come has, or that leaves with it."""
        log = self.log_of(view)
        slots = {feed.slots for feed in program.feeds.values()}
        if log.next is None:
            return EVER
        number = log.next - 1 if program.name in log.totals else log.next
        firsts = [w.slots_of(number)[0] for w in plan.windows if w.slots in slots]
        return min(firsts, default=EVER)

    def collapsed(self, view: ContinuousView, plan: ViewPlan, program: Program) -> tuple[int, int | None] | None:
        """For landmarks: basic windows before this one are one for all windows to come, and after how many basic
        windows they begin anew. None: they must be told apart."""
        log = self.log_of(view)
        slots = {feed.slots for feed in program.feeds.values()}
        own = [window for window in plan.windows if window.slots in slots and window.slots.landmark is not None]
        if not own or plan.pairs or log.next is None:
            return None
        reset = own[0].reset // own[0].slots.unit if own[0].reset is not None else None
        return min(window.slots_of(log.next - 1)[1] for window in own), reset

    def drop(self, view_id: int) -> None:
        with self._lock:
            log = self._logs.pop(view_id, None)
            self._failed.pop(view_id, None)
            self.chunking.pop(view_id, None)
            self.trials.pop(view_id, None)
            self._followers.pop(view_id, None)
        self._foreknown.drop(view_id)
        self._store.catalog.forget(_name(view_id))
        for file in log.files if log is not None else ():
            file.doom()

    def failure(self, view_id: int) -> Error | None:
        """What keeps a view from its next window."""
        found = self._failed.get(view_id)
        return found[1] if found is not None else None

    # --- those who follow a view -----------------------------------------------------------------

    def follow(self, view: ContinuousView, taken: Callable[[WindowLog], int]) -> Follower:
        """Somebody who reads the results of a view one after the other from now on. `taken`: how many it has had."""
        with self._lock:
            follower = Follower(taken(self.log_of(view)))
            self._followers.setdefault(view.id, WeakSet()).add(follower)
            return follower

    def unfollow(self, view: ContinuousView, follower: Follower) -> None:
        with self._lock:
            self._followers.get(view.id, WeakSet()).discard(follower)

    def waiting(self, view: ContinuousView, follower: Follower) -> tuple[list[WindowResult], int]:
        """The results that a follower has yet to take, and how many of them are gone."""
        with self._lock:
            log = self.log_of(view)
            return follower.waiting(log), follower.missed(log)

    def take(self, view: ContinuousView, follower: Follower) -> None:
        """A follower has the next result."""
        with self._lock:
            follower.take(self.log_of(view))

    def _hold(self, view: ContinuousView, first: int, dropped: Sequence[WindowResult]) -> None:
        for follower in self._followers.get(view.id, ()):
            follower.hold(first, dropped)

    def all(self) -> list[ContinuousView]:
        relations = self._store.catalog.state.relations.values()
        return [view for view in relations if isinstance(view, ContinuousView) and view.is_windowed]

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._patience())
            self._wake.clear()
            with suppress(Error):
                # A view may be dropped meanwhile: the next look is soon.
                self._idling.move()
            self._set_chunks()
            for view in self.all():
                if self._stop.is_set():
                    return
                self._attend(view)

    def _attend(self, view: ContinuousView) -> None:
        failed = self._failed.get(view.id)
        if failed is not None and time.monotonic() - failed[0] < _RETRY:
            return
        try:
            self.advance(view, None, DEFAULTS, self._cancellation)
            self._failed.pop(view.id, None)
        except Cancelled:
            pass
        except Error as failure:
            # The view may have been dropped meanwhile; else it is tried again, and readers are told.
            self._failed[view.id] = (time.monotonic(), failure)
        except Exception as fault:
            self._failed[view.id] = (
                time.monotonic(),
                InternalError("a window could not be computed", detail=repr(fault)),
            )

    def _patience(self) -> float | None:
        """Until when nothing can be due by the clock."""
        windows = [w for view in self.all() for w in self._plan(view) if w.slots.by == "arrival"]
        if any(window.gap is not None for window in windows):
            return min([_RETRY, *(window.gap / 2e6 for window in windows if window.gap is not None)])
        slides = [window.slide for window in windows]
        if self._failed or self._idling.seconds:
            return _RETRY / 2
        if not slides:
            return None
        now = int(time.time() * 1e6)
        return max(min(slide - now % slide for slide in slides) / 1e6, 0.001)

    def _plan(self, view: ContinuousView) -> tuple[Window, ...]:
        try:
            return self._views.plan(view).windows
        except Error:
            return ()

    # --- reading ---------------------------------------------------------------------------------

    def settled(self, view: ContinuousView) -> Result | None:
        """The newest result, if nothing has come that could complete another window."""
        plan = self._views.plan(view)
        streams, state = self._store.streams, self._store.catalog.state
        if any(window.slots.by == "arrival" for window in plan.windows):
            return None
        for entry, reader in self._views.readers_of(view.id):
            if reader.state.backfill is not None or streams.has_news(entry.stream_id, entry.absorbed, state.scn):
                return None
            if reader.clock is not None and is_behind(self._store, entry.stream_id, state.scn):
                return None
        log = self.log_of(view)
        if plan.times:
            progress = self.completion.progress(view)
            return self._result(view, log, state) if progress in (None, log.looked) else None
        return None if self.completion.due(view, plan, log, None).numbers else self._result(view, log, state)

    # --- computing -------------------------------------------------------------------------------

    def foresee(self, due: Sequence[Taking], others: Sequence[Taking]) -> list[Foresight]:
        """The windows that a batch completes, to be computed in the job that absorbs it. `others` absorb batches of
        other streams at the same time."""
        found: list[Foresight] = []
        for view in self.all():
            own = [taking for taking in due if view.id in taking[0].state.views]
            beside = [taking for taking in others if view.id in taking[0].state.views and _by_rows(taking[0])]
            if own and view.id not in self._failed:
                # Nothing depends on it but speed: the view may just be dropped, say.
                with suppress(Exception):
                    found += self._foreseen_of(view, own, beside)
        return found

    def _foreseen_of(
        self, view: ContinuousView, due: Sequence[Taking], others: Sequence[Taking]
    ) -> Sequence[Foresight]:
        log, readers = self.log_of(view), self._views.readers_of(view.id)
        if log.next is None or any(reader.feed.slots is None for _, reader in readers):
            return ()
        plan = self._chosen_plan(view)
        if self._is_tried_by_time(view, plan):
            return ()
        # What is about to be absorbed counts only where it is needed.
        for takings in (due, [*due, *others]) if others else (due,):
            numbers = self._completed(view, plan, log, takings)
            if numbers:
                spans = spans_of(plan, log, numbers)
                job = self._job(view, plan, log, Moment(self._store.catalog.state, {}), DEFAULTS, spans)
                return foresee(job, takings, self._foreknown)
        return ()

    def _completed(
        self, view: ContinuousView, plan: ViewPlan, log: WindowLog, takings: Sequence[Taking]
    ) -> Sequence[int]:
        """The windows that some batches complete, if they can be foreseen."""
        ahead = {reader.id: place for reader, batch in takings if (place := position_after(reader, batch)) is not None}
        if len(ahead) < len(takings) or not can_be_foreseen(view, plan, takings):
            return ()
        numbers = self.completion.due(view, plan, log, None, ahead).numbers
        return numbers if len(numbers) <= AT_ONCE else ()

    def _chosen_plan(self, view: ContinuousView, state: CatalogState | None = None) -> ViewPlan:
        """Of a join of windows, the way that took less time: by pairs of basic windows, or anew over all rows."""
        plan = self._views.plan(view, state)
        if not plan.pairs or view.maintenance != "auto":
            return plan
        trial = self.trials.setdefault(view.id, Trial((PAIRS, ANEW)))
        return plan if trial.way == PAIRS else self._views.plan(view, state, pairs=False)

    def _is_tried_by_time(self, view: ContinuousView, plan: ViewPlan) -> bool:
        """Whether the next windows are to be computed in jobs of their own, to see how long that takes."""
        trial = self.trials.get(view.id)
        return trial is not None and not trial.is_over and any(window.slots.is_time for window in plan.windows)

    def newest(
        self, view: ContinuousView, state: CatalogState, settings: Mapping[str, object], stop: Cancellation | None
    ) -> Result:
        """The result of the newest window that is complete with all that came up to an SCN."""
        for entry, reader in self._views.readers_of(view.id):
            wait_for(self._store, entry, reader, state.scn, stop)
        return self._result(view, self.advance(view, state, settings, stop), state)

    def at_hand(self, view: ContinuousView, state: CatalogState) -> Result:
        """The newest result that is there, whether or not another window is complete."""
        return self._result(view, self.log_of(view), state)

    def _result(self, view: ContinuousView, log: WindowLog, state: CatalogState) -> Result:
        every = log.kept(view)
        newest = list({result.key: result for result in every}.values())
        return Result(
            state,
            state.scn,
            tuple(files_of(newest)),
            {},
            {},
            0.0,
            0,
            windows=tuple(result.number for result in newest),
            every=Result(
                state, state.scn, tuple(files_of(every)), {}, {}, 0.0, 0, windows=tuple(r.number for r in every)
            ),
        )

    def advance(
        self,
        view: ContinuousView,
        state: CatalogState | None,
        settings: Mapping[str, object],
        stop: Cancellation | None,
    ) -> WindowLog:
        """Computes the results of all windows that are complete."""
        with self._views.turn(view.id):
            plan, log = self._chosen_plan(view, state), self.log_of(view)
            self._views.fill(view.id, stop)
            self._hand_on(view, log)
            now = self.completion.now(view, plan, stop)
            ended: tuple[int, int] | None = None
            spans: Sequence[Span]
            if plan.times:
                spans, ended = self.completion.sessions(view, plan, log, now, stop)
            else:
                spans = self.completion.spans(view, plan, log, now)
            if spans:
                with self._seen(view, plan, state, stop) as picture:
                    spans = self._hand_out_foreknown(view, plan, log, spans, picture, stop)
                    for start in range(0, len(spans), AT_ONCE * self._store.engine.cores):
                        part = spans[start : start + AT_ONCE * self._store.engine.cores]
                        self._compute_or_tell(
                            view, part, lambda spans: self._compute(view, plan, log, spans, picture, settings, stop)
                        )
                        if self._stop.is_set():
                            return log
            if ended is not None:
                self._look_on(view, log, *ended)
            return log

    def _compute_or_tell(
        self, view: ContinuousView, spans: Sequence[Span], compute: Callable[[Sequence[Span]], None]
    ) -> None:
        """Windows together; if their query fails, those before the one that fails, and then which that is. A view that
        waits fails at its first window, so that is looked at first."""
        try:
            compute(spans)
        except DataError as failure:
            if len(spans) == 1:
                raise _at_window(failure, view, spans[0].number) from failure
            middle = (len(spans) + 1) // 2
            for part in (spans[:1], spans[1:middle], spans[middle:]):
                if part:
                    self._compute_or_tell(view, part, compute)

    def _look_on(self, view: ContinuousView, log: WindowLog, looked: int, horizon: int) -> None:
        """Sessions that had ended are handed out. If there were any, that is written down before their rows can go."""
        with self._lock:
            after = replace(log, looked=looked, horizon=horizon, more=0)
            if log.more:
                self._store.catalog.keep(_name(view.id), after.written())
            log.become(after)

    @contextmanager
    def _seen(
        self, view: ContinuousView, plan: ViewPlan, state: CatalogState | None, stop: Cancellation | None
    ) -> Iterator[Moment]:
        """What results are computed with beside the windows: everything at one SCN."""
        plain = [entry for entry, reader in self._views.readers_of(view.id) if reader.feed.slots is None]
        is_plain = not plain and not plan.reads
        with nullcontext(state or self._store.catalog.state) if state or is_plain else self._store.streams.cut() as at:
            for entry in plain:
                self._store.streams.wait(entry.id, at.scn, cancellation=stop)
            yield Moment(at, self._views.results_of(plan.reads, at, stop))

    def _hand_out_foreknown(
        self,
        view: ContinuousView,
        plan: ViewPlan,
        log: WindowLog,
        spans: Sequence[Span],
        picture: Moment,
        stop: Cancellation | None,
    ) -> Sequence[Span]:
        """The windows that are left when those are handed out whose results are known."""
        known = self._foreknown.take(view.id, spans)
        means = self._foreknown.take_means(view.id, known[-1].number if known else None)
        if known:
            pairs, totals, gone = _usable(log, means)
            self._record(view, log, known, pairs, totals)
            self._watch(view, plan)
            self.spent.setdefault(view.id, Spent()).foreseen += len(known)
            self._job(view, plan, log, picture, DEFAULTS, ()).sum_up(stop)
            for file in gone:
                file.doom()
        return spans[len(known) :]

    def _job(
        self,
        view: ContinuousView,
        plan: ViewPlan,
        log: WindowLog,
        picture: Moment,
        settings: Mapping[str, object],
        spans: Sequence[Span],
    ) -> WindowJob:
        readers = self._views.readers_of(view.id)
        positions = {entry.id: self.completion.position(entry, reader, None) for entry, reader in readers}
        folder = self.folder(view.id)
        return WindowJob(self._store, view, plan, log, readers, spans, picture, settings, folder, positions)

    def _compute(
        self,
        view: ContinuousView,
        plan: ViewPlan,
        log: WindowLog,
        spans: Sequence[Span],
        picture: Moment,
        settings: Mapping[str, object],
        stop: Cancellation | None,
    ) -> None:
        computed = self._job(view, plan, log, picture, settings, spans).run(stop)
        self.spent.setdefault(view.id, Spent()).add(len(spans), computed.seconds)
        self._record(view, log, computed.results, computed.pairs, computed.totals)
        trial = self.trials.get(view.id)
        if trial is not None and any(window.slots.is_time for window in plan.windows):
            # When the last row of a window by time came says nothing of how long its answer took.
            trial.saw(computed.seconds / len(spans))
        self._watch(view, plan)
        for file in computed.gone:
            file.doom()

    def _watch(self, view: ContinuousView, plan: ViewPlan) -> None:
        """How long an answer took decides how the next windows are computed, and in how many chunks their newest basic
        windows are absorbed."""
        if any(window.slots.is_time for window in plan.windows):
            return
        readers = self._views.readers_of(view.id)
        arrived = [r.state.clock.arrived for _, r in readers if r.state.clock is not None and r.state.clock.arrived]
        if arrived:
            seconds, trial = max(time.time() - max(arrived) / 1e6, 0.0), self.trials.get(view.id)
            if trial is not None:
                trial.saw(seconds)
            if trial is None or trial.is_over:
                # One thing at a time: what two searches change at once, neither can tell apart.
                self.chunking.setdefault(view.id, Chunking()).saw(seconds)
        self._set_chunks()

    def _set_chunks(self) -> None:
        """The rows of a stream that are absorbed at once: the fewest that a view over it asks for."""
        found: dict[int, int] = {}
        for view in self.all():
            try:
                plan = self._views.plan(view)
            except Error:
                continue
            chunks = self.chunking[view.id].chunks if view.id in self.chunking else 1
            for window, streams in zip(plan.windows, plan.window_streams, strict=True):
                for id in streams if not window.slots.is_time else ():
                    found[id] = min(found.get(id, window.slide), max(window.slide // chunks, 1))
        self._store.streams.chunks = found

    def _record(
        self,
        view: ContinuousView,
        log: WindowLog,
        results: Sequence[WindowResult],
        pairs: Mapping[str, Pairs],
        totals: Mapping[str, Total],
    ) -> None:
        placed = self._placed(view, self._after_all_before(log, results))
        has_readers = placed[-1].place is not None
        with self._lock:
            old = [total.file for total in log.totals.values() if total.file is not None]
            after = log.with_results(placed, pairs, totals)
            first, gone = after.dropped, after.trim(view) if not has_readers else []
            self._store.catalog.keep(_name(view.id), after.written())
            log.become(after)
            self._hold(view, first, gone)
        if has_readers:
            # What others have yet to be handed is kept until they have it.
            self._hand_on(view, log)
            with self._lock:
                first, gone = log.dropped, log.trim(view)
                self._store.catalog.keep(_name(view.id), log.written())
                self._hold(view, first, gone)
        for file in (*log.unneeded(gone), *old):
            file.doom()
        with self.news:
            self.news.notify_all()

    def _after_all_before(self, log: WindowLog, results: Sequence[WindowResult]) -> Sequence[WindowResult]:
        """Who goes on behind an SCN gets the results that have a later one. Windows may close without a commit, by the
        clock, or by rows of commits that a result before was computed after: such results take an SCN of their own."""
        last = log.last_scn
        if all(result.scn > last for result in results):
            return results
        is_seen = any(result.rows for result in results)
        scn = self._store.streams.journal.append(Insert({})) if is_seen else last
        return [replace(result, scn=scn) for result in results]

    def _placed(self, view: ContinuousView, results: Sequence[WindowResult]) -> list[WindowResult]:
        """Each result with how many rows will have been handed to the views over this one, if there is any."""
        journal = self._store.streams.journal
        if not journal.is_wanted(view.id):
            return list(results)
        places = accumulate((result.rows for result in results), initial=journal.standing(view.id).rows)
        return [replace(result, place=place) for result, place in zip(results, list(places)[1:], strict=True)]

    def _hand_on(self, view: ContinuousView, log: WindowLog) -> None:
        """Gives views over this one the windows that they have yet to get. How many rows they have got is in the log of
        what they were given, so each window comes once, also when the process has died in between."""
        streams = self._store.streams
        got = streams.journal.standing(view.id).rows
        new = [result for result in log.results if result.place is not None and result.rows and result.place > got]
        for _, rows in rows_of(self._store, view, new):
            if not streams.journal.is_wanted(view.id):
                return
            streams.hand_on(view.basket, rows)


def _by_rows(reader: PipelineReader) -> bool:
    """Which windows its rows are in is known whatever becomes of the batch that they come in."""
    return reader.feed.slots is not None and reader.feed.slots.by == "rows"


def _usable(log: WindowLog, found: Sequence[Means]) -> tuple[dict[str, Pairs], dict[str, Total], list[KeptFile]]:
    """Pairs and totals that were foreseen, and files that nobody needs then. Pairs are new beside those that were kept
    when they were computed, and beside no others."""
    pairs, totals, gone = dict[str, Pairs](), dict[str, Total](), list[KeptFile]()
    for means in found:
        name = means.made.program.name
        if isinstance(means.made, NewTotal):
            totals[name] = Total(means.number, means.files[0] if means.files else None)
        elif log.pairs.get(name, NO_PAIRS) is means.made.kept:
            pairs[name], old = means.made.after(means.files)
            gone += old
        else:
            gone += means.files
    return pairs, totals, gone


def _at_window(failure: DataError, view: ContinuousView, number: int) -> DataError:
    """What a view's query says of the rows of a window, with which window that is and the way on."""
    return DataError(
        failure.message,
        detail=f'The query of view "{view.name}" fails for window {number}. '
        "Windows come in order, so the view waits there.",
        hint="CREATE OR REPLACE VIEW with a query that bears such rows, with nullif or a condition, say.",
        sqlstate=failure.sqlstate,
    )


def _name(view_id: int) -> str:
    return f"windows {view_id}"
