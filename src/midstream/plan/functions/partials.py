"""What maintenance computes and nobody can write: parts of aggregates, and what puts them together again.

Every name has a space in it, so no query can call it. Vectors of moments are arrays: [n, mean, m2] of one value,
[n, mean x, mean y, sxx, syy, sxy] of two; they merge by the formula of Chan, Golub and LeVeque, which is stable
however the rows are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from midstream.plan.functions.model import Function, Operand, Template, function, numeric_digits
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


# --- sums of many digits ---------------------------------------------------------------------------

MOST_SUMMED_DIGITS = 28
"""Of numerics with more digits, few rows can have a sum of more than 38: they are summed in two parts, each of about
half of the digits. Where more than these stand behind the point, one part would not be shorter."""
_LOW_DIGITS = 19


def low_part_type(scale: int) -> Type:
    return NUMERIC(max(_LOW_DIGITS, scale), scale)


HIGH_PART = NUMERIC(_LOW_DIGITS, 0)


def _unit(scale: int) -> str:
    """What the high part counts: a power of ten, and one at least."""
    return "1" + "0" * max(0, _LOW_DIGITS - scale)


def _rest(value: Operand) -> str:
    unit = _unit(numeric_digits(value.type)[1])
    return f"({value.text} % CAST('{unit}' AS DECIMAL({len(unit)}, 0)))"


def _duckdb_units(value: Operand) -> str:
    unit = _unit(numeric_digits(value.type)[1])
    return f"(CAST({value.text} - {_rest(value)} AS HUGEINT) // CAST('{unit}' AS HUGEINT))"


def _spark_units(value: Operand) -> str:
    unit = _unit(numeric_digits(value.type)[1])
    return f"CAST(({value.text} - {_rest(value)}) / CAST('{unit}' AS DECIMAL({len(unit)}, 0)) AS DECIMAL(38, 0))"


def _split(value: Operand, small: str, large: str, result: Type) -> str:
    """Most values are smaller than a unit, and need no division."""
    precision, scale = numeric_digits(value.type)
    unit = f"CAST('{_unit(scale)}' AS DECIMAL({precision}, {scale}))"
    chosen = f"CASE WHEN {value.text} < {unit} AND {value.text} > -{unit} THEN {small} ELSE {large} END"
    return f"CAST({chosen} AS DECIMAL({result.precision}, {result.scale}))"


def _low_part(operands: Sequence[Operand], result: Type) -> str:
    return _split(operands[0], operands[0].text, _rest(operands[0]), result)


def _high_part(units: Callable[[Operand], str]) -> Template:
    return lambda operands, result: _split(operands[0], "0", units(operands[0]), result)


def _duckdb_sum_of_parts(operands: Sequence[Operand], result: Type) -> str:
    high, low = operands
    unit = f"CAST('{_unit(result.scale or 0)}' AS HUGEINT)"
    return _put_together(f"(CAST({high.text} AS HUGEINT) + {_duckdb_units(low)}) * {unit}", low, result)


def _spark_sum_of_parts(operands: Sequence[Operand], result: Type) -> str:
    high, low = operands
    unit = _unit(result.scale or 0)
    whole = f"({high.text} + {_spark_units(low)}) * CAST('{unit}' AS DECIMAL({len(unit)}, 0))"
    return _put_together(whole, low, result)


def _put_together(whole: str, low: Operand, result: Type) -> str:
    scale = result.scale or 0
    wide = f"CAST(CAST({whole} AS DECIMAL({38 - scale}, 0)) AS DECIMAL(38, {scale}))"
    return f"CAST({wide} + {_rest(low)} AS DECIMAL(38, {scale}))"


_SUMS_OF_PARTS = [
    function(
        "high part(numeric) -> numeric",
        duckdb=_high_part(_duckdb_units),
        spark=_high_part(_spark_units),
        result=HIGH_PART,
    ),
    function("low part(numeric) -> numeric", both=_low_part, result=lambda types: types[0]),
    function(
        "sum of parts(numeric, numeric) -> numeric",
        duckdb=_duckdb_sum_of_parts,
        spark=_spark_sum_of_parts,
        result=lambda types: types[1],
    ),
]

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
    *_SUMS_OF_PARTS,
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
