"""Tasks that copy files beside their SQL: both are there, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.errors import Error
from midstream.maintenance.engine import CopyFiles, Piece, WriteParquet
from midstream.spark.engine import SparkEngine
from midstream.types import BIGINT


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Where copies go, and where rows do."""
    for name in ("copies", "output"):
        (tmp_path / name).mkdir()
    return tmp_path / "copies", tmp_path / "output"


def left(folders: tuple[Path, Path]) -> int:
    return sum(len(list(folder.iterdir())) for folder in folders)


def test_a_piece_copies_files_and_answers(
    engine: SparkEngine, write: Callable[..., str], folders: tuple[Path, Path]
) -> None:
    paths = tuple(write(f"{n}.parquet", pa.table({"n": range(n, n + 3)})) for n in range(2))
    copies = CopyFiles(str(folders[0]), paths)
    output = WriteParquet(str(folders[1]), (("n", BIGINT),))
    plain, written = engine.run(
        "duckdb", [Piece("SELECT 7 AS n", copies=copies), Piece("SELECT 8 AS n", output=output, copies=copies)]
    )
    assert plain.table is not None and plain.table.to_pylist() == [{"n": 7}] and plain.files == ()
    assert [pq.read_table(file.path).to_pylist() for file in written.files] == [[{"n": 8}]]
    for answer in (plain, written):
        assert [Path(copy.path).read_bytes() for copy in answer.copies] == [Path(path).read_bytes() for path in paths]
        assert [copy.rows for copy in answer.copies] == [3, 3]
    assert left(folders) == 5


@pytest.mark.parametrize("sql, source", [("SELECT CAST('x' AS BIGINT) AS n", "0.parquet"), ("SELECT 1 AS n", "gone")])
def test_nothing_stays_of_a_piece_that_fails(
    engine: SparkEngine, write: Callable[..., str], folders: tuple[Path, Path], sql: str, source: str
) -> None:
    path = Path(write("0.parquet", pa.table({"n": range(3)}))).with_name(source)
    output = WriteParquet(str(folders[1]), (("n", BIGINT),))
    with pytest.raises(Error):
        engine.run("duckdb", [Piece(sql, output=output, copies=CopyFiles(str(folders[0]), (str(path),)))])
    assert left(folders) == 0
