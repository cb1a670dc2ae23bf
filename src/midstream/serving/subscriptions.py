"""Subscriptions: what a view hands out, as it comes.

    with db.subscribe("per_minute") as changes:
        for change in changes:          # waits
            print(change.row)

Of a view over windows, the rows of each window come when it is complete, as rows that were inserted.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from midstream.errors import Closed, HistoryGone, UndefinedName, Unsupported
from midstream.ingest.arrow_types import to_rows
from midstream.relations.view import ContinuousView
from midstream.runtime.store import Store
from midstream.runtime.window_log import WindowResult

_LOOK = 0.5
"""So often somebody who waits looks whether the database was closed."""


@dataclass(frozen=True)
class Change:
    """A row that came ('I'), went ('D') or changed ('U'); `old` is what it was."""

    kind: str
    row: dict[str, object]
    old: dict[str, object] | None
    scn: int


class Subscription:
    """Changes in order, each once. Not for several threads at once."""

    def __init__(self, store: Store, view: ContinuousView, *, snapshot: bool, after: int | None) -> None:
        self._store, self._view = store, view
        self._closed = False
        self._waiting: deque[Change] = deque()
        log = store.views.windows.log_of(view)
        known = list(log.results)
        seen = known if after is None else [result for result in known if result.scn <= after]
        self._next = log.handed_out - len(known) + len(seen)
        """How many results there were before the one that it gets next."""
        if snapshot:
            for result in {result.key: result for result in seen}.values():
                self._waiting += self._changes(result)

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
        windows = self._store.views.windows
        with windows.news:
            windows.news.notify_all()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, end: float | None) -> None:
        """Waits until something has come, the time is over, or it is closed."""
        windows = self._store.views.windows
        while not self._waiting and not self._closed:
            for result in self._new():
                self._waiting += self._changes(result)
                self._next += 1
            left = None if end is None else end - time.monotonic()
            if self._waiting or (left is not None and left <= 0):
                return
            with windows.news:
                if not self._new():
                    windows.news.wait(_LOOK if left is None else min(left, _LOOK))
            self._check()

    def _new(self) -> list[WindowResult]:
        log = self._store.views.windows.log_of(self._view)
        results, handed_out = list(log.results), log.handed_out
        gone = handed_out - len(results)
        if gone > self._next:
            raise HistoryGone(
                f'results of view "{self._view.name}" that this subscription had yet to get are no longer kept',
                detail=f"{gone - self._next:,} windows are gone.",
                hint="Read faster, or keep more: WITH (retain = …).",
            )
        return results[self._next - gone :]

    def _changes(self, result: WindowResult) -> list[Change]:
        table = self._store.views.windows.rows_of(self._view, result)
        names, types = self._view.column_names, [type_ for _, type_ in self._view.columns]
        return [Change("I", dict(zip(names, row, strict=True)), None, result.scn) for row in to_rows(table, types)]

    def _check(self) -> None:
        if self._store.is_closed:
            raise Closed("the database is closed")
        relation = self._store.catalog.state.relations.get(self._view.name)
        if relation is None or relation.id != self._view.id:
            raise UndefinedName(f'view "{self._view.name}" was dropped')
        failure = self._store.views.windows.failure(self._view.id)
        if failure is not None:
            raise failure


def subscribe(store: Store, name: str, *, snapshot: bool, after: int | None) -> Subscription:
    relation = store.catalog.state.relations.get(name)
    if relation is None:
        raise UndefinedName(f'relation "{name}" does not exist')
    if not isinstance(relation, ContinuousView) or not relation.is_windowed:
        raise Unsupported(
            f'"{name}" cannot be subscribed to yet',
            detail="So far, views over windows hand out what they compute.",
        )
    return Subscription(store, relation, snapshot=snapshot, after=after)
