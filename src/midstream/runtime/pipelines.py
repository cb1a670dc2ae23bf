"""A stream pipeline at work: a reader of a stream that turns each batch into a file of partials."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from midstream.kernels import Kernel, quote_name
from midstream.log.batches import Batch
from midstream.log.files import disk_errors
from midstream.maintenance.engine import Answer, Input, Piece, WriteParquet
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID
from midstream.relations.window import PLACE, SLOT
from midstream.runtime.clocks import CLOCK, Clock, Watermarks, history_watermarks, lateness_of, windowed_rows
from midstream.runtime.readers import BATCH, Absorbed, batch_source
from midstream.runtime.states import KeptFile, State, as_input
from midstream.runtime.store import Store

PIPELINE = "pipeline"
LOW = "low"


class PipelineReader:
    stores_rows = False

    def __init__(self, store: Store, stream: Stream, entry: ReaderEntry) -> None:
        self._store = store
        self.stream = stream
        self.id = entry.id
        self.state = State.read(entry.state, str(store.path / "views"))
        self.grown: Callable[[PipelineReader], None] = lambda reader: None
        self.feed = self.state.program.feeds[stream.id]
        self.seed: Callable[[Stream, int], Clock | None] = lambda stream, scn: None
        """How far the stream's own time had come at an SCN, for a pipeline that begins there."""

    @property
    def kernel(self) -> Kernel:
        return self.state.program.kernel

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self.feed_columns())

    @property
    def needs_places(self) -> bool:
        return self.feed.slots is not None

    @property
    def clock(self) -> str | None:
        return self.feed.slots.column if self.feed.slots is not None else None

    def feed_columns(self) -> tuple[str, ...]:
        found = [name for name in self.feed.columns if name not in (ROW_ID, SLOT, PLACE)]
        return tuple(found) if self.clock is None or self.clock in found else (*found, self.clock)

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        if self.feed.slots is None:
            return [self._piece(batch) for batch in batches]
        whole = replace(batches[0], files=tuple(file for batch in batches for file in batch.files))
        watermarks = self._watermarks(whole)
        told = () if self._first_slot(whole, watermarks) is not None else ((LOW, self._lowest_slot()),)
        return [replace(self._windowed_piece(batch, watermarks), checks=told) for batch in batches]

    def _first_slot(self, batch: Batch, watermarks: Watermarks) -> int | None:
        """The first basic window that rows of a batch come to, where that is known before they are read."""
        slots = self.feed.slots
        if slots is None or watermarks.has_late:
            return None
        return self.clock_at(batch.after).first_slot(batch, slots)

    def _watermarks(self, batch: Batch) -> Watermarks:
        """A row can be late only for windows that go by the stream's own time, whoever else looks at that."""
        if self.clock is None:
            return Watermarks({}, has_late=False)
        return self.clock_at(batch.after).watermarks(batch, lateness_of(self.stream))

    def piece_of(self, batch: Batch) -> Piece:
        """All rows of a batch as partials."""
        return self._piece(batch) if self.feed.slots is None else self._windowed_piece(batch, self._watermarks(batch))

    def clock_after(self, batch: Batch) -> Clock | None:
        """Where a windowed pipeline stands behind a batch, as far as that is known before it is absorbed."""
        return self.clock_at(batch.after).after(batch) if self.state.clock is not None else None

    def _piece(self, batch: Batch) -> Piece:
        kernel, columns = self.kernel, self.feed_columns()
        source = batch_source(batch, self.stream, columns, kernel=kernel)
        listed = ", ".join(quote_name(name, kernel) for name in columns) or f"0 AS {quote_name(ROW_ID, kernel)}"
        return self._over(source, f"SELECT {listed} FROM {BATCH}")

    def _windowed_piece(self, batch: Batch, watermarks: Watermarks) -> Piece:
        """Rows with the number of their basic window."""
        kernel, columns, slots = self.kernel, self.feed_columns(), self.feed.slots
        assert slots is not None and self.state.clock is not None
        source = batch_source(batch, self.stream, columns, marked=True, kernel=kernel)
        source = replace(source, inputs={**source.inputs, **watermarks.input()})
        text = windowed_rows(columns, slots, self.state.clock, kernel, self.stream, watermarks.has_late)
        return self._over(source, text)

    def _over(self, source: Piece, rows: str) -> Piece:
        inputs: dict[str, Input] = {**source.inputs, **static_inputs(self.state, self.feed.statics)}
        output = WriteParquet(self.state.folder, self.state.program.columns, compressed=False)
        views = (*source.views, (self.feed.stream_scan, rows))
        return replace(source, sql=self.feed.sql, inputs=inputs, views=views, output=output)

    def filled(self, files: Sequence[KeptFile], answer: Answer, upto: int) -> str:
        """What the stream had kept up to an SCN is among the partials; nobody has seen a window yet."""
        state = self.state
        if state.clock is not None:
            clock = self.clock_at(upto)
            lows = [row["low"] for row in answer.checks[LOW].to_pylist()]
            state.clock = clock.since([slot for slot in lows if slot is not None])
        state.files, state.backfill = [*files, *state.files], None
        return state.written()

    def history_pieces(self, history: str) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """What the pipeline reads of a SELECT of the stream's history, as views, and what is to be told beside."""
        scan, slots = self.feed.stream_scan, self.feed.slots
        if slots is None:
            return ((scan, history),), ()
        assert self.state.clock is not None
        rows = windowed_rows(self.feed_columns(), slots, self.state.clock, self.kernel, self.stream, late=True)
        watermarks = history_watermarks(slots, self.kernel, self.stream)
        return ((BATCH, history), (CLOCK, watermarks), (scan, rows)), ((LOW, self._lowest_slot()),)

    def _lowest_slot(self) -> str:
        return (
            f"SELECT min({quote_name(SLOT, self.kernel)}) AS low FROM {quote_name(self.feed.stream_scan, self.kernel)}"
        )

    def clock_at(self, after: int) -> Clock:
        """Where the stream stands before a batch; a pipeline that has seen nothing goes by what others have seen."""
        clock = self.state.clock
        assert clock is not None
        before = self.seed(self.stream, after) if clock.high is None and self.clock is not None else None
        return clock if before is None else replace(clock, high=before.high, floor=before.floor)

    def move(self, watermark: int) -> str:
        """Nothing comes any more: the stream's own time goes on without rows."""
        assert self.state.clock is not None
        self.state.clock = self.state.clock.at_least(watermark)
        return self.state.written()

    def absorb(self, state: str, answers: Sequence[Answer], batch: Batch) -> Absorbed:
        files = kept_files(self._store, answers, batch.upto)
        clock = self.state.clock
        if clock is not None:
            clock = self.clock_at(batch.after).after(batch, self._low(answers, batch))

        def settle() -> None:
            self.state.files = [*self.state.files, *files]
            self.state.clock = clock

        return Absorbed(
            replace(self.state, files=[*self.state.files, *files], clock=clock).written(), None, settle, self._tell
        )

    def _low(self, answers: Sequence[Answer], batch: Batch) -> int | None:
        """The first basic window that rows of a batch came to, from what its pieces told or the batch itself."""
        if answers and LOW not in answers[0].checks and self.feed.slots is not None:
            return self.clock_at(batch.after).first_slot(batch, self.feed.slots)
        told = [row["low"] for answer in answers for row in answer.checks[LOW].to_pylist()]
        return min((slot for slot in told if slot is not None), default=None)

    def _tell(self) -> None:
        self.grown(self)


def kept_files(store: Store, answers: Sequence[Answer], upto: int, level: int = 0) -> list[KeptFile]:
    """What a job has written, on the disk for good: the rows that it was made of may go then."""
    files = [KeptFile(file.path, file.rows, file.bytes, upto, level) for answer in answers for file in answer.files]
    with disk_errors("partials could not be written"):
        for file in files:
            store.streams.files.sync_file(file.path)
        for folder in {os.path.dirname(file.path) for file in files}:
            store.streams.files.sync_folder(folder)
    return files


def static_inputs(state: State, statics: Sequence[tuple[str, str]]) -> dict[str, Input]:
    found: dict[str, Input] = {}
    for name, static in statics:
        kept = state.statics[static]
        found[name] = as_input(kept.files, kept.columns)
    return found
