"""Which types become which: implicitly, by assignment, by an explicit cast, and when several must agree.

These are PostgreSQL's rules: numbers widen, dates become timestamps, nothing turns text into a number.
"""

from __future__ import annotations

from collections.abc import Sequence

from midstream.plan.functions.model import numeric_digits
from midstream.types import DOUBLE, NULL, NUMERIC, TEXT, Type, array_of

_WIDENS = {
    "smallint": ("int", "bigint", "numeric", "real", "double precision"),
    "int": ("bigint", "numeric", "real", "double precision"),
    "bigint": ("numeric", "real", "double precision"),
    "numeric": ("real", "double precision"),
    "real": ("double precision",),
    "date": ("timestamp", "timestamptz"),
    "timestamp": ("timestamptz",),
    "varchar": ("text",),
    "char": ("text", "varchar"),
    "text": ("varchar",),
}
_PREFERRED = frozenset({"double precision", "text", "boolean", "timestamptz", "interval"})
_NUMBERS = ("smallint", "int", "bigint", "numeric", "real", "double precision")
_TEXTS = ("text", "varchar", "char")
_TIMES = ("date", "timestamp", "timestamptz")


def is_preferred(name: str) -> bool:
    return name in _PREFERRED


def casts_implicitly(source: Type, to: Type) -> bool:
    if source in (to, NULL):
        return True
    if source.element is not None or to.element is not None:
        return source.element is not None and to.element is not None and source.element.name == to.element.name
    return source.name == to.name or to.name in _WIDENS.get(source.name, ())


def casts_by_assignment(source: Type, to: Type) -> bool:
    """Numbers also narrow, with a check at run time; anything becomes text."""
    if casts_implicitly(source, to):
        return True
    if source.element is not None and to.element is not None:
        return casts_by_assignment(source.element, to.element)
    if source.name in _NUMBERS and to.name in _NUMBERS:
        return True
    if source.name in _TIMES and to.name in _TIMES:
        return True
    return to.name in _TEXTS


def casts_explicitly(source: Type, to: Type) -> bool:
    if casts_by_assignment(source, to) or (source.is_text and to.element is None):
        return True
    if source.element is not None and to.element is not None:
        return casts_explicitly(source.element, to.element)
    return (source.name, to.name) in {("boolean", "int"), ("int", "boolean")}


def common_type(types: Sequence[Type]) -> Type | None:
    """The type that CASE, UNION, arrays and comparisons bring all of these to; None: there is none."""
    known = [type for type in types if type != NULL]
    if not known:
        return NULL
    result = known[0]
    for type in known[1:]:
        merged = _common_pair(result, type)
        if merged is None:
            return None
        result = merged
    return result


def _common_pair(left: Type, right: Type) -> Type | None:
    if left == right:
        return left
    if left.element is not None and right.element is not None:
        element = _common_pair(left.element, right.element)
        return None if element is None else array_of(element)
    if left.is_text and right.is_text:
        return TEXT
    if left.is_number and right.is_number:
        return _common_number(left, right)
    if left.name in _TIMES and right.name in _TIMES:
        return left if _TIMES.index(left.name) > _TIMES.index(right.name) else right
    return None


def _common_number(left: Type, right: Type) -> Type:
    if left.is_float or right.is_float:
        return left if left.name == right.name else _wider_float(left, right)
    if left.is_integer and right.is_integer:
        return left if _NUMBERS.index(left.name) > _NUMBERS.index(right.name) else right
    (p1, s1), (p2, s2) = numeric_digits(left), numeric_digits(right)
    scale = max(s1, s2)
    return NUMERIC(min(38, max(p1 - s1, p2 - s2) + scale), scale)


def _wider_float(left: Type, right: Type) -> Type:
    names = {left.name, right.name}
    return DOUBLE if "double precision" in names else Type("real")


def as_numeric(type: Type) -> Type:
    """The numeric that holds every value of an exact number's type."""
    return type if type.name == "numeric" else NUMERIC(*numeric_digits(type))
