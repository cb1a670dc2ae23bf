"""The SELECT by which DuckDB sees an input: exactly the named columns, with exactly their types.

Files that differ in their columns or in the rows to take become branches of one UNION ALL; a column that
a file lacks is NULL there. CSV and JSON are read as text alone, so that no value is guessed.

    >>> print(parquet_branch([...], (FileColumn("id", BIGINT, stored_as="col-1"),), ...))
    SELECT "col-1" AS "id" FROM read_parquet(['a.parquet'], hive_partitioning = false)
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from midstream import kernels
from midstream.errors import InternalError
from midstream.kernels import stored_type
from midstream.maintenance.engine import FileColumn, Files
from midstream.spark.footers import Footer, footer_of
from midstream.types import BIGINT, Type

RowRanges = tuple[tuple[int, int], ...]


def quote_name(name: str) -> str:
    return kernels.quote_name(name, "duckdb")


def quote_text(text: str) -> str:
    return kernels.quote_text(text, "duckdb")


def duckdb_type(type_: Type) -> str:
    """What a stored column is in DuckDB. An interval stays the struct that it is in the files: the rendered
    SQL turns it into DuckDB's own where it computes with it."""
    if type_.element is not None:
        return f"{duckdb_type(type_.element)}[]"
    if type_.name == "interval":
        return "STRUCT(months INTEGER, days INTEGER, microseconds BIGINT)"
    return kernels.kernel_type(type_, "duckdb")


def select_files(files: Files) -> str:
    """The whole input as one SELECT."""
    if not files.paths:
        values = [(name, type_) for name, type_, _ in files.file_values]
        number = [(files.numbered, BIGINT)] if files.numbered else []
        return empty_select([*((c.name, c.type) for c in files.columns), *values, *number])
    if files.format == "parquet":
        return " UNION ALL ".join(_parquet_branch(branch, files) for branch in _branches(files))
    from midstream.spark.duckdb_texts import select_text_files

    return select_text_files(files)


def empty_select(columns: Iterable[tuple[str, Type]]) -> str:
    nulls = ", ".join(f"CAST(NULL AS {duckdb_type(type_)}) AS {quote_name(name)}" for name, type_ in columns)
    return f"SELECT {nulls or '1'} WHERE false"


# --- Parquet ----------------------------------------------------------------------------------------


@dataclass
class _Branch:
    """Files with the same columns, of which the same rows are taken."""

    stored: dict[str, pa.DataType]
    ranges: RowRanges | None
    places: list[int]
    """Where the files stand in the input, for their file values."""
    bounded_floats: frozenset[str] = frozenset()


def _branches(files: Files) -> list[_Branch]:
    branches: dict[object, _Branch] = {}
    groups = files.row_groups or (None,) * len(files.paths)
    for place, (path, taken) in enumerate(zip(files.paths, groups, strict=True)):
        footer = footer_of(path)
        if taken is not None and not taken:
            continue
        ranges = None if taken is None or _all(taken, footer) else footer.row_ranges(taken)
        key = (footer.columns, ranges if ranges is None else (place, ranges))
        branch = branches.setdefault(key, _Branch(dict(footer.columns), ranges, []))
        branch.places.append(place)
        branch.bounded_floats |= footer.bounded_floats
    return list(branches.values()) or [_Branch({}, (), [0])]


def _all(taken: tuple[int, ...], footer: Footer) -> bool:
    """Whether a share of a file is all of it: files that are read whole share a branch, and a grouping of them has one
    hash table, not one for each file."""
    return footer.row_ranges(taken) == ((0, footer.group_starts[-1]),)


def _parquet_branch(branch: _Branch, files: Files) -> str:
    columns = [_stored_column(column, branch) for column in files.columns]
    columns += [_file_value(name, type_, values, branch.places) for name, type_, values in files.file_values]
    if files.numbered:
        columns.append(f"file_row_number AS {quote_name(files.numbered)}")
    text = f"SELECT {', '.join(columns) or '1'} FROM {_read_parquet([files.paths[place] for place in branch.places])}"
    return text if branch.ranges is None else f"{text} WHERE {_in_ranges(branch.ranges)}"


def _read_parquet(paths: Sequence[str]) -> str:
    listed = ", ".join(quote_text(literal_path(path)) for path in paths)
    return f"read_parquet([{listed}], hive_partitioning = false)"


def literal_path(path: str) -> str:
    """A path that DuckDB's globbing leaves alone."""
    if not any(sign in path for sign in "*?["):
        return path
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in path)


def _in_ranges(ranges: RowRanges) -> str:
    tests = [f"(file_row_number >= {start} AND file_row_number < {end})" for start, end in ranges]
    return " OR ".join(tests) or "false"


def _stored_column(column: FileColumn, branch: _Branch) -> str:
    name, stored = column.stored_as or column.name, branch.stored
    declared = duckdb_type(column.type)
    if name not in branch.stored:
        return f"CAST(NULL AS {declared}) AS {quote_name(column.name)}"
    value = quote_name(name)
    if name in branch.bounded_floats:
        # DuckDB skips row groups, and takes comparisons for decided, by bounds that leave NaN out. Of this it has none.
        kind = "FLOAT" if pa.types.is_float32(stored[name]) else "DOUBLE"
        value = f"CASE WHEN isnan({value}) THEN CAST('NaN' AS {kind}) ELSE {value} END"
    if not same_type(stored[name], stored_type(column.type)):
        value = f"CAST({value} AS {declared})"
    return f"{value} AS {quote_name(column.name)}"


def same_type(one: pa.DataType, other: pa.DataType) -> bool:
    """Equal but for the names and nullability of list elements."""
    if pa.types.is_list(one) and pa.types.is_list(other):
        return same_type(one.value_type, other.value_type)
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other):
        return one.unit == other.unit and (one.tz is None) == (other.tz is None)
    return bool(one == other)


def from_interval(value: str) -> str:
    """DuckDB's interval as the struct that is stored."""
    return (
        f"CASE WHEN {value} IS NULL THEN NULL ELSE struct_pack("
        f"months := CAST(datepart('year', {value}) * 12 + datepart('month', {value}) AS INTEGER), "
        f"days := CAST(datepart('day', {value}) AS INTEGER), "
        f"microseconds := datepart('hour', {value}) * 3600000000 + datepart('minute', {value}) * 60000000"
        f" + datepart('microsecond', {value})) END"
    )


def _file_value(name: str, type_: Type, values: Sequence[object], places: Sequence[int]) -> str:
    declared = duckdb_type(type_)
    ours = [literal(values[place]) for place in places]
    if len(set(ours)) == 1:
        return f"CAST({ours[0]} AS {declared}) AS {quote_name(name)}"
    return f"CAST([{', '.join(ours)}] AS {declared}[])[CAST(file_index AS BIGINT) + 1] AS {quote_name(name)}"


def literal(value: object) -> str:
    """A value of the driver's as SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int() | decimal.Decimal():
            return str(value)
        case float():
            return f"CAST({quote_text(repr(value))} AS DOUBLE)"
        case str():
            return quote_text(value)
        case datetime.datetime():
            return f"{'TIMESTAMPTZ' if value.tzinfo else 'TIMESTAMP'} {quote_text(str(value))}"
        case datetime.date():
            return f"DATE {quote_text(str(value))}"
        case _:
            raise InternalError(f"a file value of type {type(value).__name__} cannot be written as SQL")
