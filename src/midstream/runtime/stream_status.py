"""Where streams and their readers stand, for SHOW STREAMS and SHOW STATUS."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from midstream.errors import Error
from midstream.relations.stream import Stream


@dataclass(frozen=True)
class ReaderStatus:
    name: str
    kind: str
    absorbed: int
    rows: int
    failure: Error | None


@dataclass(frozen=True)
class StreamStatus:
    stream: Stream
    rows: int
    bytes: int
    rate: float
    """Rows a second, over the last seconds."""
    unabsorbed_rows: int
    unabsorbed_bytes: int
    waiting_inserts: int
    readers: tuple[ReaderStatus, ...]
    """The slowest first."""


class Rates:
    """Rows a second of each stream, or each reader, from how many there were at earlier looks."""

    _SPAN = 10.0
    _LEAST = 0.1
    """What came within less is no rate."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._seen: dict[int, deque[tuple[float, int]]] = {}

    def look(self, stream_id: int, rows: int) -> None:
        seen = self._seen.setdefault(stream_id, deque())
        now = time.monotonic()
        if not seen or now - seen[-1][0] >= 0.5:
            seen.append((now, rows))
        while len(seen) > 1 and now - seen[0][0] >= self._SPAN:
            seen.popleft()

    def rate(self, stream_id: int, rows: int) -> float:
        self.look(stream_id, rows)
        at, before = self._seen[stream_id][0]
        return (rows - before) / max(time.monotonic() - at, self._LEAST)

    def forget(self, id: int) -> None:
        self._seen.pop(id, None)
