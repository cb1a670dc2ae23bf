"""The three queries of DataCell, their windows, and the rows that come: two integers each, the same in every run.

Rows are numbered, and what a row holds follows from its number. So a judge has all rows in a table, and the answer of
window k is the plain query over a range of numbers.

    shape = Shape("q1", size=10_240_000, slide=20_000, share=0.2)
    shape.span(3)                                  # (60000, 10300000)
"""

from __future__ import annotations

from dataclasses import dataclass

SELECTS = {
    "q1": "SELECT x1, sum(x2) AS total FROM {0} WHERE x1 > {least} GROUP BY x1",
    "q2": "SELECT max(s1.x1) AS most, avg(s2.x1) AS average FROM {0} s1, {1} s2 WHERE s1.x2 = s2.x2",
    "q3": "SELECT max(x1) AS most, sum(x2) AS total FROM {0} WHERE x1 > {least}",
}


@dataclass(frozen=True)
class Shape:
    """A query, and how its window goes. `share`: of rows that pass the condition, or of pairs that match."""

    query: str
    size: int
    """Of a landmark: 0."""
    slide: int
    share: float
    values: int = 1000
    """So many values x1 has: what a slide has of each makes one partial."""
    with_end: bool = False
    """Whether rows of windows begin with where their window ends."""

    @property
    def streams(self) -> int:
        return 2 if self.query == "q2" else 1

    @property
    def basic_windows(self) -> int:
        return self.size // self.slide

    @property
    def first_rows(self) -> int:
        """So many rows of each stream make up the first window."""
        return self.size or self.slide

    def span(self, number: int) -> tuple[int, int]:
        """The rows of a window."""
        end = self.first_rows + number * self.slide
        return (end - self.size if self.size else 0), end

    def over(self, *relations: str) -> str:
        """The query over relations."""
        return SELECTS[self.query].format(*relations, least=round(self.values * (1 - self.share)) - 1)

    def over_windows(self, *streams: str) -> str:
        """The query of a view over windows of streams."""
        rows = f"WINDOW {self.size} ROWS SLIDE {self.slide} ROWS" if self.size else f"LANDMARK SLIDE {self.slide} ROWS"
        query = self.over(*(f"{stream} [{rows}]" for stream in streams))
        return query.replace("SELECT ", "SELECT window_end, ", 1) if self.with_end else query

    def rows(self, stream: int, first: int, last: int) -> str:
        """The rows of a stream by number, in the SQL of DuckDB."""
        keys = round(1 / self.share) if self.query == "q2" else self.values
        x1, x2 = (f"hash(n * 4 + {2 * stream + column})" for column in (0, 1))
        columns = f"CAST({x1} % {self.values} AS INTEGER) AS x1, CAST({x2} % {keys} AS INTEGER) AS x2"
        return f"SELECT n, {columns} FROM range({first}, {last}) AS numbers(n)"
