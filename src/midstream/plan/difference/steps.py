"""What a difference is made of, as EXPLAIN shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from midstream.relations.table import Table


class NotSeparable(Exception):
    """The changes of several commits cannot be told apart after they have been computed together."""


Units = Literal["none", "both", "near"]
"""Whether rows that came, or went, with the row that they refer to are joined with this change alone: not, with a
branch for those that refer to another row, or without one, since it is known that there are none."""


@dataclass(frozen=True)
class Unit:
    """Rows that came to a child, which refer to rows that came to a parent, by some columns of each; or that went."""

    child: Table
    columns: tuple[str, ...]
    parent: Table
    referred: tuple[str, ...]
    went: bool = False


@dataclass(frozen=True)
class Step:
    """One term; `empty`: it was proved to give nothing; `groups`: sums that take rows back; `frames`: rows that came
    behind others; `keyed`: what a change touches is computed before and after; `recompute`: all of it is."""

    kind: Literal["term", "empty", "groups", "frames", "keyed", "recompute"]
    text: str
    reason: str = ""
