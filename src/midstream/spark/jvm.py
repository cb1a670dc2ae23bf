"""Starts the JVM that Spark runs in, ahead of everything else where it can, and the one SparkContext in it.

The JVM takes seconds to come up, on a core of its own. `launch_ahead` starts it before the rest of Midstream is even
imported, so this module imports little; `start_context` takes that JVM, or starts one.

pyspark is imported here and in `session`, at the top, by the thread that connects: it imports itself in circles, which
only one thread can do. Were it left to a thread of ours, `from pyspark.sql import SparkSession` in the user's would
fail as long as ours is at it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from concurrent.futures import Future
from importlib import resources as package_files
from pathlib import Path
from threading import Thread
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

import midstream
from midstream.errors import EngineError
from midstream.spark.class_archive import java_options
from midstream.spark.resources import Resources

SPARK_LOG = "spark.log"
_JAVA_HINT = "Install Java 17 or newer (Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to where it is."
_TASK_ATTEMPTS = 4


class _Folder:
    """Where Spark keeps what it spills and logs: the process's, since databases come and go."""

    path: str | None = None

    def renew(self) -> str:
        self.remove()
        self.path = tempfile.mkdtemp(prefix="midstream-spark-")
        return self.path

    def remove(self) -> None:
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)


_folder = _Folder()
_ahead: dict[tuple[str, Resources], Future[tuple[Any, Any]]] = {}
"""The JVM that was started ahead, if any: its settings and its gateway."""
atexit.register(_folder.remove)


def launch_ahead(master: str | None, resources: Resources) -> None:
    """Starts a JVM in the background for the context that will be asked for, unless there is one already."""
    if _ahead or not _has_java() or SparkContext._gateway is not None:
        return
    wanted = (master or local_master(resources.slots), resources)
    launched = _ahead[wanted] = Future()

    def launch() -> None:
        try:
            launched.set_result(_launch(*wanted))
        except BaseException as failure:  # noqa: BLE001
            launched.set_exception(failure)

    Thread(target=launch, name="midstream-jvm-start", daemon=True).start()


def start_context(master: str, resources: Resources) -> SparkContext:
    """The context of this process, in the JVM that is there, or was started ahead, or is started now."""
    require_java()
    ahead = _ahead.pop((master, resources), None)
    try:
        conf, gateway = ahead.result() if ahead is not None else _launch(master, resources)
        context = SparkContext(conf=conf, gateway=gateway)
        context.setLogLevel("ERROR")
        return context
    except Exception as failure:
        raise _start_failed(failure) from failure


def end_jvm() -> None:
    """Ends the JVM of this process and waits until it is gone."""
    gateway = SparkContext._gateway
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def kill_jvm() -> None:
    """Ends the JVM of this process, which does not answer."""
    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()


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


def _has_java() -> bool:
    try:
        require_java()
    except EngineError:
        return False
    return True


def _launch(master: str, resources: Resources) -> tuple[Any, Any]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    work_folder = _folder.renew()
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(_context_settings(master, resources, work_folder).items()))
    with open(Path(work_folder) / SPARK_LOG, "ab") as log:
        # A JVM of its own writes to the log, not to the user's terminal.
        return conf, SparkContext._gateway or launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]


def _context_settings(master: str, resources: Resources, work_folder: str) -> dict[str, str]:
    """What can be set only before Spark starts."""
    log_settings = package_files.files("midstream.spark") / "log4j2.properties"
    settings = {
        "spark.app.name": "midstream",
        "spark.master": master,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": f"{resources.heap >> 20}m",
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile=file:{log_settings}", *_memory_options(resources), *java_options()]
        ),
        # What Spark remembers of jobs that are over, though nobody looks.
        "spark.ui.retainedJobs": "100",
        "spark.ui.retainedStages": "100",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.ui.retainedExecutions": "20",
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


def _memory_options(resources: Resources) -> list[str]:
    """Small jobs leave much garbage: with no bound, a third of the heap fills with it before any of it is collected."""
    return ["-XX:+UseParallelGC", f"-XX:MaxNewSize={resources.heap >> 23}m", "-Xss4m"]


def _start_failed(failure: Exception) -> EngineError:
    log = Path(_folder.path or "") / SPARK_LOG
    written = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return EngineError(
        "Spark did not start",
        detail="\n".join([str(failure).strip(), *written[-5:]]),
        hint=_JAVA_HINT if "JAVA_GATEWAY_EXITED" in str(failure) else None,
    )


def _package_root() -> Path:
    return Path(midstream.__file__).resolve().parent.parent
