"""Rows that came too late for windows: late_<stream>.

A stream with a time of its own has a reader that goes by that time. It tells all others how far the stream had come at
an SCN, and it keeps the rows that are in no window because they were late, while there are windows that go by it. Each
has its SCN beside it: a batch can reach beyond the SCN that a read is at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from midstream.errors import StorageError
from midstream.kernels import Kernel
from midstream.log.batches import SCN, Batch
from midstream.maintenance.engine import Answer, Cancellation, Piece, WriteParquet
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.relations.window import Slots
from midstream.runtime.clocks import Clock, late_rows, lateness_of
from midstream.runtime.pipelines import PIPELINE, kept_files
from midstream.runtime.readers import Absorbed, Reader, batch_source
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.types import BIGINT

LATE = "late"
_MARKS = 1000
"""So many batches back it can be asked how far the stream had come."""


class LateReader:
    stores_rows = False
    needs_places = True
    kernel: Kernel = "duckdb"

    def __init__(self, store: Store, stream: Stream, entry: ReaderEntry) -> None:
        value = json.loads(entry.state)
        self._store, self._stream = store, stream
        self.clock: str = value["column"]
        self.folder = f"{store.path}/views/{value['folder']}"
        self.time = Clock(**value["clock"])
        self.files = [KeptFile(f"{self.folder}/{name}", *rest) for name, *rest in value["files"]]
        self._marks: list[tuple[int, int | None]] = [(scn, high) for scn, high in value["marks"]]

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self._stream.column_names)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        whole = replace(batches[0], files=tuple(file for batch in batches for file in batch.files))
        watermarks = self.time.watermarks(whole, lateness_of(self._stream))
        if not watermarks.has_late or not self._has_windows():
            return []
        names = self._stream.column_names
        text = late_rows(names, Slots("column", 1, self.clock), self.kernel, self._stream)
        os.makedirs(self.folder, exist_ok=True)
        output = WriteParquet(self.folder, (*((c.name, c.type) for c in self._stream.columns), (SCN, BIGINT)))
        sources = [batch_source(batch, self._stream, names, marked=True) for batch in batches]
        return [
            replace(source, sql=text, inputs={**source.inputs, **watermarks.input()}, output=output)
            for source in sources
        ]

    def _has_windows(self) -> bool:
        """Whether somebody is waiting for rows by this time: else no row can be late."""
        readers = self._store.streams.readers_of(PIPELINE)
        own = [reader for entry, reader in readers if entry.stream_id == self._stream.id]
        return any(reader.clock is not None for reader in own)

    def absorb(self, state: str, answers: Sequence[Answer], batch: Batch) -> Absorbed:
        files = [*self.files, *kept_files(self._store, answers, batch.upto)]
        time = self.time.after(batch)
        marks = [*self._marks, (batch.upto, time.high)][-_MARKS:]

        def settle() -> None:
            self.files, self.time, self._marks = files, time, marks

        return Absorbed(_written(self.clock, self.folder, time, files, marks), settle=settle)

    def time_at(self, scn: int) -> Clock:
        """How far the stream had come at an SCN."""
        return replace(self.time, high=next((high for upto, high in reversed(self._marks) if upto <= scn), None))

    def move(self, watermark: int) -> str:
        """Nothing comes any more: time goes on without rows."""
        self.time = self.time.at_least(watermark)
        return _written(self.clock, self.folder, self.time, self.files, self._marks)


def new_state(column: str) -> str:
    """Of a reader that has seen nothing."""
    return _written(column, uuid4().hex, Clock(), (), ())


def _written(
    column: str, folder: str, time: Clock, files: Sequence[KeptFile], marks: Sequence[tuple[int, int | None]]
) -> str:
    return json.dumps(
        {
            "column": column,
            "folder": os.path.basename(folder),
            "clock": time.written(),
            "files": [file.written() for file in files],
            "marks": marks,
        }
    )


def late_reader(store: Store, stream_id: int) -> tuple[ReaderEntry, LateReader] | None:
    found = [(entry, reader) for entry, reader in store.streams.readers_of(LATE) if entry.stream_id == stream_id]
    for entry, reader in found:
        if isinstance(reader, LateReader):
            return entry, reader
    return None


def follow(store: Store, stream: Stream, column: str) -> None:
    """From now on somebody goes by the time of a stream."""
    if late_reader(store, stream.id) is None:
        store.streams.register(stream, f"{LATE}_{stream.name}", LATE, new_state(column))


def wait_for(store: Store, entry: ReaderEntry, reader: Reader, scn: int, stop: Cancellation | None) -> None:
    """Returns when a reader has all up to an SCN, and, if it goes by the time of its stream, it is known how far that
    had come before the reader was made."""
    store.streams.wait(entry.id, scn, cancellation=stop)
    follower = late_reader(store, entry.stream_id) if reader.clock is not None else None
    if follower is not None:
        store.streams.wait(follower[0].id, scn, cancellation=stop)


def is_behind(store: Store, stream_id: int, scn: int) -> bool:
    """Whether who follows the time of a stream has yet to see rows up to an SCN."""
    found = late_reader(store, stream_id)
    return found is not None and store.streams.has_news(stream_id, found[0].absorbed, scn)


def time_at(store: Store, stream: Stream, scn: int) -> Clock | None:
    """How far a stream's own time had come at an SCN."""
    found = late_reader(store, stream.id)
    if found is None:
        return None
    entry, reader = found
    if entry.absorbed < scn and store.streams.has_news(stream.id, entry.absorbed, scn):
        raise StorageError(f'the times of stream "{stream.name}" are not known yet')
    return reader.time_at(scn)
