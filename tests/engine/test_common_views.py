"""Views that pieces of one task have in common: computed once, told apart by what they mean, gone when the task is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from engine_pieces import files, rows

from midstream.maintenance.engine import Piece, Rows
from midstream.spark.common_views import CommonViews
from midstream.spark.engine import SparkEngine
from midstream.spark.named_inputs import define_inputs
from midstream.types import BIGINT


def write(path: Path, *numbers: int) -> str:
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), path)
    return str(path)


def piece(path: str, sql: str) -> Piece:
    """Over a view that nobody computes twice alike."""
    views = (("doubled", "SELECT 2 * n AS n FROM t"), ("drawn", "SELECT sum(n) AS n, random() AS r FROM doubled"))
    return Piece(sql, {"t": files(path, n=BIGINT)}, views, shared=("drawn",))


def tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]


def test_what_several_pieces_have_is_computed_once(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one.parquet", 1, 2), write(tmp_path / "other.parquet", 5)
    pieces = [piece(one, "SELECT n, r FROM drawn"), piece(one, "SELECT n + 1, r FROM drawn")]
    pieces += [piece(other, "SELECT n, r FROM drawn")]
    connection, answers = duckdb.connect(), []
    with CommonViews(pieces, connection.cursor) as common:
        for own in pieces:
            names = common.taken(connection, own, define_inputs(connection, own))
            answers += connection.execute(names.before(own.sql)).fetchall()
        assert len(tables(connection)) == 1, "nobody shares what the third has under the same name"
    assert tables(connection) == []
    assert [n for n, _ in answers] == [6, 7, 10]
    drawn = [r for _, r in answers]
    assert drawn[0] == drawn[1] != drawn[2]


def test_tasks_compute_it_once_each(engine: SparkEngine, tmp_path: Path) -> None:
    path = write(tmp_path / "one.parquet", 1, 2)
    answers = engine.run("duckdb", [piece(path, "SELECT n, r FROM drawn")] * 7)
    found = [rows(answer.table)[0] for answer in answers if answer.table is not None]
    assert [n for n, _ in found] == [6] * 7
    assert len({r for _, r in found}) <= engine.cores, "once in each task"


def test_a_piece_goes_along_with_the_one_whose_view_it_writes(engine: SparkEngine, tmp_path: Path) -> None:
    """Two pieces are two tasks, each of which would draw for itself."""
    path = write(tmp_path / "one.parquet", 1, 2)
    asked = [piece(path, "SELECT n, r FROM drawn"), Piece("SELECT 1 AS n, 0.0 AS r")]
    written = replace(piece(path, "SELECT n, r FROM drawn"), along=True)
    found = [rows(answer.table)[0] for answer in engine.run("duckdb", [*asked, written]) if answer.table is not None]
    assert found[0] == found[2] and found[1] == (1, 0)
    [alone] = engine.run("duckdb", [written])
    assert alone.table is not None and rows(alone.table)[0][0] == 6, "with nobody to go with, it goes by itself"


def test_few_rows_of_the_driver_are_known_by_their_content(tmp_path: Path) -> None:
    """Every task gets copies of them."""

    def over(*numbers: int) -> Piece:
        given = Rows(pa.table({"n": pa.array(numbers, pa.int64())}))
        return Piece(
            "SELECT r FROM drawn", {"t": given}, (("drawn", "SELECT sum(n), random() AS r FROM t"),), shared=("drawn",)
        )

    pieces, connection, found = [over(1, 2), over(1, 2), over(3)], duckdb.connect(), []
    with CommonViews(pieces, connection.cursor) as common:
        for own in pieces:
            names = common.taken(connection, own, define_inputs(connection, own))
            found += connection.execute(names.before(own.sql)).fetchall()
    assert found[0] == found[1] != found[2]
