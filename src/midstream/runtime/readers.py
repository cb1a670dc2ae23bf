"""Readers of a stream: what they do with a batch, and where they stand.

A reader says what to compute over a batch, as pieces of one job that all readers of the stream share, and takes the
answers in. What it then keeps is recorded in the catalog together with the SCN that it covers, so a batch counts once
however often the process dies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from midstream.kernels import Kernel, quote_name
from midstream.log.batches import ARRIVED, POSITION, SCN, Batch, BatchFile
from midstream.maintenance.engine import Answer, FileColumn, Files, Input, Piece
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.runtime.store import Store
from midstream.types import BIGINT, TIMESTAMP

BATCH = "batch"
"""What a reader's SQL calls the rows of a batch."""
_NUMBER = "_number"
_MOMENT = {"duckdb": "make_timestamp(_at)", "spark": "CAST(timestamp_micros(_at) AS TIMESTAMP_NTZ)"}


@dataclass(frozen=True)
class Absorbed:
    """What a reader has made of a batch."""

    state: str
    version: tuple[int, int] | None = None
    """(table, Delta version) of rows that it stored."""
    settle: Callable[[], None] = lambda: None
    """To be called once it is recorded,"""
    tell: Callable[[], None] = lambda: None
    """and when all that was computed together is."""


class Foresight(Protocol):
    """What is computed together with a batch, beside what readers make of it."""

    @property
    def piece(self) -> Piece: ...

    def settle(self, answer: Answer, scn: int) -> None:
        """The batch has been absorbed."""
        ...


@dataclass(frozen=True)
class Taken:
    """A batch, and the readers that absorb it together."""

    readers: Sequence[Reader]
    batch: Batch

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(file.path for file in self.batch.files)


class Reader(Protocol):
    @property
    def stores_rows(self) -> bool:
        """Whether it keeps rows in a Delta table, whose commits take turns with all others."""
        ...

    @property
    def needs_places(self) -> bool:
        """Whether it asks for SCN, position or arrival of a row, which a row has only once it is in the log."""
        ...

    @property
    def kernel(self) -> Kernel:
        """Which kernel computes what it keeps."""
        ...

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        ...

    @property
    def clock(self) -> str | None:
        """The column of time whose largest value, insert by insert, it must know."""
        ...

    def pieces(self, batches: Sequence[Batch]) -> Sequence[Piece]:
        """What to compute: each of the batches is a share of the rows for one task."""
        ...

    def absorb(self, state: str, answers: Sequence[Answer], batch: Batch) -> Absorbed:
        """What it keeps after a batch, from what it kept before and the answers of its pieces."""
        ...


ReaderMaker = Callable[[Store, Stream, ReaderEntry], Reader]


def batch_source(
    batch: Batch, stream: Stream, columns: Sequence[str], *, marked: bool = False, kernel: Kernel = "duckdb"
) -> Piece:
    """The rows of a batch as the inputs and views of a piece, under the name BATCH; `marked` adds the SCN, the position
    and the time of arrival of every row."""
    own = tuple(FileColumn(c.name, c.type) for c in stream.columns if c.name in columns)
    inputs: dict[str, Input] = {}
    texts: list[str] = []
    names = ", ".join(quote_name(column.name, kernel) for column in own)
    sealed = [file for file in batch.files if file.scn is None]
    bulk = [file for file in batch.files if file.scn is not None]
    if sealed or not bulk:
        marks = (FileColumn(SCN, BIGINT), FileColumn(POSITION, BIGINT), FileColumn(ARRIVED, TIMESTAMP))
        inputs["sealed"] = _files(sealed, own + marks if marked else own)
        listed = ", ".join(filter(None, [names, f"{SCN}, {POSITION}, {ARRIVED}" if marked else ""]))
        texts.append(f"SELECT {listed or '1 AS one'} FROM sealed")
    if bulk:
        inputs["bulk"] = _marked_files(bulk, own) if marked else _files(bulk, own)
        computed = f"{SCN}, _first + {_NUMBER} AS {POSITION}, {_MOMENT[kernel]} AS {ARRIVED}" if marked else ""
        texts.append(f"SELECT {', '.join(filter(None, [names, computed])) or '1 AS one'} FROM bulk")
    return Piece("", inputs, ((BATCH, " UNION ALL ".join(texts)),))


def _files(files: Sequence[BatchFile], columns: tuple[FileColumn, ...]) -> Files:
    return Files(
        tuple(file.path for file in files),
        columns,
        row_groups=_row_groups(files),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
    )


def _marked_files(files: Sequence[BatchFile], columns: tuple[FileColumn, ...]) -> Files:
    plain = _files(files, columns)
    values = (
        (SCN, BIGINT, tuple(file.scn for file in files)),
        ("_first", BIGINT, tuple(file.first_position for file in files)),
        ("_at", BIGINT, tuple(int(file.at * 1e6) for file in files)),
    )
    return Files(
        plain.paths, columns, file_values=values, row_groups=plain.row_groups, numbered=_NUMBER, rows=plain.rows,
        bytes=plain.bytes,
    )  # fmt: skip


def _row_groups(files: Sequence[BatchFile]) -> tuple[tuple[int, ...] | None, ...] | None:
    groups = tuple(file.row_groups for file in files)
    return None if all(taken is None for taken in groups) else groups
