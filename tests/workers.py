"""The Python workers of this process's Spark: which they are, and whether they compute."""

from __future__ import annotations

import os
from pathlib import Path


def workers() -> list[int]:
    """The Python workers below this process: children of a daemon of ours."""
    parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    daemons = {pid for pid in parents if _is_daemon(pid) and not _is_daemon(parents[pid]) and _is_ours(pid, parents)}
    return [pid for pid, parent in parents.items() if parent in daemons]


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _is_daemon(pid: int) -> bool:
    try:
        return b"-m\x00midstream.spark.worker_daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _is_ours(pid: int, parents: dict[int, int]) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        pid = parents.get(pid, 0)
    return False


def cpu_seconds() -> dict[int, float]:
    """What each worker has computed so far."""
    return {pid: seconds for pid in workers() if (seconds := _cpu_seconds(pid)) is not None}


def _cpu_seconds(pid: int) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def are_busy(before: dict[int, float]) -> bool:
    return any(seconds > before.get(pid, 0) + 0.2 for pid, seconds in cpu_seconds().items())
