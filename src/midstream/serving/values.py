"""INSERT … VALUES: which columns the rows are for, and whether they are plain values that need no query."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import cast

from midstream.errors import SqlSyntaxError, UndefinedName
from midstream.plan import BindContext
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import Column, Table
from midstream.serving.session import Session
from midstream.sql.mentions import place_of_name
from midstream.sql.plain_values import plain_values
from midstream.sql.statements import InsertQuery, InsertValues, Statement
from midstream.types import DATE, TIMESTAMP, TIMESTAMPTZ, Type


def without_query(session: Session, statement: InsertQuery, context: BindContext) -> InsertQuery | InsertValues:
    """VALUES of literals and parameters that their columns take as they are need no job."""
    rows = plain_values(statement.query, context.parameters)
    target = session.state.relations.get(statement.table)
    if rows is None or not isinstance(target, Table | Stream):
        return statement
    plain = InsertValues(statement.table, statement.columns, rows, text=statement.text, start=statement.start)
    columns = listed_columns(target, statement.columns, statement)[: len(rows[0])]
    fit = len(columns) == len(rows[0]) and all(
        _is_taken(value, column.type) for row in rows for value, column in zip(row, columns, strict=True)
    )
    return plain if fit else statement


def _is_taken(value: object, type: Type) -> bool:
    """Whether a value means for a column what a literal of SQL would."""
    match value:
        case None | bool() | int() | Decimal():
            return True
        case str():
            return "\0" not in value
        case float():
            return type.is_float
        case datetime():
            return type == (TIMESTAMPTZ if value.tzinfo is not None else TIMESTAMP)
        case date():
            return type == DATE
    return False


def listed_columns(table: RowHolder, names: Sequence[str], statement: Statement) -> list[Column]:
    """The columns that an INSERT or COPY names, or all of them."""
    found = [table.column(name) for name in names]
    for name, column in zip(names, found, strict=True):
        if column is None:
            near = difflib.get_close_matches(name, table.column_names, 1)
            raise UndefinedName(
                f'column "{name}" of relation "{table.name}" does not exist',
                hint=f'Did you mean "{near[0]}"?' if near else None,
                position=place_of_name(statement, name, after=table.name),
                sqlstate="42703",
            )
        if list(names).count(name) > 1:
            raise SqlSyntaxError(f'column "{name}" specified more than once', sqlstate="42701")
    return cast("list[Column]", found) if names else list(table.columns)
