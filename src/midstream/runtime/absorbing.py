"""Batches at their readers: what all that are due make of one is computed as one job, and recorded for each.

Beside it goes what others can foresee: answers over what the readers will then have.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from midstream.errors import Error
from midstream.kernels import Kernel
from midstream.log.batches import Batch, BatchFile, shares
from midstream.log.journal import Segment
from midstream.maintenance.engine import Answer, Cancellation, Piece
from midstream.relations.catalog import ReaderEntry
from midstream.relations.stream import Stream
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.readers import Absorbed, Foresight, Reader, Taken
from midstream.runtime.states import remove_kept
from midstream.runtime.store import Store

FEW_ROWS = 500_000
"""Fewer rows are not shared among tasks."""
_FIRST_RETRY, _LAST_RETRY = 0.5, 30.0


@dataclass(frozen=True)
class Ahead:
    """What readers have made of files that have yet to come to their turn, by reader."""

    paths: frozenset[str]
    answers: Mapping[int, Sequence[Answer]]
    readers: Mapping[int, Reader]
    """Who made them: one that has been renewed since must look for itself."""
    taken: set[int] = field(default_factory=set)
    """Who has them among what it keeps."""


@dataclass(frozen=True)
class Work:
    """What a reader has absorbed since the database was opened: rows in and out, and the seconds of each step."""

    batches: int = 0
    rows: int = 0
    made: int = 0
    """Rows that it keeps of them."""
    computing: float = 0.0
    """In jobs, which all readers of a batch share."""
    keeping: float = 0.0
    """Until what was computed was on the disk and recorded."""


@dataclass
class Standing:
    """A reader at work."""

    entry: ReaderEntry
    reader: Reader
    failure: Error | None = None
    failures: int = 0
    retry_at: float = 0.0
    work: Work = Work()


@dataclass
class Feed:
    """A stream and those who read it."""

    stream: Stream
    readers: dict[int, Standing] = field(default_factory=dict)
    sealed: deque[tuple[Segment, tuple[BatchFile, ...]]] = field(default_factory=deque)
    busy: bool = False
    held_at: float | None = None
    """Since when newer rows wait for those who compute with the older ones."""

    @property
    def absorbed(self) -> int | None:
        """What all readers have."""
        return min((standing.entry.absorbed for standing in self.readers.values()), default=None)

    @property
    def clock(self) -> str | None:
        """The column of time that a reader goes by; no two go by different ones."""
        clocks = (standing.reader.clock for standing in self.readers.values())
        return next((clock for clock in clocks if clock is not None), None)


class Absorber:
    """Thread-safe. `progress` is told by those who call it."""

    def __init__(self, store: Store, progress: threading.Condition, lock: threading.RLock, stop: Cancellation) -> None:
        self._store = store
        self._progress, self._lock = progress, lock
        self._cancellation = stop
        self._ahead: dict[str, Ahead] = {}
        """By the path of each file of it."""
        self._taken: dict[int, Taken] = {}
        """What is being absorbed, by stream,"""
        self._used: Counter[str] = Counter()
        """and the files of it that jobs of other streams read, too."""
        self.foresee: Callable[[Taken, Sequence[Taken]], Sequence[Foresight]] = lambda taken, others: ()
        """What else may be computed when a batch is absorbed, and batches of other streams at the same time."""

    def remember(self, ahead: Ahead) -> None:
        with self._lock:
            self._ahead |= dict.fromkeys(ahead.paths, ahead)

    def forget(self, path: str) -> None:
        self._ahead.pop(path, None)

    def made_of(self, path: str) -> list[str]:
        """The files that readers have made ahead of a file."""
        ahead = self._ahead.get(path)
        made = ahead.answers.values() if ahead is not None else ()
        return [file.path for answers in made for answer in answers for file in answer.files]

    def made_by(self, reader_id: int) -> list[str]:
        """The files that a reader has made ahead, and has yet to take in."""
        with self._lock:
            known = list(self._ahead.values())
        waiting = [ahead for ahead in known if reader_id not in ahead.taken]
        made = [answer for ahead in waiting for answer in ahead.answers.get(reader_id, ())]
        return [file.path for answer in made for file in answer.files]

    def have_all(self, path: str, readers: Mapping[int, Standing]) -> bool:
        """Whether each of some readers has made something ahead of a file, and has not been renewed since."""
        ahead = self._ahead.get(path)
        return ahead is not None and all(ahead.readers.get(id) is standing.reader for id, standing in readers.items())

    def is_used(self, path: str) -> bool:
        """Whether a job still reads a file that was absorbed."""
        return self._used[path] > 0

    def absorb(self, feed: Feed, due: Sequence[Standing], batch: Batch) -> None:
        """One job for all; if it fails, one for each, so that nobody waits for another's fault."""
        try:
            self._absorb_together(feed, due, batch)
        except Error as failure:
            if len(due) == 1:
                self._note(due[0], failure)
                return
            for standing in due:
                if standing.entry.absorbed >= batch.upto:
                    # It had what it needed before another one failed.
                    continue
                try:
                    self._absorb_together(feed, [standing], batch)
                except Error as own:
                    self._note(standing, own)

    def _absorb_together(self, feed: Feed, due: Sequence[Standing], batch: Batch) -> None:
        started = time.monotonic()
        taken = Taken([standing.reader for standing in due], batch)
        try:
            known = [self._known(standing, batch) for standing in due]
            asked = [self._asked(standing, batch, paths) for standing, (_, paths) in zip(due, known, strict=True)]
            with self._foreseen(taken, is_new=not any(paths for _, paths in known)) as beside:
                try:
                    answers, others = self._answers(feed, due, asked, beside, batch)
                except Error:
                    if not beside:
                        raise
                    # It may be the fault of what nobody needs.
                    beside = ()
                    answers, others = self._answers(feed, due, asked, (), batch)
            own = [[*made, *new] for (made, _), new in zip(known, answers, strict=True)]
            computed = time.monotonic()
            self._record_all(feed, due, batch, own, zip(beside, others, strict=True))
            with self._lock:
                for standing in due:
                    work = standing.work
                    computing, keeping = work.computing + computed - started, work.keeping + time.monotonic() - computed
                    standing.work = replace(work, computing=computing, keeping=keeping)
        finally:
            with self._lock:
                if self._taken.get(batch.stream_id) is taken:
                    del self._taken[batch.stream_id]

    @contextmanager
    def _foreseen(self, taken: Taken, is_new: bool) -> Iterator[Sequence[Foresight]]:
        """What is computed beside a batch, while it is. Batches of other streams count as absorbed if they are about to
        be, and not yet are when all that is asked for has been looked at: no row is seen twice."""
        with self._lock:
            others = [other for id, other in self._taken.items() if id != taken.batch.stream_id and _is_sealed(other)]
            self._taken[taken.batch.stream_id] = taken
            used = [path for other in others for path in other.paths]
            self._used.update(used)
        try:
            beside = self.foresee(taken, others) if is_new else ()
            with self._lock:
                are_done = any(self._taken.get(other.batch.stream_id) is not other for other in others)
            yield self.foresee(taken, ()) if beside and are_done else beside
        finally:
            with self._lock:
                self._used.subtract(used)
                for path in used:
                    if self._used[path] <= 0:
                        del self._used[path]

    def _answers(
        self,
        feed: Feed,
        due: Sequence[Standing],
        asked: Sequence[Sequence[Piece]],
        beside: Sequence[Foresight],
        batch: Batch,
    ) -> tuple[list[list[Answer]], list[Answer]]:
        """One job for all that DuckDB computes; the Spark kernel spreads a piece itself, so each is a job."""
        label = f'absorb {batch.rows:,} rows of "{feed.stream.name}"'
        wanted: list[tuple[Kernel, Piece]] = [
            (standing.reader.kernel, piece) for standing, own in zip(due, asked, strict=True) for piece in own
        ]
        wanted += [("duckdb", foresight.piece) for foresight in beside]
        done = iter(run_by_kernel(self._store, wanted, label=label, cancellation=self._cancellation))
        return [[next(done) for _ in own] for own in asked], list(done)

    def _record_all(
        self,
        feed: Feed,
        due: Sequence[Standing],
        batch: Batch,
        answers: Sequence[Sequence[Answer]],
        beside: Iterable[tuple[Foresight, Answer]],
    ) -> None:
        """What was computed together is seen together, but for rows that are stored."""
        done: list[Absorbed | None] = []
        # Rows that are stored wait for commits, and nobody may wait for those while he holds the lock.
        stored = [pair for pair in zip(due, answers, strict=True) if pair[0].reader.stores_rows]
        others = [pair for pair in zip(due, answers, strict=True) if not pair[0].reader.stores_rows]
        try:
            for standing, own in stored:
                done.append(self._record(feed, standing, batch, own))
            with self._lock:
                self._taken.pop(batch.stream_id, None)
                for standing, own in others:
                    done.append(self._record(feed, standing, batch, own))
                for foresight, answer in beside if None not in done else ():
                    with suppress(Error):
                        # It is computed again.
                        foresight.settle(answer, batch.upto)
        finally:
            for absorbed in done:
                if absorbed is not None:
                    absorbed.tell()

    def _known(self, standing: Standing, batch: Batch) -> tuple[list[Answer], frozenset[str]]:
        """What the reader has made ahead of files of the batch, and of which."""
        with self._lock:
            found = {id(ahead): ahead for file in batch.files if (ahead := self._ahead.get(file.path)) is not None}
        own = [ahead for ahead in found.values() if ahead.readers.get(standing.entry.id) is standing.reader]
        answers = [answer for ahead in own for answer in ahead.answers[standing.entry.id]]
        return answers, frozenset().union(*(ahead.paths for ahead in own))

    def _asked(self, standing: Standing, batch: Batch, known: frozenset[str]) -> list[Piece]:
        left = replace(batch, files=tuple(file for file in batch.files if file.path not in known))
        parts = shares(left, self._store.engine.cores, FEW_ROWS) if left.files else []
        return list(standing.reader.pieces(parts)) if parts else []

    def _record(self, feed: Feed, standing: Standing, batch: Batch, answers: Sequence[Answer]) -> Absorbed | None:
        """None: the reader is gone, and what was made for it goes too."""
        with self._lock:
            if feed.readers.get(standing.entry.id) is not standing:
                _remove(answers)
                return None
        with self._store.commit_lock if standing.reader.stores_rows else self._lock:
            done = standing.reader.absorb(standing.entry.state, answers, batch)
            entry = replace(standing.entry, absorbed=batch.upto, state=done.state)
            with self._lock:
                if feed.readers.get(entry.id) is not standing:
                    return None
                self._store.catalog.keep_reader(entry, done.version)
                standing.entry, standing.failure, standing.failures = entry, None, 0
                standing.work = _more(standing.work, batch, answers)
                done.settle()
                for file in batch.files:
                    if file.path in self._ahead:
                        self._ahead[file.path].taken.add(entry.id)
                return done

    def _note(self, standing: Standing, failure: Error) -> None:
        with self._progress:
            wait = min(_FIRST_RETRY * 2**standing.failures, _LAST_RETRY)
            standing.failures += 1
            standing.retry_at = time.monotonic() + wait
            standing.failure = failure
            self._progress.notify_all()


def _is_sealed(taken: Taken) -> bool:
    """Whether all rows are in files that nobody but the absorber removes."""
    return all(file.scn is None for file in taken.batch.files)


def _remove(answers: Sequence[Answer]) -> None:
    for answer in answers:
        for file in answer.files:
            remove_kept(file.path)


def _more(work: Work, batch: Batch, answers: Sequence[Answer]) -> Work:
    made = sum(file.rows for answer in answers for file in answer.files)
    return replace(work, batches=work.batches + 1, rows=work.rows + batch.rows, made=work.made + made)
