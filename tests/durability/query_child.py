"""A process that changes tables under continuous queries and materialized views until it is killed; see doomed.py.

Beside the steps there are lines of kind "dequeued", with the steps whose changes a subscriber of the queue got, and of
kind "called", with the changes that a trigger was called with.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

from doomed import Step, feeder, opened, read_arguments, run_together, tell

import midstream

THREADS = 2
ACCOUNTS = 6
ROWS = {"few": 3, "pair": 2, "change": 1, "transfer": 0, "recompute": 0, "pour": 0}
"""How many rows a step of each kind adds to `fed`."""
POURED = 2
"""How many rows a step adds to the stream."""
TAKEN_AT_ONCE = 5
QUERIES = {
    "single": "COMPUTE ON COMMIT DESTINATION single_log AS SELECT step, n, cq_delta() AS kind FROM fed",
    "queued": "COMPUTE ON COMMIT DESTINATION QUEUE q AS SELECT step, n, cq_delta() AS kind FROM fed",
    "joined": "COMPUTE ON COMMIT DESTINATION joined_log AS "
    "SELECT f.step, f.n, cq_delta() AS kind FROM fed f JOIN twin t ON t.step = f.step AND t.n = f.n",
    "balances": "PRIMARY KEY (id) COMPUTE ON COMMIT DESTINATION balances_log AS "
    "SELECT id, balance, cq_delta() AS kind, cq_old_value(balance) AS was FROM accounts",
    "streamed": "COMPUTE ON COMMIT DESTINATION streamed_log AS "
    "SELECT step, n, cq_delta() AS kind FROM poured WHERE n >= 0",
    "batched": "PRIMARY KEY (step) COMPUTE BATCHED ON DEMAND DESTINATION batched_log AS "
    "SELECT step, sum(n) AS n, cq_delta() AS kind, cq_old_value(n) AS was FROM fed GROUP BY step",
}
VIEWS = {
    "by_step": "SELECT step, count(*) AS rows, sum(n) AS n FROM fed GROUP BY step",
    "money": "SELECT sum(balance) AS balance, count(*) AS n FROM accounts",
    "unpaired": "SELECT f.step, f.n FROM fed f WHERE NOT EXISTS (SELECT 1 FROM twin t WHERE t.step = f.step)",
}


def main() -> None:
    arguments = read_arguments()
    db, numbers = opened(arguments), itertools.count(arguments.first)
    feeders = [feeder(STEPS, WEIGHTS, db, arguments.seed + n, numbers) for n in range(THREADS)]
    run_together([lambda: take(db), *feeders])


CALLS = list[tuple[str, str, int, int]]()
"""What the trigger was called with in this process: id, kind, step and n."""


def called(change: Any) -> None:
    CALLS.append(("/".join(map(str, change.id)), change.kind, change.row["step"], change.row["n"]))
    tell("called", step=-1, call=CALLS[-1])


def take(db: Any) -> None:
    with db.session() as session:
        while True:
            got = session.sql(f"SELECT step, n FROM dequeue('q', 'child', {TAKEN_AT_ONCE})").fetchall()
            if got:
                tell("dequeued", step=-1, rows=got)
            else:
                time.sleep(0.02)


def few(db: Any, step: int) -> Any:
    values = ", ".join(f"({step}, {n})" for n in range(ROWS["few"]))
    return db.sql(f"INSERT INTO fed VALUES {values}").scn


def pair(db: Any, step: int) -> Any:
    """Rows of both tables under one SCN."""
    values = ", ".join(f"({step}, {n})" for n in range(ROWS["pair"]))
    with db.session() as session:
        session.sql(f"BEGIN; INSERT INTO fed VALUES {values}; INSERT INTO twin VALUES {values}")
        return session.sql("COMMIT").scn


def change(db: Any, step: int) -> Any:
    """A row that comes, is changed and changed back; its three changes are three outputs."""
    db.sql(f"INSERT INTO fed VALUES ({step}, 0)")
    db.sql(f"UPDATE fed SET n = 1 WHERE step = {step}")
    return db.sql(f"UPDATE fed SET n = 0 WHERE step = {step}").scn


def transfer(db: Any, step: int) -> Any:
    """From one account to another, with a line that says so under the same SCN; again after each conflict."""
    giver, taker = random.Random(step).sample(range(ACCOUNTS), 2)

    def once(session: Any) -> Any:
        session.sql(f"BEGIN; UPDATE accounts SET balance = balance - {step} WHERE id = {giver}")
        session.sql(f"UPDATE accounts SET balance = balance + {step} WHERE id = {taker}")
        session.sql(f"INSERT INTO transfers VALUES ({step})")
        return session.sql("COMMIT").scn

    return until_done(db, once)


def until_done(db: Any, work: Callable[[Any], Any]) -> Any:
    with db.session() as session:
        while True:
            try:
                return work(session)
            except midstream.Error as error:
                if error.sqlstate != "40001":
                    raise
                session.sql("ROLLBACK")


def pour(db: Any, step: int) -> Any:
    """Rows of the stream, one of which the query does not want."""
    values = ", ".join(f"({step}, {n})" for n in range(-1, POURED))
    return db.sql(f"INSERT INTO poured VALUES {values}").scn


def recompute(db: Any, step: int) -> Any:
    return db.sql("SELECT cq_recompute('batched')").fetchall()[0][0]


STEPS: dict[str, Step] = {
    "few": few,
    "pair": pair,
    "change": change,
    "transfer": transfer,
    "recompute": recompute,
    "pour": pour,
}
WEIGHTS = (6, 4, 2, 4, 2, 4)

if __name__ == "__main__":
    main()
