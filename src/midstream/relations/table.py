"""A table: columns and constraints as frozen values. Its rows are Delta files elsewhere.

Every row has a hidden, unique `_row_id`; ids grow with arrival, so ordering by them gives back the order
of insertion. A column keeps its `id` for life, whatever it is renamed to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from midstream.types import BIGINT, Type

ROW_ID = "_row_id"
ROW_ID_TYPE = BIGINT


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    not_null: bool = False
    default: str | None = None
    """The DEFAULT expression as SQL text."""
    id: int = 0


@dataclass(frozen=True)
class Key:
    """PRIMARY KEY or UNIQUE."""

    name: str
    columns: tuple[str, ...]
    is_primary: bool = False


@dataclass(frozen=True)
class ForeignKey:
    name: str
    columns: tuple[str, ...]
    table: str
    referred: tuple[str, ...]
    on_delete: Literal["restrict", "cascade"] = "restrict"


@dataclass(frozen=True)
class CheckConstraint:
    name: str
    condition: str


@dataclass(frozen=True)
class IncreasingConstraint:
    name: str
    column: str
    partition_by: tuple[str, ...] = ()
    strictly: bool = False


TableConstraint = Key | ForeignKey | CheckConstraint | IncreasingConstraint


@dataclass(frozen=True)
class Table:
    id: int
    name: str
    columns: tuple[Column, ...]
    constraints: tuple[TableConstraint, ...] = ()

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(c for c in self.constraints if isinstance(c, Key))

    @property
    def primary_key(self) -> Key | None:
        return next((key for key in self.keys if key.is_primary), None)

    @property
    def foreign_keys(self) -> tuple[ForeignKey, ...]:
        return tuple(c for c in self.constraints if isinstance(c, ForeignKey))

    @property
    def checks(self) -> tuple[CheckConstraint, ...]:
        return tuple(c for c in self.constraints if isinstance(c, CheckConstraint))

    @property
    def increasing(self) -> tuple[IncreasingConstraint, ...]:
        return tuple(c for c in self.constraints if isinstance(c, IncreasingConstraint))
