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
from midstream.runtime.beside import FEW_ROWS, Taking, has_interval, over_batches
from midstream.runtime.clocks import lateness_of
from midstream.runtime.pairs import NewPairs
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.refreshing import Inputs
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.totals import NewTotal
from midstream.runtime.window_job import Span, WindowJob, results_of
from midstream.runtime.window_log import WindowResult, files_of


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
class ForeseenMeans:
    """What the windows after these are made from: the total of a pipeline, or pairs."""

    view_id: int
    number: int
    """The last of these windows."""
    made: NewTotal | NewPairs
    piece: Piece
    store: Foreknowledge

    def settle(self, answer: Answer, scn: int) -> None:
        self.store.add_means(self, answer, scn)


@dataclass(frozen=True)
class Means:
    """The same when it has been computed."""

    number: int
    made: NewTotal | NewPairs
    files: list[KeptFile]


class Foreknowledge:
    """What was foreseen and has yet to be handed out. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._known: dict[int, list[list[WindowResult]]] = {}
        """For each view, the windows of each batch."""
        self._means: dict[int, dict[str, Means]] = {}

    def add(self, foreseen: Foreseen, answer: Answer, scn: int) -> None:
        files = kept_files(self._store, [answer], scn)
        results = list(results_of(foreseen.spans, answer, files, scn))
        with self._lock:
            self._known.setdefault(foreseen.view_id, []).append(results)

    def add_means(self, foreseen: ForeseenMeans, answer: Answer, scn: int) -> None:
        means = Means(foreseen.number, foreseen.made, kept_files(self._store, [answer], scn))
        with self._lock:
            known = self._means.setdefault(foreseen.view_id, {})
            before = known.get(foreseen.made.program.name)
            known[foreseen.made.program.name] = means
        if before is not None:
            _doom(before)

    def take_means(self, view_id: int, number: int | None) -> list[Means]:
        """What was made of a window, if it is known; of others it is forgotten."""
        with self._lock:
            known = self._means.pop(view_id, {})
        for means in known.values():
            if means.number != number:
                _doom(means)
        return [means for means in known.values() if means.number == number]

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
                for file in files_of(results):
                    file.doom()
        return taken

    def drop(self, view_id: int) -> None:
        self.take(view_id, ())
        self.take_means(view_id, None)


def _doom(means: Means) -> None:
    for file in means.files:
        file.doom()


def foresee(job: WindowJob, takings: Sequence[Taking], store: Foreknowledge) -> list[Foreseen | ForeseenMeans]:
    """What computes windows that batches complete, and what comes next is made from; nothing where that is better done
    by itself."""
    asked = job.asked(len(job.spans))
    number, every = job.spans[-1].number, [*asked.scans, *job.pair_scans()]
    if asked.kernel != "duckdb" or not all(isinstance(scan.relation, Derived) for scan in every):
        return []
    os.makedirs(job.folder, exist_ok=True)
    made: list[tuple[NewTotal | NewPairs, Piece]] = [*job.total_pieces(asked.scans), *job.pair_pieces(asked)]
    return [
        Foreseen(job.view.id, job.spans, over_batches(asked.pieces[0], every, takings), job.kept, store),
        *(
            ForeseenMeans(job.view.id, number, means, over_batches(piece, every, takings), store)
            for means, piece in made
        ),
    ]


def can_be_foreseen(view: ContinuousView, plan: ViewPlan, takings: Sequence[Taking]) -> bool:
    """Whether windows are to be had by a query over states alone, and the batches are small."""
    if plan.times or plan.reads or view.kernel == "spark" or sum(batch.rows for _, batch in takings) > FEW_ROWS:
        return False
    programs = [reader.state.program for reader, _ in takings]
    return not any(program.kernel != "duckdb" or has_interval(program) for program in programs)


def position_after(reader: PipelineReader, batch: Batch) -> int | None:
    """How far a pipeline will have come; None: only its rows tell."""
    slots, clock = reader.feed.slots, reader.clock_after(batch)
    if slots is None or clock is None or slots.by == "arrival":
        return None
    return clock.rows if slots.by == "rows" else clock.watermark(lateness_of(reader.stream))
