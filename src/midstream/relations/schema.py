"""What binding asks of the catalog: which relation a name stands for, at one SCN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from midstream.relations.table import Table
from midstream.relations.view import View

Relation = Table | View


class Schema(Protocol):
    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        """The relation of that name now, or as it was at an SCN."""
        ...

    def names(self) -> Iterable[str]:
        """All names, for did-you-mean."""
        ...
