"""What a Parquet file says of itself, read once per worker: its columns and where its row groups begin.

Remembered by path, size and time of change, since a user's file may be written again; bounded.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.spark.errors import bad_parquet, from_file_system

_REMEMBERED = 20_000
_KNOWS_NAN = "DuckDB"
"""Whose files tell no largest value where there is NaN, as they say who wrote them."""


@dataclass(frozen=True)
class Footer:
    columns: tuple[tuple[str, pa.DataType], ...]
    group_starts: tuple[int, ...]
    """The first row of each row group, and the number of rows at the end."""
    column_bytes: tuple[tuple[str, int], ...] = ()
    """How large each column is, encoded but not compressed."""
    bounded_floats: frozenset[str] = frozenset()
    """Columns of floating point numbers whose largest value is told. Many writers leave NaN out of it, though it is
    larger than every number."""

    def bytes_of(self, columns: Iterable[str]) -> int:
        """About how many bytes some columns take in memory: what is encoded in few bits is at least a number there."""
        sizes = dict(self.column_bytes)
        return sum(max(sizes.get(column, 0), self.group_starts[-1] * 8) for column in columns)

    def row_ranges(self, groups: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Half-open ranges of row numbers, with neighbouring groups joined.

        >>> Footer((), (0, 10, 20, 30)).row_ranges((0, 2, 1))
        ((0, 30),)
        """
        ranges: list[tuple[int, int]] = []
        for group in sorted(set(groups)):
            start, end = self.group_starts[group], self.group_starts[group + 1]
            if ranges and ranges[-1][1] == start:
                start = ranges.pop()[0]
            ranges.append((start, end))
        return tuple(ranges)


def footer_of(path: str) -> Footer:
    try:
        seen = os.stat(path)
    except OSError as failure:
        raise from_file_system(failure) from failure
    return _read(path, seen.st_size, seen.st_mtime_ns)


@lru_cache(maxsize=_REMEMBERED)
def _read(path: str, size: int, changed_at: int) -> Footer:
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError) as failure:
        raise bad_parquet(path, failure) from failure
    starts, sizes, bounded = [0], Counter[str](), set[str]()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        starts.append(starts[-1] + group.num_rows)
        for column in map(group.column, range(group.num_columns)):
            sizes[column.path_in_schema.partition(".")[0]] += column.total_uncompressed_size
            if column.physical_type in ("FLOAT", "DOUBLE") and column.is_stats_set and column.statistics.has_min_max:
                bounded.add(column.path_in_schema)
    columns = tuple((field.name, field.type) for field in schema)
    if str(metadata.created_by).startswith(_KNOWS_NAN):
        bounded.clear()
    return Footer(columns, tuple(starts), tuple(sizes.items()), frozenset(bounded))
