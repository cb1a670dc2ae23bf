"""What COPY writes is what PostgreSQL writes, can be read again, and appears whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duckdb_task import run_piece
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import Error
from midstream.ingest.arrow_types import arrow_schema
from midstream.ingest.export import export
from midstream.ingest.files import open_files, select_for, split
from midstream.ingest.values import values_to_arrow
from midstream.relations.table import Column
from midstream.types import INT, TEXT, parse_type

MOMENT = datetime(2020, 1, 2, 3, 4, 5, 600000)
VALUES: dict[str, object] = {
    "int": -5,
    "real": 0.1,
    "double precision": 1e20,
    "numeric(6,2)": Decimal("1.50"),
    "boolean": True,
    "text": 'a "b", c',
    "json": '{"a":\n1}',
    "date": date(2020, 1, 2),
    "timestamp": MOMENT,
    "timestamptz": MOMENT.replace(tzinfo=timezone.utc),
    "interval": "1 year -2 days",
    "bytea": b"\xde\xad",
    "text[]": ["a", None, "", "x,y"],
}
COLUMNS = tuple(Column(f"c{n}", parse_type(name)) for n, name in enumerate(VALUES))
TYPES = [column.type for column in COLUMNS]


@pytest.fixture
def table() -> pa.Table:
    return values_to_arrow([tuple(VALUES.values()), (None,) * len(VALUES)], COLUMNS, relation="t")


def test_csv_is_as_postgresql_writes_it(tmp_path: Path, table: pa.Table) -> None:
    assert export(table, TYPES, str(tmp_path / "a.csv"), {"header": True}) == 2
    assert (tmp_path / "a.csv").read_text() == (
        "c0,c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12\n"
        '-5,0.1,1e+20,1.50,t,"a ""b"", c","{""a"":\n1}",2020-01-02,2020-01-02 03:04:05.6,2020-01-02 03:04:05.6+00,'
        '1 year -2 days,\\xdead,"{a,NULL,"""",""x,y""}"\n'
        ",,,,,,,,,,,,\n"
    )


def test_json_has_an_object_on_each_line(tmp_path: Path, table: pa.Table) -> None:
    export(table, TYPES, str(tmp_path / "a.json"), {})
    first, second = (tmp_path / "a.json").read_text().splitlines()
    assert list(json.loads(first).values()) == [
        -5,
        0.1,
        1e20,
        1.5,
        True,
        'a "b", c',
        {"a": 1},
        "2020-01-02",
        "2020-01-02T03:04:05.6",
        "2020-01-02T03:04:05.6+00:00",
        "1 year -2 days",
        "\\xdead",
        ["a", None, "", "x,y"],
    ]
    assert set(json.loads(second).values()) == {None}


def test_parquet_has_the_physical_types(tmp_path: Path, table: pa.Table) -> None:
    export(table, TYPES, str(tmp_path / "a.parquet"), {})
    assert pq.read_table(tmp_path / "a.parquet").equals(table)


def test_an_interval_of_a_kernel_is_written_as_it_is_stored(tmp_path: Path) -> None:
    table = pa.table({"i": pa.array([pa.MonthDayNano([1, 2, 3000])])})
    for name, expected in {
        "a.csv": "1 mon 2 days 00:00:00.000003\n",
        "a.json": '{"i":"1 mon 2 days 00:00:00.000003"}\n',
    }.items():
        export(table, [parse_type("interval")], str(tmp_path / name), {})
        assert (tmp_path / name).read_text() == expected
    export(table, [parse_type("interval")], str(tmp_path / "a.parquet"), {})
    assert pq.read_table(tmp_path / "a.parquet")["i"].to_pylist() == [{"months": 1, "days": 2, "microseconds": 3}]


def test_empty_text_and_null_are_told_apart(tmp_path: Path) -> None:
    table = pa.table({"a": ["", None, "\\.", "x"], "b": [None, "", "NULL", " y "]})
    export(table, [TEXT, TEXT], str(tmp_path / "a.csv"), {})
    assert (tmp_path / "a.csv").read_text() == '"",\n,""\n\\.,NULL\nx, y \n'
    export(table, [TEXT, TEXT], str(tmp_path / "a.csv"), {"null": "NULL", "delimiter": "|"})
    assert (tmp_path / "a.csv").read_text() == '|NULL\nNULL|\n\\.|"NULL"\nx| y \n'


def test_a_line_that_would_end_the_data_is_quoted(tmp_path: Path) -> None:
    export(pa.table({"a": ["\\."]}), [TEXT], str(tmp_path / "a.csv"), {})
    assert (tmp_path / "a.csv").read_text() == '"\\."\n'


texts = st.none() | st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(texts, st.none() | st.integers(-(2**31), 2**31 - 1), st.none() | st.lists(texts, max_size=3)),
        min_size=1,
        max_size=5,
    )
)
def test_exported_rows_are_copied_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, ...]]
) -> None:
    columns = (Column("a", TEXT), Column("b", INT), Column("c", parse_type("text[]")))
    table = values_to_arrow(rows, columns, relation="t") if rows else pa.table([], schema=arrow_schema(columns))
    for format in ("csv", "json"):
        path = str(tmp_path_factory.getbasetemp() / f"again.{format}")
        export(table, [c.type for c in columns], path, {})
        [piece] = split(open_files(path, {}, columns, relation="t"), 1)
        assert run_piece(piece, select_for(columns, piece)).to_pylist() == table.to_pylist()


def test_no_rows_are_a_header_and_no_names_twice(tmp_path: Path) -> None:
    empty = pa.table({"a": pa.array([], pa.int32())})
    export(empty, [INT], str(tmp_path / "a.csv"), {"header": True}, names=["A b"])
    assert (tmp_path / "a.csv").read_text() == "A b\n"
    for name in ("a.json", "a.parquet"):
        with pytest.raises(Error, match='two columns of the result are called "x"'):
            export(pa.table([[1], [2]], names=["a", "b"]), [INT, INT], str(tmp_path / name), {}, names=["x", "x"])


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("old")

    def breaking() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": [1]})
        raise Error("stopped")

    with pytest.raises(Error, match="stopped"):
        export(breaking(), [INT], str(tmp_path / "a.csv"), {})
    assert os.listdir(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"
    export(pa.table({"a": [1]}), [INT], str(tmp_path / "a.csv"), {})
    assert (tmp_path / "a.csv").read_text() == "1\n"


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    with pytest.raises(Error, match="Is a directory"):
        export(pa.table({"a": [1]}), [INT], str(tmp_path), {"format": "csv"})
    with pytest.raises(Error) as raised:
        export(pa.table({"a": [1]}), [INT], str(tmp_path / "no" / "a.csv"), {})
    assert raised.value.sqlstate == "58P01"
