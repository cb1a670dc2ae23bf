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

from midstream.kernels import quote_name
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

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        output = WriteParquet(str(self.store.folder(self.stream.id).path), stored_columns(self.stream))
        names = ", ".join(quote_name(name, "duckdb") for name in self.stream.column_names)
        listed = f"{POSITION}, {SCN}, {ARRIVED}, {part_of(self.stream)} AS {PART}, {names}"
        text = f"SELECT {listed} FROM {BATCH} ORDER BY {PART}, {POSITION}"
        sources = [batch_source(batch, self.stream, self.stream.column_names, marked=True) for batch in batches]
        return [replace(source, sql=text, output=output) for source in sources]

    def absorb(self, state: str, answers: Sequence[Answer]) -> Absorbed:
        folder = self.store.folder(self.stream.id)
        files = [
            (DataFile(Path(file.path).name, file.rows, file.bytes), file.stats)
            for answer in answers
            for file in answer.files
        ]
        with self.store.commit_lock:
            # An attempt that was not recorded has left a version that does not count.
            folder.take_back(self.store.catalog.state.versions[self.stream.id])
            commit = folder.append_files(files)
        return Absorbed(state, (self.stream.id, commit.version))


def part_of(stream: Stream) -> str:
    """The number of a row's part: seconds since 1970 by the length of a part."""
    assert stream.history is not None
    moment = quote_name(stream.timestamp, "duckdb") if stream.timestamp else ARRIVED
    return f"CAST(floor(epoch_us({moment}) / {stream.history.part_seconds * 1_000_000}) AS BIGINT)"


def oldest_part(stream: Stream) -> int:
    """The first part that is still to be kept."""
    assert stream.history is not None
    return int((time.time() - stream.history.retain_seconds) // stream.history.part_seconds)
