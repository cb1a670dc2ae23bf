"""What the six answers must be: the queries as they stand, run by DuckDB over the files that a system has taken in."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb

from peers.aim_by_hand import PARTIAL_ST
from peers.aim_workload import Workload
from peers.answers import WrongAnswer, difference, rest_of

LIMIT = " LIMIT 100"
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
                wrong = self._wrong(rows, self.answer(query, tuple(point["files"])), LIMIT in self.queries[query])
                if wrong:
                    raise WrongAnswer(f"{query} after {len(point['files'])} files: {wrong}")

    def _wrong(self, rows: list[Any], whole: list[Any], is_limited: bool) -> str | None:
        """Of an answer that has reached its LIMIT, any hundred rows are right."""
        if is_limited and len(whole) > len(rows) == 100:
            strange = rest_of(rows, whole)
            return f"{len(strange)} of 100 rows are not in the answer, such as {strange[0]}" if strange else None
        return difference(rows, whole)

    def _answer(self, query: str, files: tuple[str, ...]) -> list[Any]:
        self.database.execute(f"CREATE OR REPLACE VIEW events AS FROM read_parquet({list(files)})")
        return self.database.execute(self.queries[query].removesuffix(LIMIT)).fetchall()
