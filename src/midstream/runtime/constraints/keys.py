"""PRIMARY KEY and UNIQUE: no two rows have the same values, NULLs aside.

SELECT … FROM fresh f JOIN everything t ON t.k = f.k AND t._row_id <> f._row_id LIMIT 1
"""

from __future__ import annotations

from collections.abc import Callable

from midstream.errors import UniqueViolation
from midstream.relations.table import ROW_ID, Key, Table
from midstream.runtime.constraints.asking import ask, equal, fresh_rows, key_text, q
from midstream.runtime.reading import Picture, Sources, add_table
from midstream.runtime.rows import RowSet
from midstream.runtime.store import Store
from midstream.storage.delta import DataFile

FEW_KEYS = 1_000
"""Up to here, the files that may hold one of the keys are found by their ranges before anything is read."""


def check_unique(store: Store, picture: Picture, table: Table, key: Key, fresh: RowSet) -> None:
    keep = _may_hold(key, fresh)
    sources = Sources("duckdb")
    columns = (ROW_ID, *key.columns)
    add_table(store, picture, table, columns, "everything", sources, keep)
    if fresh.rows == 1 and sources.rows == 0 and _is_alone(picture, table, fresh):
        return
    fresh_rows(sources, fresh, columns)
    listed = ", ".join(f"f.{q(column)}" for column in key.columns)
    text = (
        f"SELECT {listed} FROM fresh f JOIN everything t ON {equal('t', key.columns, 'f', key.columns)} "
        f"WHERE t.{ROW_ID} <> f.{ROW_ID} LIMIT 1"
    )
    found = ask(store, sources, text)
    if found.num_rows:
        raise UniqueViolation(
            f'duplicate key value violates unique constraint "{key.name}"',
            detail=f"Key {key_text(key.columns, found.to_pylist()[0])} already exists.",
        )


def _may_hold(key: Key, fresh: RowSet) -> Callable[[DataFile], bool] | None:
    """Which files can hold one of few integer keys, by the ranges of their columns."""
    if fresh.table is None or fresh.files or fresh.rows > FEW_KEYS:
        return None
    column = key.columns[0]
    values = [value for value in fresh.table.column(column).to_pylist() if value is not None]
    if not all(type(value) is int for value in values):
        return None

    def keep(file: DataFile) -> bool:
        if column not in file.ranges:
            return True
        low, high = file.ranges[column]
        return any(low <= value <= high for value in values)

    return keep


def _is_alone(picture: Picture, table: Table, fresh: RowSet) -> bool:
    """Whether the transaction has brought nothing but this one row."""
    pending = picture.pending(table.id)
    return pending is None or (pending.new.rows == fresh.rows and not pending.updated)
