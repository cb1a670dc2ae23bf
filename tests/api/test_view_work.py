"""Continuous views at work: who waits for whom, what is kept once, what goes, and workers that die under way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from asking import rows, wait_for
from holding import held
from workers import are_busy, cpu_seconds, workers

SLOW = "SELECT count(*) AS n FROM range(250000000) AS r(i) WHERE i % 7 = 3"


@pytest.fixture
def fed(db: Any) -> Any:
    db.sql("CREATE STREAM s (step int, n int)")
    db.sql("CREATE VIEW steps AS SELECT step, count(*) AS rows, sum(n) AS n FROM s GROUP BY step")
    return db


def insert(db: Any, step: int, count: int = 3) -> None:
    db.sql("INSERT INTO s VALUES " + ", ".join(f"({step}, {n})" for n in range(count)))


def refreshes(db: Any, view: str) -> int:
    return int(next(row for row in db.sql("SHOW VIEWS").arrow().to_pylist() if row["name"] == view)["refreshes"])


def rows_behind(db: Any) -> int:
    return max(db._store.streams.rows_behind(entry) for entry, _ in db._store.views.readers())


def in_background(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """A thread, and what its work gave."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def test_readers_who_wait_together_share_one_refresh(fed: Any) -> None:
    fed.sql("SELECT * FROM steps")
    before = refreshes(fed, "steps")
    sessions = [fed.session() for _ in range(8)]
    with held(fed, "absorb") as jobs:
        insert(fed, 1)
        assert jobs.reached.wait(30)
        reads = [in_background(lambda s=session: rows(s, "SELECT * FROM steps")) for session in sessions]  # type: ignore[misc]
        wait_for(lambda: sum(crowd._here for crowd in fed._store.views._crowds.values()) == len(sessions))
        jobs.release()
        for thread, _ in reads:
            thread.join(60)
    assert [found for _, found in reads] == [[[(1, 3, 3)]]] * len(sessions)
    assert refreshes(fed, "steps") == before + 1
    for session in sessions:
        session.close()


def test_inserts_go_on_while_a_refresh_runs(fed: Any) -> None:
    insert(fed, 1)
    wait_for(lambda: rows_behind(fed) == 0)
    with held(fed, "refresh") as jobs:
        reader, seen = in_background(lambda: rows(fed.session(), "SELECT * FROM steps"))
        assert jobs.reached.wait(30)
        for step in range(2, 6):
            insert(fed, step)
        wait_for(lambda: rows_behind(fed) == 0, 30)
        assert reader.is_alive() and not seen, "all was acknowledged and absorbed meanwhile"
        jobs.release()
        reader.join(60)
    assert seen == [[(1, 3, 3)]], "the read is of the commit at which it began"
    assert rows(fed, "SELECT * FROM steps") == [(step, 3, 3) for step in range(1, 6)]


def test_a_grouped_stream_that_a_view_reads_several_times_has_one_state(fed: Any) -> None:
    grouped = "SELECT step, count(*) AS rows, sum(n) AS n FROM s GROUP BY step"
    fed.sql(
        f"CREATE VIEW pairs AS WITH g AS ({grouped}) SELECT a.step, b.step AS next FROM g a JOIN g b ON b.step > a.step"
    )
    fed.sql(
        f"CREATE VIEW twice AS SELECT a.step, b.n FROM ({grouped}) a JOIN ({grouped}) b ON b.step = a.step "
        f"WHERE a.rows > (SELECT min(rows) FROM ({grouped}) c) - 1"
    )
    [(_, reader)] = fed._store.views.readers()
    assert len(reader.state.views) == 3, "one state for all three views"
    insert(fed, 1)
    insert(fed, 2)
    assert rows(fed, "SELECT * FROM pairs") == [(1, 2)]
    assert rows(fed, "SELECT * FROM twice") == [(1, 3), (2, 3)]
    before = refreshes(fed, "steps")
    insert(fed, 3)
    joined = rows(fed, "SELECT a.step, b.step FROM steps a JOIN steps b ON b.step = a.step + 1")
    assert joined == [(1, 2), (2, 3)]
    assert refreshes(fed, "steps") == before + 1, "a statement that reads a view twice refreshes it once"


def test_the_day_of_a_row_is_compared_with_the_day_of_the_read(db: Any) -> None:
    db.sql("CREATE STREAM s (k int, ts timestamp)")
    db.sql("CREATE VIEW today AS SELECT k, count(*) AS n FROM s WHERE date_trunc('day', ts) = current_date GROUP BY k")

    def counted_on_one_day() -> bool:
        """Midnight may come in between."""
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        key = now.day
        moments = [now, now.replace(hour=0, minute=0, second=0, microsecond=0), now - timedelta(days=1)]
        moments += [now + timedelta(days=1), now - timedelta(days=365)]
        db.insert("s", [{"k": key, "ts": moment} for moment in moments])
        found = dict(db.sql("SELECT * FROM today").fetchall())
        if datetime.now(timezone.utc).day != key:
            return False
        assert found[key] == 2
        return True

    wait_for(counted_on_one_day)
    states = [reader.state for _, reader in db._store.views.readers()]
    assert sum(state.rows for state in states) >= 4, "the other days are kept as hidden keys"


def test_the_log_shrinks_when_its_rows_are_absorbed(fed: Any) -> None:
    journal = fed._store.streams.journal
    folder = Path(journal.active.path).parent
    with held(fed, "absorb") as jobs:
        for step in range(5):
            insert(fed, step, 2000)
            journal.rotate()
        fed.insert("s", [{"step": 9, "n": 1}] * 30_000)
        assert jobs.reached.wait(30)
        full, files = log_bytes(fed), len(list(folder.iterdir()))
        bulk = list((fed.path / "streams").glob("*/bulk/*"))
        assert files >= 6 and bulk
        jobs.release()
    assert {step: count for step, count, _ in fed.sql("SELECT * FROM steps").fetchall()}[9] == 30_000
    wait_for(lambda: log_bytes(fed) < full / 20)
    wait_for(lambda: len(list(folder.iterdir())) == 1)
    wait_for(lambda: not any(path.exists() for path in bulk))


def log_bytes(db: Any) -> int:
    return int(dict(db.sql("SHOW STATUS").fetchall())["log_bytes"])


# Workers that die


@contextmanager
def killed_once(db: Any, label: str) -> Iterator[list[int]]:
    """The workers are killed while they run a job of this label: what it writes is written by then, and the task
    computes something else before it ends."""
    engine, run, killed = db._engine, db._engine.run, list[int]()
    rows(db, "SELECT 1")

    def slowed(kernel: str, pieces: Any, *, label: str = "", cancellation: Any = None) -> Any:
        if not label.startswith(wanted) or killed or not pieces:
            return run(kernel, pieces, label=label, cancellation=cancellation)
        before = cpu_seconds()
        slow = [replace(piece, checks=(*piece.checks, ("slow", SLOW))) for piece in pieces]
        killer = threading.Thread(target=kill_when_busy, args=(before, killed))
        killer.start()
        try:
            return run(kernel, slow, label=label, cancellation=cancellation)
        finally:
            killer.join()

    wanted, engine.run = label, slowed
    try:
        yield killed
    finally:
        del engine.run


def kill_when_busy(before: dict[int, float], killed: list[int]) -> None:
    wait_for(lambda: are_busy(before))
    for pid in workers():
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)


def test_a_worker_that_dies_while_a_batch_is_absorbed_changes_no_answer(fed: Any) -> None:
    insert(fed, 1)
    assert rows(fed, "SELECT * FROM steps") == [(1, 3, 3)]
    with killed_once(fed, "absorb") as killed:
        insert(fed, 2, 5)
        assert rows(fed, "SELECT * FROM steps") == [(1, 3, 3), (2, 5, 10)]
    assert killed
    check_files(fed)


def test_a_worker_that_dies_while_partials_are_merged_changes_no_answer(fed: Any) -> None:
    with killed_once(fed, "merge partials") as killed:
        for _ in range(9):
            insert(fed, 1)
            fed.sql("SELECT * FROM steps")
        wait_for(lambda: bool(killed))
        fed._store.views.merger.wait()
    assert rows(fed, "SELECT * FROM steps") == [(1, 27, 27)]
    [(_, reader)] = fed._store.views.readers()
    assert any(file.level for file in reader.state.files), "it was merged all the same"
    check_files(fed)


def check_files(db: Any) -> None:
    """What the dead worker left is not there, or not named."""
    [(_, reader)] = db._store.views.readers()
    assert {path.name for path in Path(reader.state.folder).glob("*.parquet")} == {
        os.path.basename(file.path) for file in reader.state.files
    }
