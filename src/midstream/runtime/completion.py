"""Which windows are complete: what the clocks of a view's pipelines say, window by window.

A window is complete when every stream that it reads has come past its end. Of sessions, the rows tell where they end.

    Completion(store, views).spans(view, plan, log, now)     # the windows that are due, in order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from midstream.errors import StorageError
from midstream.maintenance.engine import Cancellation, Piece
from midstream.plan.cut import ViewPlan
from midstream.plan.windows import session_words
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.view import ContinuousView
from midstream.relations.window import Window
from midstream.runtime.clocks import lateness_of
from midstream.runtime.pipelines import PipelineReader
from midstream.runtime.refreshing import sources_for
from midstream.runtime.results import Moment
from midstream.runtime.states import as_input
from midstream.runtime.store import Store
from midstream.runtime.window_job import Span, inputs_of
from midstream.runtime.window_log import KEPT_WINDOWS, WindowLog

if TYPE_CHECKING:
    from midstream.runtime.views import Views

MANY = 1000
"""Of more windows by time that are due at once, those that bring nothing new have no result but for the last."""
LAST_SCN = 2**62
_NOTHING = Moment(CatalogState(0, {}, {}), {})
"""What a query sees that reads states alone."""


@dataclass(frozen=True)
class Due:
    """Windows that are complete and have no result yet."""

    numbers: Sequence[int]
    firsts: Mapping[int, int]


class Completion:
    def __init__(self, store: Store, views: Views) -> None:
        self._store = store
        self._views = views

    def progress(self, view: ContinuousView, now: int | None = None) -> int | None:
        """How far the stream of a session view has come."""
        found = [self.position(entry, reader, now) for entry, reader in self._views.readers_of(view.id)]
        known = [position for position in found if position is not None]
        return min(known) if known and len(known) == len(found) else None

    def due(
        self,
        view: ContinuousView,
        plan: ViewPlan,
        log: WindowLog,
        now: int | None,
        ahead: Mapping[int, int] | None = None,
    ) -> Due:
        """`ahead`: as if some of the readers had come so far."""
        readers = self._views.readers_of(view.id)
        lasts: list[int] = []
        begins: list[int] = []
        firsts = dict(log.firsts)
        for index, (window, streams) in enumerate(zip(plan.windows, plan.window_streams, strict=True)):
            own = [r for r in readers if r[1].feed.slots == window.slots and r[0].stream_id in streams]
            positions = [(ahead or {}).get(entry.id, self.position(entry, reader, now)) for entry, reader in own]
            known = [position for position in positions if position is not None]
            if not own:
                # Nobody reads it: a WITH query that is not used, say.
                continue
            if len(known) < len(own):
                return Due((), firsts)
            lasts.append(min(window.last_before(position) for position in known))
            clocks = [reader.state.clock for _, reader in own if reader.state.clock is not None]
            lows = [clock.low for clock in clocks if clock.low is not None]
            if lows and (log.next is None or index not in firsts):
                firsts[index] = min(lows)
            if lows or not window.slots.is_time:
                begins.append(window.first_with(min(lows, default=0)))
        first = log.next if log.next is not None else min(begins, default=None)
        if first is None or not lasts:
            return Due((), firsts)
        return Due(range(first, min(lasts) + 1), firsts)

    def position(self, entry: ReaderEntry, reader: PipelineReader, now: int | None) -> int | None:
        """How far a pipeline has come in its stream: what comes later is behind that."""
        clock, slots = reader.state.clock, reader.feed.slots
        if clock is None or slots is None:
            return None
        if slots.by == "rows":
            return clock.rows
        if slots.by == "column":
            return self._watermark(entry, reader)
        if now is not None and not self._store.streams.has_news(entry.stream_id, entry.absorbed, LAST_SCN):
            return now
        return clock.arrived

    @staticmethod
    def _watermark(entry: ReaderEntry, reader: PipelineReader) -> int | None:
        """A stream's own time may have come far before the view was made."""
        try:
            clock = reader.clock_at(entry.absorbed)
        except StorageError:
            # Who follows the stream's time has yet to come so far.
            return None
        return clock.watermark(lateness_of(reader.stream))

    def spans(self, view: ContinuousView, plan: ViewPlan, log: WindowLog, now: int | None) -> list[Span]:
        due = self.due(view, plan, log, now)
        log.firsts.update(due.firsts)
        if view.backfill and log.next is None:
            # Nobody can have waited for windows of the history, and only these would be kept.
            due = replace(due, numbers=due.numbers[-(view.retain_windows or KEPT_WINDOWS) :])
        numbers = self._occupied(view, plan, due) if _may_skip(plan, due) else due.numbers
        return spans_of(plan, log, numbers)

    def sessions(
        self, view: ContinuousView, plan: ViewPlan, log: WindowLog, now: int | None, stop: Cancellation | None
    ) -> tuple[list[Span], tuple[int, int] | None]:
        """The sessions that have ended since the last look, in the order of their ends; how far that was looked, and
        since when a session is open."""
        progress = self.progress(view, now)
        if progress is None or progress == log.looked:
            return [], None
        [window], [times] = plan.windows, plan.times
        # Files stay as long as they are held: a merge may end meanwhile.
        kept = inputs_of(self._views.readers_of(view.id), LAST_SCN)
        sources = sources_for(self._store, plan, times.scans, kept, {}, _NOTHING, "duckdb")
        piece = sources.piece(sessions_query(times.sql("duckdb"), window, log.looked, progress))
        [answer] = self._store.engine.run("duckdb", [piece], label=f'sessions of "{view.name}"', cancellation=stop)
        del kept
        assert answer.table is not None
        rows = [tuple(row.values()) for row in answer.table.to_pylist()]
        ended = [row for row in rows if row[1] <= progress][log.more :]
        first = log.next or 0
        spans = [
            Span(first + place, session_words(0, start, end, keys, window.slots), end, tuple(keys))
            for place, (start, end, *keys) in enumerate(ended)
        ]
        return spans, (progress, min([row[0] for row in rows if row[1] > progress], default=progress))

    def now(self, view: ContinuousView, plan: ViewPlan, stop: Cancellation | None) -> int | None:
        """The time by which every row has been absorbed that arrived before it, where windows go by arrival."""
        if not any(window.slots.by == "arrival" for window in plan.windows):
            return None
        streams = self._store.streams
        with streams.journal.alone():
            now, scn = streams.journal.now(), streams.journal.last_scn
        for entry, _ in self._views.readers_of(view.id):
            streams.wait(entry.id, scn, cancellation=stop)
        return int(now * 1e6)

    def _occupied(self, view: ContinuousView, plan: ViewPlan, due: Due) -> list[int]:
        """Of very many windows by time, those that a row is in, or comes to if they only grow, and the last ones: the
        time of a stream may jump."""
        kept = inputs_of(self._views.readers_of(view.id), LAST_SCN)
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


def spans_of(plan: ViewPlan, log: WindowLog, numbers: Sequence[int]) -> list[Span]:
    window = plan.windows[0]
    return [Span(number, plan.window_words(number, log.firsts), window.end(number)) for number in numbers]


def sessions_query(times: str, window: Window, looked: int | None, progress: int) -> str:
    """Sessions with their ends and keys: those that ended between two looks, and those that are still open."""
    keys = [f"c{place + 1}" for place in range(len(window.by))]
    listed = "".join(f", {key}" for key in keys)
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    marked = (
        f"SELECT c0{listed}, CASE WHEN c0 - lag(c0) OVER ({by}ORDER BY c0) < {window.gap} THEN 0 ELSE 1 END AS begins "
        f"FROM ({times}) AS times"
    )
    numbered = f"SELECT c0{listed}, sum(begins) OVER ({by}ORDER BY c0) AS session FROM ({marked}) AS marked"
    sessions = (
        f"SELECT min(c0) AS start, max(c0) + {window.gap} AS ends{listed} FROM ({numbered}) AS numbered "
        f"GROUP BY session{listed}"
    )
    after = f" WHERE ends > {looked}" if looked is not None else ""
    return f"SELECT * FROM ({sessions}) AS sessions{after} ORDER BY ends, start{listed}"


def _may_skip(plan: ViewPlan, due: Due) -> bool:
    return all(window.slots.is_time for window in plan.windows) and len(due.numbers) > MANY
