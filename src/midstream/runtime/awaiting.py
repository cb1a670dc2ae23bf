"""Answers that somebody waits for, computed in the job that absorbs the last rows they need."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from midstream.log.batches import Batch
from midstream.maintenance.engine import Answer, Piece
from midstream.plan.cut import ViewPlan
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.view import ContinuousView
from midstream.runtime.beside import FEW_ROWS, has_interval, over_batches
from midstream.runtime.pipelines import PipelineReader
from midstream.runtime.refreshing import Refresh
from midstream.runtime.store import Store

Readers = Sequence[tuple[ReaderEntry, PipelineReader]]


@dataclass
class Wanted:
    """Views whose answers at the SCN of a cut somebody waits for, and those that were computed meanwhile."""

    views: Sequence[ContinuousView]
    state: CatalogState
    settings: Mapping[str, object]
    found: dict[int, tuple[Refresh, Answer, float]] = field(default_factory=dict)
    is_over: bool = False


@dataclass(frozen=True)
class _Foreseen:
    wanted: Wanted
    refresh: Refresh
    lock: threading.Lock
    started: float = field(default_factory=time.monotonic)

    @property
    def piece(self) -> Piece:
        return self.refresh.piece

    def settle(self, answer: Answer, scn: int) -> None:
        with self.lock:
            if not self.wanted.is_over:
                self.wanted.found[self.refresh.view.id] = (self.refresh, answer, time.monotonic() - self.started)
                return
        for file in answer.files:
            Path(file.path).unlink(missing_ok=True)


class Awaiting:
    """Thread-safe."""

    def __init__(
        self,
        store: Store,
        plan: Callable[[ContinuousView, CatalogState], ViewPlan],
        readers_of: Callable[[int], Readers],
        planned: Callable[[ContinuousView, CatalogState, Mapping[str, object]], Refresh],
    ) -> None:
        self._store = store
        self._plan, self._readers_of, self._planned = plan, readers_of, planned
        self._lock = threading.Lock()
        self._wanted: list[Wanted] = []

    @contextmanager
    def asked(
        self, views: Sequence[ContinuousView], state: CatalogState, settings: Mapping[str, object]
    ) -> Iterator[Wanted]:
        """While somebody waits for the rows that answers need."""
        wanted = Wanted(views, state, settings)
        with self._lock:
            self._wanted.append(wanted)
        try:
            yield wanted
        finally:
            with self._lock:
                self._wanted.remove(wanted)
                wanted.is_over = True

    def foresee(self, readers: Sequence[PipelineReader], batch: Batch) -> list[_Foreseen]:
        """What can be answered when some pipelines have absorbed a batch."""
        if batch.rows > FEW_ROWS:
            return []
        with self._lock:
            asked = [(wanted, view) for wanted in self._wanted for view in wanted.views]
        found = []
        for wanted, view in asked:
            # The view may just be dropped, say.
            with suppress(Exception):
                refresh = self._foreseen(wanted, view, readers, batch)
                if refresh is not None:
                    found.append(_Foreseen(wanted, refresh, self._lock))
        return found

    def _foreseen(
        self, wanted: Wanted, view: ContinuousView, readers: Sequence[PipelineReader], batch: Batch
    ) -> Refresh | None:
        own, state = self._readers_of(view.id), wanted.state
        due = [reader for _, reader in own if reader in readers]
        if not due or batch.upto > state.scn or self._plan(view, state).reads:
            return None
        if any(reader.state.backfill is not None for _, reader in own):
            return None
        for entry, reader in own:
            absorbed = batch.upto if reader in due else entry.absorbed
            if self._store.streams.has_news(entry.stream_id, absorbed, state.scn):
                return None
            if reader.kernel != "duckdb" or reader.feed.slots is not None or has_interval(reader.state.program):
                return None
        refresh = self._planned(view, state, wanted.settings)
        if refresh.kernel != "duckdb":
            return None
        piece = over_batches(refresh.piece, refresh.upper.scans, [(reader, batch) for reader in due])
        return replace(refresh, piece=piece, beside=batch.rows)
