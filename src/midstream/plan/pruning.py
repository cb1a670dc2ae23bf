"""Drops result columns of derived tables and WITH queries that nothing uses, so that scans read only what counts.

    SELECT a FROM (SELECT a, b FROM t) AS s      SELECT a FROM (SELECT a FROM t) AS s

It works on bound trees: there every source has an alias of its own, so a column's use is its alias and name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from sqlglot import exp

from midstream.plan.calls import aggregates_in
from midstream.plan.nodes import name_of, named
from midstream.plan.typing.nodes import typed
from midstream.types import INT

Uses = dict[str, set[str]]


def prune(tree: exp.Expression) -> None:
    """Takes away what is not used, outermost first, until nothing more falls away."""
    for exists in tree.find_all(exp.Exists):
        _prune_exists(exists)
    while _prune_once(tree):
        pass


def column_uses(tree: exp.Expression) -> Uses:
    uses: Uses = defaultdict(set)
    for column in tree.find_all(exp.Column):
        uses[column.table].add(column.name)
    return uses


def _prune_once(tree: exp.Expression) -> bool:
    uses, changed = column_uses(tree), False
    for query, used in _inner_queries(tree, uses):
        changed |= _keep_only(query, used)
    return changed


def _inner_queries(tree: exp.Expression, uses: Uses) -> Iterator[tuple[exp.Expression, set[str]]]:
    """Each query that others read by name, and the columns that they use of it."""
    readers: dict[str, list[str]] = defaultdict(list)
    for table in tree.find_all(exp.Table):
        readers[table.name].append(table.alias)
    for node in tree.find_all(exp.Subquery, exp.Lateral, exp.CTE):
        alias = node.args.get("alias")
        if alias is None:
            continue
        name = name_of(alias.this)
        if isinstance(node, exp.CTE):
            yield node.this, set().union(*(uses[reader] for reader in readers[name]))
        else:
            yield (node.this.this if isinstance(node, exp.Lateral) else node.this), uses[name]


def _keep_only(query: exp.Expression, used: set[str]) -> bool:
    branches = _branches(query)
    if branches is None:
        return False
    names = [output.alias for output in branches[0].expressions]
    kept = [i for i, name in enumerate(names) if name in used]
    if len(kept) == len(names) or any(_is_one_row(branch) for branch in branches) or _is_bare_one(branches[0]):
        return False
    for branch in branches:
        _keep_outputs(branch, kept)
    return True


def _branches(query: exp.Expression) -> list[exp.Select] | None:
    """The SELECTs whose rows make up the query, if each can lose columns: no DISTINCT, no UNION without ALL."""
    if isinstance(query, exp.Select):
        return None if query.args.get("distinct") else [query]
    if isinstance(query, exp.Subquery) and not query.alias:
        return _branches(query.this)
    if isinstance(query, exp.Union) and not query.args.get("distinct"):
        left, right = _branches(query.this), _branches(query.expression)
        return left + right if left is not None and right is not None else None
    return None


def _is_one_row(select: exp.Select) -> bool:
    """An aggregate without GROUP BY: it gives one row because of what it selects."""
    if select.args.get("group") or select.args.get("having"):
        return False
    return any(next(aggregates_in(output), None) is not None for output in select.expressions)


def _is_bare_one(select: exp.Select) -> bool:
    return len(select.expressions) == 1 and isinstance(select.expressions[0].this, exp.Literal)


def _keep_outputs(select: exp.Select, kept: Collection[int]) -> None:
    outputs = [output for i, output in enumerate(select.expressions) if i in kept]
    select.set("expressions", outputs or [named(one(), select.expressions[0].alias or "one")])


def one() -> exp.Expression:
    return typed(exp.Literal.number("1"), INT)


def _prune_exists(exists: exp.Exists) -> None:
    query = exists.this.this if isinstance(exists.this, exp.Subquery) else exists.this
    if isinstance(query, exp.Select) and not query.args.get("distinct") and not _is_one_row(query):
        query.set("expressions", [named(one(), "one")])
