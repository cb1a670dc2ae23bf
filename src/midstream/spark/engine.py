"""The engine on Spark: pieces of SQL as Spark jobs, on the DuckDB kernel or as Spark SQL.

Spark starts in the background when the engine is made; only a job waits for it. A job is a call on a lane,
and the caller's thread stays free to be interrupted. What a failed or cancelled job wrote is removed.

    engine = SparkEngine("shop.db/work")
    [answer] = engine.run("duckdb", [Piece("SELECT 1 AS n")])
    engine.close()
"""

from __future__ import annotations

import base64
import contextlib
import pickle
import shutil
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from midstream.errors import Closed, Error
from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Cancellation, Files, Piece, Progress
from midstream.plan.render import DUCKDB_SETTINGS
from midstream.spark.duckdb_connection import Limits, forget
from midstream.spark.errors import from_spark
from midstream.spark.jvm import require_java
from midstream.spark.kernel import IN_A_FILE, PROPERTY, Reply, Work, cancel_file, load, run_tasks
from midstream.spark.lanes import Job, Lane, Lanes, wait_for
from midstream.spark.look_up import look_up
from midstream.spark.resources import Resources
from midstream.spark.session import Lease, session_settings, start_session
from midstream.spark.spark_sql import defined_inputs, run_spark_sql, size_shuffles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answered = TypeVar("Answered")
_LOOK_UP_MEMORY = 512 << 20
"""What the driver may use for its own questions; more spills to the disk."""
_LARGEST_PROPERTY = 32_000
"""Bytes of work that travel as a property of the job; more goes through a file."""
_SHORT = 128 << 20
"""A piece that reads no more bytes takes a second at most."""


class SparkEngine:
    """Runs pieces on Spark. Thread-safe.

    `work_folder` is emptied at the start and removed at the end; on a cluster, all workers must see it."""

    def __init__(
        self,
        work_folder: str | Path,
        *,
        master: str | None = None,
        spark: SparkSession | None = None,
        cores: int | None = None,
        memory: int | str | None = None,
    ) -> None:
        if spark is None:
            require_java()
        self._resources = Resources.of(cores, memory)
        self._master = master
        self._given = spark
        self._work = _fresh_folder(Path(work_folder))
        self._closed = False
        self._lease: Future[Lease] = Future()
        self._lanes = Lanes(self._new_session)
        threading.Thread(target=self._start, name="midstream-spark-start", daemon=True).start()

    @property
    def cores(self) -> int:
        return self._resources.cores

    def run(
        self,
        kernel: Kernel,
        pieces: Sequence[Piece],
        *,
        label: str = "",
        cancellation: Cancellation | None = None,
    ) -> list[Answer]:
        if not pieces:
            return []
        if kernel == "duckdb":
            return self._run_duckdb(pieces, label, cancellation)
        return [self._run_spark(piece, label, cancellation) for piece in pieces]

    def look_up(self, piece: Piece) -> Answer:
        self._check_open()
        return look_up(piece, self._limits(self.cores, _LOOK_UP_MEMORY), str(self._work))

    def data_frame(self, piece: Piece) -> object:
        def make(lane: Lane) -> DataFrame:
            size_shuffles(lane.spark, piece, self.cores)
            with defined_inputs(lane.spark, piece, self._work):
                return lane.spark.sql(piece.sql)

        return self._call(make, Job())

    def save_data_frame(self, frame: object, folder: str) -> tuple[str, ...]:
        job = Job("write a DataFrame")
        apart = Path(folder) / f".{job.id}"

        def save(lane: Lane) -> tuple[str, ...]:
            try:
                cast("DataFrame", frame).write.parquet(str(apart))
                return _moved_in(apart, Path(folder), job.id)
            finally:
                shutil.rmtree(apart, ignore_errors=True)

        return self._call(save, job)

    def progress(self) -> Sequence[Progress]:
        if not self._lease.done() or self._lease.exception() is not None:
            return []
        try:
            tracker = self._lease.result().spark.sparkContext.statusTracker()
            return [_progress(tracker, job) for job in self._lanes.jobs]
        except Exception:
            # Where Spark is gone, or going, nothing runs.
            return []

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._lanes.close()
        with contextlib.suppress(Error):
            self._lease.result().release()
        forget(str(self._work))
        shutil.rmtree(self._work, ignore_errors=True)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the database is closed")

    # --- start ------------------------------------------------------------------------------------

    def _start(self) -> None:
        try:
            lease = start_session(master=self._master, given=self._given, resources=self._resources)
        except BaseException as failure:  # noqa: BLE001
            self._lease.set_exception(from_spark(failure))
            return
        self._lease.set_result(lease)
        self._warm_up()

    def _warm_up(self) -> None:
        """The first Python worker and the first plan cost seconds: they are paid before anybody waits."""
        with contextlib.suppress(Error):
            self.run("duckdb", [Piece("SELECT 1 AS n")] * self.cores, label="warm up")

    def _new_session(self) -> SparkSession:
        session = self._lease.result().spark.newSession()
        for name, value in session_settings(self._resources).items():
            session.conf.set(name, value)
        return session

    # --- jobs -------------------------------------------------------------------------------------

    def _call(self, work: Callable[[Lane], Answered], job: Job, cancellation: Cancellation | None = None) -> Answered:
        self._check_open()
        try:
            wait_for(self._lease, cancellation)
            return self._lanes.call(work, job, cancellation)
        except Error:
            raise
        except Exception as failure:
            self._check_open()
            raise from_spark(failure) from failure

    def _limits(self, threads: int, memory: int) -> Limits:
        return Limits(threads, memory, tuple(DUCKDB_SETTINGS.items()))

    def work(self, pieces: Sequence[Piece]) -> Work:
        """What the tasks of a job do for some pieces."""
        tasks = _tasks(pieces, self.cores)
        limits = self._limits(self.cores if len(tasks) == 1 else 1, self._resources.kernel_memory(len(tasks)))
        return Work(uuid.uuid4().hex, str(self._work), tasks, limits)

    def _run_duckdb(self, pieces: Sequence[Piece], label: str, cancellation: Cancellation | None) -> list[Answer]:
        work = self.work(pieces)
        name = work.job
        stop = Path(cancel_file(str(self._work), name))
        job = Job(label, name, on_cancel=stop.touch)
        try:
            replies = self._call(lambda lane: _replies(lane, work), job, cancellation)
            return _answers(replies, pieces, work)
        except BaseException:
            _remove_outputs(pieces, name)
            raise
        finally:
            _remove_leftovers(self._work, name)

    def _run_spark(self, piece: Piece, label: str, cancellation: Cancellation | None) -> Answer:
        job = Job(label)
        try:
            return self._call(
                lambda lane: run_spark_sql(lane.spark, piece, self.cores, self._work, job.id), job, cancellation
            )
        except BaseException:
            _remove_outputs([piece], job.id)
            raise


def _replies(lane: Lane, work: Work) -> list[Reply]:
    """The job itself: a kept DataFrame, whose tasks find their work in a property of the job."""
    tasks = len(work.tasks)
    if tasks not in lane.frames:
        lane.frames[tasks] = _frame_of_tasks(lane.spark, tasks)
    context = lane.spark.sparkContext
    context.setLocalProperty(PROPERTY, _as_property(work))
    try:
        rows = lane.frames[tasks].toArrow()
    finally:
        context.setLocalProperty(PROPERTY, "")
    replies: dict[int, Reply] = {}
    for packed in rows.column("result").to_pylist():
        replies.update(pickle.loads(packed))
    return [replies[number] for number in sorted(replies)]


def _tasks(pieces: Sequence[Piece], cores: int) -> tuple[tuple[tuple[int, bytes], ...], ...]:
    """A task for each piece; where all are short, one for each core: a task more costs more than it spares, and what
    a worker keeps in memory of one piece's inputs is there for the next."""
    packed = [[(number, pickle.dumps(pieces[number], protocol=5)) for number in own] for own in _going_along(pieces)]
    if len(packed) <= cores or any(_bytes_read(piece) > _SHORT for piece in pieces):
        return tuple(map(tuple, packed))
    packed.sort(key=lambda own: _place(pieces[own[0][0]]))
    turns = [*range(cores), *reversed(range(cores))]
    return tuple(
        tuple(one for place, own in enumerate(packed) if turns[place % len(turns)] == core for one in own)
        for core in range(cores)
    )


def _going_along(pieces: Sequence[Piece]) -> list[list[int]]:
    """The numbers of pieces, each with those that go along with it."""
    led = {number: [number] for number, piece in enumerate(pieces) if not piece.along}
    for number, piece in enumerate(pieces):
        if piece.along:
            leader = next((n for n in led if set(piece.shared) & set(pieces[n].shared)), number)
            led.setdefault(leader, []).append(number)
    return list(led.values())


def _place(piece: Piece) -> tuple[bool, tuple[str, ...], int]:
    """Pieces that have something in common stand together, and large ones first."""
    return not piece.shared, piece.shared, -_bytes_read(piece)


def _bytes_read(piece: Piece) -> int:
    return sum(given.bytes if isinstance(given, Files) else given.table.nbytes for given in piece.inputs.values())


def _frame_of_tasks(spark: SparkSession, tasks: int) -> DataFrame:
    """A row for each task: its number, and what it replies. `mapInArrow` would do, but it wants pandas."""
    from pyspark.sql.functions import arrow_udf, col  # type: ignore[attr-defined]

    reply = arrow_udf(run_tasks, "binary")
    numbers = spark.range(0, tasks, 1, tasks)
    return numbers.select(col("id").alias("task"), reply(col("id")).alias("result"))


def _as_property(work: Work) -> str:
    packed = work.pack()
    if len(packed) <= _LARGEST_PROPERTY:
        return base64.b64encode(packed).decode()
    path = Path(work.folder) / f"{work.job}.work"
    path.write_bytes(packed)
    return IN_A_FILE + str(path)


def _answers(replies: Sequence[Reply], pieces: Sequence[Piece], work: Work) -> list[Answer]:
    answers = [_answer(reply) for reply in replies]
    if any(reply.attempt > 0 for reply in replies):
        _remove_outputs(pieces, work.job, keep=_paths(replies))
    return answers


def _paths(replies: Sequence[Reply]) -> set[str]:
    return {file.path for reply in replies for file in (*reply.files, *reply.copies)}


def _answer(reply: Reply) -> Answer:
    if reply.error is not None:
        raise reply.error
    checks = {name: load(stored) for name, stored in reply.checks.items()}
    return Answer(None if reply.table is None else load(reply.table), reply.files, checks, reply.copies)


def _remove_outputs(pieces: Sequence[Piece], job: str, keep: set[str] | frozenset[str] = frozenset()) -> None:
    """Files of attempts that do not count."""
    for folder in {folder for piece in pieces for folder in piece.folders}:
        for path in Path(folder).glob(f"{job}-*"):
            if str(path) not in keep:
                path.unlink(missing_ok=True)


def _remove_leftovers(folder: Path, job: str) -> None:
    # An engine that is closed while its job still ends has taken the folder along.
    with contextlib.suppress(FileNotFoundError):
        for path in folder.glob(f"{job}*"):
            path.unlink(missing_ok=True)


def _moved_in(apart: Path, folder: Path, job: str) -> tuple[str, ...]:
    moved: list[str] = []
    for number, path in enumerate(sorted(apart.glob("*.parquet"))):
        target = folder / f"{job}-{number}-0.parquet"
        path.rename(target)
        moved.append(str(target))
    return tuple(moved)


def _progress(tracker: object, job: Job) -> Progress:
    done = tasks = 0
    for job_id in tracker.getJobIdsForGroup(job.id):  # type: ignore[attr-defined]
        info = tracker.getJobInfo(job_id)  # type: ignore[attr-defined]
        for stage_id in info.stageIds if info else ():
            stage = tracker.getStageInfo(stage_id)  # type: ignore[attr-defined]
            if stage:
                done, tasks = done + stage.numCompletedTasks, tasks + stage.numTasks
    return Progress(job.label, done, tasks)


def _fresh_folder(folder: Path) -> Path:
    """What an earlier process left behind is nobody's."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder.resolve()
