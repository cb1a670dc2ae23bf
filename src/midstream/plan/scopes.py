"""What a name can mean at one place of a query.

A `Namespace` is what a FROM clause offers: sources by name, for `t.x`, and columns in order, for `x` and
`*`. They are kept apart because a join by USING merges two columns into one that belongs to no source.
A `Scope` adds the queries around it, for correlated subqueries.

    FROM t JOIN u USING (id)      sources t, u; columns id (merged), then the rest of t, then of u
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import exp

from midstream.errors import AmbiguousName, DuplicateName, Position, UndefinedName, Unsupported
from midstream.plan.nodes import column as column_node
from midstream.plan.nodes import keep_place, name_of, place_of
from midstream.relations.table import Table
from midstream.sql.text import quote_name


@dataclass(frozen=True)
class SourceColumn:
    name: str
    """What the user calls it."""
    kernel_name: str
    """What the SQL text for the kernels calls it: unique in its source."""


@dataclass(frozen=True)
class Source:
    """A relation in a FROM clause."""

    name: str
    """What the user calls it; empty for a derived table without alias."""
    alias: str
    """What the kernels' text calls it: unique in the whole statement, so that no inner name hides an outer one."""
    columns: tuple[SourceColumn, ...]
    table: Table | None = None
    """The base table, where its keys hold for this source."""
    relation_name: str = ""
    place: Position | None = None
    hidden: tuple[VisibleColumn, ...] = ()
    """What can be named but is not in `*`: window_start and window_end."""

    def column(self, kernel_name: str) -> exp.Column:
        return column_node(self.alias, kernel_name)

    def written(self, name: str) -> str | None:
        """How the user can write the column; None: several have this name, or the source has none."""
        is_unique = [column.name for column in self.columns].count(name) == 1
        return f"{quote_name(self.name)}.{quote_name(name)}" if is_unique and self.name else None


@dataclass(frozen=True)
class VisibleColumn:
    name: str
    node: exp.Expression


@dataclass(frozen=True)
class Namespace:
    sources: Mapping[str, Source] = field(default_factory=dict)
    columns: tuple[VisibleColumn, ...] = ()
    nameless: tuple[Source, ...] = ()
    """Derived tables without alias: their columns are visible, their name is not."""
    hidden: tuple[VisibleColumn, ...] = ()
    """What can be named where no column has the name."""

    @staticmethod
    def of(source: Source) -> Namespace:
        columns = tuple(VisibleColumn(c.name, source.column(c.kernel_name)) for c in source.columns)
        if not source.name:
            return Namespace({}, columns, (source,), source.hidden)
        return Namespace({source.name: source}, columns, (), source.hidden)

    def with_all_of(self, other: Namespace) -> Namespace:
        return self.joined(other, self.columns + other.columns)

    def joined(self, other: Namespace, columns: tuple[VisibleColumn, ...]) -> Namespace:
        for name, source in other.sources.items():
            if name in self.sources:
                raise DuplicateName(
                    f'table name "{name}" specified more than once', sqlstate="42712", position=source.place
                )
        hidden = self.hidden + tuple(column for column in other.hidden if column not in self.hidden)
        return Namespace({**self.sources, **other.sources}, columns, self.nameless + other.nameless, hidden)

    @property
    def all_sources(self) -> tuple[Source, ...]:
        return (*self.sources.values(), *self.nameless)

    def named(self, name: str) -> list[VisibleColumn]:
        found = [column for column in self.columns if column.name == name]
        return found or [column for column in self.hidden if column.name == name]

    def written(self, column: VisibleColumn) -> str | None:
        """How the user can write one of the columns: alone if that is clear, else with its source."""
        if len(self.named(column.name)) == 1:
            return quote_name(column.name)
        aliases = {source.alias: source for source in self.all_sources}
        source = aliases.get(column.node.table) if isinstance(column.node, exp.Column) else None
        return source.written(column.name) if source is not None else None


@dataclass(frozen=True)
class Cte:
    """A query of a WITH clause. Without an alias it is the one that is just being defined."""

    name: str
    alias: str
    columns: tuple[SourceColumn, ...]
    is_complete: bool = True


@dataclass(frozen=True)
class Scope:
    namespace: Namespace = field(default_factory=Namespace)
    outer: Scope | None = None
    ctes: Mapping[str, Cte] = field(default_factory=dict)
    as_of: int | None = None
    """The SCN of a view that is read AS OF; None: now."""
    windows: Mapping[str, exp.Window] = field(default_factory=dict)

    def inside(self, namespace: Namespace) -> Scope:
        """The scope of a query whose FROM clause was bound in this one."""
        return Scope(namespace, self, self.ctes, self.as_of)

    def with_ctes(self, ctes: Mapping[str, Cte]) -> Scope:
        return Scope(self.namespace, self.outer, {**self.ctes, **ctes}, self.as_of, self.windows)

    def outward(self) -> Iterator[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer


def resolve(node: exp.Column, scope: Scope) -> exp.Expression:
    """The column that a name means, nearest query first."""
    if node.args.get("db") is not None and name_of(node.args["db"]) != "public":
        raise Unsupported(
            "a field of a column cannot be selected",
            detail="Columns hold plain values and arrays, not rows.",
            position=place_of(node),
        )
    found = _resolve_qualified(node, scope) if node.args.get("table") else _resolve_unqualified(node, scope)
    return keep_place(found, node)


def _resolve_unqualified(node: exp.Column, scope: Scope) -> exp.Expression:
    name = name_of(node.this)
    for level in scope.outward():
        found = level.namespace.named(name)
        if len(found) > 1:
            raise AmbiguousName(f'column reference "{name}" is ambiguous', position=place_of(node))
        if found:
            return found[0].node.copy()
    _refuse_whole_row(name, node, scope)
    raise UndefinedName(
        f'column "{name}" does not exist',
        sqlstate="42703",
        hint=_no_window(name) or _similar_columns(name, scope),
        position=place_of(node),
    )


def _no_window(name: str) -> str | None:
    if name not in ("window_start", "window_end"):
        return None
    return f"{name} is of a stream with a window behind it; where that is in a subquery, select it there."


def _resolve_qualified(node: exp.Column, scope: Scope) -> exp.Expression:
    source_name, name = name_of(node.args["table"]), name_of(node.this)
    source = find_source(source_name, scope, node)
    found = [column for column in source.columns if column.name == name]
    if len(found) > 1:
        raise AmbiguousName(f'column reference "{name}" is ambiguous', position=place_of(node))
    hidden = next((column.node for column in source.hidden if column.name == name), None)
    if not found and hidden is not None:
        return hidden.copy()
    if not found:
        raise UndefinedName(
            f"column {source_name}.{name} does not exist",
            sqlstate="42703",
            hint=_no_window(name) or did_you_mean(name, (column.name for column in source.columns)),
            position=place_of(node),
        )
    return source.column(found[0].kernel_name)


def find_source(name: str, scope: Scope, node: exp.Expression) -> Source:
    for level in scope.outward():
        if name in level.namespace.sources:
            return level.namespace.sources[name]
    sources = [source for level in scope.outward() for source in level.namespace.sources.values()]
    hidden = next((source for source in sources if source.relation_name == name), None)
    if hidden is not None:
        raise UndefinedName(
            f'invalid reference to FROM-clause entry for table "{name}"',
            hint=f'Perhaps you meant to reference the table alias "{hidden.name}".',
            position=place_of(node),
        )
    raise UndefinedName(
        f'missing FROM-clause entry for table "{name}"',
        hint=did_you_mean(name, (source.name for source in sources)),
        position=place_of(node),
    )


def _refuse_whole_row(name: str, node: exp.Column, scope: Scope) -> None:
    if any(name in level.namespace.sources for level in scope.outward()):
        raise Unsupported(
            f'"{name}" is a table here, and a whole row cannot be a value',
            hint=f"Name the columns, or write {name}.* in the select list.",
            position=place_of(node),
        )


def _similar_columns(name: str, scope: Scope) -> str | None:
    known = [column.name for level in scope.outward() for column in level.namespace.columns]
    return did_you_mean(name, known)


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint with the name that was probably meant."""
    spellings = {spelling.lower(): spelling for spelling in known if spelling != name}
    close = get_close_matches(name.lower(), spellings, n=1, cutoff=0.6)
    return f'Did you mean "{spellings[close[0]]}"?' if close else None
