"""Sets of rows on their way into a table: in memory while they are few, in Parquet files beyond that.

Every row carries its `_row_id`. A set is a value: taking rows away or adding some gives another set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from midstream.ingest.arrow_types import arrow_type, holds_interval
from midstream.ingest.conform import convert_array
from midstream.log.batches import ARRIVED, POSITION, SCN
from midstream.maintenance.engine import FileColumn, Files, Input, Rows, WrittenFile
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID, ROW_ID_TYPE
from midstream.types import BIGINT, TIMESTAMP, Type

FEW_ROWS = 200_000
"""Up to here the driver handles rows itself; more is a job's work."""


PART = "_part"
STREAM_MARKS: tuple[tuple[str, Type], ...] = ((POSITION, BIGINT), (SCN, BIGINT), (ARRIVED, TIMESTAMP), (PART, BIGINT))
"""What the history of a stream keeps beside its columns."""


def stored_columns(table: RowHolder) -> tuple[tuple[str, Type], ...]:
    """The columns as they lie in the files: the hidden ones, then the table's or stream's own."""
    hidden = STREAM_MARKS if isinstance(table, Stream) else ((ROW_ID, ROW_ID_TYPE),)
    return (*hidden, *((column.name, column.type) for column in table.columns))


def physical_schema(columns: tuple[tuple[str, Type], ...]) -> pa.Schema:
    return pa.schema([pa.field(name, arrow_type(type_)) for name, type_ in columns])


def as_stored(table: pa.Table, columns: tuple[tuple[str, Type], ...]) -> pa.Table:
    """Rows as they lie in files. A kernel hands back what people get, and of an interval that is another Arrow type,
    which Arrow itself does not cast."""
    schema = physical_schema(columns)
    arrays = [
        _stored_array(table.column(place), type_, name, field.type)
        for place, ((name, type_), field) in enumerate(zip(columns, schema, strict=True))
    ]
    return pa.table(arrays, schema=schema)


def _stored_array(column: pa.ChunkedArray, type_: Type, name: str, wanted: pa.DataType) -> pa.ChunkedArray | pa.Array:
    if column.type != wanted and holds_interval(type_):
        return convert_array(column.combine_chunks(), type_, name)
    return column.cast(wanted)


@dataclass(frozen=True)
class RowSet:
    """Rows of one schema: `columns` are names and types, `_row_id` first."""

    columns: tuple[tuple[str, Type], ...]
    table: pa.Table | None = None
    files: tuple[WrittenFile, ...] = ()

    @classmethod
    def of(cls, columns: tuple[tuple[str, Type], ...], table: pa.Table) -> RowSet:
        return cls(columns, table if table.num_rows else None)

    @property
    def rows(self) -> int:
        return (self.table.num_rows if self.table is not None else 0) + sum(file.rows for file in self.files)

    def __bool__(self) -> bool:
        return self.rows > 0

    @property
    def is_small(self) -> bool:
        return self.rows <= FEW_ROWS

    def plus(self, other: RowSet) -> RowSet:
        tables = [rows for rows in (self.table, other.table) if rows is not None]
        return RowSet(self.columns, pa.concat_tables(tables) if tables else None, self.files + other.files)

    def inputs(self, name: str) -> dict[str, Input]:
        """The set as inputs of a piece: none, one or two of them, to be read together."""
        found: dict[str, Input] = {}
        if self.table is not None:
            found[f"{name}_rows"] = Rows(self.table)
        if self.files:
            found[f"{name}_files"] = Files(
                tuple(file.path for file in self.files),
                tuple(FileColumn(column, type_) for column, type_ in self.columns),
                rows=sum(file.rows for file in self.files),
                bytes=sum(file.bytes for file in self.files),
            )
        return found

    def read(self) -> pa.Table:
        """All rows in memory: only for small sets."""
        schema = physical_schema(self.columns)
        tables = [self.table] if self.table is not None else []
        tables += [pq.read_table(file.path, schema=schema, partitioning=None) for file in self.files]
        return as_stored(pa.concat_tables(tables), self.columns) if tables else schema.empty_table()

    def reader(self) -> pa.RecordBatchReader:
        """All rows as a stream of batches, whatever their number."""
        schema = physical_schema(self.columns)

        def batches() -> Iterator[pa.RecordBatch]:
            if self.table is not None:
                yield from as_stored(self.table, self.columns).to_batches()
            for file in self.files:
                with pq.ParquetFile(file.path) as parquet:
                    for batch in parquet.iter_batches():
                        rows = pa.Table.from_batches([batch]).select(schema.names)
                        yield from as_stored(rows, self.columns).to_batches()

        return pa.RecordBatchReader.from_batches(schema, batches())

    def ids(self) -> pa.ChunkedArray:
        """The ids alone: only for small sets."""
        tables = [self.table.select([ROW_ID])] if self.table is not None else []
        tables += [pq.read_table(file.path, columns=[ROW_ID], partitioning=None) for file in self.files]
        return pa.concat_tables(tables).column(ROW_ID) if tables else pa.chunked_array([], pa.int64())

    def without(self, ids: pa.ChunkedArray) -> RowSet:
        """The rows whose id is none of these: only for small sets."""
        rows = self.read()
        return RowSet.of(self.columns, rows.filter(pc.invert(pc.is_in(rows.column(ROW_ID), ids.combine_chunks()))))

    def where_id(self, *, at_least: int | None = None, below: int | None = None) -> RowSet:
        """The rows on one side of an id: only for small sets."""
        rows = self.read()
        ids = rows.column(ROW_ID)
        keep = pc.greater_equal(ids, at_least) if at_least is not None else pc.less(ids, below)
        return RowSet.of(self.columns, rows.filter(keep))
