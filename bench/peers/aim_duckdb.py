"""AIM on DuckDB, in memory: the split written by hand, and the twin that stores the events and asks again.

Small partials lie beside the merged state of the customers and are merged when they are read, and into it when they
have become many. Nothing is durable, nothing is concurrent: this is how fast the kernel itself can be.
"""

from __future__ import annotations

import os
from typing import Any

import duckdb

from peers.aim_by_hand import PARTIAL_S5, PARTIAL_S7, PARTIAL_ST, UPPER
from peers.aim_measuring import AimSystem, measure
from peers.aim_workload import Workload
from peers.running import answer_task

CORES = len(os.sched_getaffinity(0))
MERGED_ST = """SELECT entity_id, sum(dur) AS dur, sum(lcalls) AS lcalls, max(mx) AS mx, sum(n) AS n,
    sum(cost) AS cost, sum(nl) AS nl, sum(durl) AS durl FROM (FROM merged UNION ALL FROM partials) GROUP BY entity_id"""
MERGED = {
    "merged": MERGED_ST,
    "s5": "SELECT region_id, sum(ldc) AS ldc, sum(lc) AS lc FROM s5 GROUP BY region_id",
    "s7": "SELECT sum(cost) AS cost, sum(dur) AS dur FROM s7",
}
PARTIALS = {"partials": PARTIAL_ST, "s5": PARTIAL_S5, "s7": PARTIAL_S7}


class Split:
    """The split by hand: the bulk as one pass over all files, or file by file."""

    def __init__(self, one_pass: bool) -> None:
        self.one_pass = one_pass

    def open(self, workload: Workload) -> None:
        self.week = workload.week
        self.many_partials = max(250_000, workload.customers * 3)
        self.database = duckdb.connect(config={"threads": CORES, "preserve_insertion_order": False})
        self.database.execute(f"CREATE TABLE customers AS FROM '{workload.customers_file}'")
        for state, query in PARTIALS.items():
            self.database.execute(f"CREATE TABLE {state} AS {self.partial(query, repr(workload.warm))} LIMIT 0")
        self.database.execute("CREATE TABLE merged AS FROM partials")
        self.database.execute(f"CREATE VIEW st AS {MERGED_ST}")

    def load(self, files: list[str]) -> None:
        if self.one_pass:
            self.absorb(f"read_parquet({files})")
        else:
            for file in files:
                self.database.execute(f"CREATE OR REPLACE TEMP TABLE batch AS FROM '{file}'")
                self.absorb("batch")
                self.merge_if_many(self.many_partials)
        self.merge()

    def hold(self, file: str) -> object:
        return self.database.sql(f"FROM '{file}'").to_arrow_table()

    def add(self, held: object) -> None:
        self.database.register("held", held)
        self.database.execute("CREATE OR REPLACE TEMP TABLE batch AS FROM held")
        self.absorb("batch")
        self.merge_if_many(250_000)

    def absorb(self, source: str) -> None:
        for state, query in PARTIALS.items():
            self.database.execute(f"INSERT INTO {state} {self.partial(query, source)}")

    def merge_if_many(self, many: int) -> None:
        if self.database.execute("SELECT count(*) FROM partials").fetchall()[0][0] > many:
            self.merge()

    def merge(self) -> None:
        for state, query in MERGED.items():
            self.database.execute(f"CREATE TABLE merging AS {query}")
            self.database.execute(f"TRUNCATE {state}")
            self.database.execute(f"INSERT INTO {state} FROM merging")
            self.database.execute("DROP TABLE merging")
        self.database.execute("TRUNCATE partials")

    def read(self, query: str) -> list[Any]:
        return self.database.execute(UPPER[query]).fetchall()

    def partial(self, query: str, source: str) -> str:
        return query.format(source=source, week=self.week)


class Stored:
    """All events in a table; every read runs the query again."""

    def open(self, workload: Workload) -> None:
        self.queries = workload.queries()
        self.database = duckdb.connect(config={"threads": CORES, "preserve_insertion_order": False})
        self.database.execute(f"CREATE TABLE customers AS FROM '{workload.customers_file}'")
        self.database.execute(f"CREATE TABLE events AS FROM '{workload.warm}' LIMIT 0")

    def load(self, files: list[str]) -> None:
        self.database.execute(f"INSERT INTO events FROM read_parquet({files})")

    def hold(self, file: str) -> object:
        return self.database.sql(f"FROM '{file}'").to_arrow_table()

    def add(self, held: object) -> None:
        self.database.register("held", held)
        self.database.execute("INSERT INTO events FROM held")

    def read(self, query: str) -> list[Any]:
        return self.database.execute(self.queries[query]).fetchall()


SYSTEMS: dict[str, AimSystem] = {"one pass": Split(True), "batches": Split(False), "stored": Stored()}

if __name__ == "__main__":
    answer_task(lambda task: measure(SYSTEMS[task["mode"]], task) | {"version": duckdb.__version__})
