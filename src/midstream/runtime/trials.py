"""Which of several ways to an answer takes the least time, found by taking each of them for a while.

The way whose answers came soonest is kept to. When they take twice as long as they did, or half as long, the load has
changed, and all ways are tried again.

    >>> trial = Trial(("pairs", "anew"))
    >>> for seconds in [0.3] * 5 + [0.2] * 5:
    ...     trial.saw(seconds)
    >>> trial.way, trial.seconds
    ('anew', {'pairs': 0.3, 'anew': 0.2})
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

STEPS = 5
"""So many answers are watched before something is decided."""
_OTHER = 2.0


@dataclass
class Trial:
    ways: tuple[str, ...]
    seconds: dict[str, float] = field(default_factory=dict)
    """How long an answer took, each way."""
    _seen: list[float] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return len(self.seconds) == len(self.ways)

    @property
    def way(self) -> str:
        """The way to take next."""
        if self.is_over:
            return min(self.ways, key=lambda way: self.seconds[way])
        return next(way for way in self.ways if way not in self.seconds)

    def saw(self, seconds: float) -> None:
        """An answer that was got by `way` took so long."""
        way = self.way
        self._seen.append(seconds)
        if len(self._seen) < STEPS:
            return
        now, self._seen = round(median(self._seen), 4), []
        if not self.is_over:
            self.seconds[way] = now
        elif not self.seconds[way] / _OTHER <= now <= self.seconds[way] * _OTHER:
            self.seconds = {}
