"""CREATE QUEUE and CREATE TRIGGER: who takes what a continuous query hands out."""

from __future__ import annotations

from midstream.errors import UndefinedName
from midstream.relations.query import Queue, Trigger
from midstream.runtime.continuous.changes import END
from midstream.runtime.continuous.delivering import dead_letters, dead_table, function_of, trigger_reader
from midstream.runtime.continuous.naming import check_free, find_query
from midstream.runtime.transaction import ReaderMove
from midstream.runtime.writing import Writer
from midstream.sql.statements import CreateQueue, CreateTrigger


def create_queue(writer: Writer, statement: CreateQueue) -> None:
    from midstream.runtime.definitions import is_there

    transaction = writer.transaction
    if is_there(transaction.state, statement.name, statement.if_not_exists):
        return
    check_free(transaction.state, statement.name)
    transaction.define([Queue(transaction.store.catalog.new_id(), statement.name)])


def create_trigger(writer: Writer, statement: CreateTrigger) -> None:
    transaction = writer.transaction
    state, store = transaction.state, transaction.store
    check_free(state, statement.name)
    query = find_query(state, statement.on, statement, " on ")
    if statement.function is not None:
        _check_function(statement.function)
    trigger = Trigger(store.catalog.new_id(), statement.name, statement.on, statement.function, statement.channel)
    dead = dead_letters(statement.name)
    if dead not in state.relations:
        transaction.define([dead_table(store, dead)])
    transaction.define([trigger])
    position = store.queries.log_of(query).position if query.id not in transaction.defined else state.scn
    transaction.move(ReaderMove(query.id, trigger_reader(trigger), None, (position, END)))


def _check_function(path: str) -> None:
    try:
        function_of(path)
    except (Exception, SystemExit) as error:
        raise UndefinedName(
            f"there is no function '{path}'",
            detail=f"{type(error).__name__}: {error}",
            hint="Write 'package.module:function', of a module that this process can import.",
            sqlstate="42883",
        ) from error
