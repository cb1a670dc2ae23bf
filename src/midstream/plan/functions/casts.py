"""Casts with PostgreSQL's rounding, checks and errors on both kernels.

`cast_text` turns text of one type into text of exactly another. Float to integer rounds half to even,
numeric to integer half away from zero; text must look like the type, blanks around it aside; what does not
fit is an error, never NULL.

    CAST(2.5::float8 AS int)  ->  duckdb CAST(x AS INTEGER), spark CAST(rint(x) AS INT)
"""

from __future__ import annotations

from collections.abc import Callable

from midstream.kernels import Kernel, kernel_type, quote_text
from midstream.plan.functions.model import KernelRefuses, Operand, numeric_digits
from midstream.plan.functions.raising import raise_error
from midstream.types import DOUBLE, TEXT, TIMESTAMP, Type

_INTEGER_TEXT = r"^\s*[+-]?[0-9]+\s*$"
_NUMERIC_TEXT = r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$"
_FLOAT_TEXT = (
    r"^\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*$|^\s*[+-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?)\s*$"
    r"|^\s*[nN][aA][nN]\s*$"
)
_DATE_TEXT = r"^\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}\s*$"
_TIMESTAMP_TEXT = r"^\s*[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?\s*$"
_TIMESTAMPTZ_TEXT = _TIMESTAMP_TEXT.replace(r"\s*$", r"([+-][0-9]{2}(:[0-9]{2})?|Z)?\s*$")
_TRUE_WORDS = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
_FALSE_WORDS = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")

LONG_NAMES = {"int": "integer", "timestamptz": "timestamp with time zone", "timestamp": "timestamp"}


def cast_text(value: Operand, to: Type, kernel: Kernel) -> str:
    """`value` as SQL text of type `to`."""
    source = value.type
    if source == to or (source.is_text and to.name == "text" and source.name != "char"):
        return value.text
    if source.name == "null":
        return plain_cast(value.text, to, kernel)
    if source.element is not None and to.element is not None:
        return _cast_elements(value, source.element, to, kernel)
    special = _SPECIAL.get((_family(source), _family(to)))
    return special(value, to, kernel) if special else plain_cast(value.text, to, kernel)


def plain_cast(text: str, to: Type, kernel: Kernel) -> str:
    return f"CAST({text} AS {kernel_type(to, kernel)})"


def _family(type: Type) -> str:
    if type.is_integer:
        return "integer"
    if type.is_float:
        return "float"
    return "text" if type.is_text else type.name


def _cast_elements(value: Operand, element: Type, to: Type, kernel: Kernel) -> str:
    assert to.element is not None
    inner = cast_text(Operand("x_", element), to.element, kernel)
    if kernel == "duckdb":
        return f"list_transform({value.text}, lambda x_: {inner})"
    return f"transform({value.text}, x_ -> {inner})"


def _integer_from_float(value: Operand, to: Type, kernel: Kernel) -> str:
    if kernel == "duckdb":
        return plain_cast(value.text, to, kernel)
    rounded = plain_cast(f"rint({value.text})", to, kernel)
    if to.name != "bigint":
        return rounded
    # Spark clamps what is just beyond the largest bigint instead of failing.
    failure = raise_error("22003", "bigint out of range", kernel)
    return f"CASE WHEN {value.text} >= 9223372036854775807D THEN {failure} ELSE {rounded} END"


def _integer_from_numeric(value: Operand, to: Type, kernel: Kernel) -> str:
    if kernel == "spark":
        return plain_cast(f"round({value.text}, 0)", to, kernel)
    failure = raise_error("22003", f"{LONG_NAMES.get(to.name, to.name)} out of range", kernel)
    return f"CASE WHEN {value.text} IS NOT NULL THEN coalesce({_try_cast(value.text, to, kernel)}, {failure}) END"


def _try_cast(text: str, to: Type, kernel: Kernel) -> str:
    """NULL where the value does not fit."""
    return f"TRY_CAST({text} AS {kernel_type(to, kernel)})"


def _numeric_from_float(value: Operand, to: Type, kernel: Kernel) -> str:
    # PostgreSQL goes through 15 significant digits (6 for real), so that 1.005 becomes 1.01 and not 1.00.
    digits = 14 if value.type == DOUBLE else 5
    write = "printf" if kernel == "duckdb" else "format_string"
    number = plain_cast(f"{write}('%.{digits}e', {plain_cast(value.text, DOUBLE, kernel)})", to, kernel)
    failure = raise_error("22003", "numeric field overflow", kernel)
    no_numeric = f"{_is_infinite(value.text, kernel)} OR isnan({value.text})"
    # Spark writes NULL as the text 'null', which is no number.
    return f"CASE WHEN {no_numeric} THEN {failure} WHEN {value.text} IS NOT NULL THEN {number} END"


def _is_infinite(text: str, kernel: Kernel) -> str:
    return f"isinf({text})" if kernel == "duckdb" else f"abs({text}) = double('Infinity')"


def _float_from_numeric(value: Operand, to: Type, kernel: Kernel) -> str:
    precision, scale = numeric_digits(value.type)
    if kernel == "duckdb" and precision > 15 and scale > 0:
        # DuckDB divides the unscaled value, which rounds twice when it has more than 53 bits.
        return plain_cast(plain_cast(value.text, TEXT, kernel), to, kernel)
    return plain_cast(value.text, to, kernel)


def _matches(text: str, pattern: str, kernel: Kernel) -> str:
    test = "regexp_matches" if kernel == "duckdb" else "regexp_like"
    return f"{test}({text}, {quote_text(pattern, kernel)})"


def _checked(value: Operand, pattern: str, to: Type, kernel: Kernel, converted: str, sqlstate: str = "22P02") -> str:
    name = LONG_NAMES.get(to.name, to.name)
    failure = raise_error(sqlstate, f"invalid input syntax for type {name}", kernel, value.text)
    matching = _matches(value.text, pattern, kernel)
    return f"CASE WHEN {matching} THEN {converted} WHEN {value.text} IS NOT NULL THEN {failure} END"


def _trimmed(value: Operand, kernel: Kernel) -> str:
    blanks = quote_text(" \t\n\r\f\v", kernel)
    return f"trim({value.text}, {blanks})" if kernel == "duckdb" else f"trim(BOTH {blanks} FROM {value.text})"


def _integer_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    message = f"value is out of range for type {LONG_NAMES.get(to.name, to.name)}"
    return _checked(value, _INTEGER_TEXT, to, kernel, _fitting(value, to, kernel, message))


def _numeric_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    return _checked(value, _NUMERIC_TEXT, to, kernel, _fitting(value, to, kernel, "numeric field overflow"))


def _fitting(value: Operand, to: Type, kernel: Kernel, message: str) -> str:
    """The number that a text with the right letters stands for, unless it is too large."""
    failure = raise_error("22003", message, kernel, value.text)
    return f"coalesce({_try_cast(_trimmed(value, kernel), to, kernel)}, {failure})"


def _float_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    number = plain_cast(_trimmed(value, kernel), to, kernel)
    too_large = f"{_is_infinite(number, kernel)} AND NOT contains(lower({value.text}), 'inf')"
    failure = raise_error("22003", f"value is out of range for type {to.name}", kernel, value.text)
    return _checked(value, _FLOAT_TEXT, to, kernel, f"CASE WHEN {too_large} THEN {failure} ELSE {number} END")


def _boolean_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    word = f"lower({_trimmed(value, kernel)})"
    true, false = (", ".join(quote_text(w, kernel) for w in words) for words in (_TRUE_WORDS, _FALSE_WORDS))
    failure = raise_error("22P02", "invalid input syntax for type boolean", kernel, value.text)
    return (
        f"CASE WHEN {word} IN ({true}) THEN true WHEN {word} IN ({false}) THEN false "
        f"WHEN {value.text} IS NOT NULL THEN {failure} END"
    )


def _date_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    return _checked(value, _DATE_TEXT, to, kernel, plain_cast(_trimmed(value, kernel), to, kernel), "22007")


def _timestamp_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    pattern = _TIMESTAMP_TEXT if to == TIMESTAMP else _TIMESTAMPTZ_TEXT
    return _checked(value, pattern, to, kernel, plain_cast(_trimmed(value, kernel), to, kernel), "22007")


def _text_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    text = f"rtrim({value.text})" if value.type.name == "char" else value.text
    if to.precision is None:
        return text
    cut = f"left({text}, {to.precision})"
    return f"rpad({cut}, {to.precision}, ' ')" if to.name == "char" else cut


def _text_from_numeric(value: Operand, to: Type, kernel: Kernel) -> str:
    written = plain_cast(value.text, TEXT, kernel)
    precision, scale = numeric_digits(value.type)
    if kernel == "duckdb" and precision == scale:
        # DuckDB leaves the zero before the point out where the type has no whole digits.
        written = f"regexp_replace({written}, '^(-?)\\.', '\\10.')"
    return _cut(written, to, kernel)


def _cut(text: str, to: Type, kernel: Kernel) -> str:
    return _text_from_text(Operand(text, TEXT), to, kernel)


def _text_from_float(value: Operand, to: Type, kernel: Kernel) -> str:
    if kernel == "spark":
        raise KernelRefuses("Spark writes floating-point numbers as text in another way")
    return _cut(_float_as_written(value), to, kernel)


def _float_as_written(value: Operand) -> str:
    """PostgreSQL writes no '.0', and a power of ten from 15 digits (6 for real) on."""
    written = plain_cast(value.text, TEXT, "duckdb")
    limit = "1e15" if value.type == DOUBLE else "1e6"
    short = f"regexp_replace({written}, '\\.0$', '')"
    scientific = (
        f"regexp_replace(regexp_replace(regexp_replace({written}, '\\.0$', ''), '^(-?)([0-9])([0-9]*)(\\.[0-9]+)?$',"
        f" '\\1\\2.\\3e+' || printf('%02d', length(split_part(ltrim({written}, '-'), '.', 1)) - 1)), '\\.?0*e', 'e')"
    )
    words = "replace(replace(" + written + ", 'inf', 'Infinity'), 'nan', 'NaN')"
    return (
        f"CASE WHEN NOT isfinite({value.text}) THEN {words} "
        f"WHEN abs({value.text}) >= {limit} AND NOT contains({written}, 'e') THEN {scientific} ELSE {short} END"
    )


def _text_from_timestamptz(value: Operand, to: Type, kernel: Kernel) -> str:
    written = plain_cast(value.text, TEXT, kernel)
    return _cut(written if kernel == "duckdb" else f"concat({written}, '+00')", to, kernel)


def _text_from_plain(value: Operand, to: Type, kernel: Kernel) -> str:
    return _cut(plain_cast(value.text, TEXT, kernel), to, kernel)


def _text_from_bytea(value: Operand, to: Type, kernel: Kernel) -> str:
    return _cut(f"concat({quote_text(chr(92) + 'x', kernel)}, lower(hex({value.text})))", to, kernel)


def _bytea_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    rest = f"substr({value.text}, 3)"
    converted = f"unhex({rest})"
    return _checked(value, r"^\\x([0-9a-fA-F]{2})*$", to, kernel, converted)


def _same_text(value: Operand, to: Type, kernel: Kernel) -> str:
    return _cut(value.text, to, kernel)


def _json_from_text(value: Operand, to: Type, kernel: Kernel) -> str:
    if kernel == "spark":
        raise KernelRefuses("Spark reads malformed JSON without an error")
    failure = raise_error("22P02", "invalid input syntax for type json", kernel, value.text)
    return f"CASE WHEN {value.text} IS NULL OR json_valid({value.text}) THEN {value.text} ELSE {failure} END"


def _no_interval(value: Operand, to: Type, kernel: Kernel) -> str:
    raise KernelRefuses(f"no kernel casts {value.type} to {to} as PostgreSQL does")


_Cast = Callable[[Operand, Type, Kernel], str]
_SPECIAL: dict[tuple[str, str], _Cast] = {
    ("float", "integer"): _integer_from_float,
    ("numeric", "integer"): _integer_from_numeric,
    ("float", "numeric"): _numeric_from_float,
    ("numeric", "float"): _float_from_numeric,
    ("text", "integer"): _integer_from_text,
    ("text", "numeric"): _numeric_from_text,
    ("text", "float"): _float_from_text,
    ("text", "boolean"): _boolean_from_text,
    ("text", "date"): _date_from_text,
    ("text", "timestamp"): _timestamp_from_text,
    ("text", "timestamptz"): _timestamp_from_text,
    ("text", "text"): _text_from_text,
    ("text", "bytea"): _bytea_from_text,
    ("text", "json"): _json_from_text,
    ("json", "text"): _same_text,
    ("integer", "text"): _text_from_plain,
    ("numeric", "text"): _text_from_numeric,
    ("float", "text"): _text_from_float,
    ("boolean", "text"): _text_from_plain,
    ("date", "text"): _text_from_plain,
    ("timestamp", "text"): _text_from_plain,
    ("timestamptz", "text"): _text_from_timestamptz,
    ("bytea", "text"): _text_from_bytea,
    ("text", "interval"): _no_interval,
    ("interval", "text"): _no_interval,
}
