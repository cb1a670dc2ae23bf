"""Jobs that are lost, cancelled or too large, and engines that share one Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from engine_pieces import ask, rows

from asking import wait_for
from midstream.errors import Cancelled, Closed, EngineError, InvalidParameter, OutOfResources
from midstream.maintenance.engine import Cancellation, Kernel, Piece, WriteParquet
from midstream.plan.render import SPARK_SETTINGS
from midstream.spark.engine import SparkEngine
from midstream.spark.jvm import require_java
from midstream.spark.resources import Resources
from midstream.spark.session import start_session
from midstream.types import BIGINT
from workers import are_busy, cpu_seconds, workers

ENDLESS = {
    "duckdb": "SELECT count(*) AS n FROM range(1000000000000) r(i) WHERE i % 7 = 3",
    "spark": "SELECT count(*) AS n FROM range(0, 1000000000000, 1, 2) WHERE id % 7 = 3",
}
PATIENCE = 60.0


@pytest.fixture
def in_background() -> Iterator[Callable[[Callable[[], object]], threading.Thread]]:
    threads: list[threading.Thread] = []

    def start(work: Callable[[], object]) -> threading.Thread:
        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return threads[-1]

    yield start
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def test_a_job_whose_worker_is_killed_answers_once(
    engine: SparkEngine, tmp_path: Path, in_background: Callable[[Callable[[], object]], threading.Thread]
) -> None:
    ask(engine, "duckdb", "SELECT 1 AS n")
    before = cpu_seconds()
    killed: list[int] = []

    def kill() -> None:
        wait_for(lambda: are_busy(before))
        for pid in workers():
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    killer = in_background(kill)
    output = WriteParquet(str(tmp_path), (("n", BIGINT),))
    slow = (
        "SELECT i AS n FROM range(3000000) r(i) WHERE (SELECT count(*) FROM range(300000000) s(j) WHERE j % 7 = 3) > 0"
    )
    [answer] = engine.run("duckdb", [Piece(slow, output=output)])
    killer.join()
    assert killed
    assert sum(file.rows for file in answer.files) == 3_000_000
    assert {file.path for file in answer.files} == {str(path) for path in tmp_path.iterdir()}
    assert sum(pq.read_metadata(file.path).num_rows for file in answer.files) == 3_000_000


def test_cancelling_stops_that_job_and_no_other(
    engine: SparkEngine, kernel: Kernel, in_background: Callable[[Callable[[], object]], threading.Thread]
) -> None:
    stop, caught = Cancellation(), list[BaseException]()

    def run() -> None:
        try:
            engine.run(kernel, [Piece(ENDLESS[kernel])], label="endless", cancellation=stop)
        except BaseException as error:  # noqa: BLE001
            caught.append(error)

    running = in_background(run)
    wait_for(lambda: any(job.label == "endless" and job.tasks > 0 for job in engine.progress()))
    assert rows(ask(engine, kernel, "SELECT 7 AS n")) == [(7,)]
    stop.cancel()
    running.join(PATIENCE)
    assert isinstance(caught[0], Cancelled) and caught[0].sqlstate == "57014"
    wait_for(lambda: not engine.progress())
    assert rows(ask(engine, kernel, "SELECT 8 AS n")) == [(8,)]


def test_a_cancelled_query_stops_computing(engine: SparkEngine) -> None:
    stop = Cancellation()
    before = cpu_seconds()
    threading.Thread(target=lambda: (wait_for(lambda: are_busy(before)), stop.cancel())).start()
    with pytest.raises(Cancelled):
        engine.run("duckdb", [Piece(ENDLESS["duckdb"])], cancellation=stop)

    def is_idle() -> bool:
        before = cpu_seconds()
        time.sleep(0.5)
        return not are_busy(before)

    wait_for(is_idle)


def test_a_cancellation_that_came_before_stops_at_once(engine: SparkEngine) -> None:
    stop = Cancellation()
    stop.cancel()
    with pytest.raises(Cancelled):
        engine.run("duckdb", [Piece(ENDLESS["duckdb"])], cancellation=stop)


def test_many_threads_share_an_engine(engine: SparkEngine) -> None:
    found: dict[int, object] = {}
    threads = [
        threading.Thread(
            target=lambda n=n: found.update({n: ask(engine, "duckdb", f"SELECT {n} AS n")["n"][0].as_py()})
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: n for n in range(8)}


@pytest.fixture(scope="module")
def small(engine: SparkEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """A second engine of this process, with the least memory that a kernel can have."""
    started = SparkEngine(tmp_path_factory.mktemp("small") / "work", cores=2, memory="256m")
    yield started
    started.close()


def test_more_than_the_memory_goes_to_the_disk(small: SparkEngine, tmp_path: Path) -> None:
    sql = "SELECT i AS n, md5(CAST(i AS VARCHAR)) AS t FROM range(3000000) r(i) ORDER BY t"
    table = ask(
        small,
        "duckdb",
        f"SELECT count(*) AS c, min(n) AS m FROM (SELECT n, lag(t) OVER (ORDER BY t) AS p FROM ({sql}))",
    )
    assert rows(table) == [(3_000_000, 0)]


def test_what_cannot_go_to_the_disk_runs_out_of_memory(small: SparkEngine) -> None:
    with pytest.raises(OutOfResources) as raised:
        ask(small, "duckdb", "SELECT len(list(i)) AS n FROM range(100000000) r(i)")
    assert raised.value.sqlstate == "53200"
    assert rows(ask(small, "duckdb", "SELECT 1 AS n")) == [(1,)]


def test_closing_one_of_two_engines_leaves_the_other(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    other = SparkEngine(tmp_path / "work", cores=2, memory="2g")
    assert rows(ask(other, kernel, "SELECT 2 AS n")) == [(2,)]
    other.close()
    other.close()
    with pytest.raises(Closed):
        ask(other, kernel, "SELECT 2 AS n")
    assert not (tmp_path / "work").exists()
    assert rows(ask(engine, kernel, "SELECT 1 AS n")) == [(1,)]


def test_closing_ends_what_runs(engine: SparkEngine, tmp_path: Path) -> None:
    other, caught = SparkEngine(tmp_path / "work", cores=2, memory="2g"), list[BaseException]()

    def run() -> None:
        try:
            ask(other, "duckdb", ENDLESS["duckdb"])
        except BaseException as error:  # noqa: BLE001
            caught.append(error)

    running = threading.Thread(target=run)
    running.start()
    wait_for(lambda: any(job.tasks > 0 for job in other.progress()))
    other.close()
    running.join(PATIENCE)
    assert isinstance(caught[0], Closed | Cancelled)
    assert rows(ask(engine, "duckdb", "SELECT 1 AS n")) == [(1,)]


LOST_JVM = """
import os, signal, sys
from midstream.errors import EngineError
from midstream.maintenance.engine import Piece
from midstream.spark.engine import SparkEngine
from pyspark import SparkContext

engine = SparkEngine(sys.argv[1], cores=2, memory="2g")
engine.run("duckdb", [Piece("SELECT 1 AS n")])
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
SparkContext._gateway.proc.wait()
try:
    engine.run("duckdb", [Piece("SELECT 1 AS n")])
except EngineError as error:
    print(error.hint)
engine.close()
again = SparkEngine(sys.argv[1], cores=2, memory="2g")
print(again.run("duckdb", [Piece("SELECT 2 AS n")])[0].table.to_pylist())
again.close()
"""


@pytest.mark.long
def test_a_jvm_that_dies_is_replaced_by_the_next_engine(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOST_JVM, str(tmp_path / "work")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["Close the database and connect again.", "[{'n': 2}]"]


def test_a_given_session_is_used_and_never_stopped(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    from pyspark.sql import SparkSession

    given = SparkSession.builder.getOrCreate()
    ansi = given.conf.get("spark.sql.timestampType")
    guest = SparkEngine(tmp_path / "work", spark=given, cores=2, memory="2g")
    assert rows(ask(guest, kernel, "SELECT 3 AS n")) == [(3,)]
    guest.close()
    assert given.conf.get("spark.sql.timestampType") == ansi
    assert given.range(2).count() == 2


def test_optimizer_rules_that_the_user_turned_off_stay_off(engine: SparkEngine) -> None:
    from pyspark.sql import SparkSession

    name, rule = "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.PruneFilters"
    given = SparkSession.builder.getOrCreate().newSession()
    given.conf.set(name, rule)
    lease = start_session(master=None, given=given, resources=Resources.of(cores=2, memory="2 GB"))
    assert lease.spark.conf.get(name) == f"{rule},{SPARK_SETTINGS[name]}"
    assert given.conf.get(name) == rule
    lease.release()


def test_another_cluster_than_the_running_one_is_refused(engine: SparkEngine, tmp_path: Path) -> None:
    ask(engine, "duckdb", "SELECT 1 AS n")
    other = SparkEngine(tmp_path / "work", master="spark://elsewhere:7077")
    with pytest.raises(EngineError, match="elsewhere"):
        ask(other, "duckdb", "SELECT 1 AS n")
    other.close()


def test_no_java_is_said_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="Java") as raised:
        require_java()
    assert "Java 17" in (raised.value.hint or "")


def test_memory_is_divided() -> None:
    resources = Resources.of(cores=2, memory="8 GB")
    assert (resources.heap, resources.kernels) == (4 << 30, 4 << 30)
    assert resources.kernel_memory(pieces=1) == 2 << 30
    assert resources.kernel_memory(pieces=9) == 1 << 30
    with pytest.raises(InvalidParameter):
        Resources.of(cores=1, memory="a lot")
