"""DuckDB alone, with all rows in a table: it knows the answer of every window, and what finding it anew costs."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from peers.answers import WrongAnswer, difference
from peers.datacell_workload import Shape

CORES = len(os.sched_getaffinity(0))


class Judge:
    """The rows of one shape, so far as they have come."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._database = duckdb.connect(config={"threads": CORES})
        self._come = [0] * shape.streams
        for stream in range(shape.streams):
            self._database.execute(f"CREATE TABLE rows{stream} AS {shape.rows(stream, 0, 0)}")

    def close(self) -> None:
        self._database.close()

    def take(self, stream: int, count: int) -> tuple[int, int]:
        """So many rows more come; their numbers."""
        first = self._come[stream]
        self._come[stream] = first + count
        rows = self.shape.rows(stream, first, first + count)
        self._database.execute(f"INSERT INTO rows{stream} {rows}")
        return first, first + count

    def next_rows(self, stream: int, count: int) -> pa.Table:
        return self._database.sql(self._range(stream, *self.take(stream, count))).to_arrow_table()

    def next_file(self, stream: int, count: int, folder: Path) -> str:
        path = folder / f"rows{stream}.parquet"
        path.unlink(missing_ok=True)
        rows = self._range(stream, *self.take(stream, count))
        self._database.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
        return str(path)

    def answer(self, number: int) -> tuple[list[Any], float]:
        """Of a window, and how long it took."""
        first, last = self.shape.span(number)
        windows = (f"(FROM rows{stream} WHERE n >= {first} AND n < {last})" for stream in range(self.shape.streams))
        started = time.perf_counter()
        rows = self._database.execute(self.shape.over(*windows)).fetchall()
        return rows, time.perf_counter() - started

    def check(self, number: int, rows: list[Any], who: str) -> float:
        """How long the answer took here, if it is the same."""
        wanted, seconds = self.answer(number)
        wrong = difference(rows, wanted)
        if wrong:
            raise WrongAnswer(f"{who}, window {number} of {self.shape}: {wrong}")
        return seconds

    def _range(self, stream: int, first: int, last: int) -> str:
        return f"SELECT x1, x2 FROM rows{stream} WHERE n >= {first} AND n < {last} ORDER BY n"
