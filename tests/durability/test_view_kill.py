"""Killed at any moment, every view counts every acknowledged row once, and no insert by half.

Each round starts a child that feeds two streams, reads views and makes new ones, kills it after a random time or at a
random call (in the insert, while a batch is absorbed, merged or checkpointed, while a view is made), opens the folder
here and compares the views with what was acknowledged, and with the kept history of the stream.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from killing import Ledger, at_a_call, by_our_hand, kill_rounds
from view_child import FILE_ROWS, ROWS, VIEWS

import midstream

VIEWS_KEPT = 4
"""So many of the children's views go on in the next round."""
PLACES = ("states", "merging", "pipelines", "refreshing", "results", "views", "ahead", "absorbing")
"""What moves views forward, by the files of the code."""
WAYS = (
    by_our_hand,
    at_a_call(0.5, 3.5, *(f"midstream/runtime/{place}" for place in PLACES)),
    at_a_call(1.0, 4.5, "midstream/runtime/"),
    at_a_call(4.3, 6.3),
)
"""To die by our hand, at a call in what keeps views, in all that stands around it, or at any call."""


@dataclass
class Told(Ledger):
    """What the children have said of steps, and the most rows that one has read."""

    read: int = 0
    views: dict[int, int] = field(default_factory=dict)
    """The views that the children have made, and an SCN after which each counts all."""

    def hear(self, lines: list[str]) -> None:
        super().hear(lines)
        for said in map(json.loads, lines):
            if said["event"] == "read":
                self.read = max(self.read, said["rows"])
            elif said["event"] == "done" and said["kind"] == "view":
                self.views[said["step"]] = said["scn"]


def test_views_count_every_row_once_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    """Once by our hand, once at a call in what keeps views."""
    kill(tmp_path / "killed.db", rounds=2, seed=5, longest=4.0)


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_two_hundred_kills_change_no_answer(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=200, seed=int(os.environ.get("KILL_SEED", "6")), longest=12.0)


def kill(folder: Path, rounds: int, seed: int, longest: float) -> None:
    told = Told()
    make_database(folder)
    kill_rounds(
        folder,
        told,
        "view_child.py",
        WAYS,
        lambda db: check(db, told),
        rounds=rounds,
        seed=seed,
        longest=longest,
    )


def make_database(folder: Path) -> None:
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE TABLE ledger (step bigint); CREATE TABLE parity (bit int, name text)")
        db.sql("INSERT INTO parity VALUES (0, 'even'), (1, 'odd')")
        db.sql("CREATE STREAM fed (step bigint, n int) WITH (retain = '7 days')")
        db.sql("CREATE STREAM twin (step bigint, n int); CREATE STREAM filed (step bigint, n int)")
        for name, query in VIEWS.items():
            db.sql(f"CREATE VIEW {name} AS {query}")


def check(db: Any, told: Told) -> None:
    there = {step: (rows, n, most) for step, rows, n, most in db.sql("SELECT * FROM by_step").fetchall()}
    kinds = told.possible
    certain = {step for step, kind in told.certain.items() if ROWS[kind]}
    assert certain <= there.keys() <= kinds.keys(), "steps were lost or invented"
    wrong = {step: (kinds[step], found) for step, found in there.items() if found != expected_of(kinds[step])}
    assert not wrong, f"inserts by half, or twice: {wrong}"
    check_sums(db, told, there)
    check_twins(db, kinds, there)
    check_new_views(db, told, there)
    files = check_files(db, told)
    told.settle({*there, *files})


def check_files(db: Any, told: Told) -> set[int]:
    """Files of which nothing is kept but what views have made of them."""
    files = {step: (rows, n) for step, rows, n in db.sql("SELECT * FROM files").fetchall()}
    assert told.done_of("file") <= files.keys() <= told.may_be("file"), "files were lost or invented"
    assert set(files.values()) <= {(FILE_ROWS, sum(range(FILE_ROWS)))}, f"files by half, or twice: {files}"
    assert db.sql("SELECT * FROM file_total").fetchall() == [(FILE_ROWS * len(files),)]
    return set(files)


def expected_of(kind: str) -> tuple[int, int, int]:
    """Rows, sum and maximum of the numbers of one step."""
    return ROWS[kind], sum(range(ROWS[kind])), ROWS[kind] - 1


def check_sums(db: Any, told: Told, there: dict[int, tuple[int, int, int]]) -> None:
    rows = sum(found[0] for found in there.values())
    assert db.sql("SELECT * FROM total").fetchall() == [(rows, sum(found[1] for found in there.values()))]
    assert rows >= told.read, "rows that were read are gone"
    even = sum((found[0] + 1) // 2 for found in there.values())
    halves = {"even": even, "odd": rows - even}
    assert dict(db.sql("SELECT * FROM parities").fetchall()) == {name: count for name, count in halves.items() if count}
    kept = db.sql("SELECT step, count(*), sum(n), max(n) FROM fed GROUP BY step").fetchall()
    assert {step: tuple(found) for step, *found in kept} == there, "the view and the history do not agree"


def check_twins(db: Any, kinds: dict[int, str], there: dict[int, tuple[int, int, int]]) -> None:
    both = {step for step in there if kinds[step] == "transaction"}
    assert dict(db.sql("SELECT * FROM twins").fetchall()) == dict.fromkeys(both, 2), "half a transaction"
    assert {step for (step,) in db.sql("SELECT step FROM ledger").fetchall()} == both, "half a transaction"
    joined = {step: (rows, twins) for step, rows, twins in db.sql("SELECT * FROM joined").fetchall()}
    assert joined == {step: (found[0], 2 if step in both else None) for step, found in there.items()}


def check_new_views(db: Any, told: Told, there: dict[int, tuple[int, int, int]]) -> None:
    """A view that was made under way counts the inserts after one SCN, all of them, whole."""
    made = {name for name, *_ in db.sql("SHOW VIEWS").fetchall() if name.startswith("seen_")}
    assert {f"seen_{step}" for step in told.views} <= made, "a view was lost"
    scns = {step: said["scn"] for step, said in told.done.items() if ROWS[said["kind"]]}
    for step, since in told.views.items():
        seen = dict(db.sql(f"SELECT * FROM seen_{step}").fetchall())
        assert seen.items() <= {step: found[0] for step, found in there.items()}.items(), "by half, or twice"
        assert {other for other, scn in scns.items() if scn > since} <= seen.keys(), (
            "inserts after it was made are missing"
        )
        first = min((scns[other] for other in seen if other in scns), default=since + 1)
        assert not {other for other, scn in scns.items() if scn >= first} - seen.keys(), "it has a hole"
    for gone in [*list(told.views)[:-VIEWS_KEPT], *(int(name[5:]) for name in made if int(name[5:]) not in told.views)]:
        db.sql(f"DROP VIEW seen_{gone}")
        told.views.pop(gone, None)
