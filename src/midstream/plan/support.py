"""What the grammar reads and binding does not take yet: refused by name, never dropped in silence."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from midstream.errors import Unsupported
from midstream.plan.nodes import place_of

_WORDS = {
    "locks": "FOR UPDATE and FOR SHARE",
    "into": "SELECT INTO",
    "qualify": "QUALIFY",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "match": "MATCH_RECOGNIZE",
    "match_recognize": "MATCH_RECOGNIZE",
    "laterals": "LATERAL VIEW",
    "changes": "CHANGES",
    "returning": "RETURNING",
    "conflict": "ON CONFLICT",
    "rows_from": "ROWS FROM",
    "only": "ONLY",
    "by_name": "BY NAME",
    "on": "ON",
}
_HINTS = {
    "into": "Use CREATE TABLE … AS.",
    "qualify": "Filter on the window function in a query around this one.",
    "returning": "Run a SELECT after the statement.",
    "conflict": "Use MERGE.",
}


def refuse_arguments(node: exp.Expression, known: Collection[str]) -> None:
    """Raises for each part of a node that its binding does not look at."""
    for key, value in node.args.items():
        if key not in known and value not in (None, False, [], ""):
            refuse_part(key, value, node)


def refuse_part(key: str, value: object, node: exp.Expression) -> None:
    word = _WORDS.get(key, key.replace("_", " ").strip().upper())
    inner = value[0] if isinstance(value, list) else value
    place = place_of(inner) if isinstance(inner, exp.Expression) else None
    raise Unsupported(f"{word} is not supported", hint=_HINTS.get(key), position=place or place_of(node))


def not_yet(what: str, node: exp.Expression, hint: str | None = None) -> Unsupported:
    """An error for what Midstream's language has and this version does not run."""
    return Unsupported(
        f"{what} cannot be used yet",
        detail="Midstream reads this part of its language, but does not run it in this version.",
        hint=hint or "Query tables and ordinary views.",
        position=place_of(node),
    )
