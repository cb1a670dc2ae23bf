"""A database with random streams and window views, and a judge who looks at one window at a time.

PostgreSQL has every row of every stream in `s0_rows`, numbered as it came, with its time and whether it was in time.
Which windows are complete, and from where to where they go, says window_model.py; PostgreSQL runs the view's query over
the rows of one window, and the results of all windows that are kept are what the view must answer. It has each table as
it was after every change, `w_t0_at_2`: what is complete is computed before a table changes, so it is known which of
them a window has.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from time import time as seconds_now
from typing import Any

import psycopg
from answers import same_rows
from choices import Choices
from random_queries import spelled
from random_tables import TAME, WILD, RandomTable, random_tables
from random_views import STREAM_COLUMNS, named
from random_windows import ALIASED, ARRIVING, BOUND, COUNTED, SECOND, UNTIMED, WindowMaker, WindowView
from view_world import Difference, Tally, told_apart
from window_model import Read, Rows, Run, Session, Span, complete, moment, sessions

import midstream

STREAMS = ("s0", "s1", "s2", "s3")
KEPT = 100
"""So many results are kept where nothing is said."""
COUNTABLE = ("int", "bigint", "text", "boolean", "date", "timestamp")
MANY = 1000
"""So many rows are inserted as values, not as text."""
BASES = (1_700_000_000, 0)
"""Where times begin: somewhere, or just before and after 1970."""
ARRIVAL = (int(seconds_now()) // 3600 + 2) * 3600 * SECOND
"""When rows begin to arrive: a full hour that is still to come, since the time of a log never goes back."""
CHANGING = re.compile(rf"(?<!frozen )\b(w_t\d|{COUNTED.name})\b")
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
class Together:
    """Inserts into several streams, in one transaction."""

    inserts: tuple[Insert, ...]

    @property
    def sql(self) -> str:
        return "; ".join(["BEGIN", *(insert.sql for insert in self.inserts), "COMMIT"])


@dataclass(frozen=True)
class Wait:
    """Nothing comes until a moment; windows by arrival close."""

    until: int

    @property
    def sql(self) -> str:
        return f"-- it is {moment(self.until)}"


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


Act = Insert | Together | Wait | Restart | Look | Change


@dataclass(frozen=True)
class Cut:
    """What a window takes of one stream: a condition on its rows, and the bounds as SQL."""

    where: str
    start: str
    end: str


@dataclass(frozen=True)
class Window:
    """One window of a view, by the marks of its streams."""

    key: str
    """Of a session."""
    cuts: dict[str, Cut]
    version: int
    """The tables that it was computed with: as they were after so many changes."""


@dataclass
class Watch:
    """A subscription, which goes on where it was when the database is opened again."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    last: int | None = None
    subscription: Any = None

    def open(self, db: Any, name: str) -> None:
        self.subscription = db.subscribe(name, after=self.last)

    def take(self, seconds: float = 0.0) -> None:
        """All that is there: who goes on behind an SCN must have had all that has it."""
        while changes := self.subscription.poll(seconds):
            self.rows += [tuple(change.row.values()) for change in changes]
            self.last, seconds = changes[-1].scn, 0.0

    def take_up_to(self, count: int) -> None:
        """Waits for rows that must come; whoever sends more is found out, too."""
        until = monotonic() + 10
        self.take()
        while len(self.rows) < count and monotonic() < until:
            self.take(1.0)

    def close(self) -> None:
        self.subscription.close()


@dataclass(frozen=True)
class Made:
    name: str
    view: WindowView
    since: dict[str, int]
    retain: int | None
    twin: str | None = None
    at: int = 0
    """How many acts were before it."""
    version: int = 0
    """How many changes of tables were before it."""
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
    versions: int = 0
    """How often tables have changed."""
    settled: dict[str, list[int]] = field(default_factory=dict)
    """How many windows of a view were complete at each change since it was made."""
    watches: dict[str, Watch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.choices = Choices(self.seed)
        self.tables = random_tables(self.choices, "w")[:2]
        lateness = self.choices.pick([0, 3, 10, 30]) * SECOND
        self.rows = {"s0": Rows(lateness), "s1": Rows(0), "s2": Rows(0, has_clock=False), "s3": Rows(0)}
        self.now = dict.fromkeys(STREAMS, self.choices.pick(BASES) * SECOND - 20 * SECOND)
        self.now[ARRIVING] = ARRIVAL
        self.judge = psycopg.connect(self.dsn, autocommit=True, options="-c timezone=UTC -c statement_timeout=20000")
        self.schema = f"windows_{next(_schemas)}"
        self.judge.execute(f"CREATE SCHEMA {self.schema}; SET search_path = {self.schema}".encode())
        self.open()
        self._make_relations()

    def open(self) -> None:
        self.db = midstream.connect(self.folder)
        self.db._store.streams.journal._clock = lambda: self.now[ARRIVING] / SECOND
        self.db.sql(f"SET kernel = '{self.kernel}'")

    def close(self) -> None:
        for watch in self.watches.values():
            watch.close()
        self.db.close()
        self.judge.execute(f"DROP SCHEMA {self.schema} CASCADE".encode())
        self.judge.close()

    def _make_relations(self) -> None:
        columns = ", ".join(f"{column.name} {column.type}" for column in STREAM_COLUMNS)
        for stream in STREAMS:
            lateness = f", lateness = '{self.rows[stream].lateness // SECOND} seconds'" if stream == "s0" else ""
            timed = f" WITH (timestamp = 'at'{lateness})" if stream not in (UNTIMED, ARRIVING) else ""
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
        counted = "SELECT k, max(i) AS i, count(*) AS many FROM counted_rows GROUP BY k"
        self.db.sql(f"CREATE STREAM counted_rows (k int, i int); CREATE VIEW {COUNTED.name} AS {counted}")
        self.judge.execute(
            f"CREATE TABLE counted_rows (k int, i int); CREATE VIEW {COUNTED.name} AS {counted}".encode()
        )
        first = "INSERT INTO counted_rows VALUES (0, 1), (1, 2), (1, 3), (2, NULL), (NULL, 1)"
        self.db.sql(first)
        self.judge.execute(first.encode())
        self._keep_version()

    def _keep_version(self) -> None:
        for table in (*self.tables, COUNTED):
            self.judge.execute(f"CREATE TABLE {table.name}_at_{self.versions} AS SELECT * FROM {table.name}".encode())

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
            case Together():
                for insert in act.inserts:
                    self._tell_judge(insert)
                self.db.sql(act.sql)
            case Wait():
                self._arrive_at(act.until)
            case Restart():
                for watch in self.watches.values():
                    watch.take()
                    watch.close()
                self.db.close()
                self.open()
                for name, watch in self.watches.items():
                    watch.open(self.db, name)
            case Look():
                for name in self.views:
                    self.db.sql(f"SELECT * FROM {name}").fetchall()
            case Change():
                for name in list(self.views):
                    self._settle(name)
                self.db.sql(act.sql)
                self.judge.execute(act.sql.encode())
                self.versions += 1
                self._keep_version()

    def _settle(self, name: str) -> None:
        """Has all that is complete computed; a view whose query fails is left out from then on."""
        try:
            for view in self._both(self.views[name]):
                self.db.sql(f"SELECT * FROM {view}").fetchall()
            self.settled[name].append(len(self.all_windows(self.views[name])))
        except midstream.Error:
            self.forget(name)

    def forget(self, name: str) -> None:
        del self.views[name]
        if (watch := self.watches.pop(name, None)) is not None:
            watch.close()

    def _arrive_at(self, until: int) -> None:
        self.now[ARRIVING] = max(until, self.now[ARRIVING])
        self.rows[ARRIVING].high = self.now[ARRIVING]

    def random_change(self) -> Change:
        if self.choices.chance(3):
            return Change(
                f"INSERT INTO counted_rows VALUES ({self.choices.between(0, 4)}, {self.choices.between(1, 9)})"
            )
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
        if insert.stream == ARRIVING:
            self._arrive_at(insert.times[0] or 0)
        self.literals[insert.stream] += insert.rows
        place, in_time = len(rows.times), rows.insert(insert.times)
        values = []
        for number, (row, micro, is_in_time) in enumerate(zip(insert.rows, insert.times, in_time, strict=True)):
            at = "NULL, NULL" if micro is None else f"'{moment(micro)}', {micro}"
            when, micros = at.split(", ")
            values.append(f"({', '.join(row)}, {when}, {place + number}, {is_in_time}, {micros})")
        self.judge.execute(f"INSERT INTO {insert.stream}_rows VALUES {', '.join(values)}".encode())

    def random_insert(self, count: int, pace: int = 2) -> Insert:
        """Times go on by `pace` seconds at most from row to row; some are older, some are too old."""
        return self._insert_into(self.choices.pick(STREAMS), count, pace)

    def random_together(self, count: int) -> Together:
        return Together(tuple(self._insert_into(stream, count, 2) for stream in STREAMS if self.choices.chance(2)))

    def random_wait(self) -> Wait:
        return Wait(self.now[ARRIVING] + self.choices.between(1, 40) * SECOND // 4)

    def _insert_into(self, stream: str, count: int, pace: int) -> Insert:
        """Rows of one insert arrive together."""
        rows = tuple(self._row() for _ in range(count))
        if stream == ARRIVING:
            return Insert(stream, rows, (self.random_wait().until,) * count)
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

    def sibling_of(self, view: WindowView) -> WindowView:
        return WindowMaker(self.choices, self.tables, self.scale).sibling(view)

    def create(self, view: WindowView, tally: Tally, *, retain: int | None = 100_000, twin: bool = True) -> Made | None:
        """Makes a view, unless it may be refused: the kernel could not run its query over tables, either."""
        name = f"v{tally.views}"
        tally.views += 1
        retain = 100_000 if any(isinstance(span, Session) for span in view.spans.values()) else retain
        kept = f"retain = {retain}" if retain is not None else ""
        if retain == 100_000 and tally.views % 3 == 0:
            kept = "retain = '1 day'"
        try:
            self.db.sql(f"CREATE VIEW {name}{_with(kept, BY_CHANGES if tally.views % 4 else '')} AS {self.ours(view)}")
            if twin:
                self.db.sql(f"CREATE VIEW {name}_again{_with(kept, SLOWLY)} AS {self.ours(view)}")
        except midstream.Error as error:
            if error.sqlstate == "0A000" and self.refuses_over_tables(view):
                tally.refused.append(str(error))
                return None
            raise Difference(f"refused: {error}\n{self.ours(view)}") from error
        over = f"{name}_over" if tally.views % 2 else None
        if over is not None:
            self.db.sql(f"CREATE VIEW {over} AS SELECT count(*) AS n FROM {name}")
            self.db.sql(f"CREATE VIEW {over}_values AS {self._values(view, name)}")
            counts = "count(*) AS n, count(*) FILTER (WHERE window_start > 3) AS later"
            by_rows = f"SELECT window_end, {counts} FROM {name} [WINDOW 3 ROWS SLIDE 2 ROWS]"
            self.db.sql(f"CREATE VIEW {over}_rows{_with('retain = 100000')} AS {by_rows}")
        since = {stream: len(rows.times) for stream, rows in self.rows.items()}
        made = Made(name, view, since, retain, f"{name}_again" if twin else None, len(self.acts), self.versions, over)
        self.views[name], self.settled[name] = made, []
        if retain == 100_000:
            self.watches[name] = Watch()
            self.watches[name].open(self.db, name)
        for mark, span in view.spans.items():
            if mark != ARRIVING and (isinstance(span, Session) or span.by == "time"):
                self.rows[mark[:2]].has_clock = True
                self.followed.setdefault(mark[:2], since[mark[:2]])
        return made

    def refuses_over_tables(self, view: WindowView) -> bool:
        """Whether the kernel has not all functions of a query, windows or not."""
        columns = ", ".join(f"{column.name} {column.type}" for column in STREAM_COLUMNS)
        for stream in STREAMS:
            self.db.sql(f"CREATE TABLE IF NOT EXISTS {stream}_empty ({columns}, at timestamp)")
        text = named(view.query.sql, lambda kind, name: f"{name[:2]}_empty" if kind == "stream" else name)
        bound = "bigint" if any(isinstance(s, Span) and s.by == "rows" for s in view.spans.values()) else "timestamp"
        try:
            self.db.sql(spelled(BOUND.sub(f"CAST(NULL AS {bound})", text), postgres=False))
        except midstream.Error as error:
            return error.sqlstate == "0A000"
        return False

    def ours(self, view: WindowView) -> str:
        text = named(view.query.sql, lambda kind, name: view.text_of(name) if kind == "stream" else name)
        return spelled(text, postgres=False)

    # windows

    def windows(self, made: Made) -> tuple[list[Window], list[Window]]:
        """Those that are kept, and the newest: of sessions by a key, that of each key."""
        windows = self.all_windows(made)
        kept = windows[-(made.retain or KEPT) :]
        return kept, list({window.key: window for window in kept}.values())

    def all_windows(self, made: Made) -> list[Window]:
        """All that were ever complete, in their order."""
        if made.session is not None:
            cuts = self._sessions(made, *made.session)
        else:
            numbers = complete(made.reads, self.rows)
            cuts = [("", {mark: self._cut(made, mark, number) for mark in made.view.spans}) for number in numbers]
        settled = self.settled[made.name]
        return [
            Window(key, cut, made.version + sum(count <= place for count in settled))
            for place, (key, cut) in enumerate(cuts)
        ]

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

    def _sessions(self, made: Made, mark: str, session: Session) -> list[tuple[str, dict[str, Cut]]]:
        stream = mark[:2]
        place = next((n for n, column in enumerate(STREAM_COLUMNS) if column.name == session.by), None)
        keys = ["" if place is None else row[place] for row in self.literals[stream]]
        runs = sessions(session.gap, self.rows[stream], made.since[stream], keys)
        return [(run.key, {mark: _cut_of(run)}) for run in runs]

    def theirs(self, made: Made, window: Window) -> str:
        """The query over the rows of one window."""
        columns = ", ".join([column.name for column in STREAM_COLUMNS] + ["at"])
        aliased = {alias: mark for mark, alias in ALIASED.findall(made.view.query.sql)}

        def rows_of(kind: str, name: str) -> str:
            if kind == "frozen":
                return f"{name}_at_{made.version}"
            return f"(SELECT {columns} FROM {name[:2]}_rows WHERE {window.cuts[name].where})"

        text = BOUND.sub(lambda found: getattr(window.cuts[aliased[found[1]]], found[2]), made.view.query.sql)
        text = CHANGING.sub(rf"\1_at_{window.version}", text)
        return spelled(named(text, rows_of), postgres=True)

    # answers

    def check(self, name: str, tally: Tally) -> None:
        made = self.views[name]
        tally.reads += 1
        kept, newest = self.windows(made)
        try:
            results = [self._judged(made, [window]) for window in self.all_windows(made)]
            last = self._judged(made, newest)
        except psycopg.Error:
            tally.broken += 1
            return
        all_kept = [row for result in results[len(results) - len(kept) :] for row in result]
        for view in self._both(made):
            self._compare(f"SELECT * FROM {view} ALL WINDOWS", all_kept, made)
            self._compare(f"SELECT * FROM {view}", last, made)
        if made.over is not None:
            self._check_over(made, sum(map(len, results)))
        if name in self.watches:
            self._check_watch(made, self._in_order(made, results))

    def _check_over(self, made: Made, count: int) -> None:
        """Views over it have the rows of all of its windows, also of those that it keeps no more."""
        counted = self.db.sql(f"SELECT n FROM {made.over}").fetchall()
        if counted != [(count,)]:
            raise Difference(f"{made.over} counts {counted}, not {count} rows\n{self.told(made)}")
        windows = self.db.sql(f"SELECT * FROM {made.over}_rows ALL WINDOWS").fetchall()
        if sorted(windows) != [(end, 3, 3 * (end > 6)) for end in range(3, count + 1, 2)]:
            raise Difference(f"{made.over}_rows has the windows {windows} over {count} rows\n{self.told(made)}")
        if made.retain == 100_000:
            got = self.db.sql(f"SELECT * FROM {made.over}_values").fetchall()
            wanted = self.db.sql(self._values(made.view, f"{made.name} ALL WINDOWS")).fetchall()
            if not same_rows(got, wanted, ordered=False):
                raise Difference(f"{made.over}_values differs\n{told_apart(got, wanted)}\n{self.told(made)}")

    def _values(self, view: WindowView, relation: str) -> str:
        """What the windows of a view had, and how often."""
        columns = [f"c{place}" for place, type_ in enumerate(view.query.types) if type_ in COUNTABLE][:2]
        keys = "".join(f"{column}, " for column in columns)
        return f"SELECT {keys}count(*) AS n FROM {relation}" + (f" GROUP BY {keys[:-2]}" if keys else "")

    def _in_order(self, made: Made, results: list[list[tuple[Any, ...]]]) -> list[list[tuple[Any, ...]]]:
        """Sessions of several keys that end at one moment have no order among each other."""
        if made.session is None:
            return results
        ended: dict[str, list[tuple[Any, ...]]] = {}
        for window, result in zip(self.all_windows(made), results, strict=True):
            [cut] = window.cuts.values()
            ended.setdefault(cut.end, []).extend(result)
        return list(ended.values())

    def _check_watch(self, made: Made, results: Sequence[list[tuple[Any, ...]]]) -> None:
        """A subscriber has got every window once, in order."""
        watch, place = self.watches[made.name], 0
        watch.take_up_to(sum(map(len, results)))
        for number, wanted in enumerate(results):
            got = watch.rows[place : place + len(wanted)]
            if not same_rows(got, wanted, ordered=False):
                what = f"a subscriber of {made.name} got another window {number} of {len(results)}"
                raise Difference(f"{what}\n{told_apart(got, wanted)}\n{self.told(made)}")
            place += len(wanted)
        if watch.rows[place:]:
            raise Difference(f"a subscriber of {made.name} got more: {watch.rows[place:][:5]}\n{self.told(made)}")

    def _both(self, made: Made) -> list[str]:
        return [made.name, *([made.twin] if made.twin else [])]

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


def _cut_of(run: Run) -> Cut:
    places = ", ".join(map(str, run.places))
    return Cut(f"place IN ({places})", _moment(run.start), _moment(run.end))


def _moment(microseconds: int) -> str:
    return f"CAST('{moment(microseconds)}' AS timestamp)"


BY_CHANGES, SLOWLY = "maintenance = 'incremental'", "maintenance = 'reevaluate'"


def _with(*options: str) -> str:
    given = [option for option in options if option]
    return f" WITH ({', '.join(given)})" if given else ""
