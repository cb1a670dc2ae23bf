"""Inserts of few rows from many threads, read and checked together.

What an insert of one row costs is nearly all fixed: to make Arrow of it, to check it, to sync the log. The thread
whose turn it is does the first two for all that wait, and the log's own queue does the third. Each insert stays one:
it has its own SCN, and where the rows cannot be taken together, each is tried by itself and fails by itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass
class _Small:
    """An insert that waits to be read: dicts, or sequences for some columns."""

    stream: Stream
    columns: tuple[Column, ...] | None
    rows: Sequence[Any]
    context: BindContext
    place: Waiting | None = None
    failure: Error | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        return self.stream.id, self.columns

    @property
    def is_taken(self) -> bool:
        return self.place is not None or self.failure is not None


class Gatherer:
    """Thread-safe; one for a database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: deque[_Small] = deque()
        self._queue_lock = threading.Lock()
        self._turn = threading.Lock()

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
        if not small.is_taken:
            with self._turn:
                if not small.is_taken:
                    self._take_all()
        if small.failure is not None:
            raise small.failure
        assert small.place is not None
        return streams.journal.settle(small.place)

    def _take_all(self) -> None:
        """Reads everything that waits, and gives it its place in the log in the order in which it came."""
        with self._queue_lock:
            taken, self._queue = list(self._queue), deque()
        tables: dict[int, pa.Table] = {}
        try:
            for kind in dict.fromkeys(small.kind for small in taken):
                tables |= self._read([small for small in taken if small.kind == kind])
        except BaseException as failure:
            error = failure if isinstance(failure, Error) else Error("the insert failed", detail=repr(failure))
            for small in taken:
                small.failure = small.failure or error
            raise
        whole = [small for small in taken if small.failure is None]
        for small in whole:
            small.place = Waiting(Insert({small.stream.id: [tables[id(small)]]}))
        self._store.streams.journal.enqueue([small.place for small in whole if small.place is not None])

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
