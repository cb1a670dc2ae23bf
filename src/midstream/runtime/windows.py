"""Views over windows at work: when windows are complete, their results are computed, all that are due in one job.

A thread looks after them: it is woken when rows have been absorbed, and by the clock where windows go by arrival. A
reader of such a view does the same for the view it reads, so it sees every window that the rows before it complete.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from midstream.errors import Cancelled, Error
from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Cancellation, Piece, WriteParquet
from midstream.plan.cut import ViewPlan
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.view import ContinuousView
from midstream.relations.window import Window
from midstream.runtime.clocks import lateness_of
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.query import choose_kernel
from midstream.runtime.refreshing import Inputs, sources_for
from midstream.runtime.results import WINDOW, Moment, Result
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile, as_input
from midstream.runtime.store import Store
from midstream.runtime.window_log import WindowLog, WindowResult
from midstream.types import BIGINT

if TYPE_CHECKING:
    from midstream.runtime.views import Views

AT_ONCE = 64
"""So many windows are one query."""
MANY = 1000
"""Of more windows by time that are due at once, only the last empty ones have a result."""
_RETRY = 1.0

Readers = Sequence[tuple[ReaderEntry, PipelineReader]]


@dataclass(frozen=True)
class _Due:
    """Windows that are complete and have no result yet."""

    numbers: Sequence[int]
    firsts: Mapping[int, int]


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

    def drop(self, view_id: int) -> None:
        with self._lock:
            log = self._logs.pop(view_id, None)
            self._failed.pop(view_id, None)
        self._store.catalog.forget(_name(view_id))
        for result in log.results if log is not None else ():
            if result.file is not None:
                result.file.doom()

    def failure(self, view_id: int) -> Error | None:
        """What keeps a view from its next window."""
        found = self._failed.get(view_id)
        return found[1] if found is not None else None

    def _all(self) -> list[ContinuousView]:
        relations = self._store.catalog.state.relations.values()
        return [view for view in relations if isinstance(view, ContinuousView) and view.is_windowed]

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._patience())
            self._wake.clear()
            for view in self._all():
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

    def _patience(self) -> float | None:
        """Until when nothing can be due by the clock."""
        slides = [w.slide for view in self._all() for w in self._plan(view) if w.slots.by == "arrival"]
        if self._failed:
            return _RETRY
        if not slides:
            return None
        now = int(time.time() * 1e6)
        return max(min(slide - now % slide for slide in slides) / 1e6, 0.001)

    def _plan(self, view: ContinuousView) -> tuple[Window, ...]:
        try:
            return self._views.plan(view).windows
        except Error:
            return ()

    # --- which windows are complete --------------------------------------------------------------

    def settled(self, view: ContinuousView) -> Result | None:
        """The newest result, if nothing has come that could complete another window."""
        plan = self._views.plan(view)
        streams, state = self._store.streams, self._store.catalog.state
        if any(window.slots.by == "arrival" for window in plan.windows):
            return None
        for entry, _ in self._views.readers_of(view.id):
            if streams.has_news(entry.stream_id, entry.absorbed, state.scn):
                return None
        log = self.log_of(view)
        return None if self._due(view, plan, log, None).numbers else self._result(view, log, state)

    def _due(self, view: ContinuousView, plan: ViewPlan, log: WindowLog, now: int | None) -> _Due:
        readers = self._views.readers_of(view.id)
        lasts: list[int] = []
        begins: list[int] = []
        firsts = dict(log.firsts)
        for index, (window, streams) in enumerate(zip(plan.windows, plan.window_streams, strict=True)):
            own = [r for r in readers if r[1].feed.slots == window.slots and r[0].stream_id in streams]
            positions = [self._position(entry, reader, now) for entry, reader in own]
            known = [position for position in positions if position is not None]
            if not own or len(known) < len(own):
                return _Due((), firsts)
            lasts.append(min(window.last_before(position) for position in known))
            clocks = [reader.state.clock for _, reader in own if reader.state.clock is not None]
            lows = [clock.low for clock in clocks if clock.low is not None]
            if lows and log.next is None:
                firsts[index] = min(lows)
            if lows or not window.slots.is_time:
                begins.append(window.first_with(min(lows, default=0)))
        first = log.next if log.next is not None else min(begins, default=None)
        if first is None or not lasts:
            return _Due((), firsts)
        return _Due(range(first, min(lasts) + 1), firsts)

    def _position(self, entry: ReaderEntry, reader: PipelineReader, now: int | None) -> int | None:
        """How far a pipeline has come in its stream: what comes later is behind that."""
        clock, slots = reader.state.clock, reader.feed.slots
        if clock is None or slots is None:
            return None
        if slots.by == "rows":
            return clock.rows
        if slots.by == "column":
            return clock.watermark(lateness_of(reader.stream))
        if now is not None and not self._store.streams.has_news(entry.stream_id, entry.absorbed, _LAST_SCN):
            return now
        return clock.arrived

    # --- computing -------------------------------------------------------------------------------

    def newest(
        self, view: ContinuousView, state: CatalogState, settings: Mapping[str, object], stop: Cancellation | None
    ) -> Result:
        """The result of the newest window that is complete with all that came up to an SCN."""
        for entry, _ in self._views.readers_of(view.id):
            self._store.streams.wait(entry.id, state.scn, cancellation=stop)
        return self._result(view, self.advance(view, state, settings, stop), state)

    def _result(self, view: ContinuousView, log: WindowLog, state: CatalogState) -> Result:
        newest, every = log.results[-1:], list(log.results)
        return Result(
            state,
            state.scn,
            _files(newest),
            {},
            {},
            0.0,
            0,
            windows=_span(newest),
            every=Result(state, state.scn, _files(every), {}, {}, 0.0, 0, windows=_span(every)),
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
            plan, log = self._views.plan(view, state), self.log_of(view)
            now = self._now(view, plan, stop)
            due = self._due(view, plan, log, now)
            log.firsts.update(due.firsts)
            if due.numbers:
                numbers = self._occupied(view, plan, due) if _may_skip(plan, due) else due.numbers
                with self._seen(view, plan, state, stop) as picture:
                    for start in range(0, len(numbers), AT_ONCE * self._store.engine.cores):
                        part = numbers[start : start + AT_ONCE * self._store.engine.cores]
                        self._compute(view, plan, log, part, picture, settings, stop)
                        if self._stop.is_set():
                            break
            return log

    def _now(self, view: ContinuousView, plan: ViewPlan, stop: Cancellation | None) -> int | None:
        """The time by which every row has been absorbed that arrived before it, where windows go by arrival."""
        if not any(window.slots.by == "arrival" for window in plan.windows):
            return None
        streams = self._store.streams
        with streams.journal.alone():
            now, scn = streams.journal.now(), streams.journal.last_scn
        for entry, _ in self._views.readers_of(view.id):
            streams.wait(entry.id, scn, cancellation=stop)
        return int(now * 1e6)

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

    def _compute(
        self,
        view: ContinuousView,
        plan: ViewPlan,
        log: WindowLog,
        numbers: Sequence[int],
        picture: Moment,
        settings: Mapping[str, object],
        stop: Cancellation | None,
    ) -> None:
        kept = self._inputs(view, picture.state.scn)
        words = plan.words(datetime.now(timezone.utc), picture.state.scn)
        upper = plan.upper({**words, **plan.window_words(numbers[0], log.firsts)})
        forced = {**settings, "kernel": "spark"} if view.kernel == "spark" else {**settings, "kernel": "auto"}
        sources = sources_for(self._store, plan, upper, kept, {}, picture, "duckdb")
        kernel = choose_kernel(upper, sources.bytes, forced).kernel
        if kernel != "duckdb":
            sources = sources_for(self._store, plan, upper, kept, {}, picture, kernel)
        os.makedirs(self.folder(view.id), exist_ok=True)
        texts = plan.window_texts(words, numbers, log.firsts, kernel)
        columns = ((WINDOW, BIGINT), *((f"c{n}", output.type) for n, output in enumerate(upper.outputs)))
        output = WriteParquet(self.folder(view.id), columns, compressed=False)
        size = min(-(-len(numbers) // self._store.engine.cores), AT_ONCE)
        chunks = [slice(start, start + size) for start in range(0, len(numbers), size)]
        pieces = [
            sources.piece(_together(numbers[chunk], texts[chunk], kernel), output, (_counts(kernel),))
            for chunk in chunks
        ]
        answers = self._run_pieces(view, kernel, pieces, stop)
        results: list[WindowResult] = []
        for chunk, answer in zip(chunks, answers, strict=True):
            files = kept_files(self._store, [answer], picture.state.scn)
            results += _results(plan.windows[0], numbers[chunk], answer, files[0] if files else None, picture.state.scn)
        self._record(view, log, results)

    def _run_pieces(
        self, view: ContinuousView, kernel: Kernel, pieces: Sequence[Piece], stop: Cancellation | None
    ) -> list[Answer]:
        run, label = self._store.engine.run, f'windows of "{view.name}"'
        if kernel == "duckdb":
            return run(kernel, pieces, label=label, cancellation=stop)
        return [answer for piece in pieces for answer in run(kernel, [piece], label=label, cancellation=stop)]

    def _record(self, view: ContinuousView, log: WindowLog, results: Sequence[WindowResult]) -> None:
        with self._lock:
            log.add(results)
            gone = log.trim(view)
            self._store.catalog.keep(_name(view.id), log.written())
        for file in gone:
            file.doom()
        with self.news:
            self.news.notify_all()

    def _inputs(self, view: ContinuousView, scn: int) -> Inputs:
        files: dict[str, list[KeptFile]] = {}
        readers = self._views.readers_of(view.id)
        for _, reader in readers:
            state = reader.state
            own = state.upto(scn) if reader.feed.slots is None else list(state.files)
            files.setdefault(state.program.name, []).extend(own)
        return Inputs({reader.state.program.name: reader.state.program for _, reader in readers}, files)

    def _occupied(self, view: ContinuousView, plan: ViewPlan, due: _Due) -> list[int]:
        """Of very many windows by time, those that a row is in, and the last: the time of a stream may jump."""
        kept = self._inputs(view, 2**62)
        slots: set[int] = set()
        for name, program in kept.programs.items():
            if program.slot_key is None or not kept.files.get(name):
                continue
            text = f'SELECT DISTINCT "{program.slot_key}" AS slot FROM kept'
            piece = Piece(text, {"kept": as_input(kept.files[name], program.columns)})
            [answer] = self._store.engine.run("duckdb", [piece], label="look for windows with rows")
            assert answer.table is not None
            slots |= set(answer.table.column(0).to_pylist())
        numbers = set(due.numbers[-max(view.retain_windows or 0, MANY) :])
        for window in plan.windows:
            for slot in slots:
                first = window.first_with(slot)
                numbers |= set(range(first, first + -(-(window.size or 0) // window.slide) + 1))
        return sorted(number for number in numbers if due.numbers[0] <= number <= due.numbers[-1])


_LAST_SCN = 2**62


def _may_skip(plan: ViewPlan, due: _Due) -> bool:
    by_time = all(window.slots.is_time and window.size is not None for window in plan.windows)
    return by_time and len(due.numbers) > MANY


def _name(view_id: int) -> str:
    return f"windows {view_id}"


def _together(numbers: Sequence[int], texts: Sequence[str], kernel: Kernel) -> str:
    """The results of several windows as one query."""
    quote = '"' if kernel == "duckdb" else "`"
    parts = [
        f"SELECT CAST({number} AS BIGINT) AS {quote}{WINDOW}{quote}, result.* FROM ({text}) AS result"
        for number, text in zip(numbers, texts, strict=True)
    ]
    return " UNION ALL ".join(parts)


def _counts(kernel: Kernel) -> tuple[str, str]:
    quote = '"' if kernel == "duckdb" else "`"
    column = f"{quote}{WINDOW}{quote}"
    return "counts", f"SELECT {column} AS number, count(*) AS n FROM output GROUP BY {column}"


def _results(
    window: Window, numbers: Sequence[int], answer: Answer, file: KeptFile | None, scn: int
) -> Iterator[WindowResult]:
    counts = {row["number"]: row["n"] for row in answer.checks["counts"].to_pylist()}
    for number in numbers:
        rows = counts.get(number, 0)
        yield WindowResult(number, rows, scn, time.time(), window.end(number), file if rows else None)


def _files(results: Sequence[WindowResult]) -> tuple[KeptFile, ...]:
    return tuple({id(r.file): r.file for r in results if r.file is not None}.values())


def _span(results: Sequence[WindowResult]) -> tuple[int, int]:
    return (results[0].number, results[-1].number) if results else (0, -1)
