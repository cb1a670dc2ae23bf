"""Subscriptions: what a continuous query or a view hands out, as it comes.

    with db.subscribe("negative_balance") as changes:
        for change in changes:          # waits
            print(change.kind, change.row)

Of a view over windows, the rows of each window come when it is complete, as rows that were inserted; of a materialized
view, what its refreshes changed; of any other view, what makes its answer differ from the one before.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Protocol

from midstream.errors import Closed, HistoryGone, InvalidParameter, OutOfResources, UndefinedName, WrongObject
from midstream.ingest.arrow_types import to_rows
from midstream.plan.scopes import did_you_mean
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.view import ContinuousView, View
from midstream.runtime.continuous.changes import END, Change, Place, changes_in
from midstream.runtime.continuous.queries import suspended
from midstream.runtime.continuous.snapshots import answer_of, changes_of_table, snapshot_of
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.store import Store
from midstream.runtime.waiting import in_time
from midstream.runtime.window_log import WindowLog, WindowResult
from midstream.runtime.window_rows import rows_of

_LOOK = 0.5
"""So often somebody who waits looks whether the database was closed."""
_PAUSE = 0.05
_MANY = 100_000
"""So many changes are taken at a time."""


class Source(Protocol):
    """Where changes come from."""

    def take(self) -> Sequence[Change]:
        """What has come since the last time."""
        ...

    def wait(self, seconds: float) -> None:
        """Returns when something may have come, or the time is over."""
        ...

    def check(self) -> None:
        """Raises if nothing will come any more."""
        ...

    def wake(self) -> None:
        """Ends the waiting."""
        ...


class Subscription:
    """Changes in order, each once. Not for several threads at once."""

    def __init__(self, source: Source, snapshot: Iterable[Change] = ()) -> None:
        self._source = source
        self._closed = False
        self._snapshot: Iterator[Change] | None = iter(snapshot)
        """What is there first; None: all of it was taken."""
        self._waiting: deque[Change] = deque()

    def poll(self, timeout: float | None = 0.0) -> list[Change]:
        """What has come, after at most so many seconds (None: as long as it takes)."""
        end = None if timeout is None else time.monotonic() + timeout
        self._fill(end)
        found, self._waiting = list(self._waiting), deque()
        return found

    def __iter__(self) -> Iterator[Change]:
        while True:
            self._fill(None)
            if not self._waiting:
                return
            yield self._waiting.popleft()

    def close(self) -> None:
        self._closed = True
        self._source.wake()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, end: float | None) -> None:
        """Waits until something has come, the time is over, or it is closed."""
        while not self._waiting and not self._closed:
            self._waiting += self._take()
            if self._waiting:
                return
            self._source.check()
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            self._source.wait(_LOOK if left is None else min(left, _LOOK))

    def _take(self) -> Sequence[Change]:
        """A piece of what there was at first, then of what has come: so many changes are in memory, and no more."""
        if self._snapshot is not None:
            found = list(islice(self._snapshot, _MANY))
            if found:
                return found
            self._snapshot = None
        return self._source.take()


# --- continuous queries ----------------------------------------------------------------------------------


class QueryChanges:
    """The log of a continuous query, read from one place on."""

    def __init__(self, store: Store, query: ContinuousQuery, after: int | None) -> None:
        self._store, self._query = store, query
        log = store.queries.log_of(query)
        if after is not None and after < log.start:
            raise HistoryGone(
                f'what continuous query "{query.name}" handed out after SCN {after} is no longer kept',
                detail=f"It goes back to SCN {log.start}.",
                hint="Subscribe with snapshot=True, and go on from there.",
            )
        self._place: Place = (log.position if after is None else after, END)

    def take(self) -> Sequence[Change]:
        log = self._store.queries.log_of(self._query)
        if log.start > self._place[0]:
            raise HistoryGone(
                f'changes of continuous query "{self._query.name}" that this subscription had yet to get are gone',
                detail="They are older than retain_history, or the query was deactivated and activated again.",
                hint="Subscribe anew, with snapshot=True to begin with what is there.",
            )
        found: list[Change] = []
        for change in changes_in(self._query, list(log.files), self._place):
            found.append(change)
            if len(found) >= _MANY:
                break
        if found:
            self._place = (found[-1].scn, found[-1].number)
        return found

    def wait(self, seconds: float) -> None:
        queries = self._store.queries
        with queries.news:
            log = queries.log_of(self._query)
            if not any(file.upto > self._place[0] for file in log.files):
                queries.news.wait(seconds)

    def check(self) -> None:
        if self._store.is_closed:
            raise Closed("the database is closed")
        found = self._store.catalog.state.relations.get(self._query.name)
        if found is None or found.id != self._query.id:
            raise UndefinedName(f'continuous query "{self._query.name}" was dropped')
        log = self._store.queries.log_of(self._query)
        if log.status != "active" and log.error is not None:
            raise suspended(self._query.name, log)

    def wake(self) -> None:
        self._store.queries.tell()


class TableChanges:
    """The change log of a materialized view's rows."""

    def __init__(self, store: Store, view: MaterializedView, after: int | None) -> None:
        self._store, self._view = store, view
        if after is not None:
            store.catalog.check_reachable(after)
        self._scn = store.catalog.state.scn if after is None else after

    def take(self) -> Sequence[Change]:
        state = self._store.catalog.state
        if self._view.when == "on commit":
            state = self._store.queries.materialized.bring([self._view])
        found, self._scn = changes_of_table(self._store, self._view, self._scn, state, _MANY)
        return found

    def wait(self, seconds: float) -> None:
        with self._store.queries.news:
            if self._store.catalog.state.scn == self._scn:
                self._store.queries.news.wait(seconds)

    def check(self) -> None:
        if self._store.is_closed:
            raise Closed("the database is closed")
        found = self._store.catalog.state.relations.get(self._view.name)
        if found is None or found.id != self._view.id:
            raise UndefinedName(f'materialized view "{self._view.name}" was dropped')

    def wake(self) -> None:
        self._store.queries.tell()


# --- views over windows ------------------------------------------------------------------------------------


class WindowResults:
    """The results of a view over windows, one after the other."""

    def __init__(self, store: Store, view: ContinuousView, after: int | None) -> None:
        self._store, self._view = store, view
        self._windows, self._seen = store.views.windows, list[WindowResult]()
        self._follower = self._windows.follow(view, lambda log: self._taken(log, after))

    def _taken(self, log: WindowLog, after: int | None) -> int:
        """How many results there were before the one that it gets first."""
        if after is not None and after < log.gone:
            raise HistoryGone(
                f'results of view "{self._view.name}" after SCN {after} are no longer kept',
                detail=f"Windows up to SCN {log.gone} are gone.",
                hint="Subscribe without an SCN, and keep more: WITH (retain = …).",
            )
        self._seen = [result for result in log.results if after is None or result.scn <= after]
        return log.dropped + len(self._seen)

    def snapshot(self) -> list[Change]:
        newest = {result.key: result for result in self._seen}
        return [change for changes in self._changes(list(newest.values())) for change in changes]

    def take(self) -> Sequence[Change]:
        self._seen = []
        found: list[Change] = []
        for changes in self._changes(self._new()):
            found += changes
            self._windows.take(self._view, self._follower)
            if len(found) >= _MANY:
                break
        return found

    def wait(self, seconds: float) -> None:
        with self._windows.news:
            if not self._new():
                self._windows.news.wait(seconds)

    def wake(self) -> None:
        """Nobody takes anything any more, so nothing is held."""
        self._windows.unfollow(self._view, self._follower)
        with self._windows.news:
            self._windows.news.notify_all()

    def _new(self) -> list[WindowResult]:
        results, missed = self._windows.waiting(self._view, self._follower)
        if missed:
            raise HistoryGone(
                f'results of view "{self._view.name}" that this subscription had yet to get are no longer kept',
                detail=f"{missed:,} windows are gone.",
                hint="Read faster, or keep more: WITH (retain = …).",
            )
        return results

    def _changes(self, results: Sequence[WindowResult]) -> Iterator[list[Change]]:
        names, types = self._view.column_names, [type_ for _, type_ in self._view.columns]
        for result, table in rows_of(self._store, self._view, results):
            rows = to_rows(table, types)
            yield [Change("I", dict(zip(names, row, strict=True)), None, result.scn) for row in rows]

    def check(self) -> None:
        if self._store.is_closed:
            raise Closed("the database is closed")
        relation = self._store.catalog.state.relations.get(self._view.name)
        if relation is None or relation.id != self._view.id:
            raise UndefinedName(f'view "{self._view.name}" was dropped')
        failure = self._windows.failure(self._view.id)
        if failure is not None:
            raise failure


# --- other views -----------------------------------------------------------------------------------------------


class ViewChanges:
    """What changes of a view's answer, by comparing it with the one before. It begins with what is there."""

    def __init__(self, store: Store, view: View) -> None:
        self._store, self._view = store, view
        self._rows, self._scn = answer_of(store, view)

    def snapshot(self) -> list[Change]:
        return [self._change("I", row, None) for row in self._rows.elements()]

    def take(self) -> Sequence[Change]:
        if self._store.streams.journal.last_scn == self._scn:
            return []
        before = self._rows
        self._rows, self._scn = answer_of(self._store, self._view)
        went, came = list((before - self._rows).elements()), list((self._rows - before).elements())
        old = {self._key(row): row for row in went} if self._places() else {}
        found = []
        for row in came:
            was = old.pop(self._key(row), None) if self._places() else None
            found.append(self._change("I" if was is None else "U", row, was))
        gone = list(old.values()) if self._places() else went
        return [*(self._change("D", row, row) for row in gone), *found]

    def _places(self) -> list[int]:
        names = [name for name, _ in self._view.columns]
        return [names.index(name) for name in self._view.key] if isinstance(self._view, ContinuousView) else []

    def _key(self, row: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(row[place] for place in self._places())

    def _change(self, kind: str, row: tuple[object, ...], old: tuple[object, ...] | None) -> Change:
        names = [name for name, _ in self._view.columns]
        was = dict(zip(names, old, strict=True)) if old is not None else None
        return Change(kind, dict(zip(names, row, strict=True)), was, self._scn, source=self._view.name)

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, _PAUSE))

    def check(self) -> None:
        if self._store.is_closed:
            raise Closed("the database is closed")
        found = self._store.catalog.state.relations.get(self._view.name)
        if found is None or found.id != self._view.id:
            raise UndefinedName(f'view "{self._view.name}" was dropped')

    def wake(self) -> None:
        """Nobody waits for long."""


# --- channels ------------------------------------------------------------------------------------------------


class Notifications(Subscription):
    """What triggers with NOTIFY have told a channel since this was made."""

    def __init__(self, store: Store, channel: str) -> None:
        self._told = _Told(store, channel)
        super().__init__(self._told)

    def close(self) -> None:
        self._told.end()
        super().close()


class _Told:
    def __init__(self, store: Store, channel: str) -> None:
        self._store = store
        self._channel = channel
        self._news: Queue[Change | None] = Queue(_MANY)
        self._first: Change | None = None
        self._has_missed = False
        self.end = store.queries.triggers.listen(channel, self._put)

    def _put(self, change: Change) -> None:
        """Whoever tells does not wait for those who listen; behind a gap nothing more is told."""
        if not self._has_missed:
            try:
                self._news.put_nowait(change)
            except Full:
                self._has_missed = True

    def take(self) -> Sequence[Change]:
        found = [self._first, *(self._news.get() for _ in range(self._news.qsize()))]
        self._first = None
        return [change for change in found if change is not None]

    def wait(self, seconds: float) -> None:
        with suppress(Empty):
            self._first = self._news.get(timeout=seconds)

    def check(self) -> None:
        if self._store.is_closed:
            raise Closed("the database is closed")
        if self._has_missed:
            raise OutOfResources(
                f'channel "{self._channel}" told more than was read',
                detail=f"{self._news.maxsize:,} changes waited for this listener, and it has missed what came then.",
                hint="Listen anew and poll more often, or subscribe to the continuous query, which misses nothing.",
                sqlstate="53400",
            )

    def wake(self) -> None:
        with suppress(Full):
            self._news.put_nowait(None)


# --- the way in ----------------------------------------------------------------------------------------------


def subscribe(store: Store, name: str, *, snapshot: bool, after: int | None) -> Subscription:
    relation = store.catalog.state.relations.get(name)
    if relation is None:
        raise UndefinedName(f'relation "{name}" does not exist', hint=did_you_mean(name, store.catalog.state.relations))
    if after is not None:
        _check_scn(after)
    if after is not None and after > store.catalog.state.scn:
        raise InvalidParameter(f"SCN {after} has not been reached", detail=f"The newest is {store.catalog.state.scn}.")
    if isinstance(relation, ContinuousQuery):
        return _of_query(store, relation, snapshot, after)
    if isinstance(relation, MaterializedView):
        return _of_stored(store, relation, snapshot, after)
    if isinstance(relation, ContinuousView) and relation.is_windowed:
        results = WindowResults(store, relation, after)
        return Subscription(results, results.snapshot() if snapshot else ())
    if isinstance(relation, View):
        return _of_view(store, relation, snapshot, after)
    raise WrongObject(
        f'"{name}" cannot be subscribed to',
        detail="Continuous queries and views hand out what changes.",
        hint=f"CREATE CONTINUOUS QUERY … AS SELECT * FROM {name} tells what changes of it.",
    )


def _of_view(store: Store, view: View, snapshot: bool, after: int | None) -> Subscription:
    if after is not None:
        raise HistoryGone(
            f'what changed of view "{view.name}" before now is not kept',
            hint=f"Subscribe to a continuous query: CREATE CONTINUOUS QUERY … AS SELECT * FROM {view.name}.",
        )
    changes = ViewChanges(store, view)
    return Subscription(changes, changes.snapshot() if snapshot else ())


def _of_query(store: Store, query: ContinuousQuery, snapshot: bool, after: int | None) -> Subscription:
    if not snapshot:
        return Subscription(QueryChanges(store, query, after))
    with store.queries.computing:
        changes = QueryChanges(store, query, after)
        return Subscription(changes, snapshot_of(store, query, after).rows)


def _of_stored(store: Store, view: MaterializedView, snapshot: bool, after: int | None) -> Subscription:
    if not snapshot:
        return Subscription(TableChanges(store, view, after))
    found = snapshot_of(store, view, after)
    return Subscription(TableChanges(store, view, found.scn), found.rows)


def _check_scn(scn: object) -> None:
    """Callers may hand in anything."""
    if not isinstance(scn, int) or isinstance(scn, bool):
        raise InvalidParameter(
            f"an SCN is a whole number, not {scn!r}",
            hint="Every result has the SCN of its commit, as in db.sql(…).scn.",
        )


def wait(store: Store, name: str, scn: int, timeout: float | None) -> None:
    _check_scn(scn)
    relation = store.catalog.state.relations.get(name)
    if isinstance(relation, ContinuousView):
        with suppress(InvalidParameter):
            store.catalog.check_reachable(scn)
        with in_time(f'"{name}" has not reached SCN {scn} in time', timeout) as cancellation:
            store.views.moment([relation], DEFAULTS, cancellation)
        return
    store.queries.wait(store.queries.find(name), scn, timeout)
