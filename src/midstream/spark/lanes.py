"""The threads that talk to the JVM: each lane is one thread with a Spark session of its own.

A lane runs one call at a time, so that temporary views and job properties of two statements never meet,
while the caller's thread only waits and can be interrupted. Lanes are made when all others are busy, and kept.

    lanes.call(lambda lane: lane.spark.sql("SELECT 1").toArrow(), job)
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from midstream.errors import Cancelled, Closed
from midstream.maintenance.engine import Cancellation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answered = TypeVar("Answered")
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 15.0


@dataclass(frozen=True)
class Job:
    """One call: its name for Spark (a job group), and what to do when it has to stop early."""

    label: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    on_cancel: Callable[[], None] = lambda: None


class Lane:
    """A thread, the JVM thread that pyspark pins to it, and a session that no other thread uses."""

    def __init__(self, spark: SparkSession, number: int) -> None:
        self.spark = spark
        self.frames: dict[int, DataFrame] = {}
        """The kept DataFrames of the DuckDB kernel, by number of tasks."""
        self._pool = f"midstream-{number}"
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"midstream-lane-{number}")

    def submit(self, work: Callable[[Lane], Answered], job: Job) -> Future[Answered]:
        return self._thread.submit(self._run, work, job)

    def _run(self, work: Callable[[Lane], Answered], job: Job) -> Answered:
        context = self.spark.sparkContext
        context.setJobGroup(job.id, job.label, interruptOnCancel=True)
        # Spark is fair between pools only: without one each, a long job's tasks all go first.
        context.setLocalProperty("spark.scheduler.pool", self._pool)
        return work(self)

    def close(self) -> None:
        self._thread.shutdown(wait=False)


class Lanes:
    def __init__(self, new_session: Callable[[], SparkSession]) -> None:
        self._new_session = new_session
        self._lock = threading.Lock()
        self._free: list[Lane] = []
        self._made = 0
        self._jobs: dict[str, Job] = {}
        self._closed = False

    def call(self, work: Callable[[Lane], Answered], job: Job, cancellation: Cancellation | None = None) -> Answered:
        """Runs `work` on a lane and waits. A raised cancellation or Ctrl-C stops this job and no other."""
        lane = self._take(job)
        answer = lane.submit(work, job)
        answer.add_done_callback(lambda _: self._give_back(lane, job))
        try:
            return self._wait(answer, cancellation)
        except (_Stop, KeyboardInterrupt):
            self._stop(lane, job, answer)
            raise Cancelled("the statement was cancelled") from None

    @property
    def running(self) -> list[Job]:
        with self._lock:
            return list(self._jobs.values())

    def close(self) -> None:
        with self._lock:
            self._closed = True
            lanes, self._free = self._free, []
        for lane in lanes:
            lane.close()

    def _take(self, job: Job) -> Lane:
        with self._lock:
            if self._closed:
                raise Closed("the database is closed")
            self._jobs[job.id] = job
            if self._free:
                return self._free.pop()
            self._made += 1
            number = self._made
        return Lane(self._new_session(), number)

    def _give_back(self, lane: Lane, job: Job) -> None:
        with self._lock:
            self._jobs.pop(job.id, None)
            if not self._closed:
                self._free.append(lane)
                return
        lane.close()

    @staticmethod
    def _wait(answer: Future[Answered], cancellation: Cancellation | None) -> Answered:
        while cancellation is not None and not answer.done():
            if cancellation.requested:
                raise _Stop
            wait([answer], _POLL_SECONDS)
        return answer.result()

    @staticmethod
    def _stop(lane: Lane, job: Job, answer: Future[Answered]) -> None:
        """Cancels until the lane is free again: a job that Spark has not yet seen cannot be cancelled once."""
        job.on_cancel()
        give_up_at = time.monotonic() + _PATIENCE_SECONDS
        while not answer.done() and time.monotonic() < give_up_at:
            with contextlib.suppress(Exception):
                lane.spark.sparkContext.cancelJobGroup(job.id)
            wait([answer], 5 * _POLL_SECONDS)


class _Stop(Exception):
    """The statement is to be cancelled."""
