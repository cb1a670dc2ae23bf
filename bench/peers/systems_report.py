"""A report with more than ratios: what every system did, side by side, and bars of it.

report = SystemsReport("aim", "AIM")
report.tables.append(Table("1,000,000 customers", ["system", "events/s"], [["Midstream", "4,000,000"]]))
report.panels.append(Panel("events/s", {"Midstream": 4e6}))
report.write()
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import report
from report import Report


@dataclass(frozen=True)
class Table:
    title: str
    head: list[str]
    rows: list[list[str]]

    def lines(self) -> list[str]:
        lines = ["| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        return lines + ["| " + " | ".join(row) + " |" for row in self.rows]


@dataclass(frozen=True)
class Panel:
    """Bars, one a system, on a logarithmic scale, because systems differ by powers of ten."""

    title: str
    values: dict[str, float]


@dataclass
class SystemsReport(Report):
    tables: list[Table] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    """The bare numbers, for the JSON."""
    versions: dict[str, str] = field(default_factory=dict)
    """Of the peers."""
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return not self.wrong and all(finding.holds for finding in self.findings)

    def show(self, table: Table) -> None:
        self.tables.append(table)
        print("\n".join(["", table.title, "", *table.lines(), ""]), flush=True)

    def write(self, folder: Path = report.RESULTS) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        versions = report.versions() | self.versions
        facts = {"machine": report.describe_machine(), "versions": versions, "at": datetime.now(timezone.utc)}
        facts["at"] = facts["at"].isoformat()
        found = [asdict(finding) | {"ratio": finding.ratio, "holds": finding.holds} for finding in self.findings]
        document = {"name": self.name, **facts, "findings": found, "wrong": self.wrong, "measured": self.measured}
        (folder / f"{self.name}.json").write_text(json.dumps(document, indent=2) + "\n")
        (folder / f"{self.name}.md").write_text(self.as_markdown(facts))
        self.plot(folder / f"{self.name}.png")

    def as_markdown(self, facts: dict[str, Any]) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
        lines = [f"# {self.title}", "", f"{facts['machine']}. {versions}. {facts['at'][:10]}.", ""]
        for table in self.tables:
            lines += [f"## {table.title}", "", *table.lines(), ""]
        head = ["what", "against", "ours", "theirs", "ratio", "at most", "holds", "note"]
        ratios = Table("What is to be reached", head, [finding.as_row() for finding in self.findings])
        lines += [f"## {ratios.title}", "", *ratios.lines(), "", *self.notes, ""]
        return "\n".join(lines) + f"\n![the systems side by side]({self.name}.png)\n"

    def plot(self, path: Path) -> None:
        try:
            import matplotlib
        except ImportError:
            print("no picture: matplotlib is not installed", file=sys.stderr)
            return
        matplotlib.use("Agg")
        from matplotlib import pyplot

        heights = [0.8 + 0.35 * len(panel.values) for panel in self.panels]
        figure, places = pyplot.subplots(
            len(self.panels), 1, figsize=(10, sum(heights) + 0.5), height_ratios=heights, squeeze=False
        )
        for axes, panel in zip(places[:, 0], self.panels, strict=True):
            _draw(axes, panel)
        figure.suptitle(self.title)
        figure.tight_layout()
        figure.savefig(path, dpi=110)
        pyplot.close(figure)


def _draw(axes: Any, panel: Panel) -> None:
    colors = ["#2a7f62" if name.startswith("Midstream") else "#9aa5b1" for name in panel.values]
    axes.barh(list(panel.values), list(panel.values.values()), color=colors, height=0.65)
    for place, value in enumerate(panel.values.values()):
        axes.text(value, place, f" {value:,.0f}", va="center", fontsize=8)
    axes.set_xscale("log")
    # A decade below the least, so that every bar is one.
    axes.set_xlim(min(panel.values.values()) / 10, max(panel.values.values()) * 4)
    axes.invert_yaxis()
    axes.set_title(panel.title, fontsize=10)
    axes.tick_params(labelsize=8)
