"""What people hand to `db.insert`: Arrow, pandas, polars, rows, a Spark DataFrame, a path.

`read_source` says what it is without reading more than it must; nothing here imports pandas, polars or
pyspark. A path stays a list of files, a Spark DataFrame stays a plan: both are read by tasks.

    >>> read_source([{"id": 1}, {"id": 2}])
    RowSource(rows=({'id': 1}, {'id': 2}))
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa

from midstream.errors import InvalidParameter, TypeMismatch
from midstream.ingest.conform import conform
from midstream.ingest.files import expand_path, file_format
from midstream.ingest.values import dicts_to_arrow, values_to_arrow
from midstream.relations.table import Column


@dataclass(frozen=True)
class ArrowSource:
    """Columns in memory, by name."""

    table: pa.Table


@dataclass(frozen=True)
class RowSource:
    """Rows of Python values: all of them dicts, by name, or all of them sequences, by position."""

    rows: tuple[Any, ...]

    @property
    def by_name(self) -> bool:
        return all(isinstance(row, Mapping) for row in self.rows)


@dataclass(frozen=True)
class FrameSource:
    """A Spark DataFrame, not computed yet."""

    frame: object


@dataclass(frozen=True)
class FileSource:
    """Files of one format, in the order in which their rows arrive."""

    paths: tuple[str, ...]
    format: str
    options: Mapping[str, object] = field(default_factory=dict)


Source = ArrowSource | RowSource | FrameSource | FileSource


def read_source(data: object) -> Source:
    """Recognises what was handed over; anything else is a `TypeMismatch`."""
    if type(data) in (list, tuple):
        return _rows(tuple(cast("Sequence[object]", data)))
    if isinstance(data, (str, os.PathLike)):
        return _files(os.fspath(data))
    if _is_spark_frame(data):
        return FrameSource(data)
    if (table := _arrow(data)) is not None:
        return ArrowSource(table)
    if isinstance(data, Iterable) and not isinstance(data, (bytes, bytearray, memoryview, Mapping)):
        return _rows(tuple(data))
    raise _not_rows(data)


def source_to_arrow(
    source: ArrowSource | RowSource,
    columns: Sequence[Column],
    *,
    relation: str,
    defaults: Mapping[str, object] | None = None,
) -> pa.Table:
    """The rows in memory, checked, in the table's physical schema."""
    if isinstance(source, ArrowSource):
        return conform(source.table, columns, relation=relation, defaults=defaults)
    if source.by_name:
        return dicts_to_arrow(source.rows, columns, relation=relation, defaults=defaults)
    return values_to_arrow(source.rows, columns, relation=relation)


# --- files -----------------------------------------------------------------------------------------


def _files(path: str | bytes) -> FileSource:
    paths = expand_path(os.fsdecode(path))
    format = file_format({}, paths)
    # A file for db.insert has names, as everything else that is inserted: a CSV file starts with them.
    return FileSource(paths, format, {"header": True} if format == "csv" else {})


# --- Arrow and what gives Arrow --------------------------------------------------------------------


def _arrow(data: Any) -> pa.Table | None:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        return data.read_all()
    if _comes_from(data, "pandas", "DataFrame"):
        return _from_pandas(data)
    if _comes_from(data, "polars", "LazyFrame"):
        data = data.collect()
    if hasattr(data, "__arrow_c_stream__"):
        return _from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return _from_stream(pa.record_batch(data))
    return None


def _from_stream(data: Any) -> pa.Table:
    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        raise TypeMismatch(
            f"{type(data).__name__} cannot be read as Arrow columns", detail=_first_line(wrong)
        ) from wrong


def _from_pandas(frame: Any) -> pa.Table:
    """Without the index; pandas' NaN is NULL in columns of objects."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError, ValueError) as wrong:
        raise TypeMismatch(
            "the pandas DataFrame has a column that is of no single type",
            detail=_first_line(wrong),
            hint="Insert its rows as dicts instead: frame.to_dict('records').",
        ) from wrong


def _first_line(wrong: Exception) -> str:
    return f"{str(wrong).splitlines()[0].rstrip('.')}." if str(wrong) else type(wrong).__name__


def _comes_from(data: object, package: str, name: str) -> bool:
    """Whether a class of the object has that name in that package, which need not be installed."""
    return any(each.__name__ == name and each.__module__.split(".")[0] == package for each in type(data).__mro__)


def _is_spark_frame(data: object) -> bool:
    return _comes_from(data, "pyspark", "DataFrame")


# --- rows ------------------------------------------------------------------------------------------


def _rows(rows: tuple[object, ...]) -> RowSource:
    mappings = sum(isinstance(row, Mapping) for row in rows)
    if mappings == len(rows):
        return RowSource(rows)
    if mappings:
        raise InvalidParameter("rows are either all dicts or all tuples, not some of each")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
            raise TypeMismatch(f"row {number} is of type {type(row).__name__}, not a dict or a tuple", hint=_ACCEPTED)
    return RowSource(rows)


_ACCEPTED = (
    "Give an Arrow table, a pandas, polars or Spark DataFrame, a list of dicts or tuples, or the path of a "
    "CSV, Parquet or JSON file."
)


def _not_rows(data: object) -> TypeMismatch:
    return TypeMismatch(f"{type(data).__name__} cannot be inserted as rows", hint=_ACCEPTED)
