"""A process that feeds streams and reads windows over them until it is killed; see doomed.py.

One thread feeds, so rows come in the order of the steps; others read. Beside the steps there are lines of kind "read",
with the number of windows that a view had, and steps of kind "view", which make the view `seen_<step>`.
"""

from __future__ import annotations

import itertools
import random
from datetime import datetime, timedelta
from typing import Any

from doomed import Step, feeder, opened, read_arguments, run_together, tell

READERS = 2
ROWS = {"few": 3, "many": 150, "ticks": 4, "both": 2, "view": 0}
"""How many rows a step of each kind adds to each stream that it feeds."""
FEEDS = {"few": ("fed",), "many": ("fed",), "ticks": ("clocked",), "both": ("fed", "clocked"), "view": ()}
LATENESS = 20
SUMS = "window_start, window_end, count(*) AS rows, sum(n) AS n, max(step) AS newest"
WINDOWS = {
    "tumbling": f"SELECT {SUMS} FROM fed [WINDOW 30 ROWS]",
    "sliding": f"SELECT {SUMS} FROM fed [WINDOW 90 ROWS SLIDE 20 ROWS]",
    "growing": f"SELECT {SUMS} FROM fed [LANDMARK SLIDE 40 ROWS]",
    "plain": "SELECT window_start, window_end, step, n FROM fed [WINDOW 50 ROWS SLIDE 60 ROWS] WHERE n % 5 = 0",
    "ticking": (
        "SELECT window_start, window_end, n % 2 AS odd, count(*) AS rows, sum(step) AS steps "
        "FROM clocked [WINDOW 90 SECONDS SLIDE 30 SECONDS] GROUP BY n % 2"
    ),
    "resetting": f"SELECT {SUMS} FROM fed [LANDMARK SLIDE 20 ROWS RESET 80 ROWS]",
    "visits": "SELECT window_start, window_end, count(*) AS rows, sum(step) AS steps FROM clocked [SESSION 6 SECONDS]",
    "over": (
        "SELECT count(*) AS windows, sum(rows) AS rows, sum(n) AS n, max(newest) AS newest "
        "FROM v_tumbling [WINDOW 2 ROWS]"
    ),
    "joined": (
        "SELECT a.window_end AS ours, b.window_end AS theirs, a.n, count(*) AS pairs "
        "FROM fed [WINDOW 15 ROWS] a JOIN clocked [WINDOW 8 ROWS SLIDE 4 ROWS] b ON b.n = a.n GROUP BY a.n"
    ),
}
SEEN = WINDOWS["tumbling"]
"""What the views are that the children make."""


def main() -> None:
    arguments = read_arguments()
    db, numbers = opened(arguments), itertools.count(arguments.first)
    readers = [lambda seed=n: read(db, random.Random(arguments.seed + seed)) for n in range(READERS)]
    run_together([feeder(STEPS, WEIGHTS, db, arguments.seed, numbers), *readers])


def read(db: Any, chosen: random.Random) -> None:
    """A window that was read once must be there when the database is opened again."""
    with db.session() as session:
        while True:
            view = chosen.choice(list(WINDOWS))
            found = session.sql(f"SELECT count(*) FROM {named(view)} ALL WINDOWS").fetchall()
            tell("read", step=-1, view=view, rows=found[0][0])


def named(view: str) -> str:
    return f"v_{view}"


def time_of(step: int, n: int) -> datetime:
    """Out of order within a step, and now and then too late for its window."""
    late = 45 if step % 7 == 0 and n == 1 else 0
    return datetime(2024, 1, 1) + timedelta(seconds=4 * step + 9 * (n % 3) - late)


def insert_of(stream: str, kind: str, step: int) -> str:
    extra = (lambda n: f", '{time_of(step, n)}'") if stream == "clocked" else (lambda n: "")
    values = ", ".join(f"({step}, {n}{extra(n)})" for n in range(ROWS[kind]))
    return f"INSERT INTO {stream} VALUES {values}"


def fed_by(kind: str) -> Step:
    """One insert; or one for each of two streams, under one commit."""

    def work(db: Any, step: int) -> Any:
        inserts = [insert_of(stream, kind, step) for stream in FEEDS[kind]]
        if len(inserts) == 1:
            return db.sql(inserts[0]).scn
        with db.session() as session:
            session.sql("BEGIN; " + "; ".join(inserts))
            return session.sql("COMMIT").scn

    return work


def view(db: Any, step: int) -> Any:
    return db.sql(f"CREATE VIEW seen_{step} WITH (retain = 1000000) AS {SEEN}").scn


STEPS: dict[str, Step] = {kind: fed_by(kind) for kind in FEEDS if kind != "view"} | {"view": view}
WEIGHTS = (20, 3, 20, 6, 1)

if __name__ == "__main__":
    main()
