"""AIM on PostgreSQL, in two ways; batches come as CSV by COPY.

The split by hand is kept eagerly by upserts: a batch goes into a table that is not logged, from which the three states
are brought up to date in the same transaction. Or the events are stored, and six materialized views are refreshed when
they are read and events have come since.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

from peers.aim_by_hand import PARTIAL_S5, PARTIAL_S7, PARTIAL_ST, UPPER
from peers.aim_measuring import measure
from peers.aim_workload import CUSTOMERS, EVENTS, Workload, csv_of
from peers.postgres_server import start_server
from peers.running import answer_task

STATES = """
CREATE TABLE st (entity_id bigint PRIMARY KEY, dur bigint, lcalls bigint, mx double precision, n bigint,
    cost double precision, nl bigint, durl bigint) WITH (fillfactor = 50);
CREATE TABLE s5 (region_id int PRIMARY KEY, ldc double precision, lc double precision) WITH (fillfactor = 20);
CREATE TABLE s7 (one int PRIMARY KEY, cost double precision, dur bigint);
INSERT INTO s7 VALUES (0, 0, 0)"""
UPSERTS = (
    f"""INSERT INTO st {PARTIAL_ST} ORDER BY entity_id ON CONFLICT (entity_id) DO UPDATE SET
        dur = st.dur + excluded.dur, lcalls = st.lcalls + excluded.lcalls, mx = greatest(st.mx, excluded.mx),
        n = st.n + excluded.n, cost = st.cost + excluded.cost, nl = st.nl + excluded.nl,
        durl = st.durl + excluded.durl""",
    f"""INSERT INTO s5 {PARTIAL_S5} ON CONFLICT (region_id) DO UPDATE SET
        ldc = s5.ldc + excluded.ldc, lc = s5.lc + excluded.lc""",
    f"UPDATE s7 SET cost = s7.cost + p.cost, dur = s7.dur + p.dur FROM ({PARTIAL_S7}) AS p",
)


EVENTS_LISTED, CUSTOMERS_LISTED = (
    ", ".join(f"{name} {kind}" for name, kind in columns.items()) for columns in (EVENTS, CUSTOMERS)
)


class Postgres(ABC):
    """A server with the customers; what becomes of events is for those below to say."""

    def open(self, workload: Workload) -> None:
        self.connection = start_server(os.path.dirname(workload.warm))
        self.run(f"CREATE TABLE customers ({CUSTOMERS_LISTED})")
        self.run(f"COPY customers FROM '{csv_of(workload.customers_file)}' (FORMAT csv)")
        self.run("ANALYZE customers")
        for file in (workload.warm, *workload.bulk, *workload.small):
            csv_of(file)

    def load(self, files: list[str]) -> None:
        for file in files:
            self.add(csv_of(file))

    def hold(self, file: str) -> object:
        return csv_of(file)

    @abstractmethod
    def add(self, held: object) -> None: ...

    def run(self, statement: str) -> None:
        self.connection.execute(statement)


class Upserts(Postgres):
    def open(self, workload: Workload) -> None:
        super().open(workload)
        self.upserts = [upsert.format(source="batch", week=workload.week) for upsert in UPSERTS]
        self.run(f"CREATE UNLOGGED TABLE batch ({EVENTS_LISTED}); {STATES}")

    def add(self, held: object) -> None:
        with self.connection.transaction():
            self.run("TRUNCATE batch")
            self.run(f"COPY batch FROM '{held}' (FORMAT csv)")
            for upsert in self.upserts:
                self.run(upsert)

    def read(self, query: str) -> list[Any]:
        return self.connection.execute(UPPER[query]).fetchall()


class Refreshed(Postgres):
    """REFRESH MATERIALIZED VIEW runs the whole query again."""

    def open(self, workload: Workload) -> None:
        super().open(workload)
        self.run(f"CREATE TABLE events ({EVENTS_LISTED})")
        for name, query in workload.queries().items():
            self.run(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.stale: set[str] = set()

    def load(self, files: list[str]) -> None:
        super().load(files)
        self.run("VACUUM ANALYZE events")

    def add(self, held: object) -> None:
        self.run(f"COPY events FROM '{held}' (FORMAT csv)")
        self.stale = set(UPPER)

    def read(self, query: str) -> list[Any]:
        if query in self.stale:
            self.run(f"REFRESH MATERIALIZED VIEW {query}")
            self.stale.discard(query)
        return self.connection.execute(f"SELECT * FROM {query}").fetchall()


def work(task: dict[str, Any]) -> dict[str, Any]:
    system = Refreshed() if task["mode"] == "refresh" else Upserts()
    found = measure(system, task)
    version = system.connection.execute("SHOW server_version").fetchall()[0][0]
    return found | {"version": version.split()[0]}


if __name__ == "__main__":
    answer_task(work)
