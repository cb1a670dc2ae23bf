"""Files that become batches as they are, computed by their readers before they have their place in the log.

A Parquet file whose columns are just the stream's is not rewritten. A job reads it where it lies for those readers that
do not care where its rows stand. If that is all who read the stream, what they made of it is all that is needed of its
rows: the log names those files, and not one with the rows. Otherwise the same job copies it into the log, byte by byte,
and a page that cannot be read is found before anything is acknowledged. What readers made waits for its turn there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.errors import BadFile, DataError
from midstream.ingest.arrow_types import arrow_type
from midstream.ingest.files import FileInput, InputFile
from midstream.ingest.kernel_parquet import from_parquet
from midstream.kernels import quote_name
from midstream.log.batches import Batch, BatchFile, shares
from midstream.log.journal import Unkept
from midstream.log.records import BulkFile, MadeFile
from midstream.maintenance.engine import Answer, CopyFiles, Piece
from midstream.relations.stream import Stream
from midstream.runtime.absorbing import FEW_ROWS, Ahead
from midstream.runtime.readers import BATCH, Reader, batch_source
from midstream.runtime.writing import Writer


def fits_as_it_is(input: FileInput, stream: Stream) -> bool:
    """Whether every file can be read later as it is: all columns there with just their types, and nothing to check."""
    if input.format != "parquet" or stream.checks or any(column.not_null for column in stream.columns):
        return False
    return all(_fits(file, stream) for file in input.files)


def _fits(file: InputFile, stream: Stream) -> bool:
    schema = pq.read_schema(file.path)
    found = {column.name: column for column in file.columns}
    for column in stream.columns:
        there = found.get(column.name)
        if there is None or there.stored_as is not None:
            return False
        name = quote_name(column.name, "duckdb")
        if from_parquet(name, there.type, column.type, column.name) != name:
            return False
        if _stored_type(schema.field(column.name).type) != arrow_type(column.type):
            return False
    return True


def _stored_type(type_: pa.DataType) -> pa.DataType:
    """A text is stored in one way, whatever whoever wrote it called it in memory."""
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    return pa.string() if pa.types.is_large_string(type_) or pa.types.is_string_view(type_) else type_


@dataclass
class _Job:
    """The pieces of one job, and whose they are."""

    pieces: list[Piece] = field(default_factory=list)
    owners: list[object] = field(default_factory=list)

    def add(self, owner: object, pieces: Sequence[Piece]) -> None:
        self.pieces += pieces
        self.owners += [owner] * len(pieces)

    def answers_of(self, owner: object, answers: Sequence[Answer]) -> list[Answer]:
        return [answer for who, answer in zip(self.owners, answers, strict=True) if who == owner]

    @property
    def leaves_files(self) -> bool:
        """Whether files are all that comes of it."""
        return all(piece.output is not None and not piece.checks for piece in self.pieces)

    def copy(self, folder: str, paths: Sequence[str]) -> None:
        """Copies files beside what tasks read of them anyway: a task that only copied would keep a core from them. The
        first tasks do it, since a copy takes long to reach the disk; the copies are in the order of the files."""
        if not self.pieces:
            self.add(_LOOK, [Piece("SELECT 1 AS n")])
        share = -(-len(paths) // len(self.pieces))
        for at, start in enumerate(range(0, len(paths), share)):
            self.pieces[at] = replace(self.pieces[at], copies=CopyFiles(folder, tuple(paths[start : start + share])))


_LOOK = "look"


def take_as_they_are(writer: Writer, stream: Stream, input: FileInput) -> int:
    """The files of a COPY become rows of the stream at the transaction's COMMIT; returns how many."""
    readers = writer.transaction.store.streams.readers_ahead(stream)
    try:
        return _take(writer, stream, input, readers)
    except DataError:
        if not readers:
            raise
        # A view cannot compute with a row. Who reads the view is told, as with any other insert.
        return _take(writer, stream, input, {})


def _take(writer: Writer, stream: Stream, input: FileInput, readers: Mapping[int, Reader]) -> int:
    store = writer.transaction.store
    before = [_state(file.path) for file in input.files]
    sources = tuple(
        BatchFile(file.path, sum(file.row_groups), file.bytes, 0, scn=0) for file in input.files if sum(file.row_groups)
    )
    if not sources:
        return 0
    kept = store.streams.keeps(stream)
    job = _planned(writer, stream, sources, readers)
    is_made = kept and store.streams.are_all(stream, readers) and job.leaves_files
    if kept and not is_made:
        job.copy(store.streams.bulk_folder(stream), [source.path for source in sources])
    answers = store.engine.run("duckdb", job.pieces, label="take files", cancellation=writer.cancellation)
    copies = [file for answer in answers for file in answer.copies]
    if [_state(file.path) for file in input.files] != before:
        for file in (*copies, *(file for answer in answers for file in answer.files)):
            os.unlink(file.path)
        raise BadFile("a file was changed while it was read", hint="Run the COPY again when it is written.")
    rows, size = sum(source.rows for source in sources), sum(source.bytes for source in sources)
    if not kept:
        writer.transaction.stream(stream, [Unkept(rows, size)])
        return rows
    made = {id: job.answers_of(id, answers) for id in readers}
    if is_made:
        items = [BulkFile(f"made/{uuid4().hex}", rows, size, _named(made, str(store.path)))]
    else:
        items = [BulkFile(f"bulk/{os.path.basename(copy.path)}", copy.rows, copy.bytes) for copy in copies]
    paths = frozenset(f"{store.streams.path}/{stream.id}/{item.path}" for item in items)
    store.streams.absorber.remember(Ahead(paths, made, readers))
    writer.transaction.stream(stream, items)
    return rows


def _named(made: Mapping[int, Sequence[Answer]], folder: str) -> tuple[tuple[int, tuple[MadeFile, ...]], ...]:
    """What readers have made, as the log says it."""
    files = {id: [file for answer in answers for file in answer.files] for id, answers in made.items()}
    return tuple(
        (id, tuple(MadeFile(os.path.relpath(file.path, folder), file.rows, file.bytes) for file in own))
        for id, own in files.items()
    )


def _planned(writer: Writer, stream: Stream, sources: tuple[BatchFile, ...], readers: Mapping[int, Reader]) -> _Job:
    """What readers make of the files, and a look at the columns that others will read later."""
    engine, job = writer.transaction.store.engine, _Job()
    parts = shares(Batch(stream.id, 0, 0, sources), engine.cores, FEW_ROWS)
    for id, reader in readers.items():
        job.add(id, list(reader.pieces(parts)))
    read = frozenset().union(*(reader.columns for reader in readers.values()))
    later = writer.transaction.store.streams.columns_read_later(stream, readers)
    unseen = [name for name in stream.column_names if name in later and name not in read]
    if unseen:
        looked = ", ".join(f"any_value({quote_name(name, 'duckdb')})" for name in unseen)
        sources_of = [batch_source(part, stream, unseen) for part in parts]
        text = f"SELECT {looked} FROM {BATCH}"
        job.add(_LOOK, [Piece(text, source.inputs, source.views) for source in sources_of])
    return job


def _state(path: str) -> tuple[int, int, int]:
    seen = os.stat(path)
    return seen.st_ino, seen.st_size, seen.st_mtime_ns
