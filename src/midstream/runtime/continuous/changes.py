"""Changes as people get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.ingest.arrow_types import to_rows
from midstream.relations.query import ContinuousQuery, Output
from midstream.runtime.continuous.texts import KIND, NUMBER, SCN, old_names, row_names

if TYPE_CHECKING:
    from midstream.runtime.states import KeptFile

Place = tuple[int, int]
"""The SCN of a commit, and the number of a change among those that it caused."""
END = 1 << 60
"""The number behind all changes of a commit."""
BATCH = 10_000


@dataclass(frozen=True)
class Change:
    """A row that came ('I'), went ('D') or changed ('U'); `old` is what it was."""

    kind: str
    row: dict[str, object]
    old: dict[str, object] | None
    scn: int
    number: int = 0
    source: str = ""

    @property
    def id(self) -> tuple[str, int, int]:
        """The same for the same change, whenever it is handed out."""
        return self.source, self.scn, self.number


def changes_in(query: ContinuousQuery, files: Sequence[KeptFile], after: Place) -> Iterator[Change]:
    """The changes in files of a query's log that come after one, in order."""
    for file in files:
        if file.upto < after[0]:
            continue
        with pq.ParquetFile(file.path) as parquet:
            for batch in parquet.iter_batches(BATCH):
                yield from _of_batch(query, batch, after)


def _of_batch(query: ContinuousQuery, batch: pa.RecordBatch, after: Place) -> Iterator[Change]:
    table = pa.Table.from_batches([batch])
    width, types = len(query.columns), [type_ for _, type_ in query.columns]
    rows = to_rows(table.select(row_names(width)), types)
    olds = to_rows(table.select(old_names(width)), types)
    marks = zip(*(table.column(name).to_pylist() for name in (SCN, NUMBER, KIND)), strict=True)
    for (scn, number, kind), row, old in zip(marks, rows, olds, strict=True):
        if (scn, number) > after and kind in query.kinds:
            yield made(query, kind, row, old, scn, number)


def made(
    query: ContinuousQuery, kind: str, row: Sequence[object], old: Sequence[object], scn: int, number: int
) -> Change:
    was = dict(zip(query.column_names, old, strict=True)) if kind != "I" else None
    return Change(
        kind, dict(zip(_names(query), _values(query, kind, row, old), strict=True)), was, scn, number, query.name
    )


def _names(query: ContinuousQuery) -> list[str]:
    return [output.name for output in query.outputs]


def _values(query: ContinuousQuery, kind: str, row: Sequence[object], old: Sequence[object]) -> list[object]:
    def value(output: Output) -> object:
        return kind if output.what == "kind" else (row if output.what == "row" else old)[output.place]

    return [value(output) for output in query.outputs]
