"""Random choices that can be written down, played again and made fewer.

A generator asks `draw(n)` for a number below n, where 0 stands for the simplest way on. The numbers drawn are the
whole truth about what was generated, so a failing case shrinks by dropping and lowering numbers, whatever the
generator does with them.

    >>> choices = Choices([2, 0]); choices.draw(3), choices.draw(3), choices.draw(3)
    (2, 0, 0)
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Draws from a seed, or again from the numbers that an earlier one drew (zeros when they run out)."""

    def __init__(self, source: int | Sequence[int]) -> None:
        self._random = random.Random(source) if isinstance(source, int) else None
        self._given = [] if isinstance(source, int) else list(source)
        self.drawn: list[int] = []

    def draw(self, n: int) -> int:
        if self._random is not None:
            number = self._random.randrange(n)
        else:
            place = len(self.drawn)
            number = self._given[place] % n if place < len(self._given) else 0
        self.drawn.append(number)
        return number

    def pick(self, options: Sequence[T]) -> T:
        return options[self.draw(len(options))]

    def chance(self, one_in: int) -> bool:
        """True once in so many; False is the simple case."""
        return self.draw(one_in) == one_in - 1 if one_in > 1 else True

    def between(self, low: int, high: int) -> int:
        return low + self.draw(high - low + 1)


def reduce_choices(drawn: Sequence[int], fails: Callable[[Sequence[int]], bool], seconds: float) -> list[int]:
    """The shortest list of choices found in the time that still fails."""
    best, until = list(drawn), time.monotonic() + seconds

    def try_one(candidate: list[int]) -> bool:
        nonlocal best
        if candidate == best or time.monotonic() > until or not fails(candidate):
            return False
        best = candidate
        return True

    size = max(1, len(best) // 2)
    while size and time.monotonic() < until:
        start = 0
        while start < len(best):
            if not try_one(best[:start] + best[start + size :]):
                start += size
        size //= 2
    for place in range(len(best)):
        if place < len(best) and best[place]:
            try_one([*best[:place], 0, *best[place + 1 :]])
    return best
