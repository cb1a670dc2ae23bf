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
from window_model import Read, Rows, Session, Span, complete, moment, sessions

import midstream

STREAMS = ("s0", "s1", "s2")
KEPT = 100
"""So many results are kept where nothing is said."""
MANY = 1000
"""So many rows are inserted as values, not as text."""
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


@dataclass(frozen=True)
class Change:
    """A table changes. What is complete is computed before, so every window has the table as it was or as it is."""

    sql: str


Act = Insert | Restart | Look | Change


@dataclass(frozen=True)
class Cut:
    """What a window takes of one stream: a condition on its rows, and the bounds as SQL."""

    where: str
    start: str
    end: str


Window = dict[str, Cut]
"""One window of a view, by the marks of its streams."""


@dataclass(frozen=True)
class Made:
    name: str
    view: WindowView
    since: dict[str, int]
    retain: int | None
    twin: str | None = None
    at: int = 0
    """How many acts were before it."""
    over: str | None = None
    """A view over it, which counts the rows of all of its windows."""

    @property
    def session(self) -> tuple[str, Session] | None:
        [(mark, span), *_] = self.view.spans.items()
        return (mark, span) if isinstance(span, Session) else None

    @property
    def reads(self) -> list[Read]:
        spans = [(mark[:2], span) for mark, span in self.view.spans.items() if isinstance(span, Span)]
        return [Read(stream, span, self.since[stream]) for stream, span in spans]


@dataclass
class WindowWorld:
    seed: int
    folder: str
    dsn: str
    kernel: str = "duckdb"
    scale: int = 1
    views: dict[str, Made] = field(default_factory=dict)
    acts: list[Act] = field(default_factory=list)
    followed: dict[str, int] = field(default_factory=dict)
    """How many rows a stream had when the first view went by its time."""
    literals: dict[str, list[tuple[str, ...]]] = field(default_factory=lambda: {stream: [] for stream in STREAMS})
    """The rows of streams, as they were written."""
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
                self._tell_judge(act)
                if len(act.rows) < MANY:
                    self.db.sql(act.sql)
                else:
                    self.db.insert(act.stream, self._newest_rows(act))
            case Restart():
                self.db.close()
                self.open()
            case Look():
                for name in self.views:
                    self.db.sql(f"SELECT * FROM {name}").fetchall()
            case Change():
                for name in list(self.views):
                    self._settle(name)
                self.db.sql(act.sql)
                self.judge.execute(act.sql.encode())

    def _settle(self, name: str) -> None:
        """Has all that is complete computed; a view whose query fails is left out from then on."""
        try:
            for view in self._both(self.views[name]):
                self.db.sql(f"SELECT * FROM {view}").fetchall()
        except midstream.Error:
            del self.views[name]

    def random_change(self) -> Change:
        table = self.choices.pick(self.tables)
        changes = [
            f"UPDATE {table.name} SET k = i, i = k",
            f"DELETE FROM {table.name} WHERE k = {self.choices.between(0, 3)}",
            table.insert() or f"INSERT INTO {table.name} (k, i) VALUES (1, 2)",
        ]
        return Change(self.choices.pick(changes))

    def _newest_rows(self, insert: Insert) -> list[dict[str, Any]]:
        """The rows of an insert as values, which the judge has made of their text."""
        names = [column.name for column in STREAM_COLUMNS] + ["at"]
        first = len(self.rows[insert.stream].times) - len(insert.rows)
        query = f"SELECT {', '.join(names)} FROM {insert.stream}_rows WHERE place >= {first} ORDER BY place"
        return [dict(zip(names, row, strict=True)) for row in self.judge.execute(query.encode()).fetchall()]

    def _tell_judge(self, insert: Insert) -> None:
        rows = self.rows[insert.stream]
        self.literals[insert.stream] += insert.rows
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
        retain = 100_000 if any(isinstance(span, Session) for span in view.spans.values()) else retain
        kept = f"retain = {retain}" if retain is not None else ""
        try:
            self.db.sql(f"CREATE VIEW {name}{_with(kept, BY_CHANGES)} AS {self.ours(view)}")
            if twin:
                self.db.sql(f"CREATE VIEW {name}_again{_with(kept, SLOWLY)} AS {self.ours(view)}")
        except midstream.Error as error:
            if error.sqlstate == "0A000" and self.refuses_over_tables(view.query):
                tally.refused.append(str(error))
                return None
            raise Difference(f"refused: {error}\n{self.ours(view)}") from error
        over = f"{name}_over" if retain == 100_000 and tally.views % 2 else None
        if over is not None:
            self.db.sql(f"CREATE VIEW {over} AS SELECT count(*) AS n FROM {name}")
        since = {stream: len(rows.times) for stream, rows in self.rows.items()}
        made = Made(name, view, since, retain, f"{name}_again" if twin else None, len(self.acts), over)
        self.views[name] = made
        for mark, span in view.spans.items():
            if isinstance(span, Session) or span.by == "time":
                self.rows[mark[:2]].has_clock = True
                self.followed.setdefault(mark[:2], since[mark[:2]])
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

    # windows

    def windows(self, made: Made) -> tuple[list[Window], list[Window]]:
        """Those that are kept, and the newest: of sessions by a key, that of each key."""
        if made.session is not None:
            return self._sessions(made, *made.session)
        numbers = complete(made.reads, self.rows)[-(made.retain or KEPT) :]
        kept = [{mark: self._cut(made, mark, number) for mark in made.view.spans} for number in numbers]
        return kept, kept[-1:]

    def _cut(self, made: Made, mark: str, number: int) -> Cut:
        span, stream = made.view.spans[mark], mark[:2]
        assert isinstance(span, Span)
        (start, end), since = span.bounds(number), made.since[stream]
        if span.by == "rows":
            where = f"place >= {since + (start or 0)} AND place < {since + end}"
            return Cut(where, f"CAST({start} AS bigint)", f"CAST({end} AS bigint)")
        where = f"place >= {since} AND in_time AND micros < {end}"
        where += f" AND micros >= {start}" if start is not None else ""
        first = (self.rows[stream].first_since(since) or 0) // span.slide * span.slide
        return Cut(where, _moment(first if start is None else start), _moment(end))

    def _sessions(self, made: Made, mark: str, session: Session) -> tuple[list[Window], list[Window]]:
        stream = mark[:2]
        place = next((n for n, column in enumerate(STREAM_COLUMNS) if column.name == session.by), None)
        keys = ["" if place is None else row[place] for row in self.literals[stream]]
        runs = sessions(session.gap, self.rows[stream], made.since[stream], keys)
        cuts = [
            Cut(f"place IN ({', '.join(map(str, run.places))})", _moment(run.start), _moment(run.end)) for run in runs
        ]
        newest = {run.key: cut for run, cut in zip(runs, cuts, strict=True)}
        return [{mark: cut} for cut in cuts], [{mark: cut} for cut in newest.values()]

    def theirs(self, made: Made, window: Window) -> str:
        """The query over the rows of one window."""
        columns = ", ".join(column.name for column in STREAM_COLUMNS)

        def rows_of(kind: str, name: str) -> str:
            return name if kind != "stream" else f"(SELECT {columns} FROM {name[:2]}_rows WHERE {window[name].where})"

        text = BOUND.sub(lambda mark: getattr(window[mark[2]], mark[1]), made.view.query.sql)
        return spelled(named(text, rows_of), postgres=True)

    # answers

    def check(self, name: str, tally: Tally) -> None:
        made = self.views[name]
        tally.reads += 1
        if self._is_past(made):
            self._compare_twins(made)
            return
        kept, newest = self.windows(made)
        try:
            all_windows, last = self._judged(made, kept), self._judged(made, newest)
        except psycopg.Error:
            tally.broken += 1
            return
        for view in self._both(made):
            self._compare(f"SELECT * FROM {view} ALL WINDOWS", all_windows, made)
            self._compare(f"SELECT * FROM {view}", last, made)
        if made.over is not None:
            counted = self.db.sql(f"SELECT n FROM {made.over}").fetchall()
            if counted != [(len(all_windows),)]:
                raise Difference(f"{made.over} counts {counted}, not {len(all_windows)} rows\n{self.told(made)}")

    def _both(self, made: Made) -> list[str]:
        return [made.name, *([made.twin] if made.twin else [])]

    def _is_past(self, made: Made) -> bool:
        """Whether a table of the view has changed since it was made: PostgreSQL does not know it as it was."""
        changes = [act.sql for act in self.acts[made.at :] if isinstance(act, Change)]
        return any(table.name in sql and table.name in made.view.query.sql for table in self.tables for sql in changes)

    def _compare_twins(self, made: Made) -> None:
        """However a view is kept, it answers the same."""
        for which in ("", " ALL WINDOWS"):
            answers: list[Any] = []
            for view in self._both(made):
                try:
                    answers.append(self.db.sql(f"SELECT * FROM {view}{which}").fetchall())
                except midstream.Error as error:
                    answers.append(error.sqlstate)
            one, other = answers[0], answers[-1]
            both_failed = isinstance(one, str) and one == other
            if not both_failed and (str in map(type, answers) or not same_rows(one, other, ordered=False)):
                raise Difference(f"{made.name}{which} and its twin differ\n{one}\n{other}\n{self.ours(made.view)}")

    def _judged(self, made: Made, windows: Sequence[Window]) -> list[tuple[Any, ...]]:
        texts = (self.theirs(made, window).encode() for window in windows)
        return [row for text in texts for row in self.judge.execute(text).fetchall()]

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

    def check_late(self) -> None:
        """Rows that are in no window by time are kept beside."""
        for stream, since in self.followed.items():
            query = f"SELECT id FROM {stream}_rows WHERE NOT in_time AND place >= {since}"
            wanted = self.judge.execute(query.encode()).fetchall()
            got = self.db.sql(f"SELECT id FROM late_{stream}").fetchall()
            if sorted(got) != sorted(wanted):
                lateness = self.rows[stream].lateness // SECOND
                raise Difference(f"late_{stream} differs, lateness {lateness} s\n{told_apart(got, wanted)}")

    def told(self, made: Made) -> str:
        kept, newest = self.windows(made)
        judged = self.theirs(made, newest[-1]) if newest else "nothing"
        return f"{self.ours(made.view)}\n{len(kept)} windows, the newest judged by\n{judged}"


def _moment(microseconds: int) -> str:
    return f"CAST('{moment(microseconds)}' AS timestamp)"


BY_CHANGES, SLOWLY = "maintenance = 'incremental'", "maintenance = 'reevaluate'"


def _with(*options: str) -> str:
    given = [option for option in options if option]
    return f" WITH ({', '.join(given)})" if given else ""
