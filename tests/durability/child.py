"""A process that changes a database until it is killed, and says on its output what was acknowledged.

    python child.py FOLDER SEED FIRST_STEP [--die-at N] [--spark]

One line of JSON before each step ("try") and one after it ("done", with its SCN). With --die-at it kills itself
with SIGKILL at the N-th call of any Python or C function after the first acknowledged step, so that every moment
between two calls of a commit, a DDL statement or upkeep comes up sooner or later, without a hook in the product.
Without --spark only what needs no JVM is done: INSERT of values, DDL, COPY of files, upkeep.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import midstream


def main() -> None:
    arguments = read_arguments()
    db = midstream.connect(arguments.folder)
    tell("open", step=-1)
    chosen = random.Random(arguments.seed)
    kinds = ["transaction"] * 4 + ["insert"] * 2 + ["ddl", "copy", "upkeep"]
    kinds += ["update", "delete"] if arguments.spark else []
    for number in range(arguments.first, arguments.first + 10_000):
        kind = chosen.choice(kinds)
        tell("try", step=number, kind=kind)
        scn = STEPS[kind](db, number, Path(arguments.folder))
        tell("done", step=number, kind=kind, scn=scn)
        if number == arguments.first and arguments.die_at:
            die_at_call(arguments.die_at)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("seed", type=int)
    parser.add_argument("first", type=int)
    parser.add_argument("--die-at", type=int, default=0)
    parser.add_argument("--spark", action="store_true")
    return parser.parse_args()


def tell(event: str, **facts: Any) -> None:
    os.write(sys.stdout.fileno(), (json.dumps({"event": event, **facts}) + "\n").encode())


def die_at_call(number: int) -> None:
    """Counts calls and returns of all threads, and goes without a word at the given one."""
    left = [number]

    def count(_frame: FrameType, _event: str, _argument: Any) -> None:
        left[0] -= 1
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(count)
    sys.setprofile(count)


def transaction(db: Any, step: int, folder: Path) -> Any:
    """Three rows in each of two tables under one SCN."""
    session = db.session()
    session.sql("BEGIN")
    for table in ("ledger", "journal"):
        session.sql(f"INSERT INTO {table} VALUES ({step}, 1), ({step}, 2), ({step}, 3)")
    scn = session.sql("COMMIT").scn
    session.close()
    return scn


def insert(db: Any, step: int, folder: Path) -> Any:
    return db.sql(f"INSERT INTO single VALUES ({step}, 1)").scn


def ddl(db: Any, step: int, folder: Path) -> Any:
    """A new table with a row, in one transaction, and then a column more."""
    session = db.session()
    session.sql(f"BEGIN; CREATE TABLE made_{step} (a int); INSERT INTO made_{step} VALUES ({step})")
    session.sql("COMMIT")
    scn = session.sql(f"ALTER TABLE made_{step} ADD COLUMN b text").scn
    session.close()
    return scn


def copy(db: Any, step: int, folder: Path) -> Any:
    path = folder.parent / f"copy_{os.getpid()}.csv"
    path.write_text("".join(f"{step},{n}\n" for n in range(500)))
    return db.sql(f"COPY copied FROM '{path}' CSV").scn


def upkeep(db: Any, step: int, folder: Path) -> Any:
    db.upkeep()
    return None


def update(db: Any, step: int, folder: Path) -> Any:
    return db.sql(f"UPDATE tally SET n = n + 1, last = {step} WHERE id = 1").scn


def delete(db: Any, step: int, folder: Path) -> Any:
    """A row goes from one table to the other."""
    session = db.session()
    session.sql("BEGIN")
    session.sql(f"INSERT INTO gone SELECT id, {step} FROM stock ORDER BY id LIMIT 1")
    session.sql("DELETE FROM stock WHERE id IN (SELECT id FROM gone)")
    scn = session.sql("COMMIT").scn
    session.close()
    return scn


STEPS = {f.__name__: f for f in (transaction, insert, ddl, copy, upkeep, update, delete)}

if __name__ == "__main__":
    main()
