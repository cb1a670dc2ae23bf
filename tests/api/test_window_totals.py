"""Windows that are made one from the other: the newest basic windows are added, the oldest taken away."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import midstream
from midstream.runtime import totals

Row = tuple[str | None, int | None, int]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small windows are merged faster than a total is written: here they are not."""
    monkeypatch.setattr(totals, "FROM_ROWS", 0)


def answer(rows: list[Row]) -> list[tuple[Any, ...]]:
    """What the view says of the rows of a window."""
    groups: dict[str | None, list[int | None]] = {}
    for key, value, _ in rows:
        groups.setdefault(key, []).append(value)
    found = []
    for key, values in groups.items():
        known = [value for value in values if value is not None]
        average = sum(known) / len(known) if known else None
        found.append((key, len(values), sum(known) if known else None, average, len(set(known))))
    return sorted(found, key=repr)


QUERY = "SELECT k, count(*), sum(v), avg(v), count(DISTINCT v) AS d FROM s [WINDOW 40 ROWS SLIDE 5 ROWS] GROUP BY k"


def plan_of(db: Any, view: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall())


def test_groups_and_values_that_left_are_gone(database: Any, tmp_path: Path) -> None:
    """Groups come and go, sums of nothing are NULL again, rows come by ones, fives and hundreds, and the database is
    opened again in between."""
    choices = random.Random(7)
    rows: list[Row] = []
    db = midstream.connect(str(tmp_path / "totals.db"))
    try:
        db.sql("CREATE STREAM s (k text, v int, n bigint)")
        db.sql(f"CREATE VIEW w AS {QUERY}")
        for step in range(24):
            phase = step // 6
            new: list[Row] = [
                (
                    choices.choice(["a", "b", None] if phase % 2 else ["c", "d"]),
                    None if phase == 2 or choices.random() < 0.3 else choices.randint(-5, 5),
                    len(rows) + place,
                )
                for place in range(choices.choice([1, 5, 5, 5, 17] if step % 9 else [100]))
            ]
            rows += new
            db.insert("s", [{"k": k, "v": v, "n": n} for k, v, n in new])
            complete = (len(rows) - 40) // 5
            if complete >= 0:
                found = sorted(db.sql("SELECT * FROM w").fetchall(), key=repr)
                assert found == answer(rows[5 * complete : 5 * complete + 40])
            if step == 13:
                assert "the next adds the newest basic window" in plan_of(db, "w")
                db.close()
                db = midstream.connect(str(tmp_path / "totals.db"))
    finally:
        db.close()


def test_a_total_is_one_file_whatever_has_been(database: Any, tmp_path: Path) -> None:
    db = midstream.connect(str(tmp_path / "files.db"))
    try:
        db.sql("CREATE STREAM s (k int, v int)")
        db.sql("CREATE VIEW w WITH (retain = 3) AS SELECT k, sum(v) FROM s [WINDOW 60 ROWS SLIDE 10 ROWS] GROUP BY k")
        for step in range(14):
            db.insert("s", [{"k": step * 10 + i, "v": 1} for i in range(10)])
            db.sql("SELECT * FROM w").fetchall()
        [view] = [v for v in db._store.catalog.state.relations.values() if v.name == "w"]
        log = db._store.views.windows.log_of(view)
        [total] = log.totals.values()
        assert total.file is not None and total.file.rows == 60
        folder = Path(db._store.views.windows.folder(view.id))
        assert len(list(folder.iterdir())) <= 3 + 1
        del log, total
        db.sql("DROP VIEW w")
        assert not folder.exists() or not list(folder.iterdir())
    finally:
        db.close()


def test_sums_of_doubles_are_not_taken_back(db: Any) -> None:
    """What was added to a double cannot be taken away exactly."""
    db.sql("CREATE STREAM s (k int, v double precision)")
    db.sql("CREATE VIEW w AS SELECT k, sum(v) FROM s [WINDOW 40 ROWS SLIDE 5 ROWS] GROUP BY k")
    for step in range(12):
        db.insert("s", [{"k": 1, "v": 1e16 if step == 0 else 0.1}] * 5)
        db.sql("SELECT * FROM w").fetchall()
    [(_, total)] = db.sql("SELECT * FROM w").fetchall()
    assert total == pytest.approx(4.0)
    assert "the next adds the newest basic window" not in plan_of(db, "w")
