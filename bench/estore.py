"""The e-store: what changed in a query over users, orders and their lines, found in several ways, after each change.

    python bench/estore.py                    # 10 M lines, 1 M orders, 100 k users
    python bench/estore.py --quick            # a tenth of them, few rounds
    python bench/estore.py --orders 20000     # so many orders, ten times as many lines, a tenth as many users
    python bench/estore.py --only sizes latency

The query is Q18 of "Continuous Queries in Oracle": items bought by users under 18. A case is a figure of its section
10: refreshes by the size of the change (1; 2: where ids ascend), by the share of lines that go to older orders (3, 4)
and of transactions that have such lines (5), with tables as they were by AS OF or by their log (6, 7), by how often
there is one (8). Beside them: updates and deletes, a client's commits while up to 100 queries compute, and a
materialized view. Every answer is compared with DuckDB's before a time counts. Exit code 1 says that one is wrong, or
that something is not reached.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from peers.answers import WrongAnswer
from peers.datacell_report import DatacellReport, Figure
from peers.estore_latency import Client, commit_with
from peers.estore_measuring import (
    DUCKDB,
    Bench,
    Form,
    Measured,
    Refresh,
    Taken,
    cells,
    milliseconds,
    numbers,
    seconds_of,
    transaction,
)
from peers.estore_sizes import QUICK, WHOLE, Sizes
from peers.estore_workload import ASCENDING, KEYED, PLAIN, SCATTERED, SPENT, over
from report import Finding, Table

import midstream

GENERAL = Form("general algebra (Q13)", PLAIN)
UNITS_SETTING = "foreign_key_units"
FOREIGN_KEYS = Form("foreign keys (Q16)", settings={UNITS_SETTING: "off"})
UNITS = Form("FK-PK units (Q22)", settings={UNITS_SETTING: "on"})
KEYS = Form("foreign keys")
"""In the way that the database chooses."""
RECOMPUTE = Form("recompute and compare", options="WITH (refresh = 'full')")
HEAD = ["form", "refresh", "jobs", "of it in jobs", "kernel alone"]


class Run:
    """What the cases share."""

    def __init__(self, bench: Bench, sizes: Sizes, report: DatacellReport) -> None:
        self.bench, self.sizes, self.report = bench, sizes, report

    @property
    def keyed(self) -> list[Form]:
        """The forms that foreign keys allow, apart where they can be told apart."""
        return [FOREIGN_KEYS, UNITS] if self.bench.has_setting(UNITS_SETTING) else [KEYS]

    @contextmanager
    def another(self, ids: str) -> Iterator[Bench]:
        """The same store in a database of its own, with other ids of orders."""
        folder = Path(tempfile.mkdtemp(prefix="other_", dir=self.bench.folder))
        with midstream.connect(str(folder / "bench.db")) as db:
            bench = Bench(db, folder, self.sizes.users, self.sizes.orders, ids)
            try:
                yield bench
            finally:
                bench.judge.close()

    def show(
        self, title: str, across: str, found: Taken | Measured, scale: float = 1.0, log_across: bool = False
    ) -> None:
        """A table, and a figure of what was varied."""
        taken, kernel = (found.taken, found.kernel) if isinstance(found, Measured) else (found, {})
        rows = [
            [_written(value, scale), name, *cells(refreshes, kernel.get(value, {}).get(name))]
            for value, forms in taken.items()
            for name, refreshes in forms.items()
        ]
        self.report.show(Table(title, [across, *HEAD], rows))
        self.report.measured[title] = {"refreshes": numbers(taken), "kernel": {str(v): k for v, k in kernel.items()}}
        if len(taken) > 1 and not any(isinstance(value, str) for value in taken):
            self.draw(title, across, {scale * value: forms for value, forms in taken.items()}, log_across)

    def draw(self, title: str, across: str, taken: Taken, log_across: bool) -> None:
        lines: dict[str, list[tuple[float, float]]] = {
            name: [(value, 1000 * median(seconds_of(forms[name]))) for value, forms in taken.items()]
            for name in next(iter(taken.values()))
            if name != DUCKDB
        }
        self.report.figures.append(Figure(title, across, lines, log_across))


def _written(value: object, scale: float) -> str:
    return f"{scale * value:,.10g}" if isinstance(value, (int, float)) else str(value)


# --- the cases -----------------------------------------------------------------------------------------


def sizes(run: Run) -> Iterator[Finding]:
    """Figure 1: orders come with all of their lines, and nothing tells where rows with an id lie."""
    found = _by_sizes(run, run.bench)
    run.report.measured["explained"] = found.told
    run.show("Refresh by size of the change: new orders, ten lines each", "orders", found)
    yield from _to_reach("", {f: seconds_of(all_of(found.taken, f)) for f in found.told}, max(found.taken) * 11)
    kernel = {form: [by_form[form] for by_form in found.kernel.values()] for form in found.told}
    yield from _to_reach("kernel alone: ", kernel, max(found.taken) * 11)


def in_order(run: Run) -> Iterator[Finding]:
    """Figure 2: the same where ids of orders ascend, so that the statistics of files are as good as an index."""
    with run.another(ASCENDING) as bench:
        found = _by_sizes(run, bench)
    run.show("The same where ids ascend", "orders", found)
    yield from ()


def _by_sizes(run: Run, bench: Bench) -> Measured:
    forms = [GENERAL, RECOMPUTE, *run.keyed]
    return bench.by_turns(forms, run.sizes.changes, run.sizes.rounds, lambda count, _: bench.workload.new_orders(count))


def _to_reach(what: str, seconds: dict[str, list[float]], rows: int) -> Iterator[Finding]:
    general, anew, keyed, *units = seconds.values()
    yield Finding(f"{what}foreign keys", keyed, general, 1 / 5, "general algebra", rows, "5 times faster")
    for ours in units:
        yield Finding(f"{what}FK-PK units", ours, keyed, 1.0, "foreign keys", rows, "faster still")
    yield Finding(f"{what}general algebra", general, anew, 1 / 3, "recompute and compare", rows, "3 times faster")
    yield Finding(f"{what}foreign keys", keyed, anew, 1 / 10, "recompute and compare", rows, "10 times faster")


def older(run: Run) -> Iterator[Finding]:
    """Figures 3 and 4: some of the lines go to orders that were there before."""
    count = run.sizes.shared_change
    found = run.bench.by_turns(
        run.keyed,
        run.sizes.older,
        run.sizes.rounds,
        lambda share, _: run.bench.workload.new_orders(count, share),
    )
    run.show(f"{count:,} orders: lines that go to older orders", "% of the lines", found, scale=100)
    yield from ()


def apart(run: Run) -> Iterator[Finding]:
    """Figure 5: some transactions have lines that go to orders that were there before, half of theirs."""
    count, transactions = run.sizes.shared_change, run.sizes.transactions
    found = run.bench.by_turns(
        run.keyed,
        run.sizes.apart,
        transactions,
        lambda share, n: run.bench.workload.new_orders(count, 0.5 if n < share * transactions else 0.0),
    )
    means = {
        value: {name: [_mean(refreshes)] for name, refreshes in by_form.items()}
        for value, by_form in found.taken.items()
    }
    title = f"{count:,} orders: transactions with lines that go to older orders, means of {transactions}"
    run.show(title, "% of the transactions", means, scale=100)
    yield from ()


def preimage(run: Run) -> Iterator[Finding]:
    """Figures 6 and 7: where the general algebra needs a table as it was."""
    if not run.bench.has_setting("preimage"):
        run.report.notes.append("There is no setting `preimage`, so figures 6 and 7 are left out.\n")
        return
    ways = [replace(GENERAL, name=f"general, {way}", settings={"preimage": way}) for way in ("as of", "anti-join")]
    workload = run.bench.workload
    counts = [count for count in run.sizes.changes if count <= 1000]
    new = run.bench.by_turns(ways, counts, run.sizes.rounds, lambda count, _: workload.new_orders(count))
    run.show("Tables as they were: new orders", "orders", new)
    updated = run.bench.by_turns(ways, counts, run.sizes.rounds, lambda count, _: workload.with_updates(count))
    run.show("Tables as they were: new orders, as many updated", "orders", updated)
    yield from ()


def mixed(run: Run) -> Iterator[Finding]:
    """Updates, and deletes that take other rows along."""
    workload = run.bench.workload
    kinds = {
        "new, as many updated": workload.with_updates,
        "given to another user": workload.moved,
        "deleted": workload.without_orders,
        "of deleted users": workload.without_users,
    }
    changes = {f"{count:,} orders {kind}": (make, count) for kind, make in kinds.items() for count in run.sizes.mixed}
    found = run.bench.by_turns(
        [GENERAL, RECOMPUTE, *run.keyed],
        list(changes),
        run.sizes.rounds,
        lambda title, _: changes[title][0](changes[title][1]),
    )
    run.show("Updates and deletes", "change", found)
    yield from ()


def frequency(run: Run) -> Iterator[Finding]:
    """Figure 8: transactions of one order come, and are refreshed more or less often."""
    bench, count = run.bench, run.sizes.frequency_transactions
    modes = {mode: replace(run.keyed[0], name=mode, compute=f"{mode} DELTA ON DEMAND") for mode in MODES}
    ways = [(every, mode) for every in run.sizes.every for mode in MODES]
    totals: Taken = {every: {mode: [] for mode in MODES} for every in run.sizes.every}
    changes = bench.workload.single_orders(count)
    with bench.queries([modes[mode] for _, mode in ways]) as queries, bench.db.session() as session:
        bench.judge.begin()
        for number, change in enumerate(changes, 1):
            for statement in (*transaction(change), "COMMIT"):
                session.sql(statement)
            bench.committed(change, [KEYED])
            for (every, mode), query in zip(ways, queries, strict=True):
                if number % every == 0 or number == count:
                    totals[every][mode].append(bench.refresh(query))
        bench.judge.take(*changes)
        bench.check(queries)
    sums = {every: {mode: [_sum(one)] for mode, one in by_mode.items()} for every, by_mode in totals.items()}
    run.show(
        f"{count:,} transactions of one order, all refreshes together", "transactions a refresh", sums, log_across=True
    )
    yield from ()


MODES = ("TRANSACTIONAL", "BATCHED")


def latency(run: Run) -> Iterator[Finding]:
    """A client commits orders while continuous queries compute on commit."""
    sizes = run.sizes
    pauses = {f"{sizes.pause * 1000:g} ms pause": sizes.pause, "no pause": 0.0}
    clients = {pause: {count: Client() for count in sizes.queries} for pause in pauses}
    for number in range(sizes.latency_rounds):
        for pause, seconds in pauses.items():
            turns = sizes.queries if number % 2 == 0 else sizes.queries[::-1]
            for count in turns:
                commit_with(run.bench, count, sizes.commits, seconds, clients[pause][count])
    _show_latency(run, clients)
    for pause, by_count in clients.items():
        none, ten = by_count[0].transactions, by_count[10].transactions
        yield Finding(f"commits with ten queries, {pause}", ten, none, 1.1, "with none", note="the whole transaction")
    for pause, by_count in clients.items():
        many = by_count[100]
        jobs = (many.jobs.total() - by_count[0].jobs.total()) / len(many.transactions)
        note = f"{jobs:.1f} jobs a commit"
        yield Finding(f"100 queries, {pause}", [jobs], [100.0], 0.1, "a job for each query", note=note, unit="jobs")


def _show_latency(run: Run, clients: dict[str, dict[int, Client]]) -> None:
    title = "A client's transactions of one order, ten lines"
    rows = [
        [
            f"{count}, {pause}",
            *(milliseconds(client.at(percent)) for percent in (50, 95)),
            milliseconds(median(client.commits)),
            f"{client.jobs.total() / len(client.transactions):.1f}",
            milliseconds(median(client.lag)),
        ]
        for pause, by_count in clients.items()
        for count, client in by_count.items()
    ]
    head = ["continuous queries", "p50", "p95", "p50 of COMMIT", "jobs a commit", "all computed after the last commit"]
    run.report.show(Table(title, head, rows))
    lines: dict[str, list[tuple[float, float]]] = {
        f"{pause}, p{percent}": [(count, 1000 * client.at(percent)) for count, client in by_count.items()]
        for pause, by_count in clients.items()
        for percent in (50, 95)
    }
    run.report.figures.append(Figure(title, "continuous queries", lines))
    run.report.measured[title] = {
        pause: {str(count): asdict(client) for count, client in by_count.items()} for pause, by_count in clients.items()
    }


def view(run: Run) -> Iterator[Finding]:
    """A materialized view with groups over the join, brought up to date, and made anew."""
    bench, ways = run.bench, {"by changes": "", "anew": " FULL"}
    bench.need(KEYED)
    taken: Taken = {count: {way: [] for way in ways} for count in run.sizes.changes}
    try:
        for place in range(len(ways)):
            bench.db.sql(f"CREATE MATERIALIZED VIEW spent{place} WITH (refresh = 'on demand') AS {over(SPENT)}")
        for number in range(-1, run.sizes.rounds):
            for count in run.sizes.changes if number >= 0 else run.sizes.changes[:1]:
                change = bench.workload.new_orders(count)
                bench.change(change, [KEYED])
                bench.judge.apply([change])
                for place, (way, word) in enumerate(ways.items()):
                    refresh = bench.timed(f"REFRESH MATERIALIZED VIEW spent{place}{word}")
                    bench.judge.check_spent(bench.db.sql(f"SELECT * FROM spent{place}").fetchall(), f"view, {way}")
                    taken[count][way] += [refresh] if number >= 0 else []
    finally:
        for place in range(len(ways)):
            bench.db.sql(f"DROP MATERIALIZED VIEW IF EXISTS spent{place}")
    run.show("A materialized view: what each user under 18 has spent", "orders", taken)
    ours, anew = (seconds_of(all_of(taken, way)) for way in ways)
    yield Finding("materialized view", ours, anew, 1.0, "REFRESH … FULL")


def all_of(taken: Taken, form: str) -> list[Refresh]:
    return [refresh for by_form in taken.values() for refresh in by_form[form]]


def _mean(refreshes: Sequence[Refresh]) -> Refresh:
    total = _sum(refreshes)
    return Refresh(total.seconds / len(refreshes), total.jobs // len(refreshes), total.job_seconds / len(refreshes))


def _sum(refreshes: Sequence[Refresh]) -> Refresh:
    seconds, jobs, job_seconds = map(sum, zip(*((r.seconds, r.jobs, r.job_seconds) for r in refreshes), strict=True))
    return Refresh(seconds, int(jobs), job_seconds)


CASES: dict[str, Callable[[Run], Iterator[Finding]]] = {
    case.__name__: case for case in (sizes, in_order, older, apart, preimage, mixed, frequency, latency, view)
}


# --- running them --------------------------------------------------------------------------------------


def main() -> None:
    arguments = read_arguments()
    sizes = QUICK if arguments.quick else WHOLE
    if arguments.orders:
        sizes = replace(sizes, users=max(1, arguments.orders // 10), orders=arguments.orders)
    report = DatacellReport("estore", "The e-store: what changed in a query")
    folder = Path(tempfile.mkdtemp(prefix="midstream_bench_", dir=arguments.folder))
    try:
        with midstream.connect(str(folder / "bench.db")) as db:
            run = Run(Bench(db, folder, sizes.users, sizes.orders, SCATTERED), sizes, report)
            report.measured["empty job"] = run.bench.empty
            report.notes.append(
                NOTES.format(
                    lines=sizes.orders * 10, orders=sizes.orders, users=sizes.users, empty=milliseconds(run.bench.empty)
                )
            )
            for name in arguments.only or CASES:
                run_case(run, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.results or not (arguments.quick or arguments.orders or arguments.only):
        report.write(*([Path(arguments.results)] if arguments.results else []))
    else:
        print("not written: only a whole run goes to bench/results (or say --results)", file=sys.stderr)
    for wrong in report.wrong:
        print(wrong, file=sys.stderr)
    sys.exit(0 if report.holds else 1)


def run_case(run: Run, name: str) -> None:
    print(f"{name}", file=sys.stderr, flush=True)
    try:
        for finding in CASES[name](run):
            run.report.add(finding)
    except (WrongAnswer, midstream.Error) as failure:
        run.report.wrong.append(f"{name}: {type(failure).__name__}: {failure}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=CASES)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, few rounds")
    parser.add_argument("--orders", type=int, help="so many, ten times as many lines, a tenth as many users")
    parser.add_argument("--folder", help="where the temporary files go")
    parser.add_argument("--results", help="where the results go, instead of bench/results")
    return parser.parse_args()


NOTES = """{lines:,} lines, {orders:,} orders, {users:,} users. A refresh is `SELECT cq_recompute('q')`, until the
changes are in the query's destination; one transaction goes before each. The general algebra is that of the same query
over tables with the same rows that declare no foreign keys. Ids of orders are scattered, so that nothing tells in which
file or row group an id may be, except where it is said that they ascend. All forms are refreshed after each change,
each time another one first. "Of it in jobs" is the wall time of Spark's jobs, "kernel alone" that of the very same SQL,
run once more with no job around it. An empty job took {empty}. DuckDB alone has the tables in memory, runs the query
again and compares with its last answer; it writes nothing. Figures are medians; the ratios are of all sizes together.
Every answer was compared with DuckDB's.
"""

if __name__ == "__main__":
    main()
