"""pyspark imports itself in circles, which two threads cannot do at once: no thread of ours may be at it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("way_in", ["midstream.api", "midstream.spark.engine"])
def test_pyspark_is_there_before_the_first_thread_starts(way_in: str) -> None:
    look = "print(threading.active_count(), sys.modules['pyspark.sql'].SparkSession.__name__)"
    command = [sys.executable, "-c", f"import sys, threading, {way_in}; {look}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "SparkSession"]
