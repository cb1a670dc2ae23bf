"""What binding asks of the catalog: which relation a name stands for, at one SCN."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from midstream.relations.query import ContinuousQuery, MaterializedView, Queue, Trigger
from midstream.relations.stream import Stream
from midstream.relations.table import Table
from midstream.relations.view import View

Relation = Table | Stream | View | ContinuousQuery | Queue | Trigger
RowHolder = Table | Stream
"""What rows can be inserted into."""
Reader = View | ContinuousQuery | MaterializedView
"""What has a query, and reads other relations by it."""


def has_folder(relation: Relation) -> bool:
    """Whether a relation's rows are kept as a Delta table."""
    return isinstance(relation, Table) or (isinstance(relation, Stream) and relation.history is not None)


class Schema(Protocol):
    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        """The relation of that name now, or as it was at an SCN."""
        ...

    def names(self) -> Iterable[str]:
        """All names, for did-you-mean."""
        ...
