"""Continuous queries over the e-store at work: a transaction comes, and each query is brought up to date.

The tables are here and in DuckDB, which judges. A refresh is `SELECT cq_recompute('q')`, whose rows are in the query's
destination when it returns. Every destination is compared with what the judge expects before a time counts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

import midstream
from peers.datacell_kernel import KernelWatch
from peers.estore_judge import Judge
from peers.estore_workload import BOUGHT, COLUMNS, KEYED, TABLES, Change, Insert, Workload, as_values, named, over

ON_DEMAND = "BATCHED DELTA ON DEMAND"
DUCKDB = "DuckDB alone, again and compared"


@dataclass(frozen=True)
class Form:
    """How a change of the query is found."""

    name: str
    tables: str = KEYED
    options: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    compute: str = ON_DEMAND


@dataclass(frozen=True)
class Query:
    form: Form
    name: str
    destination: str


@dataclass(frozen=True)
class Refresh:
    seconds: float
    jobs: int = 0
    job_seconds: float = 0.0
    kernel_seconds: float = 0.0
    """Of the very same SQL, run again with no job around it, where that was asked for."""


Taken = dict[Any, dict[str, list[Refresh]]]
"""By what is varied, and by the name of the form."""


@dataclass(frozen=True)
class Measured:
    taken: Taken
    kernel: dict[Any, dict[str, float]]
    """Seconds of the kernel alone, for a change more."""
    told: dict[str, list[str]]
    """How each form is computed, in the words of the database."""


class Bench:
    def __init__(self, db: Any, folder: Path, users: int, orders: int, ids: str) -> None:
        self.db, self.folder = db, folder
        self.judge = Judge(users, orders, ids)
        self.workload = Workload(users, orders, ids, self.judge.rows)
        self.watch = KernelWatch(db)
        self.empty = self.watch.empty_job()
        self._numbers = itertools.count(1)
        self._behind: dict[str, list[Change]] = {}
        """By the sets of tables that are there: what they do not have yet."""

    # --- tables ----------------------------------------------------------------------------------

    def need(self, tables: str) -> None:
        """Such tables, with all that has happened so far."""
        if tables not in self._behind:
            self._load(tables)
            self._behind[tables] = []
        elif self._behind[tables]:
            self._transact(together(self._behind[tables]), tables)
            self._behind[tables] = []

    def _load(self, tables: str) -> None:
        files = self.judge.files(self.folder)
        for table in TABLES:
            name = named(table, tables)
            self.db.sql(f"CREATE TABLE {name} ({COLUMNS[tables][table]})")
            self.db.sql(f"COPY {name} FROM '{files[table]}' PARQUET")
            files[table].unlink()

    def change(self, change: Change, used: Collection[str]) -> None:
        """One transaction for each set of tables that is used now; the others get it when they are."""
        for tables in used:
            self._transact(change, tables)
        self.committed(change, used)

    def committed(self, change: Change, used: Collection[str]) -> None:
        """Only these sets of tables have it so far."""
        for tables, behind in self._behind.items():
            if tables not in used:
                behind.append(change)

    def _transact(self, change: Change, tables: str) -> None:
        with self.db.session() as session:
            session.sql("BEGIN")
            for step in change.of(tables):
                if isinstance(step, Insert):
                    session.insert(named(step.table, tables), step.rows)
                else:
                    session.sql(over(step.sql, tables))
            session.sql("COMMIT")

    # --- continuous queries ----------------------------------------------------------------------

    @contextmanager
    def queries(self, forms: Sequence[Form], ages: Sequence[int] = ()) -> Iterator[list[Query]]:
        made: list[Query] = []
        try:
            for tables in {form.tables for form in forms}:
                self.need(tables)
            for place, form in enumerate(forms):
                made.append(self._create(form, ages[place] if ages else 18))
            yield made
        finally:
            for query in made:
                self.db.sql(f"DROP CONTINUOUS QUERY {query.name}")
                self.db.sql(f"DROP TABLE {query.destination}")

    def _create(self, form: Form, age: int) -> Query:
        number = next(self._numbers)
        query = Query(form, f"q{number}", f"found{number}")
        self.db.sql(f"CREATE TABLE {query.destination} (itemid bigint, oid bigint, name text, kind text)")
        with self._settings(form):
            self.db.sql(
                f"CREATE CONTINUOUS QUERY {query.name} COMPUTE {form.compute} DESTINATION {query.destination} "
                f"{form.options} AS {over(BOUGHT, form.tables, ', cq_delta() AS kind', age)}"
            )
        return query

    @contextmanager
    def _settings(self, form: Form) -> Iterator[None]:
        for name, value in form.settings.items():
            self.db.sql(f"SET {name} = '{value}'")
        try:
            yield
        finally:
            for name in form.settings:
                self.db.sql(f"RESET {name}")

    def has_setting(self, name: str) -> bool:
        try:
            self.db.sql(f"SHOW {name}")
        except midstream.Error:
            return False
        return True

    def explained(self, query: Query) -> list[str]:
        """How it is computed, in the words of the database."""
        with self._settings(query.form):
            return [line for (line,) in self.db.sql(f"EXPLAIN CONTINUOUS QUERY {query.name}").fetchall()]

    def refresh(self, query: Query) -> Refresh:
        with self._settings(query.form):
            return self.timed(f"SELECT cq_recompute('{query.name}')")

    def timed(self, statement: str) -> Refresh:
        self.watch.taken()
        started = time.perf_counter()
        self.db.sql(statement).fetchall()
        seconds = time.perf_counter() - started
        jobs = self.watch.taken()
        kernel = sum(job.kernel_seconds or 0.0 for job in jobs)
        return Refresh(seconds, len(jobs), sum(job.seconds for job in jobs), kernel)

    def found(self, query: Query) -> pa.Table:
        return self.db.sql(f"SELECT itemid, oid, name, kind FROM {query.destination}").arrow()

    def check(self, queries: Sequence[Query]) -> None:
        for query in queries:
            self.judge.check(self.found(query), query.form.name)

    # --- what most cases do ----------------------------------------------------------------------

    def by_turns(
        self, forms: Sequence[Form], values: Sequence[Any], rounds: int, make: Callable[[Any, int], Change]
    ) -> Measured:
        """For each value and round a change, after which every query is refreshed, each time another one first. A
        change goes before, which does not count, and a round comes after, for the kernel alone."""
        taken: Taken = {value: {name: [] for name in (*(form.name for form in forms), DUCKDB)} for value in values}
        with self.queries(forms) as queries:
            told = {query.form.name: self.explained(query) for query in queries}
            self.judge.begin()
            self._turn(queries, make(values[0], 0))
            for number, value in itertools.product(range(rounds), values):
                queries = [*queries[1:], queries[0]]
                for name, refresh in self._turn(queries, make(value, number)).items():
                    taken[value][name].append(refresh)
            self.watch.replays = True
            again = {value: self._turn(queries, make(value, rounds - 1)) for value in values}
            self.watch.replays = False
        kernel = {value: {name: one.kernel_seconds for name, one in turn.items()} for value, turn in again.items()}
        return Measured(taken, kernel, told)

    def _turn(self, queries: Sequence[Query], change: Change) -> dict[str, Refresh]:
        self.change(change, {query.form.tables for query in queries})
        refreshes = {query.form.name: self.refresh(query) for query in queries}
        refreshes[DUCKDB] = Refresh(self.judge.take(change))
        self.check(queries)
        return refreshes


def together(changes: Sequence[Change]) -> Change:
    """Many transactions as one: inserts with nothing else between them become one insert a table."""
    steps: list[Any] = []
    all_steps = (step for change in changes for step in change.steps)
    for _, run in itertools.groupby(all_steps, type):
        listed = list(run)
        steps.extend(step for step in listed if not isinstance(step, Insert))
        for table in TABLES:
            rows = [step.rows for step in listed if isinstance(step, Insert) and step.table == table]
            steps.extend([Insert(table, pa.concat_tables(rows))] if rows else [])
    return Change(tuple(steps))


def transaction(change: Change, tables: str = KEYED) -> list[str]:
    """The statements of a client that inserts, but for its COMMIT."""
    return ["BEGIN", *(as_values(step, named(step.table, tables)) for step in change.steps if isinstance(step, Insert))]


def seconds_of(refreshes: Sequence[Refresh]) -> list[float]:
    return [refresh.seconds for refresh in refreshes]


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def cells(refreshes: Sequence[Refresh], kernel: float | None = None) -> list[str]:
    """The refresh, what of it were jobs, and what of these the kernel."""
    jobs = median(refresh.jobs for refresh in refreshes)
    own = milliseconds(median(refresh.job_seconds for refresh in refreshes)) if jobs else "–"
    return [milliseconds(median(seconds_of(refreshes))), f"{jobs:g}", own, milliseconds(kernel) if kernel else "–"]


def numbers(taken: Taken) -> dict[str, Any]:
    return {
        str(value): {name: [asdict(one) for one in refreshes] for name, refreshes in by_form.items()}
        for value, by_form in taken.items()
    }
