"""A reader that counts: the number of rows, and a sum over hashes of every row with its place in the stream.

It keeps next to nothing and tells any row that is lost, doubled, altered or out of its place, so it is the measure of
the log: tests and benchmarks read streams with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from midstream.kernels import Kernel, quote_name
from midstream.log.batches import POSITION, SCN, Batch
from midstream.maintenance.engine import Answer, Piece
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.runtime.readers import BATCH, Absorbed, batch_source
from midstream.runtime.store import Store

TALLY, ROW_TALLY = "tally", "row tally"
"""The second does not look at places, so it can be computed before a file has its place in the stream."""
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
    kernel: Kernel = "duckdb"
    clock: str | None = None

    def __init__(self, store: Store, stream: Stream, entry: ReaderEntry) -> None:
        self._stream = stream
        self.needs_places = entry.kind == TALLY
        self.columns = frozenset(stream.column_names)

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        names, placed = self._stream.column_names, self.needs_places
        text = tally_query(names, BATCH, placed=placed)
        sources = [batch_source(batch, self._stream, names, marked=placed) for batch in batches]
        return [replace(source, sql=text) for source in sources]

    def absorb(self, state: str, answers: Sequence[Answer], batch: Batch) -> Absorbed:
        counts = Counts.read(state)
        for answer in answers:
            assert answer.table is not None
            counts = counts.plus(Counts(*map(int, answer.table.to_pylist()[0].values())))
        return Absorbed(counts.written())


def tally_query(columns: Iterable[str], source: str, *, placed: bool = True) -> str:
    """The counts of a relation that has the columns of a stream and, if `placed`, its positions and its SCNs."""
    row = ", ".join(quote_name(name, "duckdb") for name in columns)
    hashes = [f"hash({row})"]
    hashes += [f"hash({POSITION}, {row})", f"hash({SCN}, {row})"] if placed else []
    sums = [f"coalesce(sum(CAST({value} AS HUGEINT)), 0) % {_HASHES}" for value in hashes]
    listed = ", ".join(f"CAST({text} AS VARCHAR) AS s{number}" for number, text in enumerate(sums))
    return f"SELECT count(*) AS n, {listed} FROM {source}"
