"""PostgreSQL itself says what a text means, how a value is printed and how a CSV file is written."""

from __future__ import annotations

import io
from datetime import datetime, timezone
from typing import Any

import psycopg
import pytest

from midstream.errors import DataError
from midstream.ingest.arrow_types import python_value
from midstream.ingest.csv_records import CsvRules
from midstream.ingest.export import write_csv
from midstream.ingest.printed import print_value
from midstream.ingest.texts import parse_text
from midstream.ingest.values import values_to_arrow
from midstream.relations.table import Column
from midstream.types import parse_type

pytestmark = pytest.mark.postgres

TEXTS = {
    "smallint": ["32767", "32768", " +5 ", "1.5", "", "abc"],
    "bigint": ["-9223372036854775808", "9223372036854775808"],
    "real": ["0.1", "1e39", "1e-46", "123456789", "1e15", "nan", "Infinity"],
    "double precision": ["0.1", "1e15", "123456789012345", "1e-5", "0.0001", "1e400", "-0", "5.", ".5", "inf"],
    "numeric(5,2)": ["1.005", "-1.005", "999.994", "999.995", "1e2", "1005e-3", "5.", "x", "1e-400"],
    "boolean": ["t", "YES", " on", "of", "o", "2", "1", "tru"],
    "varchar(3)": ["abc", "abc   ", "abcd", "é👍x"],
    "date": [
        "2020-02-29",
        "2021-02-29",
        "20200229",
        "1/8/1999",
        "January 8, 1999",
        "8-Jan-1999",
        "1999-Jan-08",
        "hello",
        "2020-01-02 10:00",
        "2020-13-01",
        "Jan 8 1999",
        "1999/1/8",
        "epoch",
    ],
    "timestamp": [
        "2020-01-02 03:04:05.6789",
        "2020-01-02T03:04:05Z",
        "2020-01-02 24:00:00",
        "2020-01-02 25:00:00",
        "2020-01-02 03:04 PM",
        "2020-01-02 03:04:60",
        "2020-01-02 03:04:05.1234567",
        "2020-01-02 3:4",
        "x",
    ],
    "timestamptz": [
        "2020-01-02 03:04:05+02",
        "2020-01-02 03:04:05+0530",
        "2020-01-02 03:04-8",
        "2020-01-02 03:04+5:45",
        "2020-06-02 03:04 America/New_York",
        "2020-01-02 03:04 PM -08:00",
        "2020-01-02",
        "2020-01-01 0:00+20",
    ],
    "interval": [
        "1 year 2 mons -3 days +04:05:06.5",
        "P1Y2M3DT4H5M6.5S",
        "1.5 months ago",
        "1-2",
        "3 04:00",
        "90",
        "1.5 days",
        "-1 years -2 mons +3 days -04:05:06",
        "1 foo",
        "",
        "2 weeks",
        "1.5 years",
        "@ 1 day",
        "00:00:00.0000005",
        "1 decade",
        "-00:00:01",
        "36:00:00",
        "1 day -1 hour",
        "1.3 mons",
        "1.25 weeks",
    ],
    "bytea": ["\\xDEad", "\\xabc", "\\xzz", "a\\000\\\\b", "a\\b", "plain"],
    "json": ['{"a": [1, -2.5e+3, true, null]}', "[1,]", "NaN", "01", "", '"\\u00e9"', "nul", " 1 "],
    "int[]": ["{1,NULL, 3}", "{}", " { } ", "{1,}", "{,1}", "1,2", "{a}", '{"1"}', "{1}x", "{null}"],
    "text[]": ['{a,"b\\"c", null ,"NULL","",x y }', '{"a,b"}', "{a\\,b}", '{"\\\\"}', '{"a" , "b"}', "{}"],
    "timestamp[]": ['{"2020-01-02 03:04:05",NULL}'],
}


@pytest.fixture(scope="module")
def server(postgres_dsn: str) -> Any:
    with psycopg.connect(
        postgres_dsn, autocommit=True, options="-c timezone=UTC -c client_encoding=utf8"
    ) as connection:
        yield connection


@pytest.mark.parametrize(("type_name", "text"), [(name, text) for name, texts in TEXTS.items() for text in texts])
def test_a_text_means_what_it_means_in_postgresql(server: Any, type_name: str, text: str) -> None:
    """Compared by how the value is printed; of a refusal, the SQLSTATE counts."""
    try:
        [(expected,)] = server.execute(f"SELECT CAST(%s::{type_name} AS text)", (text,)).fetchall()
    except psycopg.Error as error:
        expected = error.sqlstate
    type = parse_type(type_name)
    try:
        value = parse_text(type, text)
        printed = value if isinstance(value, str) else print_value(type, value)
    except DataError as error:
        printed = error.sqlstate
    if type_name == "varchar(3)":
        # A cast to varchar(n) cuts, an assignment does not: only the latter is ours.
        assert printed == (expected if not text[3:].strip() else "22001")
    elif type_name == "boolean" and expected in ("true", "false"):
        assert printed == expected[0]
    else:
        assert printed == expected


VALUES: dict[str, list[object]] = {
    "int": [1, None, -5],
    "double precision": [0.1, 1e15, -1.5e-7],
    "real": [0.1, 1e15, 123456.0],
    "numeric(8,3)": ["1.5", "-0.001", None],
    "boolean": [True, False, None],
    "text": ['a "b", c', "", None],
    "varchar(9)": ["x\ny", "\\.", " z "],
    "date": ["2020-01-02", "0001-01-01", "9999-12-31"],
    "timestamp": ["2020-01-02 03:04:05.6", "1969-12-31 23:59:59.999999", None],
    "timestamptz": ["2020-01-02 03:04:05+02", None, "2020-01-02"],
    "interval": ["1 year -2 days", "-00:00:01.5", "1 mon 1 day 01:00:00"],
    "bytea": ["\\xdead", "\\x", None],
    "text[]": ['{a,NULL,"","x,y"}', "{}", '{"q\\"\\\\"}'],
    "json": ['{"a": 1}', "[1,\n2]", None],
}


def test_csv_is_written_as_postgresql_writes_it(server: Any) -> None:
    columns = tuple(Column(f"c{n}", parse_type(name)) for n, name in enumerate(VALUES))
    rows = list(zip(*VALUES.values(), strict=True))
    server.execute("DROP TABLE IF EXISTS exported")
    server.execute(f"CREATE TABLE exported ({', '.join(f'{c.name} {c.type}' for c in columns)})")
    for row in rows:
        server.execute(f"INSERT INTO exported VALUES ({', '.join(['%s'] * len(row))})", row)
    for options, rules in (
        ("HEADER", CsvRules(header=True)),
        ("DELIMITER '|', NULL 'x'", CsvRules(delimiter="|", null="x")),
        ("QUOTE '''', ESCAPE '\\'", CsvRules(quote="'", escape="\\")),
    ):
        with server.cursor().copy(f"COPY exported TO STDOUT (FORMAT csv, {options})") as copy:
            expected = b"".join(bytes(block) for block in copy)
        ours = io.BytesIO()
        write_csv(ours, [values_to_arrow(rows, columns, relation="t")], [c.type for c in columns], rules)
        assert ours.getvalue().decode() == expected.decode()


def test_python_values_are_those_of_a_postgresql_client(server: Any) -> None:
    cases = {
        "timestamptz": "2020-01-02 03:04:05+02",
        "interval": "1 day 02:00:00",
        "numeric(5,2)": "1.5",
        "bytea": "\\xff",
    }
    for name, text in cases.items():
        [(expected,)] = server.execute(f"SELECT %s::{name}", (text,)).fetchall()
        value = python_value(parse_text(parse_type(name), text), parse_type(name))
        assert value == (expected.astimezone(timezone.utc) if isinstance(expected, datetime) else expected)
