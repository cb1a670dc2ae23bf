"""Arrow rows get exactly the table's physical schema, or an error that names the row; nothing is lost."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import Error
from midstream.ingest.arrow_types import arrow_schema, arrow_type
from midstream.ingest.conform import conform
from midstream.relations.table import Column
from midstream.types import BIGINT, DOUBLE, INT, NUMERIC, TEXT, parse_type

USERS = (Column("id", BIGINT, not_null=True), Column("name", TEXT, not_null=True), Column("age", INT))
UTC = timezone.utc


def convert(array: pa.Array, type_name: str) -> list[object]:
    column = Column("x", parse_type(type_name))
    table = conform(pa.table({"x": array}), [column], relation="t")
    assert table.schema == arrow_schema([column])
    table.validate(full=True)
    return table["x"].to_pylist()  # type: ignore[no-any-return]


MOMENT = datetime(2020, 1, 2, 3, 4, 5, 678901)


@pytest.mark.parametrize(
    ("array", "type_name", "stored"),
    [
        (pa.array([1, None], pa.int8()), "bigint", [1, None]),
        (pa.array([2**31 - 1], pa.int64()), "int", [2**31 - 1]),
        (pa.array([5], pa.uint64()), "smallint", [5]),
        (pa.array([2**64 - 1], pa.uint64()), "numeric(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([2.0, None]), "int", [2, None]),
        (pa.array([Decimal("2.00")]), "int", [2]),
        (pa.array([3], pa.int64()), "double precision", [3.0]),
        (pa.array([Decimal("0.1")]), "double precision", [0.1]),
        (pa.array([0.1]), "numeric(30,20)", [Decimal("0.10000000000000000000")]),
        (pa.array([Decimal("1.005"), Decimal("-1.005")]), "numeric(5,2)", [Decimal("1.01"), Decimal("-1.01")]),
        (pa.array([Decimal("9" * 38)]), "numeric(38,0)", [Decimal("9" * 38)]),
        (pa.array([7]), "numeric(5,2)", [Decimal("7.00")]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "text", ["a", "b", "a"]),
        (pa.array(["ab"], pa.string_view()), "varchar(2)", ["ab"]),
        (pa.array(["ab   "], pa.large_string()), "varchar(2)", ["ab"]),
        (pa.array(["é👍"]), "char(2)", ["é👍"]),
        (pa.array([1, 2]), "text", ["1", "2"]),
        (pa.array([True]), "text", ["true"]),
        (pa.array([1.5]), "text", ["1.5"]),
        (pa.array(['{"a": 1}']), "json", ['{"a": 1}']),
        (pa.array([{"a": 1, "b": [None]}]), "json", ['{"a": 1, "b": [null]}']),
        (pa.array([date(2020, 1, 2)], pa.date64()), "date", [date(2020, 1, 2)]),
        (pa.array([date(2020, 1, 2)]), "timestamp", [datetime(2020, 1, 2)]),
        (pa.array([MOMENT]), "date", [date(2020, 1, 2)]),
        (pa.array([datetime(1969, 12, 31, 23)]), "date", [date(1969, 12, 31)]),
        (pa.array([1577934245], pa.timestamp("s")), "timestamp", [datetime(2020, 1, 2, 3, 4, 5)]),
        (pa.array([1_500, -1_500], pa.timestamp("ns")), "timestamp", None),
        (pa.array([MOMENT], pa.timestamp("us", "Asia/Tokyo")), "timestamp", [MOMENT]),
        (pa.array([MOMENT], pa.timestamp("us", "Asia/Tokyo")), "timestamptz", [MOMENT.replace(tzinfo=UTC)]),
        (pa.array([MOMENT]), "timestamptz", [MOMENT.replace(tzinfo=UTC)]),
        (pa.array([timedelta(days=1, seconds=2)]), "interval", [{"months": 0, "days": 1, "microseconds": 2_000_000}]),
        (
            pa.array([pa.MonthDayNano([1, 2, 3000]), None]),
            "interval",
            [{"months": 1, "days": 2, "microseconds": 3}, None],
        ),
        (pa.array([b"ab"], pa.binary(2)), "bytea", [b"ab"]),
        (pa.array([[1, None], None, []], pa.list_(pa.int64())), "int[]", [[1, None], None, []]),
        (pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int64(), 2)).slice(1), "int[]", [[3, 4], [5, 6]]),
        (
            pa.array([[["a"], None], None], pa.large_list(pa.list_(pa.large_string()))),
            "text[][]",
            [[["a"], None], None],
        ),
        (pa.nulls(2), "int[]", [None, None]),
    ],
)
def test_a_column_is_converted(array: pa.Array, type_name: str, stored: list[object] | None) -> None:
    converted = convert(array, type_name)
    if stored is None:
        # Nanoseconds are rounded to the nearest microsecond.
        stored = [datetime(1970, 1, 1) + timedelta(microseconds=n) for n in (2, -1)]
    assert converted == stored


@pytest.mark.parametrize(
    ("array", "type_name", "sqlstate", "message", "row"),
    [
        (pa.array([1, 2**31]), "int", "22003", "int out of range", 2),
        (pa.array([0, -(2**15) - 1]), "smallint", "22003", "smallint out of range", 2),
        (pa.array([2**63], pa.uint64()), "bigint", "22003", "bigint out of range", 1),
        (pa.array([1.0, 2.5]), "int", "22003", "2.5 has a fraction and is not rounded to int in silence", 2),
        (pa.array([float("nan")]), "int", "22003", "int out of range", 1),
        (pa.array([2.0**63]), "bigint", "22003", "bigint out of range", 1),
        (pa.array([Decimal("1.5")]), "int", "22003", "1.5 has a fraction and is not rounded to int in silence", 1),
        (pa.array([Decimal(2**31)]), "int", "22003", "int out of range", 1),
        (pa.array([Decimal("1.00"), Decimal("999.995")]), "numeric(5,2)", "22003", "numeric field overflow", 2),
        (pa.array([1000]), "numeric(5,2)", "22003", "numeric field overflow", 1),
        (pa.array([1e10]), "numeric(5,2)", "22003", "numeric field overflow", 1),
        (pa.array([1.0, 1e39]), "real", "22003", "real out of range", 2),
        (pa.array(["ab", None, "abc"]), "varchar(2)", "22001", "value too long for type varchar(2)", 3),
        (pa.array(["ab", None, "a\0b"]), "text", "22021", 'invalid byte sequence for encoding "UTF8": 0x00', 3),
        (pa.array(["{}", "{"]), "json", "22P02", "invalid input syntax for type json", 2),
        (pa.array([0, 10**12], pa.timestamp("s")), "timestamp", "22008", "timestamp out of range", 2),
        (pa.array([[1], None, [2, 2**40]]), "int[]", "22003", "int out of range", 3),
    ],
)
def test_a_value_that_does_not_fit_names_its_row(
    array: pa.Array, type_name: str, sqlstate: str, message: str, row: int
) -> None:
    with pytest.raises(Error) as raised:
        convert(array, type_name)
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)
    assert f"Row {row} is (" in str(raised.value.detail)


@pytest.mark.parametrize(
    ("array", "type_name", "source"),
    [
        (pa.array(["1"]), "int", "text"),
        (pa.array(["2020-01-01"]), "date", "text"),
        (pa.array([1]), "boolean", "bigint"),
        (pa.array([True]), "int", "boolean"),
        (pa.array([b"x"]), "text", "bytea"),
        (pa.array([[1]]), "int", "bigint[]"),
        (pa.array([1]), "int[]", "bigint"),
        (pa.array([{"a": 1}]), "text", "struct<a: int64>"),
    ],
)
def test_types_that_do_not_go_together_are_refused(array: pa.Array, type_name: str, source: str) -> None:
    with pytest.raises(Error) as raised:
        convert(array, type_name)
    assert raised.value.sqlstate == "42804"
    assert raised.value.message == f'column "x" is of type {type_name} but expression is of type {source}'
    assert raised.value.hint


def test_a_null_in_a_not_null_column_names_the_row() -> None:
    rows = pa.table({"name": ["Ann", "Bob", None], "id": [1, 2, 4], "age": [None, 3, 5]})
    with pytest.raises(Error) as raised:
        conform(rows, USERS, relation="users")
    assert str(raised.value) == (
        'ERROR:  null value in column "name" of relation "users" violates not-null constraint\n'
        "DETAIL: Row 3 is (null, 4, 5)."
    )


def test_columns_go_by_name_and_a_missing_one_is_null_or_its_default() -> None:
    rows = conform(pa.table({"NAME": ["a"], "id": [1]}), USERS, relation="users")
    assert rows.to_pylist() == [{"id": 1, "name": "a", "age": None}]
    rows = conform(pa.table({"id": [1, 2]}), USERS, relation="users", defaults={"name": "x"})
    assert rows["name"].to_pylist() == ["x", "x"]


@pytest.mark.parametrize("default", [pa.MonthDayNano([1, 2, 3000]), "1 mon 2 days 00:00:00.000003"])
def test_a_default_may_be_what_a_kernel_or_a_person_calls_an_interval(default: object) -> None:
    columns = (Column("id", BIGINT), Column("i", parse_type("interval"), not_null=True, default="…"))
    rows = conform(pa.table({"id": [1]}), columns, relation="t", defaults={"i": default})
    assert rows["i"].to_pylist() == [{"months": 1, "days": 2, "microseconds": 3}]


def test_columns_go_by_position_where_asked() -> None:
    rows = conform(pa.table({"a": [1], "b": ["x"], "c": [2]}), USERS, relation="users", by_name=False)
    assert rows.to_pylist() == [{"id": 1, "name": "x", "age": 2}]
    with pytest.raises(Error, match='relation "users" has 3 columns but the rows have 1'):
        conform(pa.table({"a": [1]}), USERS, relation="users", by_name=False)


@pytest.mark.parametrize(
    ("rows", "sqlstate", "message"),
    [
        (
            pa.table({"id": [1]}),
            "23502",
            'null value in column "name" of relation "users" violates not-null constraint',
        ),
        (pa.table({"id": [1], "naem": ["a"]}), "42703", 'column "naem" of relation "users" does not exist'),
        (pa.table([[1], [2]], names=["id", "id"]), "42701", 'column "id" specified more than once'),
    ],
)
def test_wrong_columns_are_refused(rows: pa.Table, sqlstate: str, message: str) -> None:
    with pytest.raises(Error) as raised:
        conform(rows, USERS, relation="users")
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)


def test_readers_and_batches_are_taken_as_tables_are() -> None:
    table = pa.table({"id": [1, 2], "name": ["a", "b"]})
    for rows in (
        table.to_reader(max_chunksize=1),
        table.to_batches()[0],
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
    ):
        assert conform(rows, USERS, relation="users").num_rows == 2


def test_large_rows_are_converted_in_parts_and_counted_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.ingest.conform._LARGEST_AT_ONCE", 64)
    rows = pa.table({"id": range(100), "name": [str(n) for n in range(100)]})
    assert conform(rows, USERS, relation="users").select(["id", "name"]).equals(rows)
    broken = rows.set_column(1, "name", pa.array([None if n == 70 else "x" for n in range(100)]))
    with pytest.raises(Error) as raised:
        conform(broken, USERS, relation="users")
    assert raised.value.detail == "Row 71 is (70, null)."


@settings(deadline=None)
@given(st.lists(st.none() | st.decimals(-(10**6), 10**6, places=4), min_size=1), st.integers(0, 6))
def test_decimals_round_half_away_from_zero(values: list[Decimal | None], scale: int) -> None:
    array = pa.array(values, pa.decimal128(20, 4))
    step = Decimal(1).scaleb(-scale)
    expected = [None if v is None else v.quantize(step, ROUND_HALF_UP) for v in values]
    assert convert(array, f"numeric(20,{scale})") == expected


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_integers_arrive_whole_or_are_refused(values: list[int | None]) -> None:
    fits = all(value is None or -(2**31) <= value < 2**31 for value in values)
    try:
        assert convert(pa.array(values, pa.int64()), "int") == values
        assert fits
    except Error as error:
        assert not fits
        assert error.sqlstate == "22003"


def test_rows_that_already_fit_cost_next_to_nothing() -> None:
    count = 2_000_000
    columns = (Column("a", BIGINT, True), Column("b", DOUBLE), Column("c", NUMERIC(10, 2)), Column("d", TEXT))
    arrays = [
        pa.repeat(pa.scalar(value, arrow_type(c.type)), count)
        for value, c in zip((1, 0.5, Decimal("1.50"), "x"), columns, strict=True)
    ]
    rows = pa.table(arrays, names=["a", "b", "c", "d"])
    began = time.perf_counter()
    conform(rows, columns, relation="t")
    assert time.perf_counter() - began < 0.5
