"""Every SQL type has one Arrow type, and every Arrow type has one SQL type or a clear refusal."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from midstream.errors import TypeMismatch
from midstream.ingest.arrow_types import INTERVAL_STRUCT, arrow_schema, arrow_type, from_arrow, to_rows
from midstream.relations.table import Column
from midstream.types import BIGINT, DOUBLE, INTERVAL, TEXT, TIMESTAMP, TIMESTAMPTZ, Type, array_of, parse_type

STORED = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "numeric(12,3)": pa.decimal128(12, 3),
    "boolean": pa.bool_(),
    "text": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "interval": INTERVAL_STRUCT,
    "bytea": pa.binary(),
    "int[]": pa.list_(pa.int32()),
    "text[][]": pa.list_(pa.list_(pa.string())),
}


@pytest.mark.parametrize("name", STORED)
def test_a_stored_type_comes_back(name: str) -> None:
    assert arrow_type(parse_type(name)) == STORED[name]
    assert from_arrow(STORED[name]) == parse_type(name)


def test_varchar_and_json_are_stored_as_strings() -> None:
    columns = [Column("a", parse_type("varchar(5)")), Column("b", parse_type("json"))]
    assert arrow_schema(columns) == pa.schema([("a", pa.string()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "numeric(20,0)"),
        (pa.float16(), "real"),
        (pa.large_string(), "text"),
        (pa.string_view(), "text"),
        (pa.dictionary(pa.int8(), pa.string()), "text"),
        (pa.binary(4), "bytea"),
        (pa.date64(), "date"),
        (pa.timestamp("ns"), "timestamp"),
        (pa.timestamp("s", "Europe/Berlin"), "timestamptz"),
        (pa.duration("ms"), "interval"),
        (pa.month_day_nano_interval(), "interval"),
        (pa.decimal256(30, 2), "numeric(30,2)"),
        (pa.decimal128(5, -2), "numeric(7,0)"),
        (pa.list_(pa.uint16(), 3), "int[]"),
        (pa.large_list(pa.large_string()), "text[]"),
        (pa.json_(), "json"),
        (pa.run_end_encoded(pa.int32(), pa.int64()), "bigint"),
    ],
)
def test_other_arrow_types_have_the_type_that_holds_all_their_values(arrow: pa.DataType, name: str) -> None:
    assert from_arrow(arrow) == parse_type(name)


def test_a_null_column_has_the_type_of_null() -> None:
    assert from_arrow(pa.null()) == Type("null")


@pytest.mark.parametrize("arrow", [pa.struct([("a", pa.int32())]), pa.time64("us"), pa.decimal256(50, 2)])
def test_what_has_no_sql_type_is_refused_with_a_way_out(arrow: pa.DataType) -> None:
    with pytest.raises(TypeMismatch) as raised:
        from_arrow(arrow)
    assert raised.value.message == f"Arrow type {arrow} has no SQL type"
    assert raised.value.hint


def test_rows_are_plain_python_values() -> None:
    moment = datetime(2020, 1, 2, 3, 4, 5, 6)
    names = ["int", "numeric(4,2)", "timestamp", "timestamptz", "date", "bytea", "int[]", "boolean", "double precision"]
    values = [
        1,
        Decimal("1.50"),
        moment,
        moment.replace(tzinfo=timezone.utc),
        date(2020, 1, 2),
        b"x",
        [1, None],
        True,
        0.5,
    ]
    types = [parse_type(name) for name in names]
    columns = [pa.array([value, None], arrow_type(type)) for value, type in zip(values, types, strict=True)]
    rows = to_rows(pa.table(columns, names=names), types)
    assert rows == [tuple(values), (None,) * len(values)]
    assert [type(value) for value in rows[0]] == [type(value) for value in values]
    assert rows[0][3].tzinfo is timezone.utc  # type: ignore[attr-defined]


def test_an_interval_without_months_is_a_timedelta_and_else_a_text() -> None:
    stored = [{"months": 0, "days": 1, "microseconds": 5}, {"months": 13, "days": 0, "microseconds": 0}, None]
    table = pa.table({"i": pa.array(stored, INTERVAL_STRUCT)})
    assert to_rows(table, [INTERVAL]) == [(timedelta(days=1, microseconds=5),), ("1 year 1 mon",), (None,)]


def test_intervals_of_the_kernels_and_in_arrays_are_the_same() -> None:
    native = pa.table({"i": pa.array([pa.MonthDayNano([0, 1, 5000])], pa.month_day_nano_interval())})
    assert to_rows(native, [INTERVAL]) == [(timedelta(days=1, microseconds=5),)]
    nested = pa.table({"i": pa.array([[{"months": 0, "days": 1, "microseconds": 5}]], pa.list_(INTERVAL_STRUCT))})
    assert to_rows(nested, [array_of(INTERVAL)]) == [([timedelta(days=1, microseconds=5)],)]


def test_a_year_that_python_lacks_is_a_text() -> None:
    table = pa.table({"t": pa.array([253402300800 * 10**6, 0], pa.timestamp("us"))})
    assert to_rows(table, [TIMESTAMP]) == [("10000-01-01 00:00:00.000000",), ("1970-01-01 00:00:00.000000",)]


def test_a_table_without_columns_has_its_rows() -> None:
    assert to_rows(pa.table({"a": [1, 2]}).select([]), []) == [(), ()]


def test_a_million_rows_come_quickly() -> None:
    count = 300_000
    table = pa.table(
        {
            "a": range(count),
            "b": [0.5] * count,
            "c": ["abc"] * count,
            "d": pa.array(range(count), pa.timestamp("us", "UTC")),
        }
    )
    began = time.perf_counter()
    assert len(to_rows(table, [BIGINT, DOUBLE, TEXT, TIMESTAMPTZ])) == count
    assert time.perf_counter() - began < 3.0
