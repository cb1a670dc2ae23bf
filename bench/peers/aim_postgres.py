"""AIM on PostgreSQL: the split by hand, kept eagerly by upserts, one transaction a batch.

Batches come as CSV by COPY into a table that is not logged, from which the three states are brought up to date.
"""

from __future__ import annotations

import os
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


class Postgres:
    def open(self, workload: Workload) -> None:
        self.connection = start_server(os.path.dirname(workload.warm))
        self.upserts = [upsert.format(source="batch", week=workload.week) for upsert in UPSERTS]
        events, customers = (
            ", ".join(f"{name} {kind}" for name, kind in columns.items()) for columns in (EVENTS, CUSTOMERS)
        )
        self.run(f"CREATE UNLOGGED TABLE batch ({events}); CREATE TABLE customers ({customers}); {STATES}")
        self.run(f"COPY customers FROM '{csv_of(workload.customers_file)}' (FORMAT csv)")
        self.run("ANALYZE customers")
        for file in (workload.warm, *workload.bulk, *workload.small):
            csv_of(file)

    def load(self, files: list[str]) -> None:
        for file in files:
            self.add(csv_of(file))

    def hold(self, file: str) -> object:
        return csv_of(file)

    def add(self, held: object) -> None:
        with self.connection.transaction():
            self.run("TRUNCATE batch")
            self.run(f"COPY batch FROM '{held}' (FORMAT csv)")
            for upsert in self.upserts:
                self.run(upsert)

    def read(self, query: str) -> list[Any]:
        return self.connection.execute(UPPER[query]).fetchall()

    def run(self, statement: str) -> None:
        self.connection.execute(statement)


def work(task: dict[str, Any]) -> dict[str, Any]:
    system = Postgres()
    found = measure(system, task)
    version = system.connection.execute("SHOW server_version").fetchall()[0][0]
    return found | {"version": version.split()[0]}


if __name__ == "__main__":
    answer_task(work)
