"""A process that feeds streams from several threads until it is killed, and says what was acknowledged.

    python stream_child.py FOLDER SEED FIRST_STEP [--die-at N [--within FOLDER_OF_CODE]]

Lines are those of child.py. Steps of different threads have different numbers. Every row of the stream `twin` is also
in `fed`, under the same SCN. Readers come and go meanwhile: a new one says after which SCN it reads.

With --die-at it kills itself with SIGKILL at the N-th call or return of a function after the database is open, in any
thread; with --within, only those in a folder of the code count: midstream/log, say.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from child import tell

import midstream
from midstream.runtime.tally import TALLY, Counts

THREADS = 3
ROWS = {"few": 3, "many": 25_000, "transaction": 2, "both": 2, "file": 40_000, "reader": 0}
"""How many rows a step of each kind adds to `fed`."""
TWINS = ("transaction", "both")
"""The kinds of steps whose rows are in `twin`, too."""
_own_readers: deque[int] = deque()
_is_open = threading.Event()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("seed", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--within", default="")
    arguments = parser.parse_args()
    if arguments.die_at:
        die_at_call(arguments.die_at, arguments.within)
    db = midstream.connect(arguments.folder)
    _is_open.set()
    tell("open", step=-1)
    numbers = itertools.count(arguments.first)
    threads = [
        threading.Thread(target=feed, args=(db, random.Random(arguments.seed + n), numbers, Path(arguments.folder)))
        for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def die_at_call(number: int, within: str) -> None:
    """Watches the threads that the database starts, too: they make the batches and cut the log."""
    left = [number]

    def count(frame: FrameType, _event: str, _argument: Any) -> None:
        if _is_open.is_set() and within in frame.f_code.co_filename:
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


def feed(db: Any, chosen: random.Random, numbers: Iterator[int], folder: Path) -> None:
    for step in numbers:
        kind = chosen.choices(list(STEPS), [20, 2, 4, 4, 1, 1])[0]
        tell("try", step=step, kind=kind)
        scn = STEPS[kind](db, step, folder)
        tell("done", step=step, kind=kind, scn=scn)


def rows_of(step: int, kind: str) -> pa.Table:
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    columns = {
        "step": pa.array([step] * ROWS[kind], pa.int64()),
        "n": pa.array(range(ROWS[kind]), pa.int32()),
        "at": pa.array([now] * ROWS[kind], pa.timestamp("us")),
    }
    return pa.table(columns)


def values_of(step: int, kind: str) -> str:
    return "VALUES " + ", ".join(f"({step}, {n}, '{datetime.now(timezone.utc):%F %T.%f}')" for n in range(ROWS[kind]))


def few(db: Any, step: int, folder: Path) -> Any:
    return db.sql(f"INSERT INTO fed {values_of(step, 'few')}").scn


def many(db: Any, step: int, folder: Path) -> Any:
    return db.insert("fed", rows_of(step, "many")).scn


def transaction(db: Any, step: int, folder: Path) -> Any:
    """A row in a table and two in each stream, under one SCN."""
    with db.session() as session:
        session.sql(f"BEGIN; INSERT INTO ledger VALUES ({step})")
        return _into_both(session, values_of(step, "transaction"))


def both(db: Any, step: int, folder: Path) -> Any:
    """Two rows in each stream, and no table changes."""
    with db.session() as session:
        session.sql("BEGIN")
        return _into_both(session, values_of(step, "both"))


def _into_both(session: Any, values: str) -> Any:
    session.sql(f"INSERT INTO fed {values}")
    session.sql(f"INSERT INTO twin {values}")
    return session.sql("COMMIT").scn


def file(db: Any, step: int, folder: Path) -> Any:
    path = folder.parent / f"file_{step}.parquet"
    pq.write_table(rows_of(step, "file"), path)
    try:
        return db.sql(f"COPY fed FROM '{path}' PARQUET").scn
    finally:
        path.unlink()


def reader(db: Any, step: int, folder: Path) -> Any:
    """A new reader; the third of this process goes for good."""
    streams = db._store.streams
    name = "fed" if step % 2 else "twin"
    entry = streams.register(db._store.catalog.state.relations[name], f"reader {step}", TALLY, Counts().written())
    tell("reader", step=step, id=entry.id, stream=name, since=entry.absorbed)
    _own_readers.append(entry.id)
    if len(_own_readers) > 2:
        gone = _own_readers.popleft()
        tell("gone", step=step, id=gone)
        streams.unregister(gone)
    return None


STEPS: dict[str, Callable[[Any, int, Path], Any]] = {
    "few": few,
    "many": many,
    "transaction": transaction,
    "both": both,
    "file": file,
    "reader": reader,
}

if __name__ == "__main__":
    main()
