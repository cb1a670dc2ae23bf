"""`midstream prepare` leaves an archive that the next JVM really maps, and only the next one of the same Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import midstream
from midstream.spark.class_archive import archive_path

pytestmark = pytest.mark.spark

PREPARE = "from midstream.cli.main import main; main()"
OPEN = """
import midstream
from pyspark import SparkContext
with midstream.connect() as db:
    assert db.sql("SELECT 40 + 2").fetchall() == [(42,)]
    print(open(f"/proc/{SparkContext._gateway.proc.pid}/maps").read())
"""


def run(program: str, *arguments: str, cache: Path) -> str:
    source = str(Path(midstream.__file__).parents[1])
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": source}
    done = subprocess.run([sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process maps is seen in /proc")
def test_prepare_makes_an_archive_that_the_next_start_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ".jsa" not in run(OPEN, cache=tmp_path / "none").replace("classes.jsa", "").replace(
        "classes_nocoops.jsa", ""
    )
    told = run(PREPARE, "prepare", cache=tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = archive_path()
    assert archive.name in told.replace("\n", "")
    assert os.listdir(archive.parent) == [archive.name], "nothing else is left"
    assert archive.name in run(OPEN, cache=tmp_path)


def test_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = archive_path()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert archive_path() != known
