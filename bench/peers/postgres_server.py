"""A PostgreSQL server for one benchmark, tuned as one would for it, a child of this process and gone with it.

The server refuses to run as root, so root starts it as the user postgres, who must be able to read the files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

SETTINGS = {
    "listen_addresses": "",
    "shared_buffers": "2GB",
    "work_mem": "256MB",
    "synchronous_commit": "off",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
    "wal_compression": "lz4",
    "jit": "off",
    "random_page_cost": "1.1",
}


def start_server(place: str) -> psycopg.Connection:
    """A connection to a new server, whose files go to that place."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from postgres import find_binaries

    binaries = find_binaries()
    if binaries is None:
        raise SystemExit("no PostgreSQL server is installed (initdb not found)")
    folder = Path(tempfile.mkdtemp(prefix="postgres_", dir=place))
    user: list[str] = []
    if os.getuid() == 0:
        shutil.chown(folder, "postgres")
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    initdb = [
        *user,
        str(binaries / "initdb"),
        "-D",
        f"{folder}/data",
        "--locale=C",
        "-E",
        "UTF8",
        "-A",
        "trust",
        "-U",
        "bench",
    ]
    subprocess.run(initdb, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
    server = [*user, str(binaries / "postgres"), "-D", f"{folder}/data", "-k", str(folder), *options]
    subprocess.Popen(server, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return _connected(f"host={folder} user=bench dbname=postgres")


def _connected(dsn: str) -> psycopg.Connection:
    until = time.monotonic() + 60
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
