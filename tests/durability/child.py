"""A process that changes the tables of a database until it is killed; see doomed.py.

    python child.py FOLDER SEED FIRST_STEP [--die-at N] [--spark]

Calls count from the first acknowledged step on. Without --spark only what needs no JVM is done: INSERT of values, DDL,
COPY of files, upkeep.
"""

from __future__ import annotations

import itertools
import os
import random
from typing import Any

from doomed import beside, die_at_call, read_arguments, take_step, tell

import midstream


def main() -> None:
    arguments = read_arguments("--spark")
    db = midstream.connect(arguments.folder)
    tell("open", step=-1)
    chosen = random.Random(arguments.seed)
    kinds = ["transaction"] * 4 + ["insert"] * 2 + ["ddl", "copy", "upkeep"]
    kinds += ["update", "delete"] if arguments.spark else []
    for number in itertools.count(arguments.first):
        take_step(STEPS, chosen.choice(kinds), db, number)
        if number == arguments.first and arguments.die_at:
            die_at_call(arguments.die_at, arguments.within)


def transaction(db: Any, step: int) -> Any:
    """Three rows in each of two tables under one SCN."""
    session = db.session()
    session.sql("BEGIN")
    for table in ("ledger", "journal"):
        session.sql(f"INSERT INTO {table} VALUES ({step}, 1), ({step}, 2), ({step}, 3)")
    scn = session.sql("COMMIT").scn
    session.close()
    return scn


def insert(db: Any, step: int) -> Any:
    return db.sql(f"INSERT INTO single VALUES ({step}, 1)").scn


def ddl(db: Any, step: int) -> Any:
    """A new table with a row, in one transaction, and then a column more."""
    session = db.session()
    session.sql(f"BEGIN; CREATE TABLE made_{step} (a int); INSERT INTO made_{step} VALUES ({step})")
    session.sql("COMMIT")
    scn = session.sql(f"ALTER TABLE made_{step} ADD COLUMN b text").scn
    session.close()
    return scn


def copy(db: Any, step: int) -> Any:
    path = beside(f"copy_{os.getpid()}.csv")
    path.write_text("".join(f"{step},{n}\n" for n in range(500)))
    return db.sql(f"COPY copied FROM '{path}' CSV").scn


def upkeep(db: Any, step: int) -> Any:
    db.upkeep()
    return None


def update(db: Any, step: int) -> Any:
    return db.sql(f"UPDATE tally SET n = n + 1, last = {step} WHERE id = 1").scn


def delete(db: Any, step: int) -> Any:
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
