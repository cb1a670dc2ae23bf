"""Views: names for queries, kept as the text that the user wrote. One over streams is continuous."""

from __future__ import annotations

from dataclasses import dataclass

from midstream.relations.stream import Stream
from midstream.relations.table import Column
from midstream.types import Type


@dataclass(frozen=True)
class View:
    id: int
    name: str
    columns: tuple[tuple[str, Type], ...]
    """Names and types of the result, as they were when the view was created."""
    query: str
    reads: tuple[str, ...]
    """The relations that the query names."""


@dataclass(frozen=True)
class ContinuousView(View):
    """A view over streams: partials of what has come are kept, and the rest of the query runs when it is read."""

    kernel: str = "duckdb"
    """Who computes the partials."""
    backfill: bool = False
    """Whether it began with the history of its streams."""
    is_windowed: bool = False
    """Whether it reads streams by windows: it has a result for each window."""
    maintenance: str = "auto"
    """Of windows: 'incremental', 'reevaluate', or whichever is faster."""
    retain_windows: int | None = None
    retain_seconds: float | None = None
    """How many results are kept, or for how long; neither: the last hundred."""
    key: tuple[str, ...] = ()
    """By what subscribers tell that a row is another one's new state."""
    unit: int | None = None
    """Of windows: the size of basic windows, where they are smaller than they need be, to be another view's as well."""

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def basket(self) -> Stream:
        """What a view over windows hands out, as a stream for views over it."""
        return Stream(self.id, self.name, tuple(Column(*column) for column in self.columns), is_basket=True)


@dataclass(frozen=True)
class Derived:
    """A relation that only maintenance knows: a state of partials, or what was computed once from tables."""

    name: str
    columns: tuple[tuple[str, Type], ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)
