"""What a piece sees of its inputs, the same on both kernels."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_pieces import ask, files, named, rows

from midstream.errors import BadFile, InternalError, StorageError, Unsupported
from midstream.maintenance.engine import FileColumn, Files, Kernel, Piece, Rows
from midstream.spark.engine import SparkEngine
from midstream.types import (
    BIGINT,
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    JSON,
    NUMERIC,
    REAL,
    SMALLINT,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    array_of,
)

Write = Callable[..., str]
STORED_INTERVAL = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())])
UTC = datetime.timezone.utc


def test_every_type_comes_back_exactly(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    stored = pa.table(
        {
            "s": pa.array([-32768, None], pa.int16()),
            "i": pa.array([2**31 - 1, None], pa.int32()),
            "b": pa.array([-(2**63), None], pa.int64()),
            "r": pa.array([1.5, None], pa.float32()),
            "d": pa.array([float("inf"), None], pa.float64()),
            "n": pa.array([Decimal("-99999999999999999999999999.9999999999"), None], pa.decimal128(38, 10)),
            "o": pa.array([True, None], pa.bool_()),
            "t": pa.array(["é\U0001f600'", None], pa.string()),
            "y": pa.array([datetime.date(1, 1, 1), None], pa.date32()),
            "p": pa.array([datetime.datetime(1582, 10, 5, 1, 2, 3, 4), None], pa.timestamp("us")),
            "z": pa.array([datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, UTC), None], pa.timestamp("us", "UTC")),
            "x": pa.array([b"\x00\xff", None], pa.binary()),
            "l": pa.array([[1, None, 3], None], pa.list_(pa.int64())),
            "m": pa.array([["a", None], []], pa.list_(pa.string())),
            "v": pa.array([{"months": -1, "days": 2, "microseconds": 3_000_001}, None], STORED_INTERVAL),
        }
    )
    types = {
        "s": SMALLINT,
        "i": INT,
        "b": BIGINT,
        "r": REAL,
        "d": DOUBLE,
        "n": NUMERIC(38, 10),
        "o": BOOLEAN,
        "t": TEXT,
        "y": DATE,
        "p": TIMESTAMP,
        "z": TIMESTAMPTZ,
        "x": BYTEA,
        "l": array_of(BIGINT),
        "m": array_of(TEXT),
        "v": INTERVAL,
    }
    found = ask(engine, kernel, 'SELECT * FROM "t"', t=files(write("all.parquet", stored), **types))
    expected = stored.drop(["v"]).append_column(
        "v", pa.array([pa.MonthDayNano([-1, 2, 3_000_001_000]), None], pa.month_day_nano_interval())
    )
    assert found.schema == expected.schema
    assert found.to_pylist() == expected.to_pylist()


def test_a_column_that_some_files_lack_is_null_there(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    old = write("old.parquet", pa.table({"id": [1]}))
    new = write("new.parquet", pa.table({"note": ["x"], "id": [2]}))
    given = files(old, new, id=BIGINT, note=TEXT, later=NUMERIC(5, 2))
    found = ask(engine, kernel, 'SELECT "id", "note", "later" FROM "t" ORDER BY "id"', t=given)
    assert rows(found) == [(1, None, None), (2, "x", None)]
    assert found.schema.field("later").type == pa.decimal128(5, 2)


def test_a_column_keeps_the_name_that_the_file_has_for_it(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    path = write("t.parquet", pa.table({"a": [1], "b": [2], 'odd "name`': [3]}))
    columns = (FileColumn("b", BIGINT, "a"), FileColumn("a", BIGINT, "b"), FileColumn("c", BIGINT, 'odd "name`'))
    assert rows(ask(engine, kernel, 'SELECT "a", "b", "c" FROM "t"', t=Files((path,), columns))) == [(2, 1, 3)]


def test_names_that_differ_only_in_case_are_two(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    path = write("t.parquet", pa.table({"Name": [1]}))
    assert rows(ask(engine, kernel, 'SELECT "Name" FROM "t"', t=files(path, Name=BIGINT))) == [(1,)]


def test_an_input_without_files_is_empty(engine: SparkEngine, kernel: Kernel) -> None:
    given = Files((), named(id=BIGINT, at=TIMESTAMPTZ), file_values=(("scn", BIGINT, ()),))
    found = ask(engine, kernel, 'SELECT * FROM "t"', t=given)
    assert found.num_rows == 0
    assert found.schema.types == [pa.int64(), pa.timestamp("us", "UTC"), pa.int64()]


@pytest.mark.parametrize("values", [(41, 42, 41), (7, 7, 7), (None, 1, None)])
def test_each_file_has_its_own_values(
    engine: SparkEngine, kernel: Kernel, write: Write, values: tuple[int | None, ...]
) -> None:
    names = ["plain.parquet", "with space+%20&é.parquet", "sub=1/[x]*?.parquet"]
    paths = tuple(write(name, pa.table({"n": [number, number]})) for number, name in enumerate(names))
    given = Files(paths, named(n=BIGINT), file_values=(("scn", BIGINT, values), ("word", TEXT, ("a", "b'", "c\\"))))
    found = ask(engine, kernel, 'SELECT DISTINCT "n", "scn", "word" FROM "t" ORDER BY "n"', t=given)
    assert rows(found) == [(0, values[0], "a"), (1, values[1], "b'"), (2, values[2], "c\\")]


def test_nan_is_found_though_a_file_says_that_all_values_are_small(
    engine: SparkEngine, kernel: Kernel, write: Write
) -> None:
    table = pa.table({"d": [float("nan"), 0.5], "r": pa.array([float("nan"), 0.5], pa.float32())})
    columns = (FileColumn("d", DOUBLE), FileColumn("r", REAL))
    files = Files((write("one.parquet", table), write("two.parquet", table)), columns)
    text = "SELECT count(*) AS n FROM file WHERE d > 1 AND r > 1"
    [answer] = engine.run(kernel, [Piece(text, {"file": files})])
    assert answer.table.to_pylist() == [{"n": 2}]


def test_row_groups_limit_what_is_read(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    one = write("one.parquet", pa.table({"n": range(100)}), row_group_size=10)
    two = write("two.parquet", pa.table({"n": range(100, 130)}), row_group_size=10)
    given = Files((one, two, one), named(n=BIGINT), row_groups=((0, 9, 5), None, ()))
    found = ask(engine, kernel, 'SELECT "n" FROM "t" ORDER BY "n"', t=given)
    assert found["n"].to_pylist() == [*range(10), *range(50, 60), *range(90, 130)]


def test_row_groups_go_together_with_values_of_files(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    one = write("one.parquet", pa.table({"n": range(20)}), row_group_size=10)
    given = Files((one, one), named(n=BIGINT), row_groups=((1,), (0,)), file_values=(("half", INT, (2, 1)),))
    found = ask(engine, kernel, 'SELECT "half", count(*) AS "c", min("n") AS "m" FROM "t" GROUP BY "half"', t=given)
    assert sorted(rows(found)) == [(1, 10, 0), (2, 10, 10)]


def test_no_row_group_at_all_is_an_empty_input(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    one = write("one.parquet", pa.table({"n": range(20)}))
    assert ask(engine, kernel, 'SELECT * FROM "t"', t=Files((one,), named(n=BIGINT), row_groups=((),))).num_rows == 0


def test_rows_of_the_driver_are_an_input(engine: SparkEngine, kernel: Kernel) -> None:
    table = pa.table({"a": [1, None], "z": pa.array([0, 1], pa.timestamp("us", "UTC")), "l": [["x"], None]})
    assert ask(engine, kernel, 'SELECT * FROM "t"', t=Rows(table)).to_pylist() == table.to_pylist()


def test_more_rows_than_a_job_property_holds_travel_too(engine: SparkEngine, kernel: Kernel) -> None:
    table = pa.table({"n": range(100_000)})
    assert rows(ask(engine, kernel, 'SELECT sum("n") AS "s" FROM "t"', t=Rows(table)))[0][0] == 4_999_950_000


def test_views_are_defined_over_inputs_and_each_other(engine: SparkEngine, kernel: Kernel) -> None:
    quote = '"' if kernel == "duckdb" else "`"
    views = (("v", "SELECT n + 1 AS n FROM t"), ("w", f"SELECT n * 10 AS n FROM {quote}v{quote}"))
    [answer] = engine.run(kernel, [Piece("SELECT n FROM w", {"t": Rows(pa.table({"n": [1, 2]}))}, views)])
    assert answer.table is not None and sorted(answer.table["n"].to_pylist()) == [20, 30]


def test_nothing_of_one_piece_is_seen_by_the_next(engine: SparkEngine, kernel: Kernel) -> None:
    ask(engine, kernel, "SELECT * FROM leftover", leftover=Rows(pa.table({"n": [1]})))
    with pytest.raises(InternalError):
        ask(engine, kernel, "SELECT * FROM leftover")


def test_a_missing_file_is_a_storage_error(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as raised:
        ask(engine, kernel, "SELECT count(n) AS c FROM t", t=files(str(tmp_path / "gone.parquet"), n=BIGINT))
    assert "gone.parquet" in (raised.value.detail or "")


def test_a_file_that_is_no_parquet_is_a_bad_file(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_text("not parquet at all")
    with pytest.raises(BadFile, match="Parquet"):
        ask(engine, kernel, "SELECT count(n) AS c FROM t", t=files(str(path), n=BIGINT))


def test_a_file_written_again_is_read_again(engine: SparkEngine, kernel: Kernel, write: Write) -> None:
    path = write("t.parquet", pa.table({"n": [1]}))
    assert rows(ask(engine, kernel, "SELECT n FROM t", t=files(path, n=BIGINT))) == [(1,)]
    pq.write_table(pa.table({"m": ["much longer than before"], "n": [2]}), path)
    assert rows(ask(engine, kernel, "SELECT n FROM t", t=files(path, n=BIGINT))) == [(2,)]


# --- text files, which only the DuckDB kernel reads -----------------------------------------------------


def csv(engine: SparkEngine, path: Path, content: str | bytes, **options: object) -> list[tuple[object, ...]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    given = Files((str(path),), named(a=TEXT, b=TEXT), "csv", options)
    return rows(ask(engine, "duckdb", "SELECT a, b FROM t", t=given))


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ('1,""\n,x\n"",\n', {}, [("1", ""), (None, "x"), ("", None)]),
        ('"x\ny","q""q"\r\n'.replace("\r\n", "\n"), {}, [("x\ny", 'q"q')]),
        ("a,b\r\nc,d\r\n", {}, [("a", "b"), ("c", "d")]),
        ("B,A\n1,2\n", {"header": True}, [("1", "2")]),
        ("NA|'NA'\n", {"delimiter": "|", "null": "NA", "quote": "'"}, [(None, "NA")]),
        ('"a\\"b",c\n', {"escape": "\\"}, [('a"b', "c")]),
        (" a ,007\n", {}, [(" a ", "007")]),
        ("true,2020-01-01", {}, [("true", "2020-01-01")]),
        ("", {}, []),
        ("a,b\n", {"header": True}, []),
        ("\\.,\\N\n", {"null": "\\N"}, [("\\.", None)]),
    ],
)
def test_csv_is_read_as_postgresql_reads_it(
    engine: SparkEngine, tmp_path: Path, content: str, options: dict[str, object], expected: list[tuple[object, ...]]
) -> None:
    assert csv(engine, tmp_path / "t.csv", content, **options) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\nc,d\ne\n", "missing data for a column"),
        ("a,b\nc,d\ne,f,g\n", "extra data after last expected column"),
        ('a,b\nc,d\n"e,f\n', "unterminated CSV quoted field"),
        (b"a,b\nc,d\n\xff,f\n", "invalid byte sequence for UTF-8 text"),
    ],
)
def test_a_bad_csv_line_is_named(engine: SparkEngine, tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "it's bad.csv"
    with pytest.raises(BadFile) as raised:
        csv(engine, path, content)
    assert raised.value.message == f'{message} in file "{path}", line 3'
    assert raised.value.sqlstate == "22P04"


@pytest.mark.parametrize(
    "content",
    [
        '{"a": 1.50, "b": null}\n{"b": "é\\n", "c": 2}\n',
        '[{"a": 1.50, "b": null}, {"b": "é\\n", "c": 2}]',
        '{"a":\n 1.50, "b": null}\n\n{"b": "é\\n", "c": 2}',
    ],
)
def test_json_objects_stand_in_lines_in_an_array_or_anyhow(engine: SparkEngine, tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(content)
    by_key = Files((str(path),), named(a=NUMERIC(5, 2), b=TEXT), "json")
    assert rows(ask(engine, "duckdb", "SELECT a, b FROM t", t=by_key)) == [(Decimal("1.50"), None), (None, "é\n")]
    whole = Files((str(path),), named(document=JSON), "json", {"whole": True})
    found = ask(engine, "duckdb", "SELECT json_keys(document) AS k FROM t", t=whole)
    assert found["k"].to_pylist() == [["a", "b"], ["b", "c"]]


def test_a_bad_json_line_is_named(engine: SparkEngine, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text('{"a": 1}\n{"a": }\n')
    with pytest.raises(BadFile, match=r"invalid JSON in file .*t\.json"):
        ask(engine, "duckdb", "SELECT a FROM t", t=Files((str(path),), named(a=TEXT), "json"))


def test_the_spark_kernel_reads_no_csv(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        ask(engine, "spark", "SELECT a FROM t", t=Files((str(tmp_path / "t.csv"),), named(a=TEXT), "csv"))
