"""CREATE STREAM: a definition that is checked whole before anything is made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from midstream.errors import Error, InvalidDefinition, InvalidParameter, UndefinedName, Unsupported
from midstream.plan import BindContext, bind_default
from midstream.relations.stream import History, Stream
from midstream.relations.table import Column
from midstream.runtime.definitions import check_columns, check_name, define_check, define_column, is_there
from midstream.runtime.settings import read_duration
from midstream.runtime.transaction import Transaction
from midstream.runtime.writing import Writer
from midstream.sql.mentions import place_of_name
from midstream.sql.statements import Check, Constraint, CreateStream, Increasing, PrimaryKey, References, Unique
from midstream.types import DATE, TIMESTAMP, TIMESTAMPTZ

_PART_SECONDS = 3600
"""The length of a part where the stream says nothing."""
_NAMES: dict[type[Constraint], str] = {
    PrimaryKey: "PRIMARY KEY",
    Unique: "UNIQUE",
    References: "REFERENCES",
    Increasing: "INCREASING",
}


def create_stream(writer: Writer, statement: CreateStream) -> None:
    transaction = writer.transaction
    if not is_there(transaction.state, statement.name, statement.if_not_exists):
        transaction.define([define_stream(transaction, statement, writer.context)])


def define_stream(transaction: Transaction, statement: CreateStream, context: BindContext) -> Stream:
    check_name(statement.name)
    columns = tuple(define_column(column, number) for number, column in enumerate(statement.columns, 1))
    check_columns(statement.name, columns, "stream")
    stream = _defined(Stream(0, statement.name, columns), statement)
    for constraint in statement.constraints:
        if not isinstance(constraint, Check):
            raise _refused(statement, constraint)
        stream = replace(stream, constraints=(*stream.constraints, define_check(stream, constraint, context)))
    for column in stream.columns:
        if column.default is not None:
            bind_default(column, context)
    return replace(stream, id=transaction.store.catalog.new_id())


def _defined(stream: Stream, statement: CreateStream) -> Stream:
    try:
        return _with_options(stream, statement.options)
    except Error as error:
        named = next(
            (name for name in statement.options if f'"{name}"' in error.message or name in error.message), None
        )
        error.position = place_of_name(statement, named, after="with") if named else statement.start
        raise


def _refused(statement: CreateStream, constraint: Constraint) -> InvalidDefinition:
    return InvalidDefinition(
        f'stream "{statement.name}" cannot have {_NAMES[type(constraint)]}',
        detail="A row is checked by itself when it arrives: the rows before it are not there to compare with.",
        hint="NOT NULL and CHECK work on streams.",
        position=getattr(constraint, "position", None),
    )


# --- options ---------------------------------------------------------------------------------------


def _with_options(stream: Stream, options: Mapping[str, object]) -> Stream:
    values = {name: _OPTIONS[name](name, value) for name, value in options.items() if _is_known(name)}
    timestamp = cast("str | None", values.get("timestamp"))
    if timestamp is not None:
        stream = _with_timestamp(stream, timestamp)
    lateness = cast(float, values.get("lateness", 0.0))
    if "retain" not in values:
        if "partition_length" in values:
            raise InvalidDefinition(
                "partition_length needs retain", hint="Say how long the parts are kept: WITH (retain = '7 days', …)."
            )
        return replace(stream, lateness_seconds=lateness)
    length = cast(int, values.get("partition_length", _PART_SECONDS))
    history = History(cast(float, values["retain"]), length)
    return replace(stream, lateness_seconds=lateness, history=history)


def _is_known(name: str) -> bool:
    if name == "ring":
        raise Unsupported(
            "a stream with a ring is not available yet",
            detail="The option is understood, but this version of Midstream cannot run it.",
            hint="WITH (retain = '7 days') keeps rows that can be read; docs/roadmap.md says what comes next.",
        )
    if name not in _OPTIONS:
        near = difflib.get_close_matches(name, _OPTIONS, 1)
        raise InvalidParameter(
            f'unrecognized option "{name}" of a stream',
            detail="The options are " + ", ".join(_OPTIONS) + ".",
            hint=f'Did you mean "{near[0]}"?' if near else None,
            sqlstate="42601",
        )
    return True


def _with_timestamp(stream: Stream, name: str) -> Stream:
    """A row without its moment belongs to no part and no window, so the column is NOT NULL."""
    column = stream.column(name)
    if column is None:
        near = difflib.get_close_matches(name, stream.column_names, 1)
        raise UndefinedName(
            f'column "{name}" named as timestamp does not exist',
            hint=f'Did you mean "{near[0]}"?' if near else None,
            sqlstate="42703",
        )
    if column.type not in (TIMESTAMP, TIMESTAMPTZ, DATE):
        raise InvalidDefinition(
            f'column "{name}" of type {column.type} cannot be the timestamp of a stream',
            hint="It takes timestamp, timestamptz or date.",
            sqlstate="42804",
        )
    required = replace(column, not_null=True)
    columns: tuple[Column, ...] = tuple(required if c.name == name else c for c in stream.columns)
    return replace(stream, columns=columns, timestamp=name)


def _duration(name: str, value: object) -> object:
    try:
        seconds = read_duration(value)
    except ValueError as error:
        raise _bad_value(name, value, str(error)) from None
    if name == "retain" and seconds <= 0:
        raise _bad_value(name, value, "a duration above zero")
    return seconds


def _whole_seconds(name: str, value: object) -> object:
    seconds = cast(float, _duration(name, value))
    if seconds < 1 or seconds != int(seconds):
        raise _bad_value(name, value, "a whole number of seconds, at least 1")
    return int(seconds)


def _column_name(name: str, value: object) -> object:
    if not isinstance(value, str):
        raise _bad_value(name, value, "the name of a column, in quotes")
    return value


def _bad_value(name: str, value: object, wanted: str) -> InvalidParameter:
    return InvalidParameter(f'invalid value for option "{name}": {value!r}', hint=f"It takes {wanted}.")


_OPTIONS: dict[str, Callable[[str, object], object]] = {
    "timestamp": _column_name,
    "partition_length": _whole_seconds,
    "retain": _duration,
    "lateness": _duration,
}
