"""In how many chunks the newest basic window is absorbed while it fills.

With m chunks, only the last m-th of a basic window is left to absorb when its last row has come. More chunks cost more
jobs, so the right m is found by watching: it is doubled as long as the answers come sooner, and then stays with the
best. When answers take twice as long as they did, or half as long, the load has changed, and the search begins anew.

    >>> search = Chunking()
    >>> for seconds in [1.0] * 5 + [0.6] * 5 + [0.9] * 5:
    ...     search.saw(seconds)
    >>> search.chunks, search.history
    (2, [(1, 1.0), (2, 0.6), (4, 0.9)])
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

STEPS = 5
"""So many slides are watched before something is decided."""
MOST = 64
REMEMBERED = 32
"""So many of the last tries are told."""
_OTHER = 2.0


@dataclass
class Chunking:
    chunks: int = 1
    history: list[tuple[int, float]] = field(default_factory=list)
    """What was tried, in all searches, and how many seconds an answer took."""
    settled: float | None = None
    """How long answers took with the best; None: the search goes on."""
    _tried: list[tuple[int, float]] = field(default_factory=list)
    """In this search."""
    _seen: list[float] = field(default_factory=list)

    def saw(self, seconds: float) -> None:
        """An answer came so many seconds after the last row of its window."""
        self._seen.append(seconds)
        if len(self._seen) < STEPS:
            return
        now, self._seen = round(median(self._seen), 4), []
        if self.settled is not None:
            if not self.settled / _OTHER <= now <= self.settled * _OTHER:
                self.chunks, self._tried, self.settled = 1, [], None
            return
        before = self._tried[-1][1] if self._tried else None
        self._tried.append((self.chunks, now))
        self.history = [*self.history, (self.chunks, now)][-REMEMBERED:]
        if (before is None or now < before) and self.chunks < MOST:
            self.chunks *= 2
            return
        self.chunks, self.settled = min(self._tried, key=lambda tried: tried[1])
