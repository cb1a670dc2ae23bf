"""Continuous queries at work: when commits have changed what they read, their changes are computed, all that are due
in one job, and handed on.

A thread looks after them: commits wake it, and the clock does for periodic ones. What commits one after another is
computed one after another where a query wants it so, but in one job: the more commits have come, the fewer jobs each
costs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from midstream.errors import (
    Cancelled,
    Closed,
    ConstraintViolation,
    DataError,
    EngineError,
    Error,
    InvalidParameter,
    TransactionConflict,
    UndefinedName,
    WrongObject,
)
from midstream.maintenance.engine import Cancellation
from midstream.plan.scopes import did_you_mean
from midstream.relations.catalog import CatalogState, ReaderEntry
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.schema import Relation
from midstream.relations.stream import Stream
from midstream.runtime.continuous import delivering
from midstream.runtime.continuous.answers import Answers, Compared
from midstream.runtime.continuous.computing import Kept, Plans, WasReplaced, context_at
from midstream.runtime.continuous.log import QueryLog, Status, log_name
from midstream.runtime.continuous.materialized import Materialized
from midstream.runtime.continuous.stepping import Spent, Stepper
from midstream.runtime.continuous.streamed import STREAMED, StreamedReader, first_state, rows_of_stream
from midstream.runtime.continuous.tidying import tidied
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import StateSchema
from midstream.runtime.waiting import held, in_time
from midstream.sql import parse_query

RESTS, LONGEST_REST = 12, 2.0
"""After a round, it rests so many times as long as that took, shared by the cores, up to so many seconds."""
_LOOK = 0.5
_GLANCE = 0.1


class Queries:
    """Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._logs: dict[int, QueryLog] = {}
        self._plans: dict[int, Plans] = {}
        self._lock = threading.RLock()
        self.computing = threading.RLock()
        """Held by whoever computes: each change is computed once."""
        self.news = threading.Condition()
        """Told whenever a query has come further."""
        self._wake = threading.Event()
        self._hurry = threading.Event()
        """Somebody waits for the next round."""
        self._stop = threading.Event()
        self.cancellation = Cancellation()
        self._thread = threading.Thread(target=self._run, name="midstream-queries", daemon=True)
        self.materialized = Materialized(store, self)
        self.answers = Answers(store, self)
        self.first_answers: dict[int, Compared] = {}
        """Of queries over continuous views that are being created."""
        self._same: dict[int, tuple[Mapping[str, Relation], Mapping[str, object]]] = {}
        """Definitions under which each query reads what it read at its position."""
        self._starts: dict[int, int] = {}
        """The SCN after which the reader of a query over a stream reads."""
        self.stepper = Stepper(store, self)
        self.spent: dict[int, Spent] = {}
        self.jobs = 0
        self.readers = delivering.Readers(store)
        self.triggers = delivering.Triggers(store, self)
        self._remove_strays()

    # --- over streams ------------------------------------------------------------------------------

    def attach(self, query: ContinuousQuery, picture: CatalogState) -> None:
        """Has a new query over a stream read what comes from now on."""
        stream = picture.relations[str(query.stream)]
        assert isinstance(stream, Stream)
        rows = rows_of_stream(parse_query(query.query), StateSchema(self._store.catalog, picture), context_at(picture))
        entry = self._store.streams.register(stream, query.name, STREAMED, first_state(query, rows))
        self._starts[query.id] = entry.absorbed

    def detach(self, id: int) -> None:
        for entry, reader in self._store.streams.readers_of(STREAMED):
            if isinstance(reader, StreamedReader) and reader.query_id == id:
                self._store.streams.unregister(entry.id)

    def reader_of(self, query: ContinuousQuery) -> tuple[ReaderEntry, StreamedReader]:
        for entry, reader in self._store.streams.readers_of(STREAMED):
            if isinstance(reader, StreamedReader) and reader.query_id == query.id:
                return entry, reader
        raise UndefinedName(f'"{query.name}" reads no stream any more')

    def position_of(self, id: int) -> int:
        """How far a query has come; before it is there, nowhere."""
        with self._lock:
            log = self._logs.get(id)
        return log.position if log is not None else 0

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        self.triggers.start()
        self.wake()

    def close(self) -> None:
        self._stop.set()
        self._wake.set()
        self._hurry.set()
        self.cancellation.cancel()
        with self.news:
            self.news.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self.triggers.close()
        self._keep_positions()

    def wake(self) -> None:
        """Something was committed."""
        self._wake.set()

    def folder(self, id: int) -> str:
        return str(self._store.path / "queries" / str(id))

    def _remove_strays(self) -> None:
        """Files that no log names: of changes that were computed and never recorded."""
        root = self._store.path / "queries"
        known = {str(query.id): query for query in self._all(self._store.catalog.state)}
        read = {
            str(name)
            for entry in self._store.catalog.readers()
            if entry.kind == STREAMED
            for name, *_ in json.loads(entry.state)["files"]
        }
        for path in root.iterdir() if root.exists() else ():
            if path.name not in known:
                shutil.rmtree(path, ignore_errors=True)
                continue
            log = self.log_of(known[path.name])
            named = {os.path.basename(file.path) for file in log.all_files} | read
            for file in path.iterdir():
                if file.name not in named:
                    file.unlink(missing_ok=True)

    def _all(self, state: CatalogState) -> list[Kept]:
        return [r for r in state.relations.values() if isinstance(r, ContinuousQuery | MaterializedView)]

    # --- what is known of each ---------------------------------------------------------------------

    def log_of(self, query: Kept) -> QueryLog:
        with self._lock:
            if query.id not in self._logs:
                text = self._store.catalog.kept(log_name(query.id))
                if text is None:
                    raise UndefinedName(f'"{query.name}" does not exist')
                self._logs[query.id] = QueryLog.read(text, self.folder(query.id))
            return self._logs[query.id]

    def plans_of(self, query: Kept) -> Plans:
        with self._lock:
            known = self._plans.get(query.id)
            if known is None or known.query != query:
                known = self._plans[query.id] = Plans(self._store, query)
            return known

    def begun(self, relations: Iterable[Relation], picture: CatalogState, scn: int) -> dict[str, str]:
        """What the catalog keeps of new ones: a query hands out what changes after the commit that makes it, a stored
        answer is that of the SCN that it was computed at, and so is what reads stored answers. `picture` is what the
        transaction sees that makes them."""
        found = {}
        for relation in relations:
            if isinstance(relation, ContinuousQuery | MaterializedView):
                if self._store.catalog.kept(log_name(relation.id)) is not None:
                    continue
                has_answer = isinstance(relation, MaterializedView) or bool(self.plans_of(relation).stored(picture))
                position = self._starts.get(relation.id, picture.scn if has_answer else scn)
                first = self.first_answers.pop(relation.id, None)
                log = self._beginning(first) if first is not None else QueryLog(position, start=position)
                if relation.when == "periodic":
                    log.next_at = next_time(relation, time.time())
                found[log_name(relation.id)] = log.written()
        return found

    def _beginning(self, first: Compared) -> QueryLog:
        """Of a query over continuous views: the changes after an answer."""
        return QueryLog(first.scn, start=first.scn, answer=first.answer)

    def drop(self, id: int) -> None:
        self.detach(id)
        self.answers.forget(id)
        with self._lock:
            self._logs.pop(id, None)
            self._plans.pop(id, None)
            self._same.pop(id, None)
            self.spent.pop(id, None)
        shutil.rmtree(self.folder(id), ignore_errors=True)
        with self.news:
            self.news.notify_all()

    def oldest_position(self) -> int | None:
        """The past after this SCN is still needed."""
        positions = []
        for query in self._all(self._store.catalog.state):
            with contextlib.suppress(UndefinedName):
                log = self.log_of(query)
                if log.status != "inactive":
                    positions.append(log.position)
        return min(positions, default=None)

    def save(self, query: Kept, log: QueryLog) -> None:
        self._store.catalog.keep(log_name(query.id), log.written())
        self.log_of(query).become(log)
        self.tell()

    def tell(self) -> None:
        with self.news:
            self.news.notify_all()

    def _keep_positions(self) -> None:
        with self._lock, contextlib.suppress(Error):
            known = {query.id for query in self._all(self._store.catalog.state)}
            self._store.catalog.keep_all({log_name(id): log.written() for id, log in self._logs.items() if id in known})

    # --- waiting -----------------------------------------------------------------------------------

    def find(self, name: str) -> Kept:
        relation = self._store.catalog.state.relations.get(name)
        if relation is None:
            known = self._store.catalog.state.relations
            raise UndefinedName(f'continuous query "{name}" does not exist', hint=did_you_mean(name, known))
        if not isinstance(relation, ContinuousQuery | MaterializedView):
            raise WrongObject(f'"{name}" is neither a continuous query nor a materialized view')
        return relation

    def wait(self, query: Kept, scn: int, timeout: float | None = None) -> None:
        """Returns when it has computed up to an SCN."""
        newest = self._store.catalog.state.scn
        if scn > newest:
            raise InvalidParameter(f"SCN {scn} has not been reached", detail=f"The newest commit is {newest}.")
        with in_time(f'"{query.name}" has not reached SCN {scn} in time', timeout) as cancellation:
            if isinstance(query, MaterializedView) and query.when == "on commit":
                with held(self.computing, cancellation):
                    self.materialized.bring([query], cancellation)
                return
            if isinstance(query, ContinuousQuery) and query.stream is not None:
                self._store.streams.wait(self.reader_of(query)[0].id, scn, cancellation=cancellation)
            if not self.materialized.are_at(self.plans_of(query).stored(self._store.catalog.state), scn):
                # Who waits is told why a view below cannot be refreshed.
                with held(self.computing, cancellation):
                    self.materialized.bring(self.plans_of(query).stored(self._store.catalog.state), cancellation)
            self._wait_for(query, scn, cancellation)

    def _wait_for(self, query: Kept, scn: int, cancellation: Cancellation) -> None:
        """Until the thread that looks after queries has computed it."""
        self.wake()
        self._hurry.set()
        while True:
            log = self.log_of(self._still_there(query))
            if log.position >= scn or self._has_nothing_to_do(query, log, scn):
                return
            if log.status != "active":
                raise suspended(query.name, log)
            if cancellation.requested:
                raise Cancelled("the statement was cancelled")
            with self.news:
                if self.log_of(query).position < scn:
                    self.news.wait(_GLANCE)

    def _still_there(self, query: Kept) -> Kept:
        if self._store.is_closed or self._stop.is_set():
            raise Closed("the database is closed")
        found = self._store.catalog.state.relations.get(query.name)
        if found is None or found.id != query.id:
            raise UndefinedName(f'"{query.name}" was dropped')
        return cast(Kept, found)

    def _has_nothing_to_do(self, query: Kept, log: QueryLog, upto: int) -> bool:
        """Stored answers below may yet have to be refreshed."""
        below = self.plans_of(query).stored(self._store.catalog.state)
        if isinstance(query, ContinuousQuery) and query.stream is not None:
            return not self._has_news(query, log, upto)
        return not below and not self._has_news(query, log, upto)

    def _has_news(self, query: Kept, log: QueryLog, upto: int) -> bool:
        """Whether something that it reads was committed after its position, or is another one since."""
        state = self._store.catalog.state
        plans = self.plans_of(query)
        if isinstance(query, ContinuousQuery) and query.stream is not None:
            return any(file.upto > log.position for file in self.reader_of(query)[1].files)
        if plans.views(state):
            return True
        ids = [table.id for table in plans.tables(state)]
        changed = ids and self._store.catalog.commits_that_changed(ids, log.position, upto)
        return bool(changed) or self._was_replaced(query, log, state)

    def _was_replaced(self, query: Kept, log: QueryLog, state: CatalogState) -> bool:
        """Whether what it reads is defined in another way than at its position."""
        relations, meant = self._same.get(query.id, (None, None))
        if relations is state.relations:
            return False
        plans = self.plans_of(query)
        now = plans.meant(state)
        if now != meant and now != plans.meant(self._store.catalog.state_at(log.position)):
            return True
        self._same[query.id] = (state.relations, now)
        return False

    # --- computing ---------------------------------------------------------------------------------

    def recompute(self, query: ContinuousQuery, cancellation: Cancellation | None = None) -> int:
        """Computes up to now, and returns that SCN."""
        with self.computing:
            state = self.materialized.bring(self.plans_of(query).stored(self._store.catalog.state), cancellation)
            log = self.log_of(query)
            if log.status != "active":
                raise suspended(query.name, log)
            if query.stream is not None:
                self._store.streams.wait(self.reader_of(query)[0].id, state.scn, cancellation=cancellation)
            while True:
                failure = self.stepper.compute([query], state, cancellation).get(query.id)
                if failure is not None:
                    raise failure
                # What the reader of a stream has made up to now is taken at once, and may be of an earlier commit.
                if log.position >= state.scn or query.stream is not None:
                    return state.scn

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.wait(self._pause())
            if self._stop.is_set():
                return
            self._wake.clear()
            self._hurry.clear()
            began = time.monotonic()
            # Whatever goes wrong in one round, the next one tries again.
            with contextlib.suppress(Exception):
                self._round()
            # While commits come without end, computing on two cores takes a seventh of the time, and most commits meet
            # with none of it; more cores have room for both. What comes meanwhile is one group: the longer a round
            # takes, the more commits the next one has.
            if self._is_behind():
                rest = RESTS / self._store.engine.cores * (time.monotonic() - began)
                self._hurry.wait(min(rest, LONGEST_REST))

    def _is_behind(self) -> bool:
        """Whether something was committed meanwhile."""
        catalog, state = self._store.catalog, self._store.catalog.state
        for query in self._all(state):
            with contextlib.suppress(Error):
                log = self.log_of(query)
                if query.when == "on commit" and log.status == "active":
                    ids = [table.id for table in self.plans_of(query).tables(state)]
                    if ids and catalog.commits_that_changed(ids, log.position, state.scn):
                        return True
        return False

    def _pause(self) -> float | None:
        """How long until the clock has something to do; None: until somebody wakes it."""
        state, now = self._store.catalog.state, time.time()
        times = []
        for query in self._all(state):
            with contextlib.suppress(Error):
                log = self.log_of(query)
                if log.status == "active" and log.next_at is not None:
                    times.append(max(log.next_at - now, 0.0))
                if (
                    isinstance(query, ContinuousQuery)
                    and query.when == "on commit"
                    and self.plans_of(query).views(state)
                ):
                    times.append(_LOOK)
        return min(times, default=None)

    def _round(self) -> None:
        """All that is due, once."""
        with self.computing:
            state, now = self._store.catalog.state, time.time()
            everything = self._all(state)
            views = [view for view in everything if isinstance(view, MaterializedView)]
            stored = [view for view in views if self._is_due(view, self.log_of(view), state, now)]
            with contextlib.suppress(Exception):
                self.materialized.refresh_all(stored)
            self._set_clocks(stored, now)
            state = self.materialized.picture(state)
            due = [
                query
                for query in everything
                if isinstance(query, ContinuousQuery) and self._is_due(query, self.log_of(query), state, now)
            ]
            # What could not be refreshed is behind: who reads it stays where it is, too.
            ready = [query for query in due if self.materialized.are_at(self.plans_of(query).stored(state), state.scn)]
            if ready:
                self.stepper.compute(ready, state)
            self._set_clocks(due, now)
            if any(self.log_of(query).position < state.scn for query in ready if self.log_of(query).status == "active"):
                self._wake.set()

    def _is_due(self, query: Kept, log: QueryLog, state: CatalogState, now: float) -> bool:
        if log.status != "active" or query.when == "on demand":
            return False
        if query.when == "periodic":
            if log.next_at is None:
                # It was altered, and the database killed before its clock was set.
                log.next_at = next_time(query, now)
            return log.next_at <= now
        if log.position >= state.scn:
            return False
        if self._has_news(query, log, state.scn):
            return True
        if isinstance(query, ContinuousQuery) and query.stream is not None:
            # Rows that the reader of the stream has yet to absorb may be of any SCN up to now.
            return False
        if not self.materialized.are_at(self.plans_of(query).stored(state), state.scn):
            # What becomes of them counts up to now, too: a view is refreshed with them, a query comes after them.
            return isinstance(query, MaterializedView)
        log.position = state.scn
        self.tell()
        return False

    def _set_clocks(self, queries: Sequence[Kept], now: float) -> None:
        for query in queries:
            if query.when == "periodic":
                log = self.log_of(query)
                self.save(query, replace(log, next_at=next_time(query, now)))

    def failed(self, query: ContinuousQuery, error: Error, *, computed: bool = False) -> Error:
        """It stops where it is: nothing is lost, and ALTER … ACTIVATE goes on from there. `computed`: that its changes
        could not be computed, and not that what was computed could not be handed on."""
        if isinstance(error, Cancelled | TransactionConflict) or self._stop.is_set() or self._store.is_closed:
            return error
        if isinstance(error, EngineError) and "gone" in error.message:
            return error
        text = error.message + (f" ({error.detail})" if error.detail else "")
        error.hint = way_out(query, error, computed)
        with contextlib.suppress(Error):
            self.save(query, replace(self.log_of(query), status="suspended", error=text, hint=error.hint))
        return error

    def restart_clock(self, query: ContinuousQuery) -> None:
        """After ALTER … COMPUTE."""
        with self.computing, contextlib.suppress(UndefinedName):
            next_at = next_time(query, time.time()) if query.when == "periodic" else None
            self.save(query, replace(self.log_of(query), next_at=next_at))
        self.wake()

    def tidy(self) -> None:
        """Logs without what nobody needs any more."""
        with self.computing:
            for query in self._all(self._store.catalog.state):
                if isinstance(query, ContinuousQuery):
                    before = self.log_of(query)
                    log, gone = tidied(self._store, query, before, self.folder(query.id), now=True)
                    if gone:
                        self.save(query, log)
                        for file in gone:
                            file.doom()

    # --- states ------------------------------------------------------------------------------------

    def set_status(self, query: ContinuousQuery, status: Status) -> None:
        with self.computing:
            log = self.log_of(query)
            if query.stream is not None and "inactive" in (status, log.status) and status != log.status:
                if status == "inactive":
                    self.detach(query.id)
                else:
                    self.attach(query, self._store.catalog.state)
            if status == "active" and log.status == "inactive":
                log = self._anew(query)
            elif status == "inactive":
                for file in log.all_files:
                    file.doom()
                self.answers.forget(query.id)
                log = replace(log, files=[], answer=[], backing=None)
            next_at = next_time(query, time.time()) if query.when == "periodic" else None
            self.save(query, replace(log, status=status, error=None, hint=None, next_at=next_at))
        self.wake()

    def _anew(self, query: ContinuousQuery) -> QueryLog:
        """It has remembered nothing: what it hands out begins here."""
        state = self._store.catalog.state
        if self.plans_of(query).views(state):
            return self._beginning(self.answers.first(query))
        state = self.materialized.bring(self.plans_of(query).stored(state))
        scn = self._starts[query.id] if query.stream is not None else state.scn
        return QueryLog(scn, start=scn)


# --- small things --------------------------------------------------------------------------------------


def suspended(name: str, log: QueryLog) -> Error:
    return Error(
        f'"{name}" is {log.status}',
        detail=log.error,
        hint=log.hint or f"ALTER CONTINUOUS QUERY {name} ACTIVATE {_begins(log)}.",
        sqlstate="55000",
    )


def _begins(log: QueryLog) -> str:
    if log.status == "inactive":
        return "begins anew"
    return "goes on from there" if log.error is None else "goes on from there, once the cause is mended"


def way_out(query: ContinuousQuery, error: Error, computed: bool) -> str | None:
    """How a query goes on that an error has stopped. What it takes commit by commit it meets again as it was then."""
    if isinstance(error, WasReplaced):
        return error.hint
    alter, own = f"ALTER CONTINUOUS QUERY {query.name}", f"{error.hint} " if error.hint else ""
    if computed and query.transactional and isinstance(error, DataError | ConstraintViolation):
        return (
            "It goes commit by commit, and this commit stays as it was, whatever is mended later. "
            f"{alter} COMPUTE BATCHED ON DEMAND, then ACTIVATE, takes it together with those that mend it; "
            "DEACTIVATE, then ACTIVATE, begins anew."
        )
    return f"{own}{alter} ACTIVATE goes on from there, once the cause is mended."


def next_time(query: Kept, now: float) -> float:
    """The first time after now that the clock of a periodic query comes to."""
    period = float(query.period_seconds or 1)
    start = query.start_at if isinstance(query, ContinuousQuery) and query.start_at is not None else now
    return start if start > now else start + (int((now - start) / period) + 1) * period
