"""The backlog: what has been acknowledged and not yet absorbed, who is behind, and inserts that wait for it.

The backlog of a stream is what its slowest reader still has to absorb. An insert waits while it would grow beyond the
limit, up to a time; one insert always fits into an empty backlog, however large it is. Those who wait are let in by
turns, so that small inserts do not keep a large one out.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from midstream.errors import Cancelled, OutOfResources

_POLL_SECONDS = 0.05


@dataclass
class _Pending:
    """Rows and bytes of a stream by SCN, oldest first, and how much of it is there together."""

    entries: deque[tuple[int, int, int]] = field(default_factory=deque)
    rows: int = 0
    bytes: int = 0
    waiting: deque[object] = field(default_factory=deque)
    """The inserts that wait, the first to come first."""
    asked: int = 0
    """Bytes of inserts that were let in and are not yet in the log."""

    def fits(self, size: int, limit: int) -> bool:
        held = self.bytes + self.asked
        return held == 0 or held + size <= limit


class Backlog:
    """Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._streams: dict[int, _Pending] = {}

    @contextmanager
    def admitted(
        self,
        name: str,
        stream_id: int,
        size: int,
        *,
        limit: int,
        patience: float,
        stopped: threading.Event | None = None,
    ) -> Iterator[None]:
        """Waits until an insert of so many bytes fits; it then counts until it is in the log or has failed."""
        pending = self._wait(name, stream_id, size, limit, patience, stopped)
        try:
            yield
        finally:
            with self._changed:
                pending.asked -= size
                self._changed.notify_all()

    def wait_for_room(
        self, name: str, stream_id: int, *, limit: int, patience: float, stopped: threading.Event | None = None
    ) -> None:
        """For an insert of few rows: returns as soon as the backlog is below the limit."""
        with self._changed:
            pending = self._of(stream_id)
            if not pending.waiting and pending.fits(0, limit):
                return
        with self.admitted(name, stream_id, 0, limit=limit, patience=patience, stopped=stopped):
            pass

    def _wait(
        self, name: str, stream_id: int, size: int, limit: int, patience: float, stopped: threading.Event | None
    ) -> _Pending:
        give_up_at, ticket = time.monotonic() + patience, object()
        with self._changed:
            pending = self._of(stream_id)
            pending.waiting.append(ticket)
            try:
                while pending.waiting[0] is not ticket or not pending.fits(size, limit):
                    left = give_up_at - time.monotonic()
                    if left <= 0:
                        raise _too_far_behind(name, pending, limit, patience)
                    if stopped is not None and stopped.is_set():
                        raise Cancelled("the statement was cancelled")
                    self._changed.wait(min(left, _POLL_SECONDS))
            finally:
                pending.waiting.remove(ticket)
                self._changed.notify_all()
            pending.asked += size
            return pending

    def add(self, stream_id: int, scn: int, rows: int, size: int) -> None:
        with self._changed:
            pending = self._of(stream_id)
            pending.entries.append((scn, rows, size))
            pending.rows += rows
            pending.bytes += size

    def absorbed(self, stream_id: int, scn: int) -> None:
        """All readers of a stream have what came up to an SCN."""
        with self._changed:
            pending = self._of(stream_id)
            while pending.entries and pending.entries[0][0] <= scn:
                _, rows, size = pending.entries.popleft()
                pending.rows -= rows
                pending.bytes -= size
            self._changed.notify_all()

    def forget(self, stream_id: int) -> None:
        """A stream is gone: whoever waits for it goes on, and is told so by the log."""
        with self._changed:
            pending = self._streams.pop(stream_id, None)
            if pending is not None:
                pending.rows = pending.bytes = 0
                pending.entries.clear()
            self._changed.notify_all()

    def standing(self, stream_id: int) -> tuple[int, int, int]:
        """Rows and bytes that are not absorbed, and inserts that wait."""
        with self._changed:
            pending = self._of(stream_id)
            return pending.rows, pending.bytes, len(pending.waiting)

    def has_upto(self, stream_id: int, scn: int) -> bool:
        """Whether anything up to an SCN is still to be absorbed by somebody."""
        with self._changed:
            pending = self._of(stream_id)
            return bool(pending.entries) and pending.entries[0][0] <= scn

    def _of(self, stream_id: int) -> _Pending:
        return self._streams.setdefault(stream_id, _Pending())


def _too_far_behind(name: str, pending: _Pending, limit: int, patience: float) -> OutOfResources:
    return OutOfResources(
        f'stream "{name}" cannot take more rows now: its readers are behind',
        detail=f"{pending.rows:,} rows ({pending.bytes:,} bytes) wait to be absorbed, and {limit:,} bytes may; "
        f"the insert waited for {patience:g} s.",
        hint="Try again later, insert more slowly, or raise max_backlog or insert_timeout; SHOW STATUS names the "
        "slowest reader.",
        sqlstate="53400",
    )
