"""What of a response is Spark's job, and what is the kernel's own work.

Every job of the database is noted with its wall time. While `replays` is set, its tasks are run once more in this
process, one after the other, with no Spark around them: that is the kernel's time. Like a worker, this process keeps
what it has read twice, and as a task that writes a file does, it plans each text once.
"""

from __future__ import annotations

import statistics
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from midstream.maintenance.engine import Answer, Piece
from midstream.spark import kernel
from midstream.spark.kernel import Work, run_task

EMPTY = Piece("SELECT 1 AS n")


@dataclass(frozen=True)
class Job:
    label: str
    seconds: float
    kernel_seconds: float | None

    @property
    def step(self) -> str:
        """absorb: of new rows; merge: of partials, or rows, into results; upkeep: nobody waits for it."""
        if self.label.startswith("absorb") or self.label.startswith("take"):
            return "absorb"
        return "merge" if self.label.startswith("windows of") else "upkeep"


def _planned_once(run: Any, sql: str) -> kernel.Stored:
    """The rows of a piece. To ask for rows by themselves, DuckDB plans a text twice."""
    [statement] = run.connection.extract_statements(run.names.before(sql))
    with warnings.catch_warnings(action="ignore"):
        rows = run.connection.execute(statement).to_arrow_reader(kernel.ROW_GROUP_ROWS)
    return kernel.store(rows, run.folder / f"{run.name}.arrow")


class KernelWatch:
    def __init__(self, db: Any) -> None:
        self._engine = db._engine
        self._run = self._engine.run
        self._lock = threading.Lock()
        self._jobs: list[Job] = []
        self.replays = False
        self._engine.run = self._noted
        self._nothing = 0.0
        self._nothing = statistics.median(self._replayed([EMPTY]) for _ in range(20))
        """To connect and to ask for nothing is no work."""

    def taken(self) -> list[Job]:
        """The jobs since the last time."""
        with self._lock:
            jobs, self._jobs = self._jobs, []
        return jobs

    def empty_job(self, times: int = 20) -> float:
        """What a job costs that does nothing."""
        return statistics.median(self._timed(EMPTY) for _ in range(times))

    def _timed(self, piece: Piece) -> float:
        started = time.perf_counter()
        self._run("duckdb", [piece], label="empty")
        return time.perf_counter() - started

    def _noted(
        self, kernel: Any, pieces: Sequence[Piece], *, label: str = "", cancellation: Any = None
    ) -> list[Answer]:
        started = time.perf_counter()
        answers = self._run(kernel, pieces, label=label, cancellation=cancellation)
        seconds = time.perf_counter() - started
        again = None
        if self.replays and kernel == "duckdb":
            again = self._replayed(pieces)
        with self._lock:
            self._jobs.append(Job(label, seconds, again))
        return answers

    def _replayed(self, pieces: Sequence[Piece]) -> float:
        """The better of two: a worker may have the input in memory, too."""
        work = self._engine.work([replace(piece, output=None, checks=(), copies=None) for piece in pieces])
        return max(min(self._tasks_run(work) for _ in range(2)) - self._nothing, 0.0)

    def _tasks_run(self, work: Work) -> float:
        with patch.object(kernel._Run, "_store", _planned_once):
            started = time.perf_counter()
            replies = [reply for task in range(len(work.tasks)) for _, reply in run_task(work, task, 0)]
            seconds = time.perf_counter() - started
        for reply in replies:
            if reply.error is not None:
                raise reply.error
        return seconds
