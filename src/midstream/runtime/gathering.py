"""Inserts of few rows from many threads, read and checked together.

What an insert of one row costs is nearly all fixed: to make Arrow of it, to check it, to sync the log. One thread
leads: it does all three for those that wait, tells them, and lets the next one lead. Each insert stays one: it has its
own SCN, and where the rows cannot be taken together, each is tried by itself and fails by itself.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, cast

import pyarrow as pa

from midstream.errors import Error, TransactionConflict
from midstream.ingest.conform import conform
from midstream.ingest.values import dicts_to_arrow, values_to_arrow
from midstream.log.journal import Insert, Waiting
from midstream.maintenance.engine import Cancellation
from midstream.plan import BindContext
from midstream.relations.stream import Stream
from midstream.relations.table import Column
from midstream.runtime.constraints.single_rows import check_rows
from midstream.runtime.store import Store

FEW_ROWS = 200
"""An insert of more has enough work of its own."""

_PATIENCE = 0.05
"""After so many seconds a thread looks whether the one that led was interrupted."""


@dataclass
class _Small:
    """An insert that waits to be read: dicts, or sequences for some columns."""

    stream: Stream
    columns: tuple[Column, ...] | None
    rows: Sequence[Any]
    context: BindContext
    place: Waiting | None = None
    failure: Error | None = None
    woken: SimpleQueue[None] = field(default_factory=SimpleQueue)
    """Its thread waits here until the insert has ended, or is to lead."""

    @property
    def kind(self) -> tuple[object, ...]:
        return self.stream.id, self.columns

    @property
    def is_settled(self) -> bool:
        return self.failure is not None or (self.place is not None and self.place.done)


class Gatherer:
    """Thread-safe; one for a database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: deque[_Small] = deque()
        self._queue_lock = threading.Lock()
        self._leader: _Small | None = None
        self._last_taken = 0

    def takes(self, stream: Stream, rows: Sequence[object]) -> bool:
        return len(rows) <= FEW_ROWS and not any(column.default is not None for column in stream.columns)

    def insert(
        self,
        stream: Stream,
        rows: Sequence[Any],
        columns: Sequence[Column] | None,
        context: BindContext,
        settings: Mapping[str, object],
        cancellation: Cancellation | None = None,
    ) -> int:
        """The SCN of the insert, when its rows are on the disk. Without `columns`, rows are dicts."""
        streams = self._store.streams
        streams.backlog.wait_for_room(
            stream.name,
            stream.id,
            limit=cast(int, settings["max_backlog"]),
            patience=cast(float, settings["insert_timeout"]),
            stopped=cancellation.raised if cancellation is not None else None,
        )
        small = _Small(stream, tuple(columns) if columns is not None else None, rows, context)
        with self._queue_lock:
            self._queue.append(small)
        while not small.is_settled:
            if not self._lead(small):
                with suppress(Empty):
                    small.woken.get(timeout=_PATIENCE)
        if small.failure is not None:
            raise small.failure
        assert small.place is not None
        return streams.journal.settle(small.place)

    def _lead(self, small: _Small) -> bool:
        """Takes in everything that waits, unless another thread is at it."""
        taken: list[_Small] = []
        try:
            with self._queue_lock:
                if self._leader is not None:
                    return False
                self._leader = small
            if self._last_taken > 1:
                # Those who were just told come again in a moment, and can come along.
                time.sleep(0)
            taken = self._next()
            self._take(taken)
            self._store.streams.journal.flush()
            if not small.is_settled:
                # Whoever had taken it was interrupted before it had its place.
                small.failure = Error("the insert was interrupted, and took nothing")
        finally:
            if self._leader is small:
                self._leader = None
        self._wake(taken)
        return True

    def _next(self) -> list[_Small]:
        with self._queue_lock:
            taken, self._queue = list(self._queue), deque()
        self._last_taken = len(taken)
        return taken

    def _take(self, taken: Sequence[_Small]) -> None:
        """Reads inserts, and gives them their place in the log in the order in which they came."""
        tables: dict[int, pa.Table] = {}
        for kind in dict.fromkeys(small.kind for small in taken):
            tables |= self._read([small for small in taken if small.kind == kind])
        places: list[Waiting] = []
        for small in taken:
            if small.failure is None:
                small.place = Waiting(Insert({small.stream.id: [tables[id(small)]]}))
                places.append(small.place)
        self._store.streams.journal.enqueue(places)

    def _wake(self, taken: Sequence[_Small]) -> None:
        """Those whose inserts have ended, and the next to lead."""
        for small in taken:
            small.woken.put(None)
        with self._queue_lock:
            if self._queue:
                self._queue[0].woken.put(None)

    def _read(self, group: Sequence[_Small]) -> dict[int, pa.Table]:
        first = group[0]
        if not self._store.streams.knows(first.stream):
            for small in group:
                small.failure = TransactionConflict(f'stream "{first.stream.name}" was dropped meanwhile')
            return {}
        try:
            whole = self._checked(first, [row for small in group for row in small.rows])
        except Error as error:
            if len(group) == 1:
                first.failure = error
                return {}
            return {place: table for small in group for place, table in self._read([small]).items()}
        found, start = {}, 0
        for small in group:
            found[id(small)] = whole.slice(start, len(small.rows))
            start += len(small.rows)
        return found

    def _checked(self, like: _Small, rows: Sequence[Any]) -> pa.Table:
        stream = like.stream
        if like.columns is None:
            table = dicts_to_arrow(rows, stream.columns, relation=stream.name)
        else:
            table = values_to_arrow(rows, like.columns, relation=stream.name)
            if like.columns != stream.columns:
                table = conform(table, stream.columns, relation=stream.name)
        if table.num_rows and stream.checks:
            check_rows(self._store, stream, table, like.context, nulls_known=True)
        return table
