"""An ordinary view: a name for a query, kept as the text that the user wrote."""

from __future__ import annotations

from dataclasses import dataclass

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
