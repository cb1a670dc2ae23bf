"""A database whose tables change, queries that are watched in it, and PostgreSQL beside it with the same tables.

Every transaction is played in both. PostgreSQL answers each query from scratch before and after a commit, and the
difference of the two answers, as multisets, is what the commit's changes must be:

    changes(n) = Q(n) - Q(n - 1)        inserted rows
               + Q(n - 1) - Q(n)        deleted rows; with a key, the two of one key are an update

A query is watched by a continuous query, whose subscriber, destination and cq_recompute are compared with that, and by
a materialized view, which is compared with Q(n), and whose CHANGES are, too.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import psycopg
from choices import Choices
from psycopg.rows import dict_row
from random_changes import DeltaQueryMaker, Growing, GrowthMaker, ShapedQuery
from random_transactions import ChangingTable, TransactionMaker, alteration, awkward_schema, random_schema

import midstream
from asking import scn_now

Row = tuple[Any, ...]
Rows = Counter[Row]
ON_COMMIT, TRANSACTIONAL, BATCHED = "ON COMMIT", "TRANSACTIONAL DELTA ON DEMAND", "BATCHED ON DEMAND"
MODES = (ON_COMMIT, ON_COMMIT, TRANSACTIONAL, BATCHED)
KINDS = ("I", "D", "U")
SOME_KINDS = (KINDS, KINDS, KINDS, ("I", "U"), ("D",), ("I", "D"), ("U",))
REFRESHES = ("on commit", "on commit", "on commit", "on demand", "full")
LARGE = 1 << 40
"""Numerics beyond it are compared to the last digit."""
PATIENCE = 60.0
"""So many seconds may pass until changes come that were said to be computed."""
_schemas = itertools.count()


class Difference(AssertionError):
    """Changes that are not the difference of the query's answers."""


@dataclass(frozen=True)
class Change:
    kind: str
    row: Row
    old: Row | None = None


Changes = Counter[Change]


def difference(before: Rows, after: Rows, key: Sequence[int] = ()) -> Changes:
    """What leads from one answer to the other; `key` has the places of the key's columns, if there is one."""
    deleted, inserted = list((before - after).elements()), list((after - before).elements())
    changes: Changes = Counter()
    if key:
        by_key = {tuple(row[place] for place in key): row for row in deleted}
        for row in inserted:
            old = by_key.pop(tuple(row[place] for place in key), None)
            changes[Change("I", row) if old is None else Change("U", row, old)] += 1
        deleted, inserted = list(by_key.values()), []
    changes.update(Change("I", row) for row in inserted)
    changes.update(Change("D", row, row) for row in deleted)
    return changes


def applied(rows: Rows, changes: Iterable[Change]) -> Rows:
    """The law backwards: I adds, D removes, U replaces. A row that was not there stays as a negative count."""
    after = Counter(rows)
    for change in changes:
        if change.kind != "D":
            after[change.row] += 1
        if change.kind != "I" and change.old is not None:
            after[change.old] -= 1
    return Counter({row: count for row, count in after.items() if count})


def plain(value: Any) -> Any:
    """A value that equals that of the other database; averages are a double here and a numeric there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal) and abs(value) > LARGE:
        return value
    if isinstance(value, (float, Decimal)):
        return "NaN" if math.isnan(value) else round(float(value), 9)
    if isinstance(value, list):
        return tuple(map(plain, value))
    return value


def multiset(rows: Iterable[Sequence[Any]]) -> Rows:
    return Counter(tuple(map(plain, row)) for row in rows)


@dataclass
class Watched:
    """One continuous query, what it has to hand out by SCN, and what it has handed out."""

    name: str
    query: ShapedQuery
    mode: str
    key: tuple[str, ...]
    destination: str | None
    tells_kind: bool
    answer: Rows
    """Of the query, now."""
    reported: Rows
    """The answer up to which changes were computed; for BATCHED."""
    state: str = "ACTIVE"
    wanted: dict[int, Changes] = field(default_factory=dict)
    heard: dict[int, Changes] = field(default_factory=dict)
    complete_at: int = 0
    """All changes up to this SCN were heard."""
    feed: Any = None
    kinds: tuple[str, ...] = KINDS
    """What it is to hand out."""

    @property
    def places(self) -> list[int]:
        return [self.query.columns.index(column) for column in self.key]

    @property
    def definition(self) -> str:
        key = f" PRIMARY KEY ({', '.join(self.key)})" if self.key else ""
        destination = f" DESTINATION {self.destination}" if self.destination else ""
        text = self.query.with_delta if self.tells_kind else self.query.plain
        kinds = "" if self.kinds == KINDS else f" WITH (kinds = '{', '.join(self.kinds)}')"
        return f"CREATE CONTINUOUS QUERY {self.name}{key} COMPUTE {self.mode}{destination}{kinds} AS {text}"

    def hear(self, changes: Iterable[Any]) -> None:
        for change in changes:
            self.heard.setdefault(change.scn, Counter())[self._plain(change)] += 1

    def _plain(self, change: Any) -> Change:
        old = None if change.old is None else self._row(change.old)
        return Change(change.kind, self._row(change.row), old)

    def _row(self, values: dict[str, Any]) -> Row:
        return tuple(plain(values[column]) for column in self.query.columns)

    def all_wanted(self) -> Changes:
        return sum(self.wanted.values(), Counter())

    def forget_after(self, scn: int) -> None:
        self.heard = {at: heard for at, heard in self.heard.items() if at <= scn}


@dataclass
class Kept:
    """One materialized view and what it must answer."""

    name: str
    query: ShapedQuery
    refresh: str
    judged_by: str
    made_at: int
    first: Rows
    answers: dict[int, Rows] = field(default_factory=dict)
    """By the SCN of each commit."""
    refreshed: Rows = field(default_factory=Counter)
    """The answer at the last REFRESH; for 'on demand'."""
    read_at: set[int] = field(default_factory=set)
    """SCNs at which it was read; queries commit to their destinations meanwhile, so they are not only ours."""

    def answer_at(self, scn: int) -> Rows:
        return next((rows for at, rows in reversed(self.answers.items()) if at <= scn), self.first)


class QueryWorld:
    """One database in a folder, that may be closed and opened again, and its judge."""

    def __init__(
        self,
        seed: int,
        folder: str,
        dsn: str,
        kernel: str = "duckdb",
        growing: Growing | None = None,
        *,
        awkward: bool = False,
    ) -> None:
        self.seed, self.folder, self.kernel, self.growing = seed, folder, kernel, growing
        self.awkward = awkward
        self.choices = Choices(seed)
        self.maker: TransactionMaker | GrowthMaker
        if growing is not None:
            self.tables, self.maker = growing.tables, GrowthMaker(self.choices, growing)
        else:
            self.tables = (awkward_schema if awkward else random_schema)(self.choices, "t")
            self.maker = TransactionMaker(self.choices, self.tables)
        self.watched: dict[str, Watched] = {}
        self.kept: dict[str, Kept] = {}
        self.story: list[str] = []
        self.last_scn = 0
        self.refused = 0
        self.dropped: set[str] = set()
        self.judge = psycopg.connect(dsn, autocommit=True, options="-c timezone=UTC -c statement_timeout=20000")
        schema = f"queries_{next(_schemas)}"
        self.judge.execute(f"CREATE SCHEMA {schema}; SET search_path = {schema}".encode())
        self.open()
        if seed % 2 == 0:
            # Sums of groups are kept, however few rows there are.
            self.db.sql("SET preimage = 'kept'")
        if seed % 3 == 0:
            # Rows that came with what they refer to are joined apart from others, however small the tables are.
            self.db.sql("SET foreign_key_units = 'on'")
        self._make_tables()

    def open(self) -> None:
        self.db = midstream.connect(self.folder)
        self.db.sql(f"SET kernel = '{self.kernel}'")

    def close(self) -> None:
        self._close_feeds()
        self.db.close()
        self.judge.close()

    def _make_tables(self) -> None:
        for table in self.tables:
            self.db.sql(table.create())
            self.judge.execute(table.create().encode())
            if self.growing is not None and table.name == "ticks":
                self.db.sql(self.growing.constraint)
        for table in self.tables:
            self.play([self._first_rows(table)])

    def _first_rows(self, table: ChangingTable) -> str:
        """Some that the table takes: they may be the same in what is UNIQUE."""
        while True:
            statement = self.maker.first_rows(table, self.state())
            self.judge.execute("BEGIN")
            is_taken = self._judge_takes(statement)
            self.judge.execute("ROLLBACK")
            if is_taken:
                return statement

    # transactions

    def state(self) -> dict[str, list[dict[str, Any]]]:
        return {table.name: self._rows_of(table) for table in self.tables}

    def _rows_of(self, table: ChangingTable) -> list[dict[str, Any]]:
        names = ", ".join(column.name for column in table.fields)
        cursor = self.judge.cursor(row_factory=dict_row)
        return cursor.execute(f"SELECT * FROM {table.name} ORDER BY {names}".encode()).fetchall()

    def transact(self) -> None:
        """A random transaction of statements that PostgreSQL takes; one that it refuses must be refused here, too."""
        self.judge.execute("BEGIN")
        taken = list[str]()
        for _ in range(self.choices.pick([1, 1, 2, 3])):
            for statement in self.maker.statements(self.state()):
                if self._judge_takes(statement):
                    taken.append(statement)
                elif not taken and self.choices.chance(2):
                    self._must_refuse(statement)
        self.judge.execute("ROLLBACK")
        if taken and self.choices.chance(8):
            self._roll_back(taken)
        elif taken:
            self.play(taken)

    def _judge_takes(self, statement: str) -> bool:
        self.judge.execute("SAVEPOINT before")
        try:
            self.judge.execute(statement.encode())
        except psycopg.IntegrityError:
            self.judge.execute("ROLLBACK TO SAVEPOINT before")
            return False
        return True

    def _must_refuse(self, statement: str) -> None:
        self.refused += 1
        try:
            self.db.sql(statement)
        except midstream.Error as error:
            if (error.sqlstate or "").startswith("23"):
                return
            raise Difference(f"{self.told()}\n{statement}\nsays {error.sqlstate}: {error}") from error
        raise Difference(f"{self.told()}\nPostgreSQL refuses this, and it was taken:\n{statement}")

    def _roll_back(self, statements: list[str]) -> None:
        with self.db.session() as session:
            for statement in ["BEGIN", *statements, "ROLLBACK"]:
                self._run(session.sql, statement)

    def alter_table(self) -> None:
        """A constraint comes or goes, where PostgreSQL takes that; no answer changes."""
        statement = alteration(self.choices, self.choices.pick(self.tables), self.dropped)
        self.judge.execute("BEGIN")
        takes = self._judge_takes(statement)
        self.judge.execute("ROLLBACK")
        if not takes:
            self._must_refuse(statement)
            return
        self.last_scn = self._run(self.db.sql, statement).scn or self.last_scn
        self.judge.execute(statement.encode())
        if " CONSTRAINT " in statement:
            self.dropped ^= {statement.split(" CONSTRAINT ")[1].split()[0]}
        self.story.append(f"SCN {self.last_scn}: {statement}")
        self._note_answers()

    def play(self, statements: list[str]) -> None:
        """Commits the statements in both, as one transaction, and notes what has to come of it."""
        if len(statements) == 1 and self.choices.chance(2):
            scn = self._run(self.db.sql, statements[0]).scn
            self.judge.execute(statements[0].encode())
        else:
            with self.db.session() as session:
                for statement in ["BEGIN", *statements]:
                    self._run(session.sql, statement)
                scn = self._run(session.sql, "COMMIT").scn
            self.judge.execute("; ".join(["BEGIN", *statements, "COMMIT"]).encode())
        self.last_scn = scn or self.last_scn
        self.story.append(f"SCN {self.last_scn}: {'; '.join(statements)}")
        self._note_answers()

    def _run(self, sql: Callable[[str], Any], statement: str) -> Any:
        try:
            return sql(statement)
        except midstream.Error as error:
            raise Difference(f"{self.told()}\n{statement}\nsays {error.sqlstate}: {error}") from error

    def _note_answers(self) -> None:
        for watched in self.watched.values():
            before, watched.answer = watched.answer, self.judged(watched.query.plain)
            if watched.state != "INACTIVE" and watched.mode != BATCHED:
                self._want(watched, self.last_scn, before)
        for view in self.kept.values():
            view.answers[self.last_scn] = self.judged(view.judged_by)

    def _want(self, watched: Watched, scn: int, before: Rows) -> None:
        every = difference(before, watched.answer, watched.places)
        changes = Counter({change: count for change, count in every.items() if change.kind in watched.kinds})
        if changes:
            watched.wanted[scn] = watched.wanted.get(scn, Counter()) + changes

    def judged(self, query: str) -> Rows:
        return multiset(self.judge.execute(query.encode()).fetchall())

    # what is watched

    def query_of(self, source: int | Sequence[int], shape: str) -> ShapedQuery:
        return DeltaQueryMaker(Choices(source), self.tables).query(shape)

    def is_refused(self, query: ShapedQuery) -> bool:
        """Whether the kernel cannot run a query at all: the other one would have to be chosen."""
        try:
            self.db.sql(query.plain)
        except midstream.Unsupported as error:
            return f"the {self.kernel} kernel cannot run" in str(error)
        return False

    def watch(self, query: ShapedQuery, mode: str | None = None) -> Watched:
        """Makes a continuous query, with a destination or without."""
        name, answer = f"q{len(self.watched)}", self.judged(query.plain)
        with_destination = not self.choices.chance(3)
        watched = Watched(
            name=name,
            query=query,
            mode=mode or self.choices.pick(MODES),
            key=query.key if query.key and not self.choices.chance(6) else (),
            destination=f"{name}_changes" if with_destination else None,
            tells_kind=with_destination and not self.choices.chance(5),
            answer=answer,
            reported=answer,
            kinds=self.choices.pick(SOME_KINDS) if self.awkward else KINDS,
        )
        if watched.destination:
            self._run(self.db.sql, self._destination_of(watched))
        watched.complete_at = self._run(self.db.sql, watched.definition).scn or self.last_scn
        watched.feed = self.db.subscribe(name)
        self.watched[name] = watched
        return watched

    def _destination_of(self, watched: Watched) -> str:
        types = [str(type_) for type_ in self._run(self.db.sql, watched.query.plain).types]
        columns = [f"{name} {type_}" for name, type_ in zip(watched.query.columns, types, strict=True)]
        if watched.tells_kind:
            columns.append("kind text")
            columns += [f"o{name[1:]} {type_}" for name, type_ in zip(watched.query.columns, types, strict=True)]
        return f"CREATE TABLE {watched.destination} ({', '.join(columns)})"

    def keep(self, query: ShapedQuery) -> Kept:
        """Makes a materialized view, over tables or over another one."""
        name, text, judged_by = f"m{len(self.kept)}", query.plain, query.plain
        below = [view for view in self.kept.values() if view.refresh == "on commit"]
        if below and self.choices.chance(4):
            view = self.choices.pick(below)
            text = f"SELECT b.c0, count(*) AS n FROM {view.name} AS b GROUP BY b.c0"
            judged_by = f"SELECT b.c0, count(*) AS n FROM ({view.judged_by}) AS b GROUP BY b.c0"
        refresh = self.choices.pick(REFRESHES)
        options = "" if refresh == "on commit" else f" WITH (refresh = '{refresh}')"
        made = self._run(self.db.sql, f"CREATE MATERIALIZED VIEW {name}{options} AS {text}")
        answer = self.judged(judged_by)
        self.kept[name] = Kept(name, query, refresh, judged_by, made.scn or self.last_scn, answer, {}, answer)
        return self.kept[name]

    def recompute(self, watched: Watched) -> None:
        """Nothing comes before it, everything by it."""
        if early := watched.feed.poll(timeout=0):
            raise Difference(f"{self.told(watched)}\nchanges came without cq_recompute: {early}")
        [(scn,)] = self._run(self.db.sql, f"SELECT cq_recompute('{watched.name}')").fetchall()
        self.story.append(f"cq_recompute('{watched.name}') -> {scn}")
        if scn < self.last_scn:
            raise Difference(f"{self.told(watched)}\ncq_recompute reached {scn} after commit {self.last_scn}")
        if watched.mode == BATCHED:
            self._want(watched, scn, watched.reported)
            watched.reported = watched.answer
        self.collect(watched)

    def alter(self, watched: Watched, what: str) -> None:
        self.story.append(f"ALTER CONTINUOUS QUERY {watched.name} {what}")
        self._run(self.db.sql, f"ALTER CONTINUOUS QUERY {watched.name} {what}")
        if what == "ACTIVATE" and watched.state == "INACTIVE":
            self._begin_anew(watched)
        watched.state = {"SUSPEND": "SUSPENDED", "ACTIVATE": "ACTIVE", "DEACTIVATE": "INACTIVE"}[what]

    def _begin_anew(self, watched: Watched) -> None:
        """An open subscription would be told that changes are missing."""
        watched.feed.close()
        watched.reported, watched.feed = watched.answer, self.db.subscribe(watched.name)
        watched.complete_at = scn_now(self.db)

    def deactivate(self, watched: Watched) -> None:
        """With all computed before, so that it is known what was."""
        self.settle(watched)
        self.alter(watched, "DEACTIVATE")

    def restart(self, *, at_once: bool) -> None:
        """Closes and opens the database; `at_once`, while changes may be on their way."""
        if not at_once:
            self.settle_all()
        self.story.append("restart")
        self._close_feeds()
        self.db.close()
        self.open()
        for watched in self.watched.values():
            if watched.state != "INACTIVE":
                watched.forget_after(watched.complete_at)
                watched.feed = self.db.subscribe(watched.name, after=watched.complete_at)

    def _close_feeds(self) -> None:
        for watched in self.watched.values():
            watched.feed.close()

    # comparisons

    def settle_all(self) -> None:
        for watched in self.watched.values():
            self.settle(watched)

    def settle(self, watched: Watched) -> None:
        """Everything that has to come by now has come."""
        if watched.state == "ACTIVE" and watched.mode != ON_COMMIT:
            self.recompute(watched)
        elif watched.state == "ACTIVE":
            self.db.wait(watched.name, self.last_scn)
            self.collect(watched)

    def collect(self, watched: Watched) -> None:
        """Listens until all is there, and a moment longer."""
        count = watched.all_wanted().total()
        until = time.monotonic() + PATIENCE
        while sum(heard.total() for heard in watched.heard.values()) < count and time.monotonic() < until:
            watched.hear(watched.feed.poll(timeout=1))
        watched.hear(watched.feed.poll(timeout=0.02))
        self.compare(watched)
        watched.complete_at = max(watched.complete_at, self.last_scn, *watched.heard)

    def compare(self, watched: Watched) -> None:
        for scn in sorted(watched.wanted.keys() | watched.heard.keys()):
            wanted, heard = watched.wanted.get(scn, Counter()), watched.heard.get(scn, Counter())
            if wanted != heard:
                raise Difference(f"{self.told(watched)}\nSCN {scn}:\n{told_apart(heard, wanted)}")

    def check_destination(self, watched: Watched) -> None:
        if watched.destination is None:
            return
        columns = ", ".join(watched.query.columns)
        wanted = watched.all_wanted()
        if not watched.tells_kind:
            rows = multiset(self.db.sql(f"SELECT {columns} FROM {watched.destination}").fetchall())
            self._same(watched, rows, Counter(change.row for change in wanted.elements()))
            return
        found = self.db.sql(f"SELECT * FROM {watched.destination}").fetchall()
        width = len(watched.query.columns)
        told = Counter(_read_change(multiset_row(row), width) for row in found)
        self._same(watched, told, wanted)

    def check_replay(self, watched: Watched, first: Rows) -> None:
        """What was there at first, with all changes that were heard, is the answer; where all were to be heard."""
        if watched.kinds != KINDS:
            return
        changes = sum(watched.heard.values(), Counter())
        self._same(watched, applied(first, changes.elements()), watched.answer)

    def check_view(self, view: Kept) -> None:
        got = multiset(self._run(self.db.sql, f"SELECT * FROM {view.name}").fetchall())
        view.read_at.add(scn_now(self.db))
        wanted = view.refreshed if view.refresh == "on demand" else view.answer_at(self.last_scn)
        if got != wanted:
            raise Difference(f"{self.told(view)}\n{told_apart(got, wanted)}")

    def refresh(self, view: Kept) -> None:
        full = self.choices.pick(["", "", " FULL"])
        [(scn,)] = self._run(self.db.sql, f"REFRESH MATERIALIZED VIEW {view.name}{full}").fetchall()
        if scn < self.last_scn:
            raise Difference(f"{self.told(view)}\nREFRESH reached {scn} after commit {self.last_scn}")
        view.refreshed = view.answer_at(scn)

    def check_changes(self, view: Kept) -> None:
        """CHANGES between any two reads. Commits that come faster than the view takes them in may be taken as one."""
        if view.refresh != "on commit":
            return
        self.check_view(view)
        text = f"SELECT * FROM {view.name} CHANGES FROM SCN {view.made_at + 1} TO SCN {max(view.read_at)}"
        told = [
            (row.pop("_commit_version"), row.pop("_change_type"), multiset_row(list(row.values())))
            for row in self._run(self.db.sql, text).arrow().to_pylist()
        ]
        for since, scn in itertools.pairwise([view.made_at, *sorted(view.read_at)]):
            net = Counter(view.answer_at(since))
            for at, kind, row in told:
                if since < at <= scn:
                    net[row] += 1 if kind in ("insert", "update_postimage") else -1
            got = Counter({row: count for row, count in net.items() if count})
            if got != view.answer_at(scn):
                apart = told_apart(got, view.answer_at(scn))
                raise Difference(f"{self.told(view)}\n{text}\n{told}\nfrom {since} to {scn}:\n{apart}")

    def _same(self, watched: Watched, got: Counter[Any], wanted: Counter[Any]) -> None:
        if got != wanted:
            raise Difference(f"{self.told(watched)}\n{told_apart(got, wanted)}")

    # what is told of a failure

    def told(self, about: Watched | Kept | None = None) -> str:
        """The seed, the tables, all that happened, and the query."""
        lines = [f"world of seed {self.seed}, kernel {self.kernel}"]
        lines += [table.create() for table in self.tables] + self.story
        if isinstance(about, Watched):
            lines += [f"{about.query.shape}, {about.state}:", about.definition]
        elif about is not None:
            lines += [f"{about.query.shape}:", f"CREATE MATERIALIZED VIEW {about.name} ({about.refresh}) AS"]
            lines += [about.judged_by]
        return "\n".join(lines)


def multiset_row(row: Sequence[Any]) -> Row:
    return tuple(map(plain, row))


def _read_change(row: Row, width: int) -> Change:
    """A row of a destination: the columns, the kind, the old columns."""
    values, kind, olds = row[:width], row[width], row[width + 1 :]
    return Change(kind, values, None if kind == "I" and set(olds) == {None} else olds)


def told_apart(got: Counter[Any], wanted: Counter[Any]) -> str:
    lines = [f"  too much: {item}" for item in sorted((got - wanted).elements(), key=repr)[:12]]
    lines += [f"  missing:  {item}" for item in sorted((wanted - got).elements(), key=repr)[:12]]
    lines += [f"  got:      {sorted(got.elements(), key=repr)[:20]}"]
    lines += [f"  wanted:   {sorted(wanted.elements(), key=repr)[:20]}"]
    return "\n".join(lines)
