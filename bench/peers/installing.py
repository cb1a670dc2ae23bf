"""Environments for peers that are no part of the project's own: made once, kept in the user's cache.

    python_with("clickhouse", "chdb==4.4.0")     # …/midstream/bench/clickhouse/bin/python

A peer that cannot be installed here is left out, and the reason is shown in its place.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


class LeftOut(Exception):
    """This system is not measured, because of this."""


def cache_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "midstream" / "bench"


def python_with(name: str, *packages: str) -> str:
    """A Python that has these packages and nothing of ours."""
    folder = cache_folder() / name
    python, stamp = folder / "bin" / "python", folder / "installed"
    wanted = " ".join(packages)
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return str(python)
    print(f"installing {wanted} in {folder}", file=sys.stderr, flush=True)
    _run(sys.executable, "-m", "venv", "--without-pip", "--clear", str(folder))
    _run(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", *packages)
    stamp.write_text(wanted)
    return str(python)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeftOut(f"could not be installed: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise LeftOut(f"could not be installed: {said[-1] if said else command}")
