"""Windows that a batch completes, computed in the job that absorbs the batch.

An answer would else take two jobs, one after the other: one to absorb the last rows of a window, one to merge its basic
windows. Which windows a batch completes is known before, so a second task reads what the first is about to write:

    state after  =  state  UNION ALL  the pipeline over the batch

A window that is complete has its result for good, so what was foreseen holds whenever it is handed out. Nothing depends
on it but speed: what is missing is computed as ever.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from midstream.kernels import kernel_type, quote_name
from midstream.log.batches import Batch
from midstream.maintenance.engine import Answer, Files, Piece
from midstream.plan.cut import Program, ViewPlan
from midstream.relations.view import ContinuousView, Derived
from midstream.runtime.clocks import lateness_of
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.refreshing import Inputs
from midstream.runtime.store import Store
from midstream.runtime.window_job import Span, WindowJob, results_of
from midstream.runtime.window_log import WindowResult

FEW_ROWS = 100_000
"""Of a larger batch, the pipeline takes too long to run twice."""


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


class Foreknowledge:
    """What was foreseen and has yet to be handed out. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[int, list[list[WindowResult]]] = {}
        """For each view, the windows of each batch."""

    def add(self, foreseen: Foreseen, answer: Answer, scn: int) -> None:
        files = kept_files(self._store, [answer], scn)
        results = list(results_of(foreseen.spans, answer, files[0] if files else None, scn))
        with self._lock:
            self._known.setdefault(foreseen.view_id, []).append(results)

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


def foresee(job: WindowJob, reader: PipelineReader, batch: Batch, store: Foreknowledge) -> Foreseen | None:
    """What computes windows that a batch completes. None: it is better done by itself."""
    program, asked = reader.state.program, job.asked(len(job.spans))
    if asked.kernel != "duckdb" or not all(isinstance(scan.relation, Derived) for scan in asked.scans):
        return None
    own, [plain] = reader.piece_of(batch), asked.pieces
    views, inputs = [*own.views, ("absorbed", _absorbed(own, program))], {**plain.inputs}
    for scan in asked.scans:
        if scan.relation.name != program.name:
            continue
        # With sums of basic windows, windows take their parts from all of a state.
        name = scan.name if scan.name in inputs else f"{scan.name}_all"
        given = inputs.pop(name)
        assert isinstance(given, Files)
        listed = ", ".join(quote_name(column.name, "duckdb") for column in given.columns)
        inputs[f"{name}_before"] = given
        before = quote_name(f"{name}_before", "duckdb")
        views.append((name, f"SELECT {listed} FROM {before} UNION ALL SELECT {listed} FROM absorbed"))
    names = [*own.inputs, *inputs, *(name for name, _ in (*views, *plain.views))]
    if len(set(names)) < len(names):
        return None
    os.makedirs(job.folder, exist_ok=True)
    piece = Piece(plain.sql, {**own.inputs, **inputs}, (*views, *plain.views), plain.output, plain.checks)
    return Foreseen(job.view.id, job.spans, piece, job.kept, store)


def can_be_foreseen(view: ContinuousView, plan: ViewPlan, reader: PipelineReader, batch: Batch) -> bool:
    """Whether windows are to be had by a query over states alone, and the batch is small."""
    program = reader.state.program
    if plan.times or plan.reads or plan.pairs or batch.rows > FEW_ROWS:
        return False
    if view.kernel == "spark" or program.kernel != "duckdb":
        return False
    return not any("interval" in str(kind) for _, kind in program.columns)


def position_after(reader: PipelineReader, batch: Batch) -> int | None:
    """How far a pipeline will have come; None: only its rows tell."""
    slots, clock = reader.feed.slots, reader.clock_after(batch)
    if slots is None or clock is None or slots.by == "arrival":
        return None
    return clock.rows if slots.by == "rows" else clock.watermark(lateness_of(reader.stream))


def _absorbed(own: Piece, program: Program) -> str:
    """A batch as the partials that it will leave."""
    listed = ", ".join(
        f"CAST(#{place} AS {kernel_type(kind, 'duckdb')}) AS {quote_name(name, 'duckdb')}"
        for place, (name, kind) in enumerate(program.columns, 1)
    )
    return f"SELECT {listed} FROM ({own.sql}) AS made"
