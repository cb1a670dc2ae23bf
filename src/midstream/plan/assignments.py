"""SET clauses and column lists: which column of a table gets which expression.

SET a = 1, (b, c) = (DEFAULT, x + 1)        {a: 1, b: the default of b, c: x + 1}
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from midstream.errors import DuplicateName, SqlSyntaxError, UndefinedName
from midstream.plan import queries
from midstream.plan.calls import refuse_calls
from midstream.plan.context import Binding
from midstream.plan.expressions import bind_expression
from midstream.plan.nodes import column, derived, is_query, name_of, place_of, without_parentheses
from midstream.plan.scopes import Scope, did_you_mean
from midstream.plan.statements import default_of
from midstream.plan.trees import as_derived
from midstream.relations.schema import RowHolder
from midstream.relations.table import Column, Table

Values = dict[str, exp.Expression]


def is_default(node: exp.Expression) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "DEFAULT"


def bind_set(binding: Binding, items: Sequence[exp.Expression], table: Table, scope: Scope, where: str) -> Values:
    """The new values by column, bound but not yet cast."""
    values: Values = {}
    for item in items:
        targets = _targets(item.this)
        columns = [_target_column(target, table) for target in targets]
        given = _values(binding, item, len(columns), scope)
        for target, own, value in zip(targets, columns, given, strict=True):
            if own.name in values:
                raise SqlSyntaxError(f'multiple assignments to same column "{own.name}"', position=place_of(target))
            values[own.name] = bind_value(binding, value, own, scope, where)
    return values


def bind_value(binding: Binding, value: exp.Expression, own: Column, scope: Scope, where: str) -> exp.Expression:
    if is_default(value):
        return default_of(binding, own)
    if value.meta.get(_BOUND):
        return value
    bound = bind_expression(binding, value, scope)
    refuse_calls(bound, where)
    return bound


_BOUND = "bound"


def _targets(node: exp.Expression) -> list[exp.Expression]:
    node = without_parentheses(node)
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node]


def _target_column(node: exp.Expression, table: Table) -> Column:
    qualifier = node.args.get("table")
    if qualifier is not None:
        raise UndefinedName(
            f'column "{name_of(qualifier)}" of relation "{table.name}" does not exist',
            sqlstate="42703",
            hint="SET target columns cannot be qualified with the relation name.",
            position=place_of(node),
        )
    return target_column(name_of(node.this if isinstance(node, exp.Column) else node), table, node)


def target_column(name: str, table: RowHolder, node: exp.Expression | None = None) -> Column:
    found = table.column(name)
    if found is None:
        raise UndefinedName(
            f'column "{name}" of relation "{table.name}" does not exist',
            sqlstate="42703",
            hint=did_you_mean(name, table.column_names),
            position=place_of(node),
        )
    return found


def target_columns(names: Iterable[str], table: RowHolder) -> list[Column]:
    """The columns of `INSERT INTO t (a, b)`; without a list, all of them."""
    found: list[Column] = []
    for name in names:
        own = target_column(name, table)
        if own in found:
            raise DuplicateName(f'column "{name}" specified more than once', sqlstate="42701")
        found.append(own)
    return found or list(table.columns)


def _values(binding: Binding, item: exp.Expression, width: int, scope: Scope) -> list[exp.Expression]:
    value = item.expression
    is_list = isinstance(without_parentheses(item.this), exp.Tuple)
    if is_list and is_query(value):
        return _split_subquery(binding, value, width, scope)
    inner = without_parentheses(value)
    given = list(inner.expressions) if is_list and isinstance(inner, exp.Tuple) else [value]
    if len(given) != width:
        raise SqlSyntaxError("number of columns does not match number of values", position=place_of(value))
    return given


def _split_subquery(binding: Binding, query: exp.Expression, width: int, scope: Scope) -> list[exp.Expression]:
    """(a, b) = (SELECT x, y …) as a = (SELECT x …), b = (SELECT y …)."""
    place = place_of(query)
    bound = queries.bind_query_tree(binding, query.copy(), scope)
    if len(bound.names) != width:
        raise SqlSyntaxError("number of columns does not match number of values", position=place)
    item, alias, columns = as_derived(binding, bound, "q")
    parts: list[exp.Expression] = []
    for own in columns:
        select = exp.Select(expressions=[column(alias, own.kernel_name)])
        select.set("from_", exp.From(this=derived(item.this.copy(), alias)))
        part = exp.Subquery(this=select)
        part.meta[_BOUND] = True
        parts.append(part)
    return parts
