"""What the AIM workload is to reach, as ratios of what was found.

Times of inserts are seconds for a million events, so that systems that took in less can be compared.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from typing import Any

from report import Finding

from peers.aim_systems import CLICKHOUSE, FLINK, OURS, SPARK, SPLIT

Found = dict[str, Any]


def rate(one: Found) -> float:
    return 1e6 / statistics.median(one["seconds_per_million"])


def refresh(one: Found) -> float:
    return statistics.median(one["refresh_seconds"])


def findings(by_size: dict[int, dict[str, Found]], quick: bool) -> Iterator[Finding]:
    """What is to be reached is said for 1 M customers; a quick run shows the same ratios for what it has."""
    for customers, found in by_size.items():
        if OURS.name not in found or (customers != 1_000_000 and not quick and len(by_size) > 1):
            continue
        ours = found[OURS.name]
        yield from inserts(ours, found)
        yield from freshness(ours, found)
        yield from reads(ours)
        yield from loads(ours)
    yield from growth(by_size)


def inserts(ours: Found, found: dict[str, Found]) -> Iterator[Finding]:
    """Seconds for a million events; for Spark, the better way of the two."""
    spark = [found[system.name] for system in SPARK if system.name in found]
    best = min(spark, key=lambda one: statistics.median(one["seconds_per_million"]), default=None)
    peers = (
        (found.get(SPLIT.name), "DuckDB's split by hand in one pass", 2.0, "at least half as fast"),
        (found.get(CLICKHOUSE.name), "ClickHouse's views", 1 / 3, "3 times as fast"),
        (best, "the best Structured Streaming", 1 / 15, "15 times as fast"),
        (found.get(FLINK.name), "Flink's aggregation by customer", 1 / 20, "20 times as fast"),
    )
    for theirs, against, limit, note in peers:
        if theirs:
            taken = ours["seconds_per_million"], theirs["seconds_per_million"]
            yield Finding("1 M events in, absorbed", *taken, limit, against, rows=1_000_000, note=note)


def freshness(ours: Found, found: dict[str, Found]) -> Iterator[Finding]:
    spark = [found[system.name] for system in SPARK if system.name in found]
    peers = (
        (found.get(SPLIT.name), "DuckDB's split by hand", 1.5),
        (min(spark, key=refresh, default=None), "the best Structured Streaming", 0.15),
    )
    for theirs, against, limit in peers:
        if theirs:
            taken = ours["refresh_seconds"], theirs["refresh_seconds"]
            yield Finding("six fresh after 10,000 more", *taken, limit, against, rows=10_000)


def reads(ours: Found) -> Iterator[Finding]:
    note = f"{ours['reads_per_second']:,.0f} reads/s, one thread"
    yield Finding(
        "a read with nothing new", [1 / ours["reads_per_second"]], [1 / 2000], 1.0, "2,000 reads/s", note=note
    )


def loads(ours: Found) -> Iterator[Finding]:
    for load in ours.get("under_load", []):
        what = f"{load['rate']:,} events/s"
        reads = f"{load['fresh_reads']:,} fresh of {load['reads']:,} reads by six readers"
        note = f"median {load['p50_seconds'] * 1000:,.0f} ms; {reads}"
        yield Finding(f"{what}: 95 % of fresh reads", [load["p95_seconds"]], [1.5], 1.0, "1.5 s", note=note)
        planned = load["seconds"] - load["behind_seconds"]
        note = f"{load['behind_seconds']:.2f} s late at the end"
        yield Finding(f"{what}: inserts keep up", [load["seconds"]], [planned], 1.05, "the plan", note=note)
        memory = [load["memory_after_mb"]], [load["memory_before_mb"]]
        note = f"all processes, over {load['seconds']:,.0f} s"
        yield Finding(f"{what}: memory is flat", *memory, 1.1, "after a quarter", note=note, unit="MB")


def growth(by_size: dict[int, dict[str, Found]]) -> Iterator[Finding]:
    """Ten times the customers may cost ten times as much, no more."""
    sizes = sorted(size for size, found in by_size.items() if OURS.name in found)
    for small, large in zip(sizes, sizes[1:], strict=False):
        fewer, more = by_size[small][OURS.name], by_size[large][OURS.name]
        what, against = f"six fresh with {large:,} customers", f"with {small:,}"
        yield Finding(what, more["refresh_seconds"], fewer["refresh_seconds"], large / small, against)
    if 10_000_000 in sizes:
        peak = by_size[10_000_000][OURS.name]["peak_mb"]
        yield Finding("memory with 10,000,000 customers", [peak], [12 * 1024], 1.0, "12 GiB", unit="MB")
