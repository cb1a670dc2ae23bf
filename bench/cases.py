"""Runs the cases of a benchmark, all or some of them, in a database of its own, and reports.

run_cases(Report("ingest", "Streams"), CASES, Bench.of, description=__doc__, runs=3)
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from report import Finding, Report

import midstream

Bench = TypeVar("Bench")


def run_cases(
    report: Report,
    cases: Mapping[str, Callable[[Bench], Iterable[Finding]]],
    make: Callable[[Any, Path, argparse.Namespace], Bench],
    *,
    description: str | None,
    runs: int,
) -> None:
    """`make` gets the database, a temporary folder and the arguments, of which `scale` and `runs` matter."""
    arguments = _arguments(description, cases, runs)
    folder = Path(tempfile.mkdtemp(prefix="midstream_bench_", dir=arguments.folder))
    try:
        with midstream.connect(str(folder / "bench.db")) as db:
            bench = make(db, folder, arguments)
            for name in arguments.only or cases:
                for finding in cases[name](bench):
                    report.add(finding)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.scale == 1.0 and not arguments.only:
        report.write()
    else:
        print("not written: only a whole run with --scale 1 goes to bench/results", file=sys.stderr)
    sys.exit(0 if report.holds else 1)


def _arguments(description: str | None, cases: Mapping[str, object], runs: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="part of the rows")
    parser.add_argument("--runs", type=int, default=runs, help="how often each is timed")
    parser.add_argument("--only", nargs="*", choices=cases)
    parser.add_argument("--folder", help="where the temporary files go")
    return parser.parse_args()
