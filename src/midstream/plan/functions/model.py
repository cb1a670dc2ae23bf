"""A function as data: its signature, its text on each kernel, and the examples that show that they agree.

A `Function` is one overload. A kernel's template gives text of exactly the declared result type, with
PostgreSQL's answer; a `Refusal` in its place says why that kernel cannot give it. Operators are functions
whose name is the operator.

    function("left(text, int) -> text", both="left({0}, {1})", examples=["left('abc', -1)"])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from midstream.kernels import Kernel
from midstream.types import NULL, NUMERIC, Type, array_of, parse_type


@dataclass(frozen=True)
class Operand:
    """An argument as a template sees it. `literal` is its value where it is a constant that is not NULL."""

    text: str
    type: Type
    literal: str | None = None


@dataclass(frozen=True)
class Refusal:
    """Why a kernel cannot compute something as PostgreSQL does."""

    reason: str


class KernelRefuses(Exception):
    """Raised by a template for arguments that its kernel cannot handle; never leaves `render` and `refusal`."""


Template = str | Callable[[Sequence[Operand], Type], str]
Result = Type | Callable[[Sequence[Type]], Type]
Shape = Literal["scalar", "aggregate", "window", "set"]


@dataclass(frozen=True)
class Parameter:
    """What an argument must be.

    A type's name; `any`; `astext` for anything that is then written as text; `anyelement` and `anyarray` for one
    type that all such arguments share, `comparable` where it must have an order."""

    name: str

    @property
    def is_variable(self) -> bool:
        return self.name in ("any", "astext", "anyelement", "comparable", "anyarray")

    @property
    def type(self) -> Type:
        """The type that an untyped literal takes here, and that implicit casts go to."""
        if self.is_variable:
            return NULL
        return parse_type(self.name)


@dataclass(frozen=True)
class Function:
    name: str
    parameters: tuple[Parameter, ...]
    result: Result
    duckdb: Template | Refusal
    spark: Template | Refusal
    examples: tuple[str, ...] = ()
    shape: Shape = "scalar"
    variadic: bool = False
    """The last parameter may repeat, or be left out altogether."""
    approximate: bool = False
    """The answer is an estimate, or depends on the kernel in its last digits."""
    volatile: bool = False
    note: str = ""
    """What a reader of the docs should know."""
    by_constants: Callable[[Sequence[Type], Sequence[str | None]], Type] | None = None
    """The result's type where it depends on the value of an argument that is a constant, such as a scale."""

    @property
    def signature(self) -> str:
        inside = ", ".join(p.name for p in self.parameters) + (", ..." if self.variadic else "")
        return f"{self.name}({inside})"

    def template(self, kernel: Kernel) -> Template | Refusal:
        return self.duckdb if kernel == "duckdb" else self.spark

    def result_type(self, arguments: Sequence[Type], constants: Sequence[str | None] = ()) -> Type:
        if self.by_constants is not None and constants:
            return self.by_constants(arguments, constants)
        return self.result if isinstance(self.result, Type) else self.result(arguments)

    def accepts(self, count: int) -> bool:
        if self.variadic:
            return count >= len(self.parameters) - 1
        return count == len(self.parameters)

    def parameter(self, index: int) -> Parameter:
        return self.parameters[min(index, len(self.parameters) - 1)]


_SIGNATURE = re.compile(r"(?P<name>[^(]+)\((?P<inside>[^)]*)\)\s*->\s*(?P<result>.+)")


def function(
    signature: str,
    *,
    both: Template | None = None,
    duckdb: Template | Refusal | None = None,
    spark: Template | Refusal | None = None,
    examples: Iterable[str] = (),
    result: Result | None = None,
    shape: Shape = "scalar",
    approximate: bool = False,
    volatile: bool = False,
    note: str = "",
    by_constants: Callable[[Sequence[Type], Sequence[str | None]], Type] | None = None,
) -> Function:
    """Reads `name(type, type, ...) -> type`; `result` replaces the written type where it depends on the arguments."""
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise ValueError(signature)
    names = [part.strip() for part in match["inside"].split(",") if part.strip()]
    variadic = bool(names) and names[-1] == "..."
    return Function(
        name=match["name"],
        parameters=tuple(Parameter(name) for name in (names[:-1] if variadic else names)),
        result=result or written_result(match["result"], names),
        duckdb=_given(duckdb, both),
        spark=_given(spark, both),
        examples=tuple(examples),
        shape=shape,
        variadic=variadic,
        approximate=approximate,
        volatile=volatile,
        note=note,
        by_constants=by_constants,
    )


def _given(own: Template | Refusal | None, both: Template | None) -> Template | Refusal:
    chosen = own if own is not None else both
    if chosen is None:
        raise ValueError("a template is missing")
    return chosen


def written_result(written: str, parameters: Sequence[str]) -> Result:
    """`anyelement` and `anyarray` follow the arguments; `same` is the type of the first one."""
    if written in ("same", "any"):
        return lambda types: types[0]
    if written == "anyelement":
        return lambda types: _element(types, parameters)
    if written == "anyarray":
        return lambda types: array_of(_element(types, parameters))
    return parse_type(written)


def _element(types: Sequence[Type], parameters: Sequence[str]) -> Type:
    for type, parameter in zip(types, parameters, strict=False):
        if parameter == "anyarray" and type.element is not None:
            return type.element
        if parameter in ("anyelement", "comparable"):
            return type
    return types[0]


def numeric_digits(type: Type) -> tuple[int, int]:
    """Precision and scale that hold every value of an exact number's type."""
    if type.name == "numeric":
        assert type.precision is not None and type.scale is not None
        return type.precision, type.scale
    return {"smallint": 5, "int": 10, "bigint": 19}[type.name], 0


def bounded_numeric(whole_digits: int, scale: int) -> Type:
    """numeric with these digits; beyond 38 in all, the fraction is kept and large values overflow."""
    scale = min(scale, 38)
    return NUMERIC(max(1, min(38, whole_digits + scale)), scale)


def expand(template: Template, operands: Sequence[Operand], result: Type) -> str:
    """The template with its operands' texts filled in."""
    if not isinstance(template, str):
        return template(operands, result)
    texts = [operand.text for operand in operands]
    return template.format(*texts, all=", ".join(texts), rest=", ".join(texts[1:]))


INTEGERS = ("smallint", "int", "bigint")
FLOATS = ("real", "double precision")
