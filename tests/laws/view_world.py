"""A database with random streams, tables and views, and PostgreSQL beside it with all rows of the streams in tables.

PostgreSQL has `s0_rows` with every row that stream s0 has got so far, `t0` as it is now, and `t0_then_3` as it was
when the views of epoch 3 were made. A view of that epoch has seen the rows whose number is above the epoch's first.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
from answers import same_rows
from choices import Choices
from random_queries import RandomQuery, spelled
from random_tables import TAME, WILD, RandomTable, random_tables, with_keys
from random_views import STREAM_COLUMNS, RandomView, ViewMaker, named

import midstream

STREAMS = ("s0", "s1", "s2")
CONSTRAINT = "23"
"""How the SQLSTATEs begin of what a constraint forbids."""
_schemas = itertools.count()


@dataclass(frozen=True)
class Epoch:
    """When views were made: tables below groupings are as of it, rows of streams count after it."""

    number: int
    last_row: int


@dataclass
class Tally:
    views: int = 0
    reads: int = 0
    broken: int = 0
    """So many queries fail on PostgreSQL, too."""
    refused: list[str] = field(default_factory=list)


class Difference(AssertionError):
    """A view that answers something else than its query."""


class World:
    """One database in a folder, that may be closed and opened again, and its judge."""

    def __init__(self, seed: int, folder: str, dsn: str, kernel: str = "duckdb") -> None:
        self.folder, self.kernel = folder, kernel
        self.choices = Choices(seed)
        self.tables = tuple(with_keys(self.choices, table) for table in random_tables(self.choices, "w"))
        self.views: dict[str, tuple[RandomView, Epoch]] = {}
        self.drawn: dict[str, list[int]] = {}
        """The choices that each view was made by."""
        self.epochs = [Epoch(0, 0)]
        self.last_row = 0
        self.near = near_now(datetime.now(timezone.utc))
        """Values of times around now, for conditions on the moment of reading."""
        self.changes: list[str] = []
        self.judge = psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC -c statement_timeout=20000")
        self.schema = f"views_{next(_schemas)}"
        self.judge.execute(f"CREATE SCHEMA {self.schema}; SET search_path = {self.schema}".encode())
        self.open()
        self._make_relations()

    def open(self) -> None:
        self.db = midstream.connect(self.folder)
        self.db.sql(f"SET kernel = '{self.kernel}'")

    def restart(self) -> None:
        self.db.close()
        self.open()

    def close(self) -> None:
        self.db.close()
        self.judge.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())
        self.judge.close()

    def _make_relations(self) -> None:
        columns = ", ".join(f"{column.name} {column.type}" for column in STREAM_COLUMNS)
        for stream in STREAMS:
            self.db.sql(f"CREATE STREAM {stream} ({columns})")
            twin = RandomTable(f"{stream}_rows", STREAM_COLUMNS, ())
            self.judge.execute(twin.create(postgres=True).encode())
        for table in self.tables:
            self.db.sql(table.create(postgres=False))
            self.judge.execute(table.create(postgres=True).encode())
            if insert := table.insert():
                self.on_both(insert)

    # what happens

    def on_both(self, sql: str) -> None:
        """A change that a key forbids is refused by both."""
        self.changes.append(sql)
        answers = self._answer(sql), self._judged(sql)
        if answers[0] != answers[1]:
            raise Difference(f"{sql}\nis {answers[0]}, and for the judge {answers[1]}")

    def _answer(self, sql: str) -> str:
        try:
            self.db.sql(sql)
        except midstream.Error as error:
            if not error.sqlstate.startswith(CONSTRAINT):
                raise
            return error.sqlstate
        return "done"

    def _judged(self, sql: str) -> str:
        try:
            self.judge.execute(sql.encode())
        except psycopg.IntegrityError as error:
            return str(error.sqlstate)
        return "done"

    def insert(self, rows: int) -> None:
        """Rows for one stream; or for several under one commit."""
        if self.choices.chance(4):
            parts = [self._rows_of(stream, 1 + rows // 3) for stream in STREAMS]
            with self.db.session() as session:
                session.sql("BEGIN; " + "; ".join(parts))
                session.sql("COMMIT")
        else:
            parts = [self._rows_of(self.choices.pick(STREAMS), rows)]
            self.db.sql(parts[0])
        self.changes += parts
        for part in parts:
            self.judge.execute(part.replace(" VALUES", "_rows VALUES", 1).encode())

    def _rows_of(self, stream: str, rows: int) -> str:
        return f"INSERT INTO {stream} VALUES " + ", ".join(self._row() for _ in range(rows))

    def _row(self) -> str:
        self.last_row += 1
        values = [str(self.last_row)]
        for column in STREAM_COLUMNS[1:]:
            options = TAME[column.type] if column.tame else TAME[column.type] + WILD[column.type]
            if column.name in self.near and self.choices.chance(2):
                options = self.near[column.name]
            values.append("NULL" if self.choices.chance(6) else self.choices.pick(options))
        return f"({', '.join(values)})"

    def change_a_table(self) -> None:
        """Views see it where the table stands above their grouping, and must not where it stands below."""
        table, number = self.choices.pick(self.tables), self.choices.between(-1, 3)
        match self.choices.draw(4):
            case 0 | 1:
                i, s = (self.choices.pick(["NULL", *TAME[type_]]) for type_ in ("int", "text"))
                self.on_both(f"INSERT INTO {table.name} (k, i, s) VALUES ({number}, {i}, {s})")
            case 2:
                self.on_both(f"UPDATE {table.name} SET i = k, s = s || 'x' WHERE k = {number}")
            case _:
                self.on_both(f"DELETE FROM {table.name} WHERE k = {number}")

    # views

    def new_epoch(self) -> Epoch:
        epoch = Epoch(self.epochs[-1].number + 1, self.last_row)
        for table in self.tables:
            copy = f"CREATE TABLE {table.name}_then_{epoch.number} AS TABLE {table.name}"
            self.judge.execute(copy.encode())
        self.epochs.append(epoch)
        return epoch

    def query_of(self, source: int | Sequence[int], *, adhoc: bool = False) -> tuple[RandomQuery, list[int]]:
        choices = Choices(source)
        views = tuple(view for view, _ in self.views.values())
        return ViewMaker(choices, STREAMS, self.tables, views, adhoc=adhoc).view(), choices.drawn

    def create(self, query: RandomQuery, epoch: Epoch, tally: Tally) -> RandomView | None:
        """Makes a view, unless it may be refused: the kernel could not run its query over tables, either."""
        name = f"v{tally.views}"
        tally.views += 1
        try:
            self.db.sql(f"CREATE VIEW {name} AS {self.ours(query)}")
        except midstream.Error as error:
            if error.sqlstate == "0A000" and self.refuses_over_tables(query):
                tally.refused.append(str(error))
                return None
            raise Difference(f"refused: {error}\n{self.ours(query)}") from error
        view = RandomView(name, query)
        self.views[name] = view, epoch
        return view

    def refuses_over_tables(self, query: RandomQuery) -> bool:
        """Whether the kernel has not all functions of a query, streams or not."""
        columns = ", ".join(f"{column.name} {column.type}" for column in STREAM_COLUMNS)
        for stream in STREAMS:
            self.db.sql(f"CREATE TABLE IF NOT EXISTS {stream}_empty ({columns})")
        try:
            self.db.sql(self.over_tables(query))
        except midstream.Error as error:
            return error.sqlstate == "0A000"
        return False

    def over_tables(self, query: RandomQuery) -> str:
        """The query with an empty table for every stream: does it run at all?"""

        def name_of(kind: str, name: str) -> str:
            if kind == "view":
                return f"({self.over_tables(self.views[name][0].query)})"
            return f"{name}_empty" if kind == "stream" else name

        return spelled(named(query.sql, name_of), postgres=False)

    def ours(self, query: RandomQuery) -> str:
        return spelled(named(query.sql, lambda _, name: name), postgres=False)

    def theirs(self, query: RandomQuery, epoch: Epoch) -> str:
        def name_of(kind: str, name: str) -> str:
            if kind == "stream":
                return f"(SELECT * FROM {name}_rows WHERE id > {epoch.last_row})"
            if kind == "frozen":
                return f"{name}_then_{epoch.number}"
            view, then = self.views[name]
            return f"({self.theirs(view.query, then)})"

        return spelled(named(query.sql, name_of), postgres=True)

    # answers

    def check(self, view: str, tally: Tally) -> None:
        made, epoch = self.views[view]
        self.compare(f"SELECT * FROM {view}", self.theirs(made.query, epoch), made.query, tally)

    def check_statement(self, query: RandomQuery, tally: Tally) -> None:
        """A statement over views, which has no epoch of its own: it reads tables as of now."""
        self.compare(self.ours(query), self.theirs(query, self.epochs[0]), query, tally)

    def compare(self, ours: str, theirs: str, query: RandomQuery, tally: Tally) -> None:
        tally.reads += 1
        try:
            wanted = self.judge.execute(theirs.encode()).fetchall()
        except psycopg.Error:
            tally.broken += 1
            return
        try:
            result = self.db.sql(ours)
            got = result.fetchall()
        except midstream.Error as error:
            raise Difference(f"{ours}\nsays {error.sqlstate}: {error}\n{self.told(query)}") from error
        types = zip(query.types, map(str, result.types), strict=True)
        wrong = [
            pair for pair in types if pair[0] is not None and pair[0].partition("(")[0] != pair[1].partition("(")[0]
        ]
        if wrong:
            raise Difference(f"types {wrong} (wanted, got)\n{self.told(query)}")
        if not same_rows(got, wanted, ordered=False):
            raise Difference(f"{ours} differs\n{told_apart(got, wanted)}\n{self.told(query)}")

    def try_alone(self, query: RandomQuery) -> str | None:
        """What is wrong with a view that is made anew and gets all rows again, each stream's in one insert."""
        tally, epoch = Tally(), self.new_epoch()
        name = f"alone_{epoch.number}"
        try:
            self.db.sql(f"CREATE VIEW {name} AS {self.ours(query)}")
        except midstream.Error as error:
            return None if self.refuses_over_tables(query) else f"refused: {error}\n{self.ours(query)}"
        self.views[name] = RandomView(name, query), epoch
        try:
            for stream in STREAMS:
                insert = self._rows_of(stream, 12)
                self.db.sql(insert)
                self.judge.execute(insert.replace(" VALUES", "_rows VALUES", 1).encode())
            self.check(name, tally)
        except Difference as wrong:
            return str(wrong)
        finally:
            del self.views[name]
            self.db.sql(f"DROP VIEW {name}")
        return None

    def told(self, query: RandomQuery) -> str:
        return f"{self.ours(query)}\njudged by\n{self.theirs(query, self.epochs[-1])}"


def near_now(now: datetime) -> dict[str, list[str]]:
    """Before and after each bound of a condition on the moment, and at least half an hour from all of them."""
    hours = (-72.0, -26.5, -2.0, -0.4, 30.0)
    moments = [now + timedelta(hours=number) for number in hours]
    return {
        "ts": [f"'{moment:%Y-%m-%d %H:%M:%S}'" for moment in moments],
        "day": [f"'{now + timedelta(days=number):%Y-%m-%d}'" for number in (-5, -1, 0, 2)],
    }


def told_apart(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> str:
    left, right = Counter(map(repr, ours)), Counter(map(repr, theirs))
    lines = [f"  only the view:  {row}" for row in list((left - right).elements())[:8]]
    return "\n".join(lines + [f"  only its query: {row}" for row in list((right - left).elements())[:8]])
