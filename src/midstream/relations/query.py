"""Continuous queries, which hand out what changed of their answer, and what takes it: queues and triggers.

A materialized view is a table that the database itself writes: the answer of its query, kept up to date by the same
changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from midstream.relations.table import Key, Table
from midstream.relations.view import View
from midstream.types import TEXT, Type

When = Literal["on commit", "on demand", "periodic"]
Refresh = Literal["auto", "incremental", "full"]
KINDS = ("I", "D", "U")


@dataclass(frozen=True)
class Output:
    """A column that a continuous query hands out: of the row, of what the row was, or what happened to it."""

    name: str
    what: Literal["row", "old", "kind"]
    place: int = 0
    """Which column of the row."""


@dataclass(frozen=True)
class ContinuousQuery:
    id: int
    name: str
    columns: tuple[tuple[str, Type], ...]
    """Names and types of a row."""
    query: str
    reads: tuple[str, ...]
    outputs: tuple[Output, ...]
    key: tuple[str, ...] = ()
    when: When = "on commit"
    transactional: bool = True
    """Commit by commit, or the net change of several."""
    start_at: float | None = None
    period_seconds: int | None = None
    destination: str | None = None
    is_queue: bool = False
    kinds: tuple[str, ...] = KINDS
    refresh: Refresh = "auto"
    kernel: str = "auto"
    stream: str | None = None
    """The stream whose rows are its changes."""
    append_only: tuple[str, ...] = ()
    """Tables whose rows may not be changed while it is there: its window functions go by what increases in them."""
    key_is_proved: bool = False
    """Whether the query alone makes the key unique."""

    @property
    def output_columns(self) -> tuple[tuple[str, Type], ...]:
        """What it hands out: names and types."""
        types = [type_ for _, type_ in self.columns]
        return tuple((o.name, TEXT if o.what == "kind" else types[o.place]) for o in self.outputs)

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)


@dataclass(frozen=True)
class MaterializedView(Table):
    query: str = ""
    reads: tuple[str, ...] = ()
    when: When = "on commit"
    period_seconds: float | None = None
    refresh: Refresh = "auto"
    kernel: str = "auto"
    append_only: tuple[str, ...] = ()

    @property
    def key(self) -> Key | None:
        return self.primary_key

    @property
    def as_view(self) -> ComputedView:
        """The same as an ordinary view."""
        columns = tuple((column.name, column.type) for column in self.columns)
        return ComputedView(self.id, self.name, columns, self.query, self.reads)


@dataclass(frozen=True)
class ComputedView(View):
    """A materialized view where its stored rows do not count: it is its query."""


@dataclass(frozen=True)
class Queue:
    """What a continuous query hands out, for subscribers who take it each at their own pace."""

    id: int
    name: str


@dataclass(frozen=True)
class Trigger:
    id: int
    name: str
    on: str
    function: str | None = None
    channel: str | None = None
