"""All streams of a database at work: inserts go into the log, the log into batches, batches to the readers.

One thread watches: it closes the newest file of the log by size and by time, makes batches of what is closed, and lets
each stream's readers absorb them, in order, as one job for all readers of a stream. What all have is cut off the log.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa

from midstream.errors import Cancelled, Closed, Error, StorageError, TransactionConflict, UndefinedName
from midstream.ingest.arrow_types import arrow_schema
from midstream.log.backlog import Backlog
from midstream.log.batches import Batch, BatchFile, Sealed, Sealer, write_parquet
from midstream.log.files import FileSystem, disk_errors
from midstream.log.journal import DataRecord, Insert, Journal, Segment, Unkept
from midstream.log.records import BulkFile, FilesRecord, MadeFile
from midstream.maintenance.engine import Answer, Cancellation, WrittenFile
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.stream import Stream
from midstream.relations.view import ContinuousView
from midstream.runtime.absorbing import Absorber, Ahead, Feed, Standing, Work
from midstream.runtime.readers import Reader, ReaderMaker
from midstream.runtime.store import Store
from midstream.runtime.stream_status import Rates, ReaderStatus, StreamStatus

BULK_ROWS, BULK_BYTES = 20_000, 1 << 20
"""An insert of more is a Parquet file at once; smaller ones lie in the log until it is closed."""
SEGMENT_BYTES = 16 << 20
SEGMENT_SECONDS = 0.5
"""A file of the log is closed when it is so large, or when its first rows are so old."""
BATCH_ROWS = 4_000_000
"""A reader that is behind gets about so many rows at once."""
HOLD_SECONDS = 1.0
"""So long newer rows wait at most for those who compute with the older ones,"""
GRACE_SECONDS = 0.1
"""and so long for whoever reads next: what he waits for is absorbed and answered as one job."""
_TICK = 0.05
_RETRY = 0.5

Item = Any
"""A `pa.Table` of few rows, a `BulkFile`, or `Unkept` rows."""


@dataclass(frozen=True)
class StreamRows:
    """What a transaction inserts into one stream, in order."""

    stream: Stream
    items: tuple[Item, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(item.nbytes if isinstance(item, pa.Table) else item.bytes for item in self.items)

    @property
    def files(self) -> list[BulkFile]:
        return [item for item in self.items if isinstance(item, BulkFile)]


class Streams:
    """Thread-safe. `start` begins the work once everything is wired."""

    def __init__(self, store: Store, files: FileSystem, makers: Mapping[str, ReaderMaker]) -> None:
        self._store = store
        self._makers = makers
        self.files = files
        self.backlog = Backlog()
        catalog = store.catalog
        self.path = store.path / "streams"
        self.journal = Journal(
            str(store.path / "log"),
            files,
            known_scn=max(catalog.state.scn, catalog.reserved_scn()),
            is_committed=catalog.has_commit,
            reserve_scns=catalog.reserve_scns,
            moved=catalog.advance,
            accepted=self._accepted,
            have_all=self._have_all,
        )
        catalog.advance(self.journal.last_scn)
        self._sealer = Sealer(str(self.path), files, self.journal)
        self._feeds: dict[int, Feed] = {}
        self._lock = threading.RLock()
        self._progress = threading.Condition(self._lock)
        self._wake = threading.Event()
        self._hurry = False
        self._stop = threading.Event()
        self._sealed_upto = 0
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="midstream-absorb")
        self._cancellation = Cancellation()
        self._thread = threading.Thread(target=self._run, name="midstream-streams", daemon=True)
        self._rates, self._reader_rates = Rates(), Rates()
        self._dead: deque[str] = deque()
        """Files that all readers have. To remove a large one takes long, so nobody waits for it."""
        self.absorber = Absorber(store, self._progress, self._lock, self._cancellation)
        self.chunks: dict[int, int] = {}
        """Streams of which so many rows are to be absorbed at once: somebody waits for them to be full."""
        self._uncut: dict[int, int] = {}
        """Rows of these that have come since the log was last closed."""
        self._released_at = 0.0
        """When somebody last had what he waited for."""
        self._cuts: list[int] = []
        """SCNs that somebody wants the readers to stand at, so no batch goes across one."""

    def start(self, tidy: Callable[[], None] = lambda: None) -> None:
        """Takes up what an earlier process left, lets others tidy up what depends on it, and begins."""
        state = self._store.catalog.state
        for relation in state.relations.values():
            if isinstance(relation, Stream):
                self._feeds[relation.id] = Feed(relation)
            elif isinstance(relation, ContinuousView) and relation.is_windowed:
                self._feeds[relation.id] = Feed(relation.basket)
        for entry in self._store.catalog.readers():
            if entry.stream_id in self._feeds:
                self._take_up(entry)
        self._remove_leftovers()
        for segment in self.journal.closed:
            for record in segment.records:
                self._accepted(record)
                if isinstance(record, FilesRecord):
                    self._recall(record)
        for feed in self._feeds.values():
            self._settle(feed)
        tidy()
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        self._cancellation.cancel()
        with self._progress:
            self._progress.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True)
        self.journal.close()

    def _remove_leftovers(self) -> None:
        """Files of inserts that were never acknowledged, batches that can be made again, and streams that are gone."""
        named = {
            (record.stream_id, file.path)
            for segment in self.journal.closed
            for record in segment.records
            if isinstance(record, FilesRecord)
            for file in record.files
        }
        with disk_errors("the leftovers of streams could not be removed"):
            for name in self.files.names(str(self.path)):
                folder = f"{self.path}/{name}"
                if not name.isdigit() or int(name) not in self._feeds:
                    self.files.remove(folder)
                    continue
                self.files.remove(f"{folder}/sealed")
                for file in self.files.names(f"{folder}/bulk"):
                    if (int(name), f"bulk/{file}") not in named:
                        self.files.remove(f"{folder}/bulk/{file}")

    def _recall(self, record: FilesRecord) -> None:
        """What readers had made of rows that are not kept, and have yet to take in."""
        feed = self._feeds.get(record.stream_id)
        standings = feed.readers if feed is not None else {}
        readers = {id: s.reader for id, s in standings.items() if s.entry.absorbed < record.scn}
        for file in record.files:
            if file.made is not None:
                made = {id: [self._answer(files)] for id, files in file.made if id in readers}
                path = f"{self.path}/{record.stream_id}/{file.path}"
                self.absorber.remember(Ahead(frozenset([path]), made, readers))

    def _answer(self, files: Sequence[MadeFile]) -> Answer:
        return Answer(files=tuple(WrittenFile(f"{self._store.path}/{f.path}", f.rows, f.bytes, "") for f in files))

    # --- definitions -----------------------------------------------------------------------------

    def created(self, stream: Stream, readers: Sequence[ReaderEntry]) -> None:
        """A stream that was just committed, in that commit's turn."""
        with self._lock:
            self._feeds[stream.id] = Feed(stream)
            for entry in readers:
                self._take_up(entry)

    def dropped(self, stream: Stream) -> None:
        with self.journal.alone(), self._progress:
            self._feeds.pop(stream.id, None)
            self.journal.forget(stream.id)
            self.backlog.forget(stream.id)
            self._rates.forget(stream.id)
            self._progress.notify_all()
        # What a COPY is still writing there goes when the database is opened again.
        with suppress(OSError):
            self.files.remove(f"{self.path}/{stream.id}")
        self._wake.set()

    def drop_basket(self, view_id: int) -> None:
        """The view over windows is gone, or was never made."""
        feed = self._feeds.get(view_id)
        if feed is not None and feed.stream.is_basket:
            self.dropped(feed.stream)

    def knows(self, stream: Stream) -> bool:
        return self.knows_id(stream.id)

    def knows_id(self, stream_id: int) -> bool:
        return stream_id in self._feeds

    def bulk_folder(self, stream: Stream) -> str:
        """Where jobs leave the rows of a stream as Parquet."""
        folder = f"{self.path}/{stream.id}/bulk"
        with disk_errors("a folder could not be made"):
            self.files.make_folder(folder)
        return folder

    # --- readers ---------------------------------------------------------------------------------

    def register(self, stream: Stream, name: str, kind: str, state: str | Callable[[int], str] = "{}") -> ReaderEntry:
        """A reader of all that comes from now on: every insert wholly, or not at all. What it begins with may depend on
        the SCN after which it reads."""
        with self.journal.alone(), self._lock:
            if stream.id not in self._feeds:
                raise UndefinedName(f'stream "{stream.name}" does not exist')
            self.journal.rotate()
            scn = self.journal.last_scn
            written = state if isinstance(state, str) else state(scn)
            entry = ReaderEntry(self._store.catalog.new_id(), stream.id, name, kind, scn, written)
            self._store.catalog.keep_reader(entry)
            self._take_up(entry)
            return entry

    def unregister(self, reader_id: int) -> None:
        """A reader that is gone for good: nothing is kept for it any more."""
        with self.journal.alone(), self._progress:
            self._store.catalog.drop_reader(reader_id)
            for feed in self._feeds.values():
                if feed.readers.pop(reader_id, None) is not None:
                    self._reader_rates.forget(reader_id)
                    self.journal.want(feed.stream.id, bool(feed.readers))
                    self._settle(feed)
            self._progress.notify_all()
        self._wake.set()

    def _take_up(self, entry: ReaderEntry) -> None:
        feed = self._feeds[entry.stream_id]
        reader = self._makers[entry.kind](self._store, feed.stream, entry)
        feed.readers[entry.id] = Standing(entry, reader)
        self._reader_rates.look(entry.id, 0)
        self.journal.want(entry.stream_id, True)

    def entry(self, reader_id: int) -> ReaderEntry:
        """Where a reader stands."""
        return self._standing(reader_id).entry

    def readers_of(self, kind: str) -> list[tuple[ReaderEntry, Reader]]:
        with self._lock:
            feeds = list(self._feeds.values())
            standings = [s for feed in feeds for s in feed.readers.values() if s.entry.kind == kind]
        return [(standing.entry, standing.reader) for standing in standings]

    def reader(self, reader_id: int) -> Reader:
        return self._standing(reader_id).reader

    def renew(self, reader_id: int, state: str) -> Reader:
        """A reader that has absorbed nothing yet goes on as another."""
        with self._lock:
            standing = self._standing(reader_id)
            entry = replace(standing.entry, state=state)
            self._store.catalog.keep_reader(entry)
            self._take_up(entry)
            return self._standing(reader_id).reader

    def _standing(self, reader_id: int) -> Standing:
        with self._lock:
            for feed in self._feeds.values():
                if reader_id in feed.readers:
                    return feed.readers[reader_id]
        raise UndefinedName(f"reader {reader_id} does not exist")

    def rewrite(self, reader_id: int, state: Callable[[], str]) -> bool:
        """A reader keeps the same in another way; False: it is gone."""
        with self._lock:
            for feed in self._feeds.values():
                standing = feed.readers.get(reader_id)
                if standing is not None:
                    standing.entry = replace(standing.entry, state=state())
                    self._store.catalog.keep_reader(standing.entry)
                    return True
        return False

    def reader_of(self, stream_id: int, kind: str) -> ReaderEntry | None:
        with self._lock:
            feed = self._feeds.get(stream_id)
            found = [s.entry for s in feed.readers.values() if s.entry.kind == kind] if feed else []
        return found[0] if found else None

    def keeps(self, stream: Stream) -> bool:
        """Whether the rows of a stream are kept for anybody."""
        return self.journal.is_wanted(stream.id) or stream.history is not None

    def readers_ahead(self, stream: Stream) -> dict[int, Reader]:
        """The readers that can make something of rows before these have their place in the stream."""
        with self._lock:
            feed = self._feeds.get(stream.id)
            standings = feed.readers.values() if feed else ()
            able = [s for s in standings if not s.reader.needs_places and s.reader.kernel == "duckdb"]
            return {s.entry.id: s.reader for s in able}

    def are_all(self, stream: Stream, readers: Mapping[int, Reader]) -> bool:
        """Whether nobody else reads a stream."""
        with self._lock:
            feed = self._feeds.get(stream.id)
            return feed is not None and stream.history is None and feed.readers.keys() <= readers.keys()

    def _have_all(self, stream_id: int, file: BulkFile) -> bool:
        """In the journal's turn, in which no reader comes."""
        feed = self._feeds.get(stream_id)
        return feed is None or self.absorber.have_all(f"{self.path}/{stream_id}/{file.path}", feed.readers)

    def columns_read_later(self, stream: Stream, ahead: Mapping[int, Reader]) -> frozenset[str]:
        """The columns that readers will read when rows have their place: all, where the history is kept."""
        if stream.history is not None:
            return frozenset(stream.column_names)
        with self._lock:
            feed = self._feeds.get(stream.id)
            later = [s.reader for id, s in (feed.readers if feed else {}).items() if id not in ahead]
        return frozenset().union(*(reader.columns for reader in later))

    # --- inserting -------------------------------------------------------------------------------

    def prepared(self, stream: Stream, rows: pa.Table) -> Item:
        """Rows that passed all checks, made ready for the log: many rows are written to a file here."""
        if rows.num_rows < BULK_ROWS and rows.nbytes < BULK_BYTES:
            return rows.combine_chunks()
        if not self.journal.is_wanted(stream.id) and stream.history is None:
            return Unkept(rows.num_rows, rows.nbytes)
        folder = self.bulk_folder(stream)
        name = f"{uuid4().hex}.parquet"
        with disk_errors("the rows could not be written"):
            size = write_parquet(self.files, f"{folder}/{name}", rows, sync=True)
        return BulkFile(f"bulk/{name}", rows.num_rows, size)

    def discard(self, rows: StreamRows) -> None:
        """Removes the files of rows that will not be, and what readers had made of them."""
        for file in rows.files:
            path = f"{self.path}/{rows.stream.id}/{file.path}"
            for made in self.absorber.made_of(path):
                self.files.remove(made)
            self._remove(path)

    def _remove(self, path: str) -> None:
        self.absorber.forget(path)
        self.files.remove(path)

    @contextmanager
    def admitted(
        self, inserts: Sequence[StreamRows], limit: int, patience: float, cancellation: Cancellation | None = None
    ) -> Iterator[Insert]:
        """Waits until the readers can take the rows, and gets their files to the disk."""
        with ExitStack() as stack:
            # In one order for all, so that two who fill up two streams do not wait for each other.
            for rows in sorted(inserts, key=lambda rows: rows.stream.id):
                if self.journal.is_wanted(rows.stream.id):
                    name, id = rows.stream.name, rows.stream.id
                    stopped = cancellation.raised if cancellation is not None else None
                    waiting = self.backlog.admitted(
                        name, id, rows.bytes, limit=limit, patience=patience, stopped=stopped
                    )
                    stack.enter_context(waiting)
                self._sync_files(rows)
            yield Insert({rows.stream.id: rows.items for rows in inserts})
        for rows in inserts:
            if rows.files and not self.journal.is_wanted(rows.stream.id):
                # The last reader went while they were on their way.
                self.discard(rows)
        self._hurry_if_large()

    def _sync_files(self, rows: StreamRows) -> None:
        if rows.files:
            with disk_errors("the rows could not be written"):
                try:
                    paths = [path for file in rows.files for path in self._paths(rows.stream, file)]
                    for path in paths:
                        self.files.sync_file(path)
                    for folder in {os.path.dirname(path) for path in paths}:
                        self.files.sync_folder(folder)
                except FileNotFoundError:
                    raise _dropped(rows.stream) from None

    def _paths(self, stream: Stream, file: BulkFile) -> list[str]:
        """What must be on the disk before the log names it."""
        if file.made is None:
            return [f"{self.path}/{stream.id}/{file.path}"]
        feed = self._feeds.get(stream.id)
        readers = feed.readers if feed is not None else {}
        return [f"{self._store.path}/{made.path}" for id, files in file.made if id in readers for made in files]

    def append(self, inserts: Sequence[StreamRows], insert: Insert) -> int:
        for rows in inserts:
            if rows.stream.id not in self._feeds:
                raise _dropped(rows.stream)
        return self.journal.append(insert)

    def hand_on(self, basket: Stream, rows: pa.Table) -> int:
        """What a view over windows hands out goes to the views over it, like an insert."""
        return self.append([StreamRows(basket)], Insert({basket.id: [self.prepared(basket, rows)]}))

    def _hurry_if_large(self) -> None:
        if self.journal.active.bytes >= SEGMENT_BYTES:
            self._wake.set()

    def _accepted(self, record: DataRecord) -> None:
        self.backlog.add(record.stream_id, record.last_scn, record.rows, record.bytes)
        chunk = self.chunks.get(record.stream_id)
        if chunk is not None:
            self._uncut[record.stream_id] = self._uncut.get(record.stream_id, 0) + record.rows
            if self._uncut[record.stream_id] >= chunk:
                self._hurry = True
                self._wake.set()

    # --- waiting ---------------------------------------------------------------------------------

    @contextmanager
    def cut(self) -> Iterator[CatalogState]:
        """A picture of now at whose SCN every reader will stand, and can be seen until the caller is done."""
        with self.journal.alone(), self._lock:
            self.journal.rotate()
            state = self._store.catalog.state
            self._cuts.append(state.scn)
        try:
            yield state
        finally:
            with self._lock:
                self._cuts.remove(state.scn)
                self._released_at = time.monotonic()
            self._wake.set()

    @property
    def cuts(self) -> tuple[int, ...]:
        return tuple(self._cuts)

    def is_idle(self, reader_id: int) -> bool:
        """Whether a reader has nothing to absorb now."""
        with self._lock:
            entry = self._standing(reader_id).entry
            feed = self._feeds[entry.stream_id]
            return not feed.sealed or feed.sealed[-1][0].last_scn <= entry.absorbed

    def rows_behind(self, entry: ReaderEntry) -> int:
        """How many rows a reader has yet to absorb."""
        return self.journal.rows_after(entry.stream_id, entry.absorbed)

    def seconds_behind(self, entry: ReaderEntry) -> float:
        """How old the oldest acknowledged row is that a reader has yet to absorb."""
        return self.journal.seconds_after(entry.stream_id, entry.absorbed)

    def work_of(self, reader_id: int) -> tuple[Work, float]:
        """What a reader has absorbed since the database was opened, and how many rows a second lately; nothing, if it
        has just gone."""
        with self._lock:
            found = [feed.readers[reader_id] for feed in self._feeds.values() if reader_id in feed.readers]
            work = found[0].work if found else Work()
            return work, self._reader_rates.rate(reader_id, work.rows) if found else 0.0

    def has_news(self, stream_id: int, after: int, upto: int) -> bool:
        """Whether a stream got rows between two SCNs."""
        return self.journal.has_rows(stream_id, after, upto)

    def wait(self, reader_id: int, scn: int, patience: float = 600.0, cancellation: Cancellation | None = None) -> None:
        """Returns when a reader has absorbed everything up to an SCN; raises what keeps it from that."""
        give_up_at = time.monotonic() + patience
        while True:
            entry = self.entry(reader_id)
            if not self.journal.has_rows(entry.stream_id, entry.absorbed, scn):
                return
            with self._progress:
                self._hurry = True
                self._wake.set()
                feed = self._feeds.get(entry.stream_id)
                standing = feed.readers.get(reader_id) if feed is not None else None
                if standing is not None and standing.entry is entry:
                    if standing.failure is not None:
                        raise standing.failure
                    self._progress.wait(_TICK)
            if cancellation is not None and cancellation.requested:
                raise Cancelled("the statement was cancelled")
            if self._stop.is_set():
                raise Closed("the database is closed")
            if time.monotonic() > give_up_at:
                raise StorageError(f'reader "{entry.name}" did not reach SCN {scn} in {patience:g} s')

    # --- the work --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(_TICK)
            self._wake.clear()
            try:
                self._look_at_rates()
                self._close_segment()
                self._seal()
                self._set_to_work()
                self._cut()
                self._remove_dead()
            except (Error, OSError):
                # A full disk, say: it is tried again, and inserts say what is wrong.
                self._stop.wait(_RETRY)

    def _look_at_rates(self) -> None:
        with self._lock:
            for id, feed in self._feeds.items():
                self._rates.look(id, self.journal.standing(id).rows)
                for reader_id, standing in feed.readers.items():
                    self._reader_rates.look(reader_id, standing.work.rows)

    def _close_segment(self) -> None:
        active = self.journal.active
        hurry, self._hurry = self._hurry, False
        if not active.records:
            active.opened_at = time.monotonic()
            return
        if hurry:
            self._uncut.clear()
        if hurry or active.bytes >= SEGMENT_BYTES or time.monotonic() - active.opened_at >= SEGMENT_SECONDS:
            self.journal.rotate()

    def _seal(self) -> None:
        for segment in list(self.journal.closed):
            if segment.number <= self._sealed_upto:
                continue
            with self._lock:
                schemas = {
                    id: arrow_schema(feed.stream.columns)
                    for id, feed in self._feeds.items()
                    if feed.readers and (feed.absorbed or 0) < segment.last_scn
                }
                clocks = {id: clock for id, feed in self._feeds.items() if (clock := feed.clock) is not None}
            sealed = self._sealer.seal(segment, schemas, clocks)
            self._offer(sealed)
            self._sealed_upto = segment.number

    def _offer(self, sealed: Sealed) -> None:
        with self._lock:
            for stream_id, files in sealed.files.items():
                if stream_id in self._feeds:
                    self._feeds[stream_id].sealed.append((sealed.segment, files))

    def _set_to_work(self) -> None:
        with self._lock:
            for feed in self._feeds.values():
                if feed.sealed and not feed.busy and self._due(feed):
                    feed.busy = True
                    self._pool.submit(self._absorb_all, feed)

    def _due(self, feed: Feed) -> list[Standing]:
        """Those who come next: the ones that are furthest behind, unless they have just failed. Readers that differ
        only in when they came, with no row in between, go together."""
        now = time.monotonic()
        waiting = [(s, self._first_segment(feed, s)) for s in feed.readers.values() if s.retry_at <= now]
        oldest = min((first for _, first in waiting if first is not None), default=None)
        due = [standing for standing, first in waiting if first is not None and first == oldest]
        return [] if due and self._is_held(feed, due[0].entry.absorbed, now) else due

    def _is_held(self, feed: Feed, absorbed: int, now: float) -> bool:
        """Whether everything is absorbed that somebody waits for, and is being computed with: those who wait have the
        cores, for a while. Whoever reads again and again comes right after."""
        if not self._cuts:
            feed.held_at = None
            return now - self._released_at < GRACE_SECONDS
        if absorbed < max(self._cuts):
            feed.held_at = None
            return False
        feed.held_at = feed.held_at or now
        return now - feed.held_at < HOLD_SECONDS

    @staticmethod
    def _first_segment(feed: Feed, standing: Standing) -> int | None:
        """The number of the first segment that a reader has yet to absorb."""
        absorbed = standing.entry.absorbed
        return next((segment.number for segment, own in feed.sealed if segment.last_scn > absorbed and own), None)

    def _next_batch(self, feed: Feed, absorbed: int) -> Batch | None:
        files: list[BatchFile] = []
        upto = rows = 0
        others = [s.entry.absorbed for s in feed.readers.values() if s.entry.absorbed > absorbed]
        others += [cut for cut in self._cuts if cut > absorbed]
        for segment, own in feed.sealed:
            if segment.last_scn <= absorbed:
                continue
            more = sum(file.rows for file in own)
            if files and (rows + more > BATCH_ROWS or any(upto <= other < segment.last_scn for other in others)):
                break
            files += own
            upto, rows = segment.last_scn, rows + more
        return Batch(feed.stream.id, absorbed, upto, tuple(files)) if files else None

    def _absorb_all(self, feed: Feed) -> None:
        try:
            while not self._stop.is_set():
                with self._lock:
                    due = self._due(feed)
                    batch = self._next_batch(feed, due[0].entry.absorbed) if due else None
                if batch is None:
                    return
                self.absorber.absorb(feed, due, batch)
                with self._progress:
                    self._settle(feed)
                    self._progress.notify_all()
        finally:
            feed.busy = False
            self._wake.set()

    def _settle(self, feed: Feed) -> None:
        """What all readers have is no longer behind, and its files go."""
        absorbed = feed.absorbed if feed.readers else self.journal.last_scn
        assert absorbed is not None
        self.backlog.absorbed(feed.stream.id, absorbed)
        while feed.sealed and feed.sealed[0][0].last_scn <= absorbed:
            _, files = feed.sealed.popleft()
            self._dead += [file.path for file in files]

    def _remove_dead(self) -> None:
        for _ in range(len(self._dead)):
            path = self._dead.popleft()
            if self.absorber.is_used(path):
                self._dead.append(path)
            else:
                self._remove(path)

    def _cut(self) -> None:
        def is_needed(segment: Segment) -> bool:
            for record in segment.records:
                feed = self._feeds.get(record.stream_id)
                absorbed = feed.absorbed if feed else None
                if absorbed is not None and absorbed < record.last_scn:
                    return True
            return segment.number > self._sealed_upto

        with self._lock:
            if not self.journal.closed or is_needed(self.journal.closed[0]):
                return
        gone = self.journal.cut(lambda segment: is_needed(segment))
        for segment in gone:
            for record in segment.records:
                if isinstance(record, FilesRecord):
                    for file in record.files:
                        self.files.remove(f"{self.path}/{record.stream_id}/{file.path}")

    # --- seeing ----------------------------------------------------------------------------------

    def status(self) -> list[StreamStatus]:
        """Where every stream stands, by name."""
        with self._lock:
            shown = [feed for feed in self._feeds.values() if not feed.stream.is_basket]
            feeds = sorted(shown, key=lambda feed: feed.stream.name)
        return [self._status_of(feed) for feed in feeds]

    def _status_of(self, feed: Feed) -> StreamStatus:
        standing = self.journal.standing(feed.stream.id)
        rows, size, waiting = self.backlog.standing(feed.stream.id)
        with self._lock:
            readers = [
                ReaderStatus(s.entry.name, s.entry.kind, s.entry.absorbed, s.work.rows, s.failure)
                for s in sorted(feed.readers.values(), key=lambda s: (s.entry.absorbed, s.entry.name))
            ]
        rate = self._rates.rate(feed.stream.id, standing.rows)
        return StreamStatus(feed.stream, standing.rows, standing.bytes, rate, rows, size, waiting, tuple(readers))


def _dropped(stream: Stream) -> TransactionConflict:
    return TransactionConflict(
        f'stream "{stream.name}" was dropped by a concurrent transaction', hint="Run the transaction again."
    )
