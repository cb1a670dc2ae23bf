"""From `connect` on a database that is there to the first answer, in a new process each time.

    python bench/start.py --runs 5

Beside it, by turns: Spark alone, started by hand with one empty Arrow job. The difference is ours. Then the same
after `midstream prepare`, against the 12 seconds that it may take on two cores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from report import Finding, Report

import midstream

OURS = """
import time; start = time.perf_counter()
import os, sys, midstream
db = midstream.connect(sys.argv[1])
assert db.sql("SELECT count(*), sum(n) FROM t").fetchall() == [(3, 6)]
print(time.perf_counter() - start, flush=True)
os._exit(0)
"""
SPARK = """
import time; start = time.perf_counter()
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from collections.abc import Iterator
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf

def same(numbers: Iterator[pa.Array]) -> Iterator[pa.Array]:
    yield from numbers

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.python.unix.domain.socket.enabled", "true").getOrCreate()
assert spark.range(0, 2, 1, 2).select(arrow_udf(same, "bigint")("id")).toArrow().num_rows == 2
print(time.perf_counter() - start, flush=True)
os._exit(0)
"""
OURS_MAY_ADD = 1.0
MAY_TAKE = 12.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="how often each is timed")
    runs = parser.parse_args().runs
    report = Report("start", "Opening a database: from connect to the first answer")
    with tempfile.TemporaryDirectory(prefix="midstream_bench_") as folder:
        make_database(f"{folder}/start.db")
        without = os.environ | {"XDG_CACHE_HOME": f"{folder}/empty"}
        prepared = os.environ | {"XDG_CACHE_HOME": f"{folder}/cache"}
        prepare = "from midstream.cli.main import main; main()"
        subprocess.run([sys.executable, "-c", prepare, "prepare"], env=prepared, check=True)
        ours, spark, fast = [], [], []
        for _ in range(runs):
            ours.append(seconds(OURS, f"{folder}/start.db", without))
            spark.append(seconds(SPARK, "", without))
            fast.append(seconds(OURS, f"{folder}/start.db", prepared))
        limit = 1 + OURS_MAY_ADD / statistics.median(spark)
        report.add(Finding("first answer", ours, spark, limit, "Spark's first Arrow job", note="at most 1 s more"))
        report.add(Finding("first answer, prepared", fast, [MAY_TAKE], 1.0, "12 s", note="after midstream prepare"))
    report.write()
    sys.exit(0 if report.holds else 1)


def make_database(path: str) -> None:
    with midstream.connect(path) as db:
        db.sql("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2), (3)")


def seconds(program: str, argument: str, environment: dict[str, str]) -> float:
    environment = environment | {"PYTHONPATH": str(Path(midstream.__file__).parents[1]), "PYTHONWARNINGS": "ignore"}
    said = subprocess.run(
        [sys.executable, "-c", program, argument], env=environment, capture_output=True, text=True, check=True
    )
    return float(said.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
