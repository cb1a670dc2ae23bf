"""Which line of which file a COPY failed on.

A task only says that some value could not be read. This reads the files again, in order and up to the
first bad row, with the same rules, and says file, line, column and value.

    ERROR:  invalid input syntax for type int: "abc"
    DETAIL: users.csv, line 7, column age
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.errors import BadFile, DataError, Error
from midstream.ingest.conform import conform
from midstream.ingest.csv_records import Record, records
from midstream.ingest.faults import null_in, unknown_column
from midstream.ingest.files import FileInput, InputFile
from midstream.ingest.json_records import documents
from midstream.ingest.kernel_text import parse_readable
from midstream.ingest.texts import read_canonical
from midstream.relations.table import Column

_ROWS_AT_ONCE = 10_000


def locate_fault(input: FileInput, columns: Sequence[Column], *, relation: str) -> Error | None:
    """The error of the first row that cannot be taken, or None if the files are as they should be."""
    search = {"csv": _search_csv, "json": _search_json, "parquet": _search_parquet}[input.format]
    try:
        for file in input.files:
            search(file, input, columns, relation)
    except Error as error:
        return error
    return None


def place_of_row(input: FileInput, number: int) -> str:
    """The file and line of a row, counted from 1 over all files in their order; of Parquet, file and row."""
    for file in input.files:
        if input.format == "parquet":
            rows = sum(file.row_groups)
            if number <= rows:
                return f"{file.path}, row {number}"
            number -= rows
            continue
        names = [column.name for column in file.columns]
        lines = (
            (line for line, _ in records(file.path, input.rules, names))
            if input.format == "csv"
            else (line for line, _ in documents(file.path))
        )
        for line in lines:
            number -= 1
            if number == 0:
                return f"{file.path}, line {line}"
    return input.files[-1].path


def _at(error: Error, place: str) -> Error:
    """The same error, as one of a file, with the place first in its DETAIL."""
    detail = place if error.detail is None else f"{place}. {error.detail}"
    if not isinstance(error, DataError):
        error.detail = detail
        return error
    return BadFile(error.message, detail=detail, hint=error.hint, sqlstate=error.sqlstate)


# --- CSV -------------------------------------------------------------------------------------------


def _search_csv(file: InputFile, input: FileInput, columns: Sequence[Column], relation: str) -> None:
    names = [column.name for column in file.columns]
    by_name = {column.name: column for column in columns}
    found = records(file.path, input.rules, names)
    for some in _chunks(found):
        _check_records(some, [by_name[name] for name in names], file.path, relation)


def _chunks(found: Iterator[Record]) -> Iterator[list[Record]]:
    """Groups of records. One that cannot be split is raised after those before it were looked at."""
    broken: Error | None = None
    while broken is None:
        some: list[Record] = []
        try:
            for record in islice(found, _ROWS_AT_ONCE):
                some.append(record)
        except Error as error:
            broken = error
        if not some:
            break
        yield some
    if broken is not None:
        raise broken


def _check_records(some: Sequence[Record], columns: Sequence[Column], path: str, relation: str) -> None:
    faults = []
    for place, column in enumerate(columns):
        texts = [fields[place] for _, fields in some]
        if (fault := _first_fault(texts, column, relation)) is not None:
            faults.append((fault[0], place, fault[1]))
    if faults:
        row, place, error = min(faults, key=lambda fault: fault[:2])
        raise _at(error, f"{path}, line {some[row][0]}, column {columns[place].name}")


def _first_fault(texts: Sequence[str | None], column: Column, relation: str) -> tuple[int, Error] | None:
    has_null = column.not_null and None in texts
    if not has_null and read_canonical(column.type, pa.array(texts, pa.string())) is not None:
        return None
    for row, text in enumerate(texts):
        if (error := _fault_of(text, column, relation)) is not None:
            return row, error
    return None


def _fault_of(text: str | None, column: Column, relation: str) -> Error | None:
    if text is None:
        return null_in(column.name, relation) if column.not_null else None
    try:
        parse_readable(column.type, text)
    except DataError as error:
        return error
    return None


# --- JSON ------------------------------------------------------------------------------------------


def _search_json(file: InputFile, input: FileInput, columns: Sequence[Column], relation: str) -> None:
    names = [column.name for column in columns]
    for line, document in documents(file.path):
        place = f"{file.path}, line {line}"
        unknown = next((key for key in document if key not in names), None)
        if unknown is not None:
            raise _at(unknown_column(unknown, names, names, relation), place)
        _check_document(document, columns, place, relation)


def _check_document(document: Mapping[str, object], columns: Iterable[Column], place: str, relation: str) -> None:
    for column in columns:
        if column.name not in document and column.default is not None:
            continue
        error = _fault_of_json(document.get(column.name), column, relation)
        if error is not None:
            raise _at(error, f"{place}, column {column.name}")


def _fault_of_json(value: object, column: Column, relation: str) -> Error | None:
    if column.type.name == "json" and value is not None:
        return None
    if column.type.element is None or value is None:
        return _fault_of(_json_text(value), column, relation)
    if not isinstance(value, list):
        written = _json_text(value)
        return DataError(f'invalid input syntax for type {column.type}: "{written}"', sqlstate="22P02")
    element = Column(column.name, column.type.element)
    return next((fault for each in value if (fault := _fault_of_json(each, element, relation)) is not None), None)


def _json_text(value: object) -> str | None:
    """What `->>` gives of a JSON value: numbers were kept as they were written."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- Parquet ---------------------------------------------------------------------------------------


def _search_parquet(file: InputFile, input: FileInput, columns: Sequence[Column], relation: str) -> None:
    there = {column.name for column in file.columns}
    wanted = [column for column in columns if column.name in there]
    row = 1
    with pq.ParquetFile(file.path) as parquet:
        for batch in parquet.iter_batches():
            try:
                conform(batch, wanted, relation=relation, first_row=row)
            except Error as error:
                raise _at(error, file.path) from None
            row += batch.num_rows
