"""The kernel's SQL reads a text exactly as Python does, or both refuse it."""

from __future__ import annotations

from datetime import datetime, timezone

import duckdb
import pyarrow as pa
import pytest
from duckdb_task import run_expression
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import DataError, Unsupported
from midstream.ingest.kernel_text import from_text, parse_readable
from midstream.types import Type, parse_type

FORMS = {
    "smallint": ["0", " -7 ", "+32767", "32768", "1.5", "1e3", "0x1F", "1_000", "", "abc", "٣"],
    "int": ["2147483647", "-2147483648", "2147483648", "\t5\n", "--5", "9" * 40],
    "bigint": ["9223372036854775807", "9223372036854775808"],
    "double precision": ["1", "-1.5e-3", ".5", "5.", "1e400", "1e-400", "inf", "-Infinity", "0e5", "0x10", "1_0"],
    "real": ["1e38", "1e39", "0.1", "16777217", "1e-46"],
    "numeric(5,2)": ["1.005", "-1.005", "999.994", "999.995", "1e2", "1005e-3", "1.5E-3", "12e-1", ".5", "5.", "1e99"],
    "numeric(38,10)": ["1" * 28, "1" * 29, "0.00000000005", "1e27", "123456789e-12"],
    "boolean": ["t", "TRUE", "off", " on ", "of", "o", "2", "yess", "1", "0"],
    "date": ["2020-02-29", "2021-02-29", "2020-1-2", "2020/01/02", "0000-01-01", "2020-01-02 10:00", "2020-13-01"],
    "timestamp": [
        "2020-01-02",
        "2020-01-02T03:04:05.5",
        "2020-01-02 03:04:05.1234567",
        "2020-01-02 03:04:05.1234564",
        "2020-12-31 23:59:59.9999995",
        "2020-01-02 03:04:05.123456789+02",
        "2020-01-02 24:00:00",
        "2020-01-02 25:00:00",
        "2020-01-02 03:04",
        "2020-01-02 03:04:05Z",
        "2020-01-02 03:04:05 +0530",
        "infinity",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "0000-12-31 00:00:00",
    ],
    "timestamptz": [
        "2020-01-02",
        "2020-01-02 03:04:05+02",
        "2020-01-02 03:04:05-0530",
        "2020-01-02 03:04:05.123456789 +05:45",
        "2020-01-02T03:04Z",
        "2020-01-02 03:04:05",
    ],
    "interval": [
        "1 year 2 mons -3 days +04:05:06.5",
        "-1 years -2 mons +3 days -04:05:06",
        "00:00:00",
        "1 week",
        "36 hours 5 mins 1.25 secs",
        "1 day",
        "1 foo",
        "-00:00:00.5",
        "12:60:00",
        "2 months 1 year",
        "3d 4h",
    ],
    "bytea": ["\\x", "\\xDEad00", "\\xabc", "\\xzz", "plain", "a\\b", "é"],
    "json": [
        '{"a": [1, -2.5e+3, true, null]}',
        "[1,]",
        "NaN",
        "{'a':1}",
        '"\\u00e9\\n"',
        "",
        "[1] 2",
        "01",
        "// c\n1",
        "-Infinity",
        '{"a":1,}',
        "nul",
        "  1  ",
        '{"a" "b"}',
    ],
    "varchar(3)": ["abc", "abc  ", "abcd", "é👍x", ""],
    "int[]": ["{}", "{1, 2 ,NULL}", "{ }", "{1,}", "{,1}", "1,2", "{a}", '{"1",2}', "{1 2}", "{{1}}", "{null}"],
    "text[]": ['{a,"b c",NULL,"NULL","","\\"q\\\\"}', "{a b, c }", '{"a,b",{}', "{}", '{a"b"}', '{"a"b}'],
    "date[]": ["{2020-01-02,NULL}", '{"2020-01-02"}', "{x}"],
}


@pytest.mark.parametrize(("type_name", "text"), [(name, text) for name, texts in FORMS.items() for text in texts])
def test_kernel_and_python_agree(type_name: str, text: str) -> None:
    type = parse_type(type_name)
    assert _by_kernel(type, text) == _by_python(type, text)


REFUSED = "refused"


def _by_kernel(type: Type, text: str) -> object:
    try:
        [value] = run_expression(from_text('"x"', type), [text])
    except duckdb.Error:
        return REFUSED
    return _comparable(value)


def _by_python(type: Type, text: str) -> object:
    try:
        return _comparable(parse_readable(type, text))
    except DataError:
        return REFUSED


def _comparable(value: object) -> object:
    if isinstance(value, list):
        return [_comparable(each) for each in value]
    if isinstance(value, pa.MonthDayNano):
        return {"months": value.months, "days": value.days, "microseconds": value.nanoseconds // 1000}
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(timezone.utc)
    return value


ALPHABETS = {
    "int": "0123456789+- .e_x",
    "double precision": "0123456789+-.eE infa",
    "numeric(9,3)": "0123456789+-.eE ",
    "boolean": "truefalsynoTF10 ",
    "interval": "0123456789+-:. ydmonshrwe",
    "json": '[]{}:,"0123456789-.eE truefalsnN\\/u',
    "int[]": '{}, 0123456789"NUL\\',
    "text[]": '{}, ab"NULnul\\',
    "bytea": "\\x0123abcG",
}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_kernel_and_python_agree_on_any_text(data: st.DataObject) -> None:
    type_name = data.draw(st.sampled_from(sorted(ALPHABETS)))
    texts = data.draw(st.lists(st.text(ALPHABETS[type_name], max_size=12), min_size=1, max_size=8))
    type = parse_type(type_name)
    for text in texts:
        assert (text, _by_kernel(type, text)) == (text, _by_python(type, text))


dates = st.from_regex(r"[0-2][0-9]{3}-[0-1]?[0-9]-[0-3]?[0-9]", fullmatch=True)
clocks = st.from_regex(
    r"([ T][0-2]?[0-9]:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,9})?)?)?( ?(Z|[+-][0-2][0-9](:?[0-6][0-9])?))?", fullmatch=True
)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["date", "timestamp", "timestamptz"]), dates, clocks)
def test_kernel_and_python_agree_on_any_time(type_name: str, day: str, clock: str) -> None:
    type = parse_type(type_name)
    assert _by_kernel(type, day + clock) == _by_python(type, day + clock)


def test_null_stays_null() -> None:
    for type_name in FORMS:
        assert run_expression(from_text('"x"', parse_type(type_name)), [None]) == [None]


def test_arrays_of_arrays_are_not_read_from_text() -> None:
    with pytest.raises(Unsupported, match="cannot be read from a text file"):
        from_text('"x"', parse_type("int[][]"))


def test_a_form_that_files_cannot_have_says_which_they_can() -> None:
    with pytest.raises(DataError) as raised:
        parse_readable(parse_type("date"), "January 8, 1999")
    assert str(raised.value) == (
        'ERROR:  invalid input syntax for type date: "January 8, 1999"\nHINT:   Files give dates as 2020-01-31.'
    )
