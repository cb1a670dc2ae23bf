"""The job that gives complete windows their results.

Windows of a simple query are one query, with the window's number as one more key; of any other, each is a query of its
own, and many are put together as one text. Where sums of basic windows are there, they stand for the many. The same job
writes what comes next: new sums, and what new pairs of rows of two windows come to.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import pyarrow as pa

from midstream.ingest.arrow_types import arrow_type
from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Cancellation, Piece, Rows, WriteParquet
from midstream.plan import BoundQuery, Scan
from midstream.plan.cut import ViewPlan
from midstream.plan.cut.together import END, NUMBER, START, WINDOW_SLOT
from midstream.relations.catalog import ReaderEntry
from midstream.relations.view import ContinuousView, Derived
from midstream.relations.window import Window
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.pairs import NO_PAIRS, NewPairs, Pairs, new_pairs
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.query import choose_kernel
from midstream.runtime.reading import Sources
from midstream.runtime.refreshing import Inputs, sources_for
from midstream.runtime.results import WINDOW, Moment
from midstream.runtime.states import KeptFile, as_input
from midstream.runtime.store import Store
from midstream.runtime.summaries import Sum, levels_of, scope, sums_due
from midstream.runtime.totals import NewTotal, Total, new_total
from midstream.runtime.window_log import WindowLog, WindowResult
from midstream.types import BIGINT

AT_ONCE = 64
"""So many windows are one query."""

Readers = Sequence[tuple[ReaderEntry, PipelineReader]]


@dataclass(frozen=True)
class Span:
    """A window that is complete: what its query takes from it, and where it ends."""

    number: int
    words: Mapping[str, str]
    end: int
    key: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """What gives windows their results: pieces, each for a chunk of them."""

    kernel: Kernel
    sources: Sources
    chunks: Sequence[Sequence[Span]]
    pieces: list[Piece]
    scans: Sequence[Scan]


@dataclass(frozen=True)
class Computed:
    """What a job has made."""

    results: list[WindowResult]
    pairs: dict[str, Pairs]
    totals: dict[str, Total]
    gone: list[KeptFile]
    """Files that are no longer needed once that is written down."""
    seconds: float


def inputs_of(readers: Readers, scn: int) -> Inputs:
    """What is kept for a view: of windows all, of the rest what came up to an SCN."""
    files: dict[str, list[KeptFile]] = {}
    for _, reader in readers:
        state = reader.state
        own = state.upto(scn) if reader.feed.slots is None else list(state.files)
        files.setdefault(state.program.name, []).extend(own)
        files |= {name: list(static.files) for name, static in state.statics.items()}
    return Inputs({reader.state.program.name: reader.state.program for _, reader in readers}, files)


@dataclass
class WindowJob:
    store: Store
    view: ContinuousView
    plan: ViewPlan
    log: WindowLog
    readers: Readers
    spans: Sequence[Span]
    picture: Moment
    settings: Mapping[str, object]
    folder: str
    positions: Mapping[int, int | None]
    """How far each reader has come in its stream."""
    summed: dict[int, dict[int, int]] = field(init=False)
    kept: Inputs = field(init=False)
    pairs: list[NewPairs] = field(init=False)
    totals: dict[str, NewTotal] = field(init=False)
    """By pipeline, what the groups of the last window will come to."""

    def __post_init__(self) -> None:
        # Sums are looked at before the files: a sum that is known is in them.
        self.summed = {id(reader): dict(reader.state.summed) for _, reader in self.readers}
        self.pairs = self._new_pairs()
        kept = inputs_of(self.readers, self.picture.state.scn)
        self.kept = Inputs(kept.programs, {**kept.files, **{p.program.name: p.kept.files for p in self.pairs}})
        self.totals = {total.program.name: total for total in self._new_totals()}

    def run(self, stop: Cancellation | None) -> Computed:
        os.makedirs(self.folder, exist_ok=True)
        size = min(-(-len(self.spans) // self.store.engine.cores), AT_ONCE)
        asked = self.asked(size)
        pieces = asked.pieces + [piece for _, piece in self.pair_pieces(asked)]
        totals = self.total_pieces(asked.scans) if asked.kernel == "duckdb" else []
        pieces += [piece for _, piece in totals]
        started = time.monotonic()
        sums = self._sums()
        held = [list(reader.state.files) for _, reader, _ in sums]
        answers = self._run([*((asked.kernel, piece) for piece in pieces), *_sum_pieces(sums)], stop)
        self._keep_sums(sums, answers[len(pieces) :])
        del held
        seconds = time.monotonic() - started
        return self._computed(asked.chunks, [total for total, _ in totals], answers, seconds)

    def asked(self, size: int) -> Asked:
        """The windows, so many of them in one piece."""
        words = self.plan.words(datetime.now(timezone.utc), self.picture.state.scn)
        upper = self.plan.upper({**words, **self.spans[0].words})
        kernel, sources = self._sources(upper)
        columns = ((WINDOW, BIGINT), *((f"c{n}", output.type) for n, output in enumerate(upper.outputs)))
        output = WriteParquet(self.folder, columns, compressed=False)
        chunks = [self.spans[start : start + size] for start in range(0, len(self.spans), size)]
        every = self.plan.all_windows() if kernel == "duckdb" else None
        if every is not None and "duckdb" not in every.refusals:
            pieces = [self._all_windows_piece(every, chunk, output) for chunk in chunks]
            return Asked(kernel, sources, chunks, pieces, every.scans)
        pieces = self._pieces(upper, words, kernel, sources, chunks, output)
        return Asked(kernel, sources, chunks, pieces, upper.scans)

    def sum_up(self, stop: Cancellation | None) -> None:
        """Makes the sums of basic windows that can be made now."""
        sums = self._sums()
        if sums:
            held = [list(reader.state.files) for _, reader, _ in sums]
            self._keep_sums(sums, self._run(_sum_pieces(sums), stop))
            del held

    def _computed(
        self,
        chunks: Sequence[Sequence[Span]],
        new_totals: Sequence[NewTotal],
        answers: Sequence[Answer],
        seconds: float,
    ) -> Computed:
        scn, gone, paired = self.picture.state.scn, list[KeptFile](), dict[str, Pairs]()
        for new, answer in zip(self.pairs, answers[len(chunks) :], strict=False):
            paired[new.program.name], old = new.after(kept_files(self.store, [answer], scn))
            gone += old
        results: list[WindowResult] = []
        for chunk, answer in zip(chunks, answers, strict=False):
            files = kept_files(self.store, [answer], scn)
            results += results_of(chunk, answer, files, scn)
        totals = dict[str, Total]()
        for total, answer in zip(new_totals, answers[len(chunks) + len(self.pairs) :], strict=False):
            files = kept_files(self.store, [answer], scn)
            totals[total.program.name] = Total(total.number, files[0] if files else None)
        return Computed(results, paired, totals, gone, seconds)

    def _sources(self, upper: BoundQuery) -> tuple[Kernel, Sources]:
        kernel = "spark" if self.view.kernel == "spark" else "duckdb" if self.pairs else "auto"
        sources = sources_for(self.store, self.plan, upper.scans, self.kept, {}, self.picture, "duckdb")
        choice = choose_kernel(upper, sources.bytes, {**self.settings, "kernel": kernel}).kernel
        if choice != "duckdb":
            sources = sources_for(self.store, self.plan, upper.scans, self.kept, {}, self.picture, choice)
        return choice, sources

    # --- one query for all windows ---------------------------------------------------------------

    def _all_windows_piece(self, every: BoundQuery, spans: Sequence[Span], output: WriteParquet) -> Piece:
        sources = Sources("duckdb")
        for scan in every.scans:
            if scan.source == "state":
                program = self.kept.programs[scan.relation.name]
                if self._is_moved(program.name):
                    self._add_total(sources, scan)
                    continue
                kinds = [(name, kind) for name, kind in program.columns if name in scan.columns]
                sources.inputs[scan.name] = as_input(self.kept.files.get(program.name, ()), kinds)
            else:
                kind = dict(scan.relation.columns)[START] if isinstance(scan.relation, Derived) else BIGINT
                sources.inputs[scan.name] = Rows(self._window_rows(spans, arrow_type(kind)))
        return sources.piece(every.sql("duckdb"), output, _counts(spans, "duckdb"))

    def _window_rows(self, spans: Sequence[Span], shown: pa.DataType) -> pa.Table:
        """A row for each basic window, or sum of them, of each window."""
        [window] = self.plan.windows
        numbers: list[int] = []
        slots: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        summed = [self.summed[id(reader)] for _, reader in self.readers]
        for span in spans:
            first, last = window.slots_of(span.number)
            own: Sequence[int] = scope(first, last, summed, levels_of(window)) or range(first, last)
            own = [first] if self._is_moved(self.plan.pipelines[0].name) else own
            start, end = window.span(span.number)
            numbers += [span.number] * len(own)
            slots += own
            starts += [start] * len(own)
            ends += [end] * len(own)
        moments = pa.timestamp("us", tz=getattr(shown, "tz", None)) if window.slots.is_time else pa.int64()
        return pa.table(
            {
                NUMBER: pa.array(numbers, pa.int64()),
                WINDOW_SLOT: pa.array(slots, pa.int64()),
                START: pa.array(starts, pa.int64()).cast(moments),
                END: pa.array(ends, pa.int64()).cast(moments),
            }
        )

    # --- a query for each ------------------------------------------------------------------------

    def _pieces(
        self,
        upper: BoundQuery,
        words: Mapping[str, str],
        kernel: Kernel,
        sources: Sources,
        chunks: Sequence[Sequence[Span]],
        output: WriteParquet,
    ) -> list[Piece]:
        texts = self.plan.window_texts(words, [span.words for span in self.spans], kernel)
        if kernel == "duckdb":
            for scan in upper.scans:
                if scan.source == "state" and self._is_moved(scan.relation.name):
                    self._add_total(sources, scan)
            scoped = self._scoped(upper)
            for name in scoped:
                sources.inputs[f"{name}_all"] = sources.inputs.pop(name)
            texts = [_within({n: own[at] for n, own in scoped.items()}, text) for at, text in enumerate(texts)]
        before = self._add_pairs(upper, sources) if self.pairs else ""
        for new in self.pairs:
            name = next(scan.name for scan in upper.scans if scan.relation.name == new.program.name)
            ends = [self.plan.windows[0].slots_of(span.number)[1] for span in self.spans]
            texts = [_within({name: new.upto(end)}, text) for end, text in zip(ends, texts, strict=True)]
        found, start = [], 0
        for chunk in chunks:
            own = texts[start : start + len(chunk)]
            start += len(chunk)
            found.append(sources.piece(before + _together(chunk, own, kernel), output, _counts(chunk, kernel)))
        return found

    def _scoped(self, upper: BoundQuery) -> dict[str, list[str]]:
        """For each state that sums help with, what every window reads of it."""
        found: dict[str, list[str]] = {}
        for scan in upper.scans if not self.plan.times else ():
            own = [reader for _, reader in self.readers if reader.state.program.name == scan.relation.name]
            windows = [w for w in self.plan.windows if any(reader.feed.slots == w.slots for reader in own)]
            if scan.source != "state" or len(windows) != 1 or not levels_of(windows[0]):
                continue
            if self._is_moved(scan.relation.name):
                continue
            texts = self._scopes(windows[0], own, scan.name, scan.columns)
            if texts is not None:
                found[scan.name] = texts
        return found

    def _scopes(
        self, window: Window, own: Sequence[PipelineReader], name: str, columns: Sequence[str]
    ) -> list[str] | None:
        slot, texts = own[0].state.program.slot_key, list[str]()
        for span in self.spans:
            first, last = window.slots_of(span.number)
            taken = scope(first, last, [self.summed[id(reader)] for reader in own], levels_of(window))
            if taken is None:
                return None
            listed = ", ".join(f'CAST({first} AS BIGINT) AS "{c}"' if c == slot else f'"{c}"' for c in columns)
            texts.append(f'SELECT {listed} FROM "{name}_all" WHERE "{slot}" IN ({", ".join(map(str, taken))})')
        return texts

    # --- totals ----------------------------------------------------------------------------------

    def _new_totals(self) -> Iterator[NewTotal]:
        """Of the pipelines whose windows are made one from the other."""
        for name, program in self.kept.programs.items() if self.spans and not self.plan.times else ():
            own = [reader for _, reader in self.readers if reader.state.program.name == name]
            windows = [w for w in self.plan.windows if any(reader.feed.slots == w.slots for reader in own)]
            if len(windows) != 1 or any(pipeline.name == name for pipeline in self.plan.pairs):
                continue
            [window], number = windows, self.spans[-1].number
            first, last = window.slots_of(number)
            merged = scope(first, last, [self.summed[id(reader)] for reader in own], levels_of(window))
            count = len(merged) if merged is not None else last - first
            total = new_total(program, window, number, self.log.totals.get(name), self.kept.files.get(name, ()), count)
            if total is not None:
                yield total

    def _is_moved(self, name: str) -> bool:
        """Whether a window reads the total of a pipeline: several at once are merged from basic windows."""
        return len(self.spans) == 1 and name in self.totals

    def _add_total(self, sources: Sources, scan: Scan) -> None:
        total = self.totals[scan.relation.name]
        sources.inputs.pop(scan.name, None)
        sources.inputs |= total.inputs(scan.name)
        sources.views += total.views(scan.name, scan.columns)
        sources.shared.append(total.name)

    def total_pieces(self, scans: Sequence[Scan]) -> list[tuple[NewTotal, Piece]]:
        """What writes the totals."""
        names = {scan.relation.name: scan.name for scan in scans if scan.source == "state"}
        found = [(total, names[name]) for name, total in self.totals.items() if name in names]
        return [(total, total.piece(scan, self.folder)) for total, scan in found]

    # --- pairs -----------------------------------------------------------------------------------

    def _new_pairs(self) -> list[NewPairs]:
        """The pairs of rows that these windows are the first to have."""
        found = []
        for pipeline in self.plan.pairs if self.spans else ():
            window = self.plan.windows[0]
            first, last = window.slots_of(self.spans[0].number)[0], window.slots_of(self.spans[-1].number)[1]
            kept = self.log.pairs.get(pipeline.name, NO_PAIRS)
            found.append(new_pairs(self.plan.pair_program(pipeline), kept, first, last))
        return found

    def pair_scans(self) -> list[Scan]:
        """What pairs are computed from: the rows of both sides."""
        return list({scan.name: scan for new in self.pairs for scan in new.scans}.values())

    def pair_pieces(self, asked: Asked) -> list[tuple[NewPairs, Piece]]:
        """What writes the pairs."""
        return [(new, new.piece(asked.sources.piece(""), self.folder)) for new in self.pairs]

    def _add_pairs(self, upper: BoundQuery, sources: Sources) -> str:
        """Puts the rows of both sides beside the inputs of the upper query; pairs are computed once for all windows."""
        parts = []
        for new in self.pairs:
            more = sources_for(self.store, self.plan, new.scans, self.kept, {}, self.picture, "duckdb")
            sources.inputs |= more.inputs
            for scan in upper.scans:
                if scan.relation.name == new.program.name:
                    sources.inputs.pop(scan.name)
                    sources.inputs[new.kept_name] = as_input(new.kept.files, new.program.columns)
                    sources.views.append(new.view)
                    sources.shared.append(new.new_name)
                    parts.append(f'"{new.once_name}" AS MATERIALIZED (SELECT * FROM "{new.new_name}")')
        return f"WITH {', '.join(parts)} " if parts else ""

    # --- sums of basic windows -------------------------------------------------------------------

    def _sums(self) -> list[tuple[ReaderEntry, PipelineReader, Sum]]:
        """Sums of basic windows that can be made now."""
        found = []
        for window in self.plan.windows if not self.plan.times else ():
            for entry, reader in self.readers:
                position = self.positions.get(entry.id)
                if reader.feed.slots == window.slots and position is not None:
                    needed = window.slots_of(self.log.next)[0] if self.log.next is not None else 0
                    due = sums_due(reader.state, window, position // window.slots.unit, needed)
                    found += [(entry, reader, one) for one in due]
        return found

    def _keep_sums(self, sums: Sequence[tuple[ReaderEntry, PipelineReader, Sum]], answers: Sequence[Answer]) -> None:
        for (entry, reader, due), answer in zip(sums, answers, strict=True):
            files = kept_files(self.store, [answer], entry.absorbed)

            def summed(reader: PipelineReader = reader, due: Sum = due, files: list[KeptFile] = files) -> str:
                state = reader.state
                if state.summed.get(due.level, 0) <= due.first:
                    state.files = [*state.files, *files]
                    state.summed = {**state.summed, due.level: due.last}
                return state.written()

            self.store.streams.rewrite(entry.id, summed)

    def _run(self, wanted: Sequence[tuple[Kernel, Piece]], stop: Cancellation | None) -> list[Answer]:
        return run_by_kernel(self.store, wanted, label=f'windows of "{self.view.name}"', cancellation=stop)


def _sum_pieces(sums: Sequence[tuple[ReaderEntry, PipelineReader, Sum]]) -> list[tuple[Kernel, Piece]]:
    return [("duckdb", due.piece(reader.state)) for _, reader, due in sums]


def _together(spans: Sequence[Span], texts: Sequence[str], kernel: Kernel) -> str:
    """The results of several windows as one query."""
    quote = '"' if kernel == "duckdb" else "`"
    parts = [
        f"SELECT CAST({span.number} AS BIGINT) AS {quote}{WINDOW}{quote}, result.* FROM ({text}) AS result"
        for span, text in zip(spans, texts, strict=True)
    ]
    return " UNION ALL ".join(parts)


def _within(scans: Mapping[str, str], text: str) -> str:
    """A query whose scans are these."""
    if not scans:
        return text
    listed = ", ".join(f'"{name}" AS ({scan})' for name, scan in scans.items())
    return f"WITH {listed} SELECT * FROM ({text}) AS scoped"


def _counts(spans: Sequence[Span], kernel: Kernel) -> list[tuple[str, str]]:
    """How many rows each window has; all rows are of one that is alone."""
    if len(spans) == 1:
        return []
    quote = '"' if kernel == "duckdb" else "`"
    column = f"{quote}{WINDOW}{quote}"
    return [("counts", f"SELECT {column} AS number, count(*) AS n FROM output GROUP BY {column}")]


def results_of(spans: Sequence[Span], answer: Answer, files: Sequence[KeptFile], scn: int) -> Iterator[WindowResult]:
    if "counts" in answer.checks:
        counts = {row["number"]: row["n"] for row in answer.checks["counts"].to_pylist()}
    else:
        counts = {spans[0].number: sum(file.rows for file in files)}
    for span in spans:
        rows = counts.get(span.number, 0)
        yield WindowResult(span.number, rows, scn, time.time(), span.end, tuple(files) if rows else (), span.key)
