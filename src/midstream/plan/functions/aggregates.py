"""Aggregates.

Templates have parts in braces, which the renderer fills in: `{agg:sum}` is the kernel's aggregate with
DISTINCT, ORDER BY, FILTER and OVER around it, `{type}` the kernel's name of the result type, `{list}` all values
in the order of ORDER BY, NULLs included. `sum` of integers is bigint and fails beyond it, `avg` of numerics is
exact, `array_agg` keeps NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.plan.functions.model import (
    FLOATS,
    INTEGERS,
    Function,
    Refusal,
    Result,
    bounded_numeric,
    function,
    numeric_digits,
)
from midstream.types import NUMERIC, Type, array_of


def _sum_type(types: Sequence[Type]) -> Type:
    precision, scale = numeric_digits(types[0])
    return NUMERIC(min(38, precision + 10), scale)


def average_type(types: Sequence[Type]) -> Type:
    precision, scale = numeric_digits(types[0])
    return bounded_numeric(precision - scale, min(scale + 4, 38))


def aggregate(
    signature: str,
    duckdb: str | Refusal,
    spark: str | Refusal,
    examples: Sequence[str],
    *,
    result: Result | None = None,
    approximate: bool = False,
    note: str = "",
) -> Function:
    return function(
        signature,
        duckdb=duckdb,
        spark=spark,
        examples=examples,
        result=result,
        shape="aggregate",
        approximate=approximate,
        note=note,
    )


def _same(signature: str, name: str, examples: Sequence[str], approximate: bool = False, note: str = "") -> Function:
    return aggregate(signature, f"{{agg:{name}}}", f"{{agg:{name}}}", examples, approximate=approximate, note=note)


_COLUMNS = {
    "smallint": "s",
    "int": "i",
    "bigint": "b",
    "numeric": "n",
    "real": "r",
    "double precision": "f",
    "text": "t",
    "date": "d",
    "timestamp": "ts",
    "timestamptz": "tz",
}


def _variants(name: str, column: str) -> list[str]:
    distinct = [f"{name}(DISTINCT {column})"] if column in ("i", "n", "t") and name not in ("min", "max") else []
    return [f"{name}({column})", *distinct, f"{name}({column}) FILTER (WHERE id > 2)"]


def _counts() -> list[Function]:
    return [
        aggregate("count() -> bigint", "{star}", "{star}", ["count(*)", "count(*) FILTER (WHERE i = 2)"]),
        _same(
            "count(any) -> bigint", "count", [e for c in ("i", "t", "f", "n", "ts", "o") for e in _variants("count", c)]
        ),
    ]


def _sums() -> list[Function]:
    functions = [
        aggregate(f"sum({name}) -> bigint", "CAST({agg:sum} AS BIGINT)", "{agg:sum}", _variants("sum", _COLUMNS[name]))
        for name in INTEGERS
    ]
    functions.append(
        aggregate(
            "sum(numeric) -> numeric",
            "CAST({agg:sum} AS {type})",
            "CAST({agg:sum} AS {type})",
            _variants("sum", "n"),
            result=_sum_type,
        )
    )
    functions += [
        aggregate(
            f"sum({name}) -> double precision",
            "CAST({agg:sum} AS DOUBLE)",
            "{agg:sum}",
            _variants("sum", _COLUMNS[name]),
            approximate=True,
        )
        for name in FLOATS
    ]
    return functions


def _averages() -> list[Function]:
    functions = [
        _same(f"avg({name}) -> double precision", "avg", _variants("avg", _COLUMNS[name]), approximate=True)
        for name in INTEGERS + FLOATS
    ]
    functions.append(
        aggregate(
            "avg(numeric) -> numeric",
            "{average}",
            "CAST({agg:avg} AS {type})",
            _variants("avg", "n"),
            result=average_type,
        )
    )
    return functions


def _extremes() -> list[Function]:
    return [
        aggregate(f"{name}({kind}) -> same", f"{{agg:{name}}}", f"{{agg:{name}}}", _variants(name, column))
        for name in ("min", "max")
        for kind, column in _COLUMNS.items()
    ]


def _any() -> list[Function]:
    """Any value that is not NULL will do; the least one is the same whoever asks, and however rows come."""
    columns = {**_COLUMNS, "boolean": "o"}
    return [
        aggregate(
            f"any_value({kind}) -> same",
            "{agg:min}",
            "{agg:min}",
            [f"any_value({column}){some} == {_least(kind)}({column}){some}" for some in ("", " FILTER (WHERE id > 2)")],
            note="The least of them." if kind == "smallint" else "",
        )
        for kind, column in columns.items()
    ]


def _least(kind: str) -> str:
    return "bool_and" if kind == "boolean" else "min"


def _truths() -> list[Function]:
    filtered = "(i > 0) FILTER (WHERE id < 3)"
    some = ["some(o) == bool_or(o)", f"some{filtered} == bool_or{filtered}"]
    return [
        _truth("bool_and", "bool_and"),
        _truth("bool_or", "bool_or", some, note="Also `some(o)`."),
        _truth("every", "bool_and"),
    ]


def _truth(name: str, kernel: str, more: Sequence[str] = (), note: str = "") -> Function:
    examples = [f"{name}(o)", f"{name}(i > 0)", f"{name}(o) FILTER (WHERE id < 3)", *more]
    return _same(f"{name}(boolean) -> boolean", kernel, examples, note=note)


def _bits() -> list[Function]:
    return [
        _same(f"{name}({kind}) -> {kind}", name, [f"{name}({_COLUMNS[kind]})"])
        for name in ("bit_and", "bit_or", "bit_xor")
        for kind in INTEGERS
    ]


_SPREADS = ("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop")
_PAIRS = (
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
)


def _statistics() -> list[Function]:
    functions = [
        _statistic(
            f"{name}(double precision) -> double precision",
            "{spread:" + {"variance": "var_samp", "stddev": "stddev_samp"}.get(name, name) + "}",
            [f"{name}(i)", f"{name}(n)", f"{name}(r)", f"{name}(i) FILTER (WHERE id = 1)", f"{name}(DISTINCT i)"],
        )
        for name in _SPREADS
    ]
    functions += [
        _statistic(
            f"{name}(double precision, double precision) -> double precision",
            "{pairs:" + name + "}",
            [f"{name}(i, s)", f"{name}(n, r)", f"{name}(i, s) FILTER (WHERE id = 1)"],
        )
        for name in _PAIRS
    ]
    functions.append(
        aggregate(
            "regr_count(double precision, double precision) -> bigint",
            "CAST({agg:regr_count} AS BIGINT)",
            "CAST({agg:regr_count} AS BIGINT)",
            ["regr_count(i, s)"],
        )
    )
    return functions


def _statistic(signature: str, template: str, examples: Sequence[str]) -> Function:
    return aggregate(signature, template, template, examples, approximate=True)


def _lists() -> list[Function]:
    orders = (
        "array_agg({} ORDER BY id)",
        "array_agg({} ORDER BY id DESC)",
        "array_agg({} ORDER BY i NULLS FIRST, id)",
        "array_agg({} ORDER BY t DESC, id) FILTER (WHERE id <> 4)",
    )
    arrays = [order.format(column) for order in orders for column in ("i", "t", "n")] + [
        "array_agg(DISTINCT i ORDER BY i)"
    ]
    texts = [
        "string_agg(t, ',' ORDER BY id)",
        "string_agg(t, '' ORDER BY t DESC, id)",
        "string_agg(DISTINCT t, ';' ORDER BY t)",
        "string_agg(t, ',' ORDER BY id) FILTER (WHERE t <> 'x')",
    ]
    return [
        aggregate(
            "array_agg(any) -> any", "{agg:array_agg}", "{list}", arrays, result=lambda types: array_of(types[0])
        ),
        aggregate("string_agg(text, text) -> text", "{joined}", "{joined}", texts),
        aggregate(
            "first(any) -> any",
            "{first}",
            "{first}",
            [
                "first(t ORDER BY id DESC) == (array_agg(t ORDER BY id DESC))[1]",
                "first(i ORDER BY i) == (array_agg(i ORDER BY i))[1]",
            ],
        ),
        aggregate(
            "last(any) -> any", "{last}", "{last}", ["last(t ORDER BY id) == (array_agg(t ORDER BY id DESC))[1]"]
        ),
    ]


def _by_key() -> list[Function]:
    functions = []
    for name, kernel, direction in (("min_by", "arg_min", "ASC"), ("max_by", "arg_max", "DESC")):
        judged = f"(array_agg({{}} ORDER BY {{}} {direction}) FILTER (WHERE {{}} IS NOT NULL))[1]"
        functions.append(
            aggregate(
                f"{name}(any, any) -> any",
                f"{{by:{kernel}}}",
                f"{{agg:{name}}}",
                [f"{name}({x}, {y}) == {judged.format(x, y, y)}" for x, y in (("t", "id"), ("i", "ts"), ("n", "id"))],
            )
        )
    return functions


def _ordered_sets() -> list[Function]:
    within = "WITHIN GROUP (ORDER BY {})"
    numbers = ("i", "n", "r")
    continuous = [f"percentile_cont({p}) {within.format(c)}" for p in (0.5, 0, 1, 0.3) for c in numbers]
    discrete = [f"percentile_disc({p}) {within.format(c)}" for p in (0.5, 0, 1, 0.3) for c in ("i", "n", "t", "d")]
    return [
        aggregate(
            "percentile_cont(double precision, double precision) -> double precision",
            "{within:quantile_cont}",
            "{within:percentile_cont}",
            continuous,
            approximate=True,
            note="Also of an array of fractions, as an array.",
        ),
        aggregate(
            "percentile_disc(double precision, any) -> any",
            "{disc}",
            "{disc}",
            discrete,
            result=lambda types: types[1],
            note="Also of an array of fractions, as an array.",
        ),
        aggregate(
            "median(double precision) -> double precision",
            "{agg:median}",
            "{agg:median}",
            [f"median({c}) == percentile_cont(0.5) {within.format(c)}" for c in numbers],
            approximate=True,
        ),
        aggregate("mode(any) -> any", "{mode}", "{mode}", [f"mode() {within.format(c)}" for c in ("i", "t", "d", "n")]),
    ]


def _estimates() -> list[Function]:
    return [
        aggregate(
            "approx_count_distinct(any) -> bigint",
            "{agg:approx_count_distinct}",
            "{agg:approx_count_distinct}",
            ["approx_count_distinct(i) == count(DISTINCT i)", "approx_count_distinct(t) == count(DISTINCT t)"],
        ),
        aggregate(
            "approx_percentile(double precision, double precision) -> double precision",
            # DuckDB's estimate, approx_quantile, gives a number near zero for the largest of negative numbers.
            "{estimate:quantile_disc}",
            "{estimate:approx_percentile}",
            ["approx_percentile(i, 0.5) FILTER (WHERE i = 2) == avg(i) FILTER (WHERE i = 2)"]
            + ["approx_percentile(-abs(i), 1) == max(CAST(-abs(i) AS double precision))"],
            approximate=True,
        ),
    ]


FUNCTIONS: list[Function] = [
    *_counts(),
    *_sums(),
    *_averages(),
    *_extremes(),
    *_any(),
    *_truths(),
    *_bits(),
    *_statistics(),
    *_lists(),
    *_by_key(),
    *_ordered_sets(),
    *_estimates(),
]
