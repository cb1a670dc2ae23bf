"""The AIM workload: calls of customers, six questions about this week's, and how much of everything.

Section 4.1 of "Meet Me Halfway: Split Maintenance of Continuous Views", with the parameters that its Table 2 names for
the evaluation. One event in twenty is of last week, so that the predicate on the week has something to do.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

EVENTS = {
    "entity_id": "bigint",
    "duration": "int",
    "cost": "double precision",
    "local_cost": "double precision",
    "long_distance_cost": "double precision",
    "long_distance": "boolean",
    "local_calls": "int",
    "week": "int",
    "ts": "timestamp",
}
CUSTOMERS = {
    "id": "bigint PRIMARY KEY",
    "city_zip": "int",
    "region_id": "int",
    "type": "int",
    "category": "int",
    "value_type": "int",
}

# {week} is current_week() for Midstream and the week itself for the peers, who need not turn it over.
QUERIES = {
    "q1": """SELECT avg(t_duration) AS average FROM (
        SELECT sum(duration) AS t_duration FROM events WHERE week = {week}
        GROUP BY entity_id HAVING sum(local_calls) > 2) AS e""",
    "q2": """SELECT max(max_cost) AS most FROM (
        SELECT max(cost) AS max_cost FROM events WHERE week = {week}
        GROUP BY entity_id HAVING count(*) > 2) AS e""",
    "q3": """SELECT sum(t_cost) / sum(t_duration) AS cost_ratio FROM (
        SELECT sum(cost) AS t_cost, sum(duration) AS t_duration, count(*) AS num_calls FROM events
        WHERE week = {week} GROUP BY entity_id) AS e GROUP BY num_calls LIMIT 100""",
    "q4": """SELECT city_zip, avg(num_calls) AS calls, sum(duration_calls) AS duration FROM (
        SELECT entity_id, count(*) AS num_calls, sum(duration) AS duration_calls FROM events
        WHERE NOT long_distance AND week = {week}
        GROUP BY entity_id HAVING count(*) > 4 AND sum(duration) > 25) AS e, customers AS c
        WHERE e.entity_id = c.id GROUP BY city_zip""",
    "q5": """SELECT c.region_id, sum(long_distance_cost) AS cost_long, sum(local_cost) AS cost_local
        FROM events AS e, customers AS c
        WHERE e.entity_id = c.id AND week = {week} AND c.type = 2 AND c.category = 1 GROUP BY c.region_id""",
    "q7": """SELECT sum(cost) / sum(duration) AS ratio FROM events AS e, customers AS c
        WHERE e.entity_id = c.id AND week = {week} AND c.value_type = 2""",
}

MAKE_EVENTS = """
SELECT entity_id, duration, local_cost + long_distance_cost AS cost, local_cost, long_distance_cost, long_distance,
    CAST(NOT long_distance AS INTEGER) AS local_calls, week, ts
FROM (
    SELECT *, CASE WHEN long_distance THEN 0.0 ELSE round(duration * 0.1 * rate, 2) END AS local_cost,
        CASE WHEN long_distance THEN round(duration * 0.5 * rate, 2) ELSE 0.0 END AS long_distance_cost
    FROM (
        SELECT CAST(hash(i) % {customers} AS BIGINT) AS entity_id, CAST(1 + hash(i, 1) % 20 AS INTEGER) AS duration,
            hash(i, 2) % 10 < 3 AS long_distance, CAST(0.5 + hash(i, 3) % 1000 / 1000.0 AS DOUBLE) AS rate,
            CAST(CASE WHEN hash(i, 4) % 20 = 0 THEN {last_week} ELSE {week} END AS INTEGER) AS week,
            TIMESTAMP '{monday}' + to_milliseconds(i) AS ts
        FROM range({first}, {last}) AS numbers (i)))"""
MAKE_CUSTOMERS = """
SELECT i AS id, CAST(i * 7919 % 1000 AS INTEGER) AS city_zip, CAST(i * 7919 % 100 AS INTEGER) AS region_id,
    CAST(hash(i, 5) % 4 AS INTEGER) AS type, CAST(hash(i, 6) % 3 AS INTEGER) AS category,
    CAST(hash(i, 7) % 4 AS INTEGER) AS value_type
FROM range({customers}) AS numbers (i)"""


@dataclass(frozen=True)
class Workload:
    """The files: one to warm up with, the bulk, and small ones of 10,000 events; as CSV too for those who need it."""

    customers: int
    week: int
    customers_file: str
    warm: str
    bulk: list[str]
    small: list[str]
    events_per_file: int

    def queries(self) -> dict[str, str]:
        """The six, with this week written out."""
        return {name: query.format(week=self.week) for name, query in QUERIES.items()}

    def as_task(self) -> dict[str, Any]:
        return asdict(self)


def make_workload(folder: Path, customers: int, files: int, events_per_file: int, small_files: int) -> Workload:
    """Parquet files made by DuckDB, the same for the same numbers but for the week."""
    import duckdb

    today = datetime.now(timezone.utc)
    monday = (today - timedelta(days=today.weekday())).date()
    made = duckdb.connect()
    first = 0

    def write(name: str, query: str) -> str:
        path = str(folder / f"{name}.parquet")
        made.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 131072)")
        return path

    def events(name: str, rows: int) -> str:
        nonlocal first
        numbers = {"customers": customers, "first": first, "last": first + rows, "monday": monday}
        weeks = {"week": iso_week(today), "last_week": iso_week(today - timedelta(days=7))}
        first += rows
        return write(name, MAKE_EVENTS.format(**numbers, **weeks))

    (folder / "bulk").mkdir(parents=True)
    return Workload(
        customers,
        iso_week(today),
        write("customers", MAKE_CUSTOMERS.format(customers=customers)),
        events("warm", events_per_file),
        [events(f"bulk/{number:03d}", events_per_file) for number in range(files)],
        [events(f"small-{number:03d}", 10_000) for number in range(small_files)],
        events_per_file,
    )


def iso_week(moment: datetime) -> int:
    year, week, _ = moment.isocalendar()
    return year * 100 + week


def csv_of(path: str) -> str:
    """The same rows as CSV beside the Parquet, made when first asked for."""
    import duckdb

    csv = Path(path).with_suffix(".csv")
    if not csv.exists():
        duckdb.connect().execute(f"COPY (FROM '{path}') TO '{csv}' (FORMAT csv, HEADER false)")
    return str(csv)
