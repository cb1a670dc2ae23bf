"""COPY of Parquet into a stream that only views read: what they make of it is all that is kept."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import midstream
from asking import rows, wait_for
from holding import held

COUNTS = "SELECT k, count(*) AS n, sum(x) AS total FROM s GROUP BY k"
ONCE = [(1, 2, 15), (2, 1, 7)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"k": pa.array([1, 2, 1], pa.int32()), "x": pa.array([10, 7, 5], pa.int32())}), path)
    return path


@pytest.fixture
def counted(db: Any) -> Any:
    db.sql("CREATE STREAM s (k int, x int)")
    db.sql(f"CREATE VIEW counts AS {COUNTS}")
    return db


def copy(db: Any, file: Path, stream: str = "s") -> Any:
    return db.sql(f"COPY {stream} FROM '{file}' PARQUET")


def kept_rows(db: Any) -> list[Path]:
    return list((Path(db.path) / "streams").glob("*/bulk/*"))


def partials(db: Any) -> list[Path]:
    return list((Path(db.path) / "views").glob("*/*.parquet"))


def test_a_file_is_not_copied_where_all_readers_are_views(counted: Any, file: Path) -> None:
    with held(counted, "absorb") as jobs:
        assert copy(counted, file).status == "COPY 3"
        assert kept_rows(counted) == []
        assert len(partials(counted)) == 1
        assert rows(counted, "SELECT * FROM counts ORDER BY k") == ONCE
        assert not jobs.labels, "it is not absorbed by another job"
    counted.sql("INSERT INTO s VALUES (2, 1)")
    copy(counted, file)
    assert rows(counted, "SELECT * FROM counts ORDER BY k") == [(1, 4, 30), (2, 3, 15)]


def test_what_was_made_is_taken_in_when_the_database_is_opened_again(tmp_path: Path, file: Path) -> None:
    folder = str(tmp_path / "again.db")
    with midstream.connect(folder) as db:
        db.sql("CREATE STREAM s (k int, x int)")
        db.sql(f"CREATE VIEW counts AS {COUNTS}")
        copy(db, file)
        assert rows(db, "SELECT * FROM counts ORDER BY k") == ONCE
        db._store.streams._set_to_work = lambda: None
        copy(db, file)
        db.sql("INSERT INTO s VALUES (3, 1)")
    for _ in range(2):
        with midstream.connect(folder) as db:
            assert rows(db, "SELECT * FROM counts ORDER BY k") == [(1, 4, 30), (2, 2, 14), (3, 1, 1)]
            wait_for(lambda: not db._store.streams.journal.closed)


def test_a_view_that_comes_while_a_file_is_read_counts_all_of_it(counted: Any, file: Path) -> None:
    with held(counted, "take files") as jobs, counted.session() as session:
        copying = threading.Thread(target=copy, args=(session, file))
        copying.start()
        assert jobs.reached.wait(30)
        counted.sql("CREATE VIEW total AS SELECT sum(x) AS total FROM s")
        jobs.release()
        copying.join()
    assert len(jobs.labels) == 2, "the file was read once more, for both"
    assert rows(counted, "SELECT * FROM total") == [(22,)]
    assert rows(counted, "SELECT * FROM counts ORDER BY k") == ONCE
    assert len(partials(counted)) == 2, "what the first job made is gone"


def test_a_view_that_comes_before_commit_fails_the_transaction_and_nothing_counts(counted: Any, file: Path) -> None:
    with counted.session() as session:
        session.sql("BEGIN")
        copy(session, file)
        counted.sql("CREATE VIEW total AS SELECT sum(x) AS total FROM s")
        with pytest.raises(midstream.Error) as refused:
            session.sql("COMMIT")
        assert refused.value.sqlstate == "40001" and refused.value.hint
    assert rows(counted, "SELECT * FROM total") == [(None,)]
    assert rows(counted, "SELECT * FROM counts") == []
    assert partials(counted) == []


def test_a_view_that_goes_before_commit_is_missed_by_nobody(counted: Any, file: Path) -> None:
    counted.sql("CREATE VIEW total AS SELECT sum(x) AS total FROM s WHERE k > 0")
    with counted.session() as session:
        session.sql("BEGIN")
        copy(session, file)
        counted.sql("DROP VIEW total")
        session.sql("COMMIT")
    assert rows(counted, "SELECT * FROM counts ORDER BY k") == ONCE


def test_rollback_removes_what_was_made(counted: Any, file: Path) -> None:
    counted.sql("BEGIN")
    copy(counted, file)
    assert partials(counted)
    counted.sql("ROLLBACK")
    assert partials(counted) == []
    assert rows(counted, "SELECT * FROM counts") == []


def test_windows_that_come_just_after_do_not_look_for_the_rows(db: Any, file: Path, tmp_path: Path) -> None:
    db.sql("CREATE STREAM s (k int, x int, ts timestamp)")
    db.sql(f"CREATE VIEW counts AS {COUNTS}")
    moments = pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us"))
    timed = pq.read_table(file).append_column("ts", moments)
    pq.write_table(timed, file)
    streams = db._store.streams
    seal, streams._seal = streams._seal, lambda: None
    copy(db, file)
    db.sql("CREATE VIEW pairs AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]")
    streams._seal = seal
    assert rows(db, "SELECT * FROM counts ORDER BY k") == ONCE
    copy(db, file)
    assert kept_rows(db), "who counts rows needs to know where each stands"
    assert rows(db, "SELECT * FROM pairs") == [(2,)]
    assert rows(db, "SELECT * FROM counts ORDER BY k") == [(1, 4, 30), (2, 2, 14)]


def test_files_for_windows_that_read_no_column(db: Any, file: Path) -> None:
    db.sql("CREATE STREAM s (k int, x int)")
    db.sql("CREATE VIEW pairs AS SELECT count(*) AS n FROM s [WINDOW 2 ROWS]")
    copy(db, file)
    assert rows(db, "SELECT * FROM pairs") == [(2,)]


def test_a_view_that_cannot_compute_with_a_row_keeps_no_file_out(counted: Any, file: Path) -> None:
    counted.sql("CREATE VIEW broken AS SELECT sum(1 / (x - 7)) AS n FROM s")
    assert copy(counted, file).status == "COPY 3"
    assert rows(counted, "SELECT * FROM counts ORDER BY k") == ONCE
    with pytest.raises(midstream.Error, match="division by zero"):
        counted.sql("SELECT * FROM broken").fetchall()


@pytest.mark.parametrize("kernel", ["duckdb", "spark"])
@pytest.mark.parametrize("options", ["", "WITH (retain = '1 day')"])
def test_nan_is_found_in_a_file_that_leaves_it_out_of_its_largest_value(
    db: Any, tmp_path: Path, options: str, kernel: str
) -> None:
    path = tmp_path / "measured.parquet"
    pq.write_table(pa.table({"k": ["a", "a", "b"], "x": [float("nan"), 1.0, 2.0]}), path)
    with db.session() as session:
        session.sql(f"SET kernel = '{kernel}'")
        session.sql(f"CREATE STREAM measured (k text, x double precision) {options}")
        session.sql("CREATE VIEW missing AS SELECT k, count(*) AS n FROM measured WHERE x = 'NaN' GROUP BY k")
        copy(session, path, "measured")
        assert rows(session, "SELECT * FROM missing") == [("a", 1)]
        if options:
            assert rows(session, "SELECT k FROM measured WHERE x > 100") == [("a",)]
