"""What db.insert takes is recognised without importing the library that it comes from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.errors import Error
from midstream.ingest.sources import ArrowSource, FileSource, FrameSource, RowSource, read_source, source_to_arrow
from midstream.relations.table import Column
from midstream.types import BIGINT, TEXT, TIMESTAMP

COLUMNS = (Column("id", BIGINT), Column("name", TEXT))
ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


@pytest.mark.parametrize(
    "data",
    [
        pa.Table.from_pylist(ROWS),
        pa.RecordBatch.from_pylist(ROWS),
        pandas.DataFrame(ROWS),
        polars.DataFrame(ROWS),
        polars.DataFrame(ROWS).lazy(),
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        [(1, "a"), [2, None]],
    ],
    ids=lambda data: f"{type(data).__module__}.{type(data).__name__}",
)
def test_rows_in_memory_become_the_same_table(data: object) -> None:
    source = read_source(data)
    assert isinstance(source, (ArrowSource, RowSource))
    assert source_to_arrow(source, COLUMNS, relation="t").to_pylist() == ROWS


def test_a_reader_is_read() -> None:
    source = read_source(pa.Table.from_pylist(ROWS).to_reader())
    assert source_to_arrow(source, COLUMNS, relation="t").to_pylist() == ROWS  # type: ignore[arg-type]


def test_the_types_of_pandas_are_taken() -> None:
    frame = pandas.DataFrame(
        {
            "id": pandas.array([1, None], dtype="Int64"),
            "name": pandas.Categorical(["x", None]),
            "at": pandas.to_datetime(["2020-01-02 03:04:05", None]),
        },
        index=[7, 8],
    )
    columns = (*COLUMNS, Column("at", TIMESTAMP))
    rows = source_to_arrow(read_source(frame), columns, relation="t").to_pylist()  # type: ignore[arg-type]
    assert rows[1] == {"id": None, "name": None, "at": None}
    assert (rows[0]["id"], rows[0]["name"], str(rows[0]["at"])) == (1, "x", "2020-01-02 03:04:05")


def test_a_column_of_mixed_objects_is_refused_with_a_way_out() -> None:
    with pytest.raises(Error) as raised:
        read_source(pandas.DataFrame({"a": [1, "x", b"y"]}))
    assert raised.value.message == "the pandas DataFrame has a column that is of no single type"
    assert raised.value.hint == "Insert its rows as dicts instead: frame.to_dict('records')."


def test_no_rows_at_all_are_fine() -> None:
    source = read_source([])
    assert source == RowSource(())
    assert source_to_arrow(source, (Column("id", BIGINT, not_null=True),), relation="t").num_rows == 0


def test_a_spark_frame_is_kept_as_it_is() -> None:
    frame_class = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})
    frame = frame_class()
    assert read_source(frame) == FrameSource(frame)


@pytest.mark.parametrize("data", [5, None, b"bytes", {"id": [1]}, [1, 2], ["ab"], object], ids=repr)
def test_anything_else_is_refused_with_what_is_taken(data: object) -> None:
    with pytest.raises(Error) as raised:
        read_source(data)
    assert raised.value.sqlstate == "42804"
    assert str(raised.value.hint).startswith("Give an Arrow table, a pandas, polars or Spark DataFrame")


def test_dicts_and_tuples_do_not_mix() -> None:
    with pytest.raises(Error, match="either all dicts or all tuples"):
        read_source([{"id": 1}, (2, "b")])


def test_a_path_is_a_list_of_files(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.parquet"):
        pq.write_table(pa.table({"id": [1]}), tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    source = read_source(tmp_path)
    assert source == FileSource((str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")), "parquet")
    assert read_source(str(tmp_path / "*.parquet")) == source


def test_a_csv_path_has_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    assert read_source(tmp_path / "a.csv") == FileSource((str(tmp_path / "a.csv"),), "csv", {"header": True})


def test_nothing_of_pandas_polars_or_spark_is_imported() -> None:
    code = "import sys, midstream.ingest.sources; print({'pandas','polars','pyspark'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
