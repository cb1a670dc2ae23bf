"""ALTER TABLE: from one definition of a table to the next, with its rows.

Most alterations change the definition alone. Delta keeps no old names for columns, so a rename, a drop
or a new column with a default writes the table's files anew, as a job; AS OF still reads the old ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from midstream.errors import (
    DependentObjects,
    DuplicateName,
    InvalidDefinition,
    NotNullViolation,
    UndefinedName,
    WrongObject,
)
from midstream.ingest.arrow_types import arrow_type
from midstream.kernels import quote_name
from midstream.maintenance.engine import Cancellation, Files, Piece, WriteParquet
from midstream.plan import BindContext, bind_default
from midstream.relations.catalog import CatalogState, Publication
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.schema import Relation
from midstream.relations.table import (
    ROW_ID,
    CheckConstraint,
    Column,
    ForeignKey,
    IncreasingConstraint,
    Key,
    Table,
    TableConstraint,
)
from midstream.runtime.commit import adopt
from midstream.runtime.constraints import check_existing
from midstream.runtime.constraints.asking import ask
from midstream.runtime.constraints.increasing import encode_maximum, existing_maxima
from midstream.runtime.constraints.single_rows import raise_if_found, row_checks
from midstream.runtime.continuous.delivering import destination_names
from midstream.runtime.definitions import (
    broken_readers,
    check_column_name,
    check_name,
    check_new_column,
    define_column,
    described,
    raise_dependent,
    readers_of,
    replace_relation,
    with_constraint,
    writers_of,
)
from midstream.runtime.reading import Sources, add_table, table_files
from midstream.runtime.rows import physical_schema, stored_columns
from midstream.runtime.store import Store
from midstream.runtime.transaction import Glimpse
from midstream.sql import parse_expression
from midstream.sql.mentions import columns_named, place_of_name, with_columns_renamed
from midstream.sql.statements import (
    AddColumn,
    AddConstraint,
    Alteration,
    AlterTable,
    DropColumn,
    DropConstraint,
    RenameColumn,
    RenameTable,
    SetDefault,
    SetNotNull,
)


@dataclass(frozen=True)
class Altered:
    """A table's next definition, others that change with it, and where each column's rows come from.

    `sources` is None while the files stay as they are; else it has an SQL text for every column."""

    table: Table
    others: tuple[Table, ...] = ()
    dropped: tuple[Relation, ...] = ()
    sources: tuple[str, ...] | None = None
    added: Column | None = None


def alter_table(
    store: Store, statement: AlterTable, context: BindContext, cancellation: Cancellation | None = None
) -> int:
    """Each alteration of the statement in turn; each takes an SCN of its own."""
    with store.commit_lock:
        scn = store.catalog.state.scn
        name = statement.name
        for alteration in statement.alterations:
            table = _find(store.catalog.state, name, statement)
            if table is None:
                return scn
            scn = _Alterer(store, store.catalog.state, context, cancellation).run(table, alteration)
            name = alteration.to if isinstance(alteration, RenameTable) else name
        return scn


def _find(state: CatalogState, name: str, statement: AlterTable) -> Table | None:
    relation, place = state.relations.get(name), place_of_name(statement, name)
    if relation is None and statement.if_exists:
        return None
    if relation is None:
        raise UndefinedName(f'relation "{name}" does not exist', position=place)
    if isinstance(relation, MaterializedView):
        raise WrongObject(
            f'"{name}" is a materialized view, and ALTER TABLE is for tables',
            detail="Its columns and its key are those of its query.",
            hint=f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS … gives it another query.",
            position=place,
        )
    if not isinstance(relation, Table):
        raise WrongObject(f'"{name}" is not a table', position=place)
    return relation


@dataclass(frozen=True)
class _Alterer:
    store: Store
    state: CatalogState
    context: BindContext
    cancellation: Cancellation | None

    def run(self, table: Table, alteration: Alteration) -> int:
        altered = self._alter(table, alteration)
        if altered is None:
            return self.state.scn
        self._check_destination(table, altered.table)
        versions: dict[int, int] = {}
        dead: list[tuple[int, str]] = []
        if altered.added is not None:
            column = altered.added
            commit = self.store.folder(table.id).add_column(column.name, arrow_type(column.type))
            versions[table.id] = commit.version
        elif altered.sources is not None:
            versions[table.id], dead = self._rewrite(table, altered.table, altered.sources)
        maxima = {} if not isinstance(alteration, AddConstraint) else self._maxima(altered.table)
        with self.store.streams.journal.turn() as turn:
            publication = Publication(
                turn.scn,
                time.time(),
                relations=[altered.table, *altered.others],
                dropped=list(altered.dropped),
                versions=versions,
                dead_files=dead,
                maxima=maxima,
            )
            self.store.catalog.publish(publication)
            turn.commit()
        return turn.scn

    def _alter(self, table: Table, alteration: Alteration) -> Altered | None:
        match alteration:
            case AddColumn():
                return self._add_column(table, alteration)
            case DropColumn():
                return self._drop_column(table, alteration)
            case RenameColumn():
                return self._rename_column(table, alteration)
            case RenameTable():
                return self._rename_table(table, alteration)
            case AddConstraint(constraint=constraint):
                altered = with_constraint(table, constraint, self.state, self.context)
                self._check_rows(table, altered)
                return Altered(altered)
            case DropConstraint():
                return self._drop_constraint(table, alteration)
            case SetDefault(column=name, default=default):
                column = replace(_column(table, name), default=default.text if default is not None else None)
                if column.default is not None:
                    bind_default(column, self.context)
                return Altered(_with_column(table, column))
            case SetNotNull(column=name, not_null=not_null):
                return self._set_not_null(table, _column(table, name), not_null)

    # --- columns ---------------------------------------------------------------------------------

    def _add_column(self, table: Table, alteration: AddColumn) -> Altered | None:
        definition = alteration.column
        if table.column(definition.name) is not None:
            if alteration.if_not_exists:
                return None
            raise DuplicateName(
                f'column "{definition.name}" of relation "{table.name}" already exists', sqlstate="42701"
            )
        check_new_column(definition.name, table.column_names)
        past = self.store.catalog.past_tables(table.id)
        newest = max(column.id for _, _, known in past for column in known.columns)
        column = define_column(definition, newest + 1)
        altered = replace(table, columns=(*table.columns, column))
        for constraint in alteration.constraints:
            altered = with_constraint(altered, constraint, self.state, self.context)
        column = _column(altered, column.name)
        if column.default is None:
            if self._has_rows(table) and column.not_null:
                raise NotNullViolation(f'column "{column.name}" of relation "{table.name}" contains null values')
            return Altered(altered, added=column)
        default = bind_default(column, self.context).sql("duckdb")
        sources = tuple([quote_name(name, "duckdb") for name in table.column_names] + [default])
        self._check_new_column(table, altered, column, default)
        return Altered(altered, sources=sources)

    def _check_new_column(self, table: Table, altered: Table, column: Column, default: str) -> None:
        """The new column's constraints over the rows that are there, with its default beside them."""
        sources = Sources("duckdb")
        add_table(self.store, Glimpse(self.state), table, (ROW_ID, *table.column_names), "rows", sources)
        sources.views.append(("output", f'SELECT *, {default} AS {quote_name(column.name, "duckdb")} FROM "rows"'))
        for name, text in row_checks(altered, self.context):
            raise_if_found(altered, name, ask(self.store, sources, text))
        if any(column.name in key.columns for key in altered.keys) and self._row_count(table) > 1:
            raise InvalidDefinition(
                f'column "{column.name}" would have the same value in all rows, and its key forbids that',
                hint="Add the column first, fill it, and then add the key.",
                sqlstate="23505",
            )

    def _drop_column(self, table: Table, alteration: DropColumn) -> Altered | None:
        if table.column(alteration.name) is None and alteration.if_exists:
            return None
        column = _column(table, alteration.name)
        if len(table.columns) == 1:
            raise InvalidDefinition(f'"{column.name}" is the only column of table "{table.name}"')
        kept = tuple(c for c in table.constraints if not _mentions(c, column.name))
        altered = replace(table, columns=tuple(c for c in table.columns if c is not column), constraints=kept)
        others = self._without_references(table, column.name, alteration.cascade)
        dropped = self._broken(table, altered, alteration.cascade)
        return Altered(altered, others, dropped, tuple(quote_name(name, "duckdb") for name in altered.column_names))

    def _rename_column(self, table: Table, alteration: RenameColumn) -> Altered:
        column = _column(table, alteration.name)
        if table.column(alteration.to) is not None:
            raise DuplicateName(f'column "{alteration.to}" of relation "{table.name}" already exists', sqlstate="42701")
        check_column_name(alteration.to)
        check_new_column(alteration.to, [name for name in table.column_names if name != column.name])
        renamed = {alteration.name: alteration.to}
        altered = _with_column(table, replace(column, name=alteration.to), column.name)
        constraints = tuple(_renamed_in(c, renamed, table.name) for c in altered.constraints)
        altered = replace(altered, constraints=constraints)
        self._broken(table, altered, cascade=False)
        others = tuple(
            replace(other, constraints=tuple(_referring_to(c, table.name, renamed) for c in other.constraints))
            for other in self._referring(table)
        )
        return Altered(altered, others, sources=tuple(quote_name(name, "duckdb") for name in table.column_names))

    def _set_not_null(self, table: Table, column: Column, not_null: bool) -> Altered:
        if not not_null and table.primary_key and column.name in table.primary_key.columns:
            raise InvalidDefinition(f'column "{column.name}" is in a primary key')
        altered = _with_column(table, replace(column, not_null=not_null))
        self._check_rows(table, altered)
        return Altered(altered)

    # --- names and constraints -------------------------------------------------------------------

    def _rename_table(self, table: Table, alteration: RenameTable) -> Altered:
        check_name(alteration.to)
        if alteration.to in self.state.relations:
            raise DuplicateName(f'relation "{alteration.to}" already exists')
        dependents = [*readers_of(self.state, table.name), *writers_of(self.state, table.name)]
        if dependents:
            raise_dependent(table.name, [described(other) for other in dependents])
        renamed = replace(table, name=alteration.to)
        renamed = replace(
            renamed, constraints=tuple(_pointing_at(c, table.name, renamed.name) for c in renamed.constraints)
        )
        others = tuple(
            replace(other, constraints=tuple(_pointing_at(c, table.name, renamed.name) for c in other.constraints))
            for other in self._referring(table)
        )
        return Altered(renamed, others)

    def _drop_constraint(self, table: Table, alteration: DropConstraint) -> Altered | None:
        found = next((c for c in table.constraints if c.name == alteration.name), None)
        if found is None:
            if alteration.if_exists:
                return None
            raise UndefinedName(
                f'constraint "{alteration.name}" of relation "{table.name}" does not exist', sqlstate="42704"
            )
        others: tuple[Table, ...] = ()
        if isinstance(found, Key):
            others = self._without_key(table, found, alteration.cascade)
        return Altered(replace(table, constraints=tuple(c for c in table.constraints if c is not found)), others)

    def _without_key(self, table: Table, key: Key, cascade: bool) -> tuple[Table, ...]:
        return self._without_matching(
            table, cascade, lambda c: c.table == table.name and set(c.referred) == set(key.columns)
        )

    def _without_references(self, table: Table, column: str, cascade: bool) -> tuple[Table, ...]:
        return self._without_matching(table, cascade, lambda c: c.table == table.name and column in c.referred)

    def _without_matching(
        self, table: Table, cascade: bool, is_gone: Callable[[ForeignKey], bool]
    ) -> tuple[Table, ...]:
        found = [other for other in self._referring(table) if any(is_gone(key) for key in other.foreign_keys)]
        if found and not cascade:
            raise_dependent(table.name, [f'table "{other.name}" (foreign key)' for other in found])
        return tuple(
            replace(other, constraints=tuple(c for c in other.constraints if not _is(c, is_gone))) for other in found
        )

    def _referring(self, table: Table) -> list[Table]:
        others = [r for r in self.state.relations.values() if isinstance(r, Table) and r.id != table.id]
        return [other for other in others if any(key.table == table.name for key in other.foreign_keys)]

    def _broken(self, table: Table, altered: Table, cascade: bool) -> tuple[Relation, ...]:
        after = replace_relation(self.state, table, altered)
        broken = broken_readers(self.store, table.name, after, self.context)
        if broken and not cascade:
            raise DependentObjects(
                f'cannot change table "{table.name}" because others depend on it',
                detail="They are " + ", ".join(map(described, broken)) + ".",
                hint="Drop them first and create them again afterwards.",
            )
        return tuple(broken)

    def _check_destination(self, table: Table, altered: Table) -> None:
        """What a continuous query writes goes to the same columns as before."""
        for query in writers_of(self.state, table.name):
            if _targets(query, altered) != _targets(query, table):
                raise DependentObjects(
                    f'cannot change table "{table.name}" because others depend on it',
                    detail=f'Continuous query "{query.name}" would write to other columns of it.',
                    hint=f"ALTER CONTINUOUS QUERY {query.name} DESTINATION … gives it another one.",
                )

    # --- rows ------------------------------------------------------------------------------------

    def _row_count(self, table: Table) -> int:
        files = self.store.folder(table.id).files(self.state.versions[table.id])
        return sum(file.rows for file in files)

    def _has_rows(self, table: Table) -> bool:
        return self._row_count(table) > 0

    def _check_rows(self, table: Table, altered: Table) -> None:
        """What is new in the definition must hold for the rows that are there."""
        picture = Glimpse(self.state)
        known = dict(row_checks(table, self.context))
        for name, text in row_checks(altered, self.context):
            if name in known:
                continue
            sources = Sources("duckdb")
            add_table(self.store, picture, table, (ROW_ID, *table.column_names), "output", sources)
            raise_if_found(altered, name, ask(self.store, sources, text))
        for constraint in altered.constraints:
            if constraint not in table.constraints and isinstance(constraint, Key | ForeignKey):
                check_existing(self.store, picture, table, constraint)

    def _maxima(self, table: Table) -> dict[tuple[int, str, str], str]:
        """Where an INCREASING column stands, for a constraint that is added now."""
        found = {}
        for constraint in table.increasing:
            for part, largest in existing_maxima(self.store, Glimpse(self.state), table, constraint):
                found[table.id, constraint.name, part] = encode_maximum(largest)
        return found

    def _rewrite(self, table: Table, altered: Table, sources: Sequence[str]) -> tuple[int, list[tuple[int, str]]]:
        """All files anew, a task for each share of them."""
        folder = self.store.folder(table.id)
        columns = stored_columns(altered)
        listed = ", ".join(
            f"{text} AS {quote_name(name, 'duckdb')}"
            for text, (name, _) in zip([ROW_ID, *sources], columns, strict=True)
        )
        everything = table_files(self.store, self.state, table, [name for name, _ in stored_columns(table)])
        output = WriteParquet(str(folder.path), columns)
        pieces = [
            Piece(f'SELECT {listed} FROM "rows"', {"rows": share}, output=output)
            for share in _shares(everything, self.store.engine.cores)
        ]
        answers = self.store.engine.run("duckdb", pieces, label="alter table", cancellation=self.cancellation)
        files = [(adopt(folder.path, file), file.stats) for answer in answers for file in answer.files]
        commit = folder.replace(physical_schema(columns), files)
        return commit.version, [(table.id, path) for path in commit.removed]


def _shares(files: Files, count: int) -> list[Files]:
    return [replace(files, paths=files.paths[i::count]) for i in range(min(count, len(files.paths)))]


def _column(table: Table, name: str) -> Column:
    column = table.column(name)
    if column is None:
        raise UndefinedName(f'column "{name}" of relation "{table.name}" does not exist', sqlstate="42703")
    return column


def _with_column(table: Table, column: Column, old_name: str | None = None) -> Table:
    name = old_name or column.name
    return replace(table, columns=tuple(column if c.name == name else c for c in table.columns))


def _targets(query: ContinuousQuery, table: Table) -> list[int]:
    """The columns of a destination that a query writes to, by their ids."""
    return [_column(table, name).id for name in destination_names(query, table)]


def _mentions(constraint: TableConstraint, column: str) -> bool:
    match constraint:
        case Key(columns=columns) | ForeignKey(columns=columns):
            return column in columns
        case IncreasingConstraint(column=name, partition_by=parts):
            return column in (name, *parts)
        case CheckConstraint(condition=condition):
            return column in columns_named(parse_expression(condition))


def _renamed_in(constraint: TableConstraint, names: dict[str, str], table: str) -> TableConstraint:
    match constraint:
        case Key(columns=columns):
            return replace(constraint, columns=tuple(names.get(c, c) for c in columns))
        case ForeignKey(columns=columns):
            own = replace(constraint, columns=tuple(names.get(c, c) for c in columns))
            return _referring_to(own, table, names)
        case IncreasingConstraint(column=column, partition_by=parts):
            return replace(
                constraint, column=names.get(column, column), partition_by=tuple(names.get(p, p) for p in parts)
            )
        case CheckConstraint(condition=condition):
            return replace(constraint, condition=with_columns_renamed(parse_expression(condition), names))


def _referring_to(constraint: TableConstraint, table: str, names: dict[str, str]) -> TableConstraint:
    if isinstance(constraint, ForeignKey) and constraint.table == table:
        return replace(constraint, referred=tuple(names.get(c, c) for c in constraint.referred))
    return constraint


def _pointing_at(constraint: TableConstraint, old: str, new: str) -> TableConstraint:
    if isinstance(constraint, ForeignKey) and constraint.table == old:
        return replace(constraint, table=new)
    return constraint


def _is(constraint: TableConstraint, claim: Callable[[ForeignKey], bool]) -> bool:
    return isinstance(constraint, ForeignKey) and claim(constraint)
