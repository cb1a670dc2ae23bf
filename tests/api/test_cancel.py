"""Ctrl-C stops what runs and leaves everything usable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import midstream

pytestmark = pytest.mark.spark
SOURCE = str(Path(midstream.__file__).parents[1])
SLOW = "SELECT count(*) FROM n a, n b, n c, n d WHERE a.x + b.x + c.x + d.x = -1"

PROGRAM = """
import sys, midstream
db = midstream.connect(sys.argv[1])
db.sql("SET kernel = '" + sys.argv[2] + "'")
db.sql("CREATE TABLE n (x int); CREATE TABLE t (a int)")
db.insert("n", [{"x": n} for n in range(2000)])
db.sql("SELECT count(*) FROM n").fetchall()
print("running", flush=True)
try:
    if sys.argv[3] == "insert":
        db.sql("BEGIN")
        db.sql("INSERT INTO t VALUES (1)")
        db.sql("INSERT INTO t " + sys.argv[4]).fetchall()
    else:
        db.sql(sys.argv[4]).fetchall()
    print("finished", flush=True)
except (KeyboardInterrupt, midstream.Error) as stopped:
    print("stopped", type(stopped).__name__, getattr(stopped, "sqlstate", "-"), flush=True)
if sys.argv[3] == "insert":
    db.sql("ROLLBACK")
print(db.sql("SELECT count(*) FROM t").fetchall(), flush=True)
db.sql("INSERT INTO t VALUES (5)")
print(db.sql("SELECT a FROM t").fetchall(), flush=True)
db.close()
print("closed", flush=True)
"""


@pytest.mark.parametrize(("kernel", "kind"), [("duckdb", "select"), ("spark", "insert")])
def test_interrupt_stops_a_statement_and_nothing_else(tmp_path: Path, kernel: str, kind: str) -> None:
    environment = os.environ | {"PYTHONPATH": SOURCE, "PYSPARK_PYTHON": sys.executable}
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "x.db"), kernel, kind, SLOW]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "running\n"
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=2)
        child.send_signal(signal.SIGINT)
        said, _ = child.communicate(timeout=45)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    lines = said.split("\n")
    assert lines[0].split()[0] == "stopped"
    assert lines[0].split()[1:] in (["KeyboardInterrupt", "-"], ["Cancelled", "57014"])
    assert lines[1:4] == ["[(0,)]", "[(5,)]", "closed"]
    assert child.returncode == 0
