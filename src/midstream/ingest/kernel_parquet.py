"""Parquet columns turned into a table's types, as SQL for the DuckDB kernel.

The same rules as `conform` has for Arrow in memory: integers must fit, a float must be whole to become an
integer, text does not become a number, digits beyond a numeric's scale are rounded. What can never fit is
refused here, before any row is read.

    >>> from_parquet('"n"', BIGINT, INT, "n")
    'CAST("n" AS INTEGER)'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from midstream.ingest.kernel_text import duckdb_type, fit_text, from_text, quoted
from midstream.ingest.values import mismatch
from midstream.types import Type


def from_parquet(column: str, source: Type, to: Type, name: str) -> str:
    """SQL that gives the column of type `source` as `to`, or a `TypeMismatch`."""
    if source.name == "null":
        return f"CAST(NULL AS {duckdb_type(to)})"
    if to.element is not None:
        return _array(column, source, to, name)
    convert = _CONVERSIONS.get((_family(source), _family(to)))
    if convert is None:
        raise mismatch(str(source), to, name)
    return convert(column, source, to)


def _family(type: Type) -> str:
    if type.element is not None:
        return "array"
    if type.is_integer:
        return "integer"
    if type.is_float:
        return "float"
    return "text" if type.is_text else type.name


def _array(column: str, source: Type, to: Type, name: str) -> str:
    if source.element is None:
        raise mismatch(str(source), to, name)
    element = cast(Type, to.element)
    variable = f"item{_depth(to)}"
    converted = from_parquet(variable, source.element, element, name)
    if converted == variable:
        return column
    return f"list_transform({column}, lambda {variable}: {converted})"


def _depth(type: Type) -> int:
    return 0 if type.element is None else 1 + _depth(type.element)


def _cast(column: str, source: Type, to: Type) -> str:
    return column if duckdb_type(source) == duckdb_type(to) else f"CAST({column} AS {duckdb_type(to)})"


def _whole(column: str, source: Type, to: Type) -> str:
    message = quoted(f" has a fraction and is not rounded to {to} in silence")
    return (
        f"CASE WHEN {column} IS NULL THEN NULL WHEN {column} = trunc({column}) OR {_is_no_number(column, source)} "
        f"THEN CAST({column} AS {duckdb_type(to)}) ELSE error('[22P02] ' || CAST({column} AS VARCHAR) || {message}) END"
    )


def _is_no_number(column: str, source: Type) -> str:
    """NaN and infinity reach the cast, which refuses them as out of range."""
    return f"NOT isfinite({column})" if source.is_float else "false"


def _float(column: str, source: Type, to: Type) -> str:
    if to.name != "real" or source.name != "double precision":
        return _cast(column, source, to)
    failure = f"error({quoted(f'[22003] {to} out of range')} || substr(CAST({column} AS VARCHAR), 1, 0))"
    overflows = f"isfinite({column}) AND abs({column}) >= 3.4028235677973366e38"
    return f"CASE WHEN {overflows} THEN {failure} ELSE CAST({column} AS FLOAT) END"


def _float_to_numeric(column: str, source: Type, to: Type) -> str:
    # PostgreSQL keeps the 15 digits of a float that are sure.
    return from_text(f"printf('%.15g', CAST({column} AS DOUBLE))", to)


def _text(column: str, source: Type, to: Type) -> str:
    return fit_text(column, to)


def _to_text(column: str, source: Type, to: Type) -> str:
    return fit_text(f"CAST({column} AS VARCHAR)", to)


def _json(column: str, source: Type, to: Type) -> str:
    return from_text(column, to)


_MOMENTS = ("date", "timestamp", "timestamptz")
_CONVERSIONS: dict[tuple[str, str], Callable[[str, Type, Type], str]] = {
    ("integer", "integer"): _cast,
    ("float", "integer"): _whole,
    ("numeric", "integer"): _whole,
    ("integer", "float"): _cast,
    ("numeric", "float"): _cast,
    ("float", "float"): _float,
    ("integer", "numeric"): _cast,
    ("numeric", "numeric"): _cast,
    ("float", "numeric"): _float_to_numeric,
    ("boolean", "boolean"): _cast,
    ("text", "text"): _text,
    ("json", "text"): _text,
    ("integer", "text"): _to_text,
    ("numeric", "text"): _to_text,
    ("boolean", "text"): _to_text,
    ("date", "text"): _to_text,
    ("timestamp", "text"): _to_text,
    ("text", "json"): _json,
    ("json", "json"): _json,
    ("bytea", "bytea"): _cast,
    ("interval", "interval"): _cast,
    **{(source, to): _cast for source in _MOMENTS for to in _MOMENTS},
}
