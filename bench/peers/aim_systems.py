"""The systems of the AIM workload: which module each is, in which mode, and what it needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """One row of the table."""

    name: str
    module: str
    mode: str = ""
    packages: tuple[str, ...] = ()
    """What its own environment needs; none: it runs in ours."""
    most_events: int | None = None
    """A slow system takes in less of the bulk; its rate is the same."""
    most_refreshes: int | None = None
    """One that takes long to be fresh again is asked less often."""
    by_turns: bool = False
    """Measured several times, by turns with the others of this kind."""
    in_quick: bool = True
    from_csv: bool = False

    @property
    def short(self) -> str:
        return self.module.removeprefix("aim_")


OURS = System("Midstream, one COPY", "aim_midstream", "one COPY", by_turns=True)
SPLIT = System("DuckDB, split by hand, one pass", "aim_duckdb", "one pass", by_turns=True)
CLICKHOUSE = System("ClickHouse, AggregatingMergeTree", "aim_clickhouse", packages=("chdb==4.4.0", "pyarrow"))
SPARK = (
    System("Spark Structured Streaming, one batch", "aim_spark", "one batch", most_events=20_000_000),
    System("Spark Structured Streaming, a batch a file", "aim_spark", "batches", most_events=4_000_000, in_quick=False),
)
FLINK = System(
    "Flink SQL, aggregation by customer only",
    "aim_flink",
    packages=("apache-flink==2.3.0",),
    most_events=4_000_000,
    in_quick=False,
    from_csv=True,
)
SYSTEMS = (
    OURS,
    SPLIT,
    System("Midstream, a COPY a file", "aim_midstream", "batches"),
    System("DuckDB, split by hand, batches", "aim_duckdb", "batches"),
    System("DuckDB, events stored, queries again", "aim_duckdb", "stored"),
    CLICKHOUSE,
    *SPARK,
    System("PostgreSQL, eager upserts", "aim_postgres", most_events=4_000_000, in_quick=False),
    System(
        "PostgreSQL, REFRESH MATERIALIZED VIEW",
        "aim_postgres",
        "refresh",
        most_events=4_000_000,
        most_refreshes=3,
        in_quick=False,
    ),
    FLINK,
)
LEFT_OUT = {
    "Spark Structured Streaming, one query a view": "it reads the events six times for the answers of the two above: "
    "27,000 events/s when it was measured once",
    "Flink SQL, all six views": "24,000 to 40,000 events/s when it was measured once, its start included; the "
    "aggregation above is the part of it that does best",
    "Pathway and Bytewax": "they have no SQL; with an aggregation by customer written in Python they took in 136,000 "
    "and 53,000 events/s when they were measured once",
}
"""Systems that people compare with and that are not run, and why."""
