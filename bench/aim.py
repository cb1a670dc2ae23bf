"""AIM: calls of customers come in, six continuous views answer questions about this week's; beside it, its peers.

    python bench/aim.py                       # 100 k and 1 M customers, all peers: about half an hour
    python bench/aim.py --quick               # 100 k customers, few events, the fast peers: two minutes
    python bench/aim.py --long                # ours with 1 M customers, ten minutes of each rate: is memory flat?
    python bench/aim.py --large               # ours and DuckDB with 1 M and 10 M customers: what do more groups cost?
    python bench/aim.py --only midstream duckdb

Every system runs in its own process over the same files. Its answers are compared with the plain queries over those
files before its times are shown. Exit code 1 says that an answer is wrong or that something is not reached.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from peers.aim_findings import Found, findings, rate, refresh
from peers.aim_reference import Reference
from peers.aim_systems import LEFT_OUT, OURS, SYSTEMS, System
from peers.aim_workload import Workload, csv_of, make_workload
from peers.answers import WrongAnswer
from peers.installing import LeftOut, python_with
from peers.running import run_system
from peers.systems_report import Panel, SystemsReport
from report import Table

EVENTS = {100_000: 8_000_000, 1_000_000: 20_000_000, 10_000_000: 40_000_000}
HEAD = [
    "system",
    "inserts, events/s",
    "first read of the six",
    "six fresh after 10,000 more",
    "reads/s, nothing new",
    "reads/s while events come",
    "memory, MB",
]


def main() -> None:
    arguments = read_arguments()
    report = new_report(arguments)
    by_size = {}
    for customers in arguments.customers:
        folder = Path(tempfile.mkdtemp(prefix="midstream_bench_", dir=arguments.folder))
        folder.chmod(0o755)  # PostgreSQL reads the files as another user
        try:
            by_size[customers] = run_size(arguments, report, folder, customers)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    for finding in findings(by_size, arguments.quick):
        report.add(finding)
    if arguments.results or arguments.long or arguments.large or not (arguments.quick or arguments.only):
        report.write(*([Path(arguments.results)] if arguments.results else []))
    else:
        print("not written: only a whole run goes to bench/results (or say --results)", file=sys.stderr)
    sys.exit(0 if report.holds else 1)


def new_report(arguments: argparse.Namespace) -> SystemsReport:
    if arguments.long:
        return SystemsReport("aim-long", "AIM: ten minutes of each rate", notes=[LONG_NOTES])
    if arguments.large:
        return SystemsReport("aim-large", "AIM: ten million customers", notes=[LARGE_NOTES])
    report = SystemsReport("aim", "AIM: six continuous views over a stream of calls")
    report.notes += [NOTES, "", *(f"Left out: {name}, since {reason}." for name, reason in LEFT_OUT.items())]
    return report


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--customers", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--events", type=int, help="of the bulk, in millions")
    parser.add_argument("--rounds", type=int, default=3, help="how often ours and the split by hand take turns")
    parser.add_argument("--refreshes", type=int, default=10, help="how often 10,000 more come")
    parser.add_argument("--rates", type=int, nargs="*", default=[10_000, 50_000], help="events/s under load")
    parser.add_argument("--rate-seconds", type=float, default=20.0, help="how long each rate lasts")
    parser.add_argument("--long", action="store_true", help="ours alone, 1 M customers, each rate for ten minutes")
    parser.add_argument("--large", action="store_true", help="ours and DuckDB's split, 1 M and 10 M customers")
    parser.add_argument("--only", nargs="*", choices=sorted({system.short for system in SYSTEMS}))
    parser.add_argument("--quick", action="store_true", help="small sizes and the fast peers: two minutes")
    parser.add_argument("--folder", help="where the temporary files go")
    parser.add_argument("--results", help="where the results go, instead of bench/results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.customers, arguments.rounds, arguments.refreshes = [100_000], 1, 5
        arguments.rate_seconds, arguments.events = 5.0, arguments.events or 2
    if arguments.long:
        arguments.rate_seconds, arguments.rounds = 600.0, 1
        arguments.customers = [1_000_000]
    if arguments.large:
        arguments.customers, arguments.rates = [1_000_000, 10_000_000], []
    return arguments


def run_size(arguments: argparse.Namespace, report: SystemsReport, folder: Path, customers: int) -> dict[str, Found]:
    """All systems for so many customers: what each found, by name."""
    events = arguments.events * 1_000_000 if arguments.events else EVENTS.get(customers, 4 * customers)
    workload = make_workload(folder, customers, events // 1_000_000, 1_000_000, arguments.refreshes + 2)
    reference = Reference(workload)
    found: dict[str, Found] = {}
    reasons: dict[str, str] = {}
    for system in turns(arguments):
        print(f"{customers:,} customers: {system.name}", file=sys.stderr, flush=True)
        try:
            one = run_one(system, workload, folder, arguments, again=system.name in found)
            reference.check(one)
        except (LeftOut, WrongAnswer) as reason:
            reasons[system.name] = f"{type(reason).__name__}: {reason}"
            if isinstance(reason, WrongAnswer) or system.module == OURS.module:
                report.wrong.append(f"{system.name}: {reason}")
            continue
        found[system.name] = together(found.get(system.name), one)
        report.versions |= {system.name.split(",")[0]: one["version"]} if "version" in one else {}
    show(report, customers, events, found, reasons)
    return found


def turns(arguments: argparse.Namespace) -> Iterator[System]:
    """Those that take turns first, so many rounds; then the others, once."""
    chosen = [system for system in SYSTEMS if not arguments.only or system.short in arguments.only]
    chosen = [OURS] if arguments.long else [system for system in chosen if system.by_turns or not arguments.large]
    chosen = [system for system in chosen if system.in_quick or not arguments.quick]
    for _ in range(arguments.rounds):
        yield from (system for system in chosen if system.by_turns)
    yield from (system for system in chosen if not system.by_turns)


def run_one(system: System, workload: Workload, folder: Path, arguments: argparse.Namespace, again: bool) -> Found:
    if system.most_events:
        workload = replace(workload, bulk=workload.bulk[: system.most_events // workload.events_per_file])
    if system.from_csv:
        for file in (workload.warm, *workload.bulk, *workload.small):
            csv_of(file)
    python = python_with(system.short, *system.packages) if system.packages else sys.executable
    task = {
        "workload": workload.as_task(),
        "mode": system.mode,
        "refreshes": min(arguments.refreshes, system.most_refreshes or arguments.refreshes),
        # The rates are of ours alone, and once is enough.
        "rates": [] if again or system != OURS else arguments.rates,
        "rate_seconds": arguments.rate_seconds,
    }
    return run_system(system.module, task, folder, python)


def together(before: Found | None, one: Found) -> Found:
    """The rounds of one system: the seconds of each, everything else of the first."""
    one = {name: value for name, value in one.items() if name != "checks"}
    per_million = one["bulk_seconds"] / one["bulk_events"] * 1e6
    if before is None:
        return one | {"seconds_per_million": [per_million]}
    before["seconds_per_million"].append(per_million)
    before.setdefault("refresh_seconds", []).extend(one.get("refresh_seconds", []))
    return before


def show(report: SystemsReport, customers: int, events: int, found: dict[str, Found], reasons: dict[str, str]) -> None:
    """The table of one size, and its bars."""
    rows = [as_row(name, one) for name, one in found.items()]
    rows += [[name, reason, *[""] * (len(HEAD) - 2)] for name, reason in reasons.items() if name not in found]
    report.show(Table(f"{customers:,} customers, {events:,} events", HEAD, rows))
    title = f"{customers:,} customers: inserts with all six views, 1,000 events/s"
    report.panels.append(Panel(title, {name: rate(one) / 1000 for name, one in found.items()}))
    fresh = {name: refresh(one) * 1000 for name, one in found.items() if one.get("refresh_seconds")}
    report.panels.append(Panel(f"{customers:,} customers: all six fresh after 10,000 more events, ms", fresh))
    report.measured[str(customers)] = found


def as_row(name: str, one: Found) -> list[str]:
    fresh = f"{refresh(one) * 1000:,.0f} ms" if one.get("refresh_seconds") else "–"
    first = one.get("first_read_seconds")
    reads = one.get("reads_per_second")
    return [
        name,
        f"{rate(one):,.0f}",
        f"{first * 1000:,.0f} ms" if first else "–",
        fresh,
        f"{reads:,.0f}" if reads else "–",
        reads_under_load(one),
        f"{one['peak_mb']:,.0f}",
    ]


def reads_under_load(one: Found) -> str:
    """All reads by six readers, those that found nothing new too, at each rate."""
    loads = [f"{load['reads'] / load['seconds']:,.1f} at {load['rate']:,}/s" for load in one.get("under_load", [])]
    return "; ".join(loads) or "–"


NOTES = """Every system in a process of its own, over the same files, one after the other; Midstream and DuckDB's split
by hand take turns, and the figures are medians. The answers of every system were compared with the plain queries over
the files that it had taken in: after the bulk, after the first and the last refresh, and after the load.

Midstream acknowledges when the rows are on disk; inserts end when all views have absorbed them. The peers are given
more than they would have in life. DuckDB's states live in memory only, and nobody writes and reads at once. ClickHouse,
PostgreSQL's upserts and Structured Streaming keep the states of views written by hand, with the week written out. Flink
computes no answer, and the start of its job is not counted. Memory is the most that all processes of a system held
together, shared pages counted once."""

LONG_NOTES = """Midstream alone. After the bulk, events come for ten minutes at each rate, ten inserts a second, while
six readers read without pause, one reader a view. Memory is what all processes held together, shared pages counted
once: the median of the second quarter of the ten minutes against that of the last. The answers were compared with the
plain queries over all events that had come by then."""

LARGE_NOTES = """Midstream and DuckDB's split by hand by turns, as in the run with all peers: what is kept of 1 M and of
10 M customers, and what a refresh of it costs. Memory is the most that all processes held together, shared pages
counted once."""

if __name__ == "__main__":
    main()
