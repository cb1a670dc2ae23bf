"""A session: statements one after another, the settings and the transaction that belong to them.

Outside BEGIN every statement is a transaction of its own, and several threads may run statements of one
session side by side. Inside BEGIN they take turns. A statement that fails inside BEGIN aborts the
transaction: all but ROLLBACK (or COMMIT, which then rolls back) is refused until it ends.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any, Protocol, TypeVar

from midstream.errors import (
    Closed,
    Error,
    InternalError,
    InvalidParameter,
    TransactionAborted,
    TransactionConflict,
    TransactionError,
)
from midstream.maintenance.engine import Cancellation
from midstream.plan import BindContext
from midstream.relations.catalog import CatalogState
from midstream.relations.stream import Stream
from midstream.relations.table import Column
from midstream.runtime.commit import commit
from midstream.runtime.settings import SETTINGS
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import ComputedSchema, StateSchema
from midstream.runtime.transaction import Transaction
from midstream.runtime.writing import Writer
from midstream.serving.result import Result
from midstream.sql import parse
from midstream.sql.blame import place_of_error
from midstream.sql.statements import Begin, Commit, Rollback, Select, Statement

T = TypeVar("T")
ATTEMPTS = 5
"""How often a statement outside BEGIN is tried when another one was faster."""


class Work(Protocol):
    """What a session can be asked to do."""

    def execute(self, session: Session, statement: Statement, context: BindContext) -> Result: ...

    def insert(self, session: Session, name: str, data: object) -> Result: ...


@contextmanager
def _faults_named(text: str | None) -> Iterator[None]:
    """An error gets the text that it is about; what is not an error of ours is a fault of ours."""
    try:
        yield
    except Error as error:
        error.sql = error.sql or text
        raise
    except Exception as fault:
        raise InternalError(
            f"an unexpected fault: {type(fault).__name__}",
            detail="".join(traceback.format_exception(fault)).strip(),
            hint="Please report it; the statement had no effect.",
        ) from fault


@contextmanager
def _places_told(statement: Statement) -> Iterator[None]:
    """An error about something that the statement names points at it."""
    try:
        yield
    except Error as error:
        if error.position is None:
            error.position = place_of_error(statement, error)
        raise


class Session:
    def __init__(self, store: Store, work: Work) -> None:
        self.store = store
        self.settings: dict[str, object] = {name: setting.default for name, setting in SETTINGS.items()}
        self._work = work
        self._transaction: Transaction | None = None
        self._aborted = False
        self._closed = False
        self._turn = threading.RLock()
        self._running: set[Cancellation] = set()
        self._read: dict[str, list[Statement]] = {}
        """Queries whose text was read lately."""

    # --- the public face -------------------------------------------------------------------------

    def sql(self, text: str, parameters: Sequence[object] = ()) -> Result:
        """Runs the statements of a text and gives the last one's result."""
        self._check_open()
        with _faults_named(text):
            statements = self._parsed(text)
            if parameters and len(statements) > 1:
                raise InvalidParameter("parameters need a single statement", detail=f"There are {len(statements)}.")
            result = Result(status="", scn=self.store.catalog.state.scn)
            for statement in statements:
                result = self.run(statement, tuple(parameters))
            return result

    def insert(self, name: str, data: object) -> Result:
        """Rows from Arrow, pandas, polars, a list of dicts, a Spark DataFrame or a path."""
        self._check_open()
        with _faults_named(None):
            return self._in_turn(lambda: self._work.insert(self, name, data))

    def cancel(self) -> None:
        """Stops what the session runs now, from another thread."""
        for cancellation in list(self._running):
            cancellation.cancel()

    @property
    def state(self) -> CatalogState:
        """What the next statement sees."""
        return self._transaction.state if self._transaction is not None else self.store.catalog.state

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    def close(self) -> None:
        with self._turn:
            if not self._closed:
                self._end_transaction()
                self._closed = True

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- statements ------------------------------------------------------------------------------

    def run(self, statement: Statement, parameters: tuple[object, ...] = ()) -> Result:
        self._check_open()
        context = self.context(parameters, statement)
        if isinstance(statement, Begin | Commit | Rollback):
            with self._turn:
                return self._control(statement)
        with _places_told(statement):
            return self._in_turn(lambda: self._work.execute(self, statement, context))

    def _parsed(self, text: str) -> list[Statement]:
        """A text that cannot be read aborts the transaction, as a statement that cannot be run does."""
        known = self._read.get(text)
        if known is not None:
            return known
        try:
            statements = parse(text)
            if len(text) < 4000 and all(isinstance(statement, Select) for statement in statements):
                if len(self._read) >= 200:
                    self._read.clear()
                self._read[text] = statements
            return statements
        except Error:
            self._aborted = self._transaction is not None
            raise

    def _in_turn(self, work: Callable[[], Result]) -> Result:
        """Outside a transaction at once; inside, one after the other, and the first that fails aborts it."""
        if self._transaction is None:
            return work()
        with self._turn:
            self._check_not_aborted()
            try:
                return work()
            except BaseException:
                self._aborted = self._transaction is not None
                raise

    def context(self, parameters: tuple[object, ...] = (), statement: Statement | None = None) -> BindContext:
        state = self.state
        start = statement.start if statement is not None else (1, 1)
        return BindContext(scn=state.scn, now=datetime.now(timezone.utc), parameters=parameters, start=start)

    def schema(self, state: CatalogState) -> StateSchema:
        """What names stand for in a query of this session."""
        kind = ComputedSchema if self.in_transaction else StateSchema
        return kind(self.store.catalog, state)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """The picture that a statement reads: the transaction's, or the newest."""
        if self._transaction is not None:
            yield self._transaction
            return
        transaction = Transaction(self.store)
        try:
            yield transaction
        finally:
            transaction.end()

    def writing(self, work: Callable[[Writer], T], context: BindContext) -> tuple[T, int]:
        """Runs a statement that writes, and commits it unless it is part of a transaction; with its SCN."""
        if self._transaction is not None:
            with self.cancellable() as cancellation:
                writer = Writer(self._transaction, context, self.settings, cancellation)
                return work(writer), self._transaction.state.scn
        for attempt in range(ATTEMPTS):
            transaction = Transaction(self.store)
            try:
                with self.cancellable() as cancellation:
                    done = work(Writer(transaction, context, self.settings, cancellation, is_alone=True))
                    return done, commit(transaction, self.settings, cancellation)
            except TransactionConflict:
                if attempt == ATTEMPTS - 1:
                    raise
            finally:
                transaction.end()
        raise AssertionError("unreachable")

    def gathered(
        self, stream: Stream, rows: Sequence[Any], columns: Sequence[Column] | None, context: BindContext | None = None
    ) -> Result | None:
        """Few rows for a stream, taken in together with those of other threads; None: not here."""
        gatherer = self.store.gatherer
        if self._transaction is not None or not rows or not gatherer.takes(stream, rows):
            return None
        for _ in range(ATTEMPTS):
            try:
                with self.cancellable() as cancellation:
                    scn = gatherer.insert(stream, rows, columns, context or self.context(), self.settings, cancellation)
                return Result(status=f"INSERT 0 {len(rows)}", scn=scn)
            except TransactionConflict:
                # Dropped, or made anew: what is there now takes the rows, or says that it does not.
                if self.store.catalog.state.relations.get(stream.name) != stream:
                    return None
        return None

    @contextmanager
    def cancellable(self) -> Iterator[Cancellation]:
        cancellation = Cancellation()
        self._running.add(cancellation)
        try:
            yield cancellation
        finally:
            self._running.discard(cancellation)

    def forbid_in_transaction(self, what: str) -> None:
        if self._transaction is not None:
            raise TransactionError(
                f"{what} cannot run inside a transaction",
                hint="COMMIT or ROLLBACK first.",
                sqlstate="25001",
            )

    # --- transactions ----------------------------------------------------------------------------

    def _control(self, statement: Begin | Commit | Rollback) -> Result:
        if isinstance(statement, Begin):
            return self._begin()
        if self._transaction is None:
            word = "COMMIT" if isinstance(statement, Commit) else "ROLLBACK"
            notice = "there is no transaction in progress"
            return Result(status=word, scn=self.store.catalog.state.scn, notices=[notice])
        if isinstance(statement, Rollback) or self._aborted:
            self._end_transaction()
            return Result(status="ROLLBACK", scn=self.store.catalog.state.scn)
        try:
            scn = commit(self._transaction, self.settings)
        finally:
            self._end_transaction()
        return Result(status="COMMIT", scn=scn)

    def _begin(self) -> Result:
        scn = self.store.catalog.state.scn
        if self._transaction is not None:
            return Result(status="BEGIN", scn=scn, notices=["there is already a transaction in progress"])
        self._transaction = Transaction(self.store)
        return Result(status="BEGIN", scn=scn)

    def _end_transaction(self) -> None:
        if self._transaction is not None:
            self._transaction.end()
        self._transaction, self._aborted = None, False

    def _check_not_aborted(self) -> None:
        if self._aborted:
            raise TransactionAborted(
                "current transaction is aborted, commands ignored until end of transaction block",
                hint="ROLLBACK ends it.",
            )

    def _check_open(self) -> None:
        if self.store.is_closed:
            raise Closed("the database is closed", hint="midstream.connect opens it again.")
        if self._closed:
            raise Closed("the session is closed", hint="Open another with db.session().")
