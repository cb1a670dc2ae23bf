"""A bound query as a tree, and what its result columns are called: by the user, and in the kernels' text.

The user's names may repeat; the kernels' are unique in any letter case, since DuckDB folds them.

    SELECT a, A, "A" …      the user's a, a, A; the kernels' a, a_1, A_2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from midstream.errors import SqlSyntaxError
from midstream.plan.context import Binding
from midstream.plan.nodes import bare, derived, name_of, named, place_of
from midstream.plan.scopes import SourceColumn


@dataclass(frozen=True)
class BoundTree:
    """A bound query and what the user calls its columns."""

    tree: exp.Expression
    names: tuple[str, ...]


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names for the kernels' text: as the user's, but no two alike in any letter case, and none empty."""
    taken: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 1
        while candidate.lower() in taken:
            candidate, number = f"{name}_{number}", number + 1
        taken.add(candidate.lower())
        unique.append(candidate)
    return tuple(unique)


def name_outputs(bound: BoundTree, names: Sequence[str]) -> BoundTree:
    """The same query with its result columns called so in the kernels' text."""
    _name_outputs(bound.tree, names)
    return bound


def _name_outputs(tree: exp.Expression, names: Sequence[str]) -> None:
    if isinstance(tree, exp.Select):
        tree.set("expressions", [named(node, name) for node, name in zip(tree.expressions, names, strict=True)])
    elif isinstance(tree, exp.SetOperation):
        _name_outputs(tree.this, names)
        _name_outputs(tree.expression, names)
    elif isinstance(tree, exp.Subquery):
        _name_outputs(tree.this, names)


def source_columns(names: Sequence[str]) -> tuple[SourceColumn, ...]:
    return tuple(SourceColumn(name, kernel) for name, kernel in zip(names, unique_names(names), strict=True))


def as_derived(binding: Binding, bound: BoundTree, wanted: str) -> tuple[exp.Subquery, str, tuple[SourceColumn, ...]]:
    """The query as a FROM item, its alias in the kernels' text, and its columns."""
    columns = source_columns(bound.names)
    alias = binding.fresh_alias(wanted)
    tree = name_outputs(bound, [c.kernel_name for c in columns]).tree
    return derived(tree, alias), alias, columns


def rename_columns(names: Sequence[str], alias: exp.Expression | None, relation: str) -> tuple[str, ...]:
    """The names after `AS relation (a, b, …)`, which may rename the first columns only."""
    given = alias.args.get("columns") or [] if alias is not None else []
    if len(given) > len(names):
        raise SqlSyntaxError(
            f'table "{relation}" has {len(names)} columns available but {len(given)} columns specified',
            sqlstate="42P10",
            position=place_of(given[0]),
        )
    renamed = [name_of(c.this if isinstance(c, exp.ColumnDef) else c) for c in given]
    return (*renamed, *names[len(given) :])


def projections(tree: exp.Expression) -> list[exp.Expression]:
    """The expressions of a query's select list; a set operation's are those of its first query."""
    while not isinstance(tree, exp.Select):
        tree = tree.this
    return [bare(node) for node in tree.expressions]


def with_names(bound: BoundTree, names: Sequence[str]) -> BoundTree:
    return replace(bound, names=tuple(names))
