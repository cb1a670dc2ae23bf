"""Batches: what readers get, as Parquet that a job reads.

A closed file of the log becomes, for each stream, a run of Parquet files in the order of their rows. Few rows are
written out from the log (`sealed`), with the SCN and the position of every row; files of many rows are taken as they
are, and all of their rows have one SCN. What is sealed can be made again from the log, so it needs no sync. Rows of
which all readers have what they need have their place in the run, but no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.log.files import FileSystem, disk_errors
from midstream.log.journal import DataRecord, Journal, Segment
from midstream.log.records import FilesRecord, RowsRecord, rows_of

SCN, POSITION, ARRIVED = "_scn", "_position", "_arrived"
"""Columns that a sealed file has beside the stream's own: the last is a timestamp in UTC."""


@dataclass(frozen=True)
class Times:
    """The times of the rows of an insert, in microseconds since 1970."""

    scn: int
    low: int | None
    high: int | None
    has_nulls: bool


@dataclass(frozen=True)
class BatchFile:
    path: str
    rows: int
    bytes: int
    first_position: int
    scn: int | None = None
    """The SCN of all its rows; None: it has the columns `_scn`, `_position` and `_arrived`."""
    at: float = 0.0
    """When the newest of its rows arrived: where they have one SCN, all of them."""
    row_groups: tuple[int, ...] | None = None
    """Only these row groups of the file, where tasks share it."""
    times: tuple[Times, ...] = ()
    """What the stream's column of time says of each insert, where somebody goes by it."""
    is_made: bool = False
    """There is no such file: all who are to absorb it have made what they need of its rows."""


@dataclass(frozen=True)
class Batch:
    """The rows of one stream with SCNs in (after, upto]."""

    stream_id: int
    after: int
    upto: int
    files: tuple[BatchFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True)
class Sealed:
    """A closed file of the log as the files of batches, by stream."""

    segment: Segment
    files: Mapping[int, tuple[BatchFile, ...]]


def shares(batch: Batch, tasks: int, few_rows: int) -> list[Batch]:
    """A batch cut for tasks by files and row groups, in the order of its rows; one of few rows stays whole."""
    if batch.rows <= few_rows or tasks < 2:
        return [batch]
    taken: list[list[BatchFile]] = [[] for _ in range(tasks)]
    rows = 0
    for piece in _row_group_pieces(batch.files):
        # The share that the middle of a row group lies in.
        taken[min((2 * rows + piece.rows) * tasks // (2 * batch.rows), tasks - 1)].append(piece)
        rows += piece.rows
    return [replace(batch, files=tuple(_joined(files))) for files in taken if files]


def _row_group_pieces(files: Sequence[BatchFile]) -> Iterator[BatchFile]:
    for file in files:
        groups = pq.read_metadata(file.path)
        for number in range(groups.num_row_groups):
            rows = groups.row_group(number).num_rows
            yield replace(file, rows=rows, bytes=file.bytes * rows // max(file.rows, 1), row_groups=(number,))


def _joined(files: Sequence[BatchFile]) -> Iterator[BatchFile]:
    """Row groups of the same file as one piece of it."""
    for _, same in groupby(files, key=lambda file: file.path):
        pieces = list(same)
        groups = tuple(group for piece in pieces for group in piece.row_groups or ())
        rows, size = sum(piece.rows for piece in pieces), sum(piece.bytes for piece in pieces)
        yield replace(pieces[0], rows=rows, bytes=size, row_groups=groups)


class Sealer:
    """Turns closed files of the log into the files of batches."""

    def __init__(self, folder: str, files: FileSystem, journal: Journal) -> None:
        self._folder = folder
        self._files = files
        self._journal = journal

    def folder(self, stream_id: int) -> str:
        return f"{self._folder}/{stream_id}"

    def seal(
        self, segment: Segment, schemas: Mapping[int, pa.Schema], clocks: Mapping[int, str] | None = None
    ) -> Sealed:
        """The files of each stream in `schemas` that has rows in the segment. Of streams in `clocks`, the times of
        each insert are noted, from the column that is named there."""
        records = [record for record in segment.records if record.stream_id in schemas]
        loaded: dict[tuple[int, int], RowsRecord] = {}
        if any(isinstance(record, RowsRecord) for record in records):
            loaded = {(r.stream_id, r.first_position): r for r in self._journal.load(segment)}
        found: dict[int, tuple[BatchFile, ...]] = {}
        for stream_id in dict.fromkeys(record.stream_id for record in records):
            own = [record for record in records if record.stream_id == stream_id]
            files = self._files_of(segment, stream_id, own, loaded, schemas[stream_id])
            clock = (clocks or {}).get(stream_id)
            found[stream_id] = tuple(files) if clock is None else tuple(with_times(file, clock) for file in files)
        return Sealed(segment, found)

    def _files_of(
        self,
        segment: Segment,
        stream_id: int,
        records: Sequence[DataRecord],
        loaded: Mapping[tuple[int, int], RowsRecord],
        schema: pa.Schema,
    ) -> Iterator[BatchFile]:
        runs = groupby(records, key=lambda record: isinstance(record, FilesRecord))
        for number, (_, run) in enumerate(runs):
            rows: list[RowsRecord] = []
            for record in run:
                if isinstance(record, FilesRecord):
                    yield from self._taken(record)
                else:
                    rows.append(loaded[stream_id, record.first_position])
            if rows:
                path = f"{self.folder(stream_id)}/sealed/{segment.number:010d}-{number}.parquet"
                yield self._written(path, rows, schema)

    def _taken(self, record: FilesRecord) -> Iterator[BatchFile]:
        position = record.first_position
        for file in record.files:
            path = f"{self.folder(record.stream_id)}/{file.path}"
            is_made = file.made is not None
            yield BatchFile(path, file.rows, file.bytes, position, record.scn, record.at, is_made=is_made)
            position += file.rows

    def _written(self, path: str, records: Sequence[RowsRecord], schema: pa.Schema) -> BatchFile:
        table = pa.Table.from_batches([rows_of(record, schema) for record in records], schema)
        lengths = [record.rows for record in records]
        inserts = [insert for record in records for insert in record.inserts]
        table = table.append_column(SCN, _repeated([scn for scn, _ in inserts], [rows for _, rows in inserts]))
        table = table.append_column(POSITION, _positions([record.first_position for record in records], lengths))
        arrived = _repeated([int(record.at * 1e6) for record in records], lengths)
        table = table.append_column(ARRIVED, arrived.cast(pa.timestamp("us")))
        with disk_errors("a batch could not be written"):
            self._files.make_folder(path.rpartition("/")[0])
            size = write_parquet(self._files, path, table)
            newest = max(record.at for record in records)
            return BatchFile(path, table.num_rows, size, records[0].first_position, at=newest)


def with_times(file: BatchFile, column: str) -> BatchFile:
    if file.is_made:
        # Who goes by times came after it.
        return file
    with disk_errors("a batch could not be read"):
        if file.scn is not None:
            return replace(file, times=(_times_of_file(file.path, column, file.scn),))
        table = pq.read_table(file.path, columns=[SCN, column], partitioning=None)
        times = pa.table({SCN: table.column(SCN), "time": _microseconds(table.column(column))})
        nulls = pc.CountOptions(mode="only_null")
        grouped = times.group_by(SCN).aggregate([("time", "min"), ("time", "max"), ("time", "count", nulls)])
        names = (SCN, "time_min", "time_max", "time_count")
        rows = zip(*(grouped.column(name).to_pylist() for name in names), strict=True)
        found = [Times(scn, low, high, bool(count)) for scn, low, high, count in rows]
        return replace(file, times=tuple(sorted(found, key=lambda times: times.scn)))


def _times_of_file(path: str, column: str, scn: int) -> Times:
    """From what a file's footer says of each row group, where it does."""
    file = pq.ParquetFile(path)
    place = file.schema_arrow.get_field_index(column)
    type_ = file.schema_arrow.field(place).type
    lows, highs, has_nulls = list[int | None](), list[int | None](), False
    for number in range(file.metadata.num_row_groups):
        known = file.metadata.row_group(number).column(place).statistics
        if known is not None and known.has_min_max and known.has_null_count:
            values, nulls = pa.chunked_array([pa.array([known.min, known.max], type_)]), known.null_count
        else:
            values = file.read_row_group(number, columns=[column]).column(0)
            nulls = values.null_count
        ends = pc.min_max(_microseconds(values)).as_py()
        lows.append(ends["min"])
        highs.append(ends["max"])
        has_nulls = has_nulls or bool(nulls)
    low = min((value for value in lows if value is not None), default=None)
    return Times(scn, low, max((value for value in highs if value is not None), default=None), has_nulls)


def _microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    zone = getattr(times.type, "tz", None)
    return times.cast(pa.timestamp("us", tz=zone)).cast(pa.int64())


def _repeated(values: Sequence[int], times: Sequence[int]) -> pa.Array:
    """Each value so many times: thousands of inserts of one row take no loop of Python's."""
    runs = pa.RunEndEncodedArray.from_arrays(
        pa.array(accumulate(times), pa.int64()),
        pa.array(values, pa.int64()),
        pa.run_end_encoded(pa.int64(), pa.int64()),
    )
    return pc.run_end_decode(runs)


def _positions(firsts: Sequence[int], lengths: Sequence[int]) -> pa.Array:
    """first, first + 1, … for each run of rows."""
    ends = list(accumulate(lengths, initial=0))
    shifts = [first - start for first, start in zip(firsts, ends, strict=False)]
    return pc.add(pa.arange(0, ends[-1]), _repeated(shifts, lengths))


def write_parquet(files: FileSystem, path: str, table: pa.Table, *, sync: bool = False) -> int:
    """Writes rows as fast as they can be read again; returns the size. Removes the file if that fails."""
    file = files.create(path)
    try:
        with pa.PythonFile(_Counted(file), "w") as sink:
            pq.write_table(table, sink, compression="none", use_dictionary=False, write_statistics=False)
            size = int(sink.tell())
        if sync:
            file.sync()
        return size
    except BaseException:
        files.remove(path)
        raise
    finally:
        file.close()


class _Counted:
    """A file of the log as Arrow wants one: it asks where it stands."""

    closed = False

    def __init__(self, file: object) -> None:
        self._file = file
        self._at = 0

    def write(self, data: object) -> int:
        written: int = self._file.write(data)  # type: ignore[attr-defined]
        self._at += written
        return written

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True
