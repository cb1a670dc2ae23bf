"""Arrow rows checked against a table's columns and given exactly their physical types.

Columns go by name. Nothing is lost in silence: integers must fit, a float must be whole to become an
integer, text does not become a number; digits beyond a numeric's scale are rounded, as PostgreSQL does. The
first row that does not fit is named, and nothing is taken.

    >>> conform(pa.table({"id": [1, 2]}), (Column("id", BIGINT, not_null=True),), relation="users").schema
    id: int64
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from midstream.errors import DataError, Error, SqlSyntaxError, TypeMismatch
from midstream.ingest.arrow_types import (
    INTERVAL_STRUCT,
    arrow_schema,
    arrow_type,
    from_arrow,
    is_arrow_list,
    python_values,
)
from midstream.ingest.faults import BadRow, convert_columns, match_names, missing_column
from midstream.ingest.texts import LARGEST_REAL, has_nul, nul_in_text, numeric_overflow, parse_texts, too_long
from midstream.ingest.values import assign, mismatch
from midstream.relations.table import Column
from midstream.types import TEXT, Type

_EARLIEST, _LATEST = -62135596800 * 10**6, 253402300800 * 10**6
"""The years 1 to 9999, in microseconds since 1970."""


_LARGEST_AT_ONCE = 1 << 30
"""More is converted in parts: an array of texts has room for 2 GiB."""


def conform(
    rows: Any,
    columns: Sequence[Column],
    *,
    relation: str,
    by_name: bool = True,
    defaults: Mapping[str, object] | None = None,
    first_row: int = 1,
) -> pa.Table:
    """The rows of an Arrow table, batch or reader in the table's physical schema, or an error.

    `defaults` are values for columns that the rows lack; without one, such a column is NULL."""
    table = _as_table(rows)
    places = _places(table, columns, relation, by_name)
    _check_missing(columns, places, defaults or {}, relation, table.num_rows)
    if not table.num_columns:
        # Arrow takes a slice of no columns for as many rows as were asked for.
        return arrow_schema(columns).empty_table()
    parts = -(-table.nbytes // _LARGEST_AT_ONCE) or 1
    size = -(-table.num_rows // parts) or 1
    converted = [
        _convert_part(table.slice(start, size), columns, places, defaults or {}, relation, first_row + start)
        for start in range(0, max(table.num_rows, 1), size)
    ]
    return pa.concat_tables(converted)


def _convert_part(
    table: pa.Table,
    columns: Sequence[Column],
    places: Mapping[str, int],
    defaults: Mapping[str, object],
    relation: str,
    first_row: int,
) -> pa.Table:
    def convert(number: int, column: Column) -> pa.Array:
        if column.name not in places:
            default = assign(defaults.get(column.name), column.type, column.name)
            return pa.repeat(pa.scalar(default, arrow_type(column.type)), table.num_rows)
        return convert_array(_one_array(table.column(places[column.name])), column.type, column.name)

    arrays = convert_columns(
        columns, convert, relation=relation, row_at=lambda row: _row(table, row), first_row=first_row
    )
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))


def _as_table(rows: Any) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    return pa.RecordBatchReader.from_stream(rows).read_all()


def _places(table: pa.Table, columns: Sequence[Column], relation: str, by_name: bool) -> dict[str, int]:
    if by_name:
        return match_names(table.column_names, columns, relation)
    if table.num_columns != len(columns):
        raise SqlSyntaxError(
            f'relation "{relation}" has {len(columns)} columns but the rows have {table.num_columns}',
            sqlstate="42601",
        )
    return {column.name: place for place, column in enumerate(columns)}


def _check_missing(
    columns: Sequence[Column], places: Mapping[str, int], defaults: Mapping[str, object], relation: str, rows: int
) -> None:
    for column in columns:
        if column.not_null and column.name not in places and defaults.get(column.name) is None and rows:
            raise missing_column(column.name, relation)


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _row(table: pa.Table, row: int) -> list[object]:
    return [_shown(column.slice(row, 1)) for column in table.columns]


def _shown(column: pa.ChunkedArray) -> object:
    try:
        return python_values(column, TEXT)[0]
    except (pa.ArrowException, ValueError, OverflowError):
        # A moment beyond Python's calendar, say.
        return f"a {column.type} that cannot be shown"


# --- one column ------------------------------------------------------------------------------------


def convert_array(array: pa.Array, to: Type, column: str) -> pa.Array:
    """One column as the physical type of `to`; the first value that does not fit is a `BadRow`."""
    array = _plain(array)
    if pat.is_null(array.type):
        return pa.nulls(len(array), arrow_type(to))
    if to.name == "json" and pat.is_nested(array.type):
        return pa.array([_json_text(value) for value in array.to_pylist()], pa.string())
    source = _sql_type(array, to, column)
    if to.element is not None:
        return _to_array(array, source, to, column)
    convert = _CONVERSIONS.get((_family(source), _family(to)))
    if convert is None:
        raise _refusal(source, to, column)
    return convert(array, to, column)


def _plain(array: pa.Array) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage if array.type.extension_name in ("arrow.json",) else array
    if pat.is_dictionary(array.type):
        values = array.dictionary
        return (values.cast(pa.string()) if pat.is_string_view(values.type) else values).take(array.indices)
    if pat.is_run_end_encoded(array.type):
        return pc.run_end_decode(array)
    return array


def _json_text(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _sql_type(array: pa.Array, to: Type, column: str) -> Type:
    try:
        return from_arrow(array.type)
    except TypeMismatch as refused:
        raise mismatch(str(array.type), to, column) from refused


def _refusal(source: Type, to: Type, column: str) -> TypeMismatch:
    error = mismatch(str(source), to, column)
    if source.is_text:
        error.hint = f"Text is not turned into {to} in silence: cast the column before, or load it with COPY from CSV."
    return error


def _family(type: Type) -> str:
    if type.is_integer:
        return "integer"
    if type.is_float:
        return "float"
    return "text" if type.is_text else type.name


def _first(mask: pa.Array) -> int | None:
    """The first row where the mask is true."""
    at = pc.index(pc.fill_null(mask, False), True).as_py()
    return None if at < 0 else cast(int, at)


def _refuse_where(mask: pa.Array, error: Error) -> None:
    if (row := _first(mask)) is not None:
        raise BadRow(row, error)


# --- numbers ---------------------------------------------------------------------------------------


def _integer_to_integer(array: pa.Array, to: Type, column: str) -> pa.Array:
    target = arrow_type(to)
    if array.type == target:
        return array
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        bits = target.bit_width - 1
        _refuse_where(pc.or_(pc.greater(array, 2**bits - 1), pc.less(array, -(2**bits))), _out_of_range(to))
        raise


def _out_of_range(to: Type) -> DataError:
    return DataError(f"{to} out of range", sqlstate="22003")


def _float_to_integer(array: pa.Array, to: Type, column: str) -> pa.Array:
    limit = 2.0 ** (arrow_type(to).bit_width - 1)
    numbers = array.cast(pa.float64())
    inside = pc.and_(pc.less(numbers, limit), pc.greater_equal(numbers, -limit))
    whole = pc.equal(numbers, pc.trunc(numbers))
    bad = _first(pc.invert(pc.and_(inside, whole)))
    if bad is not None:
        raise BadRow(bad, _out_of_range(to) if not inside[bad].as_py() else _has_fraction(numbers[bad].as_py(), to))
    return numbers.cast(arrow_type(to))


def _has_fraction(value: object, to: Type) -> DataError:
    return DataError(
        f"{value} has a fraction and is not rounded to {to} in silence",
        hint="Round the column before.",
        sqlstate="22003",
    )


def _numeric_to_integer(array: pa.Array, to: Type, column: str) -> pa.Array:
    wide = _wide(array)
    whole = pc.equal(wide, pc.trunc(wide))
    if (bad := _first(pc.invert(whole))) is not None:
        raise BadRow(bad, _has_fraction(array[bad].as_py(), to))
    bits = arrow_type(to).bit_width - 1
    _refuse_where(_outside(wide, 2**bits - 1, -(2**bits)), _out_of_range(to))
    return wide.cast(arrow_type(to))


def _wide(array: pa.Array) -> pa.Array:
    """Decimals with room for rounding and for comparison with any bound."""
    scale = max(array.type.scale, 0) if pat.is_decimal(array.type) else 0
    return array.cast(pa.decimal256(76, scale)) if pat.is_decimal(array.type) else _integers_as_decimal(array)


def _integers_as_decimal(array: pa.Array) -> pa.Array:
    return array.cast(pa.decimal128(20, 0)).cast(pa.decimal256(76, 0))


def _outside(wide: pa.Array, largest: int, smallest: int) -> pa.Array:
    bound = pa.decimal256(76, wide.type.scale)
    high, low = pa.scalar(largest).cast(pa.decimal128(38, 0)).cast(bound), pa.scalar(smallest)
    return pc.or_(pc.greater(wide, high), pc.less(wide, low.cast(pa.decimal128(38, 0)).cast(bound)))


def _exact_to_numeric(array: pa.Array, to: Type, column: str) -> pa.Array:
    target = arrow_type(to)
    if array.type == target:
        return array
    wide, scale = _wide(array), to.scale or 0
    if wide.type.scale > scale:
        wide = pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")
    try:
        return wide.cast(target)
    except pa.ArrowInvalid:
        too_large = [v is not None and abs(v) >= 10 ** (cast(int, to.precision) - scale) for v in wide.to_pylist()]
        _refuse_where(pa.array(too_large), numeric_overflow(to))
        raise


def _to_float(array: pa.Array, to: Type, column: str) -> pa.Array:
    target = arrow_type(to)
    if array.type == target:
        return array
    numbers = array.cast(pa.float64(), safe=False)
    if to.name == "real":
        too_large = pc.and_(pc.greater_equal(pc.abs(numbers), LARGEST_REAL), pc.is_finite(numbers))
        _refuse_where(too_large, _out_of_range(to))
    return numbers.cast(target)


def _one_by_one(array: pa.Array, to: Type, column: str) -> pa.Array:
    """Conversions that are rare enough for Python."""
    values: list[object] = []
    for row, value in enumerate(python_values(array, from_arrow(array.type))):
        try:
            values.append(assign(value, to, column))
        except Error as error:
            raise BadRow(row, error) from None
    return pa.array(values, arrow_type(to))


# --- texts and bytes -------------------------------------------------------------------------------


def _text_to_text(array: pa.Array, to: Type, column: str) -> pa.Array:
    texts = array.cast(pa.string())
    if has_nul(texts):
        _refuse_where(pc.match_substring(texts, "\0"), nul_in_text())
    if to.precision is not None:
        tail = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, to.precision), " ")
        _refuse_where(pc.not_equal(tail, ""), too_long(to))
        texts = pc.utf8_slice_codeunits(texts, 0, to.precision)
        if to.name == "char":
            texts = pc.utf8_rpad(texts, to.precision, " ")
    return texts


def _text_to_json(array: pa.Array, to: Type, column: str) -> pa.Array:
    return parse_texts(to, array.cast(pa.string()))


def _bytes_to_bytes(array: pa.Array, to: Type, column: str) -> pa.Array:
    return array.cast(pa.binary())


def _as_it_is(array: pa.Array, to: Type, column: str) -> pa.Array:
    return array.cast(arrow_type(to))


# --- times -----------------------------------------------------------------------------------------


def _to_moment(array: pa.Array, to: Type, column: str) -> pa.Array:
    """Any unit and zone; a time without a zone is taken as UTC, as the session's zone is UTC."""
    numbers = _in_microseconds(array, to)
    _refuse_where(pc.or_(pc.less(numbers, _EARLIEST), pc.greater_equal(numbers, _LATEST)), _moment_out_of_range(to))
    if to.name == "date":
        return numbers_to_days(numbers)
    return numbers.cast(arrow_type(to))


def numbers_to_days(microseconds: pa.Array) -> pa.Array:
    return microseconds.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)


_MICROSECONDS = {"s": 10**6, "ms": 10**3, "us": 1}


def _in_microseconds(array: pa.Array, to: Type) -> pa.Array:
    """Microseconds since 1970. What lies beyond the calendar is refused before it is multiplied: that would wrap."""
    if pat.is_date32(array.type):
        numbers, length = array.cast(pa.int32()).cast(pa.int64()), 86_400 * 10**6
    elif pat.is_date64(array.type):
        numbers, length = array.cast(pa.int64()), 10**3
    elif array.type.unit == "ns":
        return _rounded_thousandth(array.cast(pa.int64()))
    else:
        numbers, length = array.cast(pa.int64()), _MICROSECONDS[array.type.unit]
    if length == 1:
        return numbers
    beyond = pc.or_(pc.less(numbers, _EARLIEST // length), pc.greater(numbers, _LATEST // length))
    _refuse_where(beyond, _moment_out_of_range(to))
    return pc.multiply(numbers, length)


def _rounded_thousandth(numbers: pa.Array) -> pa.Array:
    """Halves go up, as PostgreSQL rounds a moment; without a sum that could overflow."""
    whole = pc.divide(numbers, 1000)
    rest = pc.subtract(numbers, pc.multiply(whole, 1000))
    up = pc.if_else(pc.greater_equal(rest, 500), 1, pc.if_else(pc.less(rest, -500), -1, 0))
    return pc.add(whole, up)


def _moment_out_of_range(to: Type) -> DataError:
    return DataError(f"{to} out of range", hint="Years are 1 to 9999.", sqlstate="22008")


def _to_interval(array: pa.Array, to: Type, column: str) -> pa.Array:
    if array.type == INTERVAL_STRUCT:
        return array
    if pat.is_duration(array.type):
        length = _MICROSECONDS.get(array.type.unit, 1)
        numbers, most = array.cast(pa.int64()), (2**63 - 1) // length
        beyond = pc.or_(pc.less(numbers, -most), pc.greater(numbers, most))
        _refuse_where(beyond, DataError("interval out of range", sqlstate="22008"))
        return _one_by_one(array.cast(pa.duration("us"), safe=False), to, column)
    values = [v and {"months": v.months, "days": v.days, "microseconds": v.nanoseconds // 1000} for v in _each(array)]
    return pa.array(values, INTERVAL_STRUCT)


def _each(array: pa.Array) -> list[Any]:
    return cast("list[Any]", array.to_pylist())


# --- arrays ----------------------------------------------------------------------------------------


def _to_array(array: pa.Array, source: Type, to: Type, column: str) -> pa.Array:
    if not is_arrow_list(array.type):
        raise _refusal(source, to, column)
    target = arrow_type(to)
    if array.type == target:
        return array
    lists = array.cast(pa.list_(array.type.value_type))
    # Building it anew leaves out the values of other slices and behind NULLs.
    starts = pa.array([0, *pc.cumulative_sum(pc.fill_null(pc.list_value_length(lists), 0)).to_pylist()], pa.int32())
    try:
        values = convert_array(lists.flatten(), cast(Type, to.element), column)
    except BadRow as bad:
        raise BadRow(_list_of(bad.row, starts.to_pylist()), bad.error) from None
    return pa.ListArray.from_arrays(starts, values, type=target, mask=lists.is_null())


def _list_of(value: int, starts: Sequence[int]) -> int:
    return next(row for row, end in enumerate(starts[1:]) if value < end)


_CONVERSIONS: dict[tuple[str, str], Callable[[pa.Array, Type, str], pa.Array]] = {
    ("integer", "integer"): _integer_to_integer,
    ("float", "integer"): _float_to_integer,
    ("numeric", "integer"): _numeric_to_integer,
    ("integer", "float"): _to_float,
    ("float", "float"): _to_float,
    ("numeric", "float"): _to_float,
    ("integer", "numeric"): _exact_to_numeric,
    ("numeric", "numeric"): _exact_to_numeric,
    ("float", "numeric"): _one_by_one,
    ("boolean", "boolean"): _as_it_is,
    ("text", "text"): _text_to_text,
    ("json", "text"): _text_to_text,
    ("integer", "text"): _one_by_one,
    ("float", "text"): _one_by_one,
    ("numeric", "text"): _one_by_one,
    ("boolean", "text"): _one_by_one,
    ("date", "text"): _one_by_one,
    ("timestamp", "text"): _one_by_one,
    ("timestamptz", "text"): _one_by_one,
    ("text", "json"): _text_to_json,
    ("json", "json"): _text_to_json,
    ("bytea", "bytea"): _bytes_to_bytes,
    ("interval", "interval"): _to_interval,
    **{(a, b): _to_moment for a in ("date", "timestamp", "timestamptz") for b in ("date", "timestamp", "timestamptz")},
}
