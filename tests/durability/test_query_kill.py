"""Killed at any moment between a commit and the destination, nothing is lost and nothing repeated.

Each round starts a child that changes tables under continuous queries and materialized views and takes from a queue,
kills it after a random time or at a random call, opens the folder here, waits until all is computed, and compares
destinations, a subscription, the queue, the calls of a trigger and the views with the tables and with what was
acknowledged.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from killing import Ledger, at_a_call, by_our_hand, kill_rounds
from query_child import ACCOUNTS, CALLS, POURED, QUERIES, ROWS, TAKEN_AT_ONCE, VIEWS

import midstream
from asking import scn_now

WAYS = (
    by_our_hand,
    at_a_call(2.0, 4.5, "midstream/runtime/continuous/"),
    at_a_call(3.0, 5.0, "midstream/runtime/"),
    at_a_call(5.0, 6.5),
)
"""To die by our hand, at a call in what computes and delivers, in all that stands around it, or at any call."""
PATIENCE = 60.0


@dataclass
class Told(Ledger):
    """What the children have said of steps, and what was taken from the queue and heard by a subscriber."""

    taken: list[tuple[int, int]] = field(default_factory=list)
    heard: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    heard_to: int = 0
    calls: list[tuple[str, str, int, int]] = field(default_factory=list)
    kills: int = 0

    def hear(self, lines: list[str]) -> None:
        super().hear(lines)
        self.kills += 1
        for said in map(json.loads, lines):
            if said["event"] == "dequeued":
                self.taken += [tuple(row) for row in said["rows"]]
            elif said["event"] == "called":
                self.calls.append(tuple(said["call"]))


def test_changes_are_handed_out_once_when_the_process_is_killed(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=1, seed=5, longest=8.0)


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_a_hundred_kills_lose_and_repeat_nothing(database: Any, tmp_path: Path) -> None:
    kill(tmp_path / "killed.db", rounds=100, seed=int(os.environ.get("KILL_SEED", "6")), longest=12.0)


def kill(folder: Path, rounds: int, seed: int, longest: float) -> None:
    told = Told()
    CALLS.clear()
    make_database(folder, told)
    kill_rounds(
        folder,
        told,
        "query_child.py",
        WAYS,
        lambda db: check(db, told),
        rounds=rounds,
        seed=seed,
        longest=longest,
    )
    assert told.heard, "nothing was ever handed out"


def make_database(folder: Path, told: Told) -> None:
    with midstream.connect(str(folder)) as db:
        db.sql("SET preimage = 'kept'")
        db.sql("CREATE TABLE fed (step bigint, n int); CREATE TABLE twin (step bigint, n int)")
        db.sql("CREATE TABLE transfers (step bigint)")
        db.sql("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint)")
        db.sql("INSERT INTO accounts VALUES " + ", ".join(f"({n}, 0)" for n in range(ACCOUNTS)))
        db.sql("CREATE STREAM poured (step bigint, n int)")
        db.sql("CREATE VIEW in_stream AS SELECT step, n, count(*) AS times FROM poured WHERE n >= 0 GROUP BY step, n")
        for log in ("single_log", "joined_log", "streamed_log"):
            db.sql(f"CREATE TABLE {log} (step bigint, n int, kind text)")
        db.sql("CREATE TABLE balances_log (id int, balance bigint, kind text, was bigint)")
        db.sql("CREATE TABLE batched_log (step bigint, n bigint, kind text, was bigint)")
        for name, query in QUERIES.items():
            db.sql(f"CREATE CONTINUOUS QUERY {name} {query}")
        db.sql("CREATE TRIGGER call ON single FOR EACH ROW EXECUTE 'query_child:called'")
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        db.sql("SELECT * FROM dequeue('q', 'child', 1)").fetchall()
        told.heard_to = scn_now(db)


def check(db: Any, told: Told) -> None:
    scn = scn_now(db)
    for name in QUERIES:
        if name != "batched":
            db.wait(name, scn)
    db.sql("SELECT cq_recompute('batched')").fetchall()
    fed = Counter((step, n) for step, n in db.sql("SELECT step, n FROM fed").fetchall())
    check_steps(db, told, fed)
    check_logs(db, fed)
    check_balances(db)
    check_views(db, fed)
    check_subscription(db, told, scn)
    check_queue(db, told)
    check_calls(db, told)


def check_steps(db: Any, told: Told, fed: Counter[tuple[int, int]]) -> None:
    transfers = {step for (step,) in db.sql("SELECT step FROM transfers").fetchall()}
    poured = Counter({(step, n): times for step, n, times in db.sql("SELECT * FROM in_stream").fetchall()})
    assert replayed(db, "streamed_log") == poured, "the rows of the stream were not handed out once each"
    assert poured == Counter((step, n) for step in {step for step, _ in poured} for n in range(POURED))
    there = {step for step, _ in fed} | transfers | {step for step, _ in poured}
    certain = {step for step, kind in told.certain.items() if kind != "recompute"}
    assert certain <= there <= told.possible.keys(), "steps were lost or invented"
    for step in {step for step, _ in fed}:
        assert sum(count for (at, _), count in fed.items() if at == step) == ROWS[told.possible[step]]
    told.settle(there)


def check_logs(db: Any, fed: Counter[tuple[int, int]]) -> None:
    """What came less what went is what there is; each commit was told once."""
    assert replayed(db, "single_log") == fed
    twins = Counter((step, n) for step, n in db.sql("SELECT step, n FROM twin").fetchall())
    assert replayed(db, "joined_log") == fed & twins
    batched: Counter[tuple[int, int]] = Counter()
    for step, n, kind, was in db.sql("SELECT * FROM batched_log").fetchall():
        batched[step, n] += 1 if kind != "D" else 0
        batched[step, was] -= 1 if kind != "I" else 0
    sums = {step: sum(n * count for (at, n), count in fed.items() if at == step) for step, _ in fed}
    assert +batched == Counter(sums.items()), "the batched log is another"
    assert not -batched, "the batched log takes away what it never gave"


def replayed(db: Any, log: str) -> Counter[tuple[int, int]]:
    rows = db.sql(f"SELECT step, n, kind FROM {log}").fetchall()
    kinds = Counter(rows)
    changed = {step for step, _, kind in kinds if kind == "D"}
    for (step, n, kind), count in kinds.items():
        assert count == 1 or step in changed, f"{log} has {kind} of {step, n} {count} times"
    found: Counter[tuple[int, int]] = Counter()
    for step, n, kind in rows:
        found[step, n] += 1 if kind == "I" else -1
    assert not -found, f"{log} takes away what it never gave"
    return +found


def check_balances(db: Any) -> None:
    """Every balance leads to the next: what was is what an earlier change said, from zero to what is now."""
    now = db.sql("SELECT id, balance FROM accounts").fetchall()
    log = db.sql("SELECT id, balance, kind, was FROM balances_log").fetchall()
    assert sum(balance for _, balance in now) == 0
    assert {kind for _, _, kind, _ in log} <= {"U"}
    came = Counter((id_, balance) for id_, balance, _, _ in log) + Counter((n, 0) for n in range(ACCOUNTS))
    left = Counter((id_, was) for id_, _, _, was in log) + Counter(now)
    assert came == left, f"the balances do not follow each other: {came - left} {left - came}"
    [(transfers,)] = db.sql("SELECT count(*) FROM transfers").fetchall()
    assert len(log) == 2 * transfers, "each transfer changes two balances"


def check_views(db: Any, fed: Counter[tuple[int, int]]) -> None:
    by_step: dict[int, list[int]] = {}
    for step, n in fed.elements():
        by_step.setdefault(step, []).append(n)
    assert {step: (rows, n) for step, rows, n in db.sql("SELECT * FROM by_step").fetchall()} == {
        step: (len(numbers), sum(numbers)) for step, numbers in by_step.items()
    }
    assert db.sql("SELECT * FROM money").fetchall() == [(0, ACCOUNTS)]
    twins = {step for (step,) in db.sql("SELECT step FROM twin").fetchall()}
    unpaired = Counter({row: count for row, count in fed.items() if row[0] not in twins})
    assert Counter(db.sql("SELECT * FROM unpaired").fetchall()) == unpaired


def check_subscription(db: Any, told: Told, scn: int) -> None:
    """One that goes on from where the last round stopped hears what the log has, once."""
    wanted = Counter((kind, step, n) for step, n, kind in db.sql("SELECT step, n, kind FROM single_log").fetchall())
    with db.subscribe("single", after=told.heard_to) as feed:
        while told.heard.total() < wanted.total() and (heard := feed.poll(timeout=30)):
            told.heard.update((change.kind, change.row["step"], change.row["n"]) for change in heard)
        assert not feed.poll(timeout=0.1), "a subscriber heard more than the destination got"
    assert told.heard == wanted, "a subscriber heard something else than the destination got"
    told.heard_to = scn


def check_queue(db: Any, told: Told) -> None:
    """Nothing twice; and nothing lost but what a child may have got and died before it said so."""
    while got := db.sql("SELECT step, n FROM dequeue('q', 'child', 1000)").fetchall():
        told.taken += [tuple(row) for row in got]
    taken = Counter(told.taken)
    wanted = Counter((step, n) for step, n in db.sql("SELECT step, n FROM single_log").fetchall())
    assert not taken - wanted, f"taken from the queue twice: {taken - wanted}"
    lost = wanted - taken
    assert lost.total() <= TAKEN_AT_ONCE * told.kills, f"lost in the queue: {lost}"
    scns = [
        told.done[step]["scn"] for step, _ in told.taken if step in told.done and told.done[step]["kind"] != "change"
    ]
    assert scns == sorted(scns), "the queue is not in the order of commits"


def check_calls(db: Any, told: Told) -> None:
    """A trigger was called with each change, by an id that names no other; again only with the one it died with."""
    wanted = Counter((kind, step, n) for step, n, kind in db.sql("SELECT step, n, kind FROM single_log").fetchall())
    until = time.monotonic() + PATIENCE
    while len({id for id, *_ in (*told.calls, *CALLS)}) < wanted.total():
        assert time.monotonic() < until, "a trigger was not called with every change"
        time.sleep(0.02)
    known = {id: change for id, *change in (*told.calls, *CALLS)}
    assert all(known[id] == change for id, *change in (*told.calls, *CALLS)), "an id stands for two changes"
    assert Counter(map(tuple, known.values())) == wanted
    assert len(told.calls) + len(CALLS) - len(known) <= told.kills, "a change was repeated that was done with"
    assert db.sql("SELECT * FROM dead_call").fetchall() == []
