"""What did not commit leaves no file behind, and upkeep leaves only what can still be asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import midstream

pytestmark = pytest.mark.spark


@pytest.fixture
def own(tmp_path: Path, database: Any) -> Iterator[Any]:
    """A database with one table of three rows in three files; `database` keeps Spark up."""
    with midstream.connect(tmp_path / "own.db") as db:
        db.sql("CREATE TABLE t (a int PRIMARY KEY, b int CHECK (b > 0))")
        for number in range(3):
            db.sql("INSERT INTO t VALUES (?, 1)", [number])
        yield db


def files(db: Any) -> set[str]:
    return {str(path.relative_to(db.path)) for path in (db.path / "tables").glob("*/*.parquet")}


def test_a_statement_that_a_constraint_stops_leaves_no_file(own: Any) -> None:
    before = files(own)
    for failing in ("INSERT INTO t SELECT a, 1 FROM t", "INSERT INTO t SELECT a + 10, b - 1 FROM t"):
        with pytest.raises(midstream.ConstraintViolation):
            own.sql(failing)
        assert files(own) == before
    assert own.sql("SELECT count(*) FROM t").fetchall() == [(3,)]


def test_a_rollback_leaves_no_file_and_no_table(own: Any) -> None:
    before = files(own)
    own.sql("BEGIN; INSERT INTO t SELECT a + 10, b FROM t; CREATE TABLE u AS SELECT * FROM t; ROLLBACK")
    assert files(own) == before
    assert {path.name for path in (own.path / "tables").iterdir()} == {name.split("/")[1] for name in before}


def test_upkeep_puts_files_together_and_the_rows_stay(own: Any) -> None:
    past = own.sql("SELECT current_scn()").fetchone()[0]
    assert own.upkeep().compacted_tables == 1
    assert own.sql("SELECT a FROM t ORDER BY a").fetchall() == [(0,), (1,), (2,)]
    own.sql("DELETE FROM t WHERE a = 0")
    assert own.sql(f"SELECT count(*) FROM t AS OF SCN {past}").fetchall() == [(3,)]
    assert own.sql("SELECT count(*) FROM clog_t").fetchall() == [(4,)]


def test_upkeep_forgets_the_past_that_need_not_be_kept(own: Any) -> None:
    past = own.sql("SELECT current_scn()").fetchone()[0]
    own.sql("UPDATE t SET b = b + 1")
    before = files(own)
    own.sql("SET retain_history = '0 seconds'")
    assert own.upkeep().removed_files > 0
    assert len(files(own)) < len(before)
    assert own.sql("SELECT a, b FROM t ORDER BY a").fetchall() == [(0, 2), (1, 2), (2, 2)]
    with pytest.raises(midstream.HistoryGone, match="no longer kept"):
        own.sql(f"SELECT * FROM t AS OF SCN {past}")


def test_an_open_transaction_keeps_the_files_that_it_reads(own: Any) -> None:
    own.sql("SET retain_history = '0 seconds'")
    reader = own.session()
    reader.sql("BEGIN")
    own.sql("UPDATE t SET b = 5")
    own.upkeep()
    assert reader.sql("SELECT DISTINCT b FROM t").fetchall() == [(1,)]
    reader.close()
    own.upkeep()
    assert own.sql("SELECT DISTINCT b FROM t").fetchall() == [(5,)]
