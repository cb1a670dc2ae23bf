"""On a cluster everything is as on a laptop: a master and two workers, each a process of its own, over one folder.

An executor is killed half-way; Spark starts another one, and runs its tasks again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest
from cluster_child import BATCHES, CUSTOMERS, REGIONS, ROWS
from killing import HERE, SOURCE

SPARK = Path(pyspark.__file__).parent
ENVIRONMENT = os.environ | {
    "SPARK_HOME": str(SPARK),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
    "PYTHONPATH": f"{SOURCE}{os.pathsep}{HERE}",
}


@dataclass(frozen=True)
class Cluster:
    master: str
    workers: tuple[int, ...]
    """Their process groups."""

    def executors(self) -> list[int]:
        """The processes of Spark's tasks: children of a worker."""
        found = []
        for process in Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError):
                command = (process / "cmdline").read_bytes()
                if b"CoarseGrainedExecutorBackend" in command and os.getpgid(int(process.name)) in self.workers:
                    found.append(int(process.name))
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with contextlib.ExitStack() as stack:
        log, pid = stack.enter_context(_started(tmp_path, "master.Master", "--port", "0"))
        master = _heard(log, r"Starting Spark master at (spark://\S+)")
        workers = [
            stack.enter_context(
                _started(tmp_path, "worker.Worker", "-c", "1", "-m", "2g", "-d", str(tmp_path / f"of_{number}"), master)
            )
            for number in range(2)
        ]
        for worker_log, _ in workers:
            _heard(worker_log, r"Successfully registered with (master)")
        yield Cluster(master, tuple(pid for _, pid in workers))


@contextlib.contextmanager
def _started(folder: Path, role: str, *options: str) -> Iterator[tuple[Path, int]]:
    """A daemon of Spark's, and what it says."""
    log = folder / f"{role}-{len(list(folder.iterdir()))}.log"
    program = [str(SPARK / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}", "--host", "127.0.0.1"]
    with log.open("w") as said:
        process = subprocess.Popen(
            [*program, "--webui-port", "0", *options],
            stdout=said,
            stderr=said,
            env=ENVIRONMENT,
            cwd=folder,
            start_new_session=True,
        )
    try:
        yield log, process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _heard(log: Path, pattern: str, seconds: float = 60.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := re.search(pattern, log.read_text()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"nothing like {pattern} in\n{log.read_text()[-3000:]}")


def test_a_cluster_keeps_what_a_laptop_keeps_also_without_one_of_its_executors(
    tmp_path: Path, cluster: Cluster
) -> None:
    child = subprocess.Popen(
        [sys.executable, str(HERE / "cluster_child.py"), str(tmp_path / "shared.db"), cluster.master],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    first = child.stdout.readline()
    executors = cluster.executors()
    if first:
        assert len(executors) == 2, "Spark's tasks run in processes of the workers"
        os.kill(executors[0], signal.SIGKILL)
    said, complaints = child.communicate("go on\n" if first else None)
    assert child.returncode == 0, complaints[-4000:]
    assert json.loads(said) == wanted()


def wanted() -> dict[str, list[list[object]]]:
    calls = [(number % CUSTOMERS, number) for number in range(BATCHES * ROWS)]
    region = {id: id % REGIONS + (REGIONS if id < BATCHES else 0) for id in range(CUSTOMERS)}
    seconds, longest = Counter[int](), dict(calls)
    for customer, number in calls:
        seconds[region[customer]] += number
    ends = range(2 * ROWS, BATCHES * ROWS + 1, ROWS)
    return {
        "by_region": sorted(map(list, seconds.items())),
        "on_spark": [[CUSTOMERS, sum(longest.values())]],
        "lately": [[end, sum(range(end - 2 * ROWS, end))] for end in ends],
        "sizes": sorted(map(list, Counter(region.values()).items())),
        "moved": [[id, region[id], "U", region[id] - REGIONS] for id in range(BATCHES)],
    }
