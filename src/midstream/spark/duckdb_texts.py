"""CSV and JSON files as DuckDB reads them: nothing is guessed, every value is text or a JSON document.

A CSV file's columns are the input's columns, in the file's order; a header is skipped. Nothing between two
delimiters is NULL, `""` is an empty text, as in PostgreSQL. With the option `whole`, JSON gives each
object as one document; else each column is the text of the value of its key.

    >>> select_text_files(Files(("a.csv",), (FileColumn("id", TEXT),), "csv"))
    SELECT "id" FROM read_csv(['a.csv'], columns = {'id': 'VARCHAR'}, header = false, delim = ',', …)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from midstream.errors import InternalError
from midstream.maintenance.engine import FileColumn, Files
from midstream.spark.duckdb_inputs import duckdb_type, literal_path, quote_name, quote_text
from midstream.spark.errors import from_file_system

_LONGEST_LINE = 16 << 20
_FIRST_BYTES = 1 << 16


_LINE_ENDS = {"\n": "\\n", "\r": "\\r", "\r\n": "\\r\\n"}
"""As DuckDB wants them written."""


def select_text_files(files: Files) -> str:
    if files.file_values or files.row_groups is not None:
        raise InternalError(f"{files.format} files have no row groups and no values of their own")
    return _select_csv(files) if files.format == "csv" else _select_json(files)


# --- CSV --------------------------------------------------------------------------------------------


def _select_csv(files: Files) -> str:
    names = ", ".join(f"{quote_text(column.name)}: 'VARCHAR'" for column in files.columns)
    options = ", ".join(f"{name} = {value}" for name, value in _csv_options(files.options).items())
    values = ", ".join(_text_column(quote_name(column.name), column) for column in files.columns)
    return f"SELECT {values} FROM read_csv({_paths(files.paths)}, columns = {{{names}}}, {options})"


def _csv_options(given: Mapping[str, object]) -> dict[str, str]:
    quote = str(given.get("quote", '"'))
    options = {
        "auto_detect": "false",
        "strict_mode": "true",
        "null_padding": "false",
        "allow_quoted_nulls": "false",
        "header": "true" if given.get("header") else "false",
        "delim": quote_text(str(given.get("delimiter", ","))),
        "nullstr": quote_text(str(given.get("null", ""))),
        "quote": quote_text(quote),
        "escape": quote_text(str(given.get("escape", quote))),
        "max_line_size": str(_LONGEST_LINE),
    }
    if "line_end" in given:
        options["new_line"] = quote_text(_LINE_ENDS[str(given["line_end"])])
    if given.get("line_end") == "\r\n":
        # DuckDB 2.0 in strict mode takes two such lines for one; the records of these files were checked before.
        options["strict_mode"] = "false"
    return options


# --- JSON -------------------------------------------------------------------------------------------


def _select_json(files: Files) -> str:
    return " UNION ALL ".join(_select_json_file(path, files) for path in files.paths)


def _select_json_file(path: str, files: Files) -> str:
    if files.options.get("whole"):
        [document] = files.columns
        values = f"json AS {quote_name(document.name)}"
    else:
        values = ", ".join(_key(column) for column in files.columns)
    shape = quote_text(json_shape(path))
    return f"SELECT {values} FROM read_json_objects({_paths([path])}, format = {shape})"


def _key(column: FileColumn) -> str:
    key = quote_text(column.stored_as or column.name)
    if column.type.name == "json" or column.type.element is not None:
        return f"CAST(json -> {key} AS {duckdb_type(column.type)}) AS {quote_name(column.name)}"
    return _text_column(f"(json ->> {key})", column)


def json_shape(path: str) -> str:
    """How the objects of a file stand: in one array, one on each line, or anyhow one after another."""
    try:
        with open(path, "rb") as file:
            beginning = file.read(_FIRST_BYTES).lstrip()
    except OSError as failure:
        raise from_file_system(failure) from failure
    if beginning.startswith(b"["):
        return "array"
    try:
        json.loads(beginning.split(b"\n", 1)[0] or b"{}")
    except ValueError:
        return "unstructured"
    return "newline_delimited"


def _text_column(value: str, column: FileColumn) -> str:
    declared = duckdb_type(column.type)
    cast = value if declared == "VARCHAR" else f"CAST({value} AS {declared})"
    return f"{cast} AS {quote_name(column.name)}"


def _paths(paths: Sequence[str]) -> str:
    return f"[{', '.join(quote_text(literal_path(path)) for path in paths)}]"
