"""Types of whole queries: sources first, then each clause, then the outputs.

The two sides of a set operation are brought to common types by converting their select lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from midstream.errors import TypeMismatch, Unsupported
from midstream.plan.typing import aggregates, scalars
from midstream.plan.typing.coercion import common_type
from midstream.plan.typing.conversion import convert
from midstream.plan.typing.nodes import is_unknown, type_of, typed
from midstream.plan.typing.scopes import Columns, Scope
from midstream.sql.positions import position_of
from midstream.types import BIGINT, NULL, TEXT, Type


class OutputColumn(NamedTuple):
    name: str
    type: Type


def bare_query(node: exp.Expression) -> exp.Expression:
    """The query inside parentheses."""
    while isinstance(node, (exp.Subquery, exp.Paren)) and not node.args.get("with_"):
        node = node.this
    return node


def infer_query(query: exp.Expression, scope: Scope, keep_unknown: bool = False) -> list[OutputColumn]:
    """Types a query in place. Untyped outputs become text, unless a set operation around may give them a type."""
    scope = _infer_ctes(query, scope)
    if isinstance(query, exp.Select):
        return _infer_select(query, scope, keep_unknown)
    if isinstance(query, exp.SetOperation):
        return _infer_set_operation(query, scope, keep_unknown)
    if isinstance(query, exp.Values):
        return _infer_values(query, scope)
    if isinstance(query, exp.Subquery):
        return infer_query(query.this, scope, keep_unknown)
    raise Unsupported(f"{query.key.upper()} cannot be used as a query", position=position_of(query))


def _infer_ctes(query: exp.Expression, scope: Scope) -> Scope:
    with_ = query.args.get("with_")
    if with_ is None:
        return scope
    if with_.args.get("recursive"):
        raise Unsupported("WITH RECURSIVE is not supported", position=position_of(with_))
    for cte in with_.expressions:
        alias = cte.args["alias"]
        outputs = infer_query(cte.this, Scope(scope.scans, ctes=scope.ctes))
        scope = scope.with_cte(alias.name, _named(outputs, alias))
    return scope


def _named(outputs: Sequence[OutputColumn], alias: exp.Expression | None) -> Columns:
    """Columns under the names that an alias gives them."""
    given = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
    names = [*given, *(output.name for output in outputs[len(given) :])]
    return {name: output.type for name, output in zip(names, outputs, strict=True)}


# --- SELECT --------------------------------------------------------------------------------------


def _infer_select(query: exp.Select, scope: Scope, keep_unknown: bool) -> list[OutputColumn]:
    scope = _infer_sources(query, scope)
    _infer_condition(query, "where", scope)
    _infer_group(query, scope)
    _infer_condition(query, "having", scope)
    query.set("expressions", [_infer_output(node, scope, keep_unknown) for node in query.expressions])
    order = query.args.get("order")
    if order is not None:
        query.set("order", aggregates.infer_order(order, scope))
    return [OutputColumn(node.alias_or_name, type_of(node)) for node in query.expressions]


def _infer_condition(query: exp.Select, key: str, scope: Scope) -> None:
    clause = query.args.get(key)
    if clause is not None:
        clause.set("this", scalars.infer_condition(clause.this, scope, key.upper()))


def _infer_output(node: exp.Expression, scope: Scope, keep_unknown: bool) -> exp.Expression:
    name = node.alias_or_name
    inner = node.this if isinstance(node, exp.Alias) else node
    result = scalars.infer(inner, scope)
    if is_unknown(result) and not keep_unknown:
        result = convert(result, TEXT)
    if isinstance(node, exp.Alias) or not isinstance(result, exp.Column):
        named = exp.Alias(this=result, alias=exp.to_identifier(name or "column", quoted=True))
        return typed(named, type_of(result))
    return result


def _infer_group(query: exp.Select, scope: Scope) -> None:
    group = query.args.get("group")
    if group is not None:
        group.set("expressions", [_group_element(node, scope) for node in group.expressions])
        for key in ("grouping_sets", "rollup", "cube"):
            if group.args.get(key):
                group.set(key, [_group_element(node, scope) for node in group.args[key]])


def _group_element(node: exp.Expression, scope: Scope) -> exp.Expression:
    if isinstance(node, (exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple)):
        return type(node)(expressions=[_group_element(part, scope) for part in node.expressions])
    if isinstance(node, exp.Paren):
        return exp.Tuple(expressions=[_group_element(node.this, scope)])
    return scalars.infer_value(node, scope)


# --- FROM ----------------------------------------------------------------------------------------


def _infer_sources(query: exp.Select, scope: Scope) -> Scope:
    from_ = query.args.get("from_")
    if from_ is not None:
        scope = _add_source(from_, scope)
        scope = _infer_joins(from_.this, scope)
    for join in query.args.get("joins") or []:
        scope = _infer_join(join, scope)
    return scope


def _infer_joins(item: exp.Expression, scope: Scope) -> Scope:
    """The joins of a FROM item in parentheses: (a JOIN b ON …)."""
    for join in item.args.get("joins") or []:
        scope = _infer_join(join, scope)
    return scope


def _infer_join(join: exp.Join, scope: Scope) -> Scope:
    scope = _add_source(join, scope)
    scope = _infer_joins(join.this, scope)
    on = join.args.get("on")
    if on is not None:
        join.set("on", scalars.infer_condition(on, scope, "JOIN/ON"))
    return scope


def _add_source(holder: exp.Expression, scope: Scope) -> Scope:
    item = holder.this
    alias = item.args.get("alias")
    if isinstance(item, exp.Table) and not isinstance(item.this, exp.Func):
        return _add_table(item, scope)
    if isinstance(item, exp.Table):
        return _add_function(item.this, item, scope)
    if isinstance(item, exp.Unnest):
        return _add_unnest(item, scope)
    if isinstance(item, exp.Values):
        return scope.with_source(item.alias, _named(_infer_values(item, scope), alias))
    if isinstance(item, exp.Lateral):
        return _add_lateral(item, scope)
    if isinstance(item, exp.Subquery) and isinstance(item.this, (exp.Table, exp.Subquery)) and not alias:
        return _infer_joins(item.this, _add_source(item, scope))
    if isinstance(item, exp.Paren):
        return _infer_joins(item.this, _add_source(item, scope))
    if isinstance(item, exp.Subquery):
        outputs = infer_query(item.this, Scope(scope.scans, ctes=scope.ctes, outer=scope.outer))
        return scope.with_source(item.alias, _named(outputs, alias))
    raise Unsupported("this cannot stand in FROM", position=position_of(item))


def _add_table(item: exp.Table, scope: Scope) -> Scope:
    name = item.name
    if name in scope.ctes:
        columns = scope.ctes[name]
        given = (
            [column.name for column in (item.args["alias"].args.get("columns") or [])] if item.args.get("alias") else []
        )
        renamed = dict(zip([*given, *list(columns)[len(given) :]], columns.values(), strict=True))
        return scope.with_source(item.alias_or_name, renamed)
    return scope.with_source(item.alias_or_name, dict(scope.scans[name]), stored=True)


def _add_lateral(item: exp.Lateral, scope: Scope) -> Scope:
    """What stands behind LATERAL sees the sources before it."""
    if isinstance(item.this, exp.Unnest):
        if item.args.get("alias") and not item.this.args.get("alias"):
            item.this.set("alias", item.args["alias"])
        return _add_unnest(item.this, scope)
    if isinstance(item.this, exp.Subquery):
        outputs = infer_query(item.this.this, scope.inside())
        return scope.with_source(item.alias, _named(outputs, item.args.get("alias")))
    return _add_function(item.this, item, scope)


def _add_unnest(item: exp.Unnest, scope: Scope) -> Scope:
    if len(item.expressions) != 1:
        raise Unsupported("unnest of several arrays is not supported", position=position_of(item))
    array = scalars.infer(item.expressions[0], scope)
    element = type_of(array).element
    if element is None:
        raise TypeMismatch(
            f"function unnest({type_of(array)}) does not exist", sqlstate="42883", position=position_of(item)
        )
    item.set("expressions", [array])
    alias = item.args.get("alias")
    names = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
    offset = item.args.get("offset")
    columns = {names[0] if names else item.alias: element}
    if isinstance(offset, exp.Expression):
        columns[offset.name] = BIGINT
    elif offset or len(names) > 1:
        columns[names[1] if len(names) > 1 else "ordinality"] = BIGINT
    return scope.with_source(item.alias, columns)


def _add_function(function: exp.Expression, item: exp.Expression, scope: Scope) -> Scope:
    if not isinstance(function, (exp.ExplodingGenerateSeries, exp.GenerateSeries)):
        raise Unsupported("this function cannot stand in FROM", position=position_of(item))
    parts = [function.args[key] for key in ("start", "end", "step") if function.args.get(key) is not None]
    values = scalars.infer_all(parts, scope)
    common = common_type([type_of(value) for value in values])
    if common is None or not (common.is_integer or common == NULL):
        raise Unsupported("generate_series works on whole numbers only", position=position_of(item))
    kind = BIGINT if common == BIGINT else Type("int")
    for key, value in zip(("start", "end", "step"), values, strict=False):
        function.set(key, convert(value, kind))
    typed(function, kind)
    alias = item.args.get("alias")
    names = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
    return scope.with_source(item.alias, {names[0] if names else item.alias: kind})


def _infer_values(item: exp.Values, scope: Scope) -> list[OutputColumn]:
    rows = [scalars.infer_all(row.expressions, scope) for row in item.expressions]
    columns = [
        scalars.unify(list(column), "VALUES types {0} and {1} cannot be matched") for column in zip(*rows, strict=True)
    ]
    item.set("expressions", [exp.Tuple(expressions=list(row)) for row in zip(*columns, strict=True)])
    return [OutputColumn(f"column{i}", type_of(column[0])) for i, column in enumerate(columns, 1)]


# --- set operations ------------------------------------------------------------------------------


def _infer_set_operation(query: exp.SetOperation, scope: Scope, keep_unknown: bool) -> list[OutputColumn]:
    """A chain of hundreds of UNIONs leans to the left, so this walks down it and then back up."""
    chain: list[exp.SetOperation] = [query]
    while isinstance(chain[-1].this, exp.SetOperation) and not chain[-1].this.args.get("with_"):
        chain.append(chain[-1].this)
    outputs = infer_query(chain[-1].this, scope, keep_unknown=True)
    sides = [(outputs, chain[-1])]
    for operation in reversed(chain):
        sides.append((infer_query(operation.expression, scope, keep_unknown=True), operation))
    targets = [_common_output([side[i].type for side, _ in sides], query) for i in range(len(outputs))]
    if not keep_unknown:
        targets = [TEXT if target == NULL else target for target in targets]
    chain[-1].set("this", convert_outputs(chain[-1].this, targets))
    for operation in chain:
        operation.set("expression", convert_outputs(operation.expression, targets))
    _infer_operation_order(query, [OutputColumn(o.name, t) for o, t in zip(outputs, targets, strict=True)], scope)
    return [OutputColumn(output.name, target) for output, target in zip(outputs, targets, strict=True)]


def _common_output(types: Sequence[Type], query: exp.SetOperation) -> Type:
    common = common_type(types)
    if common is None:
        first = next(type for type in types if type != NULL)
        other = next(type for type in types if common_type([first, type]) is None)
        raise TypeMismatch(
            f"{query.key.upper()} types {first} and {other} cannot be matched", position=position_of(query)
        )
    return common


def _infer_operation_order(query: exp.SetOperation, outputs: list[OutputColumn], scope: Scope) -> None:
    order = query.args.get("order")
    if order is not None:
        inner = scope.inside().with_source("", {output.name: output.type for output in outputs})
        query.set("order", aggregates.infer_order(order, inner))


def convert_outputs(query: exp.Expression, targets: Sequence[Type]) -> exp.Expression:
    """The query with each output converted to the type at its place."""
    if isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query.set("this", convert_outputs(query.this, targets))
        return query
    if output_types(query) == list(targets):
        return query
    if isinstance(query, exp.Select) and not query.args.get("distinct") and not query.args.get("order"):
        outputs = [_converted(node, target) for node, target in zip(query.expressions, targets, strict=True)]
        query.set("expressions", outputs)
        return query
    return _wrapped(query, targets)


def _converted(node: exp.Expression, target: Type) -> exp.Expression:
    inner = node.this if isinstance(node, exp.Alias) else node
    if type_of(inner) == target:
        return node
    alias = exp.to_identifier(node.alias_or_name or "column", quoted=True)
    return typed(exp.Alias(this=convert(inner, target), alias=alias), target)


def _wrapped(query: exp.Expression, targets: Sequence[Type]) -> exp.Select:
    """SELECT CAST(q.a AS …) FROM (query) AS q: what DISTINCT and ORDER BY saw stays as it was."""
    select = over_query(query)
    outputs = [_converted(node, target) for node, target in zip(select.expressions, targets, strict=True)]
    select.set("expressions", outputs)
    return select


def over_query(query: exp.Expression) -> exp.Select:
    """SELECT q.a AS a, … FROM (query) AS q."""
    source = exp.to_identifier("q", quoted=True)
    outputs = []
    for name, type in _outputs(query):
        reference = exp.Column(this=exp.to_identifier(name, quoted=True), table=source.copy())
        outputs.append(typed(exp.Alias(this=typed(reference, type), alias=exp.to_identifier(name, quoted=True)), type))
    item = exp.Subquery(this=query, alias=exp.TableAlias(this=source))
    return exp.Select(expressions=outputs, from_=exp.From(this=item))


def _outputs(query: exp.Expression) -> list[OutputColumn]:
    while not isinstance(query, exp.Select):
        query = query.this
    return [OutputColumn(node.alias_or_name, type_of(node)) for node in query.expressions]


def output_types(query: exp.Expression) -> list[Type]:
    """The types of a typed query's outputs."""
    return [output.type for output in _outputs(query)]
