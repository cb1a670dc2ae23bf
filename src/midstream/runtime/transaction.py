"""A transaction: one picture of the database, and what it has changed in it so far.

Snapshot isolation: every statement sees the same SCN plus the transaction's own changes. A row is known
by its id, so the changes of a table are three disjoint sets: `new` rows, `updated` images and `deleted`
ids of rows that were there before. Ids below `first_new_id` were there; the others are the transaction's.

    INSERT row 7; UPDATE row 7; UPDATE row 2; DELETE row 3
    -> new = {7: last image}, updated = {2: image}, deleted = {3}

Definitions are changes too: `state` is the picture with the transaction's own CREATE and DROP in it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from midstream.errors import DependentObjects
from midstream.maintenance.engine import Piece, WriteParquet
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.schema import Relation, has_folder
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID, ROW_ID_TYPE, Table
from midstream.runtime.rows import RowSet, as_stored, stored_columns
from midstream.runtime.store import Store
from midstream.runtime.streams import Item, StreamRows
from midstream.types import Type

ID_COLUMNS: tuple[tuple[str, Type], ...] = ((ROW_ID, ROW_ID_TYPE),)


@dataclass(frozen=True)
class TableChanges:
    """The net change of one table."""

    table: Table
    first_new_id: int
    new: RowSet
    updated: RowSet
    deleted: RowSet

    @classmethod
    def none(cls, table: Table, first_new_id: int) -> TableChanges:
        columns = stored_columns(table)
        return cls(table, first_new_id, RowSet(columns), RowSet(columns), RowSet(ID_COLUMNS))

    def __bool__(self) -> bool:
        return bool(self.new or self.updated or self.deleted)


@dataclass(frozen=True)
class StatementChange:
    """What one statement does to one table: rows with fresh ids, new images by id, ids that go."""

    table: Table
    inserted: RowSet
    updated: RowSet
    deleted: RowSet
    assigned: frozenset[str] = frozenset()
    """The columns that the updated images may have changed."""

    @classmethod
    def insert(cls, table: Table, rows: RowSet) -> StatementChange:
        return cls(table, rows, RowSet(rows.columns), RowSet(ID_COLUMNS))

    @classmethod
    def update(cls, table: Table, rows: RowSet, assigned: frozenset[str]) -> StatementChange:
        return cls(table, RowSet(rows.columns), rows, RowSet(ID_COLUMNS), assigned)

    @classmethod
    def delete(cls, table: Table, ids: RowSet) -> StatementChange:
        columns = stored_columns(table)
        return cls(table, RowSet(columns), RowSet(columns), ids)

    @property
    def fresh(self) -> RowSet:
        """The images that constraints must allow."""
        return self.inserted.plus(self.updated)

    @property
    def rows(self) -> int:
        return self.inserted.rows + self.updated.rows + self.deleted.rows


@dataclass(frozen=True)
class ReaderMove:
    """How far a transaction brings a reader of a query's changes, and where it stood; None: nowhere."""

    query_id: int
    reader: str
    before: tuple[int, int] | None
    after: tuple[int, int] | None


@dataclass(frozen=True)
class Glimpse:
    """A picture frozen at one moment of a transaction."""

    state: CatalogState
    changes: Mapping[int, TableChanges] = field(default_factory=dict)

    def pending(self, table_id: int) -> TableChanges | None:
        return self.changes.get(table_id) or None


def discard(rows: RowSet) -> None:
    """Removes the files of rows that will not be."""
    for file in rows.files:
        Path(file.path).unlink(missing_ok=True)


class Transaction:
    """Belongs to one session, whose statements come one after another."""

    def __init__(self, store: Store, state: CatalogState | None = None) -> None:
        self.store = store
        self.base = state or store.catalog.state
        """What was there when it began."""
        self.state = self.base
        self.defined: dict[int, Relation] = {}
        self.dropped: dict[int, Relation] = {}
        self.changes: dict[int, TableChanges] = {}
        self.maxima: dict[tuple[int, str, str], tuple[object, object]] = {}
        """For INCREASING: (table, constraint, part) -> the first and the largest value that it brought."""
        self.streamed: dict[int, StreamRows] = {}
        """What goes into streams when it commits, by stream."""
        self.kept: dict[str, str] = {}
        """Texts that the catalog keeps under names from this commit on."""
        self.moves: dict[tuple[int, str], ReaderMove] = {}
        """Readers of continuous queries that it brings further, by query and reader."""
        self.is_committed = False
        self._staging: Path | None = None
        store.pin(self.base)

    def pending(self, table_id: int) -> TableChanges | None:
        return self.changes.get(table_id) or None

    def define(self, relations: Iterable[Relation] = (), dropped: Iterable[Relation] = ()) -> None:
        """Relations come, are replaced, or go: for this transaction now, for all when it commits."""
        for relation in dropped:
            self.dropped[relation.id] = relation
            self.defined.pop(relation.id, None)
        for relation in relations:
            if has_folder(relation) and relation.id not in self.defined and relation.id not in self.base.versions:
                self.store.create_folder(cast(Table, relation))
            self.defined[relation.id] = relation
        self.state = self.rebased(self.base)

    def see(self, base: CatalogState) -> None:
        """Goes on from a picture that is not older."""
        self.store.pin(base)
        self.store.unpin(self.base)
        self.base = base
        self.state = self.rebased(base)

    def rebased(self, state: CatalogState) -> CatalogState:
        """Another picture with this transaction's definitions in it."""
        if not self.defined and not self.dropped:
            return state
        touched = self.defined.keys() | self.dropped.keys()
        relations = {name: relation for name, relation in state.relations.items() if relation.id not in touched}
        relations |= {relation.name: relation for relation in self.defined.values()}
        new = {id: 0 for id, relation in self.defined.items() if has_folder(relation)}
        return replace(state, relations=relations, versions={**new, **state.versions})

    def new_tables(self) -> list[int]:
        return [id for id, relation in self.defined.items() if has_folder(relation) and id not in self.base.versions]

    def stream(self, stream: Stream, items: Iterable[Item]) -> None:
        """Rows for a stream, which get there when the transaction commits."""
        before = self.streamed.get(stream.id) or StreamRows(stream)
        self.streamed[stream.id] = replace(before, items=(*before.items, *items))

    def move(self, move: ReaderMove) -> None:
        """A reader goes on from where the transaction found it when it first looked."""
        key = (move.query_id, move.reader)
        known = self.moves.get(key)
        self.moves[key] = move if known is None else replace(move, before=known.before)

    def glimpse(self, state: CatalogState | None = None) -> Glimpse:
        return Glimpse(state or self.state, dict(self.changes))

    def reserve_row_ids(self, table: Table, count: int) -> int:
        self._touch(table)
        return self.store.reserve_row_ids(table.id, count)

    def staging(self) -> Path:
        if self._staging is None:
            self._staging = self.store.new_staging()
        return self._staging

    def apply(self, change: StatementChange) -> None:
        """Folds a statement's change into the net change of its table."""
        if change.updated or change.deleted:
            self._check_append_only(change.table)
        before = self._touch(change.table)
        touched = change.updated.rows + change.deleted.rows
        if not touched:
            self.changes[change.table.id] = replace(before, new=before.new.plus(change.inserted))
            return
        if before:
            before, change = self._split(before, change)
        self.changes[change.table.id] = replace(
            before,
            new=before.new.plus(change.inserted),
            updated=before.updated.plus(change.updated),
            deleted=before.deleted.plus(change.deleted),
        )

    def _check_append_only(self, table: Table) -> None:
        """Window functions of a continuous query may go by what increases in a table, to which rows then only come."""
        if not table.increasing:
            return
        for relation in self.state.relations.values():
            if isinstance(relation, ContinuousQuery | MaterializedView) and table.name in relation.append_only:
                raise DependentObjects(
                    f'rows of table "{table.name}" cannot be updated or deleted',
                    detail=f'"{relation.name}" has window functions over it, in the order of a column that increases.',
                    hint=f'Drop "{relation.name}" first, or insert rows only.',
                )

    def end(self) -> None:
        """Lets go of the picture, and of what was staged or made for a transaction that did not commit."""
        self.store.unpin(self.base)
        if not self.is_committed:
            self._undo()
        if self._staging is not None:
            shutil.rmtree(self._staging, ignore_errors=True)

    def _undo(self) -> None:
        for change in self.changes.values():
            discard(change.new)
        for rows in self.streamed.values():
            self.store.streams.discard(rows)
        for table_id in self.new_tables():
            self.store.forget_folder(table_id)

    def _touch(self, table: Table) -> TableChanges:
        if table.id not in self.changes:
            self.changes[table.id] = TableChanges.none(table, self.store.next_row_id(table.id))
        return self.changes[table.id]

    def _split(self, before: TableChanges, change: StatementChange) -> tuple[TableChanges, StatementChange]:
        """Takes earlier images of the touched rows away, and sends images of the transaction's own rows to `new`."""
        first = before.first_new_id
        before = replace(
            before, new=self._untouched(before.new, change), updated=self._untouched(before.updated, change)
        )
        own = self._where(change.updated, f"{ROW_ID} >= {first}")
        return before, replace(
            change,
            inserted=change.inserted.plus(own),
            updated=self._where(change.updated, f"{ROW_ID} < {first}"),
            deleted=self._where(change.deleted, f"{ROW_ID} < {first}"),
        )

    def _untouched(self, rows: RowSet, change: StatementChange) -> RowSet:
        if not rows:
            return rows
        inputs = rows.inputs("kept") | change.updated.inputs("updated") | change.deleted.inputs("deleted")
        ids = " UNION ALL ".join(f'SELECT {ROW_ID} FROM "{name}"' for name in inputs if not name.startswith("kept"))
        text = " UNION ALL ".join(
            f'SELECT * FROM "{name}" WHERE {ROW_ID} NOT IN ({ids})' for name in inputs if name.startswith("kept")
        )
        return self._compute(rows, Piece(text, inputs))

    def _where(self, rows: RowSet, condition: str) -> RowSet:
        if not rows:
            return rows
        inputs = rows.inputs("rows")
        text = " UNION ALL ".join(f'SELECT * FROM "{name}" WHERE {condition}' for name in inputs)
        return self._compute(rows, Piece(text, inputs))

    def _compute(self, rows: RowSet, piece: Piece) -> RowSet:
        """Few rows are worked on in the driver, many by a job that leaves files."""
        if rows.is_small:
            table = self.store.engine.look_up(piece).table
            assert table is not None
            return RowSet.of(rows.columns, as_stored(table, rows.columns))
        output = WriteParquet(str(self.staging()), rows.columns)
        [answer] = self.store.engine.run("duckdb", [replace(piece, output=output)], label="transaction")
        return RowSet(rows.columns, files=answer.files)
