"""Constraints, checked within the transaction, on both sides of a change.

Row by row (NOT NULL, CHECK) in `single_rows`; `keys`, `references` and `increasing` ask about the table
as the transaction sees it after the statement. What others committed meanwhile is asked again at COMMIT.
"""

from __future__ import annotations

from typing import cast

from midstream.errors import ForeignKeyViolation, UniqueViolation
from midstream.relations.catalog import CatalogState
from midstream.relations.table import ROW_ID, ForeignKey, Key, Table
from midstream.runtime.constraints.asking import ask, equal, key_text, q
from midstream.runtime.constraints.increasing import check_increasing, decode_maximum, raise_if_earlier
from midstream.runtime.constraints.keys import check_unique
from midstream.runtime.constraints.references import check_references, orphans_of, raise_still_referenced, references_to
from midstream.runtime.reading import Picture, Sources, add_table
from midstream.runtime.rows import RowSet
from midstream.runtime.store import Store
from midstream.runtime.transaction import StatementChange, Transaction


def check_changed(transaction: Transaction, change: StatementChange, before: Picture) -> None:
    """All that a statement's change must respect beyond single rows; deletes cascade from here."""
    fresh = change.fresh
    if fresh:
        for key in change.table.keys:
            if change.inserted or change.assigned & set(key.columns):
                check_unique(transaction.store, transaction, change.table, key, fresh)
        for reference in change.table.foreign_keys:
            if change.inserted or change.assigned & set(reference.columns):
                check_references(transaction.store, transaction, change.table, reference, fresh)
        for increasing in change.table.increasing:
            if change.inserted or change.assigned & {increasing.column, *increasing.partition_by}:
                check_increasing(transaction, change.table, increasing, fresh)
    if change.updated or change.deleted:
        _check_referred(transaction, change, before)


def _check_referred(transaction: Transaction, change: StatementChange, before: Picture) -> None:
    """Rows that others referred to went away: refused, or the others go too."""
    for referring, reference in references_to(transaction.state, change.table.name):
        if not change.deleted and not change.assigned & set(reference.referred):
            continue
        orphans = orphans_of(transaction, change, before, referring, reference)
        if orphans and reference.on_delete == "cascade" and change.deleted:
            _cascade(transaction, referring, orphans)
        elif orphans:
            raise_still_referenced(transaction.store, change, reference, referring, orphans)


def _cascade(transaction: Transaction, referring: Table, orphans: RowSet) -> None:
    before = transaction.glimpse()
    change = StatementChange.delete(referring, orphans)
    transaction.apply(change)
    check_changed(transaction, change, before)


def check_against_others(transaction: Transaction, latest: CatalogState) -> None:
    """What a transaction found allowed at its own picture, asked again at the newest one."""
    store, picture = transaction.store, transaction.glimpse(latest)
    for change in [change for change in transaction.changes.values() if change]:
        fresh = change.new.plus(change.updated)
        for key in change.table.keys:
            if fresh and _moved(transaction, latest, change.table):
                check_unique(store, picture, change.table, key, fresh)
        for reference in change.table.foreign_keys:
            if fresh and _moved(transaction, latest, cast(Table, latest.relations[reference.table])):
                check_references(store, picture, change.table, reference, fresh)
        if change.updated or change.deleted:
            _check_new_references(transaction, latest, change.table)
    for (table_id, name, part), (first, largest) in transaction.maxima.items():
        table = latest.table_by_id(table_id)
        constraint = next(c for c in table.increasing if c.name == name)
        stored = store.catalog.maximum(table_id, name, [part])
        raise_if_earlier(table, constraint, part, first, decode_maximum(stored.get(part), largest))


def _moved(transaction: Transaction, latest: CatalogState, table: Table) -> bool:
    return latest.versions.get(table.id) != transaction.base.versions.get(table.id)


def _check_new_references(transaction: Transaction, latest: CatalogState, table: Table) -> None:
    """Others may have come to refer to rows that this transaction takes away."""
    store, picture = transaction.store, transaction.glimpse(latest)
    for referring, reference in references_to(latest, table.name):
        if not _moved(transaction, latest, referring):
            continue
        sources = Sources("duckdb")
        add_table(store, picture, referring, reference.columns, "referring", sources)
        add_table(store, picture, table, reference.referred, "referred", sources)
        given = " AND ".join(f"c.{q(column)} IS NOT NULL" for column in reference.columns)
        matches = equal("r", reference.referred, "c", reference.columns)
        text = f"SELECT 1 AS found FROM referring c ANTI JOIN referred r ON {matches} WHERE {given} LIMIT 1"
        if ask(store, sources, text).num_rows:
            raise ForeignKeyViolation(
                f'update or delete on table "{table.name}" violates foreign key constraint "{reference.name}" '
                f'on table "{referring.name}"',
                detail="A concurrent transaction refers to a row that this one takes away.",
            )


def check_existing(store: Store, picture: Picture, table: Table, constraint: Key | ForeignKey) -> None:
    """A constraint that is added to a table with rows."""
    everything = Sources("duckdb")
    add_table(store, picture, table, (ROW_ID, *constraint.columns), "fresh", everything)
    if isinstance(constraint, Key):
        keys = ", ".join(q(column) for column in constraint.columns)
        given = " AND ".join(f"{q(column)} IS NOT NULL" for column in constraint.columns)
        text = f"SELECT {keys} FROM fresh WHERE {given} GROUP BY {keys} HAVING count(*) > 1 LIMIT 1"
        found = ask(store, everything, text)
        if found.num_rows:
            raise UniqueViolation(
                f'could not create unique constraint "{constraint.name}"',
                detail=f"Key {key_text(constraint.columns, found.to_pylist()[0])} is duplicated.",
            )
        return
    referred = cast(Table, picture.state.relations[constraint.table])
    add_table(store, picture, referred, constraint.referred, "referred", everything)
    given = " AND ".join(f"f.{q(column)} IS NOT NULL" for column in constraint.columns)
    matches = equal("r", constraint.referred, "f", constraint.columns)
    listed = ", ".join(f"f.{q(column)}" for column in constraint.columns)
    found = ask(
        store, everything, f"SELECT {listed} FROM fresh f ANTI JOIN referred r ON {matches} WHERE {given} LIMIT 1"
    )
    if found.num_rows:
        raise ForeignKeyViolation(
            f'insert or update on table "{table.name}" violates foreign key constraint "{constraint.name}"',
            detail=f"Key {key_text(constraint.columns, found.to_pylist()[0])} "
            f'is not present in table "{constraint.table}".',
        )
