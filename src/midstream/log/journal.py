"""The journal: appends inserts to the log, gives SCNs in that order, and syncs many inserts at once.

Whoever appends while another one writes waits in a queue; the next to come takes the whole queue as one frame, with one
sync for all of it. A table commit takes a `turn`: all before it is on the disk, nobody appends meanwhile, and the SCN
is its own. So one order holds for everything, and what is durable has no holes.

    scn = journal.append(Insert({stream_id: [rows]}))            # returns when it is on the disk
    with journal.turn() as turn:
        turn.prepare(insert)                                      # rows that count only if the commit does
        publish(turn.scn)
        turn.commit()

The log is a row of files. `rotate` closes the newest; closed ones become batches, and go when every reader has them.
Only streams that somebody reads are written at all.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from midstream.errors import Closed, Error, StorageError, TransactionConflict
from midstream.log.files import FileSystem, disk_errors
from midstream.log.frames import damage, frame, read_frames
from midstream.log.records import (
    BulkFile,
    FilesRecord,
    Record,
    RowsRecord,
    Standing,
    StandingRecord,
    VerdictRecord,
    decode,
    encode,
)

_SCNS_AHEAD = 10_000
"""How many SCNs of inserts that nobody reads may pass without a trace on the disk."""
_SUFFIX = ".log"

DataRecord = RowsRecord | FilesRecord


@dataclass(frozen=True)
class Unkept:
    """Rows that were not written anywhere, since nobody reads their stream."""

    rows: int
    bytes: int


class NowWanted(TransactionConflict):
    """Somebody began to read the stream after its rows were found to be needed by nobody, or by nobody else; the insert
    is to be made again."""

    def __init__(self) -> None:
        super().__init__("the stream has a new reader", hint="Run the transaction again.")


@dataclass(frozen=True)
class Insert:
    """What one commit adds to streams: by stream id, tables of few rows and files of many, in order."""

    streams: Mapping[int, Sequence[pa.Table | BulkFile | Unkept]]


@dataclass
class Segment:
    """One file of the log. Records are known by what they cover; their rows stay in the file."""

    number: int
    path: str
    records: list[DataRecord] = field(default_factory=list)
    last_scn: int = 0
    """The newest SCN when it was closed, whatever stream it was of."""
    bytes: int = 0
    frames: int = 0
    size: int = 0
    """Bytes that are on the disk for certain."""
    mark: int = field(default_factory=lambda: secrets.randbits(32))
    """In all frames of the file, and in those of no other."""
    opened_at: float = field(default_factory=time.monotonic)

    def records_of(self, stream_id: int) -> list[DataRecord]:
        return [record for record in self.records if record.stream_id == stream_id]


@dataclass
class Waiting:
    """An insert on its way to the disk."""

    insert: Insert
    scn: int = 0
    failure: Exception | None = None
    done: bool = False


@dataclass
class _Draft:
    """A frame that is being made up: its records, and where the streams stand after it."""

    scn: int
    at: float
    records: list[DataRecord] = field(default_factory=list)
    standing: dict[int, Standing] = field(default_factory=dict)
    runs: dict[int, tuple[list[tuple[int, int]], list[pa.Table]]] = field(default_factory=dict)
    is_accepted: bool = False


@dataclass(frozen=True)
class _Mark:
    """What is known of the disk before a frame is written."""

    size: int
    frames: int
    records: int
    bytes: int
    standing: dict[int, Standing]
    scn: int


class Journal:
    """Thread-safe."""

    def __init__(
        self,
        folder: str,
        files: FileSystem,
        *,
        known_scn: int,
        is_committed: Callable[[int], bool],
        reserve_scns: Callable[[int], None] = lambda scn: None,
        moved: Callable[[int], None] = lambda scn: None,
        accepted: Callable[[DataRecord], None] = lambda record: None,
        have_all: Callable[[int, BulkFile], bool] = lambda stream_id, file: False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._files = files
        self._is_committed = is_committed
        self._reserve_scns = reserve_scns
        self._moved = moved
        self._accepted = accepted
        self._have_all = have_all
        """Whether all who read a stream have made what they need of rows that lie in no file."""
        self._clock = clock
        self._latest = 0.0
        self._turn = threading.RLock()
        self._alone = 0
        """How often somebody has asked to be alone, who has the turn."""
        self._queue: deque[Waiting] = deque()
        self._standing: dict[int, Standing] = {}
        self._wanted: set[int] = set()
        self._broken: Exception | None = None
        self._is_closed = False
        self._verdicts: list[VerdictRecord] = []
        """To be written with the next frame: of the newest commit, the catalog knows it too."""
        self.last_scn = known_scn
        self._reserved = known_scn
        self._next_number = 1
        self.closed: deque[Segment] = deque()
        """Closed segments, oldest first."""
        with disk_errors("the log could not be opened"):
            files.make_folder(folder)
            self._recover()
            self._start_segment(self.closed)
            self._remove_empty()

    # --- inserting -------------------------------------------------------------------------------

    def append(self, insert: Insert) -> int:
        """Returns the insert's SCN when its rows are on the disk."""
        waiting = Waiting(insert)
        self.enqueue([waiting])
        return self.settle(waiting)

    def enqueue(self, inserts: Sequence[Waiting]) -> None:
        """Gives inserts their place in the order; `settle` waits until they are on the disk."""
        self._queue.extend(inserts)

    def flush(self) -> None:
        """Gets all that has its place to the disk."""
        with self._turn:
            self._flush()

    def settle(self, waiting: Waiting) -> int:
        if not waiting.done:
            with self._turn:
                if not waiting.done:
                    self._flush()
        if waiting.failure is not None:
            raise waiting.failure
        return waiting.scn

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        """For one table commit: alone, after everything that was appended before."""
        with self._turn:
            self._flush()
            self._check_sound()
            self._write()
            turn = Turn(self, self.last_scn + 1)
            try:
                yield turn
            except BaseException:
                turn.cancel()
                raise

    def _flush(self) -> None:
        """Writes the whole queue as one frame."""
        if self._alone:
            return
        taken = [self._queue.popleft() for _ in range(len(self._queue))]
        if not taken:
            return
        draft = _Draft(self.last_scn, self.now())
        before = self._mark()
        try:
            self._check_sound()
            for waiting in taken:
                if self._is_late(waiting.insert):
                    waiting.failure = NowWanted()
                    continue
                draft.scn += 1
                waiting.scn = draft.scn
                self._add(draft, waiting.insert)
            self._close_runs(draft)
            self._reserve(draft.scn)
            if draft.records:
                self._write(draft.records)
            self._accept(draft)
        except BaseException as failure:
            if not draft.is_accepted:
                self._go_back(before, failure)
                error = failure if isinstance(failure, Error) else StorageError("the log failed", detail=repr(failure))
                for waiting in taken:
                    waiting.failure = waiting.failure or error
            if not isinstance(failure, Exception):
                raise
        finally:
            for waiting in taken:
                waiting.done = True

    def _reserve(self, scn: int) -> None:
        """Before a number is given, that it may have been given is known."""
        if scn > self._reserved:
            self._reserve_scns(scn + _SCNS_AHEAD)
            self._reserved = scn + _SCNS_AHEAD

    def _is_late(self, insert: Insert) -> bool:
        """Whether rows were left out that somebody reads by now."""
        return any(
            self._is_missed(stream_id, item)
            for stream_id, items in insert.streams.items()
            if stream_id in self._wanted
            for item in items
        )

    def _is_missed(self, stream_id: int, item: pa.Table | BulkFile | Unkept) -> bool:
        if isinstance(item, BulkFile):
            return item.made is not None and not self._have_all(stream_id, item)
        return isinstance(item, Unkept)

    def _add(self, draft: _Draft, insert: Insert) -> None:
        for stream_id, items in insert.streams.items():
            for item in items:
                if isinstance(item, Unkept):
                    self._count(draft, stream_id, item.rows, item.bytes)
                elif isinstance(item, BulkFile):
                    self._add_files(draft, stream_id, (item,))
                elif item.num_rows:
                    inserts, tables = draft.runs.setdefault(stream_id, ([], []))
                    if inserts and inserts[-1][0] == draft.scn:
                        inserts[-1] = (draft.scn, inserts[-1][1] + item.num_rows)
                    else:
                        inserts.append((draft.scn, item.num_rows))
                    tables.append(item)

    def _add_files(self, draft: _Draft, stream_id: int, files: tuple[BulkFile, ...]) -> None:
        self._close_run(draft, stream_id)
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        first = self._count(draft, stream_id, rows, size)
        if stream_id in self._wanted:
            draft.records.append(FilesRecord(stream_id, draft.scn, first, draft.at, files))

    def _close_runs(self, draft: _Draft) -> None:
        for stream_id in list(draft.runs):
            self._close_run(draft, stream_id)

    def _close_run(self, draft: _Draft, stream_id: int) -> None:
        """The rows of several inserts, one after the other, become one record."""
        if stream_id not in draft.runs:
            return
        inserts, tables = draft.runs.pop(stream_id)
        size = sum(table.nbytes for table in tables)
        first = self._count(draft, stream_id, sum(rows for _, rows in inserts), size)
        if stream_id in self._wanted:
            batch = _one_batch(tables)
            draft.records.append(RowsRecord(stream_id, tuple(inserts), first, draft.at, size, batch))

    def _count(self, draft: _Draft, stream_id: int, rows: int, size: int) -> int:
        known = draft.standing.get(stream_id) or self._standing.get(stream_id) or Standing(stream_id, 0, 0)
        draft.standing[stream_id] = Standing(stream_id, known.rows + rows, known.bytes + size)
        return known.rows

    def _accept(self, draft: _Draft) -> None:
        """What is on the disk is now so."""
        active = self._active
        accepted = [_without_rows(record) for record in draft.records]
        standing = {**self._standing, **draft.standing}
        records = [*active.records, *accepted]
        size = active.bytes + sum(record.bytes for record in draft.records)
        # Nothing is called here, so Ctrl-C does not come between.
        active.records, active.bytes, self._standing = records, size, standing
        self.last_scn, draft.is_accepted = draft.scn, True
        for record in accepted:
            self._accepted(record)
        self._moved(draft.scn)

    def _mark(self) -> _Mark:
        segment = self._active
        return _Mark(segment.size, segment.frames, len(segment.records), segment.bytes, self._standing, self.last_scn)

    def _go_back(self, mark: _Mark, failure: BaseException) -> None:
        """Ctrl-C can come between the disk and what we know of it: both are then as they were before."""
        segment = self._active
        if segment.size != mark.size:
            segment.size, segment.frames = mark.size, mark.frames
            self._take_back(failure)
        del segment.records[mark.records :]
        segment.bytes, self._standing, self.last_scn = mark.bytes, mark.standing, mark.scn

    def _move(self, scn: int) -> None:
        self.last_scn = scn
        self._moved(scn)

    # --- the file --------------------------------------------------------------------------------

    def _write(self, records: Sequence[Record] = ()) -> None:
        """One frame, after the verdicts that the log does not know yet. Each is synced before the next is written, so
        that what was on the disk once has nothing torn before it."""
        records = [*self._verdicts, *records]
        if not records:
            return
        segment = self._active
        data = frame(segment.frames, encode(records), segment.mark)
        with disk_errors("the rows could not be written to the log"):
            size, frames = segment.size, segment.frames
            try:
                self._file.write(data)
                self._file.sync()
                segment.frames, segment.size = frames + 1, size + len(data)
            except BaseException as failure:
                segment.frames, segment.size = frames, size
                self._take_back(failure)
                raise
        self._verdicts.clear()

    def _take_back(self, failure: BaseException) -> None:
        """Nothing of a failed write stays; a file that cannot even be cut is not written to again."""
        try:
            self._file.truncate(self._active.size)
            self._file.sync()
        except BaseException:  # noqa: BLE001
            self._broken = _as_exception(failure)

    def _check_sound(self) -> None:
        if self._is_closed:
            raise Closed("the database is closed", hint="midstream.connect opens it again.")
        if self._broken is not None:
            raise StorageError(
                "the log cannot be written since an earlier write failed",
                detail=self._broken.message if isinstance(self._broken, Error) else str(self._broken),
                hint="Close the database and open it again; what was acknowledged is safe.",
            )

    def _start_segment(self, closed: deque[Segment]) -> None:
        """A new file becomes the newest, and `closed` are those before it."""
        number = self._next_number
        segment = Segment(number, f"{self._folder}/{number:010d}{_SUFFIX}", last_scn=self.last_scn)
        data = frame(0, encode([StandingRecord(self.last_scn, tuple(self._standing.values()))]), segment.mark)
        segment.frames, segment.size = 1, len(data)
        file = self._files.create(segment.path)
        try:
            file.write(data)
            file.sync()
            self._files.sync_folder(self._folder)
            # Nothing is called here, so Ctrl-C does not come between.
            self.closed, self._active, self._file, self._next_number = closed, segment, file, number + 1
        except BaseException as failure:
            file.close()
            self._unmake(segment.path, failure)
            raise

    def _unmake(self, path: str, failure: BaseException) -> None:
        """A file that did not become the newest is not there after a crash either: it would seem to follow rows that
        came after it."""
        try:
            self._files.remove(path)
            self._files.sync_folder(self._folder)
        except BaseException:  # noqa: BLE001
            self._broken = _as_exception(failure)

    # --- closing and cutting ---------------------------------------------------------------------

    def rotate(self) -> None:
        """Closes the newest file, if anything is in it, so that its rows can become batches."""
        with self._turn:
            self._flush()
            if not self._active.records:
                return
            self._check_sound()
            self._write()
            self._active.last_scn = self.last_scn
            full = self._file
            with disk_errors("a new file of the log could not be made"):
                self._start_segment(deque([*self.closed, self._active]))
            full.close()

    @property
    def active(self) -> Segment:
        return self._active

    def cut(self, is_needed: Callable[[Segment], bool]) -> list[Segment]:
        """Removes the oldest closed files, up to the first that is still needed."""
        gone: list[Segment] = []
        with self._turn:
            while self.closed and not is_needed(self.closed[0]):
                with disk_errors("an old file of the log could not be removed"):
                    self._files.remove(self.closed[0].path)
                gone.append(self.closed.popleft())
        return gone

    def load(self, segment: Segment) -> list[RowsRecord]:
        """The records of a closed file with their rows; those of transactions that were not committed left out."""
        with disk_errors("the log could not be read"):
            data = self._files.read(segment.path)
        # By their SCN: the positions of a commit that failed are given again.
        counted = {(record.stream_id, record.first_scn) for record in segment.records}
        found: list[RowsRecord] = []
        for each in read_frames(data[: segment.size], segment.path, is_last=False):
            found += [
                record
                for record in decode(each.body)
                if isinstance(record, RowsRecord) and (record.stream_id, record.first_scn) in counted
            ]
        return found

    def close(self) -> None:
        with self._turn:
            if self._is_closed:
                return
            self._flush()
            if self._broken is None:
                # On a full disk only the count of rows that nobody reads is lost.
                with suppress(Error):
                    self._write([StandingRecord(self.last_scn, tuple(self._standing.values()))])
                    self._reserve_scns(self.last_scn)
            self._is_closed = True
            self._file.close()

    # --- streams ---------------------------------------------------------------------------------

    def has_rows(self, stream_id: int, after: int, upto: int) -> bool:
        """Whether the log holds rows of a stream in a range of SCNs."""
        with self._turn:
            return any(
                record.stream_id == stream_id and record.last_scn > after and record.first_scn <= upto
                for segment in [*self.closed, self._active]
                for record in segment.records
            )

    def rows_after(self, stream_id: int, after: int) -> int:
        """How many rows of a stream the log holds that came after an SCN."""
        with self._turn:
            return sum(
                record.rows
                for segment in [*self.closed, self._active]
                for record in segment.records
                if record.stream_id == stream_id and record.last_scn > after
            )

    def seconds_after(self, stream_id: int, after: int) -> float:
        """How old the oldest row of a stream is that the log holds and that came after an SCN; 0 if there is none."""
        with self._turn:
            times = (
                record.at
                for segment in [*self.closed, self._active]
                for record in segment.records
                if record.stream_id == stream_id and record.last_scn > after
            )
            oldest = min(times, default=None)
            return 0.0 if oldest is None else self.now() - oldest

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Everything before is on the disk and nobody appends: to register a reader, say. Whatever is done inside, no
        SCN passes."""
        with self._turn:
            self._flush()
            self._alone += 1
            try:
                yield
            finally:
                self._alone -= 1

    def now(self) -> float:
        """The time of what is written now: it never goes back, whatever the machine's clock does."""
        self._latest = max(self._latest, self._clock())
        return self._latest

    def want(self, stream_id: int, wanted: bool) -> None:
        """Whether anybody reads a stream: the rows of others are not kept."""
        with self._turn:
            (self._wanted.add if wanted else self._wanted.discard)(stream_id)

    def is_wanted(self, stream_id: int) -> bool:
        return stream_id in self._wanted

    def forget(self, stream_id: int) -> None:
        with self._turn:
            self._wanted.discard(stream_id)
            self._standing.pop(stream_id, None)

    def standing(self, stream_id: int) -> Standing:
        return self._standing.get(stream_id) or Standing(stream_id, 0, 0)

    @property
    def bytes_on_disk(self) -> int:
        return sum(segment.size for segment in [*self.closed, self._active])

    # --- opening again ---------------------------------------------------------------------------

    def _recover(self) -> None:
        names = [name for name in self._files.names(self._folder) if name.endswith(_SUFFIX)]
        numbers = [int(name.removesuffix(_SUFFIX)) for name in names]
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise StorageError(
                "a file of the log is missing",
                detail=f"There are {', '.join(names)}.",
                hint="Restore the database's folder from a copy.",
                sqlstate="XX001",
            )
        if len(numbers) == 1 and numbers[0] > 1:
            self._check_begun(names[0])
        verdicts: dict[int, bool] = {}
        found: list[Segment] = []
        for name in names:
            segment, began_at = self._read_segment(name, verdicts, is_last=name == names[-1])
            if found and segment.frames:
                # What readers have of a file that was closed is known by the SCN at which it was closed.
                found[-1].last_scn = began_at
            if segment.frames:
                found.append(segment)
        self._next_number = found[-1].number + 1 if found else self._next_number
        for segment in found:
            segment.records = [r for r in segment.records if _counts(r, verdicts, self._is_committed)]
            for record in segment.records:
                self._recount(record)
            if segment.records:
                segment.bytes = sum(record.bytes for record in segment.records)
        if found:
            # The next file begins here, and will say so when the log is opened again.
            found[-1].last_scn = self.last_scn
        self.closed.extend(found)
        self._reserved = max(self._reserved, self.last_scn)

    def _check_begun(self, name: str) -> None:
        """Older files go when there is a newer one: the only one that is left was not just being made."""
        path = f"{self._folder}/{name}"
        if not any(read_frames(self._files.read(path), path, is_last=True)):
            raise damage(path, 0)

    def _read_segment(self, name: str, verdicts: dict[int, bool], *, is_last: bool) -> tuple[Segment, int]:
        """A file of the log, and the SCN at which it was begun."""
        path = f"{self._folder}/{name}"
        data = self._files.read(path)
        segment = Segment(int(name.removesuffix(_SUFFIX)), path)
        began_at = 0
        for each in read_frames(data, path, is_last=is_last):
            for record in decode(each.body):
                if isinstance(record, StandingRecord) and each.number == 0:
                    began_at = record.scn
                self._see(segment, record, verdicts)
            segment.frames, segment.size = each.number + 1, each.end
        if is_last and not segment.frames:
            self._files.remove(path)
        elif is_last:
            self._secure(path, segment.size)
        return segment, began_at

    def _see(self, segment: Segment, record: Record, verdicts: dict[int, bool]) -> None:
        match record:
            case StandingRecord(scn=scn, streams=streams):
                self._standing = {standing.stream_id: standing for standing in streams}
                segment.last_scn = max(segment.last_scn, scn)
            case VerdictRecord(scn=scn, committed=committed):
                verdicts[scn] = committed
                segment.last_scn = max(segment.last_scn, scn)
            case RowsRecord() | FilesRecord():
                segment.last_scn = max(segment.last_scn, record.last_scn)
                segment.records.append(_without_rows(record))
                self._latest = max(self._latest, record.at)
        self.last_scn = max(self.last_scn, segment.last_scn)

    def _recount(self, record: DataRecord) -> None:
        known = self.standing(record.stream_id)
        if record.first_position >= known.rows:
            size = known.bytes + record.bytes
            self._standing[record.stream_id] = Standing(record.stream_id, record.first_position + record.rows, size)

    def _secure(self, path: str, size: int) -> None:
        """Cuts off an unfinished end, and syncs the rest: a process that was killed may not have come to that."""
        file = self._files.reopen(path)
        try:
            file.truncate(size)
            file.sync()
        finally:
            file.close()

    def _remove_empty(self) -> None:
        """Files at the beginning in which nothing counts. Where the streams stand is in the newest file by now."""
        while self.closed and not self.closed[0].records:
            self._files.remove(self.closed.popleft().path)


class Turn:
    """One commit's place in the order."""

    def __init__(self, journal: Journal, scn: int) -> None:
        self._journal = journal
        self.scn = scn
        self._draft: _Draft | None = None
        self._is_over = False

    def prepare(self, insert: Insert) -> None:
        """Writes rows that will count if the commit does."""
        journal, draft = self._journal, _Draft(self.scn, self._journal.now())
        if journal._is_late(insert):
            raise NowWanted()
        journal._add(draft, insert)
        journal._close_runs(draft)
        draft.records = [replace(record, prepared=True) for record in draft.records]
        self._draft = draft
        if draft.records:
            try:
                journal._write(draft.records)
            except Exception:
                # Nothing of it is on the disk. After Ctrl-C, it may be.
                self._draft = None
                raise

    def commit(self) -> None:
        """To be called when the catalog knows the commit."""
        if self._draft is None:
            self._journal._move(self.scn)
        elif not self._draft.is_accepted:
            self._journal._accept(self._draft)
        self._end(committed=True)

    def cancel(self) -> None:
        if self._is_over:
            return
        has_rows = self._draft is not None and bool(self._draft.records)
        if has_rows:
            # The number is used up: a later commit that had it would make these rows count.
            self._journal._move(self.scn)
        if self._journal._is_committed(self.scn):
            # It was interrupted after the moment that counts.
            self.commit()
        elif has_rows:
            self._end(committed=False)

    def _end(self, *, committed: bool) -> None:
        self._is_over = True
        if self._draft is not None and self._draft.records:
            self._journal._verdicts.append(VerdictRecord(self.scn, committed))


def _counts(record: DataRecord, verdicts: Mapping[int, bool], is_committed: Callable[[int], bool]) -> bool:
    if not record.prepared:
        return True
    verdict = verdicts.get(record.last_scn)
    return is_committed(record.last_scn) if verdict is None else verdict


def _as_exception(failure: BaseException) -> Exception:
    return failure if isinstance(failure, Exception) else StorageError("the log was interrupted")


def _without_rows(record: DataRecord) -> DataRecord:
    return replace(record, batch=None) if isinstance(record, RowsRecord) else record


def _one_batch(tables: Sequence[pa.Table]) -> pa.RecordBatch:
    if len(tables) == 1 and (batches := tables[0].to_batches()) and len(batches) == 1:
        return batches[0]
    [batch] = pa.concat_tables(tables).combine_chunks().to_batches()
    return batch
