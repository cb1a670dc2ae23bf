"""Events at a steady rate while six readers read without pause, one reader a view.

A read counts as fresh when rows were acknowledged since its reader's last read began; the others find nothing new and
take no time, and would only hide the fresh ones.

Ten inserts a second carry the rate. An insert that is late is made at once, so that a system that cannot keep up falls
behind, and how far is told.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from peers.aim_workload import QUERIES, Workload
from peers.memory import resident_mb, tree_mb

INSERTS_PER_SECOND = 10


def under_load(db: Any, workload: Workload, rate: int, for_seconds: float) -> tuple[dict[str, Any], list[str]]:
    """What was seen, and the files that hold the rows that went in."""
    load, feed = Load(db, threading.Event()), Feed(workload.bulk[0])
    readers = [threading.Thread(target=load.read_on, args=(view,)) for view in QUERIES]
    watch = threading.Thread(target=load.watch_memory)
    load.insert(feed, rate)  # so that every reader's first read has something new to find
    for thread in (*readers, watch):
        thread.start()
    try:
        behind, took = load.insert_on(feed, rate, for_seconds)
    finally:
        load.over.set()
        for thread in (*readers, watch):
            thread.join()
    if load.errors:
        raise load.errors[0]
    return load.summary(rate, took, behind) | {"inserted": feed.given}, feed.files_of_given()


class Feed:
    """Rows of one file, over and over."""

    def __init__(self, file: str) -> None:
        self.file, self.rows, self.given = file, pq.read_table(file).combine_chunks(), 0

    def next(self, count: int) -> pa.Table:
        at = self.given % self.rows.num_rows
        self.given += count
        first = self.rows.slice(at, count)
        return pa.concat_tables([first, self.rows.slice(0, count - first.num_rows)])

    def files_of_given(self) -> list[str]:
        rounds, rest = divmod(self.given, self.rows.num_rows)
        path = f"{os.path.splitext(self.file)[0]}-{os.getpid()}-{self.given}.part"
        pq.write_table(self.rows.slice(0, rest), path)
        return [self.file] * rounds + [path]


@dataclass
class Load:
    db: Any
    over: threading.Event
    latencies: Counter[int] = field(default_factory=Counter)
    """Fresh reads by their tenths of a millisecond: a list of them all would itself be memory that grows."""
    driver_mb: list[float] = field(default_factory=list)
    all_mb: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    counting: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: int = 0
    reads: int = 0

    def insert_on(self, feed: Feed, rate: int, for_seconds: float) -> tuple[float, float]:
        """How late the last insert was acknowledged, and how long all of them took."""
        start = time.perf_counter()
        for number in range(1, int(for_seconds * INSERTS_PER_SECOND) + 1):
            due = start + number / INSERTS_PER_SECOND
            time.sleep(max(0.0, due - time.perf_counter()))
            self.insert(feed, rate)
        return time.perf_counter() - due, time.perf_counter() - start

    def insert(self, feed: Feed, rate: int) -> None:
        self.db.insert("events", feed.next(rate // INSERTS_PER_SECOND))
        self.acknowledged = feed.given

    def read_on(self, view: str) -> None:
        seen = 0
        try:
            with self.db.session() as session:
                while not self.over.is_set():
                    before, start = self.acknowledged, time.perf_counter()
                    session.sql(f"SELECT * FROM {view}").fetchall()
                    tenths = int((time.perf_counter() - start) * 10_000)
                    with self.counting:
                        self.reads += 1
                        if before > seen:
                            self.latencies[tenths] += 1
                    seen = before
        except Exception as error:  # handed to the thread that waits for this one
            self.errors.append(error)

    def watch_memory(self) -> None:
        while not self.over.wait(1.0):
            self.driver_mb.append(resident_mb())
            self.all_mb.append(tree_mb(os.getpid()))

    def quantile(self, part: float) -> float:
        """Of the fresh reads."""
        wanted = part * self.latencies.total()
        ordered = sorted(self.latencies)
        for tenths, upto in zip(ordered, accumulate(map(self.latencies.__getitem__, ordered)), strict=True):
            if upto >= wanted:
                return tenths / 10_000
        return math.nan

    def summary(self, rate: int, took: float, behind: float) -> dict[str, Any]:
        quarter = max(1, len(self.driver_mb) // 4)
        return {
            "rate": rate,
            "seconds": took,
            "behind_seconds": behind,
            "reads": self.reads,
            "fresh_reads": self.latencies.total(),
            "p50_seconds": self.quantile(0.50),
            "p95_seconds": self.quantile(0.95),
            "max_seconds": self.quantile(1.0),
            "driver_mb": self.driver_mb,
            "all_mb": self.all_mb,
            # After a warm first quarter, and at the end.
            "memory_before_mb": statistics.median(self.all_mb[quarter : 2 * quarter] or self.all_mb),
            "memory_after_mb": statistics.median(self.all_mb[-quarter:]),
        }
