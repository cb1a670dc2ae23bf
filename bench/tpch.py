"""TPC-H with lineitem as the stream: each query a continuous view, beside one pass over the same files.

    python bench/tpch.py                 # SF 1, all queries that the rules allow: about six minutes
    python bench/tpch.py --quick         # SF 0.1, the paper's five queries: two minutes
    python bench/tpch.py --scale-factor 10 --only midstream duckdb
    python bench/tpch.py --queries q1 q6

Ours is the time to take in all of lineitem and read the view once; theirs one run of the query over the same Parquet.
A refresh is 10,000 more rows and a read; theirs runs the query again. The answers are compared before a time is shown.
Exit code 1 says that an answer is wrong or that something is not reached.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.answers import difference
from peers.installing import LeftOut
from peers.running import run_system
from peers.systems_report import Panel, SystemsReport
from peers.tpch_data import make_files
from peers.tpch_queries import MAIN, QUERIES
from report import Finding, Table

Found = dict[str, Any]
OURS, DUCKDB, SPARK = "midstream", "duckdb", "spark"
NAMES = {OURS: "Midstream", DUCKDB: "DuckDB, one pass", SPARK: "Spark SQL, one pass"}
TOLERANCE = 1e-5
"""Averages and quotients of numerics have six digits in Spark and sixteen in DuckDB."""


def main() -> None:
    arguments = read_arguments()
    title = f"TPC-H, scale factor {arguments.scale_factor:g}: lineitem is the stream"
    report = SystemsReport("tpch" if arguments.scale_factor == 1 else f"tpch-{arguments.scale_factor:g}", title)
    report.notes.append(NOTES)
    found = run_systems(arguments, report)
    check(report, found)
    show(report, found)
    for finding in findings(found, arguments.scale_factor):
        report.add(finding)
    whole = not (arguments.quick or arguments.only or arguments.queries)
    if arguments.results or whole:
        report.write(*([Path(arguments.results)] if arguments.results else []))
    else:
        print("not written: only a whole run goes to bench/results (or say --results)", file=sys.stderr)
    for wrong in report.wrong:
        print(wrong, file=sys.stderr)
    sys.exit(0 if report.holds else 1)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale-factor", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=3, help="how often each is timed")
    parser.add_argument("--refreshes", type=int, default=5, help="how often 10,000 rows more come")
    parser.add_argument("--queries", nargs="*", choices=QUERIES)
    parser.add_argument("--only", nargs="*", choices=NAMES, help="these systems")
    parser.add_argument("--quick", action="store_true", help="SF 0.1, the paper's five queries: two minutes")
    parser.add_argument("--folder", help="where the temporary files go")
    parser.add_argument("--results", help="where the results go, instead of bench/results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.scale_factor, arguments.runs, arguments.refreshes = 0.1, 2, 3
        arguments.queries = arguments.queries or list(MAIN)
    return arguments


def run_systems(arguments: argparse.Namespace, report: SystemsReport) -> dict[str, dict[str, Found]]:
    """What each system found, by query."""
    files = make_files(arguments.scale_factor, arguments.refreshes)
    folder = Path(tempfile.mkdtemp(prefix="midstream_bench_", dir=arguments.folder))
    queries = {name: query for name, query in QUERIES.items() if name in (arguments.queries or QUERIES)}
    task = {"files": files.as_task(), "queries": queries, "runs": arguments.runs, "folder": str(folder)}
    found = {}
    try:
        for system in arguments.only or NAMES:
            print(f"{files.rows:,} rows: {NAMES[system]}", file=sys.stderr, flush=True)
            try:
                one = run_system(f"tpch_{system}", task | {"all_views": len(queries) > 1}, folder)
            except LeftOut as reason:
                report.wrong.append(f"{NAMES[system]}: {reason}")
                continue
            found[system] = one["queries"]
            report.versions |= {NAMES[system].split(",")[0]: one["version"]} if "version" in one else {}
            report.measured[f"{system} peak MB"] = one["peak_mb"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def check(report: SystemsReport, found: dict[str, dict[str, Found]]) -> None:
    """Takes out every query whose answers differ: its times are worth nothing."""
    reference = found.get(DUCKDB, {})
    for system, queries in found.items():
        for name, one in list(queries.items()):
            wanted = together(reference) if name == "all" else reference.get(name)
            if wanted is None or "refused" in one:
                continue
            for point in ("pass_answer", "again_answer"):
                wrong = difference(one[point], wanted[point], TOLERANCE)
                if wrong:
                    report.wrong.append(f"{NAMES[system]}, {name}, {point}: {wrong}")
                    queries.pop(name, None)


def together(queries: dict[str, Found]) -> Found:
    """All queries, one after the other."""
    keys = ("pass_answer", "again_answer")
    answers = {key: [row for one in queries.values() for row in one[key]] for key in keys}
    return answers | {key: [sum(median(one[key]) for one in queries.values())] for key in SECONDS}


SECONDS = ("pass_seconds", "again_seconds")


def show(report: SystemsReport, found: dict[str, dict[str, Found]]) -> None:
    ours = found.get(OURS, {})
    for system in (DUCKDB, SPARK):
        if found.get(system) and "all" in ours:
            found[system]["all"] = together(found[system])
    systems = [system for system in NAMES if system in found]
    names = [name for name in (*QUERIES, "all") if any(name in found[system] for system in systems)]
    head = ["query", "CREATE VIEW", "COPY alone"]
    head += [f"{NAMES[system]}: {what}" for what in ("absorb + read", "10,000 more") for system in systems]
    rows = []
    for name in names:
        mine = ours.get(name, {})
        row = [name, milliseconds(mine.get("create_seconds")), milliseconds(mine.get("copy_seconds"))]
        for key in SECONDS:
            row += [
                found[system].get(name, {}).get("refused") or milliseconds(found[system].get(name, {}).get(key))
                for system in systems
            ]
        rows.append(row)
    report.show(Table("Each query alone, and all views at once", head, rows))
    for what, key in (
        ("all of lineitem and one read, ms", SECONDS[0]),
        ("10,000 rows more and a read, ms", SECONDS[1]),
    ):
        bars = {
            f"{NAMES[system].split(',')[0]} {name}": median(found[system][name][key]) * 1000
            for name in names
            if name in MAIN
            for system in systems
            if key in found[system].get(name, {})
        }
        if bars:
            report.panels.append(Panel(what, bars))
    answers = ("pass_answer", "again_answer")
    report.measured |= {
        system: {name: {k: v for k, v in one.items() if k not in answers} for name, one in queries.items()}
        for system, queries in found.items()
    }


def findings(found: dict[str, dict[str, Found]], scale_factor: float) -> Iterator[Finding]:
    for name, ours in found.get(OURS, {}).items():
        if "refused" in ours:
            continue
        duckdb, spark = (found.get(system, {}).get(name) for system in (DUCKDB, SPARK))
        what = f"{name}: absorb + read"
        if duckdb:
            limit = 2 + 0.3 / median(duckdb["pass_seconds"])
            note = "twice as long and 0.3 s"
            yield Finding(what, ours["pass_seconds"], duckdb["pass_seconds"], limit, "DuckDB's one pass", note=note)
        if spark:
            yield Finding(what, ours["pass_seconds"], spark["pass_seconds"], 1 / 5, "Spark SQL's one pass")
        if duckdb and scale_factor >= 10:
            taken = ours["again_seconds"], duckdb["again_seconds"]
            yield Finding(f"{name}: 10,000 more", *taken, 1 / 10, "DuckDB running it again")


def median(times: list[float]) -> float:
    return statistics.median(times)


def milliseconds(times: list[float] | None) -> str:
    return f"{median(times) * 1000:,.0f} ms" if times else "–"


NOTES = """Every system in a process of its own, one after the other, over the same Parquet files; medians. The answers
of all were compared, after all of lineitem and after the last of the rows that came later.

For Midstream, tables are in the database before, CREATE VIEW is shown apart, and rows are durable when COPY returns.
DuckDB and Spark read the tables from Parquet in every run. "all" is all views over one stream, fed once, against the
queries one after the other. The paper's five are Q1, Q3, Q6, Q15 and Q20. Refreshes are to be ten times faster than the
query again at scale factor 10; at 1 the query is too fast to show it."""

if __name__ == "__main__":
    main()
