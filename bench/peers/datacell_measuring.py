"""A view over windows at work: rows for one slide come, and its result is read, again and again.

The response is the time from the insert's return until the window's rows have been read. It is taken for some slides;
then, for others, the jobs' pieces are run again in this process, which would disturb a response.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from midstream.runtime.pipelines import PIPELINE
from peers.answers import WrongAnswer
from peers.datacell_judge import Judge
from peers.datacell_kernel import KernelWatch
from peers.datacell_workload import Shape

INCREMENTAL, ANEW = "incremental", "reevaluate"
PATIENCE = 600.0
KEPT = 1000
"""So many results the views keep."""


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


class Bench:
    def __init__(self, db: Any, folder: Path, slides: int, kernel_slides: int) -> None:
        self.db, self.folder = db, folder
        self.slides, self.kernel_slides = slides, kernel_slides
        self.watch = KernelWatch(db)
        self.empty = self.watch.empty_job()
        self._names = itertools.count()

    def both(self, shape: Shape, slides: int | None = None, chunks: int = 1) -> dict[str, Slides]:
        """The same windows kept incrementally and evaluated anew, one after the other."""
        return {how: self.measure(shape, how, slides, chunks) for how in (INCREMENTAL, ANEW)}

    def measure(self, shape: Shape, how: str, slides: int | None = None, chunks: int = 1) -> Slides:
        taken = Slides(shape)
        with self._view(shape, how) as (view, streams, judge):
            taken.first = self._fill(view, streams, judge)
            count = slides or self.slides
            for number in range(1, count + self.kernel_slides + 1):
                self.watch.replays = number > count
                self._slide(taken, number, view, streams, judge, chunks)
            self.watch.replays = False
        return taken

    def at_once(self, shape: Shape, windows: int) -> float:
        """Seconds for the rows of many slides: from the beginning of their COPY until each result was handed out."""
        shape = replace(shape, with_end=True)
        with self._view(shape, INCREMENTAL) as (view, streams, judge):
            self._fill(view, streams, judge)
            [stream], file = streams, judge.next_file(0, windows * shape.slide, self.folder)
            with self.db.subscribe(view) as results:
                started = time.perf_counter()
                self.db.sql(f"COPY {stream} FROM '{file}' PARQUET")
                found = _windows(results, windows, started + PATIENCE)
                seconds = time.perf_counter() - started
            for number in range(1, windows + 1):
                judge.check(number, found[shape.span(number)[1]], "all at once")
        return seconds

    # --- steps -----------------------------------------------------------------------------------

    @contextmanager
    def _view(self, shape: Shape, how: str) -> Iterator[tuple[str, list[str], Judge]]:
        """A new view with streams of its own."""
        number = next(self._names)
        streams, view, judge = [f"s{number}_{n}" for n in range(shape.streams)], f"q{number}", Judge(shape)
        for stream in streams:
            self.db.sql(f"CREATE STREAM {stream} (x1 int, x2 int)")
        options = f"maintenance = '{how}', retain = {KEPT}"
        self.db.sql(f"CREATE VIEW {view} WITH ({options}) AS {shape.over_windows(*streams)}")
        try:
            yield view, streams, judge
        finally:
            judge.close()
            self.db.sql(f"DROP VIEW {view}")
            for stream in streams:
                self.db.sql(f"DROP STREAM {stream}")

    def _fill(self, view: str, streams: list[str], judge: Judge) -> float:
        """The rows of the first window come as a file."""
        files = [judge.next_file(number, judge.shape.first_rows, self.folder) for number in range(len(streams))]
        for stream, file in zip(streams, files, strict=True):
            self.db.sql(f"COPY {stream} FROM '{file}' PARQUET")
        rows, seconds = self._read(view)
        judge.check(0, [row[judge.shape.with_end :] for row in rows], view)
        self.watch.taken()
        return seconds

    def _slide(self, taken: Slides, number: int, view: str, streams: list[str], judge: Judge, chunks: int) -> None:
        tables = [judge.next_rows(place, judge.shape.slide) for place in range(len(streams))]
        size = -(-judge.shape.slide // chunks)
        for start in range(0, judge.shape.slide, size):
            if start:
                self._wait_until_absorbed()
                self.watch.taken()
            for stream, table in zip(streams, tables, strict=True):
                self.db.insert(stream, table.slice(start, size))
        rows, seconds = self._read(view)
        jobs = [job for job in self.watch.taken() if job.step != "upkeep"]
        taken.duckdb.append(judge.check(number, rows, view))
        if self.watch.replays:
            for step, times in (("absorb", taken.absorb), ("merge", taken.merge)):
                times.append(sum(job.kernel_seconds or 0.0 for job in jobs if job.step == step))
        else:
            taken.response.append(seconds)
            taken.jobs.append(sum(job.seconds for job in jobs))

    def _read(self, view: str) -> tuple[list[Any], float]:
        started = time.perf_counter()
        rows = self.db.sql(f"SELECT * FROM {view}").fetchall()
        return rows, time.perf_counter() - started

    def _wait_until_absorbed(self) -> None:
        streams = self.db._store.streams
        for entry, _ in streams.readers_of(PIPELINE):
            streams.wait(entry.id, streams.journal.last_scn)


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
