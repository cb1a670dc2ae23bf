"""AIM on ClickHouse (chdb, in process, on disk): materialized views into AggregatingMergeTree tables.

The events themselves are not kept (engine Null). Customers are looked up in a dictionary, which is the fast way there.
"""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any

import chdb
from chdb.session import Session

from peers.aim_by_hand import UPPER
from peers.aim_measuring import measure
from peers.aim_workload import EVENTS, Workload
from peers.running import answer_task

TYPES = {
    "bigint": "Int64",
    "int": "Int32",
    "double precision": "Float64",
    "boolean": "Bool",
    "timestamp": "DateTime64(6)",
}
CUSTOMER = "id UInt64, city_zip Int32, region_id Int32, type Int32, category Int32, value_type Int32"
STATES = {
    "kept": """entity_id Int64, dur SimpleAggregateFunction(sum, Int64), lcalls SimpleAggregateFunction(sum, Int64),
        mx SimpleAggregateFunction(max, Float64), n SimpleAggregateFunction(sum, UInt64),
        cost SimpleAggregateFunction(sum, Float64), nl SimpleAggregateFunction(sum, UInt64),
        durl SimpleAggregateFunction(sum, Int64)""",
    "s5": """region_id Int32, ldc SimpleAggregateFunction(sum, Float64), lc SimpleAggregateFunction(sum, Float64)""",
    "s7": """one Int32, cost SimpleAggregateFunction(sum, Float64), dur SimpleAggregateFunction(sum, Int64)""",
}
VIEWS = {
    "kept": """SELECT entity_id, sum(duration) AS dur, sum(local_calls) AS lcalls, max(events.cost) AS mx,
        count() AS n, sum(events.cost) AS cost, countIf(NOT long_distance) AS nl,
        sumIf(duration, NOT long_distance) AS durl FROM aim.events WHERE week = {week} GROUP BY entity_id""",
    "s5": """SELECT dictGet('aim.customer', 'region_id', toUInt64(entity_id)) AS region_id,
        sum(long_distance_cost) AS ldc, sum(local_cost) AS lc FROM aim.events
        WHERE week = {week} AND dictGet('aim.customer', 'type', toUInt64(entity_id)) = 2
        AND dictGet('aim.customer', 'category', toUInt64(entity_id)) = 1 GROUP BY region_id""",
    "s7": """SELECT 0 AS one, sum(events.cost) AS cost, sum(duration) AS dur FROM aim.events
        WHERE week = {week} AND dictGet('aim.customer', 'value_type', toUInt64(entity_id)) = 2""",
}
ST = """(SELECT entity_id, sum(dur) AS dur, sum(lcalls) AS lcalls, max(mx) AS mx, sum(n) AS n, sum(cost) AS cost,
    sum(nl) AS nl, sum(durl) AS durl FROM aim.kept GROUP BY entity_id)"""
READS = {
    **{query: UPPER[query].replace("FROM st", f"FROM {ST} AS st") for query in ("q1", "q2", "q3")},
    "q4": f"""SELECT dictGet('aim.customer', 'city_zip', toUInt64(entity_id)) AS city_zip, avg(nl), sum(durl)
        FROM {ST} AS st WHERE nl > 4 AND durl > 25 GROUP BY city_zip""",
    "q5": UPPER["q5"].replace("FROM s5", "FROM aim.s5"),
    "q7": UPPER["q7"].replace("FROM s7", "FROM aim.s7"),
}
CORES = len(os.sched_getaffinity(0))


class ClickHouse:
    def open(self, workload: Workload) -> None:
        self.session = Session(tempfile.mkdtemp(prefix="clickhouse_", dir=os.path.dirname(workload.warm)))
        columns = ", ".join(f"{name} {TYPES[kind]}" for name, kind in EVENTS.items())
        for statement in (
            "CREATE DATABASE aim",
            f"CREATE TABLE aim.customers ({CUSTOMER}) ENGINE = MergeTree ORDER BY id",
            f"INSERT INTO aim.customers SELECT * FROM file('{workload.customers_file}', Parquet)",
            f"""CREATE DICTIONARY aim.customer ({CUSTOMER}) PRIMARY KEY id
                SOURCE(CLICKHOUSE(DB 'aim' TABLE 'customers'))
                LAYOUT(FLAT(MAX_ARRAY_SIZE {workload.customers})) LIFETIME(0)""",
            f"CREATE TABLE aim.events ({columns}) ENGINE = Null",
        ):
            self.session.query(statement)
        for state, kept in STATES.items():
            key = kept.split()[0]
            self.session.query(f"CREATE TABLE aim.{state} ({kept}) ENGINE = AggregatingMergeTree ORDER BY {key}")
            query = VIEWS[state].format(week=workload.week)
            self.session.query(f"CREATE MATERIALIZED VIEW aim.to_{state} TO aim.{state} AS {query}")

    def load(self, files: list[str]) -> None:
        """One statement for all of them, which lie in one folder."""
        names = ",".join(os.path.basename(file) for file in files)
        self.add(f"{os.path.dirname(files[0])}/{{{names}}}" if len(files) > 1 else files[0])

    def hold(self, file: str) -> object:
        return file

    def add(self, held: object) -> None:
        settings = f"SETTINGS max_threads = {CORES}, max_insert_threads = {CORES}"
        self.session.query(f"INSERT INTO aim.events SELECT * FROM file('{held}', Parquet) {settings}")

    def read(self, query: str) -> list[Any]:
        settings = f"SETTINGS max_threads = {CORES}, output_format_json_quote_64bit_integers = 0"
        return json.loads(self.session.query(f"{READS[query]} {settings}", "JSONCompact").bytes())["data"]


if __name__ == "__main__":
    answer_task(lambda task: measure(ClickHouse(), task) | {"version": chdb.__version__})
