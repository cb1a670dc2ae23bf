"""Every failure of Spark, py4j, DuckDB and the file system, as one of ours.

SQL that a kernel runs may raise an error that is ours already: `[22012] division by zero`, or
`midstream 22012: division by zero`. Everything else is recognised by the class of the exception and the
words of its message.

    >>> named_by_text("[22012] division by zero").sqlstate
    '22012'
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable

import pyarrow as pa

from midstream.errors import (
    BadFile,
    Cancelled,
    ConstraintViolation,
    DataError,
    EngineError,
    Error,
    InternalError,
    InvalidParameter,
    OutOfResources,
    StorageError,
    Unsupported,
)

_RESTART = "Close the database and connect again."
_MEMORY_HINT = "Give the database more memory, or make the query smaller."
_DISK_HINT = "Free some space on the disk of the database's folder."
_FAMILIES: tuple[tuple[str, type[Error]], ...] = (
    ("23", ConstraintViolation),
    ("22023", InvalidParameter),
    ("22", DataError),
    ("0A", Unsupported),
    ("57014", Cancelled),
    ("53", OutOfResources),
)
_OURS = re.compile(r"(?:\[(?P<state>[0-9A-Z]{5})\] ?|midstream (?P<marked>[0-9A-Z]{5}): )(?P<message>[^\n]*)")


def named_by_text(text: str) -> Error | None:
    """An error that our own SQL raised, anywhere in what the kernel says."""
    match = _OURS.search(text)
    if match is None:
        return None
    state = match["state"] or match["marked"]
    message = match["message"].strip().removesuffix(" SQLSTATE: P0001")
    for prefix, family in _FAMILIES:
        if state.startswith(prefix):
            return family(message, sqlstate=state)
    return None


Maker = Callable[[re.Match[str]], Error]


def _data(sqlstate: str, message: str) -> Maker:
    """A DataError whose message may use the groups of the match."""
    return lambda match: DataError(match.expand(message), sqlstate=sqlstate)


_PLAIN_TYPES = {
    "INT8": "smallint",
    "INT16": "smallint",
    "INT32": "int",
    "INT64": "bigint",
    "INT128": "numeric",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "int",
    "INT": "int",
    "BIGINT": "bigint",
    "HUGEINT": "numeric",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "BOOL": "boolean",
    "BOOLEAN": "boolean",
    "VARCHAR": "text",
    "STRING": "text",
    "BLOB": "bytea",
    "BINARY": "bytea",
    "TIMESTAMP_NTZ": "timestamp",
    "TIMESTAMP_LTZ": "timestamptz",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "TIMESTAMPTZ": "timestamptz",
    "TIMESTAMP": "timestamp",
    "DATE": "date",
    "INTERVAL": "interval",
    "UUID": "text",
}


def _type_name(kernel_name: str) -> str:
    name = kernel_name.strip().strip('"').upper()
    if name.startswith("DECIMAL"):
        return "numeric" + name.removeprefix("DECIMAL").lower().replace(" ", "")
    return _PLAIN_TYPES.get(name, name.lower())


def _bad_input(match: re.Match[str]) -> Error:
    name, value = _type_name(match["type"]), match["value"]
    if name in ("date", "timestamp", "timestamptz"):
        return DataError(f'invalid input syntax for type {name}: "{value}"', sqlstate="22007")
    return DataError(f'invalid input syntax for type {name}: "{value}"', sqlstate="22P02")


def _out_of_range(match: re.Match[str]) -> Error:
    return DataError(f"{_type_name(match['type'])} out of range", sqlstate="22003")


def _overflow(match: re.Match[str]) -> Error:
    return DataError(f"{_type_name(match['type'])} out of range", sqlstate="22003")


def _numeric_overflow(match: re.Match[str]) -> Error:
    return DataError(
        "numeric field overflow",
        detail=f"The value {match['value']} does not fit {_type_name(match['type'])}.",
        sqlstate="22003",
    )


def _out_of_memory(match: re.Match[str]) -> Error:
    return OutOfResources("out of memory", detail=_first_line(match.string), hint=_MEMORY_HINT, sqlstate="53200")


def _no_space(match: re.Match[str]) -> Error:
    return OutOfResources(
        "no space left on the disk", detail=_first_line(match.string), hint=_DISK_HINT, sqlstate="53100"
    )


_DUCKDB_TEXTS: tuple[tuple[re.Pattern[str], Maker], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), maker)
    for pattern, maker in (
        (r"division by zero", _data("22012", "division by zero")),
        (r"no space left on device|failed to offload data|max_temp_directory_size", _no_space),
        (r"out of memory error|could not allocate|failed to allocate|std::bad_alloc", _out_of_memory),
        (r"could not convert string '(?P<value>.*?)' to (?P<type>[A-Z0-9_ ,()]+?)(?: when|\n|$)", _bad_input),
        (r"could not convert string \"(?P<value>.*?)\" to (?P<type>[A-Z0-9_ ,()]+?)(?: when|\n|$)", _bad_input),
        (r"could not cast value (?P<value>\S+) to (?P<type>DECIMAL\(\d+, ?\d+\))", _numeric_overflow),
        (r"out of range for the destination type (?P<type>[A-Z0-9_]+(?:\([\d, ]+\))?)", _out_of_range),
        (r"overflow in \S+ of -?\d", _data("22003", "value out of range")),
        (r"overflow in (?P<type>HUGEINT) \w+", _overflow),
        (r"overflow in \S+(?: of| cast)? ?(?P<type>[A-Z]+\d*(?:\([\d, ]+\))?)", _overflow),
        (
            r"date field value out of range: \"(?P<value>.*?)\"",
            _data("22008", r'date/time field value out of range: "\g<value>"'),
        ),
        (
            r"invalid date field format: \"(?P<value>.*?)\"",
            _data("22007", r'invalid input syntax for type date: "\g<value>"'),
        ),
        (
            r"timestamp field value out of range: \"(?P<value>.*?)\"",
            _data("22008", r'date/time field value out of range: "\g<value>"'),
        ),
        (
            r"invalid timestamp field format: \"(?P<value>.*?)\"",
            _data("22007", r'invalid input syntax for type timestamp: "\g<value>"'),
        ),
        (r"(?:date|timestamp|interval|time)\w* (?:\w+ )*out of range", _data("22008", "date/time value out of range")),
        (r"overflow", _data("22003", "value out of range")),
        (r"out of range", _data("22003", "value out of range")),
        (
            r"malformed json.*?input: \"?(?P<value>.*?)\"?(?:\n|$)",
            _data("22P02", r"invalid input syntax for type json: \g<value>"),
        ),
        (
            r"invalid (?:hex escape|byte).*?\"(?P<value>.*?)\"",
            _data("22P02", r'invalid input syntax for type bytea: "\g<value>"'),
        ),
        (
            r"more than one row returned by a subquery",
            _data("21000", "more than one row returned by a subquery used as an expression"),
        ),
        (r"like pattern must not end with escape", _data("22025", "LIKE pattern must not end with escape character")),
        (r"invalid (?:unicode|utf-?8)", _data("22021", "invalid byte sequence for UTF-8 text")),
    )
)


_CSV_ERROR = re.compile(
    r"CSV Error on Line: (?P<line>\d+)\s*\n(?:Original Line: (?P<text>.*?)\n)?(?P<why>.*)", re.DOTALL
)
_CSV_COLUMNS = re.compile(r"Expected Number of Columns: (?P<expected>\d+) Found: (?P<found>\d+)")
_CSV_FILE = re.compile(r"^\s*file = (?P<file>.*)$", re.MULTILINE)
_JSON_ERROR = re.compile(
    r"(?:Malformed JSON|JSON transform error) in file \"(?P<file>.*?)\",.*?in line (?P<line>\d+): "
    r"(?P<why>[^\n]*?)\.?\s*(?:Try |\n|$)"
)


def bad_text_file(text: str) -> Error | None:
    """A CSV or JSON file that breaks the rules of its format; the message names file and line."""
    file = _CSV_FILE.search(text)
    csv = _CSV_ERROR.search(text)
    if csv is not None and file is not None:
        return BadFile(f'{_csv_reason(csv["why"])} in file "{file["file"]}", line {csv["line"]}', detail=csv["text"])
    if file is not None and "CSV" in text:
        return BadFile(f'file "{file["file"]}" is not CSV that can be read', detail=_first_line(text))
    found = _JSON_ERROR.search(text)
    if found is not None:
        return BadFile(f'invalid JSON in file "{found["file"]}", line {found["line"]}', detail=found["why"] + ".")
    return None


def _csv_reason(why: str) -> str:
    columns = _CSV_COLUMNS.search(why)
    if columns is not None:
        few = int(columns["found"]) < int(columns["expected"])
        return "missing data for a column" if few else "extra data after last expected column"
    if "unterminated quote" in why:
        return "unterminated CSV quoted field"
    if "unicode" in why:
        return "invalid byte sequence for UTF-8 text"
    return _first_line(why)


_DUCKDB_KIND = re.compile(r"(?P<name>[A-Z][A-Za-z ]*) Error: ")


def from_duckdb(failure: BaseException) -> Error:
    """What DuckDB raised inside a task. Its kind is read from the text, which is all that a stream of rows hands on."""
    text = str(failure)
    kind = _DUCKDB_KIND.match(text)
    name = kind["name"] if kind is not None else None
    if name == "INTERRUPT":
        return Cancelled("the statement was cancelled")
    known = named_by_text(text) or bad_text_file(text) or _by_text(text, _DUCKDB_TEXTS)
    if known is not None:
        return known
    if name in ("IO", "HTTP"):
        return _input_output(text)
    if name in ("Conversion", "Out of Range"):
        return DataError(_first_line(text).split(": ", 1)[-1], sqlstate="22P02" if name == "Conversion" else "22003")
    return InternalError("the DuckDB kernel could not run its SQL", detail=text)


def _input_output(text: str) -> Error:
    return StorageError("a file could not be read or written", detail=_first_line(text))


def from_task(failure: BaseException) -> Error:
    """Anything that went wrong inside a task of the DuckDB kernel."""
    if isinstance(failure, Error):
        return failure
    if isinstance(failure, MemoryError | pa.ArrowMemoryError):
        return OutOfResources("out of memory", detail=str(failure), hint=_MEMORY_HINT, sqlstate="53200")
    if type(failure).__module__ in ("duckdb", "_duckdb") or _failed_in_a_stream(failure):
        return from_duckdb(failure)
    if isinstance(failure, OSError):
        return from_file_system(failure)
    return InternalError("a task failed", detail=f"{type(failure).__name__}: {failure}")


def _failed_in_a_stream(failure: BaseException) -> bool:
    """Where DuckDB fails after its first rows, Arrow raises an OSError with DuckDB's text and no number."""
    return isinstance(failure, OSError) and failure.errno is None and _DUCKDB_KIND.match(str(failure)) is not None


def from_file_system(failure: OSError) -> Error:
    if failure.errno in (errno.ENOSPC, errno.EDQUOT):
        return OutOfResources("no space left on the disk", detail=str(failure), hint=_DISK_HINT, sqlstate="53100")
    if isinstance(failure, FileNotFoundError):
        return StorageError("a file is missing", detail=str(failure))
    return StorageError("a file could not be read or written", detail=str(failure))


def bad_parquet(path: str, failure: BaseException) -> Error:
    return BadFile(f'file "{path}" is not a Parquet file that can be read', detail=_first_line(str(failure)))


# --- Spark ----------------------------------------------------------------------------------------

_CONDITION = re.compile(r"\[(?P<condition>[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")


def _spark_cast(text: str) -> Error:
    match = re.search(
        r"The value (?P<value>.*?) of the type \"(?P<from>.*?)\" cannot be cast to \"(?P<type>.*?)\"", text, re.DOTALL
    )
    if match is None:
        return DataError("invalid input syntax", detail=_first_line(text), sqlstate="22P02")
    name, value = _type_name(match["type"]), re.sub(r"\\(.)", r"\1", match["value"].strip("'"))
    sqlstate = "22007" if name in ("date", "timestamp", "timestamptz") else "22P02"
    return DataError(f'invalid input syntax for type {name}: "{value}"', sqlstate=sqlstate)


def _spark_cast_overflow(text: str) -> Error:
    match = re.search(r"cannot be cast to \"(?P<type>.*?)\"", text)
    name = _type_name(match["type"]) if match else "value"
    return DataError(f"{name} out of range", sqlstate="22003")


def _spark_decimal(text: str) -> Error:
    return DataError("numeric field overflow", detail=_first_line(text), sqlstate="22003")


def _fixed(sqlstate: str, message: str) -> Callable[[str], Error]:
    return lambda text: DataError(message, sqlstate=sqlstate)


_SPARK_CONDITIONS: dict[str, Callable[[str], Error]] = {
    "DIVIDE_BY_ZERO": _fixed("22012", "division by zero"),
    "REMAINDER_BY_ZERO": _fixed("22012", "division by zero"),
    "INTERVAL_DIVIDED_BY_ZERO": _fixed("22012", "division by zero"),
    "ARITHMETIC_OVERFLOW": _fixed("22003", "value out of range"),
    "BINARY_ARITHMETIC_OVERFLOW": _fixed("22003", "value out of range"),
    "INTERVAL_ARITHMETIC_OVERFLOW": _fixed("22008", "interval out of range"),
    "DATETIME_OVERFLOW": _fixed("22008", "date/time value out of range"),
    "CAST_INVALID_INPUT": _spark_cast,
    "CAST_OVERFLOW": _spark_cast_overflow,
    "CAST_OVERFLOW_IN_TABLE_INSERT": _spark_cast_overflow,
    "NUMERIC_VALUE_OUT_OF_RANGE": _spark_decimal,
    "DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION": _spark_decimal,
    "DATETIME_FIELD_OUT_OF_BOUNDS": _fixed("22008", "date/time field value out of range"),
    "CANNOT_PARSE_TIMESTAMP": _fixed("22007", "invalid input syntax for type timestamp"),
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": _fixed("21000", "more than one row returned by a subquery used as an expression"),
    "INVALID_FORMAT.ESC_AT_THE_END": _fixed("22025", "LIKE pattern must not end with escape character"),
    "INVALID_ARRAY_INDEX": _fixed("2202E", "array subscript out of range"),
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": _fixed("2202E", "array subscript out of range"),
    "INVALID_UTF8_STRING": _fixed("22021", "invalid byte sequence for UTF-8 text"),
    "PATH_NOT_FOUND": lambda text: StorageError("a file is missing", detail=_first_line(text)),
    "FAILED_READ_FILE.FILE_NOT_EXIST": lambda text: StorageError("a file is missing", detail=_first_line(text)),
    "FAILED_READ_FILE": lambda text: StorageError("a file could not be read", detail=_first_line(text)),
}
_SPARK_WORDS: tuple[tuple[re.Pattern[str], Callable[[str], Error]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), maker)
    for pattern, maker in (
        (
            r"ModuleNotFoundError: No module named '(?:midstream|duckdb|pyarrow)",
            lambda text: EngineError(
                "a worker of Spark has no Midstream",
                hint="Install midstream in the Python of every worker (PYSPARK_PYTHON).",
            ),
        ),
        (
            r"SparkContext was shut down|SparkContext has been shutdown|stopped SparkContext",
            lambda text: EngineError("Spark was stopped", hint=_RESTART),
        ),
        (
            r"cancelled job group|cancelled part of cancelled|job \d+ cancelled|SPARK_JOB_CANCELLED|task killed",
            lambda text: Cancelled("the statement was cancelled"),
        ),
        (
            r"no space left on device",
            lambda text: OutOfResources("no space left on the disk", hint=_DISK_HINT, sqlstate="53100"),
        ),
        (
            r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|SparkOutOfMemory|Total size of serialized results",
            lambda text: OutOfResources("out of memory", detail=_first_line(text), hint=_MEMORY_HINT, sqlstate="53200"),
        ),
        (
            r"Python worker exited|PYTHON_WORKER_EXITED|Cannot run program|Broken pipe|Connection reset|EOFException",
            lambda text: EngineError(
                "Spark lost the process that ran a task, and so it did each time it tried again",
                detail=_first_line(text),
                hint="The machine may be out of memory: give the database less, or make the query smaller.",
            ),
        ),
        (
            r"FileNotFoundException|does not exist\. It is possible the underlying files",
            lambda text: StorageError("a file is missing", detail=_first_line(text)),
        ),
    )
)


def from_spark(failure: BaseException) -> Error:
    """What pyspark or py4j raised on the driver."""
    if isinstance(failure, Error):
        return failure
    if isinstance(failure, OSError) and not isinstance(failure, ConnectionError) and failure.errno is not None:
        return from_file_system(failure)
    text = str(failure)
    if type(failure).__name__ in (
        "Py4JNetworkError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "BrokenPipeError",
    ):
        return EngineError("Spark is gone", detail=_first_line(text) or None, hint=_RESTART)
    return named_by_text(text) or _unreadable(text) or _by_condition(text) or _by_words(text) or _unknown(text)


_PARQUET_FAULTS = re.compile(r"is not a Parquet file|CANNOT_READ_FILE_FOOTER|expected magic number|not a valid Parquet")


def _unreadable(text: str) -> Error | None:
    """Spark says only that a file cannot be read; the reason stands among the causes."""
    fault = _PARQUET_FAULTS.search(text)
    if fault is None:
        return None
    return BadFile("a file is not a Parquet file that can be read", detail=_line_around(text, fault.start()))


def _by_condition(text: str) -> Error | None:
    for match in _CONDITION.finditer(text):
        condition = match["condition"]
        maker = _SPARK_CONDITIONS.get(condition) or _SPARK_CONDITIONS.get(condition.split(".")[0])
        if maker is not None:
            return maker(text[match.start() :])
    return None


def _by_words(text: str) -> Error | None:
    return next((maker(text) for pattern, maker in _SPARK_WORDS if pattern.search(text)), None)


def _unknown(text: str) -> Error:
    return InternalError("Spark could not run its SQL", detail=text)


def _by_text(text: str, table: tuple[tuple[re.Pattern[str], Maker], ...]) -> Error | None:
    for pattern, maker in table:
        match = pattern.search(text)
        if match is not None:
            return maker(match)
    return None


def _line_around(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else None].strip()


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
