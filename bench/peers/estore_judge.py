"""DuckDB alone, with the same tables: it knows what every change does to a query, by running it again.

judge.begin()                        # as the query is now
judge.take(change)                   # adds to what has to be handed out, and says how long that took
judge.check(found, "q16")            # all that was handed out since the beginning
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from peers.answers import WrongAnswer, difference
from peers.estore_sizes import LINES
from peers.estore_workload import BOUGHT, PLAIN, SPENT, TABLES, Change, Insert, make, over

CORES = len(os.sched_getaffinity(0))
DIFFERENCE = """SELECT itemid, oid, name, CASE WHEN sum(sign) > 0 THEN 'I' ELSE 'D' END AS kind, abs(sum(sign)) AS n
    FROM (SELECT *, 1 AS sign FROM now_bought UNION ALL SELECT *, -1 FROM bought)
    GROUP BY itemid, oid, name HAVING sum(sign) <> 0"""
DIFFERS = """SELECT itemid, oid, name, kind, sum(n) AS n FROM (
    SELECT *, 1 AS n FROM found UNION ALL SELECT itemid, oid, name, kind, -n FROM expected)
    GROUP BY itemid, oid, name, kind HAVING sum(n) <> 0"""


class Judge:
    def __init__(self, users: int, orders: int, ids: str) -> None:
        self._database = duckdb.connect(config={"threads": CORES})
        for table, rows in zip(TABLES, (users, orders, orders * LINES), strict=True):
            self._database.execute(f"CREATE TABLE {table} AS {make(table, ids, 0, rows, users)}")
        self._age = 18

    def rows(self, query: str) -> pa.Table:
        return self._database.sql(query).to_arrow_table()

    def files(self, folder: Path) -> dict[str, Path]:
        """The tables, for others to copy."""
        paths = {table: folder / f"{table}.parquet" for table in TABLES}
        for table, path in paths.items():
            self._database.execute(f"COPY {table} TO '{path}' (FORMAT parquet)")
        return paths

    def begin(self, age: int = 18) -> None:
        self._age = age
        self._database.execute(f"CREATE OR REPLACE TABLE bought AS {over(BOUGHT, age=age)}")
        self._database.execute(f"CREATE OR REPLACE TABLE expected AS {DIFFERENCE.replace('now_bought', 'bought')}")

    def take(self, *changes: Change) -> float:
        """Seconds to run the query again and to compare, after all of the changes as one."""
        self.apply(changes)
        started = time.perf_counter()
        self._database.execute(f"CREATE OR REPLACE TABLE now_bought AS {over(BOUGHT, age=self._age)}")
        self._database.execute(f"INSERT INTO expected {DIFFERENCE}")
        seconds = time.perf_counter() - started
        self._database.execute("DROP TABLE bought")
        self._database.execute("ALTER TABLE now_bought RENAME TO bought")
        return seconds

    def apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._apply(change)

    def check(self, found: pa.Table, who: str) -> None:
        wrong = self._database.register("found", found).execute(DIFFERS).fetchall()
        self._database.unregister("found")
        if wrong:
            raise WrongAnswer(f"{who}: {len(wrong):,} rows too often or too seldom, such as {wrong[:3]}")

    def close(self) -> None:
        self._database.close()

    def check_new(self, found: pa.Table, times: tuple[object, object], ages: Sequence[int], who: str) -> None:
        """What several queries handed out while the orders between two times came, and nothing else did; each with its
        own age, and its place in the list in front of the name."""
        listed = ", ".join(f"({place}, {age})" for place, age in enumerate(ages))
        new = over(BOUGHT, more=", 'I' AS kind, 1 AS n, u.age", age=max(ages))
        self._database.execute(
            f"""CREATE OR REPLACE TABLE expected AS SELECT itemid, oid, place || ' ' || name AS name, kind, n
            FROM ({new} AND o.time BETWEEN '{times[0]}' AND '{times[1]}') AS bought
            JOIN (VALUES {listed}) AS queries (place, under) ON age < under"""
        )
        self.check(found, who)

    def check_spent(self, found: Sequence[Sequence[object]], who: str) -> None:
        wrong = difference(found, self._database.execute(over(SPENT)).fetchall())
        if wrong:
            raise WrongAnswer(f"{who}: {wrong}")

    def _apply(self, change: Change) -> None:
        for step in change.of(PLAIN):
            if isinstance(step, Insert):
                self._database.register("more", step.rows).execute(f"INSERT INTO {step.table} FROM more")
                self._database.unregister("more")
            else:
                self._database.execute(over(step.sql))
