"""Types of scalar expressions, bottom up: each node is replaced by its typed form.

"t"."a" + 1.5   over t.a int   ->   +(Convert("t"."a" to numeric(10,0)), 1.5)   of type numeric(12,1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from midstream.errors import TypeMismatch, UndefinedName, Unsupported
from midstream.plan.functions.model import Function
from midstream.plan.typing import aggregates, queries
from midstream.plan.typing.calls import canonical_call
from midstream.plan.typing.coercion import as_numeric, common_type
from midstream.plan.typing.conversion import (
    cast_explicitly,
    constant,
    convert,
    exactly,
    interval_constant,
    keep_place,
)
from midstream.plan.typing.data_types import is_unbounded_numeric, type_of_cast
from midstream.plan.typing.literals import number_type
from midstream.plan.typing.nodes import Call, Raw, is_unknown, type_of, typed
from midstream.plan.typing.resolution import resolve
from midstream.plan.typing.scopes import Scope
from midstream.sql.positions import operator_position_of, position_of
from midstream.types import BOOLEAN, INT, INTERVAL, NULL, TEXT, array_of


def infer(node: exp.Expression, scope: Scope) -> exp.Expression:
    """The typed form of a scalar. The node given is used up."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        handler = aggregates.infer_aggregate if aggregates.is_aggregate(node) else _infer_call
    result = handler(node, scope)
    keep_place(result, node)
    return result


def infer_all(nodes: Sequence[exp.Expression], scope: Scope) -> list[exp.Expression]:
    return [infer(node, scope) for node in nodes]


def infer_value(node: exp.Expression, scope: Scope) -> exp.Expression:
    """Typed, an untyped literal as text."""
    result = infer(node, scope)
    return convert(result, TEXT) if is_unknown(result) else result


def infer_condition(node: exp.Expression, scope: Scope, clause: str) -> exp.Expression:
    return as_boolean(infer(node, scope), clause)


def as_boolean(node: exp.Expression, clause: str) -> exp.Expression:
    type = type_of(node)
    if type != BOOLEAN and type != NULL:
        raise TypeMismatch(f"argument of {clause} must be type boolean, not type {type}", position=position_of(node))
    return convert(node, BOOLEAN)


def call(name: str, arguments: list[exp.Expression], node: exp.Expression) -> exp.Expression:
    """A typed call of a function of the table."""
    if any(isinstance(argument, exp.Star) for argument in arguments):
        raise UndefinedName(f"function {name}(*) does not exist", sqlstate="42883", position=position_of(node))
    function, converted = resolve(name, arguments, operator_position_of(node))
    if function.shape != "scalar":
        raise Unsupported(f"{name} cannot be used here", position=position_of(node))
    return typed_call(function, converted)


def typed_call(function: Function, arguments: list[exp.Expression]) -> exp.Expression:
    constants = [str(argument.this) if isinstance(argument, exp.Literal) else None for argument in arguments]
    result = function.result_type([type_of(argument) for argument in arguments], constants)
    return typed(Call(this=function.signature, expressions=arguments), result)


def _infer_call(node: exp.Expression, scope: Scope) -> exp.Expression:
    named = canonical_call(node)
    if named is None:
        raise Unsupported(f"{node.key.upper()} is not supported", position=position_of(node))
    name, arguments = named
    if isinstance(node, exp.Binary) and isinstance(node.expression, (exp.Any, exp.All)):
        return _quantified(name, node, scope)
    left = _without_parentheses(node.this) if isinstance(node, exp.Binary) else None
    if isinstance(left, exp.Tuple):
        return _row_comparison(name, left, node, scope)
    typed_arguments = [a if isinstance(a, exp.Star) else infer(a, scope) for a in arguments]
    return call(name, typed_arguments, node)


def _without_parentheses(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


# --- leaves --------------------------------------------------------------------------------------


def _column(node: exp.Expression, scope: Scope) -> exp.Expression:
    assert isinstance(node, exp.Column)
    type, stored = scope.find(node)
    result = typed(exp.Column(this=node.this, table=node.args.get("table")), type)
    return typed(Raw(this=result), type) if stored and type == INTERVAL else result


def _literal(node: exp.Expression, scope: Scope) -> exp.Expression:
    if node.args.get("is_string"):
        return typed(node, NULL)
    return _number(str(node.this), node)


def _number(text: str, node: exp.Expression) -> exp.Expression:
    type = number_type(text)
    if not type.is_integer:
        return convert(typed(exp.Literal.string(text), NULL), type)
    return constant(text, type)


def _null(node: exp.Expression, scope: Scope) -> exp.Expression:
    return typed(node, NULL)


def _boolean(node: exp.Expression, scope: Scope) -> exp.Expression:
    return typed(node, BOOLEAN)


def _parentheses(node: exp.Expression, scope: Scope) -> exp.Expression:
    return infer(node.this, scope)


def _negative(node: exp.Expression, scope: Scope) -> exp.Expression:
    inner = _without_parentheses(node.this)
    if isinstance(inner, exp.Literal) and not inner.is_string:
        return _number(f"-{inner.this}", node)
    return call("-", [infer(node.this, scope)], node)


def _interval(node: exp.Expression, scope: Scope) -> exp.Expression:
    assert isinstance(node, exp.Interval)
    return interval_constant(node)


def _star(node: exp.Expression, scope: Scope) -> exp.Expression:
    raise Unsupported("* cannot be used here", position=position_of(node))


# --- casts ---------------------------------------------------------------------------------------


def _cast(node: exp.Expression, scope: Scope) -> exp.Expression:
    to = node.args["to"]
    value = infer(node.this, scope)
    if is_unbounded_numeric(to) and (type_of(value).is_integer or type_of(value).name == "numeric"):
        return cast_explicitly(value, as_numeric(type_of(value)))
    return cast_explicitly(value, type_of_cast(to))


# --- logic ---------------------------------------------------------------------------------------


def _connector(node: exp.Expression, scope: Scope) -> exp.Expression:
    kind, word = (exp.And, "AND") if isinstance(node, exp.And) else (exp.Or, "OR")
    parts = [part for part in node.flatten() if isinstance(part, exp.Expression)]
    operands = [infer_condition(part, scope, word) for part in parts]
    result = operands[0]
    for operand in operands[1:]:
        result = typed(kind(this=result, expression=operand), BOOLEAN)
    return result


def _not(node: exp.Expression, scope: Scope) -> exp.Expression:
    return typed(exp.Not(this=infer_condition(node.this, scope, "NOT")), BOOLEAN)


def _is(node: exp.Expression, scope: Scope) -> exp.Expression:
    against = node.expression
    if isinstance(against, exp.Null):
        operand = infer_value(node.this, scope)
        result = call("is null", [operand], node)
    else:
        operand = infer_condition(node.this, scope, "IS")
        result = call("is true" if against.this else "is false", [operand], node)
    return typed(exp.Not(this=result), BOOLEAN) if node.args.get("negate") else result


def _between(node: exp.Expression, scope: Scope) -> exp.Expression:
    def part(key: str) -> exp.Expression:
        copy: exp.Expression = node.args[key].copy()
        return copy

    def within(low: str, high: str) -> exp.Expression:
        first = call(">=", [infer(part("this"), scope), infer(part(low), scope)], node)
        second = call("<=", [infer(part("this"), scope), infer(part(high), scope)], node)
        return typed(exp.And(this=first, expression=second), BOOLEAN)

    if not node.args.get("symmetric"):
        return within("low", "high")
    return typed(exp.Or(this=within("low", "high"), expression=within("high", "low")), BOOLEAN)


def _like(node: exp.Expression, scope: Scope) -> exp.Expression:
    named = canonical_call(node)
    assert named is not None
    if isinstance(node.expression, (exp.Any, exp.All)):
        result = _quantified(named[0], node, scope)
    else:
        result = call(named[0], infer_all(named[1], scope), node)
    return typed(exp.Not(this=result), BOOLEAN) if node.args.get("negate") else result


def _escape(node: exp.Expression, scope: Scope) -> exp.Expression:
    like = node.this
    named = canonical_call(like)
    assert named is not None
    result = call(f"{named[0]} escape", infer_all([*named[1], node.expression], scope), node)
    return typed(exp.Not(this=result), BOOLEAN) if like.args.get("negate") else result


# --- CASE ----------------------------------------------------------------------------------------


def _case(node: exp.Expression, scope: Scope) -> exp.Expression:
    conditions = [_case_condition(node.args.get("this"), branch.this, scope) for branch in node.args["ifs"]]
    results = [infer(branch.args["true"], scope) for branch in node.args["ifs"]]
    default = node.args.get("default")
    others = [infer(default, scope)] if default is not None else []
    unified = unify([*results, *others], "CASE types {0} and {1} cannot be matched")
    branches = [exp.If(this=c, true=r) for c, r in zip(conditions, unified, strict=False)]
    result = exp.Case(ifs=branches, default=unified[-1] if others else None)
    return typed(result, type_of(unified[0]))


def _case_condition(operand: exp.Expression | None, condition: exp.Expression, scope: Scope) -> exp.Expression:
    if operand is None:
        return infer_condition(condition, scope, "CASE/WHEN")
    return call("=", [infer(operand.copy(), scope), infer(condition, scope)], condition)


def unify(nodes: list[exp.Expression], message: str) -> list[exp.Expression]:
    """All nodes as their common type; text if none of them has a type."""
    types = [type_of(node) for node in nodes]
    common = common_type(types)
    if common is None:
        first = next(type for type in types if type != NULL)
        other = next(node for node in nodes if common_type([first, type_of(node)]) is None)
        raise TypeMismatch(message.format(first, type_of(other)), position=position_of(other))
    target = TEXT if common == NULL else common
    return [convert(node, target) for node in nodes]


# --- IN, ANY, ALL, EXISTS, rows ------------------------------------------------------------------


def _in(node: exp.Expression, scope: Scope) -> exp.Expression:
    query = node.args.get("query")
    left = _without_parentheses(node.this)
    if query is not None:
        return _in_query(left, query, scope)
    if isinstance(left, exp.Tuple):
        rows = [
            _row_comparison("=", left.copy(), exp.EQ(this=left.copy(), expression=item), scope)
            for item in node.expressions
        ]
        return _any_of(rows)
    items = [infer(left, scope), *infer_all(node.expressions, scope)]
    types = [type_of(item) for item in items]
    if common_type(types) is None:
        call("=", [items[0], next(i for i in items if common_type([types[0], type_of(i)]) is None)], node)
    if types[0].name == "json" or types[0].name == "interval":
        return _any_of([call("=", [items[0].copy(), item], node) for item in items[1:]])
    exact = [exactly(item, types[0]) for item in items[1:]]
    if types[0].is_number and all(item is not None for item in exact):
        return typed(exp.In(this=items[0], expressions=exact), BOOLEAN)
    unified = [convert(item, TEXT) if type_of(item).name == "char" else item for item in unify(items, "{0} {1}")]
    return typed(exp.In(this=unified[0], expressions=unified[1:]), BOOLEAN)


def _any_of(conditions: list[exp.Expression]) -> exp.Expression:
    result = conditions[0]
    for condition in conditions[1:]:
        result = typed(exp.Or(this=result, expression=condition), BOOLEAN)
    return result


def _in_query(left: exp.Expression, query: exp.Expression, scope: Scope) -> exp.Expression:
    parts = left.expressions if isinstance(left, exp.Tuple) else [left]
    values = infer_all(parts, scope)
    inner = queries.bare_query(query)
    columns = queries.infer_query(inner, scope.inside())
    targets = []
    for value, column in zip(values, columns, strict=True):
        common = common_type([type_of(value), column.type])
        if common is None or "json" in (type_of(value).name, column.type.name):
            raise UndefinedName(
                f"operator does not exist: {type_of(value)} = {column.type}",
                hint="You might need to add explicit type casts.",
                sqlstate="42883",
                position=position_of(left),
            )
        targets.append(common)
    inner = queries.convert_outputs(inner, targets)
    converted = [convert(value, target) for value, target in zip(values, targets, strict=True)]
    this = typed(exp.Tuple(expressions=converted), NULL) if len(converted) > 1 else converted[0]
    return typed(exp.In(this=this, query=exp.Subquery(this=inner)), BOOLEAN)


def _quantified(name: str, node: exp.Expression, scope: Scope) -> exp.Expression:
    """x = ANY (array or query); ALL is the negation of the negated ANY."""
    quantifier = node.expression
    operand = _without_parentheses(quantifier.this)
    is_any = isinstance(quantifier, exp.Any)
    if isinstance(operand, (exp.Subquery, exp.Select, exp.SetOperation)):
        return _quantified_query(name, is_any, node, operand, scope)
    if isinstance(operand, exp.Array) and operand.expressions:
        parts = [call(name, [infer(node.this.copy(), scope), infer(item, scope)], node) for item in operand.expressions]
        return _any_of(parts) if is_any else _all_of(parts)
    value, array = infer(node.this, scope), infer(operand, scope)
    if is_unknown(array):
        array = convert(array, array_of(TEXT if is_unknown(value) else type_of(value)))
    return call(f"{name} {'any' if is_any else 'all'}", [value, array], node)


def _quantified_query(
    name: str, is_any: bool, node: exp.Expression, operand: exp.Expression, scope: Scope
) -> exp.Expression:
    if (name, is_any) in (("=", True), ("<>", False)):
        result = _in_query(_without_parentheses(node.this), operand, scope)
        return result if is_any else typed(exp.Not(this=result), BOOLEAN)
    value = infer(node.this, scope)
    inner = queries.bare_query(operand)
    [column] = queries.infer_query(inner, scope.inside())
    common = common_type([type_of(value), column.type])
    if common is None:
        raise UndefinedName(
            f"operator does not exist: {type_of(value)} {name} {column.type}",
            sqlstate="42883",
            position=position_of(node),
        )
    kind = exp.Any if is_any else exp.All
    inner = queries.convert_outputs(inner, [common])
    comparison = type(node)(this=convert(value, common), expression=kind(this=exp.Subquery(this=inner)))
    return typed(comparison, BOOLEAN)


def _exists(node: exp.Expression, scope: Scope) -> exp.Expression:
    inner = queries.bare_query(node.this)
    queries.infer_query(inner, scope.inside())
    return typed(exp.Exists(this=inner), BOOLEAN)


def _subquery(node: exp.Expression, scope: Scope) -> exp.Expression:
    inner = queries.bare_query(node)
    [column] = queries.infer_query(inner, scope.inside())
    return typed(exp.Subquery(this=inner), column.type)


def _row_comparison(name: str, left: exp.Tuple, node: exp.Expression, scope: Scope) -> exp.Expression:
    """Rows compare from left to right, as (a, b) < (c, d) is a < c OR (a = c AND b < d)."""
    right = _without_parentheses(node.expression)
    if not isinstance(right, exp.Tuple) or len(left.expressions) != len(right.expressions):
        raise TypeMismatch("unequal number of entries in row expressions", sqlstate="42601", position=position_of(node))
    pairs = list(zip(left.expressions, right.expressions, strict=True))

    def compare(operator: str, index: int) -> exp.Expression:
        one, other = pairs[index]
        return call(operator, [infer(one.copy(), scope), infer(other.copy(), scope)], node)

    if name in ("=", "is not distinct from"):
        return _all_of([compare(name, i) for i in range(len(pairs))])
    if name in ("<>", "is distinct from"):
        return _any_of([compare(name, i) for i in range(len(pairs))])
    if name not in ("<", "<=", ">", ">="):
        raise Unsupported(f"rows cannot be compared by {name}", position=position_of(node))
    result = compare(name, len(pairs) - 1)
    for index in reversed(range(len(pairs) - 1)):
        equal = _all_of([compare("=", index), result])
        result = _any_of([compare(name[0], index), equal])
    return result


def _all_of(conditions: list[exp.Expression]) -> exp.Expression:
    result = conditions[0]
    for condition in conditions[1:]:
        result = typed(exp.And(this=result, expression=condition), BOOLEAN)
    return result


# --- arrays --------------------------------------------------------------------------------------


def _array(node: exp.Expression, scope: Scope) -> exp.Expression:
    if len(node.expressions) == 1 and isinstance(node.expressions[0], (exp.Select, exp.SetOperation, exp.Subquery)):
        raise Unsupported(
            "ARRAY(query) is not supported", hint="Use array_agg in a subquery.", position=position_of(node)
        )
    items = unify(infer_all(node.expressions, scope), "ARRAY types {0} and {1} cannot be matched")
    if not items:
        return typed(exp.Array(expressions=[]), array_of(TEXT))
    return typed(exp.Array(expressions=items), array_of(type_of(items[0])))


def _bracket(node: exp.Expression, scope: Scope) -> exp.Expression:
    index = node.expressions[0]
    array = infer(node.this, scope)
    if isinstance(index, exp.Slice):
        low, high = index.args.get("this"), index.args.get("expression")
        bounds = [constant("1", INT) if low is None else infer(low, scope)]
        bounds.append(constant(str(2**31 - 1), INT) if high is None else infer(high, scope))
        return call("[:]", [array, *bounds], node)
    if type_of(array).element is None:
        raise TypeMismatch(
            f"cannot subscript type {type_of(array)} because it does not support subscripting",
            position=position_of(node),
        )
    return call("[]", [array, infer(index, scope)], node)


def _parameter(node: exp.Expression, scope: Scope) -> exp.Expression:
    raise Unsupported("a parameter cannot be used here", position=position_of(node))


_Handler = Callable[[exp.Expression, Scope], exp.Expression]
_HANDLERS: dict[type[exp.Expression], _Handler] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Paren: _parentheses,
    exp.Neg: _negative,
    exp.Interval: _interval,
    exp.Star: _star,
    exp.Cast: _cast,
    exp.And: _connector,
    exp.Or: _connector,
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.Like: _like,
    exp.ILike: _like,
    exp.SimilarTo: _like,
    exp.Escape: _escape,
    exp.Case: _case,
    exp.In: _in,
    exp.Exists: _exists,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Array: _array,
    exp.Bracket: _bracket,
    exp.Parameter: _parameter,
}
