"""What a difference is made of, as EXPLAIN shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


class NotSeparable(Exception):
    """The changes of several commits cannot be told apart after they have been computed together."""


@dataclass(frozen=True)
class Step:
    """One term; `empty`: it was proved to give nothing; `groups`: sums that take rows back; `keyed`: what a
    change touches is computed before and after; `recompute`: all of it is."""

    kind: Literal["term", "empty", "groups", "keyed", "recompute"]
    text: str
    reason: str = ""
