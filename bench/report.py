"""What a benchmark found: a table for people, JSON for machines, a picture, and on what machine it was.

A finding is a ratio of two medians taken in one run, side by side, so that it means the same on any machine.

    report = Report("foundation", "The foundation")
    report.add(Finding("commit", ours=[0.012, 0.011], theirs=[0.006, 0.006], limit=3.0, against="append"))
    report.write()                       # bench/results/foundation.json, .md and .png
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
PACKAGES = ("midstream", "pyspark", "duckdb", "deltalake", "pyarrow", "sqlglot")


@dataclass(frozen=True)
class Finding:
    """Seconds of ours and of theirs, and how many times theirs ours may take."""

    name: str
    ours: list[float]
    theirs: list[float]
    limit: float
    against: str
    rows: int = 0
    note: str = ""
    unit: str = "s"
    """What is measured: seconds, or MB."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ours) / statistics.median(self.theirs)

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit

    def as_row(self) -> list[str]:
        medians = (statistics.median(times) for times in (self.ours, self.theirs))
        ours, theirs = (_seconds(m) if self.unit == "s" else f"{m:,.0f} {self.unit}" for m in medians)
        verdict = "yes" if self.holds else "NO"
        return [self.name, self.against, ours, theirs, f"{self.ratio:.2f}", f"{self.limit:.2f}", verdict, self.note]


@dataclass(frozen=True)
class Table:
    title: str
    head: list[str]
    rows: list[list[str]]

    def lines(self) -> list[str]:
        lines = ["| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        return lines + ["| " + " | ".join(row) + " |" for row in self.rows]


@dataclass
class Report:
    name: str
    title: str
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        self.findings.append(finding)
        print("  ".join(finding.as_row()), flush=True)

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)

    @property
    def ratios(self) -> Table:
        head = ["what", "against", "ours", "theirs", "ratio", "at most", "holds", "note"]
        return Table("What is to be reached", head, [finding.as_row() for finding in self.findings])

    def write(self, folder: Path = RESULTS) -> None:
        """Leaves the table, the numbers and the picture in bench/results."""
        folder.mkdir(parents=True, exist_ok=True)
        at = datetime.now(timezone.utc).isoformat()
        facts = {"machine": describe_machine(), "versions": versions() | self.more_versions(), "at": at}
        found = [asdict(finding) | {"ratio": finding.ratio, "holds": finding.holds} for finding in self.findings]
        document = {"name": self.name, **facts, "findings": found, **self.more_numbers()}
        (folder / f"{self.name}.json").write_text(json.dumps(_plain(document), indent=2) + "\n")
        (folder / f"{self.name}.md").write_text(self.as_markdown(facts))
        self.plot(folder / f"{self.name}.png")

    def as_markdown(self, facts: dict[str, Any]) -> str:
        made_with = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        lines = [f"# {self.title}", "", f"{facts['machine']}. {made_with}. {facts['at'][:10]}.", ""]
        return "\n".join([*lines, *self.body(), "", f"![the same as a picture]({self.name}.png)", ""])

    def plot(self, path: Path) -> None:
        try:
            import matplotlib
        except ImportError:
            print("no picture: matplotlib is not installed", file=sys.stderr)
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure = self.draw(pyplot)
        figure.tight_layout()
        figure.savefig(path, dpi=120)
        pyplot.close(figure)

    # --- what a report may say otherwise, or beside --------------------------------------------------

    def more_versions(self) -> dict[str, str]:
        return {}

    def more_numbers(self) -> dict[str, Any]:
        return {}

    def body(self) -> list[str]:
        method = "Medians of several runs, ours and theirs by turns in one process; the answers were compared first."
        return [*self.ratios.lines(), "", method]

    def draw(self, pyplot: Any) -> Any:
        """Bars of the ratios with a tick at each limit."""
        figure, axes = pyplot.subplots(figsize=(9, 1 + 0.6 * len(self.findings)))
        names = [finding.name for finding in self.findings]
        colors = ["#2a7f62" if finding.holds else "#c0392b" for finding in self.findings]
        axes.barh(names, [finding.ratio for finding in self.findings], color=colors, height=0.6)
        for place, finding in enumerate(self.findings):
            axes.plot([finding.limit] * 2, [place - 0.4, place + 0.4], color="black", linewidth=2)
            axes.text(finding.ratio, place, f" {finding.ratio:.2f}", va="center")
        axes.invert_yaxis()
        axes.set_xlabel("time of ours / time of theirs (black: the limit)")
        axes.set_title(self.title)
        return figure


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def describe_machine() -> str:
    """Processor, cores, memory, system."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = models[0] if models else model
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{model}, {len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "java": _java_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "from source"
    return found


def _java_version() -> str:
    try:
        said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.split('"')[1] if '"' in said else said.split("\n")[0]


def _plain(value: object) -> object:
    """The same with names that JSON can have: a pair becomes a text."""
    if isinstance(value, dict):
        return {" ".join(map(str, k)) if isinstance(k, tuple) else k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
