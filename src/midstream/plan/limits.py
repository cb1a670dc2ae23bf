"""What a kernel cannot run for the shape of a query, whatever functions it uses.

Spark resolves a correlated column only in the query directly around, and its IN of a query gives false where
SQL gives NULL, which shows everywhere but in a condition. It takes a NULL inside an array for the smallest
element, PostgreSQL for the largest. It takes no correlated scalar query beside aggregates or in ON, and in a select
list beside UNION ALL none that meets the rows around by anything but equalities. DuckDB folds the case of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from midstream.kernels import Kernel
from midstream.plan.nodes import conjuncts
from midstream.plan.typing.nodes import AggregateCall, Call, has_type, type_of

_FROM = (exp.From, exp.Join)
_QUERY_PARTS = (exp.Subquery, exp.SetOperation, exp.Paren)


def shape_refusal(
    tree: exp.Expression, kernel: Kernel, columns: Sequence[Sequence[str]], *, reads_changes: bool = False
) -> str | None:
    """Why a kernel cannot run a bound tree over scans with these columns; None: its shape is fine.

    `reads_changes`: a scan is a change log, which is a UNION ALL of what came and what went."""
    if kernel == "spark":
        far = _reaches_too_far(tree) or _in_outside_condition(tree) or _orders_arrays(tree)
        return far or _misplaced_scalar(tree) or _scalar_beside_union(tree, reads_changes)
    return next(filter(None, map(_same_but_for_case, columns)), None)


def _same_but_for_case(columns: Sequence[str]) -> str | None:
    seen: dict[str, str] = {}
    for column in columns:
        other = seen.setdefault(column.lower(), column)
        if other != column:
            return f'DuckDB cannot tell the columns "{other}" and "{column}" apart'
    return None


# --- arrays --------------------------------------------------------------------------------------

_ORDERING = ("<(", ">(", "<=(", ">=(", "greatest(", "least(")


def _orders_arrays(tree: exp.Expression) -> str | None:
    sorted_by = [node.this for node in tree.find_all(exp.Ordered)]
    compared = [call.expressions[0] for call in tree.find_all(Call) if str(call.this).startswith(_ORDERING)]
    if any(has_type(node) and type_of(node).element is not None for node in [*sorted_by, *compared]):
        return "Spark orders arrays with NULL elements in another way"
    return None


# --- correlation ---------------------------------------------------------------------------------


def _reaches_too_far(tree: exp.Expression) -> str | None:
    owners = set(_owned_aliases(tree))
    for column in tree.find_all(exp.Column):
        if _levels_out(column, owners) > 1:
            return "Spark sees only the query directly around a subquery, not those further out"
    return None


def _owned_aliases(tree: exp.Expression) -> Iterator[tuple[str, int]]:
    """Two queries may have sources of the same alias: a part that stands in both of them, say."""
    return ((alias, id(owner)) for alias, owner in _source_owners(tree))


def _source_owners(tree: exp.Expression) -> Iterator[tuple[str, exp.Expr]]:
    """Each source's alias, and the SELECT whose FROM clause has it."""
    for node in tree.find_all(exp.Table, exp.Subquery, exp.Values, exp.Unnest, exp.Lateral):
        select = node.find_ancestor(exp.Select)
        if node.alias and select is not None:
            yield node.alias, select


def _levels_out(column: exp.Column, owners: set[tuple[str, int]]) -> int:
    """How many subqueries lie between a column and the nearest query with its source; derived tables do not count."""
    levels, query = 0, column.find_ancestor(exp.Select)
    while query is not None and (column.table, id(query)) not in owners:
        levels += not _is_derived(query)
        query = query.find_ancestor(exp.Select)
    return levels if query is not None else 0


def _is_derived(query: exp.Expr) -> bool:
    holder = query.parent
    while isinstance(holder, _QUERY_PARTS):
        holder = holder.parent
    return isinstance(holder, _FROM)


# --- scalar queries ------------------------------------------------------------------------------

_EQUAL = ("=(", "is not distinct from(")
_NO_SCALARS = (*_FROM, exp.Lateral, exp.Exists, exp.In, exp.CTE)


def _misplaced_scalar(tree: exp.Expression) -> str | None:
    for query in _correlated_scalars(tree):
        around = query.find_ancestor(exp.Select, AggregateCall)
        is_grouped = isinstance(around, exp.Select) and around.args.get("group") is not None
        if is_grouped and _is_listed(query):
            return "Spark takes no correlated scalar query beside aggregates"
        if isinstance(query.find_ancestor(exp.Select, exp.Join), exp.Join):
            return "Spark takes no correlated scalar query in the condition of a join"
    return None


def _scalar_beside_union(tree: exp.Expression, reads_changes: bool) -> str | None:
    """Spark's optimizer loses columns of such a query, and fails with NoSuchElementException or worse."""
    if not reads_changes and tree.find(exp.Union) is None:
        return None
    if any(_is_listed(query) and _meets_by_more(query) for query in _correlated_scalars(tree)):
        return "Spark cannot plan a scalar query that meets the rows around it by more than equalities beside UNION ALL"
    return None


def _is_listed(query: exp.Select) -> bool:
    """Whether a query stands in the select list of the one around it, not in a condition."""
    return isinstance(query.find_ancestor(exp.Having, exp.Group, exp.Where, exp.Join, exp.Select), exp.Select)


def _correlated_scalars(tree: exp.Expression) -> Iterator[exp.Select]:
    for query in tree.find_all(exp.Select):
        holder = query.parent
        while isinstance(holder, _QUERY_PARTS):
            holder = holder.parent
        if holder is not None and not isinstance(holder, _NO_SCALARS) and _reaches_out(query, query):
            yield query


def _meets_by_more(query: exp.Select) -> bool:
    where = query.args.get("where")
    conditions = conjuncts(where.this if where is not None else None)
    return any(_reaches_out(part, query) and not _is_equality(part) for part in conditions)


def _is_equality(node: exp.Expr) -> bool:
    return isinstance(node, exp.EQ | exp.NullSafeEQ) or (isinstance(node, Call) and str(node.this).startswith(_EQUAL))


def _reaches_out(node: exp.Expr, query: exp.Select) -> bool:
    """Whether a part of a query has columns of those around it."""
    own = {alias for alias, _ in _source_owners(query)}
    return any(column.table and column.table not in own for column in node.find_all(exp.Column))


# --- IN ------------------------------------------------------------------------------------------


def _in_outside_condition(tree: exp.Expression) -> str | None:
    for node in tree.find_all(exp.In):
        if node.args.get("query") is not None and not _is_condition(node):
            return "Spark's IN of a query is false where it should be NULL"
    return None


def _is_condition(node: exp.Expr) -> bool:
    """Whether NULL and false make no difference: under AND, OR and at most one NOT, straight below WHERE or ON.
    Spark's join for NOT IN knows NULLs, but only as a filter of its own."""
    negated = isinstance(node.parent, exp.Not)
    parent = node.parent.parent if negated and node.parent is not None else node.parent
    while isinstance(parent, exp.Paren | exp.And) or (isinstance(parent, exp.Or) and not negated):
        parent = parent.parent
    return isinstance(parent, exp.Where | exp.Having) or (isinstance(parent, exp.Join) and not negated)
