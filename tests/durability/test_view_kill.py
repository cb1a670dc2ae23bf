"""Killed at any moment, every view counts every acknowledged row once, and no insert by half.

Each round starts a child that feeds two streams, reads views and makes new ones, kills it after a random time or at a
random call (in the insert, while a batch is absorbed, merged or checkpointed, while a view is made), opens the folder
here and compares the views with what was acknowledged, and with the kept history of the stream.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from test_kill import SOURCE, Ledger, kill_group, read_until_killed
from view_child import ROWS, VIEWS

import midstream

CHILD = Path(__file__).with_name("view_child.py")
VIEWS_KEPT = 4
"""So many of the children's views go on in the next round."""
PLACES = ("states", "merging", "pipelines", "refreshing", "results", "views")
"""What moves views forward, by the files of the code."""


def die_in_a_place(chosen: random.Random) -> list[str]:
    place = f"midstream/runtime/{chosen.choice(PLACES)}"
    return ["--die-at", str(int(10 ** chosen.uniform(0.5, 3.5))), "--within", place]


WAYS: tuple[Callable[[random.Random], list[str]], ...] = (
    lambda chosen: [],
    die_in_a_place,
    lambda chosen: ["--die-at", str(int(10 ** chosen.uniform(1.0, 4.5))), "--within", "midstream/runtime/"],
    lambda chosen: ["--die-at", str(int(10 ** chosen.uniform(4.3, 6.3)))],
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

    @property
    def kinds(self) -> dict[int, str]:
        return {**self.found, **self.in_doubt, **{step: said["kind"] for step, said in self.done.items()}}

    @property
    def certain(self) -> set[int]:
        return {step for step in {*self.done, *self.found} if ROWS[self.kinds[step]]}


def test_views_count_every_row_once_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=2, seed=5, longest=6.0)


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_two_hundred_kills_change_no_answer(database: Any, tmp_path: Path) -> None:
    kill_rounds(tmp_path / "killed.db", rounds=200, seed=int(os.environ.get("KILL_SEED", "6")), longest=12.0)


def kill_rounds(folder: Path, rounds: int, seed: int, longest: float) -> None:
    chosen, told = random.Random(seed), Told()
    make_database(folder)
    for number in range(rounds):
        how = WAYS[number % len(WAYS)](chosen)
        after = longest if how else chosen.uniform(1.0, longest)
        told.hear(run_and_kill(folder, chosen.randrange(10**6), told.last_step + 1, how, after))
        with midstream.connect(str(folder)) as db:
            try:
                check(db, told)
            except AssertionError as wrong:
                raise AssertionError(f"round {number}, seed {seed}, {how}: {wrong}") from wrong
    assert len(told.done) >= rounds, "the children hardly did anything"


def make_database(folder: Path) -> None:
    with midstream.connect(str(folder)) as db:
        db.sql("CREATE TABLE ledger (step bigint); CREATE TABLE parity (bit int, name text)")
        db.sql("INSERT INTO parity VALUES (0, 'even'), (1, 'odd')")
        db.sql("CREATE STREAM fed (step bigint, n int) WITH (retain = '7 days')")
        db.sql("CREATE STREAM twin (step bigint, n int)")
        for name, query in VIEWS.items():
            db.sql(f"CREATE VIEW {name} AS {query}")


def run_and_kill(folder: Path, seed: int, first: int, how: list[str], after: float) -> list[str]:
    arguments = [sys.executable, str(CHILD), str(folder), str(seed), str(first), *how]
    environment = os.environ | {"PYTHONPATH": f"{SOURCE}{os.pathsep}{CHILD.parent}", "PYTHONUNBUFFERED": "1"}
    child = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.append(child.stderr.read() if child.stderr else ""))
    reader.start()
    try:
        lines = read_until_killed(child, after)
    finally:
        kill_group(child)
        reader.join()
    how_it_ended = f"the child ended by itself with {child.returncode}:\n{complaints[0][-4000:]}"
    assert child.returncode == -signal.SIGKILL, how_it_ended
    assert "Traceback" not in complaints[0], complaints[0][-4000:]
    return lines


def check(db: Any, told: Told) -> None:
    there = {step: (rows, n, most) for step, rows, n, most in db.sql("SELECT * FROM by_step").fetchall()}
    kinds = told.kinds
    assert told.certain <= there.keys() <= kinds.keys(), "steps were lost or invented"
    wrong = {step: (kinds[step], found) for step, found in there.items() if found != expected_of(kinds[step])}
    assert not wrong, f"inserts by half, or twice: {wrong}"
    check_sums(db, told, there)
    check_twins(db, kinds, there)
    check_new_views(db, told, there)
    told.found |= {step: kind for step, kind in told.in_doubt.items() if step in there}
    told.in_doubt.clear()


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
    scns = {step: said["scn"] for step, said in told.done.items() if said["kind"] != "view"}
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
