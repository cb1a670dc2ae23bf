"""Basic windows in levels: what a slide merges grows with the logarithm of how many basic windows a window has.

Sixteen basic windows in a row are summed up as one row for each group, sixteen of these as one again. A window is then
made of a few dozen of them, the largest that lie inside it. They are rows of the state like all others, under numbers
below 0, so that they are merged, kept and forgotten with the rest.

    >>> pieces(0, 300, {1: 18, 2: 1})
    [-11, -130, -138, 288, 289, 290, 291, 292, 293, 294, 295, 296, 297, 298, 299]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from midstream.maintenance.engine import Piece, WriteParquet
from midstream.plan.cut import Program
from midstream.relations.window import Window
from midstream.runtime.states import State, as_input

WIDTH = 16
_LEVELS = 8
"""There are fewer levels than that: they are told apart by the remainder."""
_WORTHWHILE = 4
"""A level is made if a window has at least so many of its rows."""


def levels_of(window: Window) -> range:
    """The levels that help with a window."""
    count, top = window.basic_windows or 0, 0
    while window.slide <= (window.size or 0) and WIDTH ** (top + 1) * _WORTHWHILE <= count:
        top += 1
    return range(1, top + 1)


def number_of(level: int, place: int) -> int:
    """What a sum of basic windows is called among them."""
    return -(place * _LEVELS + level) - 1


def pieces(first: int, last: int, summed: Mapping[int, int]) -> list[int]:
    """The basic windows from `first` to before `last`, with sums in place of many. `summed` says for each level how
    far it has come."""
    found: list[int] = []
    at = first
    while at < last:
        level = max(
            (
                level
                for level, done in summed.items()
                if at % WIDTH**level == 0 and at + WIDTH**level <= last and at // WIDTH**level < done
            ),
            default=0,
        )
        found.append(number_of(level, at // WIDTH**level) if level else at)
        at += WIDTH**level
    return found


def dead_slots(column: str, first: int) -> str:
    """The condition on rows that are behind the first basic window that anybody needs, whatever their level."""
    value = f"(-1 - {column})"
    ends = " ".join(
        f"WHEN {value} % {_LEVELS} = {level} THEN (({value} - {level}) / {_LEVELS} + 1) * {WIDTH**level}"
        for level in range(1, _LEVELS)
    )
    return f"CASE WHEN {column} >= 0 THEN {column} < {first} ELSE (CASE {ends} END) <= {first} END"


@dataclass(frozen=True)
class Sum:
    """Sums of one level that can be made now, from one place to before another."""

    level: int
    first: int
    last: int

    def piece(self, state: State) -> Piece:
        program: Program = state.program
        slot, width = f'"{program.slot_key}"', WIDTH**self.level
        columns = ", ".join(
            f"CAST(-(({slot} // {width}) * {_LEVELS} + {self.level}) - 1 AS BIGINT) AS {slot}"
            if name == program.slot_key
            else f'"{name}"'
            for name, _ in program.columns
        )
        where = f"{slot} >= {self.first * width} AND {slot} < {self.last * width}"
        view = f'SELECT {columns} FROM "{program.merge_scan}_all" WHERE {where}'
        inputs = {f"{program.merge_scan}_all": as_input(state.files, program.columns)}
        output = WriteParquet(state.folder, program.columns, compressed=False)
        return Piece(program.merge, inputs, ((program.merge_scan, view),), output)


def sums_due(state: State, window: Window, complete: int, needed: int) -> list[Sum]:
    """What can be summed up when basic windows before `complete` get no more rows and those from `needed` on are
    still there."""
    low = state.clock.low if state.clock is not None else None
    program = state.program
    if program.slot_key is None or program.keeps_rows or program.kernel != "duckdb" or needed < 0 or (low or 0) < 0:
        return []
    found = []
    for level in levels_of(window):
        width = WIDTH**level
        first, last = max(state.summed.get(level, 0), -(-needed // width)), complete // width
        if first < last:
            found.append(Sum(level, first, last))
    return found


def scope(first: int, last: int, state_summed: Sequence[Mapping[int, int]], levels: Sequence[int]) -> list[int] | None:
    """What a window reads of a state, if sums help: those that all of its streams have."""
    if first < 0 or not levels:
        return None
    common = {
        level: min(summed.get(level, 0) for summed in state_summed)
        for level in levels
        if all(summed.get(level, 0) for summed in state_summed)
    }
    return pieces(first, last, common) if common else None
