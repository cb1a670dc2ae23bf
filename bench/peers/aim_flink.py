"""AIM on Flink SQL: the aggregation by customer alone, which all six answers would be read from.

It is the part that benchmarks agree on, and kind to Flink: no answer is computed. Files come as CSV, because Flink's
Parquet reader is not in its Python package. The start of a job is measured with one small file and not counted. What
the aggregation holds is checked by the same query as a batch.
"""

from __future__ import annotations

import os
import time
from typing import Any

from pyflink.common import Configuration
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.version import __version__

from peers.aim_workload import Workload
from peers.running import answer_task

CORES = len(os.sched_getaffinity(0))
SETTINGS = {
    "parallelism.default": str(CORES),
    "pipeline.object-reuse": "true",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "50000",
    "taskmanager.numberOfTaskSlots": str(CORES),
    "rest.address": "127.0.0.1",
    "rest.bind-address": "127.0.0.1",
    "state.backend.type": "hashmap",
}
COLUMNS = """entity_id BIGINT, duration INT, cost DOUBLE, local_cost DOUBLE, long_distance_cost DOUBLE,
    long_distance BOOLEAN, local_calls INT, `week` INT, ts STRING"""
BY_CUSTOMER = """SELECT entity_id, sum(duration) AS dur, sum(local_calls) AS lcalls, max(cost) AS mx, count(*) AS n,
    sum(cost) AS cost, sum(CASE WHEN NOT long_distance THEN 1 ELSE 0 END) AS nl,
    sum(CASE WHEN NOT long_distance THEN duration ELSE 0 END) AS durl
    FROM events WHERE `week` = {week} GROUP BY entity_id"""
KEPT = "entity_id BIGINT, dur INT, lcalls INT, mx DOUBLE, n BIGINT, cost DOUBLE, nl INT, durl INT"
CHECK = "SELECT count(*), sum(dur), sum(lcalls), max(mx), sum(n), sum(nl), sum(durl) FROM ({kept}) AS st"


def work(task: dict[str, Any]) -> dict[str, Any]:
    workload = Workload(**task["workload"])
    files = [workload.warm, *workload.bulk]
    start = seconds_to_aggregate(workload, [workload.small[0]])
    start = min(start, seconds_to_aggregate(workload, [workload.small[0]]))
    taken = seconds_to_aggregate(workload, files)
    return {
        "bulk_events": len(files) * workload.events_per_file,
        "bulk_seconds": taken - start,
        "checks": [{"files": files, "answers": {"by customer": [check(workload, files)]}}],
        "version": __version__,
    }


def seconds_to_aggregate(workload: Workload, files: list[str]) -> float:
    environment = environment_over(workload, files, streaming=True)
    environment.execute_sql(f"CREATE TABLE kept ({KEPT}) WITH ('connector' = 'blackhole')")
    begin = time.perf_counter()
    environment.execute_sql(f"INSERT INTO kept {BY_CUSTOMER.format(week=workload.week)}").wait()
    return time.perf_counter() - begin


def check(workload: Workload, files: list[str]) -> list[Any]:
    environment = environment_over(workload, files, streaming=False)
    query = CHECK.format(kept=BY_CUSTOMER.format(week=workload.week))
    with environment.execute_sql(query).collect() as rows:
        return list(next(rows))


def environment_over(workload: Workload, files: list[str], streaming: bool) -> TableEnvironment:
    """Tables over links to the files, because Flink reads folders."""
    folder = os.path.join(os.path.dirname(workload.warm), f"flink_{os.getpid()}_{len(files)}")
    if not os.path.exists(folder):
        os.makedirs(folder)
        for number, file in enumerate(files):
            os.link(f"{os.path.splitext(file)[0]}.csv", f"{folder}/{number}.csv")
    configuration = Configuration()
    for name, value in SETTINGS.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().with_configuration(configuration)
    settings = settings.in_streaming_mode() if streaming else settings.in_batch_mode()
    environment = TableEnvironment.create(settings.build())
    environment.execute_sql(
        f"CREATE TABLE events ({COLUMNS}) WITH "
        f"('connector' = 'filesystem', 'path' = 'file://{folder}', 'format' = 'csv')"
    )
    return environment


if __name__ == "__main__":
    answer_task(work)
