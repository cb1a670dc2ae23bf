"""dequeue('queue', 'subscriber', 100): what a subscriber of a queue has not had yet, as rows of a query.

A subscriber begins with what comes after its first dequeue. Outside BEGIN it has had the rows when the query has
succeeded; inside, when the transaction commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from midstream.errors import InvalidParameter, SqlSyntaxError, UndefinedName, WrongObject
from midstream.ingest.sources import RowSource, source_to_arrow
from midstream.plan import BindContext
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, Queue
from midstream.relations.schema import Relation
from midstream.relations.table import ROW_ID, Column, Table
from midstream.runtime.continuous.changes import END, Place, changes_in
from midstream.runtime.continuous.delivering import subscriber
from midstream.runtime.continuous.destinations import query_of_queue
from midstream.runtime.stored_schema import StateSchema
from midstream.runtime.transaction import ReaderMove, Transaction
from midstream.serving.session import Session
from midstream.sql.procedures import ProcedureCall, take_dequeues
from midstream.sql.statements import Select, Sql

MANY = 1000


@dataclass
class Dequeued:
    """A query whose dequeue() are names of rows that were taken."""

    query: Sql
    relations: dict[str, Table] = field(default_factory=dict)
    rows: dict[int, pa.Table] = field(default_factory=dict)
    highest_parameter: int = 0
    moves: dict[tuple[int, str], tuple[ContinuousQuery, Place | None, Place]] = field(default_factory=dict)
    """By query and subscriber: where it stood, and where it stands after the query."""

    def schema(self, session: Session, state: CatalogState) -> _Schema:
        return _Schema(session.schema(state), self.relations)


@dataclass(frozen=True)
class _Schema:
    """The catalog, and the rows that were taken."""

    known: StateSchema
    taken: dict[str, Table]

    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        return self.taken.get(name) or self.known.relation(name, as_of)

    def names(self) -> Iterable[str]:
        return self.known.names()


@contextmanager
def dequeued(
    session: Session, statement: Select, transaction: Transaction, context: BindContext
) -> Iterator[Dequeued | None]:
    """None: the query takes nothing from queues. What was taken counts when the query has succeeded."""
    query, calls = take_dequeues(statement.query, context.parameters)
    if not calls:
        yield None
        return
    readers = session.store.queries.readers
    with readers.lock:
        found = Dequeued(query, highest_parameter=max(call.highest_parameter for call in calls))
        for number, call in enumerate(calls, 1):
            _take(session, transaction, call, found, number)
        yield found
        for (_, name), (query_of_it, before, after) in found.moves.items():
            if session.in_transaction:
                transaction.move(ReaderMove(query_of_it.id, name, before, after))
            else:
                readers.move(query_of_it, name, after)


def _take(session: Session, transaction: Transaction, call: ProcedureCall, found: Dequeued, number: int) -> None:
    queue_name, name, limit = _arguments(call)
    query = _query_of(transaction.state, queue_name, call)
    queries = session.store.queries
    reader = subscriber(name)
    before, place = _standing(session, transaction, found, query, reader)
    log = queries.log_of(query)
    # What comes between the two lines is in the files and behind the position.
    end = (log.position, END)
    changes = list(islice(changes_in(query, list(log.files), place), limit)) if place is not None else []
    if place is None:
        found.moves[query.id, reader] = query, before, end
    elif changes:
        last = (changes[-1].scn, changes[-1].number)
        found.moves[query.id, reader] = query, before, last if len(changes) == limit else max(last, end)
    columns = tuple(Column(column, type_) for column, type_ in query.output_columns)
    table = Table(-number, call.name, columns)
    rows = source_to_arrow(
        RowSource(tuple(change.row for change in changes)), columns, relation=queue_name, defaults={}
    )
    found.relations[table.name] = table
    found.rows[table.id] = rows.append_column(ROW_ID, pa.array(range(rows.num_rows), pa.int64()))


def _standing(
    session: Session, transaction: Transaction, found: Dequeued, query: ContinuousQuery, reader: str
) -> tuple[Place | None, Place | None]:
    """Where a subscriber stood before this query, and where it stands: by this query, the transaction, or for all."""
    if (query.id, reader) in found.moves:
        _, before, after = found.moves[query.id, reader]
        return before, after
    moved = transaction.moves.get((query.id, reader))
    place = moved.after if moved is not None else session.store.queries.readers.of(query).get(reader)
    return place, place


def _query_of(state: CatalogState, name: str, call: ProcedureCall) -> ContinuousQuery:
    queue = state.relations.get(name)
    if queue is None:
        raise UndefinedName(f'queue "{name}" does not exist', position=call.position)
    if not isinstance(queue, Queue):
        raise WrongObject(f'"{name}" is not a queue', position=call.position)
    query = query_of_queue(state, name)
    if query is None:
        raise WrongObject(
            f'no continuous query has queue "{name}" as its destination',
            hint=f"CREATE CONTINUOUS QUERY … DESTINATION QUEUE {name} AS … fills it.",
            sqlstate="55000",
        )
    return query


def _arguments(call: ProcedureCall) -> tuple[str, str, int]:
    values = call.arguments
    if len(values) not in (2, 3):
        raise SqlSyntaxError(
            "dequeue takes the name of a queue, that of a subscriber, and how many changes", position=call.position
        )
    limit = values[2] if len(values) == 3 else MANY
    if not isinstance(limit, int) or limit < 0:
        raise InvalidParameter(f"dequeue takes a number of changes, not {limit!r}", position=call.position)
    return str(values[0]), str(values[1]), limit
