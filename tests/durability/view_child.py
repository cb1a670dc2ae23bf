"""A process that feeds streams, reads views over them and makes new ones until it is killed; see doomed.py.

Beside the steps there are lines of kind "read", with the number of rows that a view counted, and steps of kind "view",
which make the view `seen_<step>` and say after which SCN it counts.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from doomed import Step, beside, feeder, opened, read_arguments, run_together, tell

THREADS = 2
ROWS = {"few": 3, "many": 4_000, "transaction": 2, "view": 0, "file": 0}
"""How many rows a step of each kind adds to `fed`."""
FILE_ROWS = 500
"""How many a file adds to `filed`, which nobody but views reads: the file is not copied."""
VIEWS = {
    "by_step": "SELECT step, count(*) AS rows, sum(n) AS n, max(n) AS most FROM fed GROUP BY step",
    "total": "SELECT count(*) AS rows, coalesce(sum(n), 0) AS n FROM fed",
    "twins": "SELECT step, count(*) AS rows FROM twin GROUP BY step",
    "parities": "SELECT p.name, count(*) AS rows FROM fed f JOIN parity p ON p.bit = f.n % 2 GROUP BY p.name",
    "files": "SELECT step, count(*) AS rows, sum(n) AS n FROM filed GROUP BY step",
    "file_total": "SELECT count(*) AS rows FROM filed",
    "joined": "SELECT f.step, f.rows, t.rows AS twins FROM by_step f LEFT JOIN twins t ON t.step = f.step",
}


def main() -> None:
    arguments = read_arguments()
    db, numbers = opened(arguments), itertools.count(arguments.first)
    feeders = [feeder(STEPS, WEIGHTS, db, arguments.seed + n, numbers) for n in range(THREADS)]
    run_together([lambda: read(db, random.Random(arguments.seed)), *feeders])


def read(db: Any, chosen: random.Random) -> None:
    """What was read once must not go back when the database is opened again."""
    with db.session() as session:
        while True:
            view = chosen.choice(list(VIEWS))
            found = session.sql(f"SELECT * FROM {view}").fetchall()
            if view == "total":
                tell("read", step=-1, rows=found[0][0])


def few(db: Any, step: int) -> Any:
    values = ", ".join(f"({step}, {n})" for n in range(ROWS["few"]))
    return db.sql(f"INSERT INTO fed VALUES {values}").scn


def many(db: Any, step: int) -> Any:
    count = ROWS["many"]
    table = pa.table({"step": pa.array([step] * count, pa.int64()), "n": pa.array(range(count), pa.int32())})
    return db.insert("fed", table).scn


def transaction(db: Any, step: int) -> Any:
    """Rows for both streams and a row of a table under one SCN."""
    values = ", ".join(f"({step}, {n})" for n in range(ROWS["transaction"]))
    with db.session() as session:
        session.sql(f"BEGIN; INSERT INTO fed VALUES {values}; INSERT INTO ledger VALUES ({step})")
        session.sql(f"INSERT INTO twin VALUES {values}")
        return session.sql("COMMIT").scn


def view(db: Any, step: int) -> Any:
    made = db.sql(f"CREATE VIEW seen_{step} AS SELECT step, count(*) AS rows FROM fed GROUP BY step")
    return made.scn


def file(db: Any, step: int) -> Any:
    path, count = beside(f"file_{step}.parquet"), FILE_ROWS
    rows = pa.table({"step": pa.array([step] * count, pa.int64()), "n": pa.array(range(count), pa.int32())})
    pq.write_table(rows, path)
    try:
        return db.sql(f"COPY filed FROM '{path}' PARQUET").scn
    finally:
        path.unlink()


STEPS: dict[str, Step] = {"few": few, "many": many, "transaction": transaction, "view": view, "file": file}
WEIGHTS = (20, 3, 6, 1, 6)

if __name__ == "__main__":
    main()
