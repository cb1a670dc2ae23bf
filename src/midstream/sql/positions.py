"""Where in the user's text a node of a tree was written.

The reader notes (line, column), both from 1, on each node that it makes, counted in the whole text that was
handed to `parse`: nothing is to be added for a statement that begins further down. Copies of a node keep it.

    >>> from midstream.sql import parse
    >>> [select] = parse("SELECT a,\\n  b + 1 FROM t")
    >>> [position_of(column) for column in select.query.tree().expressions]
    [(1, 8), (2, 3)]
"""

from __future__ import annotations

from sqlglot import exp

from midstream.errors import Position

_KEY = "position"
_OPERATOR_KEY = "operator_position"


def mark(node: exp.Expression, position: Position) -> None:
    """Notes where a node begins, unless that is known already."""
    node.meta.setdefault(_KEY, position)


def mark_operator(node: exp.Expression, position: Position) -> None:
    """Notes where the operator of a binary node stands."""
    node.meta[_OPERATOR_KEY] = position


def position_of(node: exp.Expression) -> Position | None:
    """Where the node's first character stands; for a node that was made later, that of its first known part."""
    known = [found for part in node.walk() if (found := part.meta.get(_KEY)) is not None] if not _own(node) else []
    return _own(node) or min(known, default=None)


def operator_position_of(node: exp.Expression) -> Position | None:
    """Where a binary node's operator stands, which is where PostgreSQL points when no operator fits."""
    found = node.meta.get(_OPERATOR_KEY)
    return found if isinstance(found, tuple) else position_of(node)


def _own(node: exp.Expression) -> Position | None:
    found = node.meta.get(_KEY)
    return found if isinstance(found, tuple) else None
