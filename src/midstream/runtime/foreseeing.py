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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from midstream.kernels import kernel_type, quote_name
from midstream.log.batches import Batch
from midstream.maintenance.engine import Answer, Piece, Rows, WriteParquet
from midstream.plan import BoundQuery
from midstream.plan.cut import ViewPlan
from midstream.relations.view import ContinuousView
from midstream.runtime.clocks import lateness_of
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.refreshing import Inputs
from midstream.runtime.results import WINDOW
from midstream.runtime.store import Store
from midstream.runtime.window_job import AT_ONCE, Span, WindowJob, results_of
from midstream.runtime.window_log import WindowLog, WindowResult
from midstream.types import BIGINT

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


def foresee(
    job: Callable[[Sequence[Span]], WindowJob],
    plan: ViewPlan,
    view: ContinuousView,
    log: WindowLog,
    reader: PipelineReader,
    batch: Batch,
    folder: str,
    store: Foreknowledge,
) -> Foreseen | None:
    """None: the batch completes no window, or its result is no simple query over one state."""
    every = plan.all_windows()
    if every is None or "duckdb" in every.refusals or log.next is None or plan.reads or batch.rows > FEW_ROWS:
        return None
    program = reader.state.program
    if view.kernel == "spark" or program.kernel != "duckdb" or program.keeps_rows:
        return None
    if any("interval" in str(kind) for _, kind in program.columns):
        return None
    [window] = plan.windows
    position = _position_after(reader, batch)
    last = window.last_before(position) if position is not None else log.next - 1
    numbers = range(log.next, last + 1)
    if not numbers or len(numbers) > AT_ONCE:
        return None
    spans = [Span(number, plan.window_words(number, log.firsts), window.end(number)) for number in numbers]
    own = job(spans)
    return Foreseen(view.id, spans, _piece(own, every, reader, batch, folder), own.kept, store)


def _position_after(reader: PipelineReader, batch: Batch) -> int | None:
    """How far a pipeline will have come; None: only its rows tell."""
    slots, clock = reader.feed.slots, reader.clock_after(batch)
    if slots is None or clock is None or slots.by == "arrival":
        return None
    return clock.rows if slots.by == "rows" else clock.watermark(lateness_of(reader.stream))


def _piece(
    job: WindowJob,
    every: BoundQuery,
    reader: PipelineReader,
    batch: Batch,
    folder: str,
) -> Piece:
    """The job knows the state as it is, with just those files in which the sums are that it takes."""
    os.makedirs(folder, exist_ok=True)
    columns = ((WINDOW, BIGINT), *((f"c{n}", output.type) for n, output in enumerate(every.outputs[1:])))
    plain = job.all_windows_piece(every, job.spans, WriteParquet(folder, columns, compressed=False))
    own, program = reader.piece_of(batch), reader.state.program
    absorbed = ", ".join(
        f"CAST(#{place} AS {kernel_type(kind, 'duckdb')}) AS {quote_name(name, 'duckdb')}"
        for place, (name, kind) in enumerate(program.columns, 1)
    )
    views = [*own.views, ("absorbed", f"SELECT {absorbed} FROM ({own.sql}) AS made")]
    inputs = dict(own.inputs)
    for name, given in plain.inputs.items():
        if isinstance(given, Rows):
            inputs[name] = given
            continue
        listed = ", ".join(quote_name(column.name, "duckdb") for column in given.columns)
        inputs[f"{name}_before"] = given
        before = quote_name(f"{name}_before", "duckdb")
        views.append((name, f"SELECT {listed} FROM {before} UNION ALL SELECT {listed} FROM absorbed"))
    return Piece(plain.sql, inputs, tuple(views), plain.output, plain.checks)
