"""A process that feeds a stream from several threads until it is killed, and says what was acknowledged.

    python stream_child.py FOLDER SEED FIRST_STEP [--die-at N]

Lines and --die-at are those of child.py. Steps of different threads have different numbers.
"""

from __future__ import annotations

import argparse
import itertools
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from child import die_at_call, tell

import midstream

THREADS = 3
ROWS = {"few": 3, "many": 25_000, "transaction": 2, "file": 40_000}
"""How many rows a step of each kind adds to the stream."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("seed", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("--die-at", type=int, default=0)
    arguments = parser.parse_args()
    db = midstream.connect(arguments.folder)
    tell("open", step=-1)
    numbers = itertools.count(arguments.first)
    if arguments.die_at:
        die_at_call(arguments.die_at)
    threads = [
        threading.Thread(target=feed, args=(db, random.Random(arguments.seed + n), numbers, Path(arguments.folder)))
        for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def feed(db: Any, chosen: random.Random, numbers: Any, folder: Path) -> None:
    for step in numbers:
        kind = chosen.choices(list(STEPS), [20, 2, 4, 1])[0]
        tell("try", step=step, kind=kind)
        scn = STEPS[kind](db, step, folder)
        tell("done", step=step, kind=kind, scn=scn)


def rows_of(step: int, kind: str) -> pa.Table:
    return pa.table({"step": pa.array([step] * ROWS[kind], pa.int64()), "n": pa.array(range(ROWS[kind]), pa.int32())})


def few(db: Any, step: int, folder: Path) -> Any:
    return db.sql(f"INSERT INTO fed VALUES ({step}, 0), ({step}, 1), ({step}, 2)").scn


def many(db: Any, step: int, folder: Path) -> Any:
    return db.insert("fed", rows_of(step, "many")).scn


def transaction(db: Any, step: int, folder: Path) -> Any:
    """A row in a table and two in the stream, under one SCN."""
    with db.session() as session:
        session.sql("BEGIN")
        session.sql(f"INSERT INTO ledger VALUES ({step})")
        session.sql(f"INSERT INTO fed VALUES ({step}, 0), ({step}, 1)")
        return session.sql("COMMIT").scn


def file(db: Any, step: int, folder: Path) -> Any:
    path = folder.parent / f"file_{step}.parquet"
    pq.write_table(rows_of(step, "file"), path)
    try:
        return db.sql(f"COPY fed FROM '{path}' PARQUET").scn
    finally:
        path.unlink()


STEPS: dict[str, Callable[[Any, int, Path], Any]] = {
    "few": few,
    "many": many,
    "transaction": transaction,
    "file": file,
}

if __name__ == "__main__":
    main()
