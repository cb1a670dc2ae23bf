"""Which calls are aggregates, window functions or set-returning ones, and where each may stand.

WHERE sum(x) > 1         aggregate functions are not allowed in WHERE (42803)
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from midstream.errors import InvalidQuery, Unsupported, WrongObject
from midstream.plan.nodes import child, outside_subqueries, place_of

_WINDOW_ONLY = (
    exp.RowNumber,
    exp.Rank,
    exp.DenseRank,
    exp.PercentRank,
    exp.CumeDist,
    exp.Ntile,
    exp.Lag,
    exp.Lead,
    exp.FirstValue,
    exp.LastValue,
    exp.NthValue,
)
_AGGREGATE_NAMES = frozenset(
    """every bool_and bool_or bit_and bit_or bit_xor array_agg string_agg listagg mode median min_by max_by
    any_value first last count_if covar_pop covar_samp corr stddev stddev_pop stddev_samp variance var_pop var_samp
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy percentile_cont
    percentile_disc approx_count_distinct approx_percentile percentile percentile_approx kurtosis skewness
    collect_list collect_set json_agg jsonb_agg json_object_agg jsonb_object_agg sum avg min max count""".split()
)
_NOT_AGGREGATES = (exp.Grouping, *_WINDOW_ONLY)
_SET_RETURNING = (exp.Explode, exp.ExplodingGenerateSeries, exp.Unnest, exp.Posexplode, exp.ExplodeOuter)


def function_name(call: exp.Expression) -> str:
    """The call's name as people write it."""
    if isinstance(call, exp.Anonymous):
        return call.name.lower()
    written = call.meta.get("name") or call.sql(dialect="postgres").partition("(")[0]
    return str(written).strip().lower()


def is_aggregate(node: exp.Expression) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _AGGREGATE_NAMES
    return isinstance(node, exp.AggFunc) and not isinstance(node, _NOT_AGGREGATES)


def is_set_returning(node: exp.Expression) -> bool:
    return isinstance(node, _SET_RETURNING)


def windowed_function(window: exp.Window) -> exp.Expression:
    """The function that stands before OVER."""
    function = child(window)
    while isinstance(function, exp.Filter | exp.WithinGroup):
        function = child(function)
    return function


def windows_in(node: exp.Expression) -> Iterator[exp.Window]:
    return (found for found in outside_subqueries(node) if isinstance(found, exp.Window))


def aggregates_in(node: exp.Expression) -> Iterator[exp.Expression]:
    """The aggregates that make their query a grouped one: those before OVER do not."""
    windowed = {id(windowed_function(window)) for window in windows_in(node)}
    return (found for found in outside_subqueries(node) if is_aggregate(found) and id(found) not in windowed)


def has_aggregate(node: exp.Expression) -> bool:
    return next(aggregates_in(node), None) is not None


def has_window(node: exp.Expression) -> bool:
    return next(windows_in(node), None) is not None


def refuse_calls(node: exp.Expression, where: str, *, aggregates: bool = True, windows: bool = True) -> None:
    """Raises if an expression has calls that its clause cannot have."""
    window = next(windows_in(node), None)
    if windows and window is not None:
        raise InvalidQuery(f"window functions are not allowed in {where}", sqlstate="42P20", position=place_of(window))
    aggregate = next(aggregates_in(node), None)
    if aggregates and aggregate is not None:
        raise InvalidQuery(f"aggregate functions are not allowed in {where}", position=place_of(aggregate))
    refuse_set_returning(node, where)


def refuse_set_returning(node: exp.Expression, where: str) -> None:
    found = next((found for found in outside_subqueries(node) if is_set_returning(found)), None)
    if found is not None:
        raise Unsupported(
            f"set-returning functions are not allowed in {where}",
            hint=f"Put {function_name(found)} into the FROM clause.",
            position=place_of(found),
        )


def check_nesting(node: exp.Expression) -> None:
    """Aggregates hold no aggregates, window functions no window functions, and window functions need OVER."""
    windows = list(windows_in(node))
    windowed = {id(windowed_function(window)) for window in windows}
    for aggregate in aggregates_in(node):
        _check_arguments(aggregate)
    for window in windows:
        if any(found is not window for found in windows_in(window)):
            raise InvalidQuery("window function calls cannot be nested", sqlstate="42P20", position=place_of(window))
    for found in outside_subqueries(node):
        if isinstance(found, _WINDOW_ONLY) and id(found) not in windowed:
            raise WrongObject(
                f"window function {function_name(found)} requires an OVER clause", position=place_of(found)
            )


def _check_arguments(aggregate: exp.Expression) -> None:
    call = whole_call(aggregate)
    inner = next((found for found in aggregates_in(call) if found is not aggregate), None)
    if inner is not None:
        raise InvalidQuery("aggregate function calls cannot be nested", position=place_of(inner))
    if has_window(call):
        raise InvalidQuery("aggregate function calls cannot contain window function calls", position=place_of(call))
    refuse_set_returning(call, "the arguments of an aggregate function")


def whole_call(aggregate: exp.Expression) -> exp.Expression:
    """The aggregate with its FILTER and WITHIN GROUP."""
    while isinstance(aggregate.parent, exp.Filter | exp.WithinGroup) and aggregate.arg_key == "this":
        aggregate = aggregate.parent
    return aggregate
