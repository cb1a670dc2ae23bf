"""One step of continuous queries: what commits changed of their answers, computed in one job and handed on.

A step is the change of one query up to one SCN, or of several commits that can be told apart. The steps of all queries
that are due run together; what each gives is written down together with what it does to a destination.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from midstream.errors import Cancelled, DataError, Error, InternalError, UniqueViolation
from midstream.maintenance.engine import Answer, Cancellation, FileColumn, Files, Piece, WriteParquet
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery
from midstream.runtime.constraints.asking import printed
from midstream.runtime.continuous import backing, delivering
from midstream.runtime.continuous.backing import Fold
from midstream.runtime.continuous.computing import Change, Unchanged
from midstream.runtime.continuous.log import Backing, QueryLog, log_columns
from midstream.runtime.continuous.settled import settled
from midstream.runtime.continuous.texts import KEY_CHECK, changes_text, key_check
from midstream.runtime.continuous.tidying import tidied
from midstream.runtime.jobs import run_by_kernel
from midstream.runtime.pipelines import kept_files
from midstream.runtime.reading import Between
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries

TOGETHER = 8
"""So many queries hand on their changes in one commit."""
STEPS = 64
"""So many commits of one query are computed in one job."""


@dataclass
class Spent:
    """What a query has cost since the database was opened."""

    computed: int = 0
    changes: int = 0
    jobs: int = 0
    seconds: float = 0.0
    last_seconds: float = 0.0


@dataclass(frozen=True)
class _Step:
    """The change of one query up to one SCN."""

    query: ContinuousQuery
    scn: int
    change: Change | None
    of_several: bool = False
    """Whether the changes of several commits are computed together, each with its SCN."""
    fold: Fold | None = None
    """What it does to what is kept of the query."""


@dataclass(frozen=True)
class _Done:
    """What a step has given: changes, and what is kept."""

    answer: Answer | None = None
    kept: Answer | None = None


@dataclass(frozen=True)
class Handing:
    """What a query is about to hand out: files of changes, its log with them, and files that the log then lacks."""

    query: ContinuousQuery
    files: Sequence[KeptFile]
    log: QueryLog
    gone: Sequence[KeptFile]


def as_error(fault: Exception) -> Error:
    """What is not an error of ours is a fault of ours."""
    if isinstance(fault, Error):
        return fault
    return InternalError(f"an unexpected fault: {type(fault).__name__}", detail=str(fault), hint="Please report it.")


def _changed(found: Change | Unchanged | None) -> Change | None:
    return found if isinstance(found, Change) else None


@dataclass(frozen=True)
class Stepper:
    store: Store
    queries: Queries

    def compute(
        self,
        queries: Sequence[ContinuousQuery],
        state: CatalogState,
        cancellation: Cancellation | None = None,
        failed: Error | None = None,
    ) -> dict[int, Error]:
        """The changes of several queries up to a picture, in one job for each kernel; those that fail are suspended.
        `failed`: why they are not computed by changes."""
        began, failures = time.monotonic(), dict[int, Error]()
        steps = list[_Step]()
        others = [query for query in queries if query.stream is not None or self.queries.plans_of(query).views(state)]
        for query in others:
            try:
                if query.stream is not None:
                    self._collect(query)
                else:
                    self._compare(query, cancellation)
            except Exception as fault:
                failures[query.id] = self.queries.failed(query, as_error(fault))
        queries = [query for query in queries if query not in others]
        for query in queries:
            try:
                steps += self._steps_of(query, state) if failed is None else self._full_steps_of(query, state)
            except Exception as fault:
                failures[query.id] = self.queries.failed(query, as_error(fault), computed=True)
        try:
            answers = self._run_steps(steps, cancellation)
        except Error as error:
            if len(queries) > 1 and not isinstance(error, Cancelled):
                return {id: e for query in queries for id, e in self.compute([query], state, cancellation).items()}
            if failed is None and isinstance(error, DataError) and steps and steps[0].query.refresh != "incremental":
                # Two rows that were never there together, say, may meet in a term.
                return failures | self.compute([steps[0].query], state, cancellation, error)
            return failures | {
                query.id: self.queries.failed(query, error, computed=True)
                for query in queries
                if query.id not in failures
            }
        ready = list[Handing]()
        for query in queries:
            own = [(step, done) for step, done in zip(steps, answers, strict=True) if step.query is query]
            if own and query.id not in failures:
                try:
                    ready += self._made(query, own, failed)
                except Exception as fault:
                    failures[query.id] = self.queries.failed(query, as_error(fault), computed=True)
        failures |= self._hand_on_together(ready)
        self._note_costs(queries, steps, time.monotonic() - began)
        return failures

    def _compare(self, query: ContinuousQuery, cancellation: Cancellation | None) -> None:
        """A query over continuous views: its new answer against its last."""
        log = self.queries.log_of(query)
        found = self.queries.answers.next(query, log.answer, cancellation or self.queries.cancellation)
        if found.answer == log.answer:
            log.position = max(log.position, found.scn)
            self.queries.tell()
            return
        moved = replace(log.with_files(found.changes, found.scn), answer=found.answer)
        before = log.answer
        self._hand_on([self._handing(query, found.changes, moved)])
        for file in before:
            file.doom()

    def _collect(self, query: ContinuousQuery) -> None:
        """Takes over what the reader of its stream has made of new rows."""
        entry, reader = self.queries.reader_of(query)
        log = self.queries.log_of(query)
        files = sorted((file for file in reader.files if file.upto > log.position), key=lambda file: file.upto)
        position = max([log.position, entry.absorbed, *(file.upto for file in files)])
        if files:
            self._hand_on([self._handing(query, files, log.with_files(files, position))])
        else:
            log.position = position
            self.queries.tell()

    def _steps_of(self, query: ContinuousQuery, state: CatalogState) -> list[_Step]:
        """What is to be computed: commit by commit, or all commits as one."""
        log, plans, catalog = self.queries.log_of(query), self.queries.plans_of(query), self.store.catalog
        scns, are_commits = self._scns_of(query, state)
        if not scns:
            plans.check_same(Between(state, catalog.state_at(log.position)))
            return [_Step(query, state.scn, None)]
        steps, first, folder = list[_Step](), catalog.state_at(log.position), self.queries.folder(query.id)
        kept = backing.before(plans, Between(state, first), log.backing, folder)
        if len(scns) > 1 and are_commits and (query.key_is_proved or not query.key):
            between = Between(state, first)
            together = plans.change(between, by_commit=True, kept=_files(kept))
            if together is not None:
                own = backing.fold(plans, between, kept, folder, log.backing)
                return [_Step(query, state.scn, _changed(together), of_several=True, fold=own)]
        before = first
        for scn in scns[:STEPS]:
            between = Between(state if scn == state.scn else catalog.state_at(scn), before)
            # What is kept is as it was before the first step.
            own_kept = _files(kept) if before is first else None
            steps.append(_Step(query, scn, _changed(plans.change(between, kept=own_kept))))
            before = between.state
        own = backing.fold(plans, Between(before, first), kept, folder, log.backing)
        steps[-1] = replace(steps[-1], fold=own)
        if len(scns) <= STEPS and steps[-1].scn < state.scn:
            steps.append(_Step(query, state.scn, None))
        return steps

    def _scns_of(self, query: ContinuousQuery, state: CatalogState) -> tuple[list[int], bool]:
        """The SCNs that it goes to one after another, and whether these are all commits that changed what it reads."""
        log, ids = self.queries.log_of(query), [table.id for table in self.queries.plans_of(query).tables(state)]
        scns = self.store.catalog.commits_that_changed(ids, log.position, state.scn) if ids else []
        if not scns or not query.transactional:
            return ([state.scn] if scns else []), False
        found = settled(self.store, self.queries, query, scns, log.position, state.scn)
        rest = [] if found and found[-1] == scns[-1] else [state.scn]
        return [*found, *rest], found == scns

    def _full_steps_of(self, query: ContinuousQuery, state: CatalogState) -> list[_Step]:
        """The same without any term: all of the answer before and after, compared."""
        log, plans, catalog = self.queries.log_of(query), self.queries.plans_of(query), self.store.catalog
        scns, _ = self._scns_of(query, state)
        steps, before = list[_Step](), catalog.state_at(log.position)
        gone = Fold(None, gone=log.backing.files) if log.backing is not None else None
        for scn in scns[:STEPS]:
            between = Between(state if scn == state.scn else catalog.state_at(scn), before)
            fold = gone if not steps else None
            steps.append(_Step(query, scn, _changed(plans.change(between, in_full=True)), fold=fold))
            before = between.state
        return steps

    def _run_steps(self, steps: Sequence[_Step], cancellation: Cancellation | None) -> list[_Done]:
        """What they give, in one job for each kernel."""
        wanted = [(step.change.kernel, self._piece(step)) for step in steps if step.change is not None]
        folds = [(step.fold.kernel, step.fold.piece) for step in steps if step.fold is not None]
        pieces = [*wanted, *((kernel, piece) for kernel, piece in folds if piece is not None)]
        self.queries.jobs += len({kernel for kernel, _ in pieces})
        stop = cancellation or self.queries.cancellation
        answers = run_by_kernel(self.store, pieces, label="changes", cancellation=stop)
        changes, kept = iter(answers), iter(answers[len(wanted) :])
        return [
            _Done(
                next(changes) if step.change is not None else None,
                next(kept) if step.fold is not None and step.fold.piece is not None else None,
            )
            for step in steps
        ]

    def _piece(self, step: _Step) -> Piece:
        query, change = step.query, step.change
        assert change is not None
        os.makedirs(self.queries.folder(query.id), exist_ok=True)
        key = key_places(query)
        scn = None if step.of_several else step.scn
        text = changes_text(change.net, len(query.columns), key, scn, change.kernel)
        checks = [key_check(key, change.kernel)] if key else []
        columns = log_columns([type_ for _, type_ in query.columns])
        output = WriteParquet(self.queries.folder(query.id), columns, compressed=False)
        return change.sources.piece(text, output, checks)

    def _made(
        self, query: ContinuousQuery, steps: Sequence[tuple[_Step, _Done]], failed: Error | None
    ) -> list[Handing]:
        """What the steps of a query have given, ready to be handed on; none if nothing has changed."""
        files: list[KeptFile] = []
        log = before = self.queries.log_of(query)
        if failed is not None:
            log = replace(log, last_full=f"by changes, it failed: {failed.message}")
        gone = list[KeptFile]()
        for step, done in steps:
            if done.answer is not None:
                self.check_key(query, done.answer)
                files += [file for file in kept_files(self.store, [done.answer], step.scn) if file.rows]
            if step.fold is not None:
                log = replace(log, backing=step.fold.after(self.store, done.kept))
                gone += step.fold.gone
        position = steps[-1][0].scn
        if files:
            self._check_others(query, files, position)
        log = log.with_files(files, position)
        if files:
            return [self._handing(query, files, log, gone)]
        if log.backing != before.backing:
            self.queries.save(query, log)
            for file in gone:
                file.doom()
        else:
            before.become(log)
            self.queries.tell()
        return []

    def _handing(
        self, query: ContinuousQuery, files: Sequence[KeptFile], log: QueryLog, gone: Sequence[KeptFile] = ()
    ) -> Handing:
        delivering.check_room(self.store, query, log)
        log, others = tidied(self.store, query, log, self.queries.folder(query.id))
        return Handing(query, files, log, [*gone, *others])

    def _hand_on_together(self, ready: Sequence[Handing]) -> dict[int, Error]:
        """Several queries in one commit, but so few that no client waits long for it; where that fails, one by one."""
        failures: dict[int, Error] = {}
        for first in range(0, len(ready), TOGETHER):
            group = ready[first : first + TOGETHER]
            try:
                self._hand_on(group)
            except Exception:
                for one in group:
                    try:
                        self._hand_on([one])
                    except Exception as fault:
                        failures[one.query.id] = self.queries.failed(one.query, as_error(fault))
        return failures

    def _hand_on(self, group: Sequence[Handing]) -> None:
        delivering.deliver(self.store, [(one.query, one.files, one.log.written()) for one in group])
        for one in group:
            for file in one.gone:
                file.doom()
            self.queries.spent.setdefault(one.query.id, Spent()).changes += sum(file.rows for file in one.files)
            self.queries.log_of(one.query).become(one.log)
        self.queries.tell()
        self.queries.triggers.wake()

    def check_key(self, query: ContinuousQuery, answer: Answer) -> None:
        found = answer.checks.get(KEY_CHECK)
        if found is not None and found.num_rows:
            raise key_violation(query, list(found.slice(0, 1).to_pylist()[0].values()))

    def _check_others(self, query: ContinuousQuery, files: Sequence[KeptFile], scn: int) -> None:
        """A key that came must not be one that a row had then, whether or not it has gone since."""
        if not query.key or query.key_is_proved:
            return
        state = self.store.catalog.state_at(scn)
        found = self.queries.materialized.answers_with_keys(query, state, files, key_places(query))
        if found:
            raise key_violation(query, found)

    def _note_costs(self, queries: Sequence[ContinuousQuery], steps: Sequence[_Step], seconds: float) -> None:
        for query in queries:
            spent = self.queries.spent.setdefault(query.id, Spent())
            spent.computed += sum(step.query is query for step in steps)
            spent.jobs += 1
            spent.seconds += seconds
            spent.last_seconds = seconds


# --- small things --------------------------------------------------------------------------------------


def _files(backing: Backing | None) -> Sequence[KeptFile] | None:
    return backing.files if backing is not None else None


def key_places(query: ContinuousQuery) -> list[int]:
    return [query.column_names.index(name) for name in query.key]


def log_input(query: ContinuousQuery, files: Sequence[KeptFile]) -> Files:
    return Files(
        tuple(file.path for file in files),
        tuple(FileColumn(name, type_) for name, type_ in log_columns([type_ for _, type_ in query.columns])),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
    )


def key_violation(query: ContinuousQuery, values: Sequence[object]) -> UniqueViolation:
    named = f"({', '.join(query.key)})=({', '.join(printed(value) for value in values)})"
    is_null = any(value is None for value in values)
    return UniqueViolation(
        f'continuous query "{query.name}" violates its primary key',
        detail=f"Key {named} {'has a NULL' if is_null else 'belongs to more than one row of the result'}.",
        hint="Mend the rows, or choose another key.",
    )
