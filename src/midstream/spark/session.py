"""Starts Spark for a database, or borrows it, and stops it when the last database that needs it is closed.

A process has at most one SparkContext, so databases share the one that the first of them started, each
with a session (settings, temporary views) of its own. A session that the user gave, or a context that was
there before us, is never stopped.

    lease = start_session(master=None, given=None, resources=resources)
    lease.spark.sql("SELECT 1"); lease.release()
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources as package_files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import midstream
from midstream.errors import EngineError
from midstream.plan.render import SPARK_SETTINGS
from midstream.spark.resources import Resources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_LOG = "spark.log"
_JAVA_HINT = "Install Java 17 or newer (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to where it is."
_TASK_ATTEMPTS = 4


@dataclass
class _Shared:
    """The SparkContext that this process started, and how many engines use it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    started: int = 0
    """How many contexts this process has started: a lease of one that died must not count against the next."""
    folder: str | None = None
    """Where Spark keeps what it spills and logs: the process's, since databases come and go."""

    def new_folder(self) -> str:
        self.remove_folder()
        self.folder = tempfile.mkdtemp(prefix="midstream-spark-")
        return self.folder

    def remove_folder(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


_shared = _Shared()
atexit.register(_shared.remove_folder)


@dataclass
class Lease:
    """A session of one engine's own, and the duty to give it back."""

    spark: SparkSession
    of_context: int | None
    """Which of our contexts it shares; None: one that is not ours to stop."""

    def release(self) -> None:
        with _shared.lock:
            if self.of_context != _shared.started:
                return
            self.of_context = None
            _shared.users -= 1
            if _shared.users == 0:
                _stop_context(self.spark)


def start_session(*, master: str | None, given: SparkSession | None, resources: Resources) -> Lease:
    """A session for one engine: on the one that is given, on a cluster, or on this machine's cores."""
    _quieten_pyspark()
    if given is not None:
        return Lease(_with_settings(_classic(given).newSession(), session_settings(resources)), of_context=None)
    with _shared.lock:
        return _lease_of_context(master or local_master(resources.slots), resources)


def _lease_of_context(master: str, resources: Resources) -> Lease:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    _forget_dead_jvm()
    running = SparkContext._active_spark_context
    if running is not None:
        _check_same_cluster(running, master)
    spark = SparkSession.builder.getOrCreate() if running is not None else _start_context(master, resources)
    own = _with_settings(spark.newSession(), session_settings(resources))
    if running is not None and _shared.users == 0:
        return Lease(own, of_context=None)
    _shared.users += 1
    return Lease(own, _shared.started)


def local_master(slots: int) -> str:
    """Local mode gives up at a task's first failure unless it is told a number of attempts."""
    return f"local[{slots},{_TASK_ATTEMPTS}]"


def require_java() -> None:
    """Refuses at once where Spark could only fail later, with a worse message."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if shutil.which("java") is None:
        raise EngineError("Spark needs Java, and there is none", hint=_JAVA_HINT)


def session_settings(resources: Resources) -> dict[str, str]:
    """What each of our sessions sets for itself: what rendered SQL counts on, and small jobs."""
    return SPARK_SETTINGS | {
        "spark.sql.shuffle.partitions": str(max(2, resources.cores)),
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": str(resources.heap // 16),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.fieldId.read.enabled": "false",
        "spark.sql.parquet.compression.codec": "snappy",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
    }


def _context_settings(master: str, resources: Resources, work_folder: str) -> dict[str, str]:
    """What can be set only before Spark starts."""
    log_settings = package_files.files("midstream.spark") / "log4j2.properties"
    settings = {
        "spark.app.name": "midstream",
        "spark.master": master,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": f"{resources.heap >> 20}m",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log_settings} -XX:+UseParallelGC -Xss4m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.worker.reuse": "true",
        "spark.locality.wait": "0",
        "spark.scheduler.mode": "FAIR",
        "spark.default.parallelism": str(resources.cores),
        "spark.task.maxFailures": str(_TASK_ATTEMPTS),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(Path(work_folder) / "warehouse"),
        "spark.local.dir": str(Path(work_folder) / "spark"),
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.python.daemon.module": "midstream.spark.worker_daemon",
            "spark.executorEnv.PYTHONPATH": str(_package_root()),
        }
    return settings


def _start_context(master: str, resources: Resources) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    work_folder = _shared.new_folder()
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(_context_settings(master, resources, work_folder).items()))
    with _own_interrupts(), open(Path(work_folder) / SPARK_LOG, "ab") as log:
        try:
            # A JVM of its own writes to the log, not to the user's terminal.
            gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
            context.setLogLevel("ERROR")
            _shared.started += 1
            _shared.users = 0
            return SparkSession(context)
        except Exception as failure:
            raise _start_failed(failure, work_folder) from failure


def _start_failed(failure: Exception, work_folder: str) -> EngineError:
    log = Path(work_folder) / SPARK_LOG
    written = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return EngineError(
        "Spark did not start",
        detail="\n".join([str(failure).strip(), *written[-5:]]),
        hint=_JAVA_HINT if "JAVA_GATEWAY_EXITED" in str(failure) else None,
    )


def _stop_context(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception:  # noqa: BLE001
        # A JVM that died cannot be told to stop; what pyspark remembers of it must go all the same.
        _forget_context()


def _forget_dead_jvm() -> None:
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is not None and process.poll() is not None:
        _forget_context()
        SparkContext._gateway = None
        SparkContext._jvm = None
        _shared.users = 0


def _forget_context() -> None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _check_same_cluster(context: Any, master: str) -> None:
    running = str(context.master)
    if running.split("[")[0] != master.split("[")[0]:
        raise EngineError(
            f'this process already runs Spark on "{running}", and "{master}" was asked for',
            hint="A process has one Spark: close what uses the other one first.",
        )


def _classic(given: SparkSession) -> SparkSession:
    if "connect" in type(given).__module__:
        raise EngineError(
            "a Spark Connect session cannot run the database",
            hint="Give a classic session, or the cluster's master URL.",
        )
    if given._jsc.sc().isStopped():
        raise EngineError("the Spark session that was given is stopped", hint="Give a session that runs.")
    return given


def _with_settings(spark: SparkSession, settings: dict[str, str]) -> SparkSession:
    for name, value in settings.items():
        spark.conf.set(name, value)
    return spark


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """PySpark makes Ctrl-C cancel the jobs of everyone; ours cancels one statement."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _quieten_pyspark() -> None:
    """PySpark logs every failed query to the terminal, though it raises the error as well."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\..*")


def _package_root() -> Path:
    return Path(midstream.__file__).resolve().parent.parent
