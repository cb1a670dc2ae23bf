"""How much memory a process and all that it started hold, as Linux counts it.

Pages that processes share are counted once, in parts (PSS), so that forked workers do not count their parent again.
"""

from __future__ import annotations

import threading
from pathlib import Path


def resident_mb(pid: int | str = "self") -> float:
    """What one process has in memory (RSS)."""
    return _field(Path(f"/proc/{pid}/status"), "VmRSS:")


def tree_mb(pid: int) -> float:
    """What a process and its descendants have in memory together."""
    return sum(_field(Path(f"/proc/{one}/smaps_rollup"), "Pss:") for one in _descendants(pid))


def _descendants(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        # The name stands in brackets and may hold blanks and brackets itself.
        parents[int(stat.parent.name)] = int(text.rpartition(")")[2].split()[1])
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found


def _field(path: Path, name: str) -> float:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


class PeakWatch(threading.Thread):
    """Looks once a second how much a process tree holds, and keeps the most."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._over = pid, threading.Event()
        self.peak_mb = 0.0

    def run(self) -> None:
        while not self._over.wait(1.0):
            self.peak_mb = max(self.peak_mb, tree_mb(self._pid))

    def end(self) -> float:
        self._over.set()
        self.join()
        return self.peak_mb
