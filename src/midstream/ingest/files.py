"""The files of a COPY: which they are, what columns they have, and how tasks share them.

Everything about the files that can be wrong without reading their rows is found here: a path that is not
there, an option that nobody knows, a Parquet column that the table lacks or that has another type. Pieces
come in the order of the rows, so that row numbers grow with arrival.

    input = open_files("posts/*.parquet", {}, table.columns, relation="posts")
    pieces = split(input, tasks=8)
    sqls = [select_for(table.columns, piece) for piece in pieces]        # over the input "file"
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.errors import BadFile, InternalError, InvalidParameter, StorageError, TypeMismatch
from midstream.ingest.arrow_types import from_arrow
from midstream.ingest.csv_records import CsvRules, check_structure, header_of, line_end_of, records
from midstream.ingest.faults import match_names, missing_column, with_detail
from midstream.ingest.kernel_parquet import from_parquet
from midstream.ingest.kernel_text import DOCUMENT, KINDS, TEXTS, duckdb_type, from_json, from_text, json_paths, quoted
from midstream.maintenance.engine import FileColumn, Files
from midstream.relations.table import Column
from midstream.types import JSON, TEXT, Type

Format = Literal["parquet", "csv", "json"]
FORMATS: tuple[Format, ...] = ("csv", "parquet", "json")
_SUFFIXES: dict[str, Format] = {
    ".csv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".ndjson": "json",
    ".jsonl": "json",
}
_CSV_OPTIONS = ("header", "delimiter", "null", "quote", "escape")
KEYS = "keys"
"""What the SQL text calls the names in a JSON object."""


@dataclass(frozen=True)
class InputFile:
    """One file: its columns as the SQL text calls them, and the rows of its row groups (Parquet only)."""

    path: str
    columns: tuple[FileColumn, ...]
    bytes: int
    row_groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class FileInput:
    """All files of one COPY, in the order in which their rows arrive."""

    format: Format
    files: tuple[InputFile, ...]
    rules: CsvRules = CsvRules()


def open_files(
    path: str,
    options: Mapping[str, object],
    columns: Sequence[Column],
    *,
    relation: str,
    listed: Sequence[str] = (),
) -> FileInput:
    """Finds the files and checks their columns against the table's; `listed` are the columns that COPY names."""
    paths = expand_path(path)
    format = file_format(options, paths)
    rules = csv_rules(options, format)
    taken = [columns[place] for place in _listed_places(listed, columns, relation)] if listed else columns
    files = tuple(_open(each, format, rules, taken, relation) for each in paths)
    for file in files:
        _check_missing(file, columns, format, relation)
    return FileInput(format, files, rules)


def _listed_places(listed: Sequence[str], columns: Sequence[Column], relation: str) -> list[int]:
    match_names(listed, columns, relation)
    names = [column.name for column in columns]
    return [names.index(name) for name in listed]


# --- paths and options -----------------------------------------------------------------------------


def expand_path(path: str) -> tuple[str, ...]:
    """The files that a path, a folder or a glob stands for, sorted; hidden files and _SUCCESS are none."""
    path = path.removeprefix("file://")
    if not path or "://" in path:
        raise InvalidParameter(f'"{path}" is not a path of the file system', hint="Give a file, a folder or a glob.")
    # A worker has a folder of its own, so the path says where it is by itself.
    path = os.path.abspath(path)
    if os.path.isfile(path):
        return (path,)
    if os.path.isdir(path):
        return _files_in(path)
    matches = [match for match in sorted(glob.glob(path, recursive=True)) if _is_data(match)]
    files = [file for match in matches for file in ((match,) if os.path.isfile(match) else _files_in(match))]
    if not files:
        raise StorageError(f'could not open file "{path}" for reading: No such file or directory', sqlstate="58P01")
    return tuple(files)


def _files_in(folder: str) -> tuple[str, ...]:
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(each for each in folders if _is_data(each))
        found += [os.path.join(place, name) for name in names if _is_data(name)]
    if not found:
        raise StorageError(f'folder "{folder}" has no files to read', sqlstate="58P01")
    return tuple(sorted(found))


def _is_data(path: str) -> bool:
    return not os.path.basename(path.rstrip("/")).startswith((".", "_"))


def file_format(options: Mapping[str, object], paths: Sequence[str]) -> Format:
    """The format that the options name, or that all files have by their suffix."""
    if "format" in options:
        written = str(options["format"]).lower()
        if written not in FORMATS:
            raise InvalidParameter(
                f'COPY format "{written}" not recognized', hint=f"The formats are {', '.join(FORMATS)}."
            )
        return written
    formats = {_SUFFIXES.get(Path(path).suffix.lower()) for path in paths}
    [format] = formats if len(formats) == 1 else [None]
    if format is None:
        raise InvalidParameter(
            f'the format of "{paths[0]}" is not clear from its name',
            hint="Say it: COPY … FROM … CSV, PARQUET or JSON; compressed files are not read.",
        )
    return format


def csv_rules(options: Mapping[str, object], format: Format) -> CsvRules:
    """The options of a CSV file, checked as PostgreSQL checks them."""
    _check_names(options, format)
    quote = _text_option(options, "quote", '"')
    rules = CsvRules(
        header=_flag(options.get("header", False)),
        delimiter=_text_option(options, "delimiter", ","),
        null=str(options.get("null", "")),
        quote=quote,
        escape=_text_option(options, "escape", quote),
    )
    _check_rules(rules)
    return rules


def _check_names(options: Mapping[str, object], format: Format) -> None:
    known = ("format", *_CSV_OPTIONS)
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f'Did you mean "{close[0]}"?' if close else f"The options are {', '.join(known)}."
            raise InvalidParameter(f'option "{name}" not recognized', hint=hint, sqlstate="42601")
        if name != "format" and format != "csv":
            raise InvalidParameter(f"COPY {name} available only in CSV mode", sqlstate="0A000")


def _text_option(options: Mapping[str, object], name: str, default: str) -> str:
    value = str(options.get(name, default))
    if len(value.encode()) != 1:
        raise InvalidParameter(f"COPY {name} must be a single one-byte character", sqlstate="0A000")
    return value


def _flag(value: object) -> bool:
    written = str(value).lower()
    if written in ("true", "on", "1", ""):
        return True
    if written in ("false", "off", "0"):
        return False
    raise InvalidParameter("header requires a Boolean value", sqlstate="42601")


def _check_rules(rules: CsvRules) -> None:
    if rules.delimiter in "\r\n" or any(end in rules.null for end in "\r\n"):
        raise InvalidParameter("COPY delimiter and null cannot be newline or carriage return")
    if rules.delimiter == rules.quote:
        raise InvalidParameter("COPY delimiter and quote must be different")
    if rules.delimiter in rules.null:
        raise InvalidParameter("COPY delimiter must not appear in the NULL specification")
    if rules.quote in rules.null:
        raise InvalidParameter("CSV quote character must not appear in the NULL specification")


# --- one file --------------------------------------------------------------------------------------


def _open(path: str, format: Format, rules: CsvRules, columns: Sequence[Column], relation: str) -> InputFile:
    try:
        size = os.path.getsize(path)
        if format == "parquet":
            return _open_parquet(path, size, columns, relation)
    except OSError as wrong:
        raise StorageError(f'could not open file "{path}" for reading: {wrong.strerror or wrong}') from wrong
    if format == "json":
        return InputFile(path, (FileColumn(DOCUMENT, JSON),), size)
    return InputFile(path, _csv_columns(path, rules, columns, relation), size)


def _open_parquet(path: str, size: int, columns: Sequence[Column], relation: str) -> InputFile:
    try:
        metadata = pq.read_metadata(path)
        schema = metadata.schema.to_arrow_schema()
    except pa.ArrowException as wrong:
        raise BadFile(f'file "{path}" is not a Parquet file', detail=str(wrong).splitlines()[0]) from wrong
    groups = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    try:
        return InputFile(path, _parquet_columns(schema, columns, relation), size, groups)
    except TypeMismatch as wrong:
        raise with_detail(wrong, path) from None


def _parquet_columns(schema: pa.Schema, columns: Sequence[Column], relation: str) -> tuple[FileColumn, ...]:
    by_name = {column.name: column for column in columns}
    found = []
    for name, place in match_names(schema.names, columns, relation).items():
        source = from_arrow(schema.field(place).type)
        from_parquet(f'"{name}"', source, by_name[name].type, name)
        stored_as = schema.names[place]
        found.append(FileColumn(name, source, stored_as if stored_as != name else None))
    return tuple(found)


def _csv_columns(path: str, rules: CsvRules, columns: Sequence[Column], relation: str) -> tuple[FileColumn, ...]:
    """The file's columns in the file's order: by the header's names, or by position."""
    if rules.header:
        names = header_of(path, rules)
        places = match_names(names, columns, relation)
        in_order = sorted(places, key=lambda name: places[name])
    else:
        in_order = [column.name for column in columns]
    # Often it is the whole file that does not fit; the other records are looked at when they are read.
    next(records(path, rules, in_order), None)
    return tuple(FileColumn(name, TEXT) for name in in_order)


def _check_missing(file: InputFile, columns: Sequence[Column], format: Format, relation: str) -> None:
    if format == "json" or (format == "csv" and not file.columns):
        return
    names = {column.name for column in file.columns}
    for column in columns:
        if column.not_null and column.default is None and column.name not in names:
            raise with_detail(missing_column(column.name, relation), file.path)


# --- pieces ----------------------------------------------------------------------------------------


def split(input: FileInput, tasks: int) -> list[Files]:
    """The files as pieces for tasks, in the order of their rows: Parquet by row groups, text by file.

    The records of CSV files are looked at before: the kernels would take some for what they are not."""
    if input.format == "parquet":
        return list(_split_parquet(input.files, max(tasks, 1)))
    if input.format == "csv":
        for file in input.files:
            check_structure(file.path, input.rules, [column.name for column in file.columns])
    return [
        Files((file.path,), file.columns, input.format, _engine_options(input, file), bytes=file.bytes)
        for file in input.files
        if file.bytes
    ]


def first_rows(pieces: Sequence[Files]) -> list[int]:
    """A number for the first row of each piece, such that rows of one piece never reach into the next.

    Parquet pieces know their rows; a text has at most one row more than it has bytes."""
    starts, next_row = [], 0
    for piece in pieces:
        starts.append(next_row)
        next_row += piece.rows if piece.format == "parquet" else piece.bytes + 1
    return starts


def _engine_options(input: FileInput, file: InputFile) -> dict[str, object]:
    if input.format == "json":
        return {"whole": True}
    rules = input.rules
    return {name: getattr(rules, name) for name in _CSV_OPTIONS} | {"line_end": line_end_of(file.path, rules)}


def _split_parquet(files: Sequence[InputFile], tasks: int) -> Iterator[Files]:
    total = sum(sum(file.row_groups) for file in files)
    share = -(-total // tasks)
    pending: list[tuple[InputFile, int]] = []
    rows = 0
    for file in files:
        for group, group_rows in enumerate(file.row_groups):
            if not group_rows:
                continue
            if pending and (rows + group_rows > share or pending[0][0].columns != file.columns):
                yield _piece(pending)
                pending, rows = [], 0
            pending.append((file, group))
            rows += group_rows
    if pending:
        yield _piece(pending)


def _piece(groups: Sequence[tuple[InputFile, int]]) -> Files:
    by_file: dict[InputFile, list[int]] = {}
    for file, group in groups:
        by_file.setdefault(file, []).append(group)
    rows = sum(file.row_groups[group] for file, group in groups)
    size = sum(file.bytes * len(taken) // len(file.row_groups) for file, taken in by_file.items())
    limits = tuple(None if len(taken) == len(file.row_groups) else tuple(taken) for file, taken in by_file.items())
    return Files(
        tuple(file.path for file in by_file),
        groups[0][0].columns,
        row_groups=None if all(limit is None for limit in limits) else limits,
        rows=rows,
        bytes=size,
    )


# --- the SQL of a piece ----------------------------------------------------------------------------


def select_for(
    columns: Sequence[Column], files: Files, *, defaults: Mapping[str, str] | None = None, name: str = "file"
) -> str:
    """SQL for the DuckDB kernel that gives exactly the table's columns from the input `name`.

    `defaults` are the kernel's expressions for columns that the files lack."""
    types = {column.name: column.type for column in files.columns}
    selected = ", ".join(
        f"{_expression(place, column, files, types, defaults or {})} AS {_name(column.name)}"
        for place, column in enumerate(columns, 1)
    )
    if files.format == "json":
        return f"SELECT {selected} FROM ({_taken_apart(columns, name)}) WHERE {_only_known_keys(columns)}"
    return f"SELECT {selected} FROM {_name(name)}"


def _taken_apart(columns: Sequence[Column], name: str) -> str:
    """Each document with the texts of its keys: it is parsed a few times, not once for every use of a key."""
    paths = json_paths([column.name for column in columns])
    document = _name(DOCUMENT)
    return (
        f"SELECT {document}, json_extract_string({document}, {paths}) AS {_name(TEXTS)}, "
        f"json_type({document}, {paths}) AS {_name(KINDS)}, json_keys({document}) AS {_name(KEYS)} FROM {_name(name)}"
    )


def _expression(
    place: int, column: Column, files: Files, types: Mapping[str, Type], defaults: Mapping[str, str]
) -> str:
    default = _default(column, defaults)
    if files.format == "json":
        return _json_expression(place, column, default)
    if column.name not in types:
        return default
    if files.format == "csv":
        is_read = types[column.name] != TEXT
        return _name(column.name) if is_read else from_text(_name(column.name), column.type)
    return from_parquet(_name(column.name), types[column.name], column.type, column.name)


def _json_expression(place: int, column: Column, default: str) -> str:
    value = from_json(place, column.name, column.type)
    if column.default is None:
        return value
    has_key = f"list_contains({_name(KEYS)}, {quoted(column.name)})"
    return f"CASE WHEN {has_key} THEN {value} ELSE {default} END"


def _default(column: Column, defaults: Mapping[str, str]) -> str:
    if column.default is None:
        return f"CAST(NULL AS {duckdb_type(column.type)})"
    if column.name not in defaults:
        raise InternalError(f'the default of column "{column.name}" was not given')
    return defaults[column.name]


def _only_known_keys(columns: Sequence[Column]) -> str:
    """A condition that holds, or fails the task: an object with an unknown key, or with a key twice."""
    keys = _name(KEYS)
    known = "[" + ", ".join(quoted(column.name) for column in columns) + "]"
    twice = f"len(list_distinct({keys})) < len({keys})"
    not_object = f"json_type({_name(DOCUMENT)}) <> 'OBJECT'"
    failure = f"error('not a row of the table: ' || CAST({_name(DOCUMENT)} AS VARCHAR))"
    return f"CASE WHEN {not_object} OR NOT list_has_all({known}, {keys}) OR {twice} THEN {failure} ELSE true END"


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
