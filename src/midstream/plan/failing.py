"""What may fail on some row, and how it is computed only for the rows that it is asked of.

Kernels compute the argument of an aggregate for every row, and look at FILTER later. PostgreSQL does not:

    sum(10 / i) FILTER (WHERE i <> 0)     sum(CASE WHEN i <> 0 THEN 10 / i END) FILTER (WHERE i <> 0)
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from midstream.plan.functions.model import numeric_digits
from midstream.plan.functions.partials import MOST_SUMMED_DIGITS
from midstream.plan.typing.nodes import AggregateCall, Call, Convert, type_of, typed
from midstream.types import BOOLEAN, Type

Node = exp.Expression

_SAFE_CALLS = (
    "=(",
    "<>(",
    "<(",
    "<=(",
    ">(",
    ">=(",
    "is ",
    "coalesce(",
    "nullif(",
    "greatest(",
    "least(",
    "sketch ",
    "four digits(",
    "high part(",
    "low part(",
)
_INTEGER_QUOTIENTS = frozenset(["/(int, int)", "/(bigint, bigint)", "%(int, int)", "%(bigint, bigint)"])
_INTEGERS = ("smallint", "int", "bigint")


def cannot_fail(node: Node) -> bool:
    """Columns, constants, comparisons and what is made of these; sums are kept in types that hold them."""
    match node:
        case AggregateCall():
            return _can_keep(node) and all(map(cannot_fail, node.iter_expressions()))
        case Call():
            return _is_safe_call(node) and all(map(cannot_fail, node.expressions))
        case Convert():
            return _always_converts(type_of(node.this), type_of(node)) and cannot_fail(node.this)
        case exp.Subquery() if not isinstance(
            node.parent, exp.From | exp.Join | exp.In | exp.Any | exp.All | exp.Paren
        ):
            # It stands for a value, and may have more than one row.
            return False
        case _:
            return all(map(cannot_fail, node.iter_expressions()))


def _can_keep(node: AggregateCall) -> bool:
    """A sum of many digits may be too large; moments are not shared, whatever their rows are."""
    if "moments" in str(node.this):
        return False
    if node.this == "wide sum(numeric)":
        return numeric_digits(type_of(node.expressions[0]))[0] <= MOST_SUMMED_DIGITS
    return True


def _is_safe_call(node: Call) -> bool:
    name = str(node.this)
    if name.startswith(("like(", "ilike(")):
        pattern = node.expressions[1]
        return isinstance(pattern, exp.Literal) and not str(pattern.this).endswith("\\")
    if name in _INTEGER_QUOTIENTS:
        return _is_positive(node.expressions[1])
    return name.startswith(_SAFE_CALLS)


def _is_positive(node: Node) -> bool:
    while isinstance(node, Convert):
        node = node.this
    return isinstance(node, exp.Literal) and str(node.this).isdigit() and int(str(node.this)) > 0


def _always_converts(source: Type, to: Type) -> bool:
    if source.name in _INTEGERS and to.name in _INTEGERS:
        return _INTEGERS.index(source.name) <= _INTEGERS.index(to.name)
    return source == to or to.is_text or (to.name == "double precision" and source.is_number)


# --- only where a condition holds ------------------------------------------------------------------


def guarded(call: AggregateCall) -> AggregateCall:
    """The aggregate, with all that may fail computed for those rows only that its FILTER lets through."""
    condition = call.args.get("filter")
    if condition is None:
        return call
    order = call.args.get("order")
    sorted_by = order.expressions if order is not None else []
    computed = [*call.expressions, *(part.this for part in sorted_by)]
    if all(cannot_fail(node) or node.find(exp.Column) is None for node in [condition, *computed]):
        return call
    in_turn = _in_turn(condition)
    copy = call.copy()
    copy.set("filter", in_turn)
    copy.set("expressions", [computed_where(in_turn, part) for part in call.expressions])
    for part in copy.args["order"].expressions if sorted_by else ():
        part.set("this", computed_where(in_turn, part.this))
    return copy


def computed_where(condition: Node | None, node: Node) -> Node:
    """What may fail on a row is computed where the condition holds, and NULL elsewhere; a constant stays one."""
    if condition is None or cannot_fail(node) or node.find(exp.Column) is None:
        return node.copy()
    branch = exp.If(this=condition.copy(), true=node.copy())
    return typed(exp.Case(ifs=[branch]), type_of(node))


def _in_turn(condition: Node) -> Node:
    """a AND b   ->   CASE WHEN a THEN b ELSE false END, where b may fail: what cannot fail is asked first."""
    parts = [part for part in condition.flatten() if isinstance(part, Node)] if isinstance(condition, exp.And) else []
    if not parts:
        return condition.copy()
    safe, others = [p for p in parts if cannot_fail(p)], [p for p in parts if not cannot_fail(p)]
    steps = ([_all_of(safe)] if safe else []) + [part.copy() for part in others]
    result = steps.pop()
    for step in reversed(steps):
        branch = exp.If(this=step, true=result)
        result = typed(exp.Case(ifs=[branch], default=typed(exp.Boolean(this=False), BOOLEAN)), BOOLEAN)
    return result


def _all_of(conditions: Sequence[Node]) -> Node:
    result = conditions[0].copy()
    for condition in conditions[1:]:
        result = typed(exp.And(this=result, expression=condition.copy()), BOOLEAN)
    return result
