"""`db.insert` from every source, checked like INSERT, all or nothing; and tables that any Delta reader reads."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import midstream

ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "price": Decimal("1.50"), "at": dt.datetime(2024, 1, 1, 10)},
    {"id": 2, "name": None, "price": None, "at": None},
    {"id": 3, "name": "ü😀", "price": Decimal("-3.25"), "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999)},
]
ARROW = pa.Table.from_pylist(
    ROWS,
    schema=pa.schema(
        [("id", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(8, 2)), ("at", pa.timestamp("us"))]
    ),
)


def pandas_frame(db: Any, folder: Path) -> Any:
    return ARROW.to_pandas()


def polars_frame(db: Any, folder: Path) -> Any:
    import polars

    return polars.from_arrow(ARROW)


def spark_frame(db: Any, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    fields = "id int, name string, price decimal(8,2), at timestamp_ntz"
    return session.createDataFrame([tuple(row.values()) for row in ROWS], fields)


def parquet_path(db: Any, folder: Path) -> str:
    pa.parquet.write_table(ARROW, folder / "rows.parquet")
    return str(folder / "rows.parquet")


def json_path(db: Any, folder: Path) -> str:
    path = folder / "rows.json"
    path.write_text("\n".join(json.dumps(row, default=str) for row in ROWS))
    return str(path)


def csv_path(db: Any, folder: Path) -> str:
    path = folder / "rows.csv"
    path.write_text("id,name,price,at\n1,a,1.50,2024-01-01 10:00:00\n2,,,\n3,ü😀,-3.25,1969-12-31 23:59:59.999999\n")
    return str(path)


SOURCES: dict[str, Callable[[Any, Path], Any]] = {
    "list of dicts": lambda db, folder: ROWS,
    "arrow table": lambda db, folder: ARROW,
    "arrow batch": lambda db, folder: ARROW.to_batches()[0],
    "arrow reader": lambda db, folder: ARROW.to_reader(),
    "other order": lambda db, folder: ARROW.select(["at", "price", "name", "id"]),
    "pandas": pandas_frame,
    "polars": polars_frame,
    "spark": spark_frame,
    "parquet path": parquet_path,
    "json path": json_path,
    "csv path": csv_path,
    "pathlib": lambda db, folder: Path(parquet_path(db, folder)),
}


@pytest.fixture
def target(db: Any) -> Any:
    db.sql("CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(8,2), at timestamp)")
    return db


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_rows_come_from(target: Any, tmp_path: Path, source: Callable[[Any, Path], Any]) -> None:
    result = target.insert("t", source(target, tmp_path))
    assert result.status == "INSERT 0 3"
    assert result.scn == target.sql("SELECT current_scn()").fetchone()[0]
    assert sorted(target.sql("SELECT * FROM t").fetchall()) == [tuple(row.values()) for row in ROWS]


def test_a_missing_column_is_null_or_its_default(db: Any) -> None:
    db.sql("CREATE TABLE t (id int, name text, level int DEFAULT 5)")
    db.insert("t", [{"id": 1}])
    db.insert("t", pa.table({"name": ["x"]}))
    assert sorted(db.sql("SELECT * FROM t").fetchall(), key=str) == [(1, None, 5), (None, "x", 5)]


WRONG = {
    "an extra column": ([{"id": 1, "color": "red"}], "42703"),
    "a type that does not fit": ([{"id": "x"}], None),
    "a number that is too large": ([{"id": 2**40}], "22003"),
    "a key twice": ([{"id": 1}, {"id": 1}], "23505"),
    "no key": ([{"name": "x"}], "23502"),
    "something else": (42, None),
    "a path that is not there": ("/nowhere.parquet", None),
    "a price that is too large": ([{"id": 1, "price": Decimal("12345678.9")}], "22003"),
}


@pytest.mark.parametrize(("rows", "sqlstate"), WRONG.values(), ids=WRONG.keys())
def test_what_does_not_fit_is_refused_whole(target: Any, rows: Any, sqlstate: str | None) -> None:
    with pytest.raises(midstream.Error) as caught:
        target.insert("t", rows)
    assert caught.value.sqlstate != "XX000"
    assert sqlstate in (None, caught.value.sqlstate)
    assert target.sql("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_table_that_is_not_there(db: Any) -> None:
    with pytest.raises(midstream.Error) as caught:
        db.insert("nowhere", [{"a": 1}])
    assert caught.value.sqlstate == "42P01"


def test_no_rows_are_no_harm(target: Any) -> None:
    target.insert("t", ARROW.slice(0, 0))
    target.insert("t", [])
    assert target.sql("SELECT count(*) FROM t").fetchone() == (0,)


def test_many_rows_at_once(db: Any) -> None:
    db.sql("CREATE TABLE wide (id bigint PRIMARY KEY, v text)")
    count = 200_000
    db.insert("wide", pa.table({"id": range(count), "v": [str(n % 7) for n in range(count)]}))
    assert db.sql("SELECT count(*), sum(id), count(DISTINCT v) FROM wide").fetchall() == [
        (count, count * (count - 1) // 2, 7)
    ]


BAD_LINES = {
    "a number": ("id,name\n1,a\nx,b\n3,c\n", 3),
    "too few": ("id,name\n1,a\n2\n", 3),
    "too many": ("id,name\n1,a,z\n", 2),
    "quote": ('id,name\n1,a\n2,"b\n', None),
    "after a field of two lines": ('id,name\n1,"a\nb"\nx,c\n', 4),
}


@pytest.mark.parametrize(("text", "line"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_told_with_file_and_line(db: Any, tmp_path: Path, text: str, line: int | None) -> None:
    db.sql("CREATE TABLE t (id int, name text)")
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(midstream.Error) as caught:
        db.sql(f"COPY t FROM '{path}' CSV HEADER")
    said = str(caught.value)
    assert "bad.csv" in said
    assert line is None or f"line {line}" in said
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_folder_of_files_is_all_or_nothing(db: Any, tmp_path: Path) -> None:
    db.sql("CREATE TABLE t (id int, name text)")
    (tmp_path / "1.csv").write_text("1,a\n2,b\n")
    (tmp_path / "2.csv").write_text("3,c\n")
    assert db.sql(f"COPY t FROM '{tmp_path}' CSV").status == "COPY 3"
    (tmp_path / "3.csv").write_text("x,c\n")
    with pytest.raises(midstream.Error) as caught:
        db.sql(f"COPY t FROM '{tmp_path}/*.csv' CSV")
    assert "3.csv" in str(caught.value)
    assert sorted(db.sql("SELECT id FROM t").fetchall()) == [(1,), (2,), (3,)]


def test_any_delta_reader_reads_the_table(database: Any, tmp_path: Path) -> None:
    import duckdb
    from deltalake import DeltaTable

    folder = tmp_path / "open.db"
    db = midstream.connect(str(folder))
    db.sql("CREATE TABLE t (id int PRIMARY KEY, name text, price numeric(8,2), at timestamp, tags int[])")
    db.sql("INSERT INTO t VALUES (1, 'a', 1.5, '2024-01-01 10:00', ARRAY[1, 2]), (2, 'b', 2.5, NULL, NULL)")
    db.sql("INSERT INTO t (id) VALUES (3)")
    db.sql("UPDATE t SET name = 'B' WHERE id = 2")
    db.sql("DELETE FROM t WHERE id = 3")
    db.close()
    (log,) = folder.glob("tables/*/_delta_log")
    table = DeltaTable(str(log.parent))
    rows = table.to_pyarrow_table(columns=["id", "name", "price"]).to_pylist()
    wanted = [(1, "a", Decimal("1.50")), (2, "B", Decimal("2.50"))]
    assert sorted(tuple(row.values()) for row in rows) == wanted
    files = table.file_uris()
    read = duckdb.connect().execute("SELECT id, name, price FROM read_parquet($1) ORDER BY id", [files]).fetchall()
    assert read == wanted


def test_a_char_has_all_its_characters_however_it_comes(db: Any, tmp_path: Path) -> None:
    db.sql("CREATE STREAM codes (c char(4)); CREATE VIEW found AS SELECT c, count(*) AS n FROM codes GROUP BY c")
    texts = pa.table({"c": ["ab", "ab  ", "ab      ", None]})
    pa.parquet.write_table(texts, tmp_path / "codes.parquet")
    (tmp_path / "codes.csv").write_text("ab\nab  \n")
    db.insert("codes", [{"c": "ab"}, {"c": "ab "}])
    db.insert("codes", texts)
    db.sql(f"COPY codes FROM '{tmp_path}/codes.parquet' PARQUET; COPY codes FROM '{tmp_path}/codes.csv' CSV")
    db.sql("INSERT INTO codes VALUES ('ab'), ('ab   ')")
    db.sql("INSERT INTO codes SELECT 'ab'")
    assert sorted(db.sql("SELECT * FROM found").fetchall(), key=str) == [("ab  ", 13), (None, 2)]
