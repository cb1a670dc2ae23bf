"""What continuous views answer, and what a statement that reads them sees: everything at one SCN."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from midstream.relations.catalog import CatalogState
from midstream.runtime.states import KeptFile
from midstream.runtime.transaction import TableChanges

WINDOW = "~window"
"""The column of the results of window views that tells windows apart."""


@dataclass
class Result:
    """The answer of a view at one SCN."""

    state: CatalogState
    through: int
    """Nothing that it depends on has changed up to this SCN."""
    files: tuple[KeptFile, ...]
    words: Mapping[str, str]
    versions: Mapping[int, int]
    """The Delta versions of the tables that the upper query read."""
    seconds: float
    rows_in: int
    at: float = field(default_factory=time.monotonic)
    was_read: bool = False
    """Whether somebody has asked for it; views are also refreshed together with others."""
    windows: tuple[int, ...] | None = None
    """Of a view over windows: those that its files are read for."""
    every: Result | None = None
    """The same with all windows that are kept."""
    answers: dict[str, pa.Table] = field(default_factory=dict)
    """What statements that read this view alone got of it, by their text."""

    @property
    def scn(self) -> int:
        return self.state.scn

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True)
class Moment:
    """What a statement over views sees: everything at one SCN."""

    state: CatalogState
    results: Mapping[int, Result]
    changes: Mapping[int, TableChanges] = field(default_factory=dict)
    """What the statement's own transaction has changed."""

    def pending(self, table_id: int) -> TableChanges | None:
        return self.changes.get(table_id) or None
