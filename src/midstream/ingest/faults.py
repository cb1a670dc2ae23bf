"""What is wrong with rows from outside: which row, which column, and what would fit.

Of several bad values the one in the first row is named, and in that row the one in the first column.

    ERROR:  null value in column "name" of relation "users" violates not-null constraint
    DETAIL: Row 3 is (4, null, north).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from midstream.errors import DuplicateName, Error, NotNullViolation, UndefinedName
from midstream.ingest.printed import show_row
from midstream.relations.table import Column


class BadRow(Exception):
    """The value in `row` (from 0) does not fit, for the reason `error`."""

    def __init__(self, row: int, error: Error) -> None:
        super().__init__(row, error)
        self.row, self.error = row, error


def convert_columns(
    columns: Sequence[Column],
    convert: Callable[[int, Column], pa.Array],
    *,
    relation: str,
    row_at: Callable[[int], Sequence[object]],
    first_row: int = 1,
) -> list[pa.Array]:
    """Converts each column and checks NOT NULL; of all that is wrong, raises what is wrong in the first row."""
    arrays: list[pa.Array] = []
    worst: BadRow | None = None
    for number, column in enumerate(columns):
        try:
            arrays.append(_without_nulls(convert(number, column), column, relation))
        except BadRow as bad:
            worst = bad if worst is None or bad.row < worst.row else worst
    if worst is not None:
        raise at_row(worst.error, first_row + worst.row, row_at(worst.row))
    return arrays


def _without_nulls(array: pa.Array, column: Column, relation: str) -> pa.Array:
    if column.not_null and array.null_count:
        raise BadRow(pc.index(array.is_null(), True).as_py(), null_in(column.name, relation))
    return array


def null_in(column: str, relation: str) -> NotNullViolation:
    return NotNullViolation(f'null value in column "{column}" of relation "{relation}" violates not-null constraint')


def at_row(error: Error, number: int, values: Sequence[object]) -> Error:
    """The error with the row behind what it says already."""
    return with_detail(error, f"Row {number} is {show_row(values)}.")


def with_detail(error: Error, detail: str) -> Error:
    error.detail = f"{error.detail} {detail}" if error.detail else detail
    return error


# --- names -----------------------------------------------------------------------------------------


def match_names(given: Sequence[str], columns: Sequence[Column], relation: str) -> dict[str, int]:
    """Where each column of the table stands among the given names; a name that nobody has is an error.

    A name that differs only in upper and lower case is taken, as SQL takes names that are not quoted."""
    there = {column.name for column in columns}
    found: dict[str, int] = {}
    for position, name in enumerate(given):
        known = name if name in there else name.lower()
        if known not in there:
            raise unknown_column(name, there, [column.name for column in columns], relation)
        if known in found:
            raise DuplicateName(f'column "{known}" specified more than once', sqlstate="42701")
        found[known] = position
    return found


def unknown_column(name: str, there: Iterable[str], in_order: Sequence[str], relation: str) -> UndefinedName:
    close = get_close_matches(name.lower(), list(there), n=1)
    return UndefinedName(
        f'column "{name}" of relation "{relation}" does not exist',
        detail=f'The columns of "{relation}" are {", ".join(in_order)}.',
        hint=f'Did you mean "{close[0]}"?' if close else None,
        sqlstate="42703",
    )


def missing_column(column: str, relation: str) -> NotNullViolation:
    error = null_in(column, relation)
    error.detail = f'The rows have no column "{column}", and it has no default.'
    return error
