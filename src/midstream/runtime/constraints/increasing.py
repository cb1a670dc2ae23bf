"""INCREASING: values come in order, within a statement and after all that was ever there.

The largest value of each part is kept in the catalog, so that it holds even after a DELETE.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

from midstream.errors import ConstraintViolation
from midstream.relations.table import ROW_ID, IncreasingConstraint, Table
from midstream.runtime.constraints.asking import ask, fresh_rows, printed, q
from midstream.runtime.reading import Picture, Sources, add_table
from midstream.runtime.rows import RowSet
from midstream.runtime.store import Store
from midstream.runtime.transaction import Transaction


def check_increasing(transaction: Transaction, table: Table, constraint: IncreasingConstraint, fresh: RowSet) -> None:
    """Values come in order: within the statement, and after all that was ever there."""
    sources = Sources("duckdb")
    fresh_rows(sources, fresh, tuple(dict.fromkeys((ROW_ID, constraint.column, *constraint.partition_by))))
    for part, first, largest in _runs(transaction.store, table, constraint, sources):
        key = (table.id, constraint.name, part)
        stored = transaction.store.catalog.maximum(table.id, constraint.name, [part])
        earliest, known = transaction.maxima.get(key, (first, decode_maximum(stored.get(part), largest)))
        raise_if_earlier(table, constraint, part, first, known)
        transaction.maxima[key] = (earliest, largest)


def _runs(
    store: Store, table: Table, constraint: IncreasingConstraint, sources: Sources
) -> list[tuple[str, object, object]]:
    """Each part's first and largest value in "fresh", after a look at the order within."""
    value, parts = q(constraint.column), ", ".join(q(column) for column in constraint.partition_by)
    by = f"PARTITION BY {parts} " if parts else ""
    listed = f"{parts}, " if parts else ""
    inner = f"SELECT *, lag({value}) OVER ({by}ORDER BY {ROW_ID}) AS previous FROM fresh WHERE {value} IS NOT NULL"
    wrong = "<=" if constraint.strictly else "<"
    text = (
        f"SELECT {listed}first({value} ORDER BY {ROW_ID}) AS first, max({value}) AS largest, "
        f"first({value} ORDER BY {ROW_ID}) FILTER ({value} {wrong} previous) AS offender, "
        f"first(previous ORDER BY {ROW_ID}) FILTER ({value} {wrong} previous) AS before "
        f"FROM ({inner}) GROUP BY {parts or 'ALL'}"
    )
    found = []
    for row in ask(store, sources, text).to_pylist():
        if row["largest"] is None:
            continue
        part = json.dumps([printed(row[column]) for column in constraint.partition_by])
        if row["offender"] is not None:
            _raise_not_increasing(table, constraint, part, row["offender"], row["before"])
        found.append((part, row["first"], row["largest"]))
    return found


def raise_if_earlier(table: Table, constraint: IncreasingConstraint, part: str, value: object, known: object) -> None:
    if known is None:
        return
    wrong = value <= known if constraint.strictly else value < known  # type: ignore[operator]
    if wrong:
        _raise_not_increasing(table, constraint, part, value, known)


def _raise_not_increasing(
    table: Table, constraint: IncreasingConstraint, part: str, value: object, known: object
) -> None:
    kind = "strictly increasing" if constraint.strictly else "increasing"
    where = f" for ({', '.join(constraint.partition_by)})=({', '.join(json.loads(part))})" if part != "[]" else ""
    raise ConstraintViolation(
        f'value of column "{constraint.column}" of relation "{table.name}" violates {kind} constraint '
        f'"{constraint.name}"',
        detail=f"{value} comes after {known}{where}.",
        sqlstate="23514",
    )


def encode_maximum(value: object) -> str:
    return json.dumps(value if isinstance(value, int | float) else str(value))


def decode_maximum(value: object, like: object) -> object:
    """A kept value in the type of the values that it is compared with."""
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(like, Decimal):
        return Decimal(str(value))
    if isinstance(like, datetime):
        return datetime.fromisoformat(str(value))
    if isinstance(like, date):
        return date.fromisoformat(str(value))
    return value


def existing_maxima(
    store: Store, picture: Picture, table: Table, constraint: IncreasingConstraint
) -> list[tuple[str, object]]:
    """Each part's largest value among the rows that are there, if they came in order."""
    columns = tuple(dict.fromkeys((ROW_ID, constraint.column, *constraint.partition_by)))
    sources = Sources("duckdb")
    add_table(store, picture, table, columns, "fresh", sources)
    return [(part, largest) for part, _, largest in _runs(store, table, constraint, sources)]
