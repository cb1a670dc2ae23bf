"""How much of the machine the engine takes: cores, the JVM's heap, and what DuckDB may use.

Half of the machine's memory is ours unless the user says otherwise; half of that is the JVM's heap. A
job of several pieces runs a kernel in each of Spark's slots, each with its share; a job of one piece
has half of what the kernels have.

    >>> Resources.of(cores=2, memory="8g").kernel_memory(pieces=4) >> 20
    1024
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from midstream.errors import InvalidParameter

_SPARE_SLOTS = 2
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_LARGEST_HEAP = 16 << 30
_SMALLEST_HEAP = 1 << 30
_SMALLEST_KERNEL = 128 << 20


@dataclass(frozen=True)
class Resources:
    cores: int
    heap: int
    """Bytes of the JVM's heap."""
    kernels: int
    """Bytes that all DuckDB kernels may use together."""

    @classmethod
    def of(cls, cores: int | None, memory: int | str | None) -> Resources:
        budget = memory_bytes(memory) if memory is not None else machine_memory() // 2
        heap = min(max(budget // 2, _SMALLEST_HEAP), _LARGEST_HEAP)
        return cls(cores or machine_cores(), heap, max(budget - heap, budget // 2))

    @property
    def slots(self) -> int:
        """How many tasks Spark runs at once: a few more than cores, so that a short job need not wait for long ones."""
        return self.cores + _SPARE_SLOTS

    def kernel_memory(self, pieces: int) -> int:
        """What one DuckDB may use in a job of so many pieces."""
        share = self.kernels // 2 if pieces == 1 else self.kernels // self.slots
        return max(share, _SMALLEST_KERNEL)


def memory_bytes(written: int | str) -> int:
    """Reads `4g`, `512 MB` or a number of bytes."""
    match = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", str(written).lower())
    if match is None or int(match[1]) == 0:
        raise InvalidParameter(f'memory "{written}" is not a size', hint='Write a size such as "4g" or "512m".')
    return int(match[1]) * _UNITS[match[2]]


def machine_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine_memory() -> int:
    """What this process may use: the machine's memory, or the limit of its container."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    try:
        return min(physical, int(limit.read_text()))
    except (OSError, ValueError):
        return physical
