"""Runs one system in a process of its own and brings back what it found.

    found = run_system("aim_duckdb", {"mode": "one pass", …}, folder)
    found["bulk_seconds"], found["peak_mb"]

The child reads its task from one JSON file and writes what it found to another (`answer_task`).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.installing import LeftOut
from peers.memory import PeakWatch

BENCH = Path(__file__).parents[1]


def run_system(
    module: str, task: dict[str, Any], folder: Path, python: str = sys.executable, limit_seconds: float = 3600
) -> dict[str, Any]:
    """What the system found, and the most memory that it and its helpers held."""
    given, found, log = (folder / f"{module}.{part}" for part in ("task.json", "found.json", "txt"))
    given.write_text(json.dumps(task))
    found.unlink(missing_ok=True)
    command = [python, "-m", f"peers.{module}", str(given), str(found)]
    with log.open("w") as said:
        environment = os.environ | {"PYTHONPATH": str(BENCH.parent / "src")}
        child = subprocess.Popen(command, cwd=BENCH, stdout=said, stderr=said, env=environment, start_new_session=True)
        watch = PeakWatch(child.pid)
        watch.start()
        try:
            child.wait(limit_seconds)
        except subprocess.TimeoutExpired as error:
            raise LeftOut(f"not done after {limit_seconds:,.0f} s") from error
        finally:
            peak = watch.end()
            _end_group(child)
    if child.returncode != 0 or not found.exists():
        print("\n".join(log.read_text(errors="replace").splitlines()[-40:]), file=sys.stderr, flush=True)
        raise LeftOut(f"failed: {_last_lines(log)}")
    return json.loads(found.read_text()) | {"peak_mb": peak}


def answer_task(work: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """The child's side: does what the task says, writes what it found, and ends."""
    given, found = sys.argv[1:3]
    answer = json.dumps(work(json.loads(Path(given).read_text())), default=_plain)
    Path(found).write_text(answer)
    # Nothing may keep the process: a JVM's threads, a stuck server.
    os._exit(0)


def _plain(value: object) -> object:
    """Decimals and days as JSON knows them."""
    return float(value) if hasattr(value, "as_tuple") else str(value)


def _end_group(child: subprocess.Popen[Any]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last_lines(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(line.strip() for line in lines[-3:]).replace("|", "/") if lines else "it said nothing"
