"""What maintenance computes and nobody can write: parts of aggregates, and what puts them together again.

Every name has a space in it, so no query can call it. Vectors of moments are arrays: [n, mean, m2] of one value,
[n, mean x, mean y, sxx, syy, sxy] of two; they merge by the formula of Chan, Golub and LeVeque, which is stable
however the rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midstream.plan.functions.model import Function, Operand, Template, function
from midstream.plan.functions.numbers import exact_quotient
from midstream.types import BIGINT, DOUBLE, INT, NUMERIC, TEXT, Type, array_of

VECTOR = array_of(DOUBLE)
WIDE = NUMERIC(38, 0)
SKETCH_BUCKETS = 4096


def _aggregate(signature: str, result: Type | None, template: str) -> Function:
    return function(
        f"{signature} -> same" if result is None else f"{signature} -> bigint",
        both=template,
        result=result,
        shape="aggregate",
    )


def _scalar(signature: str, result: Type, duckdb: Template, spark: Template) -> Function:
    return function(f"{signature} -> bigint", duckdb=duckdb, spark=spark, result=result)


# --- vectors of moments ----------------------------------------------------------------------------


def _finished(formula: Callable[[Callable[[int], str]], str]) -> tuple[Template, Template]:
    """A formula over the elements of a vector, on DuckDB and on Spark; elements count from 0."""

    def duckdb(operands: Sequence[Operand], result: Type) -> str:
        return formula(lambda i: f"{operands[0].text}[{i + 1}]")

    def spark(operands: Sequence[Operand], result: Type) -> str:
        return formula(lambda i: f"get({operands[0].text}, {i})")

    return duckdb, spark


def _when(condition: str, value: str) -> str:
    return f"CASE WHEN {condition} THEN {value} END"


_ONE: dict[str, Callable[[Callable[[int], str]], str]] = {
    "var_pop": lambda at: f"({at(2)} / {at(0)})",
    "var_samp": lambda at: _when(f"{at(0)} > 1", f"{at(2)} / ({at(0)} - 1)"),
    "stddev_pop": lambda at: f"sqrt({at(2)} / {at(0)})",
    "stddev_samp": lambda at: _when(f"{at(0)} > 1", f"sqrt({at(2)} / ({at(0)} - 1))"),
}
_ONE["variance"], _ONE["stddev"] = _ONE["var_samp"], _ONE["stddev_samp"]
OF_PAIRS: dict[str, Callable[[Callable[[int], str]], str]] = {
    "covar_pop": lambda at: f"({at(5)} / {at(0)})",
    "covar_samp": lambda at: _when(f"{at(0)} > 1", f"{at(5)} / ({at(0)} - 1)"),
    "corr": lambda at: _when(f"{at(3)} > 0 AND {at(4)} > 0", f"{at(5)} / (sqrt({at(3)}) * sqrt({at(4)}))"),
    "regr_avgx": lambda at: at(1),
    "regr_avgy": lambda at: at(2),
    "regr_sxx": lambda at: at(3),
    "regr_syy": lambda at: at(4),
    "regr_sxy": lambda at: at(5),
    "regr_slope": lambda at: _when(f"{at(3)} > 0", f"{at(5)} / {at(3)}"),
    "regr_intercept": lambda at: _when(f"{at(3)} > 0", f"{at(2)} - {at(5)} / {at(3)} * {at(1)}"),
    "regr_r2": lambda at: (
        f"CASE WHEN {at(3)} > 0 AND {at(4)} > 0 THEN {at(5)} * {at(5)} / ({at(3)} * {at(4)}) "
        f"WHEN {at(3)} > 0 THEN 1.0e0 END"
    ),
}
ONE_VALUE, TWO_VALUES = frozenset(_ONE), frozenset([*OF_PAIRS, "regr_count"])


def _finishers() -> list[Function]:
    found = [
        _scalar(f"finish {name}(double precision[])", DOUBLE, *_finished(formula))
        for name, formula in {**_ONE, **OF_PAIRS}.items()
    ]
    count = _finished(lambda at: f"CAST(coalesce({at(0)}, 0) AS BIGINT)")
    return [*found, _scalar("finish regr_count(double precision[])", BIGINT, *count)]


# --- averages --------------------------------------------------------------------------------------


def _exact_average(operands: Sequence[Operand], result: Type) -> str:
    count = Operand(f"CAST({operands[1].text} AS DECIMAL(10, 0))", NUMERIC(10, 0))
    return f"CASE WHEN {operands[1].text} > 0 THEN {exact_quotient(operands[0], count, result)} END"


def _spark_average(operands: Sequence[Operand], result: Type) -> str:
    quotient = f"{operands[0].text} / CAST({operands[1].text} AS DECIMAL(10, 0))"
    return f"CASE WHEN {operands[1].text} > 0 THEN CAST({quotient} AS DECIMAL({result.precision}, {result.scale})) END"


_RATIO = "({0} / nullif({1}, CAST(0 AS DOUBLE)))"

# --- sketches --------------------------------------------------------------------------------------

_RANK = "CASE WHEN {w} > 0 THEN 52 - CAST(floor(log2(CAST({w} AS DOUBLE))) AS INTEGER) ELSE 53 END"
_DUCKDB_WORD, _SPARK_WORD = "(hash({0}) // 4096)", "shiftrightunsigned(xxhash64({0}), 12)"
_NOT_NULL = "CASE WHEN {0} IS NOT NULL THEN {value} END"
_DIGITS = "greatest(-300, least(300, CAST(3 - floor(log10(abs({0}))) AS INTEGER)))"


def _if_there(value: str) -> str:
    return _NOT_NULL.replace("{value}", value)


_SCALARS = [
    *_finishers(),
    function(
        "exact average(numeric, bigint) -> numeric",
        duckdb=_exact_average,
        spark=_spark_average,
        result=lambda types: types[0],
    ),
    _scalar("ratio of(double precision, double precision)", DOUBLE, _RATIO, _RATIO),
    _scalar(
        "sketch bucket(any)",
        INT,
        _if_there(f"CAST(hash({{0}}) % {SKETCH_BUCKETS} AS INTEGER)"),
        _if_there(f"CAST(pmod(xxhash64({{0}}), {SKETCH_BUCKETS}) AS INT)"),
    ),
    _scalar(
        "sketch rank(any)",
        INT,
        _if_there(_RANK.replace("{w}", _DUCKDB_WORD)),
        _if_there(_RANK.replace("{w}", _SPARK_WORD)),
    ),
    _scalar(
        "four digits(double precision)",
        DOUBLE,
        f"CASE WHEN {{0}} = 0 OR NOT isfinite({{0}}) THEN {{0}} ELSE round({{0}}, {_DIGITS}) END",
        "CASE WHEN {0} = 0 OR isnan({0}) OR abs({0}) = double('inf') THEN {0} "
        f"ELSE round({{0}} * pow(10.0e0, {_DIGITS})) / pow(10.0e0, {_DIGITS}) END",
    ),
]
_AGGREGATES = [
    _aggregate("wide sum(bigint)", WIDE, "{wide}"),
    _aggregate("wide sum(numeric)", None, "CAST({agg:sum} AS {type})"),
    _aggregate("moments of(double precision)", VECTOR, "{moments}"),
    _aggregate("joint moments of(double precision, double precision)", VECTOR, "{joint_moments}"),
    _aggregate("merge moments(double precision[])", VECTOR, "{merge:moments}"),
    _aggregate("merge joint moments(double precision[])", VECTOR, "{merge:joint}"),
    _aggregate("repeated values(any, bigint)", VECTOR, "{repeated}"),
    _aggregate("repeated texts(text, bigint, text)", TEXT, "{repeated_texts}"),
    _aggregate("weighted cont(double precision, double precision, bigint, bigint)", DOUBLE, "{weighted_cont}"),
    _aggregate("weighted disc(double precision, any, bigint, bigint)", None, "{weighted_disc:min}"),
    _aggregate("weighted disc desc(double precision, any, bigint, bigint)", None, "{weighted_disc:max}"),
    _aggregate("estimate of(int)", BIGINT, "{sketch}"),
]
FUNCTIONS: list[Function] = [*_SCALARS, *_AGGREGATES]
