"""An archive of the classes that Spark loads, made once for a machine: the JVM then maps them instead of reading,
checking and linking thousands of them, which is nearly half of the time from `connect` to the first answer.

The JVM itself makes it (class data sharing) and takes it only if Java and all of Spark's files are still the same;
otherwise it starts as it would without. `midstream prepare` calls `make_archive`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from importlib import util
from pathlib import Path

_ARCHIVING = "MIDSTREAM_ARCHIVE_CLASSES_TO"
"""Set while an archive is made, for the JVM that is started for that."""


def java_options() -> list[str]:
    """What the JVM must be told: to take the archive, to make one, or nothing."""
    target = os.environ.get(_ARCHIVING)
    if target:
        return [f"-XX:ArchiveClassesAtExit={target}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    archive = archive_path()
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off"] if archive.exists() else []


def archive_path() -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    java, spark = _java(), util.find_spec("pyspark")
    seen = os.stat(java)
    known = f"{os.path.realpath(java)} {seen.st_size} {seen.st_mtime_ns} {spark.origin if spark else ''}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "midstream" / f"spark-{hashlib.sha256(known.encode()).hexdigest()[:16]}.jsa"


def make_archive() -> Path:
    """Runs the usual kinds of job in a JVM that writes the archive when it ends. Takes about half a minute."""
    from midstream.maintenance.engine import Piece
    from midstream.spark.engine import SparkEngine
    from midstream.spark.jvm import end_jvm

    archive = archive_path()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="midstream-prepare-") as folder:
        made = Path(folder) / archive.name
        os.environ[_ARCHIVING] = str(made)
        try:
            engine = SparkEngine(Path(folder) / "work")
            engine.run("duckdb", [Piece("SELECT 1 AS n")] * 2)
            engine.run("spark", [Piece("SELECT id % 3 AS k, count(*) AS n FROM range(100) GROUP BY 1 ORDER BY 2")])
            engine.close()
            end_jvm()
        finally:
            del os.environ[_ARCHIVING]
        # A JVM that starts meanwhile sees the whole archive or none.
        partial = archive.with_suffix(f".{os.getpid()}")
        shutil.copyfile(made, partial)
        os.replace(partial, archive)
    return archive


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    at_home = os.path.join(home, "bin", "java") if home else ""
    return at_home if os.path.exists(at_home) else shutil.which("java") or "java"
