"""The backlog: what has been acknowledged and not yet absorbed, who is behind, and inserts that wait for it.

The backlog of a stream is what its slowest reader still has to absorb. An insert waits while it would grow beyond the
limit, up to a time; one insert always fits into an empty backlog, however large it is.
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
    waiting: int = 0
    asked: int = 0
    """Bytes of inserts that were let in and are not yet in the log."""


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
        self._wait(name, stream_id, size, limit, patience, stopped)
        try:
            yield
        finally:
            with self._changed:
                self._of(stream_id).asked -= size
                self._changed.notify_all()

    def _wait(
        self, name: str, stream_id: int, size: int, limit: int, patience: float, stopped: threading.Event | None
    ) -> None:
        give_up_at = time.monotonic() + patience
        with self._changed:
            pending = self._of(stream_id)
            if not self._fits(pending, size, limit):
                pending.waiting += 1
                try:
                    while not self._fits(pending, size, limit):
                        left = give_up_at - time.monotonic()
                        if left <= 0:
                            raise _too_far_behind(name, pending, limit, patience)
                        if stopped is not None and stopped.is_set():
                            raise Cancelled("the statement was cancelled")
                        self._changed.wait(min(left, _POLL_SECONDS))
                finally:
                    pending.waiting -= 1
            pending.asked += size

    @staticmethod
    def _fits(pending: _Pending, size: int, limit: int) -> bool:
        held = pending.bytes + pending.asked
        return held == 0 or held + size <= limit

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
        with self._changed:
            self._streams.pop(stream_id, None)
            self._changed.notify_all()

    def standing(self, stream_id: int) -> tuple[int, int, int]:
        """Rows and bytes that are not absorbed, and inserts that wait."""
        with self._changed:
            pending = self._of(stream_id)
            return pending.rows, pending.bytes, pending.waiting

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
