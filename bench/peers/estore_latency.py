"""A client that commits orders while continuous queries compute on commit: how long its transactions take, how many
jobs the queries do, and how long after the last commit all of them have come so far."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import quantiles

import pyarrow as pa

from peers.estore_measuring import Bench, Form, Query, transaction
from peers.estore_workload import KEYED, Change, Insert

ON_COMMIT = Form("on commit", compute="ON COMMIT")


@dataclass
class Client:
    """With so many queries: seconds of each transaction, and of its COMMIT alone."""

    transactions: list[float] = field(default_factory=list)
    commits: list[float] = field(default_factory=list)
    jobs: Counter[str] = field(default_factory=Counter)
    """By label."""
    lag: list[float] = field(default_factory=list)
    """From the last commit of a round until every query had it."""

    def at(self, percent: int) -> float:
        return quantiles(self.transactions, n=100, method="inclusive")[percent - 1]


def commit_with(bench: Bench, count: int, commits: int, pause: float, client: Client) -> None:
    """One round: the queries are made, the client commits, they catch up, and what they found is compared."""
    ages = [11 + place % 60 for place in range(count)]
    changes = bench.workload.single_orders(commits)
    bench.need(KEYED)
    with bench.queries([ON_COMMIT] * count, ages) as queries, bench.db.session() as session:
        bench.watch.taken()
        for change in changes:
            time.sleep(pause)
            scn = _commit(session, change, client)
            bench.committed(change, [KEYED])
        _catch_up(bench, queries, scn, client)
        client.jobs.update(job.label for job in bench.watch.taken())
        bench.judge.apply(changes)
        if queries:
            bench.judge.check_new(found_by(bench, queries), span(changes), ages, f"{count} queries on commit")


def found_by(bench: Bench, queries: list[Query]) -> pa.Table:
    """What each has handed out, with its place in the list in front of the name."""
    parts = (
        f"SELECT itemid, oid, '{place} ' || name AS name, kind FROM {query.destination}"
        for place, query in enumerate(queries)
    )
    return bench.db.sql(" UNION ALL ".join(parts)).arrow()


def span(changes: list[Change]) -> tuple[object, object]:
    """The times of the first and the last order that they bring."""
    orders = [step.rows for change in changes for step in change.steps if isinstance(step, Insert)]
    times = [rows.column("time")[0].as_py() for rows in orders if "time" in rows.column_names]
    return min(times), max(times)


def _commit(session: object, change: Change, client: Client) -> int:
    started = time.perf_counter()
    for statement in transaction(change):
        session.sql(statement)  # type: ignore[attr-defined]
    inserted = time.perf_counter()
    scn: int = session.sql("COMMIT").scn  # type: ignore[attr-defined]
    done = time.perf_counter()
    client.transactions.append(done - started)
    client.commits.append(done - inserted)
    return scn


def _catch_up(bench: Bench, queries: list[Query], scn: int, client: Client) -> None:
    started = time.perf_counter()
    for query in queries:
        bench.db.wait(query.name, scn)
    client.lag.append(time.perf_counter() - started)
