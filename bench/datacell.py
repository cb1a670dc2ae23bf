"""DataCell: windows over streams, kept incrementally and evaluated anew, slide by slide; beside them, DuckDB alone.

    python bench/datacell.py                  # the paper's sizes: about ten minutes
    python bench/datacell.py --quick          # a tenth of them and less: two minutes
    python bench/datacell.py --only q1 at_once

A case is a figure of the paper: responses slide by slide (q1, q2: 5.8; q3: 5.10), against selectivity (5.9), the size
of the window (5.10), the number of basic windows (5.11) and of chunks (5.12); flat is ever more basic windows of one
size; at_once is the rows of 100 slides in one COPY. Every answer is compared with DuckDB's before a time counts. Exit
code 1 says that one is wrong, or that something is not reached.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

from peers.answers import WrongAnswer
from peers.datacell_measuring import ANEW, INCREMENTAL, Bench, Slides
from peers.datacell_report import DatacellReport, Figure
from peers.datacell_sizes import QUICK, WHOLE, Sizes
from peers.datacell_workload import Shape
from report import Finding, Table

import midstream

Measured = dict[str, Slides]
"""The same windows, kept incrementally and evaluated anew."""
HEAD = ["", "first window", "response", "its jobs", "kernel: new rows", "kernel: result", "DuckDB, all rows"]


class Run:
    """What the cases share."""

    def __init__(self, bench: Bench, sizes: Sizes, report: DatacellReport) -> None:
        self.bench, self.sizes, self.report = bench, sizes, report
        self._known: dict[Shape, Measured] = {}

    def measured(self, shape: Shape, slides: int | None = None) -> Measured:
        """A shape is measured once, whichever cases ask for it."""
        if shape not in self._known:
            print(f"{shape}", file=sys.stderr, flush=True)
            self._known[shape] = self.bench.both(shape, slides or max(2, self.sizes.slides // 2))
        return self._known[shape]

    def show(self, title: str, across: str, found: dict[float, Measured], log_across: bool = True) -> None:
        """A table, and a figure of what was varied."""
        rows = [[f"{value:,.10g}, {how}", *cells(one)] for value, both in found.items() for how, one in both.items()]
        self.report.show(Table(title, [across, *HEAD[1:]], rows))
        lines = {
            name: [(value, 1000 * median(take(both))) for value, both in found.items()] for name, take in LINES.items()
        }
        if len(found) > 1:
            self.report.figures.append(Figure(title, across, lines, log_across))
        self.report.measured[title] = {
            f"{value:g}": {how: one.numbers() for how, one in both.items()} for value, both in found.items()
        }


def cells(one: Slides) -> list[str]:
    return [
        milliseconds(median(times))
        for times in ([one.first], one.response, one.jobs, one.absorb, one.merge, one.duckdb)
    ]


LINES: dict[str, Callable[[Measured], list[float]]] = {
    "incremental, response": lambda both: both[INCREMENTAL].response,
    "reevaluate, response": lambda both: both[ANEW].response,
    "incremental, kernel": lambda both: both[INCREMENTAL].kernel,
    "incremental, kernel for the result": lambda both: both[INCREMENTAL].merge,
    "reevaluate, kernel": lambda both: both[ANEW].kernel,
    "DuckDB alone, all rows": lambda both: both[INCREMENTAL].duckdb,
}


# --- the cases -----------------------------------------------------------------------------------------


def q1(run: Run) -> Iterator[Finding]:
    yield from slide_by_slide(run, run.sizes.q1, "Q1, groups of one stream", 4)


def q2(run: Run) -> Iterator[Finding]:
    yield from slide_by_slide(run, run.sizes.q2, "Q2, a join of two windows", 20)


def q3(run: Run) -> Iterator[Finding]:
    shape = run.sizes.q3
    both = run.measured(shape, run.sizes.landmarks)
    show_slides(run, shape, both, "Q3, a landmark")
    ours = both[INCREMENTAL].response
    half = len(ours) // 2
    note = "the window grows, the response does not"
    yield Finding("Q3: later windows", ours[half:], ours[:half], 1.5, "the first ones", shape.slide, note)
    yield Finding("Q3: kernel", both[INCREMENTAL].kernel, both[ANEW].kernel, 1.0, "evaluated anew", shape.slide)


def slide_by_slide(run: Run, shape: Shape, title: str, times: int) -> Iterator[Finding]:
    both = run.measured(shape, run.sizes.slides)
    show_slides(run, shape, both, title)
    ours, anew = both[INCREMENTAL], both[ANEW]
    name = shape.query.upper()
    note = f"{times} times less"
    yield Finding(f"{name}: kernel", ours.kernel, anew.kernel, 1 / times, "evaluated anew", shape.slide, note)
    limit, note = run.bench.empty + 0.1, f"an empty job takes {milliseconds(run.bench.empty)}"
    yield Finding(f"{name}: response", ours.response, [limit], 1.0, "an empty job and 100 ms", shape.slide, note)


def show_slides(run: Run, shape: Shape, both: Measured, title: str) -> None:
    rows = [[how, *cells(one)] for how, one in both.items()]
    size = f"|W| = {shape.size:,}, |w| = {shape.slide:,}" if shape.size else f"|w| = {shape.slide:,}"
    full = f"{title}: {size}"
    run.report.show(Table(full, HEAD, rows))
    lines: dict[str, list[tuple[float, float]]] = {
        f"{how}, response": [(n, 1000 * s) for n, s in enumerate([one.first, *one.response])]
        for how, one in both.items()
    }
    lines["DuckDB alone, all rows"] = [
        (n + 1, 1000 * s) for n, s in enumerate(both[INCREMENTAL].duckdb[: len(both[INCREMENTAL].response)])
    ]
    run.report.figures.append(Figure(full, "window", lines))
    run.report.measured[full] = {how: one.numbers() for how, one in both.items()}


def selectivity(run: Run) -> Iterator[Finding]:
    q1, q2 = run.sizes.q1, run.sizes.q2
    shapes = {share: replace(q1, share=share) for share in sorted({*run.sizes.rows_pass, q1.share})}
    found = {100 * share: run.measured(shape) for share, shape in shapes.items()}
    run.show("Q1 against selectivity", "rows that pass, %", found, log_across=False)
    shapes = {share: replace(q2, share=share) for share in sorted({*run.sizes.pairs_match, q2.share})}
    run.show(
        "Q2 against selectivity", "pairs that match, %", {100 * share: run.measured(s) for share, s in shapes.items()}
    )
    yield from ()


def size(run: Run) -> Iterator[Finding]:
    """The number of basic windows stays, so the slide grows with the window."""
    cut = run.sizes.q1.basic_windows
    sizes = sorted({*run.sizes.windows, run.sizes.q1.size})
    found = {float(rows): run.measured(replace(run.sizes.q1, size=rows, slide=rows // cut)) for rows in sizes}
    run.show(f"Q1 against the size of the window, {cut} basic windows", "rows of a window", found)
    gains = [median(both[ANEW].kernel) / median(both[INCREMENTAL].kernel) for both in found.values()]
    name, note = f"Q1: gained with |W| = {sizes[0]:,}", "how many times less the kernel does than anew"
    yield Finding(name, [gains[0]], [gains[-1]], 1.0, f"|W| = {sizes[-1]:,}", note=note, unit="times")
    yield from join_size(run)


def join_size(run: Run) -> Iterator[Finding]:
    """The same of the join; of each row, as many pairs match whatever the window."""
    shape = run.sizes.q2
    cut = shape.basic_windows
    sizes = sorted({*run.sizes.join_windows, shape.size})
    shapes = {
        rows: replace(shape, size=rows, slide=rows // cut, share=shape.share * shape.size / rows) for rows in sizes
    }
    found = {float(rows): run.measured(one) for rows, one in shapes.items()}
    run.show(f"Q2 against the size of the window, {cut} basic windows", "rows of a window", found)
    gains = [median(both[ANEW].kernel) / median(both[INCREMENTAL].kernel) for both in found.values()]
    name, note = f"Q2: gained with |W| = {sizes[0]:,}", "how many times less the kernel does than anew"
    yield Finding(name, [gains[0]], [gains[-1]], 1.0, f"|W| = {sizes[-1]:,}", note=note, unit="times")


def basic_windows(run: Run) -> Iterator[Finding]:
    for shape, cuts in ((run.sizes.q1, run.sizes.cuts), (run.sizes.q2, run.sizes.join_cuts)):
        counts = sorted({*cuts, shape.basic_windows})
        found = {float(cut): run.measured(replace(shape, slide=shape.size // cut)) for cut in counts}
        run.show(f"{shape.query.upper()} against the number of basic windows", "basic windows", found)
    yield from ()


def flat(run: Run) -> Iterator[Finding]:
    """The slide stays, so the window grows with the number of basic windows."""
    few, many = 8, max(run.sizes.cuts)
    slide = run.sizes.q1.size // many
    counts = sorted({few, *run.sizes.cuts} - {2})
    found = {float(cut): run.measured(replace(run.sizes.q1, size=cut * slide, slide=slide)) for cut in counts}
    run.show(f"Q1 with slides of {slide:,} rows against the number of basic windows", "basic windows", found)
    small, large = (found[float(cut)][INCREMENTAL] for cut in (few, many))
    name = f"Q1: {many:,} basic windows"
    yield Finding(f"{name}, response", large.response, small.response, 1.25, f"{few} of the same slide", note="flat")
    yield Finding(f"{name}, kernel", large.kernel, small.kernel, 1.25, f"{few} of the same slide", note="flat")


def chunks(run: Run) -> Iterator[Finding]:
    """The newest basic window is absorbed while it fills: in how many chunks, the view finds out by itself."""
    shape = replace(run.sizes.q1, slide=run.sizes.q1.size // 8)
    print(f"{shape}, a slide in {run.sizes.inserts} inserts", file=sys.stderr, flush=True)
    found = run.bench.while_it_fills(shape, run.sizes.search, run.sizes.inserts, run.sizes.filling)
    by_chunks: dict[int, list[float]] = {}
    for count, seconds in found:
        by_chunks.setdefault(count, []).append(seconds)
    title = f"Q1, 8 basic windows, a slide in {run.sizes.inserts} inserts over {run.sizes.filling:g} s"
    rows = [[f"{count}", f"{len(times)}", milliseconds(median(times))] for count, times in sorted(by_chunks.items())]
    run.report.show(Table(title, ["chunks", "slides", "response"], rows))
    lines: dict[str, list[tuple[float, float]]] = {
        f"{count} chunks": [(n + 1, 1000 * s) for n, (own, s) in enumerate(found) if own == count]
        for count in sorted(by_chunks)
    }
    run.report.figures.append(Figure(title, "window", lines))
    run.report.measured[title] = found
    last = found[-1][0]
    note = f"{last} in the end"
    yield Finding("Q1: chunks that the view found", by_chunks[last], by_chunks[1], 1.0, "one chunk", shape.slide, note)


def at_once(run: Run) -> Iterator[Finding]:
    shape, windows = run.sizes.q1, run.sizes.at_once
    print(f"{shape}, {windows} slides at once", file=sys.stderr, flush=True)
    seconds = [run.bench.at_once(shape, windows) for _ in range(run.sizes.rounds)]
    rows = windows * shape.slide
    rate = rows / median(seconds)
    title = f"Q1, {windows} slides at once"
    head = ["rows", "COPY until every result was handed out", "rows/s", "windows/s"]
    cells = [f"{rows:,}", milliseconds(median(seconds)), f"{rate:,.0f}", f"{windows / median(seconds):,.0f}"]
    run.report.show(Table(title, head, [cells]))
    run.report.measured[title] = {"rows": rows, "seconds": seconds}
    note = f"{rate:,.0f} rows/s, every slide's result handed out"
    yield Finding(f"Q1: {windows} slides at once", seconds, [rows / 2e6], 1.0, "2 M rows/s", rows, note)


CASES: dict[str, Callable[[Run], Iterator[Finding]]] = {
    case.__name__: case for case in (q1, q2, q3, selectivity, size, basic_windows, flat, chunks, at_once)
}


# --- running them --------------------------------------------------------------------------------------


def main() -> None:
    arguments = read_arguments()
    sizes = QUICK if arguments.quick else WHOLE
    report = DatacellReport("datacell", "DataCell: windows over streams, slide by slide")
    report.notes.append(NOTES)
    folder = Path(tempfile.mkdtemp(prefix="midstream_bench_", dir=arguments.folder))
    try:
        with midstream.connect(str(folder / "bench.db")) as db:
            run = Run(Bench(db, folder, sizes.kernel_slides), sizes, report)
            report.measured["empty job"] = run.bench.empty
            for name in arguments.only or CASES:
                run_case(run, name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.results or not (arguments.quick or arguments.only):
        report.write(*([Path(arguments.results)] if arguments.results else []))
    else:
        print("not written: only a whole run goes to bench/results (or say --results)", file=sys.stderr)
    for wrong in report.wrong:
        print(wrong, file=sys.stderr)
    sys.exit(0 if report.holds else 1)


def run_case(run: Run, name: str) -> None:
    try:
        for finding in CASES[name](run):
            run.report.add(finding)
    except (WrongAnswer, midstream.Error) as failure:
        run.report.wrong.append(f"{name}: {type(failure).__name__}: {failure}")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=CASES)
    parser.add_argument("--quick", action="store_true", help="small sizes: two minutes")
    parser.add_argument("--folder", help="where the temporary files go")
    parser.add_argument("--results", help="where the results go, instead of bench/results")
    return parser.parse_args()


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


NOTES = """The response is the time from the return of the insert that completes a window until the window's rows are
read; the first window's rows come as one file. "Its jobs" is the wall time of the Spark jobs in it, which may overlap.
The kernel's time is that of the very tasks of these jobs, run again in the process that measures, less that of
SELECT 1, for slides of their own: for the new rows, and for the result, which is in the same job where it was foreseen.
`reevaluate` is the same view that keeps its rows and computes each window from all of them; "DuckDB alone" is one query
over a table in memory that has the rows of the window already. Figures are medians. Every answer was compared with
DuckDB's. The two views have streams of their own and get the rows of each slide by turns."""

if __name__ == "__main__":
    main()
