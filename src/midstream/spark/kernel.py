"""The DuckDB kernel: what runs inside a Spark task.

Spark hands a task its number and, as a property of the job, where the work is; the task answers with one
row, for however many pieces it ran. What goes wrong in the SQL comes back as data, so that Spark does not try
it again; only a lost process is tried again, and then under a new attempt number, which is part of the name of
every file it writes.

    frame.select(arrow_udf(run_tasks, "binary")("id"))
"""

from __future__ import annotations

import base64
import contextlib
import functools
import gc
import os
import pickle
import shutil
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from midstream.errors import Error, InternalError
from midstream.maintenance.engine import CopyFiles, FileColumn, Files, Piece, WriteParquet, WrittenFile
from midstream.spark import duckdb_connection
from midstream.spark.common_views import CommonViews, meaning_of
from midstream.spark.duckdb_connection import Limits
from midstream.spark.duckdb_inputs import (
    duckdb_type,
    empty_select,
    from_interval,
    quote_name,
    quote_text,
    select_files,
)
from midstream.spark.errors import from_task
from midstream.spark.footers import footer_of
from midstream.spark.kept_inputs import KeptInputs
from midstream.spark.named_inputs import Names, define_inputs
from midstream.spark.plain import plain_table
from midstream.spark.written import describe
from midstream.types import Type

PROPERTY = "midstream.job"
"""The property of a Spark job that says what its tasks do."""
IN_A_FILE = "file:"
INLINE_BYTES = 1 << 20
"""Larger results go through a file, which costs a fifth of the way through the JVM."""
ROW_GROUP_ROWS = 122_880
_KEPT = "COMPRESSION snappy"
_READ_SOON = "COMPRESSION uncompressed, WRITE_BLOOM_FILTER false, DICTIONARY_SIZE_LIMIT 1000"
"""Nobody looks for single values in what is read whole; large dictionaries cost more to build than they save."""
_BATCH_ROWS = 65_536
_CANCEL_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Work:
    """All that the tasks of one job need, in a form that travels."""

    job: str
    folder: str
    """A folder that the driver and all workers see, for results and spilled data."""
    tasks: tuple[tuple[tuple[int, bytes], ...], ...]
    """What each task does, one after the other: pieces and their numbers."""
    limits: Limits

    def pack(self) -> bytes:
        return pickle.dumps(self, protocol=5)

    @property
    def cancel_file(self) -> str:
        return cancel_file(self.folder, self.job)


def cancel_file(folder: str, job: str) -> str:
    return os.path.join(folder, f"{job}.cancel")


@dataclass(frozen=True)
class Stored:
    """An Arrow stream, in the answer itself or in a file that the driver reads and removes."""

    data: bytes = b""
    path: str | None = None


@dataclass(frozen=True)
class Reply:
    """What a task answers: an answer whose tables travel as Arrow streams, or what went wrong."""

    attempt: int = 0
    table: Stored | None = None
    files: tuple[WrittenFile, ...] = ()
    checks: dict[str, Stored] = field(default_factory=dict)
    copies: tuple[WrittenFile, ...] = ()
    error: Error | None = None


def run_tasks(numbers: Iterator[pa.Array]) -> Iterator[pa.Array]:
    """The Arrow function of the job: one number in for each task, its packed replies out."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise InternalError("the DuckDB kernel runs only inside a Spark task")
    work = read_work(context.getLocalProperty(PROPERTY))
    for some in numbers:
        replies = [run_task(work, task, context.attemptNumber()) for task in some.to_pylist()]
        yield pa.array([pickle.dumps(reply, protocol=5) for reply in replies], pa.binary())
    _keep_what_is_imported()


@functools.cache
def _keep_what_is_imported() -> None:
    """Spark looks through all objects of a worker for garbage after each task, which takes 60 ms for what was imported
    alone: what is there after the first task stays."""
    gc.freeze()


def run_task(work: Work, task: int, attempt: int) -> list[tuple[int, Reply]]:
    """All pieces of one task, by number."""
    pieces: list[tuple[int, Piece]] = [(number, pickle.loads(piece)) for number, piece in work.tasks[task]]

    def connect() -> duckdb.DuckDBPyConnection:
        return duckdb_connection.connect(work.limits, work.folder)

    with CommonViews([piece for _, piece in pieces], connect) as common:
        return [(number, run_piece(work, piece, number, attempt, common)) for number, piece in pieces]


def read_work(text: str | None) -> Work:
    if text is None:
        raise InternalError("a task was started without work")
    in_a_file = text.startswith(IN_A_FILE)
    packed = Path(text.removeprefix(IN_A_FILE)).read_bytes() if in_a_file else base64.b64decode(text)
    work: Work = pickle.loads(packed)
    return work


def run_piece(work: Work, piece: Piece, number: int, attempt: int, common: CommonViews) -> Reply:
    """One attempt at one piece: its answer, or what was wrong with it."""
    try:
        connection = duckdb_connection.connect(work.limits, work.folder)
        try:
            with _interrupted_by(work.cancel_file, connection):
                kept = duckdb_connection.kept_inputs(work.limits, work.folder)
                name = f"{work.job}-{number}-{attempt}"
                return _Run(connection, piece, Path(work.folder), name, attempt, kept, common).reply()
        finally:
            connection.close()
    except Exception as failure:
        return Reply(attempt, error=_named(failure))


def _named(failure: Exception) -> Error:
    error = from_task(failure)
    if isinstance(error, InternalError):
        error.detail = "\n".join(filter(None, [error.detail, "".join(traceback.format_exception(failure))]))
    return error


@contextlib.contextmanager
def _interrupted_by(path: str, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Stops the query when the driver leaves a file: Spark itself only ends the worker, seconds later."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_CANCEL_POLL_SECONDS):
            if os.path.exists(path):
                connection.interrupt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


@dataclass
class _Run:
    """One attempt at one piece."""

    connection: duckdb.DuckDBPyConnection
    piece: Piece
    folder: Path
    name: str
    attempt: int
    kept: KeptInputs
    common: CommonViews
    names: Names = field(default_factory=Names)
    results: int = 0

    def reply(self) -> Reply:
        names = define_inputs(self.connection, self.piece, self.kept)
        for name in self.piece.kept:
            names = self._known(names, name)
        self.names = self.common.taken(self.connection, self.piece, names)
        if self.piece.copies is None:
            return self._own_reply()
        with copied(self.piece.copies, self.name) as copies:
            reply = self._own_reply()
        return replace(reply, copies=tuple(copies))

    def _known(self, names: Names, name: str) -> Names:
        """With a view read from where an earlier task has kept it, if one has."""
        text = names.before(f"SELECT * FROM {quote_name(name)}")
        known = self.kept.view(self.connection, meaning_of(self.piece, name), text)
        return names if known is None else names.instead(name, known)

    def _own_reply(self) -> Reply:
        if self.piece.output is None:
            return Reply(self.attempt, table=self._store(self.piece.sql), checks=self._checks())
        files = write_parquet(self.connection, self.names.before(self.piece.sql), self.piece.output, self.name)
        try:
            self.names = self.names.also("output", select_written(files, self.piece.output.columns))
            return Reply(self.attempt, files=files, checks=self._checks())
        except BaseException:
            for file in files:
                os.unlink(file.path)
            raise

    def _checks(self) -> dict[str, Stored]:
        return {name: self._store(sql) for name, sql in self.piece.checks}

    def _store(self, sql: str) -> Stored:
        self.results += 1
        path = self.folder / f"{self.name}-{self.results}.arrow"
        relation = duckdb_connection.run_one_select(self.connection, self.names.before(sql))
        return store(relation.to_arrow_reader(_BATCH_ROWS), path)


def store(reader: pa.RecordBatchReader, path: Path) -> Stored:
    """Keeps a small result in memory and streams a larger one into a file."""
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > INLINE_BYTES:
            with pa.OSFile(str(path), "wb") as file:
                _write_stream(file, reader.schema, batches, reader)
            return Stored(path=str(path))
    sink = pa.BufferOutputStream()
    _write_stream(sink, reader.schema, batches, ())
    return Stored(sink.getvalue().to_pybytes())


def _write_stream(sink: pa.NativeFile, schema: pa.Schema, *parts: object) -> None:
    with pa.ipc.new_stream(sink, schema) as writer:
        for part in parts:
            for batch in part:  # type: ignore[attr-defined]
                writer.write_batch(batch)


def load(stored: Stored) -> pa.Table:
    """The table of a result. One in a file is mapped, not read, and its file goes when nobody looks at it."""
    if stored.path is None:
        return plain_table(pa.ipc.open_stream(stored.data).read_all())
    table = pa.ipc.open_stream(pa.memory_map(stored.path)).read_all()
    os.unlink(stored.path)
    return plain_table(table)


# --- output -----------------------------------------------------------------------------------------


def write_parquet(
    connection: duckdb.DuckDBPyConnection, sql: str, output: WriteParquet, name: str
) -> tuple[WrittenFile, ...]:
    """Writes the rows of a SELECT as a Parquet file whose columns have exactly their declared types."""
    columns = _stored_columns(connection, sql, output.columns)
    # One file for a piece: DuckDB 2.0 can hang for ever when an error meets a COPY that starts further files.
    path = os.path.join(output.folder, f"{name}-0.parquet")
    text = (
        f"COPY (SELECT {', '.join(columns)} FROM ({sql})) TO {quote_text(path)} "
        f"(FORMAT parquet, {_KEPT if output.compressed else _READ_SOON}, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
    )
    try:
        duckdb_connection.run_one_copy(connection, text)
    except duckdb.IOException:
        # A folder goes with the last of its files, also when this one was about to come.
        if os.path.isdir(output.folder):
            raise
        os.makedirs(output.folder, exist_ok=True)
        duckdb_connection.run_one_copy(connection, text)
    file = describe(path, output.columns)
    if file.rows > 0:
        return (file,)
    os.unlink(path)
    return ()


@contextlib.contextmanager
def copied(copies: CopyFiles, name: str) -> Iterator[list[WrittenFile]]:
    """Copies files in a thread of its own while something else runs; the list is full when both are done."""
    files: list[WrittenFile] = []
    failures: list[Exception] = []
    targets = [os.path.join(copies.folder, f"{name}-copy-{number}.parquet") for number in range(len(copies.paths))]

    def copy() -> None:
        try:
            for source, target in zip(copies.paths, targets, strict=True):
                shutil.copyfile(source, target)
                descriptor = os.open(target, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                files.append(WrittenFile(target, footer_of(target).group_starts[-1], os.path.getsize(target), ""))
        except Exception as failure:
            failures.append(failure)

    thread = threading.Thread(target=copy, name="midstream-copy")
    thread.start()
    try:
        yield files
    except BaseException:
        thread.join()
        failures.append(InternalError("the SQL beside a copy failed"))
        raise
    finally:
        thread.join()
        if failures:
            for target in targets:
                Path(target).unlink(missing_ok=True)
    if failures:
        raise failures[0]


def _stored_columns(connection: duckdb.DuckDBPyConnection, sql: str, columns: Sequence[tuple[str, Type]]) -> list[str]:
    """The columns of a SELECT as they are stored. Only of intervals must be known how they are given: to bind a long
    text takes as long as to run it over few rows."""
    if not any("interval" in str(type_) for _, type_ in columns):
        return [f"CAST(#{place} AS {duckdb_type(t)}) AS {quote_name(n)}" for place, (n, t) in enumerate(columns, 1)]
    relation = duckdb_connection.run_one_select(connection, sql)
    sources = zip(relation.columns, relation.types, columns, strict=True)
    return [_stored(source, str(given), *column) for source, given, column in sources]


def _stored(source: str, given: str, name: str, type_: Type) -> str:
    value = quote_name(source)
    if given == "INTERVAL":
        value = from_interval(value)
    elif given == "INTERVAL[]":
        value = f"list_transform({value}, lambda x: {from_interval('x')})"
    return f"CAST({value} AS {duckdb_type(type_)}) AS {quote_name(name)}"


def select_written(files: tuple[WrittenFile, ...], columns: tuple[tuple[str, Type], ...]) -> str:
    if not files:
        return empty_select(columns)
    return select_files(Files(tuple(f.path for f in files), tuple(FileColumn(*column) for column in columns)))
