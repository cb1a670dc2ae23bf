"""A real PostgreSQL server for the tests, in a temporary folder, on a Unix socket, gone afterwards.

    with postgres_server() as dsn:
        psycopg.connect(dsn)

The server refuses to run as root, so root starts it as the user postgres. Texts compare by code point (locale C),
as Midstream compares them. Where no server is installed, the tests that need one are skipped with the reason.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres_server() -> Iterator[str]:
    """Starts a server and gives its connection string."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server is installed (initdb not found)")
    folder = Path(tempfile.mkdtemp(prefix="midstream_postgres_"))
    data = folder / "data"
    try:
        _as_server_user(
            folder, binaries / "initdb", "-D", data, "--locale=C", "-E", "UTF8", "-A", "trust", "-U", "judge"
        )
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        _as_server_user(folder, binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield f"host={folder} user=judge dbname=postgres"
        finally:
            _as_server_user(folder, binaries / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_binaries() -> Path | None:
    """The newest installed server, on the path or where Debian puts it."""
    on_path = shutil.which("initdb")
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda place: int(place.split("/")[4]))
    found = on_path or (places[-1] if places else None)
    return Path(found).parent if found else None


def _as_server_user(folder: Path, *command: object) -> None:
    words = [str(word) for word in command]
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
    done = subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{words}: {done.stderr}")
