"""NOT NULL and CHECK: what can be said of a row by looking at it alone.

The checks are SQL texts over "output" that find a row that may not be. They run in the task that writes
the rows, or in the driver for rows that are there.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from midstream.errors import CheckViolation, NotNullViolation
from midstream.kernels import Kernel, quote_name
from midstream.maintenance.engine import Answer, Piece, Rows
from midstream.plan import BindContext, bind_condition
from midstream.relations.schema import RowHolder
from midstream.runtime.constraints.asking import printed
from midstream.runtime.store import Store

OUTPUT = "output"


def row_checks(table: RowHolder, context: BindContext, kernel: Kernel = "duckdb") -> tuple[tuple[str, str], ...]:
    """Texts that select a row of "output" that NOT NULL or CHECK does not allow."""
    output = quote_name(OUTPUT, kernel)
    required = {column.name for column in table.columns if column.not_null}
    found = [
        (f"not null {name}", f"SELECT * FROM {output} WHERE {quote_name(name, kernel)} IS NULL LIMIT 1")
        for name in table.column_names
        if name in required
    ]
    for check in table.checks:
        condition = bind_condition(check.condition, table, context).sql(kernel)
        found.append((f"check {check.name}", f"SELECT * FROM {output} WHERE NOT ({condition}) LIMIT 1"))
    return tuple(found)


def row_faults(table: RowHolder, context: BindContext) -> list[str]:
    """Conditions that hold for rows that NOT NULL or CHECK does not allow, for the DuckDB kernel."""
    nulls = [f"{quote_name(column.name, 'duckdb')} IS NULL" for column in table.columns if column.not_null]
    checks = [bind_condition(check.condition, table, context).sql("duckdb") for check in table.checks]
    return [*nulls, *(f"NOT ({condition})" for condition in checks)]


def check_rows(
    store: Store, table: RowHolder, rows: pa.Table, context: BindContext, *, nulls_known: bool = False
) -> None:
    """The row checks over rows that the driver has; `nulls_known`: NOT NULL was seen to when they were read."""
    for name, text in row_checks(table, context):
        if nulls_known and name.startswith("not null "):
            continue
        found = store.engine.look_up(Piece(text, {OUTPUT: Rows(rows)})).table
        if found is not None:
            raise_if_found(table, name, found)


def raise_for(table: RowHolder, answers: Sequence[Answer]) -> None:
    """What the checks of a job found."""
    for answer in answers:
        for name, found in answer.checks.items():
            raise_if_found(table, name, found)


def raise_if_found(table: RowHolder, check: str, found: pa.Table) -> None:
    if not found.num_rows:
        return
    row = found.slice(0, 1).to_pylist()[0]
    failing = ", ".join(printed(row[name]) for name in table.column_names)
    kind, _, name = check.rpartition(" ") if check.startswith("not null ") else check.partition(" ")
    if kind == "check":
        raise CheckViolation(
            f'new row for relation "{table.name}" violates check constraint "{name}"',
            detail=f"Failing row contains ({failing}).",
        )
    column = check.removeprefix("not null ")
    raise NotNullViolation(
        f'null value in column "{column}" of relation "{table.name}" violates not-null constraint',
        detail=f"Failing row contains ({failing}).",
    )
