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
    FLINK,
)
