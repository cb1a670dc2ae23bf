"""Who reads the results of a window view one after the other, and what is held for those who are not yet so far.

A view keeps its last results. One insert may complete more windows than that, and whoever follows the view has had no
moment to take them. So results that a view lets go are held for those who follow it and have yet to take them:

    taken by the follower | held for it | kept by the view
    0 ...            next |             | gone ... handed_out

What is held and what is kept adjoin, unless so much was held that the oldest had to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from midstream.runtime.window_log import WindowLog, WindowResult

HELD_WINDOWS = 100_000
HELD_ROWS = 10_000_000
"""So much is held for one follower, and no more."""


class Follower:
    """Not thread-safe: the windows of a database look after it."""

    def __init__(self, taken: int) -> None:
        self._next = taken
        """How many results there were before the one that it gets next."""
        self._held: deque[WindowResult] = deque()
        self._rows = 0

    def hold(self, first: int, dropped: Sequence[WindowResult]) -> None:
        """Results that the view lets go; `first`: how many there were before them."""
        for result in dropped[max(self._next - first, 0) :]:
            self._held.append(result)
            self._rows += result.rows
        while len(self._held) > HELD_WINDOWS or self._rows > HELD_ROWS:
            self._let_go()

    def waiting(self, log: WindowLog) -> list[WindowResult]:
        """What it has yet to take."""
        return [*self._held, *log.results[max(self._next - log.dropped, 0) :]]

    def missed(self, log: WindowLog) -> int:
        """How many results it has yet to take that are gone."""
        return max(log.dropped - len(self._held) - self._next, 0)

    def take(self, log: WindowLog) -> None:
        """It has the next result."""
        if self._next < log.dropped:
            self._let_go()
        self._next += 1

    def _let_go(self) -> None:
        self._rows -= self._held.popleft().rows
