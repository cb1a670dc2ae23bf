"""Where the changes of a continuous query go: a table, a queue, triggers.

The rows for a table are committed together with the log of the query, so a change gets there once. Subscribers of a
queue and triggers read the log, each from where it stands; how far each has come is a text of its own in the catalog.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from midstream.errors import Closed, OutOfResources, TransactionConflict, UndefinedName
from midstream.ingest.export import json_object
from midstream.ingest.kernel_parquet import from_parquet
from midstream.ingest.sources import ArrowSource
from midstream.kernels import quote_name
from midstream.plan import bind_default
from midstream.relations.query import ContinuousQuery, Trigger
from midstream.relations.table import ROW_ID, Column, Table
from midstream.runtime.continuous.changes import Change, Place, changes_in
from midstream.runtime.continuous.computing import context_at
from midstream.runtime.continuous.log import QueryLog, log_name, read_log, readers_name
from midstream.runtime.continuous.texts import KIND, old_names, row_names
from midstream.runtime.rows import FEW_ROWS
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import ID_BLOCK, Store
from midstream.runtime.transaction import ReaderMove, Transaction
from midstream.runtime.writing import Writer
from midstream.types import BIGINT, TEXT, TIMESTAMPTZ, Type

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries

ATTEMPTS = 5
TRIES = 3
"""How often a trigger is called with a change before that is put aside."""


# --- tables --------------------------------------------------------------------------------------------


def deliver(store: Store, handed: Sequence[tuple[ContinuousQuery, Sequence[KeptFile], str]]) -> None:
    """Writes down what queries have handed out, with the rows for their destinations: all of it, or nothing."""

    def work(transaction: Transaction) -> None:
        for query, files, written in handed:
            if query.destination is not None and not query.is_queue and files:
                _insert(transaction, query, files)
            transaction.kept[log_name(query.id)] = written

    _committed(store, work)


def _committed(store: Store, work: Callable[[Transaction], None]) -> None:
    """Does something in a transaction of its own, again if another one was faster."""
    from midstream.runtime.commit import commit

    for attempt in range(ATTEMPTS):
        transaction = Transaction(store)
        try:
            work(transaction)
            commit(transaction, DEFAULTS)
            return
        except TransactionConflict:
            if attempt == ATTEMPTS - 1:
                raise
        finally:
            transaction.end()


def _insert(transaction: Transaction, query: ContinuousQuery, files: Sequence[KeptFile]) -> None:
    table = transaction.state.relations.get(str(query.destination))
    if not isinstance(table, Table):
        raise UndefinedName(f'the destination "{query.destination}" of continuous query "{query.name}" is gone')
    writer = Writer(transaction, context_at(transaction.state), DEFAULTS)
    if sum(file.rows for file in files) <= FEW_ROWS:
        writer.insert_source(table, ArrowSource(handed_out(query, files, destination_names(query, table))))
    else:
        _insert_many(writer, query, table, files)


def destination_names(query: ContinuousQuery, table: Table) -> list[str]:
    """The column of a destination that each output goes to: the one of its name, or that at its place."""
    names = [output.name for output in query.outputs]
    return names if set(names) <= set(table.column_names) else list(table.column_names[: len(names)])


def handed_out(query: ContinuousQuery, files: Sequence[KeptFile], names: Sequence[str]) -> pa.Table:
    """Changes as rows: the columns that the query hands out."""
    rows = read_log([type_ for _, type_ in query.columns], files)
    if len(query.kinds) < 3:
        rows = rows.filter(pa.compute.is_in(rows.column(KIND), pa.array(query.kinds)))
    return pa.table([rows.column(name) for name in _columns(query)], names=list(names))


def _columns(query: ContinuousQuery) -> list[str]:
    """For each output, the column of the log that it comes from."""
    width = len(query.columns)
    named = {"row": row_names(width), "old": old_names(width), "kind": [KIND]}
    return [named[output.what][output.place] for output in query.outputs]


def _insert_many(writer: Writer, query: ContinuousQuery, table: Table, files: Sequence[KeptFile]) -> None:
    """More rows than the driver takes: a job puts them into the table's folder."""
    from midstream.maintenance.engine import Piece
    from midstream.runtime.continuous.stepping import log_input

    given = dict(zip(destination_names(query, table), _typed_columns(query), strict=True))
    first = writer.transaction.reserve_row_ids(table, ID_BLOCK)
    columns = [
        f"{_assigned(column, *given[column.name]) if column.name in given else _default(writer, column)} "
        f"AS {quote_name(column.name, 'duckdb')}"
        for column in table.columns
    ]
    kinds = ", ".join(f"'{kind}'" for kind in query.kinds)
    text = (
        f'SELECT row_number() OVER (ORDER BY scn, number) - 1 + {first} AS "{ROW_ID}", {", ".join(columns)} '
        f"FROM changes WHERE kind IN ({kinds})"
    )
    answers = writer.write_pieces("duckdb", [Piece(text, {"changes": log_input(query, files)})], table)
    rows = sum(file.rows for answer in answers for file in answer.files)
    writer.transaction.store.return_row_ids(table.id, first, ID_BLOCK, rows)
    writer.take_written(table, answers)


def _typed_columns(query: ContinuousQuery) -> list[tuple[str, Type]]:
    return list(zip(_columns(query), [type_ for _, type_ in query.output_columns], strict=True))


def _assigned(column: Column, text: str, given: Type) -> str:
    """What a column of the destination gets, or an error where it does not fit, as with rows that the driver has."""
    return text if given == column.type else from_parquet(text, given, column.type, column.name)


def _default(writer: Writer, column: Column) -> str:
    return bind_default(column, writer.context).sql("duckdb")


# --- readers of the log ----------------------------------------------------------------------------------


class Readers:
    """How far the subscribers of a query's queue and its triggers have come."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lock = threading.RLock()

    def of(self, query: ContinuousQuery) -> dict[str, Place]:
        return self._of(query.id)

    def _of(self, id: int) -> dict[str, Place]:
        text = self._store.catalog.kept(readers_name(id))
        return {name: (scn, number) for name, (scn, number) in json.loads(text).items()} if text else {}

    def move(self, query: ContinuousQuery, name: str, place: Place | None) -> None:
        """A reader has come so far; None: it goes."""
        with self.lock:
            found = {**self.of(query), name: place}
            self._store.catalog.keep(readers_name(query.id), _written(found))

    @contextlib.contextmanager
    def moved(self, transaction: Transaction) -> Iterator[dict[str, str]]:
        """What the catalog is to keep when a transaction commits, which nobody changes until it has: the readers that
        it moves, from where they stood when it looked, without triggers that it drops."""
        moves, dropped = list(transaction.moves.values()), list(_dropped_triggers(transaction))
        if not moves and not dropped:
            yield {}
            return
        with self.lock:
            places: dict[int, dict[str, Place | None]] = {}
            for move in moves:
                own = places.setdefault(move.query_id, {**self._of(move.query_id)})
                if own.get(move.reader) != move.before:
                    raise _already_dequeued(move)
                own[move.reader] = move.after
            for id, reader in dropped:
                places.setdefault(id, {**self._of(id)})[reader] = None
            yield {readers_name(id): _written(own) for id, own in places.items()}


def _written(places: Mapping[str, Place | None]) -> str:
    return json.dumps({name: place for name, place in places.items() if place is not None})


def _dropped_triggers(transaction: Transaction) -> Iterator[tuple[int, str]]:
    """Each with the query that it was on."""
    for relation in transaction.dropped.values():
        query = transaction.base.relations.get(relation.on) if isinstance(relation, Trigger) else None
        if isinstance(relation, Trigger) and query is not None:
            yield query.id, trigger_reader(relation)


def _already_dequeued(move: ReaderMove) -> TransactionConflict:
    kind, _, name = move.reader.partition(" ")
    return TransactionConflict(
        "could not serialize access due to concurrent dequeue",
        detail=f'Somebody else has dequeued for {kind} "{name}" since this transaction looked.',
        hint="Run the transaction again.",
    )


SUBSCRIBER = "subscriber "


def subscriber(name: str) -> str:
    return f"{SUBSCRIBER}{name}"


def trigger_reader(trigger: Trigger) -> str:
    return f"trigger {trigger.id}"


def max_queue(store: Store) -> int:
    return int(str(store.catalog.setting("max_queue") or DEFAULTS["max_queue"]))


def check_room(store: Store, query: ContinuousQuery, log: QueryLog) -> None:
    """A queue whose subscribers do not read does not grow for ever."""
    if not query.is_queue:
        return
    places = [place for name, place in store.queries.readers.of(query).items() if name.startswith(SUBSCRIBER)]
    if not places:
        # Whoever comes gets what comes from then on: what is there is cut off instead.
        return
    unread, limit = sum(file.rows for file in log.files if file.upto > min(places)[0]), max_queue(store)
    if unread > limit:
        raise OutOfResources(
            f'queue "{query.destination}" is full',
            detail=f"{unread:,} changes wait for its slowest subscriber, and max_queue is {limit:,}.",
            hint="Dequeue them, or SET max_queue to more.",
            sqlstate="53400",
        )


# --- triggers --------------------------------------------------------------------------------------------


class Triggers:
    """Calls the functions of triggers, each change in its turn, in a thread of their own."""

    def __init__(self, store: Store, queries: Queries) -> None:
        self._store = store
        self._queries = queries
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="midstream-triggers", daemon=True)
        self._listeners: dict[str, list[Callable[[Change], None]]] = {}

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=30)

    def wake(self) -> None:
        self._wake.set()

    def listen(self, channel: str, take: Callable[[Change], None]) -> Callable[[], None]:
        """Has changes of a channel handed to a function; what it returns ends that."""
        self._listeners.setdefault(channel, []).append(take)

        def end() -> None:
            with contextlib.suppress(ValueError):
                self._listeners[channel].remove(take)

        return end

    def _run(self) -> None:
        self._wake.set()
        while not self._stop.is_set():
            self._wake.wait()
            self._wake.clear()
            for trigger in self._triggers():
                if self._stop.is_set():
                    return
                # Whatever goes wrong with one trigger, the others go on, and it is tried again with the next change.
                with contextlib.suppress(BaseException):
                    self._serve(trigger)

    def _triggers(self) -> list[Trigger]:
        return [r for r in self._store.catalog.state.relations.values() if isinstance(r, Trigger)]

    def _serve(self, trigger: Trigger) -> None:
        query = self._store.catalog.state.relations.get(trigger.on)
        if not isinstance(query, ContinuousQuery):
            return
        log, readers, name = self._queries.log_of(query), self._queries.readers, trigger_reader(trigger)
        place = readers.of(query).get(name)
        if place is None:
            return
        for change in changes_in(query, list(log.files), place):
            if self._stop.is_set() or self._store.catalog.state.relations.get(trigger.name) != trigger:
                return
            error = self._call(trigger, change)
            if error is not None:
                self._put_aside(trigger, query, change, error)
            readers.move(query, name, (change.scn, change.number))

    def _call(self, trigger: Trigger, change: Change) -> BaseException | None:
        """None if it worked; else what it raised the last time of all. Closed before that, it has not been tried.
        Each try has the change to itself, whatever the one before did to it. A function that wants to end the program
        ends nothing: it is called in a thread that serves others, too."""
        if trigger.channel is not None:
            for take in list(self._listeners.get(trigger.channel, [])):
                with contextlib.suppress(BaseException):
                    take(change)
            return None
        failure: BaseException | None = None
        for attempt in range(TRIES):
            if attempt and self._stop.wait(0.05 * 4 ** (attempt - 1)):
                raise Closed("the database is closed", hint="The change is tried again when it is opened.")
            try:
                function_of(str(trigger.function))(deepcopy(change))
                return None
            except BaseException as error:
                failure = error
        return failure

    def _put_aside(self, trigger: Trigger, query: ContinuousQuery, change: Change, error: BaseException) -> None:
        """Into dead_<trigger>, with the error."""
        row = {
            "id": "/".join(map(str, change.id)),
            "scn": change.scn,
            "kind": change.kind,
            "row": json_object(query.output_columns, change.row),
            "old": json_object(query.columns, change.old) if change.old is not None else None,
            "error": told(error),
            "failed_at": datetime.now(timezone.utc),
        }

        def work(transaction: Transaction) -> None:
            name = dead_letters(trigger.name)
            table = transaction.state.relations.get(name)
            if not isinstance(table, Table):
                # Somebody has dropped it.
                table = dead_table(self._store, name)
                transaction.define([table])
            writer = Writer(transaction, context_at(transaction.state), DEFAULTS)
            writer.insert_values(table, list(table.columns), [[row.get(column.name) for column in table.columns]])

        _committed(self._store, work)


def told(error: BaseException) -> str:
    """An error of somebody else's function as a text that can be stored, whatever is in it."""
    try:
        words = str(error)
    except Exception:
        words = "(its text cannot be told)"
    last = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ is not None else None
    where = f" ({last.filename}, line {last.lineno})" if last is not None else ""
    text = f"{type(error).__name__}: {words}{where}"
    return text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")


def dead_letters(trigger: str) -> str:
    return f"dead_{trigger}"


def dead_table(store: Store, name: str) -> Table:
    columns = (("id", TEXT), ("scn", BIGINT), ("kind", TEXT), ("row", TEXT), ("old", TEXT), ("error", TEXT))
    made = [Column(column, type_, id=number) for number, (column, type_) in enumerate(columns, 1)]
    return Table(store.catalog.new_id(), name, (*made, Column("failed_at", TIMESTAMPTZ, id=len(made) + 1)))


def function_of(path: str) -> Callable[[Change], object]:
    """'pkg.module:function'."""
    module, _, name = path.partition(":")
    found: object = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{path} is not a function")
    return found
