"""Starts Spark for a database, or borrows it, and stops it when the last database that needs it is closed.

A process has at most one SparkContext, so databases share the one that the first of them started, each
with a session (settings, temporary views) of its own. A session that the user gave, or a context that was
there before us, is never stopped.

    lease = start_session(master=None, given=None, resources=resources)
    lease.spark.sql("SELECT 1"); lease.release()
"""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from midstream.errors import EngineError
from midstream.plan.render import SPARK_SETTINGS
from midstream.spark import jvm
from midstream.spark.resources import Resources

_EXCLUDED_RULES = "spark.sql.optimizer.excludedRules"
_STOP_SECONDS = 20.0
"""A Spark that takes longer to stop is ended together with its JVM."""


@dataclass
class _Shared:
    """The SparkContext that this process started, and how many engines use it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0
    started: int = 0
    """How many contexts this process has started: a lease of one that died must not count against the next."""


_shared = _Shared()


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
        settings = _beside_theirs(session_settings(resources), given)
        return Lease(_with_settings(_classic(given).newSession(), settings), of_context=None)
    with _shared.lock:
        return _lease_of_context(master or jvm.local_master(resources.slots), resources)


def _lease_of_context(master: str, resources: Resources) -> Lease:
    _forget_dead_jvm()
    running = SparkContext._active_spark_context
    if running is not None:
        _check_same_cluster(running, master)
    spark = SparkSession.builder.getOrCreate() if running is not None else _start_context(master, resources)
    own = _with_settings(spark.newSession(), _beside_theirs(session_settings(resources), spark))
    if running is not None and _shared.users == 0:
        return Lease(own, of_context=None)
    _shared.users += 1
    return Lease(own, _shared.started)


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


def _start_context(master: str, resources: Resources) -> SparkSession:
    with _own_interrupts():
        context = jvm.start_context(master, resources)
    _shared.started += 1
    _shared.users = 0
    return SparkSession(context)


def _stop_context(spark: SparkSession) -> None:
    """A JVM that died, or hangs, cannot be told to stop: what pyspark remembers of it must go all the same."""
    stopping = threading.Thread(target=_stop, args=(spark,), name="midstream-spark-stop", daemon=True)
    stopping.start()
    stopping.join(_STOP_SECONDS)
    if stopping.is_alive():
        jvm.kill_jvm()
        stopping.join(_STOP_SECONDS)
        _forget_dead_jvm()


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except Exception:  # noqa: BLE001
        _forget_context()


def _forget_dead_jvm() -> None:
    gateway = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is not None and process.poll() is not None:
        _forget_context()
        SparkContext._gateway = None
        SparkContext._jvm = None
        _shared.users = 0


def _forget_context() -> None:
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


def _beside_theirs(settings: dict[str, str], theirs: SparkSession) -> dict[str, str]:
    """Our settings; optimizer rules that the user turned off stay off."""
    excluded = f"{theirs.conf.get(_EXCLUDED_RULES, '')},{settings[_EXCLUDED_RULES]}"
    rules = dict.fromkeys(rule.strip() for rule in excluded.split(","))
    return settings | {_EXCLUDED_RULES: ",".join(filter(None, rules))}


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
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"pyspark\..*")
