"""What the database asks of an engine: run named pieces of SQL over named files as one job.

A `Piece` is one SQL text in one kernel's dialect, over inputs that have names in that text. An engine
runs the pieces of one `run` call as one job, short ones several to a task, and answers in their order. A task
that dies is run again without a second effect: what it writes is named by attempt, and only the files
in the answer count.

    piece = Piece('SELECT count(*) AS n FROM "scan_0"', {"scan_0": Files(("a.parquet",), columns)})
    [answer] = engine.run("duckdb", [piece])          # answer.table has one row
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import pyarrow as pa

from midstream.kernels import Kernel
from midstream.types import Type


@dataclass(frozen=True)
class FileColumn:
    """A column as it is stored, and the name that the SQL text uses for it."""

    name: str
    type: Type
    stored_as: str | None = None
    """The column's name in the files, where it differs. A file that lacks it gives NULL."""


@dataclass(frozen=True)
class Files:
    """An input: Parquet, CSV or JSON files that look like one relation.

    `file_values` adds columns that have one value for each file, such as the commit number of a change
    file: `(("trans_scn", BIGINT), (41, 42, 42))` for three files. `row_groups` limits each Parquet file to
    some of its row groups (None: all of them), which is how one file is shared among tasks. `numbered` names a
    column with each row's number in its file, from 0."""

    paths: tuple[str, ...]
    columns: tuple[FileColumn, ...]
    format: Literal["parquet", "csv", "json"] = "parquet"
    options: Mapping[str, object] = field(default_factory=dict)
    file_values: tuple[tuple[str, Type, tuple[object, ...]], ...] = ()
    row_groups: tuple[tuple[int, ...] | None, ...] | None = None
    numbered: str | None = None
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Rows:
    """An input that the driver has in memory: small."""

    table: pa.Table


Input = Files | Rows


@dataclass(frozen=True)
class WriteParquet:
    """Where a piece leaves its rows. `folder` must exist for every worker; the file's name is the engine's.

    `columns` are name and type of each written column: the kernel casts to exactly these. What is read once and soon
    is not compressed."""

    folder: str
    columns: tuple[tuple[str, Type], ...]
    compressed: bool = True


@dataclass(frozen=True)
class CopyFiles:
    """Files that a task copies as they are into a folder, and gets to the disk, while its SQL runs."""

    folder: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class Piece:
    """One SQL text and what it reads.

    `views` are names defined over the inputs and each other, in order, before the text runs. With
    `output`, the rows go to files; `checks` then run in the same task over the written rows, which they
    call "output" (and may read the inputs too), and their answers come back beside. `copies` takes part only on the
    DuckDB kernel. Of the views that are `shared`, a task computes those once that several of its pieces have; those
    that are `kept` a worker may have from an earlier task. A piece that only writes what another one computes goes
    `along` with it, into the same task."""

    sql: str
    inputs: Mapping[str, Input] = field(default_factory=dict)
    views: tuple[tuple[str, str], ...] = ()
    output: WriteParquet | None = None
    checks: tuple[tuple[str, str], ...] = ()
    copies: CopyFiles | None = None
    shared: tuple[str, ...] = ()
    along: bool = False
    kept: tuple[str, ...] = ()

    @property
    def folders(self) -> set[str]:
        """Where it leaves files."""
        return {left.folder for left in (self.output, self.copies) if left is not None}


@dataclass(frozen=True)
class WrittenFile:
    path: str
    rows: int
    bytes: int
    stats: str
    """Delta's statistics of the file as JSON: numRecords, minValues, maxValues, nullCount."""


@dataclass(frozen=True)
class Answer:
    """A piece's rows, or the files that it wrote; what its checks found; and files that it copied."""

    table: pa.Table | None = None
    files: tuple[WrittenFile, ...] = ()
    checks: Mapping[str, pa.Table] = field(default_factory=dict)
    copies: tuple[WrittenFile, ...] = ()


class Cancellation:
    """A flag that another thread raises; the engine stops the job and raises `Cancelled`."""

    def __init__(self) -> None:
        self.raised = threading.Event()

    def cancel(self) -> None:
        self.raised.set()

    @property
    def requested(self) -> bool:
        return self.raised.is_set()


@dataclass(frozen=True)
class Progress:
    """How far the job of one `run` has come."""

    label: str
    tasks_done: int
    tasks: int


class Engine(Protocol):
    """Runs pieces. Thread-safe; two databases in one process have two engines."""

    @property
    def cores(self) -> int:
        """How many tasks can run at once."""
        ...

    def run(
        self,
        kernel: Kernel,
        pieces: Sequence[Piece],
        *,
        label: str = "",
        cancellation: Cancellation | None = None,
    ) -> list[Answer]:
        """One job; the answers in the order of the pieces. On the Spark kernel each piece is a job of its own."""
        ...

    def look_up(self, piece: Piece) -> Answer:
        """Answers a DuckDB piece in the driver itself, with no job and no JVM: for questions about few rows,
        such as whether a key is taken, where starting a job would cost more than the answer."""
        ...

    def data_frame(self, piece: Piece) -> object:
        """The piece as a Spark DataFrame that is not yet computed (its text is the Spark kernel's)."""
        ...

    def save_data_frame(self, frame: object, folder: str) -> tuple[str, ...]:
        """Writes a Spark DataFrame as Parquet files into a folder, through a Spark job."""
        ...

    def progress(self) -> Sequence[Progress]:
        """The jobs that run now."""
        ...

    def close(self) -> None: ...
