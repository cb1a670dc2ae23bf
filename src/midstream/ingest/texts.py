"""Text read as a value of a type, with PostgreSQL's input rules and error texts.

`parse_text` reads one; `parse_texts` reads a column. A column whose texts are all in a plain canonical form
is read by Arrow's own loops; any other goes text by text, so both give the same values.

    >>> parse_text(parse_type("int[]"), "{1,NULL,3}")
    [1, None, 3]
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import NoReturn, cast

import pyarrow as pa
import pyarrow.compute as pc

from midstream.errors import DataError
from midstream.ingest.arrow_types import arrow_type
from midstream.ingest.faults import BadRow
from midstream.ingest.times import parse_date, parse_interval, parse_timestamp, parse_timestamptz
from midstream.types import Type

INTEGER_BITS = {"smallint": 16, "int": 32, "bigint": 64}
LARGEST_REAL = 3.4028235677973366e38
"""Half a step above the largest 32-bit float: what rounds to infinity."""

_INTEGER = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_NUL = re.compile(b"\0")
_SPECIAL = re.compile(r"\s*(nan|[+-]?inf(inity)?)\s*", re.IGNORECASE)
_BOOLEANS = {
    **dict.fromkeys(["t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"], True),
    **dict.fromkeys(["f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"], False),
}
_ROUNDING = Context(prec=200, rounding=ROUND_HALF_UP, Emax=10**6, Emin=-(10**6))


def parse_text(type: Type, text: str) -> object:
    """One text as the value that is stored: intervals as a dict of months, days, microseconds."""
    if type.element is not None:
        return parse_array(type, text)
    return _PARSERS[type.name](type, text)


def invalid_input(type: Type, text: str) -> DataError:
    return DataError(f'invalid input syntax for type {type.name}: "{text}"', sqlstate="22P02")


# --- one text --------------------------------------------------------------------------------------


def _parse_integer(type: Type, text: str) -> int:
    if _INTEGER.fullmatch(text) is None:
        raise invalid_input(type, text)
    # No longer than 40 characters: Python refuses to read very long integers.
    value = int(text) if len(text) <= 40 else 2**64
    if not fits_integer(type, value):
        raise DataError(f'value "{text}" is out of range for type {type}', sqlstate="22003")
    return value


def fits_integer(type: Type, value: int) -> bool:
    limit = 1 << (INTEGER_BITS[type.name] - 1)
    return -limit <= value < limit


def _parse_float(type: Type, text: str) -> float:
    if _SPECIAL.fullmatch(text):
        return float(text)
    if _NUMBER.fullmatch(text) is None:
        raise invalid_input(type, text)
    value = float(text)
    if not is_out_of_float_range(type, value):
        value = as_single(value) if type.name == "real" else value
        if value != 0.0 or not re.search("[1-9]", re.split("[eE]", text)[0]):
            return value
    raise DataError(f'"{text.strip()}" is out of range for type {type}', sqlstate="22003")


def as_single(value: float) -> float:
    """The nearest 32-bit float."""
    return cast(float, struct.unpack("f", struct.pack("f", value))[0])


def is_out_of_float_range(type: Type, value: float) -> bool:
    return math.isinf(value) or (type.name == "real" and abs(value) >= LARGEST_REAL)


def _parse_numeric(type: Type, text: str) -> Decimal:
    if _SPECIAL.fullmatch(text):
        raise DataError(
            f'"{text.strip()}" cannot be stored in a numeric', hint="Use double precision.", sqlstate="22003"
        )
    if _NUMBER.fullmatch(text) is None:
        raise invalid_input(type, text)
    return fit_numeric(type, Decimal(text.strip()))


def fit_numeric(type: Type, value: Decimal) -> Decimal:
    """Rounded to the type's scale, half away from zero; too large a number is an error."""
    precision, scale = cast(int, type.precision), type.scale or 0
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=_ROUNDING)
    except InvalidOperation:
        rounded = None
    if rounded is None or rounded.adjusted() >= precision - scale and rounded != 0:
        raise numeric_overflow(type)
    return rounded


def numeric_overflow(type: Type) -> DataError:
    limit = cast(int, type.precision) - (type.scale or 0)
    bound = f"10^{limit}" if limit else "1"
    return DataError(
        "numeric field overflow",
        detail=f"A field with precision {type.precision}, scale {type.scale} "
        f"must round to an absolute value less than {bound}.",
        sqlstate="22003",
    )


def _parse_boolean(type: Type, text: str) -> bool:
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise invalid_input(type, text)
    return value


def fit_text(type: Type, text: str) -> str:
    """A text for a varchar(n) or char(n): spaces too many at its end are cut, anything else is an error. A char has all
    of its n characters, so that texts that differ in blanks at the end are equal."""
    if "\0" in text:
        raise nul_in_text()
    if type.precision is None:
        return text
    if text[type.precision :].strip(" "):
        raise too_long(type)
    return text[: type.precision].ljust(type.precision if type.name == "char" else 0)


def nul_in_text() -> DataError:
    return DataError(
        'invalid byte sequence for encoding "UTF8": 0x00',
        hint="A text cannot have a NUL character; a bytea can.",
        sqlstate="22021",
    )


def has_nul(texts: pa.Array) -> bool:
    """Whether a text has a NUL character. The bytes of all texts are looked through at once, which takes a fifth of the
    time; those of a slice have some more of them."""
    data = texts.buffers()[2]
    is_near = data is not None and _NUL.search(data) is not None
    return is_near and bool(pc.any(pc.match_substring(texts, "\0")).as_py())


def too_long(type: Type) -> DataError:
    return DataError(f"value too long for type {type}", sqlstate="22001")


_ESCAPED_BYTE = re.compile(rb"\\(\\|[0-3][0-7]{2})|\\")


def _parse_bytea(type: Type, text: str) -> bytes:
    if text.startswith("\\x"):
        return _parse_hexadecimal(text[2:])
    if "\\" not in text:
        return text.encode()
    return _ESCAPED_BYTE.sub(_unescape_byte, text.encode())


def _unescape_byte(match: re.Match[bytes]) -> bytes:
    if match[1] is None:
        raise DataError("invalid input syntax for type bytea", sqlstate="22P02")
    return b"\\" if match[1] == b"\\" else bytes([int(match[1], 8)])


def _parse_hexadecimal(digits: str) -> bytes:
    packed = re.sub(r"[ \t\n\r]", "", digits)
    wrong = re.search(r"[^0-9a-fA-F]", packed)
    if wrong:
        raise DataError(f'invalid hexadecimal digit: "{wrong[0]}"', sqlstate="22023")
    if len(packed) % 2:
        raise DataError("invalid hexadecimal data: odd number of digits", sqlstate="22023")
    return bytes.fromhex(packed)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f'Token "{word}" is invalid.')


_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)


def _parse_json(type: Type, text: str) -> str:
    try:
        _JSON.decode(text)
    except (ValueError, RecursionError) as wrong:
        why = wrong.msg if isinstance(wrong, json.JSONDecodeError) else str(wrong)
        where = f" at character {wrong.pos + 1}" if isinstance(wrong, json.JSONDecodeError) else ""
        raise DataError(
            "invalid input syntax for type json", detail=f"{why.rstrip('.')}{where}.", sqlstate="22P02"
        ) from None
    return text


def _parse_interval(type: Type, text: str) -> dict[str, int]:
    months, days, microseconds = parse_interval(text)
    return {"months": months, "days": days, "microseconds": microseconds}


_PARSERS: dict[str, Callable[[Type, str], object]] = {
    "smallint": _parse_integer,
    "int": _parse_integer,
    "bigint": _parse_integer,
    "real": _parse_float,
    "double precision": _parse_float,
    "numeric": _parse_numeric,
    "boolean": _parse_boolean,
    "text": fit_text,
    "varchar": fit_text,
    "char": fit_text,
    "date": lambda type, text: parse_date(text),
    "timestamp": lambda type, text: parse_timestamp(text),
    "timestamptz": lambda type, text: parse_timestamptz(text),
    "interval": _parse_interval,
    "bytea": _parse_bytea,
    "json": _parse_json,
}


# --- arrays ----------------------------------------------------------------------------------------

_ARRAY_TOKEN = re.compile(r'\s*(?:([{},])|"((?:[^"\\]|\\.)*)"|((?:[^{},"\\\s]|\\.)(?:(?:[^{},"\\]|\\.)*))?)', re.DOTALL)


def parse_array(type: Type, text: str) -> list[object]:
    """'{1,NULL,"a b"}' as a list; an array of arrays has braces within braces."""
    if not text.lstrip().startswith("{"):
        raise malformed_array(text, 'Array value must start with "{" or dimension information.')
    values, end = _array_at(cast(Type, type.element), text, text.index("{") + 1)
    if text[end:].strip():
        raise malformed_array(text, "Junk after closing right brace.")
    return values


def malformed_array(text: str, why: str) -> DataError:
    return DataError(f'malformed array literal: "{text}"', detail=why, sqlstate="22P02")


def _array_at(element: Type, text: str, position: int) -> tuple[list[object], int]:
    values: list[object] = []
    closing = _ARRAY_TOKEN.match(text, position)
    if closing is not None and closing[1] == "}":
        return values, closing.end()
    while True:
        value, position = _array_element(element, text, position)
        values.append(value)
        after = _ARRAY_TOKEN.match(text, position)
        if after is None or after[1] not in (",", "}"):
            raise malformed_array(text, _unexpected(text, position))
        position = after.end()
        if after[1] == "}":
            return values, position


def _array_element(element: Type, text: str, position: int) -> tuple[object, int]:
    token = _ARRAY_TOKEN.match(text, position)
    if token is None or token[1] in (",", "}"):
        raise malformed_array(text, _unexpected(text, position))
    if token[1] == "{":
        if element.element is None:
            raise malformed_array(text, f"An element of type {element} cannot be an array.")
        return _array_at(element.element, text, token.end())
    if element.element is not None and not (token[3] or "").strip().upper() == "NULL":
        raise malformed_array(text, f"An element of type {element} must be an array.")
    if token[2] is not None:
        return parse_text(element, _unescape(token[2])), token.end()
    bare = (token[3] or "").rstrip()
    if not bare:
        raise malformed_array(text, _unexpected(text, position))
    if bare.upper() == "NULL":
        return None, token.end()
    return parse_text(element, _unescape(bare)), token.end()


def _unexpected(text: str, position: int) -> str:
    rest = text[position:].lstrip()
    return f'Unexpected "{rest[0]}" character.' if rest else "Unexpected end of input."


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL) if "\\" in text else text


# --- a column of texts -----------------------------------------------------------------------------

_YEAR = "(0[1-9][0-9]{2}|[1-8][0-9]{3}|9[0-8][0-9]{2}|99[0-8][0-9]|999[0-8])"
"""Years that are dates of Python's in any time zone; Arrow reads the year 0 as well, which is none."""
_CANONICAL = {
    "smallint": r"^[+-]?[0-9]{1,18}$",
    "int": r"^[+-]?[0-9]{1,18}$",
    "bigint": r"^[+-]?[0-9]{1,18}$",
    "double precision": r"^[+-]?[0-9]{1,100}(\.[0-9]{1,50})?$",
    "numeric": r"^[+-]?[0-9]{1,18}(\.[0-9]{1,18})?$",
    "date": rf"^{_YEAR}-[0-9]{{2}}-[0-9]{{2}}$",
    "timestamp": rf"^{_YEAR}-" r"[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$",
    "timestamptz": rf"^{_YEAR}-"
    r"[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
    r"[+-](0[0-9]|1[0-4])(:[0-5][0-9])?$",
}


def parse_texts(type: Type, texts: pa.Array) -> pa.Array:
    """A column of texts as a column of the type. The first bad one is a `BadRow`."""
    fast = read_canonical(type, texts)
    return fast if fast is not None else _read_one_by_one(type, texts)


def read_canonical(type: Type, texts: pa.Array) -> pa.Array | None:
    """The column if all its texts are in the plain form that Arrow reads; else None, and nothing is said."""
    if type.is_text and has_nul(texts):
        return None
    if type.is_text and (type.precision is None or _longest(texts) <= type.precision):
        is_padded = type.name == "char" and type.precision is not None
        return pc.utf8_rpad(texts, type.precision, " ") if is_padded else texts
    if type.is_text:
        return None
    canonical = _CANONICAL.get(type.name)
    if type.name == "timestamptz" and _is_canonical(texts, _CANONICAL["timestamp"]):
        texts = pc.binary_join_element_wise(texts, "+00", "")
    if canonical is None or not _is_canonical(texts, canonical):
        return None
    try:
        return _cast_canonical(type, texts)
    except pa.ArrowInvalid:
        return None


def _is_canonical(texts: pa.Array, form: str) -> bool:
    return pc.all(pc.match_substring_regex(texts, form)).as_py() is not False


def _cast_canonical(type: Type, texts: pa.Array) -> pa.Array:
    if type.is_integer or type.name == "numeric":
        # Arrow's parsers know no plus sign.
        texts = pc.replace_substring_regex(texts, r"^\+", "")
    return texts.cast(arrow_type(type))


def _longest(texts: pa.Array) -> int:
    return pc.max(pc.utf8_length(texts)).as_py() or 0


def _read_one_by_one(type: Type, texts: pa.Array) -> pa.Array:
    values: list[object] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else parse_text(type, text))
        except DataError as error:
            raise BadRow(row, error) from None
    return pa.array(values, arrow_type(type))
