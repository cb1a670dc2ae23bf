"""Streams that have gone quiet: their own time goes on without rows, so that no window waits for ever.

A stream is quiet when nothing has come for as long as the setting `idle` says. Where a view has other streams that are
not, it follows the slowest of these, window by window; where all are quiet, it goes behind the last window that has
rows. What comes later for windows that were closed so is late. The watermark moves to ends of windows only, so nothing
is late that no window has missed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from midstream.plan.cut import ViewPlan
from midstream.relations.catalog import ReaderEntry
from midstream.relations.view import ContinuousView
from midstream.relations.window import EVER, Window
from midstream.runtime.clocks import Clock
from midstream.runtime.completion import LAST_SCN
from midstream.runtime.lateness import LATE, LateReader
from midstream.runtime.pipelines import PipelineReader
from midstream.runtime.store import Store

if TYPE_CHECKING:
    from midstream.runtime.views import Views
    from midstream.runtime.windows import Windows


class Idling:
    """Used by one thread."""

    def __init__(self, store: Store, views: Views, windows: Windows) -> None:
        self._store = store
        self._views = views
        self._windows = windows
        self._seen: dict[int, float] = {}
        """Since when readers are known to which no row has come."""

    @property
    def seconds(self) -> float:
        """After so many seconds without rows, a stream's own time goes on by itself; 0: never."""
        return float(self._store.catalog.setting("idle") or 0.0)

    def move(self) -> None:
        """Moves the time of every stream that is quiet."""
        if not self.seconds:
            self._seen.clear()
            return
        clocks = {e.stream_id: (e, r) for e, r in self._store.streams.readers_of(LATE) if isinstance(r, LateReader)}
        quiet = {id for id in clocks if time.time() - self._last_arrival(id) > self.seconds}
        for id in quiet:
            ends = [end for view in self._windows.all() for end in self._ends(view, id, quiet)]
            if ends:
                self._move(*clocks[id], max(ends))

    def _last_arrival(self, stream_id: int) -> float:
        """When the newest row came that windows have seen; now, if one is on its way."""
        now, found = time.time(), list[float]()
        for entry, reader in self._by_its_time(stream_id):
            if self._store.streams.has_news(stream_id, entry.absorbed, LAST_SCN):
                return now
            clock = reader.state.clock
            arrived = clock.arrived if clock is not None else None
            found.append(arrived / 1e6 if arrived is not None else self._seen.setdefault(entry.id, now))
        return max(found, default=now)

    def _by_its_time(self, stream_id: int) -> list[tuple[ReaderEntry, PipelineReader]]:
        readers = self._views.readers()
        return [(e, r) for e, r in readers if e.stream_id == stream_id and r.clock is not None]

    def _ends(self, view: ContinuousView, stream_id: int, quiet: set[int]) -> Iterator[int]:
        """Up to where a view asks a quiet stream to go on."""
        plan = self._views.plan(view)
        own = [window for window, id in _streams_of(plan) if id == stream_id and window.slots.by == "column"]
        if not own:
            return
        moving = [(window, id) for window, id in _streams_of(plan) if id not in quiet]
        if not moving:
            for window, id in _streams_of(plan):
                high = self._high(id)
                if high is not None:
                    yield window.last_end_with(high)
            return
        now = int(self._store.streams.journal.now() * 1e6)
        others = {id for _, id in moving}
        readers = [pair for pair in self._views.readers_of(view.id) if pair[0].stream_id in others]
        positions = [
            self._windows.completion.position(*pair, now) for pair in readers if pair[1].feed.slots is not None
        ]
        known = [position for position in positions if position is not None]
        if known and len(known) == len(positions):
            yield min(known) // own[0].slide * own[0].slide

    def _high(self, stream_id: int) -> int | None:
        found = [r.time.high for e, r in self._store.streams.readers_of(LATE)
                 if isinstance(r, LateReader) and e.stream_id == stream_id]  # fmt: skip
        return next(iter(found), None)

    def _move(self, entry: ReaderEntry, late: LateReader, watermark: int) -> None:
        own = self._by_its_time(entry.stream_id)
        clocks = [late.time, *(reader.state.clock for _, reader in own)]
        if not any(_is_behind(clock, watermark) for clock in clocks):
            return
        streams = self._store.streams
        with streams.journal.alone():
            if any(streams.has_news(e.stream_id, e.absorbed, LAST_SCN) for e in (entry, *(e for e, _ in own))):
                return
            streams.rewrite(entry.id, lambda: late.move(watermark))
            for reader_entry, reader in own:
                streams.rewrite(reader_entry.id, partial(reader.move, watermark))


def _streams_of(plan: ViewPlan) -> Iterator[tuple[Window, int]]:
    for window, ids in zip(plan.windows, plan.window_streams, strict=True):
        for id in ids:
            yield window, id


def _is_behind(clock: Clock | None, watermark: int) -> bool:
    return clock is not None and (clock.floor if clock.floor is not None else EVER) < watermark
