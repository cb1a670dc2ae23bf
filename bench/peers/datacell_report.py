"""The report of DataCell: the tables and ratios of every report, and lines in place of bars, one panel a figure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from peers.systems_report import SystemsReport

COLORS = {"incremental": "#2a7f62", "reevaluate": "#c0392b", "DuckDB": "#3d6fb6"}


@dataclass(frozen=True)
class Figure:
    """Milliseconds over what is varied; each line has a name, and points."""

    title: str
    across: str
    lines: dict[str, list[tuple[float, float]]]
    log_across: bool = False


@dataclass
class DatacellReport(SystemsReport):
    figures: list[Figure] = field(default_factory=list)

    def draw(self, pyplot: Any) -> Any:
        rows = max(1, -(-len(self.figures) // 2))
        figure, places = pyplot.subplots(rows, 2, figsize=(13, 3.6 * rows), squeeze=False)
        for axes in places.flat[len(self.figures) :]:
            axes.axis("off")
        for axes, one in zip(places.flat, self.figures, strict=False):
            _draw(axes, one)
        return figure


def _draw(axes: Any, figure: Figure) -> None:
    for name, points in figure.lines.items():
        color = next((color for word, color in COLORS.items() if word in name), None)
        style = ":" if "for the result" in name else "--" if "kernel" in name else "-"
        axes.plot(*zip(*points, strict=True), style, marker="o", markersize=3, color=color, label=name)
    axes.set_yscale("log")
    if figure.log_across:
        axes.set_xscale("log", base=2)
    axes.set_title(figure.title, fontsize=10)
    axes.set_xlabel(figure.across, fontsize=8)
    axes.set_ylabel("ms", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
