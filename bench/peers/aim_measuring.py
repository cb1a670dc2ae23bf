"""What is done to every system of the AIM workload, in the same order, with the same files.

1. It opens, with the customers and whatever it needs to keep the six answers fresh, and takes in one file unmeasured.
2. The bulk comes, all of it, until everything is absorbed. Then the six are read for the first time.
3. Ten thousand more events come and the six are read, again and again.
4. The six are read with nothing new.

The answers after 2, after the first of 3 and after the last are handed back, to be compared by the parent.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from itertools import cycle
from typing import Any, Protocol

from peers.aim_workload import Workload

Answers = dict[str, list[list[Any]]]


class AimSystem(Protocol):
    """What a system must be able to do to be measured."""

    def open(self, workload: Workload) -> None: ...

    def load(self, files: list[str]) -> None:
        """Takes in the files, and returns when all that the views need of them is kept."""

    def hold(self, file: str) -> object:
        """What `add` takes: the rows as the system's users would have them at hand."""

    def add(self, held: object) -> None:
        """Takes in 10,000 events."""

    def read(self, query: str) -> list[Any]:
        """The fresh rows of q1 … q7."""


def measure(system: AimSystem, task: dict[str, Any]) -> dict[str, Any]:
    workload = Workload(**task["workload"])
    system.open(workload)
    system.load([workload.warm])
    read_all(system, workload)
    found: dict[str, Any] = {"bulk_events": len(workload.bulk) * workload.events_per_file}
    found["bulk_seconds"] = seconds(lambda: system.load(workload.bulk))
    found["first_read_seconds"] = seconds(lambda: read_all(system, workload))
    taken = [workload.warm, *workload.bulk]
    checks = [{"files": list(taken), "answers": read_all(system, workload)}]
    found["refresh_seconds"], more = refreshes(system, workload, task["refreshes"], taken)
    found["checks"] = checks + more
    found["reads_per_second"] = reads_per_second(system, workload)
    found["driver_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def refreshes(
    system: AimSystem, workload: Workload, count: int, taken: list[str]
) -> tuple[list[float], list[dict[str, Any]]]:
    """How long until all six are fresh after 10,000 more events; the first two are not counted."""
    times, checks = [], []
    for number, file in enumerate(workload.small[: count + 2]):
        held = system.hold(file)
        start = time.perf_counter()
        system.add(held)
        answers = read_all(system, workload)
        times.append(time.perf_counter() - start)
        taken.append(file)
        if number in (0, count + 1):
            checks.append({"files": list(taken), "answers": answers})
    return times[2:], checks


def reads_per_second(system: AimSystem, workload: Workload, for_seconds: float = 2.0) -> float:
    """The six in turn with nothing new, from one thread."""
    start, count = time.perf_counter(), 0
    for query in cycle(workload.queries()):
        system.read(query)
        count += 1
        if time.perf_counter() - start > for_seconds:
            break
    return count / (time.perf_counter() - start)


def read_all(system: AimSystem, workload: Workload) -> Answers:
    return {query: [list(row) for row in system.read(query)] for query in workload.queries()}


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
