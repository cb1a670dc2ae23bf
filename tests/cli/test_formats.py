"""Values as text: what programs read from CSV and JSON."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from midstream.cli.formats import json_line, unique_names
from midstream.cli.screen import plain_columns
from midstream.ingest.printed import plain


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (12, "12"),
        (Decimal("0E-10"), "0.0000000000"),
        (Decimal("12345678901234567890.10"), "12345678901234567890.10"),
        (1.0, "1"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (date(2027, 1, 2), "2027-01-02"),
        (datetime(2027, 1, 2, 3, 4, 5), "2027-01-02 03:04:05"),
        (datetime(2027, 1, 2, 3, 4, 5, tzinfo=timezone.utc), "2027-01-02 03:04:05+00:00"),
        (timedelta(days=1, hours=2), "1 day 02:00:00"),
        (timedelta(hours=-1), "-01:00:00"),
        (timedelta(days=-2, microseconds=-500000), "-2 days -00:00:00.5"),
        (b"\x00\xff", "\\x00ff"),
        ([1, None, 3], "{1,NULL,3}"),
        (["a b", "", "null", 'say "hi"', "x"], '{"a b","","null","say \\"hi\\"",x}'),
    ],
)
def test_values_print_as_postgresql_prints_them(value: object, text: str) -> None:
    assert plain(value) == text


def test_a_json_line_keeps_every_digit() -> None:
    line = json_line(["n"], ["numeric(38,10)"], (Decimal("1234567890123456789012345678.0123456789"),))
    assert line == '{"n": 1234567890123456789012345678.0123456789}'


def test_a_json_line_reads_back() -> None:
    names = ["i", "f", "t", "b", "none", "list", "day", "raw", "json"]
    types = ["bigint", "double precision", "text", "boolean", "text", "bigint[]", "date", "bytea", "json"]
    row = (2**62, float("inf"), 'é"\n', False, None, [1, None], date(2027, 1, 2), b"\x01", '{"a":\n [1]}')
    line = json_line(names, types, row)
    assert "\n" not in line
    assert json.loads(line) == {
        "i": 2**62, "f": "Infinity", "t": 'é"\n', "b": False, "none": None, "list": [1, None],
        "day": "2027-01-02", "raw": "\\x01", "json": {"a": [1]},
    }  # fmt: skip


def test_a_second_column_of_the_same_name_gets_a_number() -> None:
    assert unique_names(["n", "n", "n_2", "n"]) == ["n", "n_2", "n_2_2", "n_3"]


def test_plain_columns_line_up_whatever_the_width_of_the_characters() -> None:
    lines = list(plain_columns(["id", "name"], [True, False], [["1", "日本"], ["12", "a\nb"]]))
    assert lines == ["id | name", "---+-----", " 1 | 日本", "12 | a↵b"]
