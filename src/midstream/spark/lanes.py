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
from typing import TYPE_CHECKING, Any, TypeVar

from midstream.errors import Cancelled, Closed
from midstream.maintenance.engine import Cancellation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answered = TypeVar("Answered")
_POLL_SECONDS = 0.02
_PATIENCE_SECONDS = 15.0
_CLOSING_SECONDS = 5.0
"""What closing waits for all jobs together: Spark is stopped next, and they with it."""


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
        self._running: dict[str, _Running] = {}
        self._closed = False

    def call(self, work: Callable[[Lane], Answered], job: Job, cancellation: Cancellation | None = None) -> Answered:
        """Runs `work` on a lane and waits. A raised cancellation or Ctrl-C stops this job and no other."""
        lane = self._take()
        answer = lane.submit(work, job)
        running = _Running(job, lane, answer)
        with self._lock:
            self._running[job.id] = running
            closed_meanwhile = self._closed
        answer.add_done_callback(lambda _: self._give_back(running))
        if closed_meanwhile:
            running.stop()
        try:
            return wait_for(answer, cancellation)
        except Cancelled:
            running.stop()
            raise

    @property
    def jobs(self) -> list[Job]:
        with self._lock:
            return [running.job for running in self._running.values()]

    def close(self) -> None:
        """Cancels what runs, and lets the threads go."""
        with self._lock:
            self._closed = True
            lanes, self._free = self._free, []
            jobs = list(self._running.values())
        give_up_at = time.monotonic() + _CLOSING_SECONDS
        for running in jobs:
            running.stop(give_up_at)
        for lane in lanes:
            lane.close()

    def _take(self) -> Lane:
        with self._lock:
            if self._closed:
                raise Closed("the database is closed")
            if self._free:
                return self._free.pop()
            self._made += 1
            number = self._made
        return Lane(self._new_session(), number)

    def _give_back(self, done: _Running) -> None:
        with self._lock:
            self._running.pop(done.job.id, None)
            if not self._closed:
                self._free.append(done.lane)
                return
        done.lane.close()


@dataclass(frozen=True)
class _Running:
    """A job that a lane is busy with."""

    job: Job
    lane: Lane
    answer: Future[Any]

    def stop(self, give_up_at: float | None = None) -> None:
        """Cancels until the lane is free again: a job that Spark has not yet seen cannot be cancelled once. Where Spark
        does not answer, a thread of its own waits for it, not the caller."""
        give_up_at = give_up_at or time.monotonic() + _PATIENCE_SECONDS
        asking = threading.Thread(target=self._cancel, args=(give_up_at,), name="midstream-cancel", daemon=True)
        asking.start()
        asking.join(max(give_up_at - time.monotonic(), 0.1))

    def _cancel(self, give_up_at: float) -> None:
        while not self.answer.done() and time.monotonic() < give_up_at:
            # A Spark that is gone has no job to cancel.
            with contextlib.suppress(Exception):
                self.job.on_cancel()
                self.lane.spark.sparkContext.cancelJobGroup(self.job.id)
            wait([self.answer], 5 * _POLL_SECONDS)


def wait_for(answer: Future[Answered], cancellation: Cancellation | None = None) -> Answered:
    """Waits until the answer is there, the cancellation is raised, or Ctrl-C is pressed."""
    try:
        while cancellation is not None and not answer.done():
            if cancellation.requested:
                raise Cancelled("the statement was cancelled")
            wait([answer], _POLL_SECONDS)
        return answer.result()
    except KeyboardInterrupt:
        raise Cancelled("the statement was cancelled") from None
