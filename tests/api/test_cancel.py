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
SLOW = "SELECT sum((a.x * 31 + b.x * 17 + c.x * 7 + d.x) % 1009) FROM n a, n b, n c, n d"
STOPPED = (["stopped", "KeyboardInterrupt", "-"], ["stopped", "Cancelled", "57014"])

PROGRAM = """
import faulthandler, sys, midstream
faulthandler.enable()
db = midstream.connect(sys.argv[1])
db.sql("CREATE TABLE n (x int); CREATE TABLE t (a int)")
db.insert("n", [{"x": n} for n in range(2000)])
for kernel in ("duckdb", "spark"):
    db.sql("SET kernel = '" + kernel + "'")
    db.sql("SELECT count(*) FROM n").fetchall()
    db.sql("BEGIN")
    db.sql("INSERT INTO t VALUES (1)")
    print("running", flush=True)
    try:
        db.sql("INSERT INTO t SELECT CAST(s AS int) FROM (" + sys.argv[2] + ") AS q (s)")
        print("finished", flush=True)
    except (KeyboardInterrupt, midstream.Error) as stopped:
        print("stopped", type(stopped).__name__, getattr(stopped, "sqlstate", "-"), flush=True)
    db.sql("ROLLBACK")
    print(db.sql("SELECT count(*) FROM t").fetchall(), flush=True)
    db.sql("INSERT INTO t VALUES (5)")
    print(db.sql("DELETE FROM t").status, flush=True)
faulthandler.dump_traceback_later(50)
db.close()
print("closed", flush=True)
"""


def test_interrupt_stops_a_statement_and_nothing_else(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": SOURCE, "PYSPARK_PYTHON": sys.executable}
    arguments = [sys.executable, "-c", PROGRAM, str(tmp_path / "x.db"), SLOW]
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert child.stdout is not None
    try:
        for kernel in ("duckdb", "spark"):
            assert child.stdout.readline() == "running\n", kernel
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(timeout=2)
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline().split() in STOPPED, kernel
            assert [child.stdout.readline() for _ in range(2)] == ["[(0,)]\n", "DELETE 1\n"], kernel
        assert child.communicate(timeout=60)[0] == "closed\n"
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
    assert child.returncode == 0


HANGING = """
import os, signal, sys, midstream
from midstream.spark import session
from pyspark import SparkContext
session._STOP_SECONDS = 2.0
db = midstream.connect(sys.argv[1])
db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
print(db.sql("SELECT sum(a) FROM t").fetchall(), flush=True)
os.kill(SparkContext._gateway.proc.pid, signal.SIGSTOP)
db.close()
print("closed", flush=True)
with midstream.connect(sys.argv[1]) as db:
    print(db.sql("SELECT sum(a) FROM t").fetchall(), flush=True)
"""


@pytest.mark.long
def test_closing_ends_a_spark_that_hangs(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": SOURCE, "PYSPARK_PYTHON": sys.executable}
    arguments = [sys.executable, "-c", HANGING, str(tmp_path / "x.db")]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, text=True, env=environment, timeout=120, check=True)
    assert done.stdout.splitlines() == ["[(1,)]", "closed", "[(1,)]"]
