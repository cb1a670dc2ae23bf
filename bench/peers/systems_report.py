"""A report with more than ratios: what every system did, side by side, and bars of it.

report = SystemsReport("aim", "AIM")
report.tables.append(Table("1,000,000 customers", ["system", "events/s"], [["Midstream", "4,000,000"]]))
report.panels.append(Panel("events/s", {"Midstream": 4e6}))
report.write()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from report import Report, Table


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

    def more_versions(self) -> dict[str, str]:
        return self.versions

    def more_numbers(self) -> dict[str, Any]:
        return {"wrong": self.wrong, "measured": self.measured}

    def body(self) -> list[str]:
        tables = [*self.tables, self.ratios]
        return [line for table in tables for line in (f"## {table.title}", "", *table.lines(), "")] + self.notes

    def draw(self, pyplot: Any) -> Any:
        heights = [0.8 + 0.35 * len(panel.values) for panel in self.panels]
        figure, places = pyplot.subplots(
            len(self.panels), 1, figsize=(10, sum(heights) + 0.5), height_ratios=heights, squeeze=False
        )
        for axes, panel in zip(places[:, 0], self.panels, strict=True):
            _draw(axes, panel)
        figure.suptitle(self.title)
        return figure


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
