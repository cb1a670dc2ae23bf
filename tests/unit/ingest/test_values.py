"""Python values go into columns by PostgreSQL's assignment casts; the first bad row is named."""

from __future__ import annotations

import time
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest

from midstream.errors import Error
from midstream.ingest.values import dicts_to_arrow, values_to_arrow
from midstream.relations.table import Column
from midstream.types import BIGINT, INT, NUMERIC, TEXT, TIMESTAMP, parse_type

USERS = (Column("id", BIGINT, not_null=True), Column("name", TEXT, not_null=True), Column("age", INT))


@pytest.mark.parametrize(
    ("type_name", "value", "stored"),
    [
        ("int", 5, 5),
        ("int", Decimal("1.5"), 2),
        ("int", Decimal("-2.5"), -3),
        ("int", 2.5, 2),
        ("int", " 7 ", 7),
        ("double precision", 3, 3.0),
        ("double precision", Decimal("0.1"), 0.1),
        ("real", 1.5, 1.5),
        ("numeric(6,2)", 0.1 + 0.2, Decimal("0.30")),
        ("numeric(6,2)", 7, Decimal("7.00")),
        ("numeric(6,2)", Decimal("1.005"), Decimal("1.01")),
        ("text", 12, "12"),
        ("text", True, "true"),
        ("text", Decimal("1.50"), "1.50"),
        ("text", 1.0, "1"),
        ("text", date(2020, 1, 2), "2020-01-02"),
        ("text", UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        ("boolean", "t", True),
        ("date", datetime(2020, 1, 2, 3), date(2020, 1, 2)),
        ("timestamp", date(2020, 1, 2), datetime(2020, 1, 2)),
        ("timestamp", datetime(2020, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), datetime(2020, 1, 2, 1)),
        ("timestamptz", datetime(2020, 1, 2, 3), datetime(2020, 1, 2, 3, tzinfo=timezone.utc)),
        ("interval", timedelta(days=-1, hours=1), {"months": 0, "days": -1, "microseconds": 3_600_000_000}),
        ("bytea", bytearray(b"ab"), b"ab"),
        ("json", {"a": [1, None]}, '{"a": [1, null]}'),
        ("int[]", [1, "2", None], [1, 2, None]),
        ("text[]", "{a,b}", ["a", "b"]),
    ],
)
def test_a_value_is_assigned(type_name: str, value: object, stored: object) -> None:
    column = Column("x", parse_type(type_name))
    assert values_to_arrow([(value,)], [column], relation="t")["x"].to_pylist() == [stored]


@pytest.mark.parametrize(
    ("type_name", "value", "sqlstate", "message"),
    [
        ("int", True, "42804", 'column "x" is of type int but expression is of type boolean'),
        ("boolean", 1, "42804", 'column "x" is of type boolean but expression is of type int'),
        ("date", 5, "42804", 'column "x" is of type date but expression is of type int'),
        ("int", b"1", "42804", 'column "x" is of type int but expression is of type bytea'),
        ("int", [1], "42804", 'column "x" is of type int but expression is of type array'),
        ("int", 2**31, "22003", "int out of range"),
        ("smallint", Decimal("32767.5"), "22003", "smallint out of range"),
        ("bigint", float("nan"), "22003", "bigint out of range"),
        ("numeric(3,1)", 99.95, "22003", "numeric field overflow"),
        ("numeric(3,1)", float("inf"), "22003", '"inf" cannot be stored in a numeric'),
        ("real", Decimal("1e39"), "22003", '"1E+39" is out of range for type real'),
        ("varchar(2)", 123, "22001", "value too long for type varchar(2)"),
        ("int", "abc", "22P02", 'invalid input syntax for type int: "abc"'),
        ("json", float("nan"), "42804", 'column "x" is of type json but expression is of type double precision'),
        ("text", "a\0b", "22021", 'invalid byte sequence for encoding "UTF8": 0x00'),
        ("char(3)", "a\0b", "22021", 'invalid byte sequence for encoding "UTF8": 0x00'),
        ("text[]", ["a\0b"], "22021", 'invalid byte sequence for encoding "UTF8": 0x00'),
        ("text", "\ud800", "22021", 'invalid byte sequence for encoding "UTF8"'),
        ("text[]", ["\ud800"], "22021", 'invalid byte sequence for encoding "UTF8"'),
    ],
)
def test_what_cannot_be_assigned_is_an_error(type_name: str, value: object, sqlstate: str, message: str) -> None:
    column = Column("x", parse_type(type_name))
    with pytest.raises(Error) as raised:
        values_to_arrow([(value,)], [column], relation="t")
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)
    assert str(raised.value).encode("utf-8"), "an error can be printed, whatever it is about"


def test_a_null_in_a_not_null_column_names_the_row() -> None:
    with pytest.raises(Error) as raised:
        values_to_arrow([(1, "Ann", 3), (2, "Bob", None), (4, None, 5)], USERS, relation="users")
    assert str(raised.value) == (
        'ERROR:  null value in column "name" of relation "users" violates not-null constraint\n'
        "DETAIL: Row 3 is (4, null, 5)."
    )
    assert raised.value.sqlstate == "23502"


def test_of_several_bad_values_the_first_row_is_named() -> None:
    rows = [(1, "a", 1), ("x", "b", 2), (3, "c", "y")]
    with pytest.raises(Error) as raised:
        values_to_arrow(rows, list(reversed(USERS))[::-1], relation="users", first_row=11)
    assert raised.value.message == 'invalid input syntax for type bigint: "x"'
    assert raised.value.detail == "Row 12 is (x, b, 2)."


def test_a_long_value_is_cut_in_the_detail() -> None:
    with pytest.raises(Error) as raised:
        values_to_arrow([(None, "y" * 100, 1)], USERS, relation="users")
    assert raised.value.detail == f"Row 1 is (null, {'y' * 64}..., 1)."


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(Error) as raised:
        values_to_arrow([(1, "a", 2), (1, "a")], USERS, relation="users")
    assert raised.value.message == "INSERT has more target columns than expressions"
    assert raised.value.detail == "Row 2 has 2 values for 3 columns."


def test_no_rows_are_an_empty_table() -> None:
    assert values_to_arrow([], USERS, relation="users").num_rows == 0


def test_dicts_go_by_name_and_a_missing_key_is_null() -> None:
    rows = dicts_to_arrow([{"ID": 1, "name": "a"}, {"ID": 2, "name": "b", "age": 3}], USERS, relation="users")
    assert rows.to_pylist() == [{"id": 1, "name": "a", "age": None}, {"id": 2, "name": "b", "age": 3}]


def test_a_missing_key_takes_the_default() -> None:
    rows = dicts_to_arrow([{"id": 1}, {"id": 2, "name": "b"}], USERS, relation="users", defaults={"name": "nobody"})
    assert rows["name"].to_pylist() == ["nobody", "b"]


def test_an_unknown_key_is_an_error_with_a_guess() -> None:
    with pytest.raises(Error) as raised:
        dicts_to_arrow([{"id": 1, "name": "a"}, {"id": 2, "nmae": "b"}], USERS, relation="users")
    assert str(raised.value) == (
        'ERROR:  column "nmae" of relation "users" does not exist\n'
        'DETAIL: The columns of "users" are id, name, age.\n'
        'HINT:   Did you mean "name"?'
    )
    assert raised.value.sqlstate == "42703"


def test_a_column_that_no_row_has_and_that_must_be_there() -> None:
    with pytest.raises(Error) as raised:
        dicts_to_arrow([{"id": 1}], USERS, relation="users")
    assert (raised.value.sqlstate, raised.value.detail) == (
        "23502",
        'The rows have no column "name", and it has no default.',
    )


def test_a_thousand_rows_take_milliseconds() -> None:
    columns = (Column("a", BIGINT), Column("b", TEXT), Column("c", NUMERIC(10, 2)), Column("d", TIMESTAMP))
    rows = [(n, f"name {n}", Decimal("1.5"), "2020-01-01 00:00:00") for n in range(1000)]
    values_to_arrow(rows, columns, relation="t")
    best = min(_seconds(rows, columns) for _ in range(5))
    assert best < 0.02


def _seconds(rows: list[tuple[object, ...]], columns: tuple[Column, ...]) -> float:
    began = time.perf_counter()
    values_to_arrow(rows, columns, relation="t")
    return time.perf_counter() - began
