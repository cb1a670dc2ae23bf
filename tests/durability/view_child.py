"""A process that feeds streams, reads views over them and makes new ones until it is killed.

    python view_child.py FOLDER SEED FIRST_STEP [--die-at N [--within FOLDER_OF_CODE]]

Lines are those of child.py. Beside the steps there are lines of kind "read", with the number of rows that a view
counted, and steps of kind "view", which make the view `seen_<step>` and say after which SCN it counts.
"""

from __future__ import annotations

import argparse
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from child import tell
from stream_child import _is_open, die_at_call

import midstream

THREADS = 2
ROWS = {"few": 3, "many": 4_000, "transaction": 2, "view": 0}
"""How many rows a step of each kind adds to `fed`."""
VIEWS = {
    "by_step": "SELECT step, count(*) AS rows, sum(n) AS n, max(n) AS most FROM fed GROUP BY step",
    "total": "SELECT count(*) AS rows, coalesce(sum(n), 0) AS n FROM fed",
    "twins": "SELECT step, count(*) AS rows FROM twin GROUP BY step",
    "parities": "SELECT p.name, count(*) AS rows FROM fed f JOIN parity p ON p.bit = f.n % 2 GROUP BY p.name",
    "joined": "SELECT f.step, f.rows, t.rows AS twins FROM by_step f LEFT JOIN twins t ON t.step = f.step",
}


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
    works: list[Callable[[], None]] = [lambda: read(db, random.Random(arguments.seed))]
    for n in range(THREADS):
        works.append(lambda n=n: feed(db, random.Random(arguments.seed + n), numbers))  # type: ignore[misc]
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def feed(db: Any, chosen: random.Random, numbers: Iterator[int]) -> None:
    for step in numbers:
        kind = chosen.choices(list(STEPS), [20, 3, 6, 1])[0]
        tell("try", step=step, kind=kind)
        scn = STEPS[kind](db, step)
        tell("done", step=step, kind=kind, scn=scn)


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


STEPS: dict[str, Callable[[Any, int], Any]] = {"few": few, "many": many, "transaction": transaction, "view": view}

if __name__ == "__main__":
    main()
