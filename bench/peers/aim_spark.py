"""AIM on Spark Structured Streaming, by hand: one aggregation by customer that all six answers are read from.

`foreachBatch` gets the whole state after each micro-batch (output mode complete) and runs the six upper queries on it.
The bulk comes file by file, each a micro-batch, or all at once as one. A folder that is moved into place is one
micro-batch.
"""

from __future__ import annotations

import os
from typing import Any

from peers.aim_by_hand import UPPER
from peers.aim_measuring import measure
from peers.aim_workload import Workload
from peers.running import answer_task
from peers.spark_session import start_session

BY_CUSTOMER = {
    "dur": "sum(duration)",
    "lcalls": "sum(local_calls)",
    "mx": "max(cost)",
    "n": "count(*)",
    "cost": "sum(cost)",
    "nl": "sum(CASE WHEN NOT long_distance THEN 1 ELSE 0 END)",
    "durl": "sum(CASE WHEN NOT long_distance THEN duration ELSE 0 END)",
    "ldc": "sum(long_distance_cost)",
    "lc": "sum(local_cost)",
}
# The answers by region and by value type are read from the state of the customers too: one state is cheaper than three.
UPPER_OF_ONE = UPPER | {
    "q5": """SELECT region_id, sum(ldc) AS cost_long, sum(lc) AS cost_local FROM st AS e, customers AS c
        WHERE e.entity_id = c.id AND c.type = 2 AND c.category = 1 GROUP BY region_id""",
    "q7": """SELECT sum(cost) / sum(dur) AS ratio FROM st AS e, customers AS c
        WHERE e.entity_id = c.id AND c.value_type = 2""",
}
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE = {
    "rocksdb": {
        "spark_sql_streaming_stateStore_providerClass": ROCKSDB,
        "spark_sql_streaming_stateStore_rocksdb_changelogCheckpointing_enabled": "true",
        "spark_sql_streaming_stateStore_rocksdb_trackTotalNumberOfRows": "false",
    },
    "heap": {},
}


class Streaming:
    def __init__(self, one_batch: bool, state: str) -> None:
        self.one_batch, self.state, self.batches = one_batch, state, 0
        self.answers: dict[str, list[Any]] = {}

    def open(self, workload: Workload) -> None:
        from pyspark.sql.functions import expr

        self.folder = os.path.join(os.path.dirname(workload.warm), f"streaming_{os.getpid()}")
        os.makedirs(f"{self.folder}/in")
        self.spark = start_session(
            self.folder,
            spark_sql_streaming_noDataMicroBatches_enabled="false",
            spark_sql_streaming_minBatchesToRetain="2",
            **STATE[self.state],
        )
        customers = self.spark.read.parquet(workload.customers_file).cache()
        customers.count()
        customers.createOrReplaceTempView("customers")
        events = self.spark.readStream.schema(self.spark.read.parquet(workload.warm).schema)
        aggregates = [expr(how).alias(name) for name, how in BY_CUSTOMER.items()]
        states = events.parquet(f"{self.folder}/in/*").where(f"week = {workload.week}").groupBy("entity_id")
        writing = states.agg(*aggregates).writeStream.outputMode("complete").foreachBatch(self.read_upper)
        self.query = writing.option("checkpointLocation", f"{self.folder}/checkpoint").start()

    def read_upper(self, state: Any, _: int) -> None:
        state = state.persist()
        state.createOrReplaceTempView("st")
        self.answers = {name: state.sparkSession.sql(query).collect() for name, query in UPPER_OF_ONE.items()}
        state.unpersist()

    def load(self, files: list[str]) -> None:
        for batch in [files] if self.one_batch else [[file] for file in files]:
            self.add(batch)

    def hold(self, file: str) -> object:
        return [file]

    def add(self, held: Any) -> None:
        coming = f"{self.folder}/coming"
        os.makedirs(coming)
        for file in held:
            os.link(file, os.path.join(coming, os.path.basename(file)))
        os.rename(coming, f"{self.folder}/in/{self.batches:05d}")
        self.batches += 1
        self.query.processAllAvailable()

    def read(self, query: str) -> list[Any]:
        return self.answers[query]


def work(task: dict[str, Any]) -> dict[str, Any]:
    system = Streaming(task["mode"] == "one batch", task.get("state", "heap"))
    # Answers are pushed after each micro-batch; there is nothing to read.
    return measure(system, task) | {"version": system.spark.version, "reads_per_second": None}


if __name__ == "__main__":
    answer_task(work)
