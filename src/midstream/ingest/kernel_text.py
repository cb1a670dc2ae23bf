r"""Text columns of CSV and JSON files turned into a table's types, as SQL for the DuckDB kernel.

A kernel's own casts take more than PostgreSQL does ('1.5' and '0x1F' as int, '[1,]' as json), so each type
has a *form*: a pattern that the text must match before it is cast. The same patterns serve the search
for the bad line (`is_readable`), so that both always agree on what a bad value is.

    >>> from_text('"age"', INT)
    'CASE WHEN "age" IS NULL THEN NULL WHEN regexp_full_match("age", …) THEN CAST(… AS INTEGER) ELSE error(…) END'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from midstream.errors import DataError, Unsupported
from midstream.ingest.texts import parse_text
from midstream.kernels import kernel_type, quote_text
from midstream.types import Type

_DATE = r"(?:[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2})"
_CLOCK = r"[0-9]{1,2}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_ZONE = r"(?:[zZ]|[+-](?:0[0-9]|1[0-5])(?::?[0-5][0-9])?)"
_MOMENT = rf"{_DATE}(?:[ T]{_CLOCK} ?{_ZONE}?)?"
_AMOUNT = r"[+-]?[0-9]{1,9}"
_UNITS = {
    "years": "years?|yrs?|y",
    "months": "months?|mons?",
    "weeks": "weeks?|w",
    "days": "days?|d",
    "hours": "hours?|hrs?|h",
    "minutes": "minutes?|mins?|m",
}
_SECONDS = r"[+-]?[0-9]{1,9}(?:\.[0-9]{1,6})?"
_PARTS = "".join(rf"(?:{_AMOUNT} ?(?:{names}) ?)?" for names in _UNITS.values())
_TIME_OF_DAY = r"[+-]?[0-9]{1,8}:[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6})?)?"

FORMS = {
    "integer": r"[+-]?[0-9]{1,30}",
    "float": r"(?:[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan|[+-]?inf(?:inity)?))",
    "numeric": r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?",
    "boolean": r"(?i:t|tr|tru|true|y|ye|yes|on|1|f|fa|fal|fals|false|n|no|of|off|0)",
    "date": _MOMENT,
    "timestamp": _MOMENT,
    "timestamptz": _MOMENT,
    "interval": rf"{_PARTS}(?:{_SECONDS} ?(?:seconds?|secs?|s)|{_TIME_OF_DAY})?",
    "bytea": r"\\x(?:[0-9a-fA-F]{2})*|[^\\]*",
    "array": r'\{(?: *(?:"(?:[^"\\]|\\.)*"|[^{}",\\ ](?:[^{}",\\]*[^{}",\\ ])?) *(?:,|\}))+|\{ *\}',
}
"""What a text must match, but for spaces around it, to be read from a file."""

_CLOCK_OF_A_DAY = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_PLAIN = {
    "integer": r"-?[0-9]{1,18}",
    "float": r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?",
    "numeric": r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?",
    "date": r"[12][0-9]{3}-[0-9]{2}-[0-9]{2}",
    "timestamp": rf"[12][0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}[ T]{_CLOCK_OF_A_DAY}",
    "timestamptz": rf"[12][0-9]{{3}}-[0-9]{{2}}-[0-9]{{2}}[ T]{_CLOCK_OF_A_DAY}[+-](?:0[0-9]|1[0-5])",
}
"""The part of each form that the kernel's own cast reads as PostgreSQL does: nearly all texts, and cheap."""


def duckdb_type(type: Type) -> str:
    return kernel_type(type, "duckdb")


def quoted(text: str) -> str:
    """A text as a SQL literal."""
    return quote_text(text, "duckdb")


def is_readable(type: Type, text: str) -> bool:
    """Whether the text has the form that `from_text` reads."""
    form = FORMS.get(_family(type))
    return form is None or re.fullmatch(form, text.strip(" \t\n\r\f\v"), re.ASCII | re.DOTALL) is not None


def parse_readable(type: Type, text: str) -> object:
    """What `from_text` makes of a text, in Python; a form that files cannot have is an error with a hint."""
    value = parse_text(type, text)
    if not is_readable(type, text):
        raise DataError(
            f'invalid input syntax for type {type}: "{text}"',
            hint=_EXPECTED.get(_family(type)),
            sqlstate="22P02",
        )
    return value


_EXPECTED = {
    "date": "Files give dates as 2020-01-31.",
    "timestamp": "Files give times as 2020-01-31 23:59:59.123456.",
    "timestamptz": "Files give times as 2020-01-31 23:59:59.123456+00.",
    "interval": "Files give intervals as 1 year 2 mons 3 days 04:05:06.",
}


def _family(type: Type) -> str:
    if type.element is not None:
        return "array"
    return "integer" if type.is_integer else "float" if type.is_float else type.name


# --- the SQL ---------------------------------------------------------------------------------------


def from_text(text: str, type: Type) -> str:
    """SQL that reads the text expression as the type; what cannot be read is an error of the task."""
    if type.is_text:
        return fit_text(text, type)
    if type.name == "json":
        return f"CASE WHEN {text} IS NULL OR ({_is_json(text)}) THEN {text} ELSE {_fail(text, type)} END"
    family = _family(type)
    stripped = f"trim({text}, ' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13))"
    body = _READERS[family](stripped, type) if family in _READERS else f"CAST({stripped} AS {duckdb_type(type)})"
    form = quoted("(?s)" + FORMS[family])
    return (
        f"CASE WHEN {text} IS NULL THEN NULL {_plainly(text, type, family)}WHEN regexp_full_match({stripped}, {form}) "
        f"THEN {body} ELSE {_fail(text, type)} END"
    )


def _plainly(text: str, type: Type, family: str) -> str:
    if family == "boolean":
        return f"WHEN {text} IN ('true', 't', '1') THEN true WHEN {text} IN ('false', 'f', '0') THEN false "
    if family not in _PLAIN:
        return ""
    return f"WHEN regexp_full_match({text}, {quoted(_PLAIN[family])}) THEN CAST({text} AS {duckdb_type(type)}) "


def _fail(text: str, type: Type) -> str:
    message = quoted(f"[22P02] invalid input syntax for type {type}: ")
    return f"error({message} || '\"' || {text} || '\"')"


def fit_text(text: str, type: Type) -> str:
    """Text for a varchar(n) or char(n): spaces beyond n are cut, other characters are an error; a char has all n."""
    if type.precision is None:
        return text
    n = type.precision
    fitting = f"rpad({text}, {n}, ' ')" if type.name == "char" else text
    return (
        f"CASE WHEN {text} IS NULL OR length({text}) <= {n} THEN {fitting} "
        f"WHEN rtrim(substr({text}, {n + 1}), ' ') = '' THEN substr({text}, 1, {n}) "
        f"ELSE error({quoted(f'[22001] value too long for type {type}')} || substr({text}, 1, 0)) END"
    )


def _read_float(text: str, type: Type) -> str:
    value = f"CAST({text} AS {duckdb_type(type)})"
    overflows = f"isinf({value}) AND NOT regexp_full_match({text}, '(?i)[+-]?inf(inity)?')"
    vanishes = f"{value} = 0 AND regexp_matches({text}, '^[+-]?[0.]*[1-9]')"
    message = f"'[22003] \"' || {text} || {quoted(f'{chr(34)} is out of range for type {type}')}"
    return f"CASE WHEN ({overflows}) OR ({vanishes}) THEN error({message}) ELSE {value} END"


def _read_numeric(text: str, type: Type) -> str:
    target = duckdb_type(type)
    return (
        f"CASE WHEN regexp_matches({text}, '[eE]') THEN CAST({_without_exponent(text)} AS {target}) "
        f"ELSE CAST({text} AS {target}) END"
    )


def _without_exponent(text: str) -> str:
    """'1.5e-3' as '0.0015', by moving the point: the kernel's own cast rounds such texts wrongly."""
    number = r"^([+-]?)([0-9]*)\.?([0-9]*)[eE]([+-]?[0-9]+)$"
    sign, whole, fraction, exponent = (f"regexp_extract({text}, '{number}', {group})" for group in (1, 2, 3, 4))
    zeros = "repeat('0', 100)"
    digits = f"({zeros} || {whole} || {fraction} || {zeros})"
    point = f"(100 + length({whole}) + CAST({exponent} AS INTEGER))"
    return f"{sign} || substr({digits}, 1, {point}) || '.' || substr({digits}, {point} + 1)"


def _read_boolean(text: str, type: Type) -> str:
    return f"regexp_full_match({text}, '(?i)t|tr|tru|true|y|ye|yes|on|1')"


def _read_date(text: str, type: Type) -> str:
    return f"CAST({_read_timestamp(text, type)} AS DATE)"


def _read_timestamp(text: str, type: Type) -> str:
    without_zone = rf"regexp_replace({text}, ' ?{_ZONE_AFTER_CLOCK}$', '\1')"
    return _in_known_years(_rounded_moment(without_zone, "TIMESTAMP"), text)


_ZONE_AFTER_CLOCK = rf"(:[0-9.]+) ?{_ZONE}"


def _read_timestamptz(text: str, type: Type) -> str:
    zoned = (
        f"CASE WHEN regexp_matches({text}, '{_ZONE_AFTER_CLOCK}$') "
        rf"THEN regexp_replace({text}, ' ({_ZONE})$', '\1') "
        f"WHEN contains({text}, ':') THEN {text} || '+00' ELSE {text} || ' 00:00:00+00' END"
    )
    return _in_known_years(_rounded_moment(f"({zoned})", "TIMESTAMPTZ"), text)


def _rounded_moment(text: str, target: str) -> str:
    """Digits beyond the sixth are rounded; the kernel would cut them."""
    short = rf"regexp_replace({text}, '(\.[0-9]{{6}})[0-9]+', '\1')"
    up = rf"to_microseconds(CAST(regexp_matches({text}, '\.[0-9]{{6}}([6-9]|5)') AS BIGINT))"
    return (
        rf"(CASE WHEN regexp_matches({text}, '\.[0-9]{{7}}') THEN CAST({short} AS {target}) + {up} "
        f"ELSE CAST({text} AS {target}) END)"
    )


def _in_known_years(moment: str, text: str) -> str:
    message = quoted("[22008] date/time field value out of range: ")
    inside = f"{moment} >= '0001-01-01' AND {moment} < '10000-01-01'"
    return f"CASE WHEN {inside} THEN {moment} ELSE error({message} || {text}) END"


def _read_interval(text: str, type: Type) -> str:
    def amount(unit: str) -> str:
        pattern = rf"(?:^|[^0-9:.+-])({_AMOUNT}) ?(?:{_UNITS[unit]})(?:[^a-z]|$)"
        return f"CAST(coalesce(nullif(regexp_extract({text}, '{pattern}', 1), ''), '0') AS BIGINT)"

    months = f"to_months(CAST({amount('years')} * 12 + {amount('months')} AS INTEGER))"
    days = f"to_days(CAST({amount('weeks')} * 7 + {amount('days')} AS INTEGER))"
    clock = rf"regexp_extract({text}, '({_TIME_OF_DAY})$', 1)"
    seconds = rf"regexp_extract({text}, '({_SECONDS}) ?(?:seconds?|secs?|s)$', 1)"
    written = f"{amount('hours')} * 3600000000 + {amount('minutes')} * 60000000"
    total = f"{months} + {days} + to_microseconds({written} + {_microseconds(seconds)} + {_of_clock(clock)})"
    return f"CASE WHEN {text} = '' THEN {_fail(text, type)} ELSE {total} END"


def _microseconds(seconds: str) -> str:
    return f"CAST(CAST(coalesce(nullif({seconds}, ''), '0') AS DECIMAL(18,6)) * 1000000 AS BIGINT)"


def _of_clock(clock: str) -> str:
    sign = f"CASE WHEN starts_with({clock}, '-') THEN -1 ELSE 1 END"
    hour, minute, second = (
        f"coalesce(nullif(regexp_extract({clock}, '^[+-]?([0-9]+):([0-9]+):?([0-9.]*)$', {group}), ''), '0')"
        for group in (1, 2, 3)
    )
    whole = f"CAST({hour} AS BIGINT) * 3600000000 + CAST({minute} AS BIGINT) * 60000000"
    return f"({sign}) * ({whole} + {_microseconds(second)})"


def _read_bytea(text: str, type: Type) -> str:
    return f"CASE WHEN starts_with({text}, '\\x') THEN unhex(substr({text}, 3)) ELSE encode({text}) END"


def _read_array(text: str, type: Type) -> str:
    element = cast(Type, type.element)
    if element.element is not None:
        raise Unsupported(
            f"a column of type {type} cannot be read from a text file", hint="Load it from Parquet or with db.insert."
        )
    items = rf"""regexp_extract_all({text}, '"(?:[^"\\]|\\.)*"|[^{{}}",\\ ](?:[^{{}}",\\]*[^{{}}",\\ ])?')"""
    bare = r"""regexp_replace(substr(item, 2, length(item) - 2), '\\(.)', '\1', 'g')"""
    read = from_text("word", element)
    words = f"CASE WHEN starts_with(item, '\"') THEN {bare} WHEN upper(item) = 'NULL' THEN NULL ELSE item END"
    return f"list_transform(list_transform({items}, lambda item: {words}), lambda word: {read})"


def _is_json(text: str) -> str:
    """Strictly JSON: the kernel's own test lets NaN, comments and commas before a bracket pass."""
    skeleton = rf"""regexp_replace({text}, '"(?:[^"\\]|\\.)*"', '0', 'g')"""
    bare = f"regexp_replace({skeleton}, 'true|false|null', '0', 'g')"
    return (
        rf"json_valid({text}) AND NOT regexp_matches({skeleton}, ',\s*[\]}}]') "
        rf"AND NOT regexp_matches({bare}, '[^\[\]{{}}:,0-9eE+\-.\s]')"
    )


_READERS = {
    "float": _read_float,
    "numeric": _read_numeric,
    "boolean": _read_boolean,
    "date": _read_date,
    "timestamp": _read_timestamp,
    "timestamptz": _read_timestamptz,
    "interval": _read_interval,
    "bytea": _read_bytea,
    "array": _read_array,
}


# --- from a JSON object ----------------------------------------------------------------------------

DOCUMENT, TEXTS, KINDS = "document", "texts", "kinds"
"""The columns that `from_json` reads: the object, the texts of its keys and their JSON types, as lists."""


def json_paths(keys: Sequence[str]) -> str:
    return "[" + ", ".join(_path(key) for key in keys) + "]"


def _path(key: str) -> str:
    return quoted('$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"')


def from_json(place: int, key: str, type: Type) -> str:
    """SQL that reads the key in a place (from 1) as the type; a missing key and null are NULL."""
    text, kind = f'"{TEXTS}"[{place}]', f'"{KINDS}"[{place}]'
    is_null = f"{text} IS NULL OR {kind} = 'NULL'"
    if type.name == "json":
        value = f'CAST(json_extract("{DOCUMENT}", {_path(key)}) AS VARCHAR)'
        return f"CASE WHEN {is_null} THEN NULL {_refuse_lost_digits(value)} ELSE {value} END"
    if type.element is not None:
        return _json_list(text, kind, is_null, type)
    if type.is_text or type.name == "numeric":
        text = _with_all_digits(key, text, kind)
    return from_text(text, type)


def _json_list(text: str, kind: str, is_null: str, type: Type) -> str:
    element = cast(Type, type.element)
    if element.element is not None:
        raise Unsupported(
            f"a column of type {type} cannot be read from a text file", hint="Load it from Parquet or with db.insert."
        )
    read = from_text("(item ->> '$')", element) if element.name != "json" else "CAST(item AS VARCHAR)"
    items = f"list_transform(CAST(CAST({text} AS JSON) AS JSON[]), lambda item: {read})"
    return (
        f"CASE WHEN {is_null} THEN NULL {_refuse_lost_digits(text)} "
        f"WHEN {kind} = 'ARRAY' THEN {items} ELSE {_fail(text, type)} END"
    )


# The kernel reads a JSON number with a fraction as a double, which has 15 sure digits.
_LONG_FRACTION = "|".join(rf"[0-9]{{{whole}}}\.[0-9]{{{max(16 - whole, 1)},}}" for whole in range(1, 17))
_LOST = f"error('a JSON number has more digits than can be read: ' || CAST(\"{DOCUMENT}\" AS VARCHAR))"


def _with_all_digits(key: str, text: str, kind: str) -> str:
    """The text of a value; of a number with a fraction, as it is written in the document."""
    pattern = quoted(rf'"{re.escape(key)}"\s*:\s*(-?[0-9][0-9.eE+-]*)')
    written = f'regexp_extract_all("{DOCUMENT}", {pattern}, 1)'
    exact = f"CASE WHEN len({written}) = 1 THEN {written}[1] ELSE {_LOST} END"
    return f"(CASE WHEN {kind} = 'DOUBLE' THEN {exact} ELSE {text} END)"


def _refuse_lost_digits(value: str) -> str:
    """A WHEN that fails if the value is not found in the document as the kernel prints it."""
    compact = "regexp_replace({0}, '[ \\t\\r\\n]', '', 'g')"
    document = compact.format(f'CAST("{DOCUMENT}" AS VARCHAR)')
    is_same = f"contains({document}, {compact.format(value)})"
    return f"WHEN regexp_matches({value}, {quoted(_LONG_FRACTION)}) AND NOT {is_same} THEN {_LOST}"
