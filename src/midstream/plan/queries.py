"""Binding of whole queries: SELECT, set operations, VALUES, WITH.

What comes out has every column qualified by a source of its query or of one around it, no stars, no aliases
or numbers in GROUP BY and ORDER BY, and only quoted names. A query that sorts by something other than its
sources' plain columns is wrapped, so that each key is computed once and the sorting stays outermost:

    SELECT a, count(*) FROM t GROUP BY a ORDER BY 2
    SELECT "q"."a", "q"."count" FROM (SELECT "t"."a" AS "a", COUNT(*) AS "count" … GROUP BY "t"."a") AS "q"
    ORDER BY "q"."count"
"""

from __future__ import annotations

from sqlglot import exp

from midstream.errors import DuplicateName, SqlSyntaxError, Unsupported
from midstream.plan import selects
from midstream.plan.context import Binding
from midstream.plan.nodes import child, column, is_query, name_of, place_of
from midstream.plan.ordering import limit_and_offset, resolve_output_keys
from midstream.plan.scopes import Cte, Scope
from midstream.plan.support import refuse_arguments
from midstream.plan.trees import BoundTree, as_derived, name_outputs, rename_columns, source_columns

MODIFIERS = ("order", "limit", "offset")


def bind_query_tree(binding: Binding, query: exp.Expression, outer: Scope) -> BoundTree:
    """A query over its own sources and those of `outer`. The node given is used up."""
    with_ = query.args.get("with_")
    query.set("with_", None)
    scope, ctes = bind_with(binding, with_, outer)
    bound = _bind_body(binding, query, scope)
    if ctes:
        bound = BoundTree(_attach_ctes(bound.tree, ctes), bound.names)
    return bound


def _bind_body(binding: Binding, query: exp.Expression, scope: Scope) -> BoundTree:
    if isinstance(query, exp.Select):
        return selects.bind_select(binding, query, scope)
    if isinstance(query, exp.SetOperation):
        return _bind_set_operation(binding, query, scope)
    if isinstance(query, exp.Values):
        return selects.bind_select(binding, _select_from_values(query), scope)
    if isinstance(query, exp.Subquery) and is_query(query.this):
        return _bind_parenthesized(binding, query, scope)
    if isinstance(query, exp.Table):
        return selects.bind_select(binding, exp.Select(expressions=[exp.Star()], from_=exp.From(this=query)), scope)
    raise Unsupported("this kind of query is not supported", position=place_of(query))


def _select_from_values(values: exp.Values) -> exp.Select:
    modifiers = {key: values.args.get(key) for key in MODIFIERS}
    for key in MODIFIERS:
        values.set(key, None)
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=values), **modifiers)


def _bind_parenthesized(binding: Binding, query: exp.Subquery, scope: Scope) -> BoundTree:
    """ORDER BY and LIMIT behind the parentheses belong to the query in them, as in PostgreSQL."""
    refuse_arguments(query, ("this", *MODIFIERS, "alias"))
    inner = child(query)
    for key in MODIFIERS:
        clause = query.args.get(key)
        if clause is not None and inner.args.get(key) is not None:
            word = "ORDER BY" if key == "order" else key.upper()
            raise SqlSyntaxError(f"multiple {word} clauses not allowed", position=place_of(clause))
        if clause is not None:
            inner.set(key, clause)
    return bind_query_tree(binding, inner, scope)


def _has_modifiers(query: exp.Expression) -> bool:
    return any(query.args.get(key) for key in MODIFIERS)


# --- set operations ------------------------------------------------------------------------------


def _bind_set_operation(binding: Binding, query: exp.SetOperation, scope: Scope) -> BoundTree:
    refuse_arguments(query, ("this", "expression", "distinct", *MODIFIERS))
    # A chain of UNION ALL leans to the left and can be thousands long: walk down it, do not recurse.
    chain: list[exp.SetOperation] = []
    first: exp.Expression = query
    while isinstance(first, exp.SetOperation) and not first.args.get("with_"):
        if chain and _has_modifiers(first):
            break
        refuse_arguments(first, ("this", "expression", "distinct", *MODIFIERS))
        chain.append(first)
        first = first.this
    bound = bind_query_tree(binding, first, scope)
    for operation in reversed(chain):
        bound = _combine(binding, operation, bound, scope)
    return _with_modifiers(binding, bound, query) if _has_modifiers(query) else bound


def _combine(binding: Binding, operation: exp.SetOperation, left: BoundTree, scope: Scope) -> BoundTree:
    place = place_of(operation.expression)
    right = bind_query_tree(binding, operation.expression, scope)
    if len(left.names) != len(right.names):
        raise SqlSyntaxError(
            f"each {operation.key.upper()} query must have the same number of columns",
            detail=f"The first has {len(left.names)}, the second {len(right.names)}.",
            position=place,
        )
    tree = type(operation)(
        this=_operand(left.tree), expression=_operand(right.tree), distinct=operation.args.get("distinct", True)
    )
    return BoundTree(tree, left.names)


def _operand(tree: exp.Expression) -> exp.Expression:
    """Parentheses where the printed text would otherwise group differently."""
    is_plain = isinstance(tree, exp.Select) and not _has_modifiers(tree) and not tree.args.get("with_")
    return tree if is_plain else exp.Subquery(this=tree)


def _with_modifiers(binding: Binding, bound: BoundTree, query: exp.Expression) -> BoundTree:
    """ORDER BY and LIMIT of a set operation: over its result columns alone."""
    item, alias, columns = as_derived(binding, bound, "q")
    outputs: list[exp.Expression] = [column(alias, c.kernel_name) for c in columns]
    keys = resolve_output_keys(query.args.get("order"), bound.names, outputs)
    select = exp.Select(expressions=[node.copy() for node in outputs], from_=exp.From(this=item))
    if keys:
        select.set("order", exp.Order(expressions=keys))
    for key, node in limit_and_offset(binding, query).items():
        select.set(key, node)
    return BoundTree(select, bound.names)


# --- WITH ----------------------------------------------------------------------------------------


def bind_with(binding: Binding, with_: exp.Expression | None, outer: Scope) -> tuple[Scope, list[exp.CTE]]:
    scope, ctes = outer, []
    seen: set[str] = set()
    for cte in with_.expressions if with_ is not None else []:
        name = name_of(cte.args["alias"].this)
        if name in seen:
            raise DuplicateName(
                f'WITH query name "{name}" specified more than once', sqlstate="42712", position=place_of(cte)
            )
        seen.add(name)
        is_recursive = bool(with_ is not None and with_.args.get("recursive"))
        definition, node = _bind_cte(binding, cte, name, scope, is_recursive)
        scope = scope.with_ctes({name: definition})
        ctes.append(node)
    return scope, ctes


def _bind_cte(binding: Binding, cte: exp.CTE, name: str, scope: Scope, is_recursive: bool) -> tuple[Cte, exp.CTE]:
    if not is_query(cte.this):
        raise Unsupported(
            "only queries can stand in WITH",
            hint="Run the INSERT, UPDATE, DELETE or MERGE as a statement of its own.",
            position=place_of(cte),
        )
    inside = scope.with_ctes({name: Cte(name, "", (), is_complete=False)}) if is_recursive else scope
    bound = bind_query_tree(binding, cte.this, inside)
    names = rename_columns(bound.names, cte.args["alias"], name)
    columns = source_columns(names)
    alias = binding.fresh_alias(name)
    tree = name_outputs(bound, [c.kernel_name for c in columns]).tree
    return Cte(name, alias, columns), exp.CTE(this=tree, alias=exp.TableAlias(this=exp.to_identifier(alias, True)))


def _attach_ctes(tree: exp.Expression, ctes: list[exp.CTE]) -> exp.Expression:
    inner = tree.args.get("with_")
    tree.set("with_", exp.With(expressions=[*ctes, *(inner.expressions if inner is not None else [])]))
    return tree
