"""What one act of binding knows and collects: the moment, the parameters, the scans, the names given so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from sqlglot import exp

from midstream.errors import InvalidParameter, Position
from midstream.plan.literals import literal_of
from midstream.plan.nodes import keep_place, place_of, quoted, table_alias
from midstream.relations.schema import RowHolder, Schema
from midstream.relations.table import ROW_ID, ROW_ID_TYPE
from midstream.relations.view import ContinuousView, Derived
from midstream.relations.window import PLACE, SLOT, Slots, Window
from midstream.types import BIGINT, TEXT, Type

SourceKind = Literal["table", "changes", "before", "delta", "history", "late", "stream", "static", "state", "view"]
WEIGHT, COMMIT, IMAGE, DML_TYPE = "~w", "~scn", "~image", "~dml"
"""What is known of a changed row: how often it came, less how often it went; the SCN of the commit; whether it is an
old or a new image; what was done. Whatever a user's columns are called, these are others."""
CHANGE_COLUMNS = {"old_new_mark": IMAGE, "dml_type": DML_TYPE, "trans_scn": COMMIT}
"""What the change log of a table has beside the table's own columns, which may have the same names."""


@dataclass(frozen=True)
class BindContext:
    """The moment of a statement and the values of its parameters."""

    scn: int
    now: datetime
    parameters: tuple[object, ...] = ()
    start: Position = (1, 1)
    """Where the statement's text begins in the user's script."""
    taken_out: int = 0
    """The highest $n among parameters that stood in the statement and were read before it was bound."""


@dataclass(frozen=True)
class ScanKey:
    """A base input: self-joins share one."""

    relation: RowHolder | ContinuousView | Derived
    source: SourceKind
    as_of: int | None
    slots: Slots | None = None
    """The basic windows of a windowed stream."""
    all_windows: bool = False
    """Of a window view: every result that is kept, not the newest alone."""

    def columns(self) -> dict[str, Type]:
        if isinstance(self.relation, ContinuousView | Derived):
            return dict(self.relation.columns)
        own = {column.name: column.type for column in self.relation.columns}
        if self.slots is not None:
            return {**own, SLOT: BIGINT, PLACE: BIGINT}
        if self.source in ("history", "stream", "late"):
            return own
        extra = {IMAGE: TEXT, DML_TYPE: TEXT, COMMIT: BIGINT} if self.source == "changes" else {}
        extra |= {WEIGHT: BIGINT, COMMIT: BIGINT} if self.source == "delta" else {}
        return {**own, **extra, ROW_ID: ROW_ID_TYPE}


@dataclass
class Binding:
    """Grows while one statement is bound."""

    schema: Schema
    context: BindContext
    parse_query: Callable[[str], exp.Expression]
    scans: dict[ScanKey, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _parameters_used: dict[int, Position | None] = field(default_factory=dict)
    """The numbers of parameters, and where each stands first."""
    takes_streams: bool = False
    """Whether a stream stands for the rows that come: in the query of a continuous view."""
    windows: list[Window] = field(default_factory=list)
    unit: int | None = None
    """The size of basic windows where it is less than the largest possible: what other views keep already."""
    """The windows over streams, each once."""
    window_streams: list[set[int]] = field(default_factory=list)
    """The streams that each is over."""
    views_open: tuple[str, ...] = ()
    stars: list[tuple[Position, tuple[str, ...]]] = field(default_factory=list)
    """Where a * stands in the statement, and the names that it stands for, as they can be written in its place."""

    def scan(self, key: ScanKey, alias: str) -> exp.Table:
        """The base input as a FROM item."""
        name = self.scans.setdefault(key, f"scan_{len(self.scans)}")
        return exp.Table(this=quoted(name), alias=table_alias(alias))

    def fresh_alias(self, wanted: str) -> str:
        """A name that nothing else in the statement has, in any letter case: DuckDB folds them all."""
        base = "t" if wanted.lower().startswith("scan_") else wanted
        alias, number = base, 1
        while alias.lower() in self._taken:
            alias, number = f"{base}_{number}", number + 1
        self._taken.add(alias.lower())
        return alias

    def parameter(self, node: exp.Expression) -> exp.Expression:
        """The value of `$n` as a literal."""
        number = int(node.name)
        values = self.context.parameters
        self._parameters_used.setdefault(number, place_of(node))
        if not 1 <= number <= len(values):
            return exp.Null()
        return keep_place(literal_of(values[number - 1], number), node)

    def check_parameters(self) -> None:
        """Every value has its place and every place its value."""
        given, needed = len(self.context.parameters), max(self._parameters_used, default=0)
        needed = max(needed, self.context.taken_out)
        if given != needed:
            raise InvalidParameter(
                f"the statement has {_count(needed)}, but {_are(given)} given",
                hint="Give one value for each ?, or as many values as the highest $n.",
                sqlstate="08P01",
                position=next((self._parameters_used[n] for n in sorted(self._parameters_used) if n > given), None),
            )


def _count(parameters: int) -> str:
    return "1 parameter" if parameters == 1 else f"{parameters or 'no'} parameters"


def _are(values: int) -> str:
    return "1 value was" if values == 1 else f"{values or 'no'} values were"
