"""Comparison, NULL tests, and the choice among values."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.plan.functions.model import Function, KernelRefuses, Operand, Template, function
from midstream.types import Type

_SAMPLES = [
    ("1", "2"),
    ("2", "2"),
    ("NULL::int", "1"),
    ("'a'", "'B'"),
    ("'é'", "'f'"),
    ("1.5", "1.50"),
    ("1", "1.0"),
    ("'NaN'::float8", "'NaN'::float8"),
    ("'NaN'::float8", "'Infinity'::float8"),
    ("0.0::float8", "'-0'::float8"),
    ("true", "false"),
    ("date '2020-01-01'", "timestamp '2020-01-01 00:00:00'"),
    ("9223372036854775807", "1.5"),
    ("timestamptz '2020-01-01 00:00:00+02'", "timestamp '2019-12-31 22:00:00'"),
    ("''", "' '"),
    ("array[1,2]", "array[1,3]"),
    ("'a'::char(3)", "'a '::char(3)"),
    ("1.1::real", "1.1::float8"),
]


def _spark_comparison(text: str) -> Template:
    def render(operands: Sequence[Operand], result: Type) -> str:
        left, right = operands
        if left.type.name == "interval":
            raise KernelRefuses("Spark does not compare intervals as PostgreSQL does")
        return text.format(left.text, right.text)

    return render


def _duckdb_comparison(text: str) -> Template:
    return lambda operands, result: text.format(operands[0].text, operands[1].text)


def _comparisons() -> list[Function]:
    functions = []
    for operator in ("=", "<>", "<", "<=", ">", ">="):
        text = "({0} " + operator + " {1})"
        functions.append(
            function(
                f"{operator}(comparable, comparable) -> boolean",
                duckdb=_duckdb_comparison(text),
                spark=_spark_comparison(text),
                examples=[f"{a} {operator} {b}" for a, b in _SAMPLES],
            )
        )
    distinct = "({0} IS DISTINCT FROM {1})"
    same = "({0} IS NOT DISTINCT FROM {1})"
    pairs = [
        ("1", "NULL::int"),
        ("NULL::int", "NULL::int"),
        ("1", "1"),
        ("'a'", "'b'"),
        ("'NaN'::float8", "'NaN'::float8"),
    ]
    functions += [
        function(
            "is distinct from(comparable, comparable) -> boolean",
            duckdb=distinct,
            spark=_spark_comparison("(NOT ({0} <=> {1}))"),
            examples=[f"{a} IS DISTINCT FROM {b}" for a, b in pairs],
        ),
        function(
            "is not distinct from(comparable, comparable) -> boolean",
            duckdb=same,
            spark=_spark_comparison("({0} <=> {1})"),
            examples=[f"{a} IS NOT DISTINCT FROM {b}" for a, b in pairs],
        ),
    ]
    return functions


def _tests() -> list[Function]:
    truths = ("true", "false", "NULL::boolean")
    return [
        function(
            "is null(any) -> boolean", both="({0} IS NULL)", examples=["1 IS NULL", "NULL IS NULL", "'' IS NOT NULL"]
        ),
        function("is true(boolean) -> boolean", both="({0} IS TRUE)", examples=[f"{t} IS TRUE" for t in truths]),
        function("is false(boolean) -> boolean", both="({0} IS FALSE)", examples=[f"{t} IS NOT FALSE" for t in truths]),
    ]


def _nullif(operands: Sequence[Operand], result: Type) -> str:
    return f"nullif({operands[0].text}, {operands[1].text})"


def _single_or(name: str) -> Template:
    def render(operands: Sequence[Operand], result: Type) -> str:
        if len(operands) == 1:
            return operands[0].text
        if name != "coalesce" and result.name == "interval":
            raise KernelRefuses("intervals cannot be ordered on this kernel")
        return f"{name}({', '.join(operand.text for operand in operands)})"

    return render


def _choices() -> list[Function]:
    return [
        function(
            "coalesce(anyelement, ...) -> any",
            both=_single_or("coalesce"),
            examples=["coalesce(NULL, 1, 2)", "coalesce(NULL, 1.5, 2)", "coalesce(NULL::int, NULL)", "coalesce('a')"],
        ),
        function(
            "nullif(comparable, comparable) -> any",
            both=_nullif,
            examples=["nullif(1, 1)", "nullif(1, 2.5)", "nullif('a', 'b')", "nullif(NULL::int, 1)"],
        ),
        function(
            "greatest(comparable, ...) -> any",
            both=_single_or("greatest"),
            examples=[
                "greatest(1, NULL, 3)",
                "greatest('a', 'B')",
                "greatest(1, 2.5)",
                "greatest(NULL::int, NULL)",
                "greatest(1::float8, 'NaN')",
            ],
        ),
        function(
            "least(comparable, ...) -> any",
            both=_single_or("least"),
            examples=["least(1, NULL, 3)", "least('a', 'B')", "least(1, 2.5)", "least(1::float8, 'NaN')"],
        ),
    ]


FUNCTIONS = [*_comparisons(), *_tests(), *_choices()]
