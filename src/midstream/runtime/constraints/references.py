"""REFERENCES, from both sides: a fresh row refers to one that is there, and one that goes is referred to by none."""

from __future__ import annotations

from midstream.errors import ForeignKeyViolation
from midstream.maintenance.engine import WriteParquet
from midstream.relations.catalog import CatalogState
from midstream.relations.table import ROW_ID, ForeignKey, Table
from midstream.runtime.constraints.asking import LOOK_UP_BYTES, ask, equal, fresh_rows, key_text, q
from midstream.runtime.reading import Picture, Sources, add_table
from midstream.runtime.rows import RowSet
from midstream.runtime.store import Store
from midstream.runtime.transaction import ID_COLUMNS, StatementChange, Transaction


def check_references(store: Store, picture: Picture, table: Table, reference: ForeignKey, fresh: RowSet) -> None:
    """Every fresh row refers to a row that is there; a NULL refers to nothing."""
    referred = picture.state.relations[reference.table]
    assert isinstance(referred, Table)
    sources = Sources("duckdb")
    fresh_rows(sources, fresh, reference.columns)
    add_table(store, picture, referred, reference.referred, "referred", sources)
    listed = ", ".join(f"f.{q(column)}" for column in reference.columns)
    given = " AND ".join(f"f.{q(column)} IS NOT NULL" for column in reference.columns)
    matches = equal("r", reference.referred, "f", reference.columns)
    text = f"SELECT {listed} FROM fresh f ANTI JOIN referred r ON {matches} WHERE {given} LIMIT 1"
    found = ask(store, sources, text)
    if found.num_rows:
        raise ForeignKeyViolation(
            f'insert or update on table "{table.name}" violates foreign key constraint "{reference.name}"',
            detail=f"Key {key_text(reference.columns, found.to_pylist()[0])} "
            f'is not present in table "{reference.table}".',
        )


def references_to(state: CatalogState, name: str) -> list[tuple[Table, ForeignKey]]:
    """The tables that refer to a table."""
    tables = [relation for relation in state.relations.values() if isinstance(relation, Table)]
    return [(table, key) for table in tables for key in table.foreign_keys if key.table == name]


def orphans_of(
    transaction: Transaction, change: StatementChange, before: Picture, referring: Table, reference: ForeignKey
) -> RowSet:
    """The ids of referring rows whose key is there no more."""
    store, sources = transaction.store, Sources("duckdb")
    add_table(store, before, change.table, (ROW_ID, *reference.referred), "before", sources)
    add_table(store, transaction, change.table, reference.referred, "after", sources)
    add_table(store, transaction, referring, (ROW_ID, *reference.columns), "referring", sources)
    touched = sources.add("updated", change.updated, [ROW_ID]) + sources.add("deleted", change.deleted, [ROW_ID])
    sources.view("touched", touched)
    keys = ", ".join(q(column) for column in reference.referred)
    gone = f"SELECT {keys} FROM before WHERE {ROW_ID} IN (SELECT {ROW_ID} FROM touched) EXCEPT SELECT {keys} FROM after"
    matches = equal("g", reference.referred, "c", reference.columns)
    text = f"SELECT c.{ROW_ID} FROM referring c SEMI JOIN ({gone}) g ON {matches}"
    if change.updated.is_small and change.deleted.is_small and sources.bytes <= LOOK_UP_BYTES:
        return RowSet.of(ID_COLUMNS, ask(store, sources, text))
    output = WriteParquet(str(transaction.staging()), ID_COLUMNS)
    [answer] = store.engine.run("duckdb", [sources.piece(text, output)], label="references")
    return RowSet(ID_COLUMNS, files=answer.files)


def raise_still_referenced(
    store: Store, change: StatementChange, reference: ForeignKey, referring: Table, orphans: RowSet
) -> None:
    verb = "update or delete"
    raise ForeignKeyViolation(
        f'{verb} on table "{change.table.name}" violates foreign key constraint "{reference.name}" '
        f'on table "{referring.name}"',
        detail=f'{orphans.rows} row{"s" if orphans.rows != 1 else ""} of table "{referring.name}" '
        f"still refer{'s' if orphans.rows == 1 else ''} to it by ({', '.join(reference.columns)}).",
        hint="Delete those rows first, or declare the reference ON DELETE CASCADE.",
    )
