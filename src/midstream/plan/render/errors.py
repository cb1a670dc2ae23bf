"""What a kernel's complaint about a value means to the user: our DataError with PostgreSQL's SQLSTATE.

Rendered text raises errors that carry their own SQLSTATE ("midstream 22012: division by zero"); the kernels'
own complaints about overflow, casts and division are known by their words.

    >>> data_error("Out of Range Error: Overflow in addition of INT32 (2147483647 + 1)!").sqlstate
    '22003'
"""

from __future__ import annotations

import re

from midstream.errors import DataError
from midstream.plan.functions.kernel_types import ERROR_MARK

_OURS = re.compile(rf"{ERROR_MARK} ([0-9A-Z]{{5}}): (.*)", re.DOTALL)
_NUMBER = r"['\"][+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?['\"]"
_KNOWN = [
    (
        rf"Could not convert string {_NUMBER} to|The value {_NUMBER} of the type \"STRING\" cannot be cast"
        r"|Failed to cast decimal value|Could not cast value",
        "22003",
        "value out of range",
    ),
    (r"(date|time|timestamp) field value out of range", "22008", "date/time field value out of range"),
    (r"[Dd]ivision by zero|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO", "22012", "division by zero"),
    (
        r"Overflow in|out of range|ARITHMETIC_OVERFLOW|CAST_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"
        r"|NUMERIC_OUT_OF_SUPPORTED_RANGE",
        "22003",
        "value out of range",
    ),
    (r"square root of a negative", "2201F", "cannot take square root of a negative number"),
    (r"cannot take logarithm of zero", "2201E", "cannot take logarithm of zero"),
    (r"cannot take logarithm of a negative", "2201E", "cannot take logarithm of a negative number"),
    (
        r"More than one row returned by a subquery|SCALAR_SUBQUERY_TOO_MANY_ROWS",
        "21000",
        "more than one row returned by a subquery used as an expression",
    ),
    (
        r"CAST_INVALID_INPUT|CANNOT_PARSE_TIMESTAMP|Could not convert string|Conversion Error",
        "22P02",
        "invalid input value",
    ),
]


def data_error(message: str) -> DataError | None:
    """The error that a kernel's message stands for; None: it is no complaint about a value."""
    ours = _OURS.search(message)
    if ours:
        text = re.split(r"\n|\s+SQLSTATE: |\" == ", ours[2])[0].strip()
        return DataError(text, sqlstate=ours[1])
    for pattern, sqlstate, text in _KNOWN:
        if re.search(pattern, message):
            return DataError(text, sqlstate=sqlstate)
    return None
