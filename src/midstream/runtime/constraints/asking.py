"""Questions about a table as a transaction sees it, in the DuckDB kernel's dialect.

"fresh" is always the set of rows that a statement brings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from midstream.kernels import quote_name
from midstream.runtime.reading import Sources
from midstream.runtime.rows import RowSet
from midstream.runtime.store import Store

LOOK_UP_BYTES = 64 * 1024 * 1024
"""The driver reads up to so much of a table's columns itself; beyond, a job does."""


def ask(store: Store, sources: Sources, text: str, label: str = "constraints") -> pa.Table:
    """A question about the table: by the driver while little must be read, by a job beyond."""
    piece = sources.piece(text)
    if sources.bytes <= LOOK_UP_BYTES:
        table = store.engine.look_up(piece).table
    else:
        table = store.engine.run("duckdb", [piece], label=label)[0].table
    assert table is not None
    return table


def q(name: str) -> str:
    return quote_name(name, "duckdb")


def equal(left: str, left_columns: Sequence[str], right: str, right_columns: Sequence[str]) -> str:
    pairs = zip(left_columns, right_columns, strict=True)
    return " AND ".join(f"{left}.{q(a)} = {right}.{q(b)}" for a, b in pairs)


def key_text(columns: Sequence[str], row: Mapping[str, object]) -> str:
    return f"({', '.join(columns)})=({', '.join(printed(row[column]) for column in columns)})"


def fresh_rows(sources: Sources, rows: RowSet, columns: Sequence[str]) -> None:
    sources.view("fresh", sources.add("fresh", rows, columns))


def printed(value: object) -> str:
    return "null" if value is None else str(value)
