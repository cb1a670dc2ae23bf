"""A database with random streams and window views, and a judge who looks at one window at a time.

PostgreSQL has every row of every stream in `s0_rows`, numbered as it came, with its time and whether it was in time.
Which windows are complete, and from where to where they go, says window_model.py; PostgreSQL runs the view's query over
the rows of one window, and the results of all windows that are kept are what the view must answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from answers import same_rows
from choices import Choices
from random_queries import RandomQuery, spelled
from random_tables import TAME, WILD, RandomTable, random_tables
from random_views import STREAM_COLUMNS, named
from random_windows import BOUND, SECOND, UNTIMED, WindowMaker, WindowView
from view_world import Difference, Tally, told_apart
from window_model import Read, Rows, Span, complete, moment

import midstream

STREAMS = ("s0", "s1", "s2")
KEPT = 100
"""So many results are kept where nothing is said."""
BASES = (1_700_000_000, 0)
"""Where times begin: somewhere, or just before and after 1970."""
_schemas = itertools.count()


@dataclass(frozen=True)
class Insert:
    stream: str
    rows: tuple[tuple[str, ...], ...]
    times: tuple[int | None, ...]

    @property
    def sql(self) -> str:
        times = ["NULL" if time is None else f"'{moment(time)}'" for time in self.times]
        rows = (f"({', '.join(row)}, {time})" for row, time in zip(self.rows, times, strict=True))
        return f"INSERT INTO {self.stream} VALUES {', '.join(rows)}"


@dataclass(frozen=True)
class Restart:
    sql = "-- closed and opened again"


@dataclass(frozen=True)
class Look:
    """Views are read, so that what is complete is computed now."""

    sql = "-- views are read"


Act = Insert | Restart | Look


@dataclass(frozen=True)
class Made:
    name: str
    view: WindowView
    since: dict[str, int]
    retain: int | None
    twin: str | None = None
    at: int = 0
    """How many acts were before it."""

    @property
    def reads(self) -> list[Read]:
        return [Read(mark.removesuffix("x"), span, self.since[mark[:2]]) for mark, span in self.view.spans.items()]


@dataclass
class WindowWorld:
    seed: int
    folder: str
    dsn: str
    kernel: str = "duckdb"
    scale: int = 1
    views: dict[str, Made] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    last_row: int = 0

    def __post_init__(self) -> None:
        self.choices = Choices(self.seed)
        self.tables = random_tables(self.choices, "w")[:2]
        lateness = self.choices.pick([0, 3, 10, 30]) * SECOND
        self.rows = {"s0": Rows(lateness), "s1": Rows(0), "s2": Rows(0, has_clock=False)}
        self.now = dict.fromkeys(STREAMS, self.choices.pick(BASES) * SECOND - 20 * SECOND)
        self.judge = psycopg.connect(self.dsn, autocommit=True, options="-c timezone=UTC -c statement_timeout=20000")
        self.schema = f"windows_{next(_schemas)}"
        self.judge.execute(f"CREATE SCHEMA {self.schema}; SET search_path = {self.schema}".encode())
        self.open()
        self._make_relations()

    def open(self) -> None:
        self.db = midstream.connect(self.folder)
        self.db.sql(f"SET kernel = '{self.kernel}'")

    def close(self) -> None:
        self.db.close()
        self.judge.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())
        self.judge.close()

    def _make_relations(self) -> None:
        columns = ", ".join(f"{column.name} {column.type}" for column in STREAM_COLUMNS)
        for stream in STREAMS:
            lateness = f", lateness = '{self.rows[stream].lateness // SECOND} seconds'" if stream == "s0" else ""
            timed = f" WITH (timestamp = 'at'{lateness})" if stream != UNTIMED else ""
            self.db.sql(f"CREATE STREAM {stream} ({columns}, at timestamp){timed}")
            twin = RandomTable(f"{stream}_rows", STREAM_COLUMNS, ()).create(postgres=True)
            extra = ", at timestamp, place bigint, in_time boolean, micros bigint)"
            self.judge.execute((twin.removesuffix(")") + extra).encode())
            self.judge.execute(f"CREATE INDEX ON {stream}_rows (place)".encode())
        for table in self.tables:
            self.db.sql(table.create(postgres=False))
            self.judge.execute(table.create(postgres=True).encode())
            if insert := table.insert():
                self.db.sql(insert)
                self.judge.execute(insert.encode())

    # what happens

    def act(self, act: Act) -> None:
        self.acts.append(act)
        match act:
            case Insert():
                self.db.sql(act.sql)
                self._tell_judge(act)
            case Restart():
                self.db.close()
                self.open()
            case Look():
                for name in self.views:
                    self.db.sql(f"SELECT * FROM {name}").fetchall()

    def _tell_judge(self, insert: Insert) -> None:
        rows = self.rows[insert.stream]
        place, in_time = len(rows.times), rows.insert(insert.times)
        values = []
        for number, (row, time, is_in_time) in enumerate(zip(insert.rows, insert.times, in_time, strict=True)):
            at = "NULL, NULL" if time is None else f"'{moment(time)}', {time}"
            when, micros = at.split(", ")
            values.append(f"({', '.join(row)}, {when}, {place + number}, {is_in_time}, {micros})")
        self.judge.execute(f"INSERT INTO {insert.stream}_rows VALUES {', '.join(values)}".encode())

    def random_insert(self, count: int, pace: int = 2) -> Insert:
        """Times go on by `pace` seconds at most from row to row; some are older, some are too old."""
        stream = self.choices.pick(STREAMS)
        rows = tuple(self._row() for _ in range(count))
        return Insert(stream, rows, tuple(self._time(stream, pace) for _ in range(count)))

    def _row(self) -> tuple[str, ...]:
        self.last_row += 1
        values = [str(self.last_row)]
        for column in STREAM_COLUMNS[1:]:
            options = TAME[column.type] if column.tame else TAME[column.type] + WILD[column.type]
            values.append("NULL" if self.choices.chance(6) else self.choices.pick(options))
        return tuple(values)

    def _time(self, stream: str, pace: int) -> int | None:
        match self.choices.draw(12):
            case 0 | 1 | 2:
                self.now[stream] += self.choices.draw(pace * SECOND + 1)
            case 3 | 4 | 5:
                self.now[stream] = (self.now[stream] // SECOND + pace) * SECOND
            case 6:
                self.now[stream] += 20 * SECOND if self.choices.chance(5) else 0
            case 7 | 8:
                return self.now[stream] - self.choices.draw(12) * SECOND
            case 9:
                return self.now[stream] // SECOND * SECOND - 1
            case 10 if stream == UNTIMED and self.choices.chance(2):
                return None
            case _:
                pass
        return self.now[stream]

    # views

    def view_of(self, source: int | Sequence[int]) -> tuple[WindowView, list[int]]:
        choices = Choices(source)
        return WindowMaker(choices, self.tables, self.scale).window_view(), choices.drawn

    def create(self, view: WindowView, tally: Tally, *, retain: int | None = 100_000, twin: bool = True) -> Made | None:
        """Makes a view, unless it may be refused: the kernel could not run its query over tables, either."""
        name = f"v{tally.views}"
        tally.views += 1
        kept = f"retain = {retain}" if retain is not None else ""
        try:
            self.db.sql(f"CREATE VIEW {name}{_with(kept)} AS {self.ours(view)}")
            if twin:
                self.db.sql(f"CREATE VIEW {name}_again{_with(kept, SLOWLY)} AS {self.ours(view)}")
        except midstream.Error as error:
            if error.sqlstate == "0A000" and self.refuses_over_tables(view.query):
                tally.refused.append(str(error))
                return None
            raise Difference(f"refused: {error}\n{self.ours(view)}") from error
        since = {stream: len(rows.times) for stream, rows in self.rows.items()}
        made = Made(name, view, since, retain, f"{name}_again" if twin else None, len(self.acts))
        self.views[name] = made
        for read in made.reads:
            self.rows[read.stream].has_clock |= read.span.by == "time"
        return made

    def refuses_over_tables(self, query: RandomQuery) -> bool:
        """Whether the kernel has not all functions of a query, windows or not."""
        columns = ", ".join(f"{column.name} {column.type}" for column in STREAM_COLUMNS)
        for stream in STREAMS:
            self.db.sql(f"CREATE TABLE IF NOT EXISTS {stream}_empty ({columns})")
        text = named(query.sql, lambda kind, name: f"{name[:2]}_empty" if kind == "stream" else name)
        try:
            self.db.sql(spelled(BOUND.sub("CAST(NULL AS bigint)", text), postgres=False))
        except midstream.Error as error:
            return error.sqlstate == "0A000"
        return False

    def ours(self, view: WindowView) -> str:
        text = BOUND.sub(lambda mark: f"{mark[3]}.window_{mark[1]}", view.query.sql)
        text = named(text, lambda kind, name: view.text_of(name) if kind == "stream" else name)
        return spelled(text, postgres=False)

    def theirs(self, made: Made, number: int) -> str:
        """The query over the rows of one window."""

        def rows_of(kind: str, name: str) -> str:
            if kind != "stream":
                return name
            start, end = made.view.spans[name].bounds(number)
            stream, since = name[:2], made.since[name[:2]]
            columns = ", ".join(column.name for column in STREAM_COLUMNS)
            if made.view.spans[name].by == "rows":
                return f"(SELECT {columns} FROM {stream}_rows WHERE place >= {start + since} AND place < {end + since})"
            from_start = "" if start is None else f" AND micros >= {start}"
            test = f"place >= {since} AND in_time AND micros < {end}{from_start}"
            return f"(SELECT {columns} FROM {stream}_rows WHERE {test})"

        def bound_of(which: str, name: str) -> str:
            start, end = made.view.spans[name].bounds(number)
            value = end if which == "end" else start
            if value is None:
                first = self.rows[name[:2]].first_since(made.since[name[:2]])
                value = (first or 0) // made.view.spans[name].slide * made.view.spans[name].slide
            if made.view.spans[name].by == "rows":
                return f"CAST({value} AS bigint)"
            return f"CAST('{moment(value)}' AS timestamp)"

        text = BOUND.sub(lambda mark: bound_of(mark[1], mark[2]), made.view.query.sql)
        return spelled(named(text, rows_of), postgres=True)

    # answers

    def check(self, name: str, tally: Tally) -> None:
        made = self.views[name]
        numbers = complete(made.reads, self.rows)
        kept = numbers[-(made.retain or KEPT) :]
        tally.reads += 1
        try:
            by_window = [self.judge.execute(self.theirs(made, number).encode()).fetchall() for number in kept]
        except psycopg.Error:
            tally.broken += 1
            return
        wanted = [row for rows in by_window for row in rows]
        for view in [made.name, *([made.twin] if made.twin else [])]:
            self._compare(f"SELECT * FROM {view} ALL WINDOWS", wanted, made)
            self._compare(f"SELECT * FROM {view}", by_window[-1] if by_window else [], made)

    def _compare(self, ours: str, wanted: list[tuple[Any, ...]], made: Made) -> None:
        try:
            result = self.db.sql(ours)
            got = result.fetchall()
        except midstream.Error as error:
            raise Difference(f"{ours}\nsays {error.sqlstate}: {error}\n{self.told(made)}") from error
        types = zip(made.view.query.types, map(str, result.types), strict=True)
        wrong = [(a, b) for a, b in types if a is not None and a.partition("(")[0] != b.partition("(")[0]]
        if wrong:
            raise Difference(f"types {wrong} (wanted, got)\n{self.told(made)}")
        if not same_rows(got, wanted, ordered=False):
            raise Difference(f"{ours} differs\n{told_apart(got, wanted)}\n{self.told(made)}")

    def check_late(self, stream: str) -> None:
        """Rows that are in no window by time are kept beside."""
        rows = self.rows[stream]
        wanted = self.judge.execute(f"SELECT id FROM {stream}_rows WHERE NOT in_time".encode()).fetchall()
        got = self.db.sql(f"SELECT id FROM late_{stream}").fetchall()
        if sorted(got) != sorted(wanted):
            raise Difference(f"late_{stream} differs, lateness {rows.lateness}\n{told_apart(got, wanted)}")

    def told(self, made: Made) -> str:
        numbers = complete(made.reads, self.rows)
        newest = self.theirs(made, numbers[-1]) if numbers else "nothing"
        return f"{self.ours(made.view)}\nwindows {numbers}, the newest judged by\n{newest}"


SLOWLY = "maintenance = 'reevaluate'"


def _with(*options: str) -> str:
    given = [option for option in options if option]
    return f" WITH ({', '.join(given)})" if given else ""


def span_of(made: Made) -> Span:
    return next(iter(made.view.spans.values()))
