"""Records: rows of every type, files, standings and verdicts are read back from the bytes of a frame."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest

from midstream.ingest.arrow_types import arrow_type
from midstream.log.records import (
    BulkFile,
    FilesRecord,
    MadeFile,
    Record,
    RowsRecord,
    Standing,
    StandingRecord,
    VerdictRecord,
    decode,
    encode,
    rows_of,
)
from midstream.types import SIMPLE_NAMES, Type, parse_type

INTERVAL = {"months": 14, "days": -3, "microseconds": 86_400_000_001}
VALUES: dict[str, list[object]] = {
    "smallint": [-32768, 0, 32767],
    "int": [-(2**31), 0, 2**31 - 1],
    "bigint": [-(2**63), 0, 2**63 - 1],
    "real": [0.5, float("inf"), -0.0],
    "double precision": [0.1, float("-inf"), 5e-324],
    "boolean": [True, False, True],
    "text": ["", "ß 漢 🚕", "a" * 1000],
    "varchar(5)": ["", "five!", "\x00"],
    "char(3)": ["abc", "   ", "x  "],
    "json": ['{"a": [1, null]}', "null", ""],
    "date": [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    "timestamp": [datetime(1, 1, 1), datetime(2024, 2, 29, 23, 59, 59, 999_999), datetime(9999, 12, 31)],
    "timestamptz": [datetime(1969, 7, 20, 20, 17, 40, 1, timezone.utc), datetime(2000, 1, 1, tzinfo=timezone.utc)],
    "interval": [INTERVAL, {"months": 0, "days": 0, "microseconds": 0}],
    "bytea": [b"", bytes(range(256)), b"\x00"],
    "numeric(10,2)": [Decimal("-99999999.99"), Decimal("0.00"), Decimal("99999999.99")],
    "numeric(38,0)": [Decimal(10**38 - 1), Decimal(1 - 10**38)],
    "int[]": [[], [1, None, 3], [None]],
    "text[][]": [[["", None], []], [], [[]]],
    "interval[]": [[INTERVAL, None], []],
}


def test_every_type_has_values_here() -> None:
    assert {parse_type(name).name for name in VALUES} >= SIMPLE_NAMES | {"numeric", "varchar", "char", "array"}


def read_back(record: Record) -> Record:
    [found] = decode(memoryview(encode([record])))
    return found


def rows_back(batch: pa.RecordBatch) -> pa.RecordBatch:
    found = read_back(RowsRecord(7, ((3, batch.num_rows),), 0, 1.5, batch.nbytes, batch))
    assert isinstance(found, RowsRecord)
    return rows_of(found, batch.schema)


def column(type_: Type, values: list[object]) -> pa.RecordBatch:
    return pa.record_batch({"a": pa.array(values, arrow_type(type_))})


@pytest.mark.parametrize("name", VALUES)
def test_rows_of_every_type_are_read_back(name: str) -> None:
    type_ = parse_type(name)
    for values in (VALUES[name], [None, *VALUES[name], None], [None], []):
        batch = column(type_, values)
        assert rows_back(batch).equals(batch)


def test_rows_of_all_types_together_are_read_back() -> None:
    columns = {
        name: pa.array([*values, None, None][:3], arrow_type(parse_type(name))) for name, values in VALUES.items()
    }
    batch = pa.record_batch(columns)
    assert rows_back(batch).equals(batch)


@pytest.mark.parametrize("name", VALUES)
def test_a_part_of_a_larger_batch_is_read_back_alone(name: str) -> None:
    values = [None, *VALUES[name], *VALUES[name], None] * 10
    whole = column(parse_type(name), values)
    part = whole.slice(len(values) - 3, 2)
    assert rows_back(part).equals(part)
    assert len(encode([RowsRecord(1, ((1, 2),), 0, 0.0, 0, part)])) < len(encode([RowsRecord(1, (), 0, 0.0, 0, whole)]))


def test_records_of_all_kinds_come_back_in_order() -> None:
    batch = column(Type("int"), [1, 2, 3])
    records: list[Record] = [
        RowsRecord(7, ((3, 1), (5, 2)), 40, 1.25, 12, batch),
        FilesRecord(8, 6, 100, 1.5, (BulkFile("bulk/a.parquet", 10, 99), BulkFile("bulk/b.parquet", 1, 9))),
        FilesRecord(
            8, 7, 111, 1.5, (BulkFile("made/c", 10, 99, ((3, (MadeFile("views/x/d.parquet", 2, 50),)), (4, ()))),)
        ),
        StandingRecord(6, (Standing(7, 43, 1000), Standing(8, 111, 2**40))),
        StandingRecord(0, ()),
        VerdictRecord(6, committed=True),
        VerdictRecord(7, committed=False),
        RowsRecord(7, ((8, 3),), 43, 2.0, 12, batch, prepared=True),
        FilesRecord(8, 8, 111, 2.0, (), prepared=True),
    ]
    assert list(decode(memoryview(encode(records)))) == records


def test_a_record_says_what_it_covers() -> None:
    rows = RowsRecord(7, ((3, 1), (5, 2)), 40, 0.0, 12, None)
    assert (rows.rows, rows.first_scn, rows.last_scn) == (3, 3, 5)
    files = FilesRecord(8, 6, 100, 0.0, (BulkFile("a", 10, 99), BulkFile("b", 1, 9)))
    assert (files.rows, files.bytes, files.first_scn, files.last_scn) == (11, 108, 6, 6)


def test_rows_that_were_read_can_be_written_again() -> None:
    batch = column(Type("text"), ["a", None])
    once = read_back(RowsRecord(7, ((3, 2),), 0, 0.0, 2, batch))
    twice = read_back(once)
    assert isinstance(twice, RowsRecord)
    assert rows_of(twice, batch.schema).equals(batch)
