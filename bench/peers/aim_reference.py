"""What the six answers must be: the queries as they stand, run by DuckDB over the files that a system has taken in."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb

from peers.aim_by_hand import PARTIAL_ST
from peers.aim_workload import Workload
from peers.answers import WrongAnswer, difference

BY_CUSTOMER = "SELECT count(*), sum(dur), sum(lcalls), max(mx), sum(n), sum(nl), sum(durl) FROM ({kept}) AS st"


class Reference:
    def __init__(self, workload: Workload) -> None:
        self.queries = workload.queries()
        kept = PARTIAL_ST.format(source="events", week=workload.week)
        self.queries["by customer"] = BY_CUSTOMER.format(kept=kept)
        self.database = duckdb.connect()
        self.database.execute(f"CREATE VIEW customers AS FROM '{workload.customers_file}'")
        self.answer = cache(self._answer)

    def check(self, found: dict[str, Any]) -> None:
        """Every answer that a system gave, at every point where it was asked."""
        for point in found["checks"]:
            for query, rows in point["answers"].items():
                wrong = difference(rows, self.answer(query, tuple(point["files"])))
                if wrong:
                    raise WrongAnswer(f"{query} after {len(point['files'])} files: {wrong}")

    def _answer(self, query: str, files: tuple[str, ...]) -> list[Any]:
        self.database.execute(f"CREATE OR REPLACE VIEW events AS FROM read_parquet({list(files)})")
        rows = self.database.execute(self.queries[query]).fetchall()
        if query == "q3" and len(rows) == 100:
            raise SystemExit("q3 has reached its LIMIT, and any hundred rows would be right: use fewer events")
        return rows
