"""Conditions on the moment of reading: which groups no later read can ask for, and which keys they fix."""

from __future__ import annotations

from sqlglot import exp

from midstream.plan.cut.build import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
    Node,
    call,
    equated,
)
from midstream.plan.cut.rewriting import STATE_ALIAS, unconverted
from midstream.plan.moments import has_moment
from midstream.plan.typing.nodes import Call

_MONOTONE: tuple[str, ...] = (
    "-(timestamptz, interval)",
    "-(timestamp, interval)",
    "+(timestamptz, interval)",
    "+(timestamp, interval)",
)
_MONOTONE += ("-(date, int)", "+(date, int)", "-(date, interval)", "+(date, interval)")
_MIRRORED = {EQUAL: EQUAL, GREATER: LESS, AT_LEAST: AT_MOST, LESS: GREATER, AT_MOST: AT_LEAST}


def dead_of(node: Node) -> Node | None:
    """For `key = moment`, `key > moment` and `key >= moment`: that the key is before the moment."""
    if not isinstance(node, Call) or str(node.this) not in _MIRRORED or len(node.expressions) != 2:
        return None
    signature = str(node.this)
    key, moment = node.expressions
    if has_moment(key):
        key, moment, signature = moment, key, _MIRRORED[signature]
    if has_moment(key) or not _is_moving_on(moment) or not _is_hidden(key):
        return None
    if signature in (EQUAL, AT_LEAST):
        return call(LESS, key.copy(), moment.copy())
    return call(AT_MOST, key.copy(), moment.copy()) if signature == GREATER else None


def _is_hidden(node: Node) -> bool:
    node = unconverted(node)
    return isinstance(node, exp.Column) and node.table == STATE_ALIAS


def _is_moving_on(node: Node) -> bool:
    """Whether an expression of a moment never goes back as time passes."""
    node = unconverted(node)
    if isinstance(node, exp.Literal):
        return has_moment(node)
    is_shifted = (
        isinstance(node, Call)
        and str(node.this) in _MONOTONE
        and not any(has_moment(part) for part in node.expressions[1:])
    )
    return is_shifted and _is_moving_on(node.expressions[0])


def fixed_key(node: Node) -> str | None:
    """The hidden key that a late condition gives one value: key = moment."""
    for key, other in equated(node):
        if isinstance(key, exp.Column) and key.table == STATE_ALIAS and other.find(exp.Column) is None:
            return key.name
    return None
