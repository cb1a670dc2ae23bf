"""Groups that no later read can ask for leave the state in the background, also where nothing is merged."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from asking import rows, wait_for
from midstream.runtime import states, sweeping
from midstream.runtime.upkeep import Housekeeper

YEAR, WEEK, _ = datetime.now(timezone.utc).isocalendar()
THIS_WEEK = YEAR * 100 + WEEK
WEEKLY = "CREATE VIEW weekly AS SELECT k, count(*) AS n FROM s WHERE week = current_week() GROUP BY k"
HOURLY = "CREATE VIEW hourly AS SELECT k, count(*) AS n FROM t WHERE ts > now() - interval '1 hour' GROUP BY k"


@contextmanager
def upkeep_all_the_time(db: Any) -> Iterator[None]:
    keeper = Housekeeper(db._store, lambda: 1e9, every_seconds=0.05)
    try:
        yield
    finally:
        keeper.close()


def state_of(db: Any) -> Any:
    [(_, reader)] = db._store.views.readers()
    return reader.state


def insert_weeks(db: Any, old: int, new: int) -> None:
    weeks = [THIS_WEEK - 100] * old + [THIS_WEEK] * new
    db.insert("s", pa.table({"k": list(range(old + new)), "week": pa.array(weeks, pa.int32())}))


def test_batches_of_which_all_is_over_are_merged_into_nothing(db: Any) -> None:
    db.sql("CREATE STREAM s (k bigint, week int)")
    db.sql(WEEKLY)
    for _ in range(states.FEW_FILES + 2):
        insert_weeks(db, 3, 0)
        assert db.sql("SELECT * FROM weekly").fetchall() == []
    db._store.views.merger.wait()
    assert len(state_of(db).files) < states.FEW_FILES
    insert_weeks(db, 0, 2)
    assert rows(db, "SELECT * FROM weekly") == [(0, 1), (1, 1)]


@pytest.mark.parametrize("kernel", ["duckdb", "spark"])
def test_an_old_week_in_one_large_file_goes(db: Any, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "FEW_ROWS", 100)
    db.sql("CREATE STREAM s (k bigint, week int)")
    with db.session() as session:
        session.sql(f"SET kernel = '{kernel}'")
        session.sql(WEEKLY)
    insert_weeks(db, 900, 100)
    expected = rows(db, "SELECT * FROM weekly")
    assert len(expected) == 100
    state = state_of(db)
    before = (state.rows, state.bytes)
    with upkeep_all_the_time(db):
        wait_for(lambda: state_of(db).rows == 100)
    assert before[0] == 1000 and state_of(db).bytes < before[1]
    db._store.views.merger.wait()
    assert len(list(Path(state.folder).glob("*.parquet"))) == len(state.files), "the old file is gone"
    insert_weeks(db, 0, 100)
    assert rows(db, "SELECT * FROM weekly") == sorted([*expected, *((k, 1) for k in range(100))], key=repr)


def test_a_large_run_loses_what_is_over_slice_by_slice(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "FEW_FILES", 2)
    monkeypatch.setattr(sweeping, "SLICE_ROWS", 100_000)
    db.sql("CREATE STREAM t (k bigint, ts timestamp)")
    db.sql(HOURLY)
    now, merger = datetime.now(timezone.utc), db._store.views.merger
    for first, age in ((0, 50), (130_000, 1)):
        keys = list(range(first, first + 130_000))
        moments = pa.array([(now - timedelta(minutes=age)).replace(tzinfo=None)] * len(keys), pa.timestamp("us"))
        db.insert("t", pa.table({"k": keys, "ts": moments}))
        assert db.sql("SELECT count(*) FROM hourly").fetchone() == (first + 130_000,)
    merger.wait()
    wait_for(lambda: [run.rows for run in state_of(db).runs()] == [260_000])
    merger.sweep()
    merger.wait()
    assert state_of(db).rows == 260_000, "all of it may still be asked for"
    merges = merger.spent[db._store.views.readers()[0][1].id].jobs
    merger.now = lambda: now + timedelta(minutes=30)
    merger.sweep()
    merger.wait()
    state = state_of(db)
    assert state.rows == 130_000
    assert len(state.runs()) == 1, "no group is in two of its files, so they are one run"
    assert merger.spent[db._store.views.readers()[0][1].id].jobs == merges + 1
    merger.now = lambda: now + timedelta(minutes=30)
    files = list(state.files)
    merger.sweep()
    merger.wait()
    assert state_of(db).files == files, "nothing more is over"
    assert db.sql("SELECT count(*), sum(n) FROM hourly WHERE k >= 130000").fetchall() == [(130_000, 130_000)]


def test_what_is_little_beside_the_rest_waits(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is written again when a quarter of it is over, so that little work makes little smaller."""
    monkeypatch.setattr(sweeping, "FEW_ROWS", 100)
    db.sql("CREATE STREAM s (k bigint, week int)")
    db.sql(WEEKLY)
    insert_weeks(db, 50, 950)
    assert db.sql("SELECT count(*) FROM weekly").fetchone() == (950,)
    db._store.views.merger.sweep()
    db._store.views.merger.wait()
    assert state_of(db).rows == 1000


def test_a_state_of_which_nothing_is_left_takes_new_rows(db: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "FEW_ROWS", 100)
    db.sql("CREATE STREAM s (k bigint, week int)")
    db.sql(WEEKLY)
    for new in (2, 3):
        insert_weeks(db, 200, 0)
        assert db.sql("SELECT count(*) FROM weekly WHERE k > 3").fetchone() == (0,)
        db._store.views.merger.sweep()
        db._store.views.merger.wait()
        gc.collect()
        insert_weeks(db, 0, new)
        assert db.sql("SELECT count(*), max(k) FROM weekly").fetchone() == (new, new - 1)
    folder = Path(state_of(db).folder)
    db.sql("DROP VIEW weekly")
    wait_for(lambda: not folder.exists())
