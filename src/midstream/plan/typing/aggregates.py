"""Aggregates and window functions: their arguments, DISTINCT, ORDER BY, FILTER, WITHIN GROUP and OVER.

All but OVER goes into one `AggregateCall`; a window stays sqlglot's `Window` around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from midstream.errors import DataError, InvalidQuery, TypeMismatch, UndefinedName, Unsupported
from midstream.plan.functions import is_aggregate_name
from midstream.plan.functions.model import Function
from midstream.plan.typing import scalars
from midstream.plan.typing.calls import canonical_call
from midstream.plan.typing.conversion import constant, convert
from midstream.plan.typing.folding import constant_number, is_constant
from midstream.plan.typing.nodes import AggregateCall, Convert, is_unknown, type_of, typed
from midstream.plan.typing.resolution import resolve
from midstream.plan.typing.scopes import Scope
from midstream.sql.positions import position_of
from midstream.types import BIGINT, DOUBLE, INT, INTERVAL, TEXT

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.Window, exp.IgnoreNulls, exp.RespectNulls)


@dataclass
class _Written:
    """The parts of a call, as they were written around and inside it."""

    name: str
    arguments: list[exp.Expression]
    distinct: bool = False
    order: list[exp.Expression] = field(default_factory=list)
    within: bool = False
    filter: exp.Expression | None = None
    star: bool = False


def is_aggregate(node: exp.Expression) -> bool:
    """Whether this is an aggregate or window function, or what stands around one."""
    if isinstance(node, (*_WRAPPERS, exp.Grouping)):
        return True
    named = canonical_call(node)
    return named is not None and is_aggregate_name(named[0])


def infer_aggregate(node: exp.Expression, scope: Scope) -> exp.Expression:
    if isinstance(node, exp.Grouping):
        return _grouping(node, scope)
    if isinstance(node, exp.Window):
        return _window(node, scope)
    written = _read(node)
    if written.name in _PERCENTILES and isinstance(fractions := _bare_list(written.arguments), exp.Array):
        return scalars.infer_value(_percentile_of_each(node, fractions), scope)
    function, result = _typed_call(written, node, scope)
    if function.shape == "window":
        raise InvalidQuery(
            f"window function {written.name} requires an OVER clause", sqlstate="42809", position=position_of(node)
        )
    return result


_PERCENTILES = {"percentile_cont": exp.PercentileCont, "percentile_disc": exp.PercentileDisc}


def _bare_list(arguments: list[exp.Expression]) -> exp.Expression | None:
    """ARRAY[0.25, 0.5], also in parentheses and with a type; the numbers are read as fractions in any case."""
    node = arguments[0] if arguments else None
    while isinstance(node, exp.Paren | exp.Cast):
        node = node.this
    return node


def _percentile_of_each(node: exp.Expression, fractions: exp.Array) -> exp.Expression:
    """percentile_cont(ARRAY[p, q]) …   ->   CASE WHEN percentile_cont(p) … IS NOT NULL
    THEN ARRAY[percentile_cont(p) …, percentile_cont(q) …] END, since of no values there is no list."""
    if not fractions.expressions:
        raise Unsupported("percentiles of an empty list of fractions are not supported", position=position_of(node))
    if any(isinstance(fraction, exp.Array) for fraction in fractions.expressions):
        raise Unsupported("percentiles of a list of lists are not supported", position=position_of(fractions))
    each = [_with_fraction(node, fraction) for fraction in fractions.expressions]
    is_known = exp.Not(this=exp.Is(this=each[0].copy(), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=is_known, true=exp.Array(expressions=each))])


def _with_fraction(node: exp.Expression, fraction: exp.Expression) -> exp.Expression:
    single = node.copy()
    call = single.find(*_PERCENTILES.values())
    assert call is not None
    call.set("this", fraction.copy())
    return single


def _grouping(node: exp.Grouping, scope: Scope) -> exp.Expression:
    keys = scalars.infer_all(node.expressions, scope)
    return typed(AggregateCall(this="grouping", expressions=keys), INT)


def _read(node: exp.Expression) -> _Written:
    filter_, within = None, None
    while isinstance(node, _WRAPPERS):
        if isinstance(node, exp.Filter):
            filter_ = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            within = node.expression
        else:
            raise Unsupported("IGNORE NULLS and RESPECT NULLS are not supported", position=position_of(node))
        node = node.this
    named = canonical_call(node)
    if named is None or not is_aggregate_name(named[0]):
        raise TypeMismatch(
            f"{named[0] if named else node.key} is not an aggregate function",
            sqlstate="42809",
            position=position_of(node),
        )
    written = _Written(named[0], named[1], filter=filter_)
    _take_inner(written)
    if within is not None:
        written.order, written.within = list(within.expressions), True
    return written


def _take_inner(written: _Written) -> None:
    """DISTINCT and ORDER BY stand inside the arguments in sqlglot's tree, in either order."""
    arguments: list[exp.Expression] = []
    for argument in written.arguments:
        while isinstance(argument, (exp.Order, exp.Distinct)):
            if isinstance(argument, exp.Order):
                written.order = list(argument.expressions)
                argument = argument.this
            else:
                written.distinct = True
                parts = argument.expressions
                if len(parts) != 1:
                    arguments += parts[:-1]
                argument = parts[-1]
        if isinstance(argument, exp.Star):
            written.star = True
        else:
            arguments.append(argument)
    written.arguments = arguments


def _typed_call(written: _Written, node: exp.Expression, scope: Scope) -> tuple[Function, AggregateCall]:
    arguments = scalars.infer_all(written.arguments, scope)
    order = [_ordered(part, scope) for part in written.order]
    if not written.within:
        order = [part for part in order if not _is_constant(part.this)]
    if written.within:
        _check_within(written, node)
        function, converted = resolve(written.name, [*arguments, *(part.this for part in order)], position_of(node))
        order[0].set("this", converted.pop())
        kinds = [*(type_of(a) for a in converted), type_of(order[0].this)]
    else:
        function, converted = _resolve(written, arguments, node)
        kinds = [type_of(a) for a in converted]
    _settle_constants(written.name, converted, node)
    if written.distinct and not order and function.name in _LISTS and not _is_constant(converted[0]):
        order = [_ascending(converted[0])]
    result = AggregateCall(
        this=function.signature,
        expressions=converted,
        distinct=written.distinct,
        order=exp.Order(expressions=order) if order else None,
        filter=scalars.infer_condition(written.filter, scope, "FILTER") if written.filter is not None else None,
    )
    _check(written, function, node)
    return function, typed(result, function.result_type(kinds))


def _resolve(
    written: _Written, arguments: list[exp.Expression], node: exp.Expression
) -> tuple[Function, list[exp.Expression]]:
    if written.star and written.name != "count":
        raise UndefinedName(f"function {written.name}(*) does not exist", sqlstate="42883", position=position_of(node))
    if written.name == "count" and written.distinct and len(arguments) > 1:
        raise Unsupported(
            "count(DISTINCT …) of several columns is not supported",
            hint="Count the rows of a SELECT DISTINCT of these columns.",
            position=position_of(node),
        )
    if written.name in _ORDERED_SETS:
        raise TypeMismatch(
            f"WITHIN GROUP is required for ordered-set aggregate {written.name}",
            sqlstate="42809",
            position=position_of(node),
        )
    return resolve(written.name, arguments, position_of(node))


_ORDERED_SETS = ("mode", "percentile_cont", "percentile_disc")


def _check_within(written: _Written, node: exp.Expression) -> None:
    if written.name not in _ORDERED_SETS:
        raise TypeMismatch(
            f"{written.name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP",
            sqlstate="42809",
            position=position_of(node),
        )
    if written.distinct:
        raise InvalidQuery("cannot use DISTINCT with WITHIN GROUP", sqlstate="42601", position=position_of(node))


_FRACTIONS = {"percentile_cont": 0, "percentile_disc": 0, "approx_percentile": 1}
"""Where an aggregate has its fraction."""


def _settle_constants(name: str, arguments: list[exp.Expression], node: exp.Expression) -> None:
    """What has to be known when a query is bound: the fraction of a percentile, and what stands between texts."""
    if name in _FRACTIONS and len(arguments) > _FRACTIONS[name]:
        arguments[_FRACTIONS[name]] = _fraction(name, arguments[_FRACTIONS[name]], node)
    if name == "string_agg" and len(arguments) == 2:
        arguments[1] = _separator(arguments[1], node)


def _fraction(name: str, argument: exp.Expression, node: exp.Expression) -> exp.Expression:
    place = position_of(argument) or position_of(node)
    value = constant_number(argument)
    if value is None:
        raise Unsupported(
            f"the fraction of {name} must be a constant",
            detail="It is a number between 0 and 1 that is the same for every row and every group.",
            hint="Write it as a number, such as 0.5; for several fractions, write several aggregates.",
            position=place,
        )
    if not 0 <= value <= 1:
        raise DataError(f"percentile value {float(value):g} is not between 0 and 1", sqlstate="22003", position=place)
    return constant(repr(float(value)), DOUBLE, argument)


def _separator(argument: exp.Expression, node: exp.Expression) -> exp.Expression:
    """NULL between texts is nothing."""
    if isinstance(argument, exp.Null):
        return constant("", TEXT, argument)
    if isinstance(argument, exp.Literal):
        return argument
    if not is_constant(argument):
        raise Unsupported(
            "the separator of string_agg must be a constant",
            detail="It is the same between all texts of a group.",
            hint="Put what differs from row to row into the first argument: string_agg(separator || value, '' …).",
            position=position_of(argument) or position_of(node),
        )
    return scalars.call("coalesce", [argument, constant("", TEXT)], node)


def _check(written: _Written, function: Function, node: exp.Expression) -> None:
    if function.shape == "window" and (written.distinct or written.filter is not None or written.order):
        raise Unsupported(
            f"DISTINCT, FILTER and ORDER BY are not for window function {written.name}", position=position_of(node)
        )
    if written.distinct and written.order:
        first = written.arguments[0]
        if any(part.this != first for part in written.order):
            raise InvalidQuery(
                "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                sqlstate="42P10",
                position=position_of(node),
            )


def _ordered(node: exp.Expression, scope: Scope) -> exp.Ordered:
    descending = bool(node.args.get("desc"))
    given = node.args.get("nulls_first")
    return exp.Ordered(
        this=scalars.infer_value(node.this, scope),
        desc=descending,
        nulls_first=descending if given is None else bool(given),
    )


_LISTS = ("array_agg", "string_agg")
"""With DISTINCT they sort their values, as PostgreSQL does, so equal groups give equal lists."""


def _ascending(value: exp.Expression) -> exp.Ordered:
    return exp.Ordered(this=value.copy(), desc=False, nulls_first=False)


def infer_order(order: exp.Expression, scope: Scope) -> exp.Order | None:
    """ORDER BY without constants, which sort nothing; None where nothing is left."""
    keys = [_ordered(part, scope) for part in order.expressions]
    kept = [key for key in keys if not _is_constant(key.this)]
    return exp.Order(expressions=kept) if kept else None


def _is_constant(node: exp.Expression) -> bool:
    while isinstance(node, Convert):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Null, exp.Boolean))


# --- OVER ----------------------------------------------------------------------------------------


def _window(node: exp.Window, scope: Scope) -> exp.Expression:
    written = _read(node.this)
    if written.distinct:
        raise Unsupported("DISTINCT is not implemented for window functions", position=position_of(node))
    if written.order:
        raise Unsupported(
            "ORDER BY inside the arguments of a window function is not supported", position=position_of(node)
        )
    function, call = _typed_call(written, node, scope)
    if function.name not in WINDOWED and function.shape != "window":
        raise Unsupported(f"{function.name} cannot be used with OVER", position=position_of(node))
    order = node.args.get("order")
    result = exp.Window(
        this=call,
        partition_by=[scalars.infer_value(part, scope) for part in node.args.get("partition_by") or []],
        order=infer_order(order, scope) if order is not None else None,
        over="OVER",
    )
    if node.args.get("spec") is not None:
        result.set("spec", _frame(node.args["spec"], result, scope))
    return typed(result, type_of(call))


WINDOWED = frozenset(
    """count sum avg min max any_value bool_and bool_or every stddev stddev_samp stddev_pop variance var_samp var_pop
    bit_and bit_or bit_xor corr covar_pop covar_samp""".split()
)


def _frame(spec: exp.Expression, window: exp.Window, scope: Scope) -> exp.WindowSpec:
    kind = str(spec.args.get("kind") or "RANGE").upper()
    order = window.args.get("order")
    if kind == "GROUPS" and order is None:
        raise InvalidQuery("GROUPS mode requires an ORDER BY clause", sqlstate="42P20", position=position_of(spec))
    bounds = {}
    for key in ("start", "end"):
        bound = spec.args.get(key)
        bounds[key] = _bound(bound, kind, order, scope) if isinstance(bound, exp.Expression) else _word(bound)
    exclude = spec.args.get("exclude")
    return exp.WindowSpec(
        kind=kind,
        start=bounds["start"],
        start_side=_side(spec.args.get("start_side")),
        end=bounds["end"] or "CURRENT ROW",
        end_side=_side(spec.args.get("end_side")) if bounds["end"] else None,
        exclude=exclude.name.upper() if isinstance(exclude, exp.Expression) else None,
    )


def _word(bound: object) -> str | None:
    return None if bound is None else str(bound).upper()


def _side(side: object) -> str | None:
    return None if side is None else str(side).upper()


def _bound(bound: exp.Expression, kind: str, order: exp.Expression | None, scope: Scope) -> exp.Expression:
    value = scalars.infer(bound, scope)
    if kind in ("ROWS", "GROUPS"):
        if not (type_of(value).is_integer or is_unknown(value)):
            raise TypeMismatch(
                f"argument of {kind} must be type bigint, not type {type_of(value)}", position=position_of(bound)
            )
        return convert(value, BIGINT)
    if order is None or len(order.expressions) != 1:
        raise InvalidQuery(
            "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
            sqlstate="42P20",
            position=position_of(bound),
        )
    key = type_of(order.expressions[0].this)
    if key.is_time:
        return convert(value, INTERVAL)
    if key.is_number:
        return convert(value, key)
    raise Unsupported(f"RANGE with an offset is not supported for {key}", position=position_of(bound))
