"""A process that feeds streams from several threads until it is killed; see doomed.py.

Every row of the stream `twin` is also in `fed`, under the same SCN. Readers come and go meanwhile: a new one says after
which SCN it reads.
"""

from __future__ import annotations

import itertools
from collections import deque
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from doomed import Step, beside, feeder, opened, read_arguments, run_together, tell

from midstream.runtime.tally import TALLY, Counts

THREADS = 3
ROWS = {"few": 3, "many": 25_000, "transaction": 2, "both": 2, "file": 40_000, "reader": 0}
"""How many rows a step of each kind adds to `fed`."""
TWINS = ("transaction", "both")
"""The kinds of steps whose rows are in `twin`, too."""
_own_readers: deque[int] = deque()


def main() -> None:
    arguments = read_arguments()
    db, numbers = opened(arguments), itertools.count(arguments.first)
    run_together([feeder(STEPS, WEIGHTS, db, arguments.seed + n, numbers) for n in range(THREADS)])


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


def few(db: Any, step: int) -> Any:
    return db.sql(f"INSERT INTO fed {values_of(step, 'few')}").scn


def many(db: Any, step: int) -> Any:
    return db.insert("fed", rows_of(step, "many")).scn


def transaction(db: Any, step: int) -> Any:
    """A row in a table and two in each stream, under one SCN."""
    with db.session() as session:
        session.sql(f"BEGIN; INSERT INTO ledger VALUES ({step})")
        return _into_both(session, values_of(step, "transaction"))


def both(db: Any, step: int) -> Any:
    """Two rows in each stream, and no table changes."""
    with db.session() as session:
        session.sql("BEGIN")
        return _into_both(session, values_of(step, "both"))


def _into_both(session: Any, values: str) -> Any:
    session.sql(f"INSERT INTO fed {values}")
    session.sql(f"INSERT INTO twin {values}")
    return session.sql("COMMIT").scn


def file(db: Any, step: int) -> Any:
    path = beside(f"file_{step}.parquet")
    pq.write_table(rows_of(step, "file"), path)
    try:
        return db.sql(f"COPY fed FROM '{path}' PARQUET").scn
    finally:
        path.unlink()


def reader(db: Any, step: int) -> Any:
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


STEPS: dict[str, Step] = {
    "few": few,
    "many": many,
    "transaction": transaction,
    "both": both,
    "file": file,
    "reader": reader,
}
WEIGHTS = (20, 2, 4, 4, 1, 1)

if __name__ == "__main__":
    main()
