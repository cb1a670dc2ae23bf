"""Draws the pictures of the documentation, as SVG and with nothing but Python.

    python docs/pictures.py         # writes docs/pictures/*.svg

A picture is a function of what it shows: change the numbers here, not the drawings. The committed files are what this
script makes, which a test checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

FOLDER = Path(__file__).with_name("pictures")
INK, SOFT, PAPER = "#1f2933", "#7b8794", "#ffffff"
GREEN, BLUE, RED, SAND = "#2a7f62", "#3d6fb6", "#c0392b", "#e8e2d0"


class Drawing:
    """Shapes on a white page, in pixels from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" font-family="Helvetica, Arial, sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        ]

    def text(self, x: float, y: float, words: str, *, color: str = INK, anchor: str = "start", size: int = 13) -> None:
        self._lines.append(
            f'<text x="{x:g}" y="{y:g}" fill="{color}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
        )

    def bar(self, left: float, right: float, y: float, height: float, color: str, *, is_open: bool = False) -> None:
        """From left to right; one that is open has no right edge yet."""
        dashes = ' stroke-dasharray="4 3"' if is_open else ""
        self._lines.append(
            f'<rect x="{left:g}" y="{y:g}" width="{right - left:g}" height="{height:g}" rx="3" fill="{color}" '
            f'fill-opacity="{0.08 if is_open else 0.22}" stroke="{color}"{dashes}/>'
        )

    def dot(self, x: float, y: float, color: str = INK, radius: float = 4) -> None:
        self._lines.append(f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{color}"/>')

    def line(self, points: Sequence[tuple[float, float]], color: str = SOFT, width: float = 1) -> None:
        listed = " ".join(f"{x:g},{y:g}" for x, y in points)
        self._lines.append(f'<polyline points="{listed}" fill="none" stroke="{color}" stroke-width="{width:g}"/>')

    def arrow(self, start: tuple[float, float], end: tuple[float, float], color: str = SOFT) -> None:
        """Straight down, up or to the right."""
        self.line([start, end], color, 1.5)
        (x, y), across = end, end[0] == start[0]
        back = 6 if end[1] < start[1] else -6
        sides = [(x - 4, y + back), (x + 4, y + back)] if across else [(x - 6, y - 4), (x - 6, y + 4)]
        self.line([sides[0], end, sides[1]], color, 1.5)

    def svg(self) -> str:
        return "\n".join([*self._lines, "</svg>", ""])


# --- the kinds of windows ------------------------------------------------------------------------------

CLICKS = (3, 7, 12, 14, 27, 29, 33, 47, 52, 54, 60)
"""Minutes after ten: the rows that the page inserts."""
Span = tuple[int, int]
KINDS: tuple[tuple[str, str, tuple[tuple[Span, ...], ...]], ...] = (
    ("tumbling", "[WINDOW 10 MINUTES]", (tuple((end - 10, end) for end in range(10, 61, 10)),)),
    (
        "sliding",
        "[WINDOW 20 MINUTES SLIDE 10 MINUTES]",
        (((-10, 10), (10, 30), (30, 50)), ((0, 20), (20, 40), (40, 60))),
    ),
    ("hopping", "[WINDOW 5 MINUTES SLIDE 15 MINUTES]", (tuple((end - 5, end) for end in range(15, 61, 15)),)),
    ("landmark", "[LANDMARK SLIDE 20 MINUTES]", (((0, 20),), ((0, 40),), ((0, 60),))),
    ("session", "[SESSION 10 MINUTES]", (((3, 24), (27, 43), (47, 70)),)),
)


def kinds() -> str:
    """The same rows in five kinds of windows."""
    drawing = Drawing(800, 390, "Eleven rows in tumbling, sliding, hopping, landmark and session windows")

    def at(minute: int) -> float:
        return 150 + minute * 8.6

    for minute in range(0, 61, 10):
        drawing.line([(at(minute), 46), (at(minute), 378)], "#e4e7eb")
        drawing.text(at(minute), 22, f"{10 + minute // 60}:{minute % 60:02}", color=SOFT, anchor="middle")
    drawing.line([(at(-12), 46), (at(72), 46)], SOFT)
    drawing.text(14, 50, "rows")
    for minute in CLICKS:
        drawing.dot(at(minute), 46)
    y = 78.0
    for name, written, lanes in KINDS:
        drawing.text(14, y + 13, name)
        drawing.text(at(72), y - 4, written, color=SOFT, anchor="end", size=11)
        for lane in lanes:
            for start, end in lane:
                drawing.bar(at(start), at(end), y, 18, GREEN, is_open=end > 60)
            y += 22
        y += 30
    return drawing.svg()


# --- the watermark -------------------------------------------------------------------------------------

READINGS = (2, 6, 5, 12, 9, 17, 4, 21)
"""The times of rows in the order in which they came: the seventh comes when the watermark has passed it."""
LATENESS = 5


def watermark() -> str:
    """Rows by when they came and when they happened, and the watermark that follows."""
    drawing = Drawing(800, 380, "The watermark follows the largest time by five minutes; a row below it is late")

    def at(place: float, minute: float) -> tuple[float, float]:
        return 100 + place * 72, 330 - minute * 13

    for minute in range(0, 21, 5):
        drawing.line([at(0, minute), at(9, minute)], "#e4e7eb")
        drawing.text(88, at(0, minute)[1] + 4, f"10:{minute:02}", color=SOFT, anchor="end")
    drawing.text(14, 26, "when it happened")
    drawing.text(at(9, 0)[0], 366, "in the order in which rows come", anchor="end")
    drawing.arrow((100, 345), (at(9, 0)[0], 345))
    drawing.arrow((100, 345), (100, 34))
    mark: float = -1
    line = [at(0.6, 0)]
    for place, minute in enumerate(READINGS, 1):
        is_late = minute < mark
        x, y = at(place, minute)
        drawing.dot(x, y, RED if is_late else INK, 5)
        if is_late:
            drawing.text(x + 10, y + 4, "late: to late_readings", color=RED)
        line.append(at(place, max(mark, 0)))
        mark = max(mark, minute - LATENESS)
        line.append(at(place, max(mark, 0)))
    drawing.line([*line, at(8.9, mark)], BLUE, 2)
    drawing.text(at(9, 0)[0], at(0, mark)[1] + 20, "watermark", color=BLUE, anchor="end")
    x, y = at(6, 10)
    drawing.dot(x, y, BLUE)
    drawing.text(x + 10, y - 4, "passes 10:10: the window", size=11)
    drawing.text(x + 10, y + 11, "from 10:00 to 10:10 is complete", size=11)
    return drawing.svg()


# --- basic windows ---------------------------------------------------------------------------------------

SUMS = (7, 4, 9, 2, 6)
"""What the rows of each basic window add up to."""


def basic_windows() -> str:
    """Rows are absorbed into the partials of their basic window, and windows merge partials."""
    drawing = Drawing(800, 370, "A window is merged from the partials of its basic windows")

    def left(slot: int) -> float:
        return 150 + slot * 122

    for y, words in ((40, "rows"), (122, "partials: one"), (138, "for each group and"), (154, "basic window")):
        drawing.text(14, y, words)
    drawing.line([(140, 36), (770, 36)])
    for slot, total in enumerate(SUMS):
        for place in range(4):
            drawing.dot(left(slot) + 17 + place * 26, 36, SOFT if slot < 4 else INK)
        drawing.arrow((left(slot) + 56, 50), (left(slot) + 56, 102), GREEN if slot == 4 else "#cbd2d9")
        drawing.bar(left(slot), left(slot) + 112, 108, 52, GREEN if slot == 4 else BLUE)
        drawing.text(left(slot) + 56, 129, f"basic window {slot}", anchor="middle", size=11)
        drawing.text(left(slot) + 56, 149, f"sum = {total}", anchor="middle")
    drawing.text(left(4) + 56, 80, "absorbed once", color=GREEN, anchor="end", size=11)
    for number, y in ((0, 200), (1, 254)):
        drawing.text(14, y + 22, f"window {number}")
        drawing.bar(left(number), left(number + 3) + 112, y, 34, SOFT)
        merged = SUMS[number : number + 4]
        answer = f"{' + '.join(map(str, merged))} = {sum(merged)}"
        drawing.text((left(number) + left(number + 3) + 112) / 2, y + 22, answer, anchor="middle")
    drawing.text(150, 320, "Basic window 0 is behind every window to come: it goes.", color=SOFT)
    drawing.text(150, 340, "Rows go as soon as they are absorbed.", color=SOFT)
    return drawing.svg()


def joined() -> str:
    """Two windows that go on together."""
    drawing = Drawing(800, 250, "Window k of one stream meets window k of the other")

    def at(minute: int) -> float:
        return 150 + minute * 14

    for name, y, minutes, color in (
        ("orders", 60, (4, 11, 16, 23, 31), GREEN),
        ("payments", 170, (9, 19, 26, 34), BLUE),
    ):
        drawing.text(14, y + 4, name)
        drawing.line([(at(-1), y), (at(44), y)])
        for minute in minutes:
            drawing.dot(at(minute), y)
        drawing.bar(at(0), at(20), y - 26, 52, color)
        drawing.bar(at(20), at(40), y - 26, 52, color)
        for start, number in ((0, 0), (20, 1)):
            drawing.text(at(start) + 8, y - 10, f"window {number}", color=SOFT, size=11)
    for start, number in ((0, 0), (20, 1)):
        middle = at(start + 10)
        drawing.arrow((middle, 88), (middle, 104))
        drawing.arrow((middle, 142), (middle, 126))
        drawing.text(middle, 120, f"result {number}", anchor="middle")
    return drawing.svg()


def pairs() -> str:
    """A join by basic windows: what a slide computes, what stays, and what goes."""
    drawing = Drawing(
        800, 290, "Pairs of basic windows: a slide computes those with a new one and drops those with the oldest"
    )
    side, left, top, count = 46, 180, 40, 5

    def cell(column: int, row: int) -> None:
        is_new, is_old = count - 1 in (column, row), 0 in (column, row)
        x, y = left + column * side, top + row * side
        color = SOFT if is_old else GREEN if is_new else BLUE
        drawing.bar(x + 2, x + side - 2, y + 2, side - 4, color, is_open=is_old)

    for column in range(count):
        drawing.text(left + (column + 0.5) * side, 30, str(column), color=SOFT, anchor="middle")
        drawing.text(170, top + (column + 0.6) * side, str(column), color=SOFT, anchor="end")
        for row in range(count):
            if {column, row} != {0, count - 1}:
                cell(column, row)
    drawing.text(left + count * side + 14, 30, "basic windows of orders", color=SOFT)
    drawing.text(14, top + 2.4 * side, "basic windows", color=SOFT)
    drawing.text(14, top + 2.4 * side + 17, "of payments", color=SOFT)
    for place, (color, words) in enumerate(
        (
            (GREEN, "computed when basic window 4 is complete"),
            (BLUE, "kept, by the older basic window of a pair"),
            (SOFT, "dropped: basic window 0 has left"),
        )
    ):
        y = 90 + place * 44
        drawing.bar(450, 470, y, 20, color, is_open=color == SOFT)
        drawing.text(480, y + 15, words, size=12)
    return drawing.svg()


PICTURES: dict[str, Callable[[], str]] = {
    "window-kinds": kinds,
    "watermark": watermark,
    "basic-windows": basic_windows,
    "window-join": joined,
    "window-pairs": pairs,
}


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
