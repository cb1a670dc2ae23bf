"""AIM on Midstream: a stream, a table, six continuous views, and nothing else."""

from __future__ import annotations

import os
from typing import Any

import pyarrow.parquet as pq

import midstream
from midstream.runtime.pipelines import PIPELINE
from peers.aim_load import under_load
from peers.aim_measuring import measure, read_all
from peers.aim_workload import CUSTOMERS, EVENTS, QUERIES, Workload
from peers.running import answer_task


class Midstream:
    """The bulk as one COPY of a folder, or as one of each file."""

    def __init__(self, one_copy: bool) -> None:
        self.one_copy = one_copy

    def open(self, workload: Workload) -> None:
        self.bulk = workload.bulk
        self.db = midstream.connect(os.path.join(os.path.dirname(workload.warm), f"aim_{os.getpid()}.db"))
        for kind, name, columns in (("STREAM", "events", EVENTS), ("TABLE", "customers", CUSTOMERS)):
            self.db.sql(f"CREATE {kind} {name} ({', '.join(f'{column} {what}' for column, what in columns.items())})")
        self.db.sql(f"COPY customers FROM '{workload.customers_file}' PARQUET")
        for name, query in QUERIES.items():
            self.db.sql(f"CREATE VIEW {name} AS {query.format(week='current_week()')}")

    def load(self, files: list[str]) -> None:
        together = self.one_copy and files == self.bulk
        for source in [f"{os.path.dirname(files[0])}/*.parquet"] if together else files:
            scn = self.db.sql(f"COPY events FROM '{source}' PARQUET").scn
        streams = self.db._store.streams
        for entry, _ in streams.readers_of(PIPELINE):
            streams.wait(entry.id, scn)

    def hold(self, file: str) -> object:
        return pq.read_table(file)

    def add(self, held: object) -> None:
        self.db.insert("events", held)

    def read(self, query: str) -> list[Any]:
        return self.db.sql(f"SELECT * FROM {query}").fetchall()


def work(task: dict[str, Any]) -> dict[str, Any]:
    system, workload = Midstream(task["mode"] == "one COPY"), Workload(**task["workload"])
    found = measure(system, task)
    files = list(found["checks"][-1]["files"])
    found["under_load"] = []
    for rate in task["rates"]:
        loaded, more = under_load(system.db, workload, rate, task["rate_seconds"])
        files.extend(more)
        found["under_load"].append(loaded)
        found["checks"].append({"files": list(files), "answers": read_all(system, workload)})
    system.db.close()
    return found


if __name__ == "__main__":
    answer_task(work)
