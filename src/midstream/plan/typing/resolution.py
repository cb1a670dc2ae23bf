"""Which overload a call means: PostgreSQL's choice among the table's functions of that name.

The overload with the most arguments of exactly its types wins, then the one with the most preferred types; an
untyped literal takes the type of the other operand, or text.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from sqlglot import exp

from midstream.errors import Error, Forbidden, Position, UndefinedName, Unsupported
from midstream.plan.functions import FORBIDDEN, FUNCTIONS_BY_NAME, is_operator
from midstream.plan.functions.model import Function
from midstream.plan.typing.coercion import casts_implicitly, common_type, is_preferred
from midstream.plan.typing.conversion import constant, convert, exactly, numeric_literal_type
from midstream.plan.typing.nodes import is_unknown, type_of
from midstream.sql.procedures import PROCEDURES
from midstream.types import BOOLEAN, NULL, NUMERIC, TEXT, Type, array_of

Nodes = list[exp.Expression]


def resolve(name: str, arguments: Nodes, position: Position | None) -> tuple[Function, Nodes]:
    """The overload, and the arguments converted to its types."""
    candidates = [f for f in FUNCTIONS_BY_NAME.get(name, ()) if _fits(f, arguments)]
    if not candidates:
        raise unknown_function(name, arguments, position)
    chosen = _best(candidates, arguments)
    return chosen, _converted(chosen, arguments)


_NOT_KEPT = {
    "histogram_numeric": (
        "Its answer depends on the order in which rows come, so it cannot be kept in a continuous view.",
        "Group by ranges, such as floor(x / 10), or use approx_percentile.",
    )
}
"""Aggregates of Spark's that have no answer of their own, and what to do instead."""


def unknown_function(name: str, arguments: Nodes, position: Position | None) -> Error:
    if name in FORBIDDEN:
        return Forbidden(
            f"function {name} is not allowed", detail="It reaches outside the database.", position=position
        )
    if name in PROCEDURES:
        return Unsupported(
            f"{name} does something, and cannot be part of a query", hint=PROCEDURES[name], position=position
        )
    if name in _NOT_KEPT:
        return Unsupported(
            f"aggregate {name} is not supported", detail=_NOT_KEPT[name][0], hint=_NOT_KEPT[name][1], position=position
        )
    types = [_shown(argument) for argument in arguments]
    if is_operator(name):
        written = f"{types[0]} {name} {types[1]}" if len(types) == 2 else f"{name} {types[0]}"
        return UndefinedName(
            f"operator does not exist: {written}",
            hint="You might need to add explicit type casts.",
            sqlstate="42883",
            position=position,
        )
    if name in FUNCTIONS_BY_NAME:
        hint: str | None = "You might need to add explicit type casts."
    else:
        near = difflib.get_close_matches(name, [n for n in FUNCTIONS_BY_NAME if not is_operator(n)], n=1)
        hint = f'Did you mean "{near[0]}"?' if near else None
    return UndefinedName(
        f"function {name}({', '.join(types)}) does not exist", hint=hint, sqlstate="42883", position=position
    )


def _shown(argument: exp.Expression) -> str:
    return "unknown" if is_unknown(argument) else str(type_of(argument))


def _fits(function: Function, arguments: Nodes) -> bool:
    if not function.accepts(len(arguments)):
        return False
    for index, argument in enumerate(arguments):
        parameter, type = function.parameter(index), type_of(argument)
        if parameter.name == "anyarray":
            if type != NULL and type.element is None:
                return False
        elif parameter.name == "comparable":
            if type.name == "json":
                return False
        elif parameter.name == "astext":
            if type.element is not None or type.name in ("interval", "bytea", "json"):
                return False
        elif not parameter.is_variable and not casts_implicitly(type, parameter.type):
            return False
    return _variables(function, arguments) is not None


def _variables(function: Function, arguments: Nodes) -> Type | None:
    """The element type that all of `anyelement` and `anyarray` share; NULL where there is none, None: none fits."""
    types = []
    for index, argument in enumerate(arguments):
        parameter, type = function.parameter(index), type_of(argument)
        if parameter.name in ("anyelement", "comparable"):
            types.append(type)
        elif parameter.name == "anyarray":
            types.append(type.element or NULL)
    return common_type(types)


def _best(candidates: Sequence[Function], arguments: Nodes) -> Function:
    if len(candidates) == 1:
        return candidates[0]
    known = _assume_other_side(arguments)
    scored = sorted(candidates, key=lambda f: _score(f, known), reverse=True)
    return scored[0]


def _assume_other_side(arguments: Nodes) -> list[Type]:
    """In a pair, an untyped literal is first taken for the type of the other."""
    types = [type_of(argument) for argument in arguments]
    if len(types) == 2 and NULL in types and types != [NULL, NULL]:
        other = next(type for type in types if type != NULL)
        return [other, other]
    return types


def _score(function: Function, types: Sequence[Type]) -> tuple[int, int, int]:
    exact = preferred = text = 0
    for index, type in enumerate(types):
        parameter = function.parameter(index)
        exact += parameter.name == type.name or (parameter.name == "text" and type.is_text)
        preferred += is_preferred(parameter.name)
        text += type == NULL and parameter.name == "text"
    return exact, text, preferred


def _literal_beside(function: Function, arguments: Nodes) -> Nodes | None:
    """A comparison with a constant that the other side's type has: that side stays as it is, so that scans can skip.

    n > 1  over numeric(10,2)   ->   n > 1.00"""
    if len(arguments) != 2 or any(p.name != "comparable" for p in function.parameters) or function.result != BOOLEAN:
        return None
    left, right = arguments
    if isinstance(left, exp.Literal) == isinstance(right, exp.Literal):
        return None
    if isinstance(right, exp.Literal):
        exact = exactly(right, type_of(left))
        return None if exact is None else [left, exact]
    exact = exactly(left, type_of(right))
    return None if exact is None else [exact, right]


def _converted(function: Function, arguments: Nodes) -> Nodes:
    beside = _literal_beside(function, arguments)
    if beside is not None:
        return beside
    shared = _variables(function, arguments) or NULL
    if shared == NULL and any(p.name in ("anyelement", "comparable", "anyarray") for p in function.parameters):
        shared = TEXT
    return [_to_parameter(function.parameter(index).name, argument, shared) for index, argument in enumerate(arguments)]


def _to_parameter(parameter: str, argument: exp.Expression, shared: Type) -> exp.Expression:
    type = type_of(argument)
    if parameter == "any":
        return convert(argument, TEXT) if type == NULL else argument
    if parameter == "astext":
        return convert(argument, TEXT)
    if parameter == "comparable" and shared.name == "char":
        return _without_padding(argument)
    if parameter in ("anyelement", "comparable"):
        return convert(argument, shared)
    if parameter == "anyarray":
        return convert(argument, array_of(shared))
    if parameter == "numeric":
        return _to_numeric(argument, type)
    return convert(argument, _parsed(parameter))


def _without_padding(argument: exp.Expression) -> exp.Expression:
    """char(n) compares without the blanks behind it, and so does a literal beside it."""
    if isinstance(argument, exp.Literal) and is_unknown(argument):
        return constant(str(argument.this).rstrip(" "), TEXT, argument)
    return convert(argument, TEXT)


def _to_numeric(argument: exp.Expression, type: Type) -> exp.Expression:
    if type.name == "numeric":
        return argument
    if type == NULL:
        wanted = numeric_literal_type(argument) if isinstance(argument, exp.Literal) else NUMERIC(38, 10)
        return convert(argument, wanted)
    return convert(argument, numeric_literal_type(argument))


def _parsed(name: str) -> Type:
    return Type(name)
