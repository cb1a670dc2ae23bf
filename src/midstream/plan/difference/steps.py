"""What a difference is made of, as EXPLAIN shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


class NotSeparable(Exception):
    """The changes of several commits cannot be told apart after they have been computed together."""


@dataclass(frozen=True)
class Step:
    """One term; `empty`: it was proved to give nothing; `keyed`: groups that changed are computed before and after;
    `recompute`: all of it is."""

    kind: Literal["term", "empty", "keyed", "recompute"]
    text: str
    reason: str = ""
