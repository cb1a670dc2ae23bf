"""A view over windows at work: rows for one slide come, and its result is read, again and again.

The response is the time from the insert's return until the window's rows have been read. It is taken for some slides;
then, for others, the jobs' pieces are run again in this process, which would disturb a response.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from peers.answers import WrongAnswer
from peers.datacell_judge import Judge
from peers.datacell_kernel import KernelWatch
from peers.datacell_workload import Shape

INCREMENTAL, ANEW = "incremental", "reevaluate"
PATIENCE = 600.0
KEPT = 1000
"""So many results the views keep."""
WARM_UP = 40
"""So many slides come before all others: the first jobs of a kind take longer."""


@dataclass
class Slides:
    """Seconds of each slide. `first` is the response of the first window, for which all of its rows come."""

    shape: Shape
    first: float = 0.0
    response: list[float] = field(default_factory=list)
    jobs: list[float] = field(default_factory=list)
    """What of the response were jobs that somebody waited for."""
    absorb: list[float] = field(default_factory=list)
    """The kernel's time for new rows,"""
    merge: list[float] = field(default_factory=list)
    """and for the result."""
    duckdb: list[float] = field(default_factory=list)
    """DuckDB alone, over the rows of the same windows."""

    @property
    def kernel(self) -> list[float]:
        return [absorbed + merged for absorbed, merged in zip(self.absorb, self.merge, strict=True)]

    def numbers(self) -> dict[str, Any]:
        names = ("first", "response", "jobs", "absorb", "merge", "duckdb")
        return {"shape": vars(self.shape)} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Fed:
    """A view with streams of its own."""

    name: str
    streams: list[str]
    taken: Slides


class Bench:
    def __init__(self, db: Any, folder: Path, kernel_slides: int) -> None:
        self.db, self.folder = db, folder
        self.kernel_slides = kernel_slides
        self.watch = KernelWatch(db)
        self._names = itertools.count()
        for shape in (Shape("q1", 4_000, 1_000, 0.2), Shape("q2", 400, 100, 0.01)):
            self.both(shape, WARM_UP)
        self.empty = self.watch.empty_job()

    def both(self, shape: Shape, slides: int) -> dict[str, Slides]:
        """The same windows kept incrementally and evaluated anew: they get each slide's rows by turns."""
        ways = (INCREMENTAL, ANEW)
        with self._views(shape, ways) as (views, judge):
            self._fill(views, judge)
            for number in range(1, slides + self.kernel_slides + 1):
                self.watch.replays = number > slides
                tables = [judge.next_rows(place, shape.slide) for place in range(shape.streams)]
                for view in views:
                    self._slide(view, number, tables, judge)
            self.watch.replays = False
        return {how: view.taken for how, view in zip(ways, views, strict=True)}

    def while_it_fills(self, shape: Shape, slides: int, inserts: int, seconds: float) -> list[tuple[int, float]]:
        """The rows of a slide come in many inserts, over so many seconds: in how many chunks they were absorbed, as the
        view has found out by then, and the response after the last."""
        found = []
        with self._views(shape, [INCREMENTAL]) as ([view], judge):
            self._fill([view], judge)
            [stream], size = view.streams, -(-shape.slide // inserts)
            for number in range(1, slides + 1):
                rows, chunks = judge.next_rows(0, shape.slide), self._chunks(view)
                for start in range(0, shape.slide, size):
                    self.db.insert(stream, rows.slice(start, size))
                    if start + size < shape.slide:
                        time.sleep(seconds / inserts)
                answer, taken = self._read(view)
                judge.check(number, answer, view.name)
                found.append((chunks, taken))
        return found

    def at_once(self, shape: Shape, windows: int) -> float:
        """Seconds for the rows of many slides: from the beginning of their COPY until each result was handed out."""
        shape = replace(shape, with_end=True)
        with self._views(shape, [INCREMENTAL]) as ([view], judge):
            self._fill([view], judge)
            file = judge.next_file(0, windows * shape.slide, self.folder)
            with self.db.subscribe(view.name) as results:
                started = time.perf_counter()
                self.db.sql(f"COPY {view.streams[0]} FROM '{file}' PARQUET")
                found = _windows(results, windows, started + PATIENCE)
                seconds = time.perf_counter() - started
            for number in range(1, windows + 1):
                judge.check(number, found[shape.span(number)[1]], "all at once")
        return seconds

    # --- steps -----------------------------------------------------------------------------------

    @contextmanager
    def _views(self, shape: Shape, ways: Sequence[str]) -> Iterator[tuple[list[Fed], Judge]]:
        judge, views = Judge(shape), [self._view(shape, how) for how in ways]
        try:
            yield views, judge
        finally:
            judge.close()
            for view in views:
                self.db.sql(f"DROP VIEW {view.name}")
                for stream in view.streams:
                    self.db.sql(f"DROP STREAM {stream}")

    def _view(self, shape: Shape, how: str) -> Fed:
        number = next(self._names)
        name, streams = f"q{number}", [f"s{number}_{place}" for place in range(shape.streams)]
        for stream in streams:
            self.db.sql(f"CREATE STREAM {stream} (x1 int, x2 int)")
        options = f"maintenance = '{how}', retain = {KEPT}"
        self.db.sql(f"CREATE VIEW {name} WITH ({options}) AS {shape.over_windows(*streams)}")
        return Fed(name, streams, Slides(shape))

    def _fill(self, views: Sequence[Fed], judge: Judge) -> None:
        """The rows of the first window come as files."""
        shape = judge.shape
        files = [judge.next_file(place, shape.first_rows, self.folder) for place in range(shape.streams)]
        for view in views:
            for stream, file in zip(view.streams, files, strict=True):
                self.db.sql(f"COPY {stream} FROM '{file}' PARQUET")
            rows, view.taken.first = self._read(view)
            judge.check(0, [row[shape.with_end :] for row in rows], view.name)
        self.watch.taken()

    def _slide(self, view: Fed, number: int, tables: Sequence[pa.Table], judge: Judge) -> None:
        for stream, table in zip(view.streams, tables, strict=True):
            self.db.insert(stream, table)
        rows, seconds = self._read(view)
        jobs, taken = [job for job in self.watch.taken() if job.step != "upkeep"], view.taken
        taken.duckdb.append(judge.check(number, rows, view.name))
        if self.watch.replays:
            for step, times in (("absorb", taken.absorb), ("merge", taken.merge)):
                times.append(sum(job.kernel_seconds or 0.0 for job in jobs if job.step == step))
        else:
            taken.response.append(seconds)
            taken.jobs.append(sum(job.seconds for job in jobs))

    def _read(self, view: Fed) -> tuple[list[Any], float]:
        started = time.perf_counter()
        rows = self.db.sql(f"SELECT * FROM {view.name}").fetchall()
        return rows, time.perf_counter() - started

    def _chunks(self, view: Fed) -> int:
        """As EXPLAIN tells it."""
        plan = " ".join(line for (line,) in self.db.sql(f"EXPLAIN VIEW {view.name}").fetchall())
        told = re.search(r"absorbed in (\d+) chunks", plan)
        return int(told[1]) if told else 1


def _windows(results: Any, count: int, end: float) -> dict[int, list[Any]]:
    """The rows of so many windows, by where they end."""
    found: dict[int, list[Any]] = {}
    while len(found) < count and time.perf_counter() < end:
        for change in results.poll(1.0):
            window_end, *row = change.row.values()
            found.setdefault(window_end, []).append(row)
    if len(found) < count:
        raise WrongAnswer(f"{len(found)} of {count} windows were handed out")
    return found
