"""Texts are read as PostgreSQL reads them, with its error texts, and what is printed is read back."""

from __future__ import annotations

import struct
import time
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from midstream.errors import DataError
from midstream.ingest.faults import BadRow
from midstream.ingest.printed import print_value
from midstream.ingest.texts import parse_text, parse_texts, read_canonical
from midstream.types import Type, parse_type


def interval(months: int, days: int, microseconds: int) -> dict[str, int]:
    return {"months": months, "days": days, "microseconds": microseconds}


HOUR = 3_600_000_000
UTC = timezone.utc


@pytest.mark.parametrize(
    ("type_name", "text", "value"),
    [
        ("int", " -12 ", -12),
        ("int", "+7", 7),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("smallint", "-32768", -32768),
        ("double precision", "1e3", 1000.0),
        ("double precision", "-Infinity", float("-inf")),
        ("real", ".5", 0.5),
        ("numeric(5,2)", "1.005", Decimal("1.01")),
        ("numeric(5,2)", "-1.005", Decimal("-1.01")),
        ("numeric(5,2)", "1e2", Decimal("100.00")),
        ("numeric(2,2)", "0.995", None),
        ("boolean", " YeS ", True),
        ("boolean", "of", False),
        ("date", "2020-02-29", date(2020, 2, 29)),
        ("date", "20200229", date(2020, 2, 29)),
        ("date", "1/8/1999", date(1999, 1, 8)),
        ("date", "January 8, 1999", date(1999, 1, 8)),
        ("date", "8-Jan-1999", date(1999, 1, 8)),
        ("date", "1999-Jan-08", date(1999, 1, 8)),
        ("date", "2020-01-02 03:04:05", date(2020, 1, 2)),
        ("timestamp", "2020-01-02T03:04:05.6789", datetime(2020, 1, 2, 3, 4, 5, 678900)),
        ("timestamp", "2020-01-02 03:04:05.1234567", datetime(2020, 1, 2, 3, 4, 5, 123457)),
        ("timestamp", "2020-01-02 24:00:00", datetime(2020, 1, 3)),
        ("timestamp", "2020-01-02 03:04 PM", datetime(2020, 1, 2, 15, 4)),
        ("timestamp", "2020-01-02 03:04:05+09", datetime(2020, 1, 2, 3, 4, 5)),
        ("timestamp", "epoch", datetime(1970, 1, 1)),
        ("timestamptz", "2020-01-02 03:04:05+0530", datetime(2020, 1, 1, 21, 34, 5, tzinfo=UTC)),
        ("timestamptz", "2020-01-02 03:04-8", datetime(2020, 1, 2, 11, 4, tzinfo=UTC)),
        ("timestamptz", "2020-01-02 03:04+5:45", datetime(2020, 1, 1, 21, 19, tzinfo=UTC)),
        ("timestamptz", "2020-06-02 03:04 America/New_York", datetime(2020, 6, 2, 7, 4, tzinfo=UTC)),
        ("timestamptz", "2020-01-02", datetime(2020, 1, 2, tzinfo=UTC)),
        ("interval", "1 year 2 mons -3 days +04:05:06.5", interval(14, -3, 4 * HOUR + 306_500_000)),
        ("interval", "P1Y2M3DT4H", interval(14, 3, 4 * HOUR)),
        ("interval", "1.5 months ago", interval(-1, -15, 0)),
        ("interval", "1-2", interval(14, 0, 0)),
        ("interval", "3 04:00", interval(0, 3, 4 * HOUR)),
        ("interval", "90", interval(0, 0, 90_000_000)),
        ("interval", "1.5 days", interval(0, 1, 12 * HOUR)),
        ("bytea", "\\xDEad", b"\xde\xad"),
        ("bytea", "a\\000\\\\b", b"a\x00\\b"),
        ("json", '{"a": [1, 2.5e3, null]}', '{"a": [1, 2.5e3, null]}'),
        ("int[]", "{1,NULL, 3}", [1, None, 3]),
        ("int[]", " {} ", []),
        ("text[]", '{a,"b\\"c", null ,"NULL",""}', ["a", 'b"c', None, "NULL", ""]),
        ("int[][]", "{{1,2},{3}}", [[1, 2], [3]]),
        ("varchar(3)", "abc   ", "abc"),
    ],
)
def test_a_text_is_read_as_its_type(type_name: str, text: str, value: object) -> None:
    type = parse_type(type_name)
    if value is None:
        with pytest.raises(DataError):
            parse_text(type, text)
    else:
        assert parse_text(type, text) == value


@pytest.mark.parametrize(
    ("type_name", "text", "sqlstate", "message"),
    [
        ("int", "abc", "22P02", 'invalid input syntax for type int: "abc"'),
        ("int", "1.5", "22P02", 'invalid input syntax for type int: "1.5"'),
        ("int", "", "22P02", 'invalid input syntax for type int: ""'),
        ("int", "٣", "22P02", 'invalid input syntax for type int: "٣"'),
        ("int", "99999999999", "22003", 'value "99999999999" is out of range for type int'),
        ("bigint", "9" * 5000, "22003", f'value "{"9" * 5000}" is out of range for type bigint'),
        ("double precision", "1e400", "22003", '"1e400" is out of range for type double precision'),
        ("double precision", "1e-400", "22003", '"1e-400" is out of range for type double precision'),
        ("real", "1e39", "22003", '"1e39" is out of range for type real'),
        ("numeric(5,2)", "x", "22P02", 'invalid input syntax for type numeric: "x"'),
        ("numeric(5,2)", "999.995", "22003", "numeric field overflow"),
        ("numeric(5,2)", "1e999999999", "22003", "numeric field overflow"),
        ("numeric(5,2)", "NaN", "22003", '"NaN" cannot be stored in a numeric'),
        ("boolean", "maybe", "22P02", 'invalid input syntax for type boolean: "maybe"'),
        ("boolean", "o", "22P02", 'invalid input syntax for type boolean: "o"'),
        ("date", "hello", "22007", 'invalid input syntax for type date: "hello"'),
        ("date", "2020-13-01", "22008", 'date/time field value out of range: "2020-13-01"'),
        ("date", "2021-02-29", "22008", 'date/time field value out of range: "2021-02-29"'),
        ("timestamp", "2020-01-01 25:00", "22008", 'date/time field value out of range: "2020-01-01 25:00"'),
        ("timestamptz", "2020-01-01 00:00+20", "22009", 'time zone displacement out of range: "2020-01-01 00:00+20"'),
        ("timestamptz", "2020-01-01 00:00 Mars/Base", "22023", 'time zone "Mars/Base" not recognized'),
        ("timestamp", "infinity", "22008", '"infinity" cannot be stored in a timestamp'),
        ("timestamp", "now", "22007", '"now" depends on the clock and is not read as a timestamp'),
        ("interval", "1 foo", "22007", 'invalid input syntax for type interval: "1 foo"'),
        ("interval", "", "22007", 'invalid input syntax for type interval: ""'),
        ("interval", "9999999999 months", "22015", 'interval field value out of range: "9999999999 months"'),
        ("bytea", "\\xg0", "22023", 'invalid hexadecimal digit: "g"'),
        ("bytea", "\\x123", "22023", "invalid hexadecimal data: odd number of digits"),
        ("bytea", "a\\b", "22P02", "invalid input syntax for type bytea"),
        ("json", "{a}", "22P02", "invalid input syntax for type json"),
        ("json", "NaN", "22P02", "invalid input syntax for type json"),
        ("json", "[" * 100_000, "22P02", "invalid input syntax for type json"),
        ("int[]", "1,2", "22P02", 'malformed array literal: "1,2"'),
        ("int[]", "{1,", "22P02", 'malformed array literal: "{1,"'),
        ("int[]", "{1,,2}", "22P02", 'malformed array literal: "{1,,2}"'),
        ("int[]", "{1}x", "22P02", 'malformed array literal: "{1}x"'),
        ("int[]", "{a}", "22P02", 'invalid input syntax for type int: "a"'),
        ("varchar(3)", "abcd", "22001", "value too long for type varchar(3)"),
    ],
)
def test_a_bad_text_has_postgresqls_error(type_name: str, text: str, sqlstate: str, message: str) -> None:
    with pytest.raises(DataError) as raised:
        parse_text(parse_type(type_name), text)
    assert (raised.value.sqlstate, raised.value.message) == (sqlstate, message)


def test_a_numeric_that_is_too_large_says_what_would_fit() -> None:
    with pytest.raises(DataError) as raised:
        parse_text(parse_type("numeric(5,2)"), "1000")
    assert raised.value.detail == ("A field with precision 5, scale 2 must round to an absolute value less than 10^3.")


# --- printing and reading again --------------------------------------------------------------------

moments = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31))
texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)
SCALARS: dict[str, st.SearchStrategy[object]] = {
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double precision": st.floats(allow_nan=False, allow_subnormal=True),
    "real": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "numeric(12,3)": st.decimals(-999_999_999, 999_999_999, places=3),
    "boolean": st.booleans(),
    "text": texts,
    "date": st.dates(),
    "timestamp": moments,
    "timestamptz": st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda d: d.replace(tzinfo=UTC)),
    "bytea": st.binary(max_size=6),
    "interval": st.builds(
        interval,
        st.integers(-(2**31) + 1, 2**31 - 1),
        st.integers(-(2**31) + 1, 2**31 - 1),
        st.integers(-(2**62), 2**62),
    ),
}


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Type, object]:
    name = draw(st.sampled_from(sorted(SCALARS)))
    if draw(st.booleans()):
        return parse_type(name), draw(SCALARS[name])
    return parse_type(name + "[]"), draw(st.lists(st.none() | SCALARS[name], max_size=4))


@settings(deadline=None)
@given(typed_values())
def test_what_is_printed_is_read_back(typed: tuple[Type, object]) -> None:
    type, value = typed
    assert parse_text(type, print_value(type, value)) == value


@settings(deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_real_is_printed_with_the_fewest_digits_that_tell_it_apart(value: float) -> None:
    printed = print_value(parse_type("real"), value)
    assert struct.pack("f", float(printed)) == struct.pack("f", value)
    assert len(printed.lstrip("-").replace(".", "").split("e")[0].strip("0")) <= 9


@settings(deadline=None)
@given(st.sampled_from(sorted(SCALARS)), st.text(alphabet="0123456789+-.:eE TZ/nulNaif{}\\x", max_size=24))
def test_any_text_is_a_value_or_a_data_error(name: str, text: str) -> None:
    for type in (parse_type(name), parse_type(name + "[]")):
        try:
            parse_text(type, text)
        except DataError as error:
            assert error.sqlstate.startswith("22")


# --- columns ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.data())
def test_the_fast_path_reads_what_the_slow_one_reads(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(SCALARS)))
    type = parse_type(name)
    texts = [print_value(type, value) for value in data.draw(st.lists(SCALARS[name], min_size=1, max_size=3))]
    fast = read_canonical(type, pa.array(texts))
    if fast is not None:
        assert [_comparable(v) for v in fast.to_pylist()] == [_comparable(parse_text(type, t)) for t in texts]


def _comparable(value: object) -> object:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


@settings(deadline=None)
@example("date", "0000-01-01")
@example("timestamptz", "0001-01-01 00:00:00+14")
@given(
    st.sampled_from(
        ["smallint", "int", "bigint", "numeric(6,2)", "double precision", "date", "timestamp", "timestamptz"]
    ),
    st.text(alphabet="0123456789+-.: ", min_size=1, max_size=26)
    | st.from_regex(
        r"[0-2][0-9]{3}-[0-3][0-9]-[0-3][0-9]( [0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.[0-9]{1,7})?([+-]1[0-9])?)?",
        fullmatch=True,
    ),
)
def test_the_fast_path_never_takes_what_the_slow_one_refuses(name: str, text: str) -> None:
    type = parse_type(name)
    fast = read_canonical(type, pa.array([text]))
    if fast is not None:
        assert _comparable(fast.to_pylist()[0]) == _comparable(parse_text(type, text))


def test_the_first_bad_text_of_a_column_is_named() -> None:
    with pytest.raises(BadRow) as raised:
        parse_texts(parse_type("int"), pa.array(["1", None, "x", "y"]))
    assert raised.value.row == 2
    assert raised.value.error.message == 'invalid input syntax for type int: "x"'


@pytest.mark.parametrize(
    ("type_name", "text"), [("int", "123"), ("numeric(10,2)", "12.34"), ("timestamp", "2020-01-02 03:04:05.5")]
)
def test_columns_in_the_usual_form_are_read_by_the_million(type_name: str, text: str) -> None:
    column = pa.array([text] * 200_000)
    began = time.perf_counter()
    parse_texts(parse_type(type_name), column)
    assert time.perf_counter() - began < 1.0
