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
from midstream.runtime.readers import BATCH, Absorbed, batch_source
from midstream.runtime.states import KeptFile, State, as_input
from midstream.runtime.store import Store

PIPELINE = "pipeline"


class PipelineReader:
    stores_rows = False
    needs_places = False

    def __init__(self, store: Store, stream: Stream, entry: ReaderEntry) -> None:
        self._store = store
        self.stream = stream
        self.id = entry.id
        self.state = State.read(entry.state, str(store.path / "views"))
        self.grown: Callable[[PipelineReader], None] = lambda reader: None

    @property
    def kernel(self) -> Kernel:
        return self.state.program.kernel

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self._feed_columns())

    def _feed_columns(self) -> tuple[str, ...]:
        feed = self.state.program.feeds[self.stream.id]
        return tuple(name for name in feed.columns if name != ROW_ID)

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        return [self._piece(batch) for batch in batches]

    def _piece(self, batch: Batch) -> Piece:
        program, kernel = self.state.program, self.kernel
        feed, columns = program.feeds[self.stream.id], self._feed_columns()
        source = batch_source(batch, self.stream, columns, kernel=kernel)
        listed = ", ".join(quote_name(name, kernel) for name in columns) or f"0 AS {quote_name(ROW_ID, kernel)}"
        rows = f"SELECT {listed} FROM {BATCH}"
        inputs: dict[str, Input] = {**source.inputs, **static_inputs(self.state, feed.statics)}
        output = WriteParquet(self.state.folder, program.columns, compressed=False)
        return replace(
            source, sql=feed.sql, inputs=inputs, views=(*source.views, (feed.stream_scan, rows)), output=output
        )

    def absorb(self, state: str, answers: Sequence[Answer], upto: int) -> Absorbed:
        files = kept_files(self._store, answers, upto)

        def settle() -> None:
            self.state.files = [*self.state.files, *files]
            self.grown(self)

        return Absorbed(replace(self.state, files=[*self.state.files, *files]).written(), settle=settle)


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
