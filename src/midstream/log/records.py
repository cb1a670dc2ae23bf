"""Records: what the frames of the log say.

    rows       rows of a stream, as one Arrow batch: a run of inserts, each with its SCN and number of rows
    files      rows of a stream that lie in Parquet files, or of which all readers have what they need: one insert
    standing   where each stream stands: written at the beginning of every file of the log
    verdict    whether a transaction whose rows were written before its commit was committed

Rows of a transaction that also changes tables are `prepared`: they count if the catalog knows the commit.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

_HEADER = struct.Struct("<BxxxIQ")
"""Kind, length of the JSON that describes the record, length of the Arrow batch behind it."""


@dataclass(frozen=True)
class RowsRecord:
    """Rows of one stream: consecutive inserts, as (SCN, number of rows)."""

    stream_id: int
    inserts: tuple[tuple[int, int], ...]
    first_position: int
    at: float
    """When it was acknowledged, in seconds since 1970."""
    bytes: int
    batch: pa.RecordBatch | memoryview | None = field(compare=False)
    """The rows; read from a file, still as bytes; None where only what the record covers is needed."""
    prepared: bool = False

    @property
    def rows(self) -> int:
        return sum(rows for _, rows in self.inserts)

    @property
    def first_scn(self) -> int:
        return self.inserts[0][0]

    @property
    def last_scn(self) -> int:
        return self.inserts[-1][0]


@dataclass(frozen=True)
class MadeFile:
    """A file that a reader has made of rows, beside the log; `path` is relative to the database's folder."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class BulkFile:
    """A Parquet file that is part of the log; `path` is relative to the stream's folder.

    Where all who read the stream have made what they need of the rows before these had their place, there is no such
    file: `made` says what each reader has, and `path` is only a name."""

    path: str
    rows: int
    bytes: int
    made: tuple[tuple[int, tuple[MadeFile, ...]], ...] | None = None


@dataclass(frozen=True)
class FilesRecord:
    stream_id: int
    scn: int
    first_position: int
    at: float
    files: tuple[BulkFile, ...]
    prepared: bool = False

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def first_scn(self) -> int:
        return self.scn

    @property
    def last_scn(self) -> int:
        return self.scn


@dataclass(frozen=True)
class Standing:
    """Where a stream stands: how much has come in since it was made."""

    stream_id: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class StandingRecord:
    scn: int
    streams: tuple[Standing, ...]


@dataclass(frozen=True)
class VerdictRecord:
    scn: int
    committed: bool


Record = RowsRecord | FilesRecord | StandingRecord | VerdictRecord
_KINDS: tuple[type[Record], ...] = (RowsRecord, FilesRecord, StandingRecord, VerdictRecord)


def encode(records: Sequence[Record]) -> bytes:
    parts: list[Any] = []
    for record in records:
        payload: Any = b""
        if isinstance(record, RowsRecord):
            payload = record.batch.serialize() if isinstance(record.batch, pa.RecordBatch) else record.batch or b""
            about: dict[str, Any] = {
                "stream_id": record.stream_id,
                "inserts": record.inserts,
                "first_position": record.first_position,
                "at": record.at,
                "bytes": record.bytes,
                "prepared": record.prepared,
            }
        else:
            about = asdict(record)
        text = json.dumps(about, separators=(",", ":")).encode()
        parts += [_HEADER.pack(_KINDS.index(type(record)), len(text), len(payload)), text, payload]
    return b"".join(parts)


def decode(body: memoryview) -> Iterator[Record]:
    place = 0
    while place < len(body):
        kind, about_length, payload_length = _HEADER.unpack_from(body, place)
        start = place + _HEADER.size
        about = json.loads(bytes(body[start : start + about_length]))
        place = start + about_length + payload_length
        yield _record(_KINDS[kind], about, body[place - payload_length : place])


def _record(kind: type[Record], about: dict[str, Any], payload: memoryview) -> Record:
    if kind is RowsRecord:
        about["inserts"] = tuple((scn, rows) for scn, rows in about["inserts"])
        return RowsRecord(**about, batch=payload)
    if kind is FilesRecord:
        about["files"] = tuple(_bulk_file(**file) for file in about["files"])
    if kind is StandingRecord:
        about["streams"] = tuple(Standing(**standing) for standing in about["streams"])
    return kind(**about)


def _bulk_file(made: list[Any] | None = None, **about: Any) -> BulkFile:
    if made is None:
        return BulkFile(**about)
    return BulkFile(**about, made=tuple((reader, tuple(MadeFile(**file) for file in files)) for reader, files in made))


def rows_of(record: RowsRecord, schema: pa.Schema) -> pa.RecordBatch:
    """The record's rows; one that was read from a file needs the stream's schema."""
    if isinstance(record.batch, pa.RecordBatch):
        return record.batch
    assert record.batch is not None, "a record without its rows"
    return pa.ipc.read_record_batch(pa.py_buffer(record.batch), schema)
