"""What the groups of a window come to, from which the next window is made: basic windows that came are added, and those
that left are taken away.

    total of window k + 1  =  total of window k  +  the newest basic windows  -  the oldest

That is for partials that are exact sums. A group is there as long as a basic window has it, so a total knows for each
group how many have it, and for each sum how many of these are not NULL. A slide then costs the same however many basic
windows a window is made of. Nothing depends on it but speed: without a total, the basic windows are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from midstream.kernels import kernel_type
from midstream.maintenance.engine import Input, Piece, WriteParquet
from midstream.plan.cut import Program
from midstream.relations.window import Window
from midstream.runtime.states import KeptFile, as_input
from midstream.types import BIGINT, Type

FROM_ROWS = 50_000
"""Fewer rows are merged faster than a total is written."""
_TIMES = "~times"


@dataclass(frozen=True)
class Total:
    """What is kept of one pipeline of a view: the groups of window `number`."""

    number: int
    file: KeptFile | None
    """None: there were none."""


@dataclass(frozen=True)
class NewTotal:
    """The groups of window `number`, from those of an earlier one, or from all of its basic windows."""

    program: Program
    window: Window
    number: int
    before: Total | None
    files: Sequence[KeptFile]
    """All partials."""

    @property
    def name(self) -> str:
        return f"{self.program.name}_total"

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """Those of the file."""
        own = [(name, kind) for name, kind in self.program.columns if name in self._keys]
        sums = [(name, kind) for name, kind in self.program.columns if name in self._sums]
        return (*own, (_TIMES, BIGINT), *sums, *((_times(name), BIGINT) for name in self._sums))

    def inputs(self, scan: str) -> dict[str, Input]:
        """What the views read, for a query that calls the partials `scan`."""
        kept = [self.before.file] if self.before is not None and self.before.file is not None else []
        return {
            f"{scan}_all": as_input(self.files, self.program.columns),
            f"{self.name}_before": as_input(kept, self.columns),
        }

    def views(self, scan: str, columns: Sequence[str]) -> list[tuple[str, str]]:
        """The groups, and `scan`: the same as partials, as if all were of the first basic window."""
        first, _ = self.window.slots_of(self.number)
        slot = self.program.slot_key
        listed = ", ".join(f'CAST({first} AS BIGINT) AS "{c}"' if c == slot else f'"{c}"' for c in columns)
        every = ", ".join(f'"{name}"' for name, _ in self.program.columns)
        return [
            (self.program.merge_scan, f'SELECT {every} FROM "{scan}_all" WHERE {self._moving()}'),
            (f"{self.name}_moved", self.program.merge),
            (self.name, self._text()),
            (scan, f'SELECT {listed or "1"} FROM "{self.name}"'),
        ]

    def piece(self, scan: str, folder: str) -> Piece:
        """What writes it."""
        views = tuple(self.views(scan, ())[:-1])
        output = WriteParquet(folder, self.columns, compressed=False)
        return Piece(f'SELECT * FROM "{self.name}"', self.inputs(scan), views, output, shared=(self.name,), along=True)

    @property
    def _keys(self) -> list[str]:
        return [key for key in self.program.keys if key != self.program.slot_key]

    @property
    def _sums(self) -> list[str]:
        return [name for name, _ in self.program.columns if name not in self.program.keys]

    def _moving(self) -> str:
        """The condition on partials that come or leave."""
        first, last = self.window.slots_of(self.number)
        slot = f'"{self.program.slot_key}"'
        if self.before is None:
            return f"{slot} >= {first} AND {slot} < {last}"
        old_first, old_last = self.window.slots_of(self.before.number)
        return f"({slot} >= {old_first} AND {slot} < {first}) OR ({slot} >= {old_last} AND {slot} < {last})"

    def _text(self) -> str:
        since = self.window.slots_of(self.before.number)[1] if self.before is not None else 0
        comes = f'"{self.program.slot_key}" >= {since}'
        keys = ", ".join(f'"{key}"' for key in self._keys)
        kinds = dict(self.program.columns)
        before = [f'"{name}"' for name, _ in self.columns]
        moved = [f'"{key}"' for key in self._keys] + [f'CASE WHEN {comes} THEN 1 ELSE -1 END AS "{_TIMES}"']
        moved += [f'CASE WHEN {comes} THEN "{name}" ELSE -"{name}" END AS "{name}"' for name in self._sums]
        moved += [
            f'CASE WHEN "{name}" IS NULL THEN 0 WHEN {comes} THEN 1 ELSE -1 END AS "{_times(name)}"'
            for name in self._sums
        ]
        made = [f'"{key}"' for key in self._keys] + [f'sum("{_TIMES}") AS "{_TIMES}"']
        made += [
            f'CASE WHEN sum("{_times(name)}") > 0 THEN CAST(sum("{name}") AS {kernel_type(kinds[name], "duckdb")}) END '
            f'AS "{name}"'
            for name in self._sums
        ]
        made += [f'sum("{_times(name)}") AS "{_times(name)}"' for name in self._sums]
        kept = f'SELECT {", ".join(before)} FROM "{self.name}_before"'
        both = f'{kept} UNION ALL SELECT {", ".join(moved)} FROM "{self.name}_moved"'
        by = f" GROUP BY {keys}" if keys else ""
        return f'SELECT {", ".join(made)} FROM ({both}) AS added{by} HAVING sum("{_TIMES}") > 0'


def new_total(
    program: Program, window: Window, number: int, before: Total | None, files: Sequence[KeptFile], merged: int
) -> NewTotal | None:
    """The total of a window that would else be merged from so many basic windows and sums of them; None: there is none,
    or it costs more."""
    first, _ = window.slots_of(number)
    if not program.adds or program.kernel != "duckdb" or program.keeps_rows or program.slot_key is None:
        return None
    if window.size is None or 2 * window.slide > window.size or first < 0:
        return None
    rows_of_each = sum(file.rows for file in files) / max(window.basic_windows or 1, 1)
    if rows_of_each * merged < FROM_ROWS:
        return None
    return NewTotal(program, window, number, _usable(window, number, before), files)


def _usable(window: Window, number: int, before: Total | None) -> Total | None:
    """A total of a window that has most of this one."""
    if before is None or before.number >= number:
        return None
    moves = (number - before.number) * window.slide
    return before if window.slots_of(before.number)[0] >= 0 and 2 * moves <= (window.size or 0) else None


def _times(name: str) -> str:
    return f"{_TIMES} {name}"
