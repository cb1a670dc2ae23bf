"""The rules of windows in a few lines: which are complete, and from where to where each goes.

Positions are row numbers from 0, or microseconds since 1970. By rows, window k begins at k slides; by time, it ends at
k slides. A landmark has no size: its window k begins where the last reset was.

    >>> span = Span("rows", size=5, slide=2)
    >>> [span.bounds(k) for k in (0, 1, 2)], span.last_complete(8)
    ([(0, 5), (2, 7), (4, 9)], 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class Span:
    by: Literal["rows", "time"]
    slide: int
    size: int | None = None
    reset: int | None = None

    def bounds(self, number: int) -> tuple[int | None, int]:
        """The end is excluded; no start: since the first row."""
        end = number * self.slide + (0 if self.by == "time" else self.size or self.slide)
        if self.size is not None:
            return end - self.size, end
        if self.reset is not None:
            return (end - 1) // self.reset * self.reset, end
        return (0 if self.by == "rows" else None), end

    def last_complete(self, position: int) -> int:
        """The number of the last window that ends at a position or before it."""
        return (position if self.by == "time" else position - (self.size or self.slide)) // self.slide

    def first_behind(self, position: int) -> int:
        """The number of the first window that ends behind a position in time."""
        return position // self.slide + 1


@dataclass(frozen=True)
class Session:
    """Ends when nothing has come for a while: to the stream, or to a key."""

    gap: int
    by: str | None = None


@dataclass
class Rows:
    """What has come to a stream. A watermark stands while an insert runs, and moves at its end."""

    lateness: int
    """In microseconds."""
    has_clock: bool = True
    """False, as long as nobody has named a time of the stream."""
    times: list[int | None] = field(default_factory=list)
    in_time: list[bool] = field(default_factory=list)
    high: int | None = None

    @property
    def watermark(self) -> int | None:
        return None if self.high is None else self.high - self.lateness

    def insert(self, times: Sequence[int | None]) -> list[bool]:
        """Which of the rows are in time."""
        watermark = self.watermark
        found = [time is not None and (watermark is None or time >= watermark) for time in times]
        self.times += times
        self.in_time += found
        known = [time for time in times if time is not None and self.has_clock]
        self.high = max([*known, *([] if self.high is None else [self.high])], default=None)
        return found

    def first_since(self, row: int) -> int | None:
        """The smallest time in time, of the rows from one on."""
        pairs = zip(self.times[row:], self.in_time[row:], strict=True)
        return min((time for time, in_time in pairs if in_time and time is not None), default=None)


@dataclass(frozen=True)
class Read:
    """A windowed stream in a view: its window, and the number of its first row that the view sees."""

    stream: str
    span: Span
    since: int = 0


@dataclass(frozen=True)
class Run:
    """A session that has happened."""

    key: str
    start: int
    end: int
    places: tuple[int, ...]


def sessions(gap: int, rows: Rows, since: int, keys: Sequence[str]) -> list[Run]:
    """Those that are complete, in the order of their ends; `keys` has one for every row of the stream."""
    found: list[Run] = []
    for key in dict.fromkeys(keys[since:]):
        places = [place for place in range(since, len(keys)) if keys[place] == key and rows.in_time[place]]
        times = sorted((rows.times[place] or 0, place) for place in places)
        for begin, end in _runs([time for time, _ in times], gap):
            run = times[begin:end]
            found.append(Run(key, run[0][0], run[-1][0] + gap, tuple(place for _, place in run)))
    mark = rows.watermark
    return sorted((run for run in found if mark is not None and run.end <= mark), key=lambda run: run.end)


def _runs(times: Sequence[int], gap: int) -> list[tuple[int, int]]:
    """Where sorted times are closer to each other than the gap."""
    cuts = [n for n in range(1, len(times)) if times[n] - times[n - 1] >= gap]
    return list(zip([0, *cuts], [*cuts, len(times)], strict=True)) if times else []


def complete(reads: Sequence[Read], streams: dict[str, Rows]) -> range:
    """The numbers of the windows that every stream of a view has completed."""
    if reads[0].span.by == "rows":
        return range(min(r.span.last_complete(len(streams[r.stream].times) - r.since) for r in reads) + 1)
    marks = [streams[read.stream].watermark for read in reads]
    firsts = [first for r in reads if (first := streams[r.stream].first_since(r.since)) is not None]
    known = [mark for mark in marks if mark is not None]
    if len(known) < len(marks) or not firsts:
        return range(0)
    slide = reads[0].span
    return range(slide.first_behind(min(firsts)), slide.last_complete(min(known)) + 1)


def moment(microseconds: int) -> datetime:
    return EPOCH + timedelta(microseconds=microseconds)
