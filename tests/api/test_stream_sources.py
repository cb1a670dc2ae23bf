"""Rows into streams from every source: `db.insert`, COPY of files, folders and globs; checked whole or not taken."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import midstream
from asking import refusal, rows, scn_now

KEPT = "WITH (retain = '7 days')"
ROWS: list[dict[str, Any]] = [
    {"id": 1, "name": "a", "price": Decimal("1.50"), "at": dt.datetime(2024, 1, 1, 10), "tags": ["x", None]},
    {"id": 2, "name": None, "price": None, "at": None, "tags": None},
    {
        "id": 3,
        "name": "ü😀",
        "price": Decimal("-3.25"),
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        "tags": [],
    },
]
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("price", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
    ]
)
ARROW = pa.Table.from_pylist(ROWS, schema=SCHEMA)
COLUMNS = "id int NOT NULL, name text, price numeric(8,2) CHECK (price < 1000), at timestamp, tags text[]"
CSV = """id,name,price,at,tags
1,a,1.50,2024-01-01 10:00:00,"{x,NULL}"
2,,,,
3,ü😀,-3.25,1969-12-31 23:59:59.999999,{}
"""


def as_pandas(folder: Path) -> Any:
    return ARROW.to_pandas()


def as_polars(folder: Path) -> Any:
    import polars

    return polars.from_arrow(ARROW)


def as_polars_categories(folder: Path) -> Any:
    import polars

    return as_polars(folder).with_columns(polars.col("name").cast(polars.Categorical))


def as_duckdb(folder: Path) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(ARROW)


def as_spark(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    fields = "id int, name string, price decimal(8,2), at timestamp_ntz, tags array<string>"
    return session.createDataFrame([tuple(row.values()) for row in ROWS], fields)


def as_parquet(folder: Path) -> str:
    pa.parquet.write_table(ARROW, folder / "rows.parquet")
    return str(folder / "rows.parquet")


def as_json(folder: Path) -> str:
    (folder / "rows.json").write_text("\n".join(json.dumps(row, default=str) for row in ROWS))
    return str(folder / "rows.json")


def as_csv(folder: Path) -> str:
    (folder / "rows.csv").write_text(CSV)
    return str(folder / "rows.csv")


SOURCES: dict[str, Callable[[Path], Any]] = {
    "list of dicts": lambda folder: ROWS,
    "list of tuples": lambda folder: [tuple(row.values()) for row in ROWS],
    "arrow table": lambda folder: ARROW,
    "arrow batch": lambda folder: ARROW.to_batches()[0],
    "arrow reader": lambda folder: ARROW.to_reader(max_chunksize=1),
    "columns in another order": lambda folder: ARROW.select(["tags", "at", "price", "name", "id"]),
    "wider types": lambda folder: ARROW.cast(
        SCHEMA.set(0, pa.field("id", pa.int64()))
        .set(1, pa.field("name", pa.large_string()))
        .set(2, pa.field("price", pa.decimal128(20, 5)))
    ),
    "a dictionary": lambda folder: ARROW.set_column(1, "name", ARROW["name"].dictionary_encode()),
    "pandas": as_pandas,
    "polars": as_polars,
    "polars categories": as_polars_categories,
    "polars lazy": lambda folder: as_polars(folder).lazy(),
    "a generator": lambda folder: (row for row in ROWS),
    "a duckdb relation": as_duckdb,
    "spark": as_spark,
    "parquet path": as_parquet,
    "json path": as_json,
    "csv path": as_csv,
    "pathlib": lambda folder: Path(as_parquet(folder)),
}


@pytest.fixture
def target(db: Any) -> Any:
    db.sql(f"CREATE STREAM s ({COLUMNS}) {KEPT}")
    return db


def arrived(db: Any, columns: str = "*") -> list[tuple[Any, ...]]:
    return rows(db, f"SELECT {columns} FROM s")


# db.insert


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_rows_come_from(target: Any, tmp_path: Path, source: Callable[[Path], Any]) -> None:
    before = scn_now(target)
    result = target.insert("s", source(tmp_path))
    assert (result.status, result.scn) == ("INSERT 0 3", before + 1)
    assert arrived(target) == sorted((tuple(row.values()) for row in ROWS), key=repr)


def test_a_missing_column_is_null_or_its_default(db: Any) -> None:
    db.sql(f"CREATE STREAM s (id int, name text DEFAULT 'none', level int DEFAULT 2 + 3) {KEPT}")
    db.insert("s", [{"id": 1}, {"id": 2, "level": None}])
    db.insert("s", pa.table({"name": ["x"]}))
    assert arrived(db) == [(1, "none", 5), (2, "none", None), (None, "x", 5)]


NOTHING: dict[str, Callable[[], Any]] = {
    "a list": list,
    "a table without rows": lambda: ARROW.slice(0, 0),
    "a table without columns": lambda: pa.table({}),
    "a reader": lambda: ARROW.slice(0, 0).to_reader(),
    "pandas": lambda: ARROW.slice(0, 0).to_pandas(),
    "a pandas frame without columns": lambda: ARROW.select([]).slice(0, 0).to_pandas(),
}


def test_no_rows_are_no_rows(target: Any) -> None:
    for name, make in NOTHING.items():
        assert target.insert("s", make()).status == "INSERT 0 0", name
    assert arrived(target) == []


MOMENTS: dict[str, tuple[str, Any, Any]] = {
    "seconds": ("timestamp", pa.array([-1], pa.timestamp("s")), dt.datetime(1969, 12, 31, 23, 59, 59)),
    "the oldest nanosecond": ("timestamp", pa.array([-(2**63) + 1], pa.timestamp("ns")), None),
    "a zone": (
        "timestamptz",
        pa.array([dt.datetime(2024, 7, 1, tzinfo=dt.timezone.utc)], pa.timestamp("ms", "America/New_York")),
        dt.datetime(2024, 7, 1, tzinfo=dt.timezone.utc),
    ),
    "no zone": ("timestamptz", pa.array([0], pa.timestamp("us")), dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)),
    "milliseconds as a day": ("date", pa.array([dt.date(2024, 2, 29)], pa.date64()), dt.date(2024, 2, 29)),
    "a duration": ("interval", pa.array([dt.timedelta(days=2)], pa.duration("s")), dt.timedelta(days=2)),
}
OUT_OF_RANGE: dict[str, tuple[str, Any]] = {
    "seconds": ("timestamp", pa.array([2**60], pa.timestamp("s"))),
    "milliseconds": ("timestamp", pa.array([-(2**62)], pa.timestamp("ms"))),
    "a zone": ("timestamptz", pa.array([2**60], pa.timestamp("s", "UTC"))),
    "an element": ("timestamp[]", pa.array([[0, 2**60]], pa.list_(pa.timestamp("s")))),
    "a day of seconds": ("date", pa.array([2**60], pa.timestamp("s"))),
    "a day": ("date", pa.array([2**62], pa.date64())),
    "a duration": ("interval", pa.array([2**60], pa.duration("s"))),
}


def test_moments_of_every_unit_arrive_exactly(db: Any) -> None:
    columns = ", ".join(f"c{number} {type_}" for number, (type_, _, _) in enumerate(MOMENTS.values()))
    db.sql(f"CREATE STREAM s ({columns}) {KEPT}")
    db.insert("s", pa.table({f"c{number}": values for number, (_, values, _) in enumerate(MOMENTS.values())}))
    oldest = dt.datetime(1677, 9, 21, 0, 12, 43, 145224)
    (row,) = db.sql("SELECT * FROM s").fetchall()
    assert abs(row[1] - oldest) <= dt.timedelta(microseconds=1)
    assert [*row[:1], *row[2:]] == [wanted for _, _, wanted in MOMENTS.values() if wanted is not None]


@pytest.mark.parametrize(("type_", "values"), OUT_OF_RANGE.values(), ids=OUT_OF_RANGE.keys())
def test_a_moment_out_of_range_is_refused(db: Any, type_: str, values: Any) -> None:
    db.sql(f"CREATE STREAM s (v {type_}) {KEPT}")
    assert refusal(db, lambda: db.insert("s", pa.table({"v": values}))).sqlstate in ("22008", "22003", "22015")


def test_a_session_inserts_within_its_transaction(target: Any) -> None:
    session = target.session()
    session.sql("BEGIN")
    assert session.insert("s", ARROW).status == "INSERT 0 3"
    assert session.insert("s", ROWS).status == "INSERT 0 3"
    assert target.sql("SELECT count(*) FROM s").fetchone() == (0,)
    done = session.sql("COMMIT")
    session.close()
    assert target.sql(f"SELECT count(*) FROM s AS OF SCN {done.scn}").fetchone() == (6,)
    assert target.sql(f"SELECT count(*) FROM s AS OF SCN {done.scn - 1}").fetchone() == (0,)


def test_many_rows_in_many_batches_are_one_insert(db: Any) -> None:
    db.sql(f"CREATE STREAM s (n bigint NOT NULL CHECK (n >= 0), v text) {KEPT}")
    count = 300_000
    table = pa.table({"n": range(count), "v": [f"value {n % 11}" for n in range(count)]})
    result = db.insert("s", table.to_reader(max_chunksize=7001))
    assert result.status == f"INSERT 0 {count}"
    wanted = (count, count * (count - 1) // 2, 0, count - 1, 11)
    totals = "SELECT count(*), sum(n), min(n), max(n), count(DISTINCT v) FROM s"
    assert db.sql(totals).fetchone() == wanted
    assert db.sql(f"SELECT count(*) FROM s AS OF SCN {result.scn - 1}").fetchone() == (0,)


def test_a_bad_row_behind_many_good_ones_is_named(db: Any) -> None:
    db.sql(f"CREATE STREAM s (n bigint NOT NULL, v text) {KEPT}")
    numbers = [*range(100_000), None, *range(50)]
    error = refusal(db, lambda: db.insert("s", pa.table({"n": pa.array(numbers, pa.int64())}).to_reader(9999)))
    assert error.sqlstate == "23502"
    assert "100001" in str(error)
    assert arrived(db) == []


def test_a_reader_that_breaks_in_the_middle_leaves_nothing(db: Any) -> None:
    db.sql(f"CREATE STREAM s (n bigint) {KEPT}")
    schema = pa.schema([("n", pa.int64())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(range(50_000), pa.int64())], schema)
        raise ConnectionError("the source is gone")

    with pytest.raises((midstream.Error, ConnectionError)) as caught:
        db.insert("s", pa.RecordBatchReader.from_batches(schema, batches()))
    assert "the source is gone" in str(caught.value)
    assert db.sql("SELECT count(*) FROM s").fetchone() == (0,)
    assert db.insert("s", [{"n": 1}]).status == "INSERT 0 1"


def test_threads_insert_tables_of_many_sizes(db: Any) -> None:
    db.sql(f"CREATE STREAM s (thread int, n int) {KEPT}")
    sizes = [1, 5000, 3, 60_000, 1]
    made: list[tuple[int, int]] = []

    def insert(thread: int) -> None:
        for size in sizes:
            numbers = pa.array(range(size), pa.int32())
            table = pa.table({"thread": pa.array([thread] * size, pa.int32()), "n": numbers})
            made.append((db.insert("s", table).scn, size))

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    made.sort()
    assert len({scn for scn, _ in made}) == 3 * len(sizes)
    wanted = (sum(sizes), sum(size * (size - 1) // 2 for size in sizes))
    totals = "SELECT thread, count(*), sum(n) FROM s GROUP BY thread ORDER BY thread"
    assert db.sql(totals).fetchall() == [(number, *wanted) for number in range(3)]
    scn = made[6][0]
    past = sum(size for _, size in made[:7])
    assert db.sql(f"SELECT count(*) FROM s AS OF SCN {scn}").fetchone() == (past,)


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "an extra column": ([{"id": 1, "color": "red"}], "42703"),
    "an extra arrow column": (ARROW.append_column("color", pa.array([None] * 3, pa.string())), "42703"),
    "a text for a number": ([{"id": 1}, {"id": "x"}], "22P02"),
    "an arrow text for a number": (pa.table({"id": ["1"]}), "42804"),
    "a number that is too large": ([{"id": 1}, {"id": 2**31}], "22003"),
    "an arrow number that is too large": (pa.table({"id": [1, 2**31]}), "22003"),
    "no number": ([{"id": 1}, {"id": None}], "23502"),
    "a missing column that is needed": (pa.table({"name": ["x"]}), "23502"),
    "a price with too many digits": ([{"id": 1}, {"id": 2, "price": Decimal("1234567.8")}], "22003"),
    "a check": ([{"id": 1}, {"id": 2, "price": 1000}], "23514"),
    "a moment that is none": ([{"id": 1}, {"id": 2, "at": "2024-02-30"}], "22008"),
    "an arrow moment beyond the calendar": (
        pa.table({"id": [1, 2], "at": pa.array([0, 2**62], pa.timestamp("us"))}),
        "22008",
    ),
    "an arrow moment that has no microseconds": (
        pa.table({"id": [1, 2], "at": pa.array([0, 2**60], pa.timestamp("s"))}),
        "22008",
    ),
    "an arrow day beyond the calendar": (
        pa.table({"id": [1, 2], "at": pa.array([0, 2**31 - 1], pa.date32())}),
        "22008",
    ),
    "an element of another type": ([{"id": 1, "tags": ["x"]}, {"id": 2, "tags": [["y"]]}], ""),
    "no array": ([{"id": 1, "tags": 7}], ""),
    "tuples of another length": ([(1, "a")], ""),
    "something else": (42, ""),
    "a path that is not there": ("/nowhere/at/all.parquet", "58P01"),
}


@pytest.mark.parametrize(("data", "sqlstate"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_what_does_not_fit_is_refused_whole(target: Any, data: Any, sqlstate: str) -> None:
    error = refusal(target, lambda: target.insert("s", data))
    assert sqlstate in ("", error.sqlstate), error


def test_an_element_of_an_array_that_does_not_fit_is_named(db: Any) -> None:
    db.sql(f"CREATE STREAM s (id int, levels smallint[], prices numeric(4,1)[]) {KEPT}")
    tables: list[tuple[Any, str]] = [
        ([{"id": 1, "levels": [1]}, {"id": 2, "levels": [1, 40000]}], "40000"),
        (pa.table({"id": [1, 2], "levels": [[1], [1, 40000]]}), "40000"),
        ([{"id": 1, "prices": [Decimal("1.5")]}, {"id": 2, "prices": [None, Decimal("1000.5")]}], "1000.5"),
        ([{"id": 1, "levels": ["x"]}], "x"),
    ]
    for data, said in tables:
        assert said in str(refusal(db, lambda data=data: db.insert("s", data)))  # type: ignore[misc]


# COPY

FILES: dict[str, Callable[[Path], str]] = {
    "CSV HEADER": as_csv,
    "PARQUET": as_parquet,
    "JSON": as_json,
}


@pytest.mark.parametrize(("form", "make"), FILES.items(), ids=FILES.keys())
def test_copy_takes_a_file_a_folder_and_a_glob(
    target: Any, tmp_path: Path, form: str, make: Callable[[Path], str]
) -> None:
    folders = [tmp_path / "in" / name for name in ("1", "2")]
    for folder in folders:
        folder.mkdir(parents=True)
        path = make(folder)
    (folders[0] / "_SUCCESS").write_text("")
    (folders[0] / ".hidden").write_text("nonsense")
    before = scn_now(target)
    for number, place in enumerate((path, folders[0], f"{tmp_path}/in/*/rows.*"), 1):
        copied = target.sql(f"COPY s FROM '{place}' {form}")
        assert (copied.status, copied.scn) == ("COPY 6" if "*" in str(place) else "COPY 3", before + number)
    wanted = [tuple(row.values()) for row in ROWS] * 4
    assert arrived(target) == sorted(wanted, key=repr)


CSV_OPTIONS: dict[str, tuple[str, str, list[tuple[int, str | None]]]] = {
    "no header": ("1,a\n2,\n", "CSV", [(1, "a"), (2, None)]),
    "header by name": ("name,id\na,1\n", "CSV HEADER", [(1, "a")]),
    "some columns of the header": ("id\n1\n", "CSV HEADER", [(1, None)]),
    "empty text": ('1,""\n2,\n', "CSV", [(1, ""), (2, None)]),
    "quoted": ('1,"a,b"\n2,"say ""x"""\n3,"two\nlines"\n', "CSV", [(1, "a,b"), (2, 'say "x"'), (3, "two\nlines")]),
    "delimiter": ("1;a,b\n", "CSV DELIMITER ';'", [(1, "a,b")]),
    "tab": ("1\ta b\n", "CSV DELIMITER E'\\t'", [(1, "a b")]),
    "null text": ("1,NIL\n2,\n3,nil\n", "CSV NULL 'NIL'", [(1, None), (2, ""), (3, "nil")]),
    "quoted null text": ('1,"NIL"\n', "CSV NULL 'NIL'", [(1, "NIL")]),
    "quote": ("1,'a,b'\n2,\"x\"\n", "CSV QUOTE ''''", [(1, "a,b"), (2, '"x"')]),
    "escape": ('1,"say \\"x\\""\n', "CSV ESCAPE '\\'", [(1, 'say "x"')]),
    "in parentheses": ("id|name\n1|NIL\n", "(FORMAT csv, HEADER, DELIMITER '|', NULL 'NIL')", [(1, None)]),
    "windows line ends": ("1,a\r\n2,b\r\n", "CSV", [(1, "a"), (2, "b")]),
    "no last line end": ("1,a\n2,b", "CSV", [(1, "a"), (2, "b")]),
    "blanks are text": ("1, a \n", "CSV", [(1, " a ")]),
    "byte order mark": ("\ufeffid,name\n1,a\n", "CSV HEADER", [(1, "a")]),
    "windows line ends and a header": ('id,name\r\n1,"a\r\nb"\r\n2,\r\n', "CSV HEADER", [(1, "a\r\nb"), (2, None)]),
    "only a header": ("id,name\n", "CSV HEADER", []),
    "nothing": ("", "CSV", []),
}


def test_csv_is_read_as_postgresql_reads_it(db: Any, tmp_path: Path) -> None:
    db.sql(f"CREATE STREAM s (id int, name text) {KEPT}")
    for name, (text, options, wanted) in CSV_OPTIONS.items():
        (tmp_path / f"{name}.csv").write_text(text, newline="")
        assert db.sql(f"COPY s FROM '{tmp_path}/{name}.csv' {options}").status == f"COPY {len(wanted)}", name
    assert arrived(db) == sorted((row for _, _, wanted in CSV_OPTIONS.values() for row in wanted), key=repr)


@pytest.mark.parametrize("form", FILES)
def test_what_is_copied_out_of_a_stream_is_copied_in_again(target: Any, tmp_path: Path, form: str) -> None:
    target.insert("s", ROWS)
    assert target.sql(f"COPY s TO '{tmp_path}/out' {form}").status == "COPY 3"
    assert target.sql(f"COPY (SELECT * FROM s WHERE id < 3) TO '{tmp_path}/some' {form}").status == "COPY 2"
    target.sql(f"DROP STREAM s; CREATE STREAM s ({COLUMNS}, source text DEFAULT 'copied') {KEPT}")
    assert target.sql(f"COPY s FROM '{tmp_path}/*' {form}").status == "COPY 5"
    wanted = [(*row.values(), "copied") for row in ROWS + ROWS[:2]]
    assert arrived(target) == sorted(wanted, key=repr)


def test_copy_into_some_columns(db: Any, tmp_path: Path) -> None:
    db.sql(f"CREATE STREAM s (id int, name text, level int DEFAULT 5) {KEPT}")
    (tmp_path / "in.csv").write_text("a,1\n")
    db.sql(f"COPY s (name, id) FROM '{tmp_path}/in.csv' CSV")
    assert arrived(db) == [(1, "a", 5)]


BAD_LINES = {
    "a number": ("CSV HEADER", "id,name,level\n1,a,1\nx,b,2\n3,c,3\n", 3, "22P02"),
    "a number too large": ("CSV", "1,a,1\n99999999999,b,1\n", 2, "22003"),
    "too few": ("CSV HEADER", "id,name,level\n1,a,1\n2\n", 3, "22P04"),
    "too many": ("CSV HEADER", "id,name,level\n1,a,1,z\n", 2, "22P04"),
    "an open quote": ("CSV", '1,a,1\n2,"b,1\n', None, "22P04"),
    "behind a field of two lines": ("CSV HEADER", 'id,name,level\n1,"a\nb",1\nx,c,1\n', 4, "22P02"),
    "no number": ("CSV", "1,a,1\n,b,1\n", 2, "23502"),
    "a check": ("CSV HEADER", 'id,name,level\n1,"a\n\nb",1\n2,b,-1\n', 5, "23514"),
    "broken json": ("JSON", '{"id": 1}\n{"id": }\n{"id": 3}\n', 2, "22P02"),
    "a json value": ("JSON", '{"id": 1}\n{"id": "x"}\n', 2, "22P02"),
    "a json line that is no object": ("JSON", '{"id": 1}\n[2]\n', 2, None),
    "an extra json column": ("JSON", '{"id": 1}\n{"id": 2, "color": "red"}\n', 2, "42703"),
    "no json number": ("JSON", '{"id": 1}\n{"name": "x"}\n', 2, "23502"),
}


@pytest.mark.parametrize(("form", "text", "line", "sqlstate"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_told_with_file_and_line(
    db: Any, tmp_path: Path, form: str, text: str, line: int | None, sqlstate: str | None
) -> None:
    db.sql(f"CREATE STREAM s (id int NOT NULL, name text, level int CHECK (level > 0)) {KEPT}")
    (tmp_path / "bad.txt").write_text(text)
    error = refusal(db, lambda: db.sql(f"COPY s FROM '{tmp_path}/bad.txt' {form}"))
    assert sqlstate in (None, error.sqlstate)
    assert "bad.txt" in str(error)
    assert line is None or f"line {line}" in str(error)


def test_one_bad_file_of_a_folder_is_told_and_none_is_taken(db: Any, tmp_path: Path) -> None:
    db.sql(f"CREATE STREAM s (id int) {KEPT}")
    for number in range(1, 6):
        (tmp_path / f"{number}.csv").write_text("1\n2\n" if number != 4 else "1\nx\n")
    said = str(refusal(db, lambda: db.sql(f"COPY s FROM '{tmp_path}' CSV")))
    assert "4.csv" in said
    assert "line 2" in said
    assert arrived(db) == []


def parquet(path: Path, **columns: Any) -> str:
    pa.parquet.write_table(pa.table(columns), path)
    return str(path)


BAD_PARQUET: dict[str, tuple[dict[str, Any], str, str]] = {
    "an extra column": ({"id": [1], "color": ["red"]}, "42703", "color"),
    "a type": ({"id": ["x"]}, "42804", "id"),
    "a number too large": ({"id": [1, 2**40]}, "22003", "1099511627776"),
    "no number": ({"id": pa.array([1, None], pa.int64())}, "23502", "id"),
    "a check": ({"id": [1, 2], "level": [1, -5]}, "23514", "-5"),
}


@pytest.mark.parametrize(("columns", "sqlstate", "said"), BAD_PARQUET.values(), ids=BAD_PARQUET.keys())
def test_a_bad_parquet_file_is_refused_whole(
    db: Any, tmp_path: Path, columns: dict[str, Any], sqlstate: str, said: str
) -> None:
    db.sql(f"CREATE STREAM s (id int NOT NULL, level int CHECK (level > 0)) {KEPT}")
    parquet(tmp_path / "1.parquet", id=[7])
    parquet(tmp_path / "2.parquet", **columns)
    error = refusal(db, lambda: db.sql(f"COPY s FROM '{tmp_path}/*.parquet' PARQUET"))
    assert error.sqlstate == sqlstate
    assert said in str(error)


def test_a_bad_row_of_a_parquet_file_is_told_with_its_file(db: Any, tmp_path: Path) -> None:
    db.sql(f"CREATE STREAM s (id int NOT NULL) {KEPT}")
    parquet(tmp_path / "1.parquet", id=[7])
    parquet(tmp_path / "2.parquet", id=pa.array([1, None], pa.int64()))
    assert "2.parquet" in str(refusal(db, lambda: db.sql(f"COPY s FROM '{tmp_path}/*.parquet' PARQUET")))


@pytest.mark.parametrize("form", ["CSV", "PARQUET", "JSON"])
def test_a_file_that_is_not_there_or_cannot_be_read(db: Any, tmp_path: Path, form: str) -> None:
    db.sql(f"CREATE STREAM s (id int) {KEPT}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "junk").write_bytes(b"\x00\xff\x00 nonsense {")
    for place in ("nothing.x", "*.nothing", "empty", "junk"):
        error = refusal(db, lambda place=place: db.sql(f"COPY s FROM '{tmp_path}/{place}' {form}"))  # type: ignore[misc]
        assert place.strip("*.") in str(error)


def test_parquet_goes_by_name_and_may_lack_columns(db: Any, tmp_path: Path) -> None:
    db.sql(f"CREATE STREAM s (id int, name text, level int DEFAULT 5) {KEPT}")
    path = parquet(tmp_path / "1.parquet", name=["a", None], id=pa.array([1, 2], pa.int16()))
    assert db.sql(f"COPY s FROM '{path}' PARQUET").status == "COPY 2"
    assert (
        db.sql(f"COPY s FROM '{parquet(tmp_path / '2.parquet', id=pa.array([], pa.int32()))}' PARQUET").status
        == "COPY 0"
    )
    assert arrived(db) == [(1, "a", 5), (2, None, 5)]


def test_a_large_parquet_file_arrives_whole_also_after_the_file_is_gone(db: Any, tmp_path: Path) -> None:
    db.sql(f"CREATE STREAM s (n bigint NOT NULL, v text) {KEPT}")
    count = 400_000
    table = pa.table({"n": range(count), "v": [f"v{n % 5}" for n in range(count)]})
    pa.parquet.write_table(table, tmp_path / "large.parquet", row_group_size=50_000)
    done = db.sql(f"COPY s FROM '{tmp_path}/large.parquet' PARQUET")
    (tmp_path / "large.parquet").unlink()
    assert done.status == f"COPY {count}"
    totals = db.sql("SELECT count(*), sum(n), count(DISTINCT n), count(DISTINCT v) FROM s").fetchone()
    assert totals == (count, count * (count - 1) // 2, count, 5)
    assert db.sql(f"SELECT count(*) FROM s AS OF SCN {done.scn - 1}").fetchone() == (0,)


def test_a_copy_belongs_to_its_transaction(target: Any, tmp_path: Path) -> None:
    session = target.session()
    files = [(form, make(tmp_path)) for form, make in FILES.items()]
    for form, path in files:
        session.sql(f"BEGIN; COPY s FROM '{path}' {form}; ROLLBACK")
    assert arrived(target) == []
    session.sql("BEGIN")
    for form, path in files:
        assert session.sql(f"COPY s FROM '{path}' {form}").status == "COPY 3"
    for _, path in files:
        Path(path).unlink()
    assert arrived(session) == []
    scn = session.sql("COMMIT").scn
    assert target.sql(f"SELECT count(*) FROM s AS OF SCN {scn}").fetchone() == (9,)
    assert arrived(target) == sorted([tuple(row.values()) for row in ROWS] * 3, key=repr)
    session.close()
