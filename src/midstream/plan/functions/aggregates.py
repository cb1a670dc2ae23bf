"""Aggregates. A template gets a writer that puts DISTINCT, ORDER BY, FILTER and OVER around a kernel's call.

`sum` of integers is bigint and fails beyond it; `avg` of numerics is exact; `array_agg` keeps NULLs.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.plan.functions.model import Function, bounded_numeric, function, numeric_digits
from midstream.types import NUMERIC, Type, array_of


def _sum_type(types: Sequence[Type]) -> Type:
    precision, scale = numeric_digits(types[0])
    return NUMERIC(min(38, precision + 10), scale)


def average_type(types: Sequence[Type]) -> Type:
    precision, scale = numeric_digits(types[0])
    return bounded_numeric(precision - scale, min(scale + 4, 38))


def aggregate(signature: str, duckdb: str, spark: str, **more: object) -> Function:
    return function(signature, duckdb=duckdb, spark=spark, shape="aggregate", **more)  # type: ignore[arg-type]


def _sums() -> list[Function]:
    functions = [
        aggregate(f"sum({name}) -> bigint", "CAST({agg:sum} AS BIGINT)", "{agg:sum}") for name in ("smallint", "int", "bigint")
    ]
    functions += [
        aggregate("sum(numeric) -> numeric", "CAST({agg:sum} AS {type})", "CAST({agg:sum} AS {type})", result=_sum_type),
        *[aggregate(f"sum({name}) -> double precision", "CAST({agg:sum} AS DOUBLE)", "{agg:sum}", approximate=True)
          for name in ("real", "double precision")],
    ]  # fmt: skip
    return functions


def _averages() -> list[Function]:
    functions = [
        aggregate(f"avg({name}) -> double precision", "{agg:avg}", "{agg:avg}", approximate=True)
        for name in ("smallint", "int", "bigint", "real", "double precision")
    ]
    functions.append(
        aggregate("avg(numeric) -> numeric", "{average}", "CAST({agg:avg} AS {type})", result=average_type)
    )
    return functions


def _extremes() -> list[Function]:
    kinds = ("smallint", "int", "bigint", "numeric", "real", "double precision", "text", "date", "timestamp", "timestamptz")
    return [aggregate(f"{name}({kind}) -> same", f"{{agg:{name}}}", f"{{agg:{name}}}") for name in ("min", "max") for kind in kinds]


FUNCTIONS: list[Function] = [
    aggregate("count() -> bigint", "{star}", "{star}"),
    aggregate("count(any) -> bigint", "{agg:count}", "{agg:count}"),
    *_sums(),
    *_averages(),
    *_extremes(),
    aggregate("bool_and(boolean) -> boolean", "{agg:bool_and}", "{agg:bool_and}"),
    aggregate("bool_or(boolean) -> boolean", "{agg:bool_or}", "{agg:bool_or}"),
    aggregate("every(boolean) -> boolean", "{agg:bool_and}", "{agg:bool_and}"),
    aggregate("array_agg(any) -> any", "{agg:array_agg}", "{list}", result=lambda types: array_of(types[0])),
]

