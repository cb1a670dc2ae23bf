"""What a piece writes and hands back, the same on both kernels."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_pieces import ask, quoted

from midstream.errors import DataError
from midstream.maintenance.engine import Answer, Kernel, Piece, Rows, WriteParquet
from midstream.spark.engine import SparkEngine
from midstream.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Type,
    array_of,
)

UTC = datetime.timezone.utc


def write(engine: SparkEngine, kernel: Kernel, sql: str, folder: Path, table: pa.Table, **types: Type) -> Answer:
    checks = (("rows", quoted('SELECT count(*) AS "n" FROM "output"', kernel)),)
    output = WriteParquet(str(folder), tuple(types.items()))
    [answer] = engine.run(kernel, [Piece(quoted(sql, kernel), {"t": Rows(table)}, (), output, checks)])
    return answer


def test_written_files_have_exactly_the_declared_types(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    table = pa.table({"n": [2**62, 2**62 - 1]})
    sql = (
        'SELECT sum("n") - min("n") AS "s", 1 AS "i", NULL AS "d", \'x\' AS "t" FROM "t"'
        if kernel == "duckdb"
        else 'SELECT sum("n" - 1) AS "s", 1 AS "i", NULL AS "d", \'x\' AS "t" FROM "t" WHERE "n" = 4611686018427387904'
    )
    answer = write(engine, kernel, sql, tmp_path, table, big=BIGINT, money=NUMERIC(12, 2), day=DATE, word=TEXT)
    [file] = answer.files
    stored = pq.read_table(file.path)
    assert stored.schema.types == [pa.int64(), pa.decimal128(12, 2), pa.date32(), pa.string()]
    assert [[str(v) for v in row.values()] for row in stored.to_pylist()] == [
        [str(2**62 if kernel == "duckdb" else 2**62 - 1), "1.00", "None", "x"]
    ]
    assert answer.checks["rows"].to_pylist() == [{"n": 1}]
    assert answer.table is None


def test_statistics_are_those_of_delta(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    table = pa.table(
        {
            "i": pa.array([3, None, -7], pa.int32()),
            "d": [1.5, float("nan"), 2.5],
            "f": [1.5, 0.5, 2.5],
            "n": pa.array([Decimal("1.25"), Decimal("-3.50"), None], pa.decimal128(10, 2)),
            "w": pa.array([Decimal(10) ** 30] * 3, pa.decimal128(38, 0)),
            "t": ["b", "a", "c"],
            "u": ["x" * 400, "y", "z"],
            "y": [datetime.date(2024, 1, 2), None, None],
            "p": [moment, None, None],
            "z": pa.array([moment.replace(tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
            "o": [True, False, None],
            "e": pa.array([None, None, None], pa.int64()),
            "l": [[1], [2], None],
        }
    )
    types = {
        "i": INT,
        "d": DOUBLE,
        "f": DOUBLE,
        "n": NUMERIC(10, 2),
        "w": NUMERIC(38, 0),
        "t": TEXT,
        "u": TEXT,
        "y": DATE,
    }
    types |= {"p": TIMESTAMP, "z": TIMESTAMPTZ, "o": BOOLEAN, "e": BIGINT, "l": array_of(BIGINT)}
    answer = write(engine, kernel, 'SELECT * FROM "t"', tmp_path, table, **types)
    [file] = answer.files
    stats = json.loads(file.stats)
    text = "2024-01-02T03:04:05.678901"
    times = {"y": "2024-01-02", "p": text, "z": text + "Z"}
    assert stats["numRecords"] == file.rows == 3
    low, high = ({"f": 0.5}, {"f": 2.5}) if kernel == "duckdb" else ({}, {})
    assert stats["minValues"] == {"i": -7, "n": -3.5, "t": "a", **low, **times}
    assert stats["maxValues"] == {"i": 3, "n": 1.25, "t": "c", "u": "z", **high, **times}
    without_nulls = dict.fromkeys("dfwtu", 0)
    assert stats["nullCount"] == {**without_nulls, "i": 1, "n": 1, "o": 1, "y": 2, "p": 2, "z": 2, "e": 3}
    assert file.bytes == Path(file.path).stat().st_size


def test_nothing_to_write_leaves_no_file(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    answer = write(engine, kernel, 'SELECT "n" FROM "t" WHERE "n" > 5', tmp_path, pa.table({"n": [1]}), n=BIGINT)
    assert answer.files == ()
    assert answer.checks["rows"].to_pylist() == [{"n": 0}]
    assert list(tmp_path.iterdir()) == []


def test_intervals_are_stored_so_that_the_other_kernel_reads_them(
    engine: SparkEngine, kernel: Kernel, tmp_path: Path
) -> None:
    spans = [pa.MonthDayNano([14, -3, -3_723_000_001_000]), None]
    table = pa.table({"v": pa.array(spans, pa.month_day_nano_interval())})
    [file] = write(engine, kernel, 'SELECT "v" FROM "t"', tmp_path, table, v=INTERVAL).files
    stored = pq.read_table(file.path)["v"].to_pylist()
    assert stored == [{"months": 14, "days": -3, "microseconds": -3_723_000_001}, None]


def test_what_a_failed_piece_wrote_is_removed(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    table = pa.table({"n": range(200_000)})
    fails = "error('[22012] division by zero')" if kernel == "duckdb" else "raise_error('[22012] division by zero')"
    sql = f'SELECT CASE WHEN "n" = 199999 THEN {fails} ELSE "n" END AS "n" FROM "t"'
    with pytest.raises(DataError):
        write(engine, kernel, sql, tmp_path, table, n=TEXT)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_pieces_of_one_job_answer_in_their_order(engine: SparkEngine, tmp_path: Path) -> None:
    output = WriteParquet(str(tmp_path), (("n", BIGINT),))
    pieces = [Piece(f"SELECT {number} AS n", output=output) for number in range(7)]
    answers = engine.run("duckdb", pieces)
    assert [pq.read_table(answer.files[0].path)["n"][0].as_py() for answer in answers] == list(range(7))
    assert len(list(tmp_path.iterdir())) == 7


def test_a_million_rows_come_back_as_arrow(engine: SparkEngine, kernel: Kernel) -> None:
    source = "range(1000000) r(id)" if kernel == "duckdb" else "range(1000000)"
    table = ask(engine, kernel, f'SELECT id AS "n", CAST(id AS string) AS "t" FROM {source} ORDER BY id')
    assert table.num_rows == 1_000_000
    assert table.schema.types == [pa.int64(), pa.string()]
    assert table["t"][-1].as_py() == "999999"


def test_columns_that_are_null_throughout_keep_their_types(engine: SparkEngine, kernel: Kernel) -> None:
    table = ask(engine, kernel, 'SELECT CAST(NULL AS decimal(7,3)) AS "d", CAST(NULL AS date) AS "y"')
    assert table.schema == pa.schema([("d", pa.decimal128(7, 3)), ("y", pa.date32())])


def test_a_look_up_answers_without_a_job(engine: SparkEngine) -> None:
    table = engine.look_up(Piece('SELECT max("n") AS "m" FROM "t"', {"t": Rows(pa.table({"n": [1, 5]}))})).table
    assert table is not None and table.to_pylist() == [{"m": 5}]
    with pytest.raises(DataError, match="division by zero"):
        engine.look_up(Piece("SELECT 1 // 0 AS n"))


def test_data_frames_come_and_go(engine: SparkEngine, tmp_path: Path) -> None:
    frame = engine.data_frame(Piece("SELECT n + 1 AS n FROM t", {"t": Rows(pa.table({"n": [1, 2]}))}))
    paths = engine.save_data_frame(frame, str(tmp_path))
    assert sorted(pa.concat_tables(pq.read_table(path) for path in paths)["n"].to_pylist()) == [2, 3]
    assert {str(path) for path in tmp_path.iterdir()} == set(paths)
    again = engine.data_frame(Piece("SELECT * FROM t", {"t": Rows(pa.table({"x": ["a", None]}))}))
    assert again.toArrow().to_pylist() == [{"x": "a"}, {"x": None}]  # type: ignore[attr-defined]


def test_a_folder_that_went_meanwhile_is_made_again(engine: SparkEngine, kernel: Kernel, tmp_path: Path) -> None:
    """The last file of a folder takes it along, while a job may be about to write the next."""
    answer = write(engine, kernel, 'SELECT "n" FROM "t"', tmp_path / "gone", pa.table({"n": [1, 2]}), n=BIGINT)
    [file] = answer.files
    assert pq.read_table(file.path).column("n").to_pylist() == [1, 2]
