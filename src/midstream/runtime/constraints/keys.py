"""PRIMARY KEY and UNIQUE: no two rows have the same values, NULLs aside.

SELECT … FROM fresh f JOIN everything t ON t.k = f.k AND t._row_id <> f._row_id LIMIT 1
"""

from __future__ import annotations

from midstream.errors import UniqueViolation
from midstream.relations.table import ROW_ID, Key, Table
from midstream.runtime.constraints.asking import ask, equal, fresh_rows, key_text, q
from midstream.runtime.reading import Picture, Sources, add_table
from midstream.runtime.rows import RowSet
from midstream.runtime.store import Store


def check_unique(store: Store, picture: Picture, table: Table, key: Key, fresh: RowSet) -> None:
    sources = Sources("duckdb")
    columns = (ROW_ID, *key.columns)
    fresh_rows(sources, fresh, columns)
    add_table(store, picture, table, columns, "everything", sources)
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
