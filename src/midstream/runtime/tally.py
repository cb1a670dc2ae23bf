"""A reader that counts: the number of rows, and a sum over hashes of every row with its place in the stream.

It keeps next to nothing and tells any row that is lost, doubled, altered or out of its place, so it is the measure of
the log: tests and benchmarks read streams with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from midstream.kernels import quote_name
from midstream.log.batches import POSITION, SCN, Batch
from midstream.maintenance.engine import Answer, Piece
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.runtime.readers import BATCH, Absorbed, batch_source
from midstream.runtime.store import Store

TALLY = "tally"
_HASHES = 1 << 64


@dataclass(frozen=True)
class Counts:
    rows: int = 0
    hashes: int = 0
    """The sum of the hashes of all rows, modulo 2^64."""
    places: int = 0
    """The same with the position of each row in it."""
    scns: int = 0
    """The same with the SCN of each row in it."""

    @classmethod
    def read(cls, text: str) -> Counts:
        return cls(**json.loads(text))

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            (self.hashes + other.hashes) % _HASHES,
            (self.places + other.places) % _HASHES,
            (self.scns + other.scns) % _HASHES,
        )

    def written(self) -> str:
        return json.dumps(self.__dict__)


class TallyReader:
    stores_rows = False

    def __init__(self, store: Store, stream: Stream, entry: ReaderEntry) -> None:
        self._stream = stream

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        text = tally_query(self._stream.column_names, BATCH)
        sources = [batch_source(batch, self._stream, self._stream.column_names, marked=True) for batch in batches]
        return [replace(source, sql=text) for source in sources]

    def absorb(self, state: str, answers: Sequence[Answer]) -> Absorbed:
        counts = Counts.read(state)
        for answer in answers:
            assert answer.table is not None
            counts = counts.plus(Counts(*map(int, answer.table.to_pylist()[0].values())))
        return Absorbed(counts.written())


def tally_query(columns: Iterable[str], source: str) -> str:
    """The counts of a relation that has the columns of a stream, its positions and its SCNs."""
    row = ", ".join(quote_name(name, "duckdb") for name in columns)
    sums = [f"coalesce(sum(CAST({value} AS HUGEINT)), 0) % {_HASHES}" for value in (
        f"hash({row})", f"hash({POSITION}, {row})", f"hash({SCN}, {row})"
    )]  # fmt: skip
    listed = ", ".join(f"CAST({text} AS VARCHAR) AS s{number}" for number, text in enumerate(sums))
    return f"SELECT count(*) AS n, {listed} FROM {source}"
