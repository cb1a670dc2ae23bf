"""Windows over a stream: basic windows, which rows fall into, and the numbered windows that are made of them.

A basic window is as long as the greatest common divisor of a window's size and slide, so every window is a run of
whole ones. Positions are numbers of rows from 0, or microseconds since 1970.

    >>> window = Window.sliding(Slots("rows", 0), size=10, slide=4)
    >>> window.slots.unit, window.span(2), window.last_before(21)
    (2, (8, 18), 2)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Literal

EVER = -(2**62)
"""A position before all others."""
SLOT, PLACE = "~slot", "~place"
"""Columns that a windowed stream has beside its own: the number of a row's basic window, and the row's own number."""


@dataclass(frozen=True)
class Slots:
    """How the rows of a stream fall into basic windows: by their number, by a column, or by when they arrived."""

    by: Literal["rows", "column", "arrival"]
    unit: int
    column: str | None = None
    landmark: int | None = None
    """Basic windows of a landmark become one, so no other kind of window can share them: after how long the landmark
    is set anew, 0 for never; None: it is another kind."""

    @property
    def is_time(self) -> bool:
        return self.by != "rows"


@dataclass(frozen=True)
class Window:
    slots: Slots
    size: int | None
    """None: since the landmark."""
    slide: int
    reset: int | None = None
    """A landmark is set anew after so long; None: never."""
    gap: int | None = None
    """Of a session: it ends when nothing has come for so long. Its bounds are in the rows, so it has no size."""
    by: tuple[str, ...] = ()
    """The columns that each have sessions of their own."""

    @classmethod
    def sliding(cls, slots: Slots, size: int, slide: int | None = None) -> Window:
        step = slide or size
        return cls(replace(slots, unit=gcd(size, step)), size, step)

    @classmethod
    def landmark(cls, slots: Slots, slide: int, reset: int | None = None) -> Window:
        return cls(replace(slots, unit=gcd(slide, reset or slide), landmark=reset or 0), None, slide, reset)

    @classmethod
    def session(cls, slots: Slots, gap: int, by: tuple[str, ...] = ()) -> Window:
        return cls(replace(slots, unit=1), None, gap, gap=gap, by=by)

    def cut_by(self, unit: int | None) -> Window:
        """The same window, of smaller basic windows if it can be made of these."""
        if unit is None or self.gap is not None or self.slots.unit % unit:
            return self
        return replace(self, slots=replace(self.slots, unit=unit))

    @property
    def largest_unit(self) -> int:
        """How long basic windows can be."""
        if self.gap is not None:
            return 1
        return gcd(self.slide, self.size if self.size is not None else self.reset or self.slide)

    @property
    def basic_windows(self) -> int | None:
        """How many basic windows a window is made of; None: ever more."""
        return None if self.size is None else self.size // self.slots.unit

    # --- numbers: windows by rows are counted from 0, by time their ends are multiples of the slide ----------------

    def end(self, number: int) -> int:
        if self.slots.is_time:
            return number * self.slide
        return number * self.slide + (self.size if self.size is not None else self.slide)

    def span(self, number: int) -> tuple[int, int]:
        """From where to where it goes, the end excluded."""
        end = self.end(number)
        if self.size is not None:
            return end - self.size, end
        if self.reset is None:
            return (EVER if self.slots.is_time else 0), end
        return (end - 1) // self.reset * self.reset, end

    def slots_of(self, number: int) -> tuple[int, int]:
        """The first of its basic windows, and the one behind the last."""
        start, end = self.span(number)
        return (start if start == EVER else start // self.slots.unit), end // self.slots.unit

    def last_before(self, position: int) -> int:
        """The number of the last window that has ended at a position."""
        if self.slots.is_time:
            return position // self.slide
        return (position - (self.size if self.size is not None else self.slide)) // self.slide

    def last_end_with(self, position: int) -> int:
        """Where the last window by time ends that a position is in."""
        if self.gap is not None:
            return position + self.gap
        length = self.size if self.size is not None else self.slide
        return (position + length) // self.slide * self.slide

    def first_with(self, slot: int) -> int:
        """The number of the first window that has a basic window, the first that rows came to."""
        return slot * self.slots.unit // self.slide + 1 if self.slots.is_time else 0
