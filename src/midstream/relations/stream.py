"""A stream: rows that come and are read once by those who keep something of them. It has no rows of its own,
unless it keeps its history."""

from __future__ import annotations

from dataclasses import dataclass

from midstream.relations.table import CheckConstraint, Column


@dataclass(frozen=True)
class History:
    """The rows of a stream are kept for a time, cut into parts of so many seconds."""

    retain_seconds: float
    part_seconds: int


@dataclass(frozen=True)
class Stream:
    id: int
    name: str
    columns: tuple[Column, ...]
    constraints: tuple[CheckConstraint, ...] = ()
    timestamp: str | None = None
    """The column that says when a row happened; without one, it is when the row arrived."""
    lateness_seconds: float = 0.0
    history: History | None = None
    is_basket: bool = False
    """Whether it is what a view over windows hands out, one window after the other."""

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def checks(self) -> tuple[CheckConstraint, ...]:
        return self.constraints
