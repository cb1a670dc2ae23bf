"""The table of functions as a page of the docs: `python -m midstream.plan.functions.page > docs/functions.md`."""

from __future__ import annotations

from midstream.plan.functions import FAMILIES
from midstream.plan.functions.model import Function, Refusal
from midstream.types import Type

_TOP = """# Functions and operators

Every line here is tested: its examples give PostgreSQL's answer, or its error, on both kernels, NULLs and
extremes included. Where a kernel cannot give it, the other one runs the query, and the column says which. What is
not here does not exist, and says so.

Rules that hold for all of them:

- `int / int` is an integer; division by zero, overflow and a failed cast are errors.
- Sums, differences and products of numerics are exact or an error; quotients and averages are rounded, half away
  from zero, to the scale of their type: `numeric(10,2) / numeric(10,2)` is `numeric(23,13)`. `numeric` alone is
  `numeric(38,10)` and has neither NaN nor Infinity.
- Floating-point numbers that grow too large become Infinity. NaN equals NaN and is larger than every number.
- Results have Spark's types: `sum(int)` is bigint, `avg(int)` double precision, `avg(numeric)` numeric; `sqrt`, `power`
  and their kin are double precision also for numerics, and `extract` gives int where PostgreSQL gives numeric.
- Texts compare by code point. Letters change case one for one.
- Dates and timestamps go from the year 1 to 9999; time zones other than UTC only by `AT TIME ZONE`.
"""


def functions_page() -> str:
    parts = [_TOP]
    for family, functions in FAMILIES.items():
        parts.append(f"## {family}\n\n| function | result | runs on | example |\n|---|---|---|---|\n{_rows(functions)}")
    return "\n".join(parts)


def _rows(functions: list[Function]) -> str:
    return "".join(_row(function) for function in functions)


def _row(function: Function) -> str:
    example = function.examples[0].partition(" == ")[0] if function.examples else ""
    remarks = [function.note] + ["An estimate."] * function.name.startswith("approx_")
    cells = (_code(function.signature), _result(function), _kernels(function), _code(example) + _remark(remarks))
    return f"| {' | '.join(cells)} |\n"


def _remark(remarks: list[str]) -> str:
    return "".join(f" {remark}" for remark in remarks if remark)


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def _result(function: Function) -> str:
    if isinstance(function.result, Type):
        return str(function.result)
    return "numeric" if any(p.name == "numeric" for p in function.parameters) else "as its arguments"


def _kernels(function: Function) -> str:
    refused = [isinstance(function.duckdb, Refusal), isinstance(function.spark, Refusal)]
    return {(False, False): "both", (True, False): "Spark", (False, True): "DuckDB"}[refused[0], refused[1]]


if __name__ == "__main__":
    print(functions_page(), end="")
