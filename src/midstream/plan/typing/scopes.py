"""What a query's names stand for while its expressions are typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from midstream.errors import InternalError
from midstream.types import Type

Columns = dict[str, Type]


@dataclass(frozen=True)
class Scope:
    """Sources of this query and of those around it; `stored` are aliases of relations that are read from files."""

    scans: Mapping[str, Mapping[str, Type]]
    sources: Mapping[str, Columns] = field(default_factory=dict)
    stored: frozenset[str] = frozenset()
    ctes: Mapping[str, Columns] = field(default_factory=dict)
    outer: Scope | None = None

    def inside(self) -> Scope:
        return Scope(self.scans, {}, frozenset(), self.ctes, self)

    def with_source(self, alias: str, columns: Columns, stored: bool = False) -> Scope:
        kept = self.stored | {alias} if stored else self.stored
        return replace(self, sources={**self.sources, alias: columns}, stored=kept)

    def with_cte(self, name: str, columns: Columns) -> Scope:
        return replace(self, ctes={**self.ctes, name: columns})

    def find(self, column: exp.Column) -> tuple[Type, bool]:
        """The type of a column, and whether it comes straight from a stored relation."""
        scope: Scope | None = self
        while scope is not None:
            columns = scope.sources.get(column.table)
            if columns is not None and column.name in columns:
                return columns[column.name], column.table in scope.stored
            scope = scope.outer
        raise InternalError(f"column {column.sql()} is not bound")
