"""What is kept beside a query, so that a change costs what it touches: the paper's backing aggregate, and its buffer.

Of groups, sums are kept (`algebraic`). Sums add up, so they may lie in any number of parts: a change is one part more,
and parts are merged now and then. Of frames that move, the rows that they still reach are kept (`moving`), as one part;
of those that begin at the first row, sums of partitions (`running`), as if these were groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from midstream.plan.bound import BoundQuery, Output, kernel_names, seal
from midstream.plan.context import BindContext, Binding
from midstream.plan.cut.build import digest
from midstream.plan.cut.rows import identity
from midstream.plan.cut.streams import is_grouping
from midstream.plan.difference.algebraic import Groups
from midstream.plan.difference.images import Changed, Images
from midstream.plan.difference.moving import Moving
from midstream.plan.difference.query import bound_tree
from midstream.plan.difference.running import Running
from midstream.plan.difference.terms import Terms, backed_part, group_elements, windows_of
from midstream.plan.nodes import bare, named
from midstream.plan.typing.nodes import type_of, typed
from midstream.relations.schema import Schema
from midstream.sql.statements import Sql
from midstream.types import Type

Node = exp.Expression
What = Literal["groups", "partitions", "rows"]


@dataclass(frozen=True)
class BackingPlan:
    """What is kept of a query, and what a change of some of its tables does to it."""

    what: What
    """Sums of groups, sums of partitions, or rows."""
    identity: str
    """What it is kept of: what was kept of another query, or of tables that were replaced, is not this."""
    columns: tuple[tuple[str, Type], ...]
    whole: BoundQuery
    """All of it, from the tables."""
    fold: BoundQuery | None
    """What the change adds, together with the newest part; None: nothing."""
    counts: str | None
    """Where they are sums, the column that says how many rows a group has."""


def bind_backing(
    query: Sql, schema: Schema, context: BindContext, changed: Mapping[int, Changed], *, same_constraints: bool
) -> BackingPlan | None:
    """None: nothing can be kept of it."""
    binding, tree, _ = bound_tree(query, schema, context)
    found = _part(Terms(Images(binding, changed, same_constraints)), tree)
    if found is None:
        return None
    what, part = found
    everything = part.whole()
    known = digest(identity(binding, everything) + str(part.stored))
    binding_of_fold, tree, _ = bound_tree(query, schema, context)
    terms = Terms(Images(binding_of_fold, changed, same_constraints))
    again = _part(terms, tree)
    assert again is not None
    folded = again[1].fold()
    return BackingPlan(
        what,
        known,
        part.stored,
        _sealed(binding, everything),
        _sealed(binding_of_fold, terms.with_shared(folded)) if folded is not None else None,
        part.stored[len(part.keys)][0] if isinstance(part, Groups) else None,
    )


def _part(terms: Terms, tree: Node) -> tuple[What, Groups | Moving] | None:
    query = backed_part(tree)
    if query is None:
        return None
    query = query.copy()
    query.set("order", None)
    if not is_grouping(query):
        moving = Moving.of(terms, query)
        if moving is not None:
            return "rows", moving
        running = Running.of(terms, query)
        return ("partitions", running.partitions) if running is not None else None
    elements = group_elements(query)
    if query.args.get("distinct") or windows_of(query) or elements is None:
        return None
    groups = Groups.of(terms, query, elements)
    return ("groups", groups) if groups is not None else None


def _sealed(binding: Binding, tree: exp.Select) -> BoundQuery:
    """With columns that are called c0, c1, …"""
    names = kernel_names(len(tree.expressions))
    outputs = [Output(name, type_of(node)) for name, node in zip(names, tree.expressions, strict=True)]
    renamed = [
        typed(named(bare(node), name), type_of(node)) for name, node in zip(names, tree.expressions, strict=True)
    ]
    tree.set("expressions", renamed)
    return seal(binding, tree, outputs)
