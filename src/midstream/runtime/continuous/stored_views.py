"""CREATE MATERIALIZED VIEW over tables: a query whose answer is stored, and from which SCN on it is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from midstream.errors import DuplicateName, InvalidParameter, UndefinedName, Unsupported, WrongObject
from midstream.plan.difference.facts import increasing_tables
from midstream.relations.query import MaterializedView, Refresh, When
from midstream.relations.table import Column, Key
from midstream.relations.view import ContinuousView
from midstream.runtime.continuous.computing import Plans
from midstream.runtime.continuous.defining import check_maintenance, define_query, read_options
from midstream.runtime.settings import read_duration
from midstream.runtime.writing import Writer
from midstream.sql.statements import CreateView
from midstream.sql.text import listed_names

VIEW_OPTIONS = ("refresh", "key")


def create_materialized_view(writer: Writer, statement: CreateView) -> list[str]:
    """Its answer is that of the picture of the transaction, whose SCN it is kept from."""
    from midstream.runtime.definitions import check_readers, is_there, replace_relation

    transaction, state = writer.transaction, writer.transaction.state
    known = state.relations.get(statement.name)
    if known is not None and not statement.or_replace and is_there(state, statement.name, statement.if_not_exists):
        return []
    if known is not None and not isinstance(known, MaterializedView):
        raise WrongObject(f'"{statement.name}" is not a materialized view')
    view = defined_view(writer, statement)
    transaction.store.queries.materialized.bring_to_base(transaction, Plans(transaction.store, view).stored(state))
    state = transaction.state
    notices = check_maintenance(transaction.store, view, state, writer.context)
    if known is not None:
        check_readers(transaction.store, known.name, replace_relation(state, known, view), writer.context)
        transaction.define(dropped=[known])
    transaction.define([view])
    bound = Plans(transaction.store, view).bound(state)
    writer.insert_query(view, bound)
    return notices


def defined_view(writer: Writer, statement: CreateView) -> MaterializedView:
    """What it would be."""
    from midstream.runtime.definitions import check_columns, check_name, check_not_around, check_not_more_names

    state, store = writer.transaction.state, writer.transaction.store
    check_name(statement.name)
    options = read_options(statement.options, VIEW_OPTIONS)
    definition = define_query(store, statement.query, state, writer.context, statement.name)
    if definition.stream is not None or any(isinstance(s.relation, ContinuousView) for s in definition.bound.scans):
        raise Unsupported(
            "a materialized view over a continuous view is not supported",
            hint="A view over a continuous view is a continuous view: leave MATERIALIZED out.",
        )
    check_not_around(statement, definition.reads, state)
    names = [output.name for output in definition.bound.outputs]
    check_not_more_names(statement, len(names))
    names[: len(statement.columns)] = statement.columns
    outputs = definition.bound.outputs
    columns = tuple(
        Column(name, output.type, id=number)
        for number, (name, output) in enumerate(zip(names, outputs, strict=True), 1)
    )
    check_columns(statement.name, columns, "materialized view")
    when, period, refresh = _read_refresh(str(options.get("refresh", "on commit")))
    constraints = _view_key(statement.name, options.get("key"), columns)
    if constraints:
        required = constraints[0].columns
        columns = tuple(replace(c, not_null=True) if c.name in required else c for c in columns)
    return MaterializedView(
        store.catalog.new_id(),
        statement.name,
        columns,
        constraints,
        definition.text,
        definition.reads,
        when,
        period,
        refresh,
        str(writer.settings["kernel"]),
        increasing_tables(definition.bound),
    )


def _view_key(name: str, key: object, columns: Sequence[Column]) -> tuple[Key, ...]:
    if key is None:
        return ()
    names = [column.name for column in columns]
    wanted = listed_names(str(key), names)
    for column in wanted:
        if wanted.count(column) > 1:
            raise DuplicateName(f'column "{column}" appears twice in option "key"', sqlstate="42701")
        if column not in names:
            raise UndefinedName(
                f'column "{column}" named in key does not exist',
                hint="The columns are " + ", ".join(names) + ".",
                sqlstate="42703",
            )
    return (Key(f"{name}_pkey", wanted, is_primary=True),)


def _read_refresh(text: str) -> tuple[When, float | None, Refresh]:
    word = " ".join(text.lower().split())
    if word in ("on commit", "on demand"):
        return cast(When, word), None, "auto"
    if word in ("incremental", "auto"):
        return "on commit", None, cast(Refresh, word)
    if word == "full":
        return "on commit", None, "full"
    try:
        seconds = read_duration(word)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise InvalidParameter(
            f'option "refresh" does not take {text!r}',
            hint="It takes 'on commit', 'on demand', 'incremental', 'full', or a length of time such as '1 minute'.",
            sqlstate="22023",
        )
    return "periodic", seconds, "auto"
