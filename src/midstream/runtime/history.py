"""The history of a stream: its rows in a Delta table, cut into parts by time.

The history is a reader like any other. It stores every row with its position, its SCN, when it arrived and the number
of its part, and each file is sorted by part, so that Delta's statistics lead to the files of a part. To see a stream
as of an SCN is to leave out the rows that came later.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from midstream.kernels import Kernel, quote_name
from midstream.log.batches import ARRIVED, POSITION, SCN, Batch
from midstream.maintenance.engine import Answer, Piece, WriteParquet
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.runtime.readers import BATCH, Absorbed, batch_source
from midstream.runtime.rows import PART, stored_columns
from midstream.runtime.store import Store
from midstream.storage.delta import DataFile

HISTORY = "history"


@dataclass(frozen=True)
class HistoryReader:
    store: Store
    stream: Stream
    entry: ReaderEntry
    stores_rows: bool = True
    needs_places: bool = True
    kernel: Kernel = "duckdb"
    clock: str | None = None

    @property
    def columns(self) -> frozenset[str]:
        return frozenset(self.stream.column_names)

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        output = WriteParquet(str(self.store.folder(self.stream.id).path), stored_columns(self.stream))
        names = ", ".join(quote_name(name, "duckdb") for name in self.stream.column_names)
        listed = f"{POSITION}, {SCN}, {ARRIVED}, {part_of(self.stream)} AS {PART}, {names}"
        text = f"SELECT {listed} FROM {BATCH} ORDER BY {PART}, {POSITION}"
        sources = [batch_source(batch, self.stream, self.stream.column_names, marked=True) for batch in batches]
        return [replace(source, sql=text, output=output) for source in sources]

    def absorb(self, state: str, answers: Sequence[Answer], batch: Batch) -> Absorbed:
        folder = self.store.folder(self.stream.id)
        files = [
            (DataFile(Path(file.path).name, file.rows, file.bytes), file.stats)
            for answer in answers
            for file in answer.files
        ]
        # An attempt that was not recorded has left a version that does not count.
        folder.take_back(self.store.catalog.state.versions[self.stream.id])
        commit = folder.append_files(files)
        return Absorbed(state, (self.stream.id, commit.version))


def part_of(stream: Stream) -> str:
    """The number of a row's part: seconds since 1970 by the length of a part."""
    assert stream.history is not None
    moment = quote_name(stream.timestamp, "duckdb") if stream.timestamp else ARRIVED
    return f"CAST(floor(epoch_us({moment}) / {stream.history.part_seconds * 1_000_000}) AS BIGINT)"


def forget_parts(store: Store, stream: Stream) -> bool:
    """Removes the parts that lie wholly before what is to be kept, once whole files can go; whether any did.

    Time is the stream's own: its newest timestamp, or the clock where it has none."""
    history = stream.history
    state = store.catalog.state
    if history is None or stream.id not in state.versions:
        return False
    parts = [
        file.ranges[PART] for file in store.folder(stream.id).files(state.versions[stream.id]) if PART in file.ranges
    ]
    if not parts:
        return False
    newest = max(last for _, last in parts) * history.part_seconds if stream.timestamp else time.time()
    oldest = int((newest - history.retain_seconds) // history.part_seconds)
    if all(last >= oldest for _, last in parts):
        return False
    commit = store.folder(stream.id).delete(f"{PART} < {oldest}")
    if commit is not None:
        store.catalog.publish_version(stream.id, commit.version, commit.removed)
    return commit is not None
