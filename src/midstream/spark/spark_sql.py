"""The Spark kernel: a piece as Spark SQL over the same files, spread by Spark itself.

Inputs are temporary views of the lane's session; analysis is eager, so they can go as soon as the
DataFrame is made. Shuffles are sized by the bytes of the inputs.

    with defined_inputs(spark, piece) as names: frame = spark.sql(piece.sql)
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from midstream import kernels
from midstream.errors import Unsupported
from midstream.kernels import STORED_INTERVAL
from midstream.maintenance.engine import Answer, FileColumn, Files, Piece, Rows, WriteParquet, WrittenFile
from midstream.spark.footers import footer_of
from midstream.spark.plain import plain_table
from midstream.spark.written import describe
from midstream.types import BIGINT, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_BYTES_PER_PARTITION = 64 << 20
_ROWS_PER_FILE = 20_000_000
_PATH, _ROW, _FILE, _FROM, _TO = ("__path", "__row", "__file", "__from", "__to")
"""Names of columns that exist only while an input is put together."""
_SCHEME = "^file:/+"
"""Spark writes it with one slash or with three."""
_ALL_ROWS = 1 << 62


def run_spark_sql(spark: SparkSession, piece: Piece, cores: int, work_folder: Path, job: str) -> Answer:
    size_shuffles(spark, piece, cores)
    with defined_inputs(spark, piece, work_folder):
        frame = spark.sql(piece.sql)
        if piece.output is None:
            return Answer(plain_table(frame.toArrow()), checks=_run_checks(spark, piece))
        files = write_frame(frame, piece.output, job)
        _define_output(spark, files, piece.output)
        return Answer(files=files, checks=_run_checks(spark, piece))


def _define_output(spark: SparkSession, written: Sequence[WrittenFile], output: WriteParquet) -> None:
    columns = tuple(FileColumn(*column) for column in output.columns)
    spark_input(spark, Files(tuple(file.path for file in written), columns)).createOrReplaceTempView("output")


def _run_checks(spark: SparkSession, piece: Piece) -> dict[str, pa.Table]:
    return {name: plain_table(spark.sql(sql).toArrow()) for name, sql in piece.checks}


def size_shuffles(spark: SparkSession, piece: Piece, cores: int) -> None:
    """Few partitions for little data; for much, more, and Spark adapts the plan while it runs."""
    size = sum(given.bytes for given in piece.inputs.values() if isinstance(given, Files))
    is_large = size > cores * _BYTES_PER_PARTITION
    spark.conf.set("spark.sql.shuffle.partitions", str(max(2, cores, size // _BYTES_PER_PARTITION)))
    spark.conf.set("spark.sql.adaptive.enabled", "true" if is_large else "false")


@contextmanager
def defined_inputs(spark: SparkSession, piece: Piece, work_folder: Path) -> Iterator[None]:
    """The names that a piece's SQL uses, as temporary views."""
    try:
        for name, given in piece.inputs.items():
            frame = spark_rows(spark, given, work_folder) if isinstance(given, Rows) else spark_input(spark, given)
            frame.createOrReplaceTempView(quote_name(name))
        for name, sql in piece.views:
            spark.sql(sql).createOrReplaceTempView(quote_name(name))
        yield
    finally:
        for name in [*piece.inputs, *(name for name, _ in piece.views), "output"]:
            spark.catalog.dropTempView(name)


def quote_name(name: str) -> str:
    return kernels.quote_name(name, "spark")


def spark_type(type_: Type) -> str:
    return kernels.kernel_type(type_, "spark")


# --- inputs -----------------------------------------------------------------------------------------


def spark_rows(spark: SparkSession, rows: Rows, work_folder: Path) -> DataFrame:
    """The driver's rows, through a Parquet file: the way that Spark reads fastest."""
    path = work_folder / f"rows-{uuid.uuid4().hex}.parquet"
    # Arrow leaves NaN out of the largest value of a column, by which Spark would pass it over.
    pq.write_table(stored_table(rows.table), path, compression="none", write_statistics=False)
    return spark.read.parquet(str(path))


def stored_table(table: pa.Table) -> pa.Table:
    """Spark reads neither Arrow's intervals nor a column of no type."""
    return pa.table([_storable(column) for column in table.columns], names=table.column_names)


def _storable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if column.type != pa.month_day_nano_interval():
        return column
    values = [
        None if v is None else {"months": v.months, "days": v.days, "microseconds": v.nanoseconds // 1000}
        for v in column.to_pylist()
    ]
    return pa.chunked_array([pa.array(values, STORED_INTERVAL)])


def spark_input(spark: SparkSession, files: Files) -> DataFrame:
    if files.format != "parquet":
        raise Unsupported(f"the Spark kernel reads no {files.format} files", hint="SET kernel = 'duckdb'")
    if not files.paths:
        return _empty(spark, files)
    stored = {column.stored_as or column.name: spark_type(column.type) for column in files.columns}
    schema = ", ".join(f"{quote_name(name)} {kind}" for name, kind in stored.items()) or "none int"
    # Paths are names of files, never patterns; Spark's own readers of tables say so by the same option.
    reader = spark.read.schema(schema).option("__globPaths__", "false")
    frame = reader.parquet(*dict.fromkeys(files.paths))
    columns = [_as_column(frame[quote_name(c.stored_as or c.name)], c.type).alias(c.name) for c in files.columns]
    if not files.file_values and files.row_groups is None and not files.numbered:
        return frame.select(*columns)
    return _joined_with_its_files(spark, frame, columns, files)


def _as_column(stored: Column, type_: Type) -> Column:
    """Spark goes by the largest value that a file tells of a column. Many writers leave NaN out, though it is larger
    than every number. Of an expression it knows none."""
    from pyspark.sql import functions as f

    return f.when(f.isnan(stored), f.lit("NaN").cast(spark_type(type_))).otherwise(stored) if type_.is_float else stored


def _joined_with_its_files(spark: SparkSession, frame: DataFrame, columns: list[Column], files: Files) -> DataFrame:
    """Gives each row the values of its file, and leaves out the row groups that are not asked for."""
    from pyspark.sql import functions as f

    table = f.broadcast(_file_table(spark, files, _uris(frame)))
    # Spark spells one file as file:/x or file:///x, depending on who asks.
    path = f.regexp_replace(f.col("_metadata.file_path"), "^([a-z0-9]+):/+", "$1:/").alias(_PATH)
    row = f.col("_metadata.row_index").alias(_ROW)
    located = frame.select(*columns, path, row)
    matches = located[_PATH] == table[_FILE]
    if files.row_groups is not None:
        matches &= (located[_ROW] >= table[_FROM]) & (located[_ROW] < table[_TO])
    names = [c.name for c in files.columns] + [name for name, _, _ in files.file_values]
    number = [located[_ROW].alias(files.numbered)] if files.numbered else []
    return located.join(table, matches).select(*(quote_name(name) for name in names), *number)


def _uris(frame: DataFrame) -> dict[str, str]:
    """How Spark spells each file of a frame, by its path."""
    uris = [re.sub("^([a-z0-9]+):/+", r"\1:/", uri) for uri in frame.inputFiles()]
    return {unquote(uri).removeprefix("file:"): uri for uri in uris}


def _file_table(spark: SparkSession, files: Files, uris: Mapping[str, str]) -> DataFrame:
    """One row for each file and range of rows: its URI, the range, its values."""
    groups = files.row_groups or (None,) * len(files.paths)
    lines: list[str] = []
    for place, (path, taken) in enumerate(zip(files.paths, groups, strict=True)):
        ranges = ((0, _ALL_ROWS),) if taken is None else footer_of(path).row_ranges(taken)
        values = [f"CAST({spark_literal(each[place])} AS {spark_type(type_)})" for _, type_, each in files.file_values]
        uri = spark_literal(uris[os.path.abspath(path)])
        lines += [f"({', '.join([uri, f'{start}L', f'{end}L', *values])})" for start, end in ranges]
    nulls = [f"CAST(NULL AS {spark_type(type_)})" for _, type_, _ in files.file_values]
    names = ", ".join(quote_name(name) for name in [_FILE, _FROM, _TO, *(name for name, _, _ in files.file_values)])
    nothing = f"({', '.join(['NULL', '0L', '0L', *nulls])})"
    return spark.sql(f"SELECT * FROM VALUES {', '.join(lines) or nothing} AS t({names})")


def _empty(spark: SparkSession, files: Files) -> DataFrame:
    columns: list[tuple[str, Type]] = [(c.name, c.type) for c in files.columns]
    columns += [(name, type_) for name, type_, _ in files.file_values]
    columns += [(files.numbered, BIGINT)] if files.numbered else []
    nulls = ", ".join(f"CAST(NULL AS {spark_type(type_)}) AS {quote_name(name)}" for name, type_ in columns)
    return spark.sql(f"SELECT {nulls or '1'} WHERE false")


def spark_literal(value: object) -> str:
    """A value of the driver's as SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case _:
            return kernels.quote_text(str(value), "spark")


# --- output -----------------------------------------------------------------------------------------


def write_frame(frame: DataFrame, output: WriteParquet, job: str) -> tuple[WrittenFile, ...]:
    """Writes beside the folder's files and moves in only what a finished job left."""
    columns = [
        frame[quote_name(source)].cast(spark_type(type_)).alias(name)
        for source, (name, type_) in zip(frame.columns, output.columns, strict=True)
    ]
    apart = Path(output.folder) / f".{job}"
    try:
        frame.select(*columns).write.option("maxRecordsPerFile", _ROWS_PER_FILE).parquet(str(apart))
        return _move_in(apart, output, job)
    finally:
        shutil.rmtree(apart, ignore_errors=True)


def _move_in(apart: Path, output: WriteParquet, job: str) -> tuple[WrittenFile, ...]:
    written = [describe(str(path), output.columns) for path in sorted(apart.glob("*.parquet"))]
    moved: list[WrittenFile] = []
    for number, file in enumerate(file for file in written if file.rows > 0):
        path = str(Path(output.folder) / f"{job}-{number}-0.parquet")
        os.rename(file.path, path)
        moved.append(WrittenFile(path, file.rows, file.bytes, file.stats))
    return tuple(moved)
