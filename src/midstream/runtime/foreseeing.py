"""Windows that a batch completes, computed in the job that absorbs the batch.

Which windows a batch completes is known before. A window that is complete has its result for good, so what was foreseen
holds whenever it is handed out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from midstream.log.batches import Batch
from midstream.maintenance.engine import Answer, Piece
from midstream.plan.cut import ViewPlan
from midstream.relations.view import ContinuousView, Derived
from midstream.runtime.beside import FEW_ROWS, has_interval, over_batch
from midstream.runtime.clocks import lateness_of
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.refreshing import Inputs
from midstream.runtime.store import Store
from midstream.runtime.totals import NewTotal, Total
from midstream.runtime.window_job import Span, WindowJob, results_of
from midstream.runtime.window_log import WindowResult


@dataclass(frozen=True)
class Foreseen:
    """Windows of a view that a batch completes, and what computes them."""

    view_id: int
    spans: Sequence[Span]
    piece: Piece
    held: Inputs
    """What the piece reads stays as long as it is held."""
    store: Foreknowledge

    def settle(self, answer: Answer, scn: int) -> None:
        self.store.add(self, answer, scn)


@dataclass(frozen=True)
class ForeseenTotal:
    """What the groups of the last of these windows come to."""

    view_id: int
    total: NewTotal
    piece: Piece
    store: Foreknowledge

    def settle(self, answer: Answer, scn: int) -> None:
        self.store.add_total(self, answer, scn)


class Foreknowledge:
    """What was foreseen and has yet to be handed out. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[int, list[list[WindowResult]]] = {}
        """For each view, the windows of each batch."""
        self._totals: dict[int, dict[str, Total]] = {}

    def add(self, foreseen: Foreseen, answer: Answer, scn: int) -> None:
        files = kept_files(self._store, [answer], scn)
        results = list(results_of(foreseen.spans, answer, files[0] if files else None, scn))
        with self._lock:
            self._known.setdefault(foreseen.view_id, []).append(results)

    def add_total(self, foreseen: ForeseenTotal, answer: Answer, scn: int) -> None:
        files = kept_files(self._store, [answer], scn)
        total = Total(foreseen.total.number, files[0] if files else None)
        with self._lock:
            known = self._totals.setdefault(foreseen.view_id, {})
            before = known.get(foreseen.total.program.name)
            known[foreseen.total.program.name] = total
        if before is not None and before.file is not None:
            before.file.doom()

    def take_totals(self, view_id: int, number: int | None) -> dict[str, Total]:
        """The totals of a window, if they are known; those of others are forgotten."""
        with self._lock:
            known = self._totals.pop(view_id, {})
        for total in known.values():
            if total.number != number and total.file is not None:
                total.file.doom()
        return {name: total for name, total in known.items() if total.number == number}

    def take(self, view_id: int, spans: Sequence[Span]) -> list[WindowResult]:
        """The results of the first of some windows, as far as they are known; all others are forgotten. Those of one
        batch share a file, and go together."""
        with self._lock:
            known = self._known.pop(view_id, [])
        taken: list[WindowResult] = []
        for results in known:
            wanted = [span.number for span in spans[len(taken) : len(taken) + len(results)]]
            if [result.number for result in results] == wanted:
                taken += results
            else:
                for file in {id(r.file): r.file for r in results if r.file is not None}.values():
                    file.doom()
        return taken

    def drop(self, view_id: int) -> None:
        self.take(view_id, ())
        self.take_totals(view_id, None)


def foresee(
    job: WindowJob, readers: Sequence[PipelineReader], batch: Batch, store: Foreknowledge
) -> list[Foreseen | ForeseenTotal]:
    """What computes windows that a batch completes, and totals; nothing where that is better done by itself."""
    asked = job.asked(len(job.spans))
    if asked.kernel != "duckdb" or not all(isinstance(scan.relation, Derived) for scan in asked.scans):
        return []
    os.makedirs(job.folder, exist_ok=True)
    piece = over_batch(asked.pieces[0], asked.scans, readers, batch)
    totals = [(total, over_batch(piece, asked.scans, readers, batch)) for total, piece in job.total_pieces(asked.scans)]
    return [
        Foreseen(job.view.id, job.spans, piece, job.kept, store),
        *(ForeseenTotal(job.view.id, total, own, store) for total, own in totals),
    ]


def can_be_foreseen(view: ContinuousView, plan: ViewPlan, readers: Sequence[PipelineReader], batch: Batch) -> bool:
    """Whether windows are to be had by a query over states alone, and the batch is small."""
    if plan.times or plan.reads or plan.pairs or batch.rows > FEW_ROWS or view.kernel == "spark":
        return False
    programs = [reader.state.program for reader in readers]
    return not any(program.kernel != "duckdb" or has_interval(program) for program in programs)


def position_after(reader: PipelineReader, batch: Batch) -> int | None:
    """How far a pipeline will have come; None: only its rows tell."""
    slots, clock = reader.feed.slots, reader.clock_after(batch)
    if slots is None or clock is None or slots.by == "arrival":
        return None
    return clock.rows if slots.by == "rows" else clock.watermark(lateness_of(reader.stream))
