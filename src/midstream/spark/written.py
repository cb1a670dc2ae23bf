"""Parquet files that a job has written, described for Delta's log.

The statistics come from the files' footers, which the writer of either kernel fills in. A bound that is not
exact, or that JSON could not hold exactly, is left out: a missing bound only costs a skipped file.

    >>> json.loads(describe("a.parquet", columns).stats)
    {"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 7}, "nullCount": {"id": 0}}
"""

from __future__ import annotations

import datetime
import json
import math
import os
from collections.abc import Sequence

import pyarrow.parquet as pq

from midstream.maintenance.engine import WrittenFile
from midstream.types import Type

_LONGEST_TEXT = 32
_EXACT_DIGITS = 15
"""A reader may take a JSON number for a double."""


def describe(path: str, columns: Sequence[tuple[str, Type]]) -> WrittenFile:
    metadata = pq.read_metadata(path)
    stats = statistics_of(metadata, dict(columns))
    return WrittenFile(path, metadata.num_rows, os.path.getsize(path), json.dumps(stats, separators=(",", ":")))


def statistics_of(metadata: pq.FileMetaData, types: dict[str, Type]) -> dict[str, object]:
    low: dict[str, object] = {}
    high: dict[str, object] = {}
    nulls: dict[str, int] = {}
    # Spark's writer leaves NaN out of its bounds, though NaN is the largest number; DuckDB's gives no bounds then.
    counts_nan = (metadata.created_by or "").startswith("DuckDB")
    for number in range(metadata.num_columns):
        name = metadata.schema.column(number).path
        type_ = types.get(name)
        if type_ is None:
            continue
        groups = [metadata.row_group(g).column(number).statistics for g in range(metadata.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        nulls[name] = sum(group.null_count for group in groups)
        bounds = None if type_.is_float and not counts_nan else _bounds(groups, type_)
        if bounds is not None:
            low |= _written(name, bounds[0], type_)
            high |= _written(name, bounds[1], type_)
    return {"numRecords": metadata.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _bounds(groups: Sequence[pq.Statistics], type_: Type) -> tuple[object, object] | None:
    filled = [group for group in groups if group.num_values > 0]
    if not filled or not _has_order(type_) or not all(group.has_min_max for group in filled):
        return None
    try:
        return min(group.min for group in filled), max(group.max for group in filled)
    except (ValueError, OverflowError):
        # Python has no dates before year 1 or after 9999.
        return None


def _has_order(type_: Type) -> bool:
    if type_.name == "numeric":
        return (type_.precision or 0) <= _EXACT_DIGITS
    return type_.is_integer or type_.is_float or type_.is_text or type_.is_time


def _written(name: str, value: object, type_: Type) -> dict[str, object]:
    """The bound as Delta's JSON has it, or nothing."""
    match value:
        case str():
            return {name: value} if len(value) <= _LONGEST_TEXT else {}
        case float():
            return {name: value} if math.isfinite(value) else {}
        case datetime.datetime():
            text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
            return {name: text + ("Z" if type_.name == "timestamptz" else "")}
        case datetime.date():
            return {name: value.isoformat()}
        case int():
            return {name: value}
        case _:
            return {name: float(str(value))}
