"""Killed at any moment, every window is handed out once, and holds the rows that it must hold.

Each round starts a child that feeds two streams, reads windows over them and makes new views, kills it after a random
time or at a random call, opens the folder here and compares every window of every view with those that follow from the
rows that are there (`tests/laws/window_model.py` says which rows a window has).
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from killing import Ledger, at_a_call, by_our_hand, kill_rounds
from window_child import FEEDS, LATENESS, ROWS, WINDOWS, named, time_of
from window_model import EPOCH, Read, Rows, Span, complete, moment, sessions

import midstream

VIEWS_KEPT = 3
PLACES = ("windows", "window_log", "clocks", "lateness", "states", "pipelines", "merging", "views")
"""What moves windows forward, by the files of the code."""
WAYS = (
    by_our_hand,
    at_a_call(0.5, 3.5, *(f"midstream/runtime/{place}" for place in PLACES)),
    at_a_call(1.0, 4.5, "midstream/runtime/"),
    at_a_call(4.3, 6.3),
)
SECOND = 1_000_000
SPANS = {
    "tumbling": {"fed": Span("rows", 30, 30)},
    "sliding": {"fed": Span("rows", 20, 90)},
    "growing": {"fed": Span("rows", 40)},
    "resetting": {"fed": Span("rows", 20, reset=80)},
    "over": {"fed": Span("rows", 60, 60)},
    "plain": {"fed": Span("rows", 60, 50)},
    "ticking": {"clocked": Span("time", 30 * SECOND, 90 * SECOND)},
    "joined": {"fed": Span("rows", 15, 15), "clocked": Span("rows", 4, 8)},
}
Row = tuple[int, int]
"""A step, and the number of a row in it."""


@dataclass(frozen=True)
class Part:
    """A window over one of a view's streams."""

    start: Any
    end: Any
    rows: list[Row]
    total: int = 0
    """Of the numbers of a window by rows."""


def sums(part: Part) -> list[tuple[Any, ...]]:
    """Steps come one after the other."""
    return [(part.start, part.end, len(part.rows), part.total, part.rows[-1][0])]


def sums_of_results(part: Part) -> list[tuple[Any, ...]]:
    """Two windows of thirty rows are two rows of the view above."""
    [(_, _, *found)] = sums(part)
    return [(2, *found)]


def steps(part: Part) -> list[tuple[Any, ...]]:
    return [(part.start, part.end, len(part.rows), sum(step for step, _ in part.rows))]


def fifths(part: Part) -> list[tuple[Any, ...]]:
    return [(part.start, part.end, *row) for row in part.rows if row[1] % 5 == 0]


def by_parity(part: Part) -> list[tuple[Any, ...]]:
    steps = {odd: [step for step, n in part.rows if n % 2 == odd] for odd in (0, 1)}
    return [(part.start, part.end, odd, len(own), sum(own)) for odd, own in steps.items() if own]


def pairs(one: Part, two: Part) -> list[tuple[Any, ...]]:
    counts = Counter(n for _, n in one.rows for _, m in two.rows if n == m)
    return [(one.end, two.end, n, count) for n, count in counts.items()]


JUDGES: dict[str, Callable[..., list[tuple[Any, ...]]]] = {
    "tumbling": sums,
    "sliding": sums,
    "growing": sums,
    "resetting": sums,
    "over": sums_of_results,
    "visits": steps,
    "plain": fifths,
    "ticking": by_parity,
    "joined": pairs,
}
"""What each view makes of a window."""


@dataclass
class Told(Ledger):
    """What the children have said of steps, and the most rows of windows that one has read of each view."""

    read: dict[str, int] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    """Views that we have dropped."""

    def hear(self, lines: list[str]) -> None:
        super().hear(lines)
        for said in map(json.loads, lines):
            if said["event"] == "read":
                self.read[said["view"]] = max(self.read.get(said["view"], 0), said["rows"])


@dataclass(frozen=True)
class Come:
    """The rows that are there, in the order in which they came."""

    rows: dict[str, list[Row]]
    clock: Rows

    @classmethod
    def of(cls, kinds: dict[int, str], there: set[int]) -> Come:
        """The watermark moves from step to step, as each is one insert."""
        rows: dict[str, list[Row]] = {"fed": [], "clocked": []}
        clock = Rows(LATENESS * SECOND)
        for step in sorted(there):
            for stream in FEEDS[kinds[step]]:
                new = [(step, n) for n in range(ROWS[kinds[step]])]
                rows[stream] += new
                if stream == "clocked":
                    clock.insert([_microseconds(time_of(*row)) for row in new])
        return cls(rows, clock)

    @cached_property
    def totals(self) -> dict[str, list[int]]:
        """Of the numbers of all rows before one."""
        return {stream: [0, *accumulate(n for _, n in rows)] for stream, rows in self.rows.items()}

    @cached_property
    def in_time(self) -> list[tuple[int, Row]]:
        """The rows with a clock that are not late, by their times; those of one time as they came."""
        come = zip(self.rows["clocked"], self.clock.times, self.clock.in_time, strict=True)
        return sorted((time, row) for row, time, in_time in come if in_time and time is not None)

    def windows(self, spans: dict[str, Span], since: int = 0) -> Iterator[list[Part]]:
        """Every window that is complete."""
        come = {"fed": Rows(0, times=[None] * len(self.rows["fed"])), "clocked": self.clock}
        for number in complete([Read(stream, span, since) for stream, span in spans.items()], come):
            yield [self._part(stream, span, number, since) for stream, span in spans.items()]

    def sessions(self, gap: int) -> Iterator[list[Part]]:
        """Those of the stream with a clock that are over."""
        for run in sessions(gap, self.clock, 0, [""] * len(self.clock.times)):
            yield [Part(moment(run.start), moment(run.end), [self.rows["clocked"][place] for place in run.places])]

    def _part(self, stream: str, span: Span, number: int, since: int) -> Part:
        start, end = span.bounds(number)
        assert start is not None
        if span.by == "rows":
            totals = self.totals[stream]
            rows = self.rows[stream][since + start : since + end]
            return Part(start, end, rows, totals[since + end] - totals[since + start])
        own = slice(*(bisect_left(self.in_time, (bound,)) for bound in (start, end)))
        return Part(moment(start), moment(end), [row for _, row in self.in_time[own]])


def _microseconds(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)


def test_every_window_is_right_once_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=1, seed=3, longest=6.0)


@pytest.mark.long
@pytest.mark.timeout(5000)
def test_sixty_kills_change_no_window(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=60, seed=int(os.environ.get("KILL_SEED", "7")), longest=10.0)


def kill(folder: Path, rounds: int, seed: int, longest: float) -> None:
    told = Told()
    make_database(folder)
    kill_rounds(
        folder,
        told,
        "window_child.py",
        WAYS,
        lambda db: check(db, told),
        rounds=rounds,
        seed=seed,
        longest=longest,
    )


def make_database(folder: Path) -> None:
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE STREAM fed (step bigint, n int) WITH (retain = '7 days')")
        db.sql(
            "CREATE STREAM clocked (step bigint, n int, at timestamp) "
            f"WITH (timestamp = 'at', lateness = '{LATENESS} seconds')"
        )
        db.sql("CREATE VIEW ticks AS SELECT step, count(*) AS rows FROM clocked GROUP BY step")
        for name, query in WINDOWS.items():
            db.sql(f"CREATE VIEW {named(name)} WITH (retain = 1000000) AS {query}")


def check(db: Any, told: Told) -> None:
    kinds = told.possible
    fed = dict(db.sql("SELECT step, count(*) FROM fed GROUP BY step").fetchall())
    ticks = dict(db.sql("SELECT * FROM ticks").fetchall())
    there = fed.keys() | ticks.keys()
    assert {step for step, kind in told.certain.items() if ROWS[kind]} <= there <= kinds.keys(), (
        "steps lost or invented"
    )
    wrong = {step: kinds[step] for step in there if not _is_whole(step, kinds[step], fed, ticks)}
    assert not wrong, f"inserts by half, or twice: {wrong}"
    come = Come.of(kinds, there)
    for name in WINDOWS:
        found = Counter(db.sql(f"SELECT * FROM {named(name)} ALL WINDOWS").fetchall())
        _compare(name, found, come.windows(SPANS[name]) if name in SPANS else come.sessions(6 * SECOND))
        assert found.total() >= told.read.get(name, 0), f"windows of {name} that were read are gone"
    late = Counter(db.sql("SELECT step, n FROM late_clocked").fetchall())
    came = zip(come.rows["clocked"], come.clock.in_time, strict=True)
    assert late == Counter(row for row, in_time in came if not in_time), "late rows were lost, or doubled"
    check_new_views(db, told, come)
    told.settle(there | {int(name[5:]) for name in _seen(db)})


def _is_whole(step: int, kind: str, fed: dict[int, int], ticks: dict[int, int]) -> bool:
    found = {"fed": fed.get(step, 0), "clocked": ticks.get(step, 0)}
    return found == {stream: ROWS[kind] if stream in FEEDS[kind] else 0 for stream in found}


def check_new_views(db: Any, told: Told, come: Come) -> None:
    """A view that was made under way numbers the rows from the first that came after it."""
    made = _seen(db)
    assert {f"seen_{step}" for step in told.done_of("view")} - told.dropped <= made, "a view was lost"
    for name in sorted(made, key=lambda name: int(name[5:])):
        since = sum(step < int(name[5:]) for step, _ in come.rows["fed"])
        found = Counter(db.sql(f"SELECT * FROM {name} ALL WINDOWS").fetchall())
        _compare("tumbling", found, come.windows(SPANS["tumbling"], since))
    for name in sorted(made, key=lambda name: int(name[5:]))[:-VIEWS_KEPT]:
        db.sql(f"DROP VIEW {name}")
        told.dropped.add(name)


def _seen(db: Any) -> set[str]:
    return {name for name, *_ in db.sql("SHOW VIEWS").fetchall() if name.startswith("seen_")}


def _compare(name: str, found: Counter[Any], windows: Iterator[list[Part]]) -> None:
    wanted = Counter(row for parts in windows for row in JUDGES[name](*parts))
    more, less = list((found - wanted).elements())[:5], list((wanted - found).elements())[:5]
    assert not more and not less, f"{name} has {more} and not {less}, of {wanted.total()} rows"
