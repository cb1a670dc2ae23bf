"""What a worker keeps of its inputs: the same answers as from the files, never stale, and bounded."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from engine_pieces import ask, files, rows

from midstream.maintenance.engine import Files, Piece
from midstream.spark import duckdb_connection
from midstream.spark.duckdb_connection import Limits
from midstream.spark.engine import SparkEngine
from midstream.spark.kept_inputs import KeptInputs
from midstream.types import BIGINT, TEXT


def write(path: Path, *numbers: int) -> str:
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64()), "s": [f"<{n}>" for n in numbers]}), path)
    return str(path)


def tables(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]


def read(kept: KeptInputs, connection: duckdb.DuckDBPyConnection, given: Files) -> list[tuple[object, ...]]:
    return connection.execute(f"SELECT * FROM ({kept.select(connection, given)}) ORDER BY ALL").fetchall()


def test_an_input_that_comes_again_is_kept(tmp_path: Path) -> None:
    kept, connection = KeptInputs(1 << 30), duckdb.connect()
    given = files(write(tmp_path / "a.parquet", 1, 2), n=BIGINT, s=TEXT)
    for taken in (0, 1, 1):
        assert read(kept, connection, given) == [(1, "<1>"), (2, "<2>")]
        assert len(tables(connection)) == taken
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    write(tmp_path / "a.parquet", 1, 2, 3)
    assert len(read(kept, connection, given)) == 3, "the same name is not the same content"


def test_what_is_kept_is_bounded_and_the_least_used_goes_first(tmp_path: Path) -> None:
    kept, connection = KeptInputs(4 * 3 * 8_000), duckdb.connect()
    inputs = [files(write(tmp_path / f"{n}.parquet", *range(1000)), n=BIGINT) for n in range(5)]
    chosen = random.Random(3)
    for _ in range(200):
        place = chosen.randrange(5)
        assert len(read(kept, connection, inputs[place])) == 1000
        assert kept.bytes <= 3 * 8_100
        assert len(tables(connection)) <= 3
    large = files(write(tmp_path / "large.parquet", *range(10_000)), n=BIGINT)
    before = tables(connection)
    for _ in range(3):
        assert len(read(kept, connection, large)) == 10_000
    assert tables(connection) == before, "what would fill it alone is never kept"


def test_what_is_kept_of_files_that_are_gone_goes_when_the_next_is_kept(tmp_path: Path) -> None:
    kept, connection = KeptInputs(1 << 30), duckdb.connect()
    for number in range(5):
        given = files(write(tmp_path / f"{number}.parquet", *range(100)), n=BIGINT)
        for _ in range(2):
            kept.begin()
            assert len(read(kept, connection, given)) == 100
        assert len(tables(connection)) == 1
        (tmp_path / f"{number}.parquet").unlink()


def test_a_database_forgets_files_that_it_has_read(tmp_path: Path) -> None:
    """What it remembers of each would be memory that grows for ever."""
    connection = duckdb_connection.connect(Limits(1, 1 << 28), str(tmp_path))
    assert connection.execute("SELECT current_setting('parquet_metadata_cache')").fetchall() == [(False,)]
    duckdb_connection.forget(str(tmp_path))


@pytest.mark.parametrize("part", [((0,),), ((),)])
def test_a_task_s_share_of_a_file_is_not_kept(tmp_path: Path, part: tuple[tuple[int, ...], ...]) -> None:
    kept, connection = KeptInputs(1 << 30), duckdb.connect()
    whole = files(write(tmp_path / "a.parquet", 1, 2), n=BIGINT)
    share = Files(whole.paths, whole.columns, row_groups=part)
    for _ in range(3):
        kept.select(connection, share)
    assert tables(connection) == []


def test_change_sets_that_many_queries_read_are_kept_with_their_commits(tmp_path: Path) -> None:
    kept, connection = KeptInputs(1 << 30), duckdb.connect()
    paths = [write(tmp_path / f"{n}.parquet", n) for n in (1, 2, 3)]

    def changes(*scns: int) -> Files:
        plain = files(*[paths[scn - 1] for scn in scns], n=BIGINT)
        return replace(plain, file_values=(("scn", BIGINT, tuple(10 * scn for scn in scns)),))

    for scns, taken in (((1, 2), 0), ((2, 1), 2), ((1, 2, 3), 2), ((3, 2), 3), ((1, 2, 3), 3)):
        assert read(kept, connection, changes(*scns)) == sorted((scn, 10 * scn) for scn in scns)
        assert len(tables(connection)) == taken


def test_tasks_keep_their_inputs_and_see_new_content(engine: SparkEngine, tmp_path: Path) -> None:
    given = files(write(tmp_path / "a.parquet", 1, 2, 3), n=BIGINT)
    asked = "SELECT sum(n) AS s, (SELECT count(*) FROM duckdb_tables()) AS kept FROM t"
    answers = [rows(ask(engine, "duckdb", asked, t=given))[0] for _ in range(8)]
    assert {total for total, _ in answers} == {6}
    assert answers[-1][1] > 0, "after eight jobs on a few workers, one has seen it twice"  # type: ignore[operator]
    write(tmp_path / "a.parquet", 5)
    assert {rows(ask(engine, "duckdb", asked, t=given))[0][0] for _ in range(4)} == {5}


def test_many_small_files_that_are_read_together_become_one_table(tmp_path: Path) -> None:
    kept, connection = KeptInputs(1 << 30), duckdb.connect()
    paths = [write(tmp_path / f"{n}.parquet", n) for n in range(20)]
    for _ in range(2):
        read(kept, connection, files(*paths[:16], n=BIGINT))
    for count in (16, 17, 20):
        given = files(*paths[:count], n=BIGINT)
        assert read(kept, connection, given) == [(n,) for n in range(count)]
        assert kept.select(connection, files(*paths[:16], n=BIGINT)).count("SELECT") == 1
    assert read(kept, connection, files(*paths[:15], n=BIGINT)) == [(n,) for n in range(15)], "not with a row more"


def test_however_files_are_asked_for_together_each_counts_once(tmp_path: Path) -> None:
    chosen, connection = random.Random(7), duckdb.connect()
    kept = KeptInputs(4 * 100 * 8)
    paths = [write(tmp_path / f"{n}.parquet", n, n) for n in range(40)]
    for step in range(300):
        kept.begin()
        if step % 10 == 0:
            renewed = chosen.randrange(40)
            write(tmp_path / f"{renewed}.parquet", *[renewed] * chosen.randrange(1, 4))
        first = chosen.randrange(30)
        asked = chosen.sample(range(first, 40), chosen.randrange(1, 40 - first))
        found = read(kept, connection, files(*[paths[n] for n in asked], n=BIGINT))
        assert found == sorted((n,) for place in asked for n in pq.read_table(paths[place]).column("n").to_pylist())
        assert kept.bytes <= 100 * 8
    twice = files(paths[0], paths[0], n=BIGINT)
    assert len(read(kept, connection, twice)) == 2 * pq.read_metadata(paths[0]).num_rows


def test_what_is_computed_from_files_is_kept_unless_it_is_too_large(tmp_path: Path) -> None:
    kept, connection = KeptInputs(4 * 16 * 100), duckdb.connect()
    small, large = "SELECT i FROM range(100) AS t(i)", "SELECT i FROM range(101) AS t(i)"
    for _ in range(3):
        kept.begin()
        chosen = kept.view(connection, "small", small)
        assert chosen is not None and len(connection.execute(chosen).fetchall()) == 100
        assert kept.view(connection, "large", large) is None
        assert len(tables(connection)) == 1
    kept.begin()
    assert kept.view(connection, "another", small) is not None
    assert kept.view(connection, "small", small) is None, "there is room for one, and a task may still read it"
    assert len(tables(connection)) == 1


def test_a_task_knows_what_an_earlier_one_computed_from_the_same_files(engine: SparkEngine, tmp_path: Path) -> None:
    asked = "SELECT sum(n) AS s, (SELECT count(*) FROM duckdb_tables()) AS kept FROM part"

    def answers(path: str) -> set[object]:
        piece = Piece(asked, {"t": files(path, n=BIGINT)}, (("part", "SELECT n FROM t WHERE n > 1"),), kept=("part",))
        found = [rows(engine.run("duckdb", [piece])[0].table) for _ in range(6)]
        assert all(count > 0 for [(_, count)] in found)  # type: ignore[operator]
        return {total for [(total, _)] in found}

    assert answers(write(tmp_path / "a.parquet", 1, 2, 3)) == {5}
    assert answers(write(tmp_path / "b.parquet", 1, 2, 9)) == {11}, "other files, another answer"
