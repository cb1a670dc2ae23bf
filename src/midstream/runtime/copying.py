"""COPY: files become rows of a table without passing through the driver, and results become files.

The files are shared among tasks in the order of their rows; each task converts its share, numbers the
rows and leaves them as Parquet in the table's folder. CSV is read as plain CSV first, which is fast; what is not
certain that way is read again with care. When a value cannot be read, the files are searched for the line, and
nothing of that COPY is taken.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import pyarrow as pa

from midstream.errors import (
    BadFile,
    CheckViolation,
    DataError,
    Error,
    InternalError,
    InvalidParameter,
    NotNullViolation,
)
from midstream.ingest.export import export, write_csv
from midstream.ingest.files import FileInput, csv_rules, first_rows, open_files, select_for, split
from midstream.ingest.locate import locate_fault, place_of_row
from midstream.ingest.plain_csv import plain_pieces
from midstream.maintenance.engine import Answer, Files, Piece
from midstream.plan import bind_default
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID, Column, Table
from midstream.runtime.ahead import fits_as_it_is, take_as_they_are
from midstream.runtime.constraints.single_rows import row_faults
from midstream.runtime.writing import Writer
from midstream.sql import parse_query
from midstream.sql.statements import Copy, Sql
from midstream.types import Type

TASKS_PER_CORE = 2
LARGE = 512 << 20


def copy_into(writer: Writer, table: RowHolder, columns: Sequence[Column], statement: Copy) -> int:
    if statement.path is None:
        raise InvalidParameter(
            "COPY FROM STDIN needs a client that sends the rows", hint="Name a file, or use db.insert."
        )
    listed = [column.name for column in columns] if statement.columns else []
    return copy_path(writer, table, statement.path, statement.options, listed)


def copy_path(
    writer: Writer, table: RowHolder, path: str, options: Mapping[str, object], listed: Sequence[str] = ()
) -> int:
    """All files of a path, folder or glob."""
    input = open_files(path, options, table.columns, relation=table.name, listed=listed)
    if isinstance(table, Stream) and fits_as_it_is(input, table):
        return take_as_they_are(writer, table, input)
    try:
        answers = _read_plainly(writer, table, input) or _read_with_care(writer, table, input)
    except (CheckViolation, NotNullViolation) as error:
        raise _at_its_row(writer, input, table, error) from None
    writer.take_written(table, answers)
    return sum(file.rows for answer in answers for file in answer.files)


def _read_plainly(writer: Writer, table: RowHolder, input: FileInput) -> list[Answer]:
    """The rows of plain CSV; nothing where it is not certain that they are read as they should be."""
    try:
        return _run(writer, table, plain_pieces(input, table.columns, _tasks(writer, input)))
    except (DataError, InternalError):
        return []


def _read_with_care(writer: Writer, table: RowHolder, input: FileInput) -> list[Answer]:
    pieces = split(input, _tasks(writer, input))
    try:
        return _run(writer, table, pieces)
    except (DataError, InternalError) as error:
        raise _located(input, table, error) from None


def _tasks(writer: Writer, input: FileInput) -> int:
    """A task a core; of large files more, since some take longer than others."""
    is_large = sum(file.bytes for file in input.files) > LARGE
    return writer.transaction.store.engine.cores * (TASKS_PER_CORE if is_large else 1)


def _run(writer: Writer, table: RowHolder, pieces: Sequence[Files]) -> list[Answer]:
    if not pieces:
        return []
    texts = _texts(writer, table, pieces)
    if isinstance(table, Table):
        texts = _numbered(writer, table, pieces, texts)
    work = [Piece(text, {"file": piece}) for text, piece in zip(texts, pieces, strict=True)]
    return writer.write_pieces("duckdb", work, table)


def _texts(writer: Writer, table: RowHolder, pieces: Sequence[Files]) -> list[str]:
    defaults = _defaults(writer, table)
    return [select_for(table.columns, piece, defaults=defaults) for piece in pieces]


def _numbered(writer: Writer, table: Table, pieces: Sequence[Files], texts: Sequence[str]) -> list[str]:
    """The rows of a table have ids; those of a stream get theirs from the log."""
    starts = first_rows(pieces)
    last = pieces[-1]
    first = writer.transaction.reserve_row_ids(table, starts[-1] + max(last.rows, last.bytes + 1))
    return [
        f"SELECT row_number() OVER () - 1 + {first + start} AS {ROW_ID}, * FROM ({text})"
        for text, start in zip(texts, starts, strict=True)
    ]


def _defaults(writer: Writer, table: RowHolder) -> dict[str, str]:
    given = [column for column in table.columns if column.default is not None]
    return {column.name: bind_default(column, writer.context).sql("duckdb") for column in given}


def _located(input: FileInput, table: RowHolder, error: Error) -> Error:
    """The file and line of what a task could not read."""
    found = locate_fault(input, table.columns, relation=table.name)
    if found is None and isinstance(error, InternalError) and "Malformed JSON" in (error.detail or ""):
        return BadFile("a file is no valid JSON", detail=(error.detail or "").splitlines()[0])
    return found or error


def _at_its_row(writer: Writer, input: FileInput, table: RowHolder, error: Error) -> Error:
    """The same violation, with the file and line of the first row that is at fault."""
    pieces = split(input, _tasks(writer, input))
    texts = _texts(writer, table, pieces)
    conditions = " OR ".join(row_faults(table, writer.context))
    counted = 0
    for piece, text in zip(pieces, texts, strict=True):
        numbered = f"SELECT row_number() OVER () AS number, * FROM ({text})"
        first = f"SELECT min(number) AS first FROM ({numbered}) AS output WHERE {conditions}"
        queries = [Piece(first, {"file": piece}), Piece(f"SELECT count(*) AS n FROM ({text})", {"file": piece})]
        found, rows = (answer.table for answer in writer.transaction.store.engine.run("duckdb", queries))
        assert found is not None and rows is not None
        number = found.column(0)[0].as_py()
        if number is not None:
            error.detail = f"{place_of_row(input, counted + number)}. {error.detail or ''}".strip()
            return error
        counted += rows.column(0)[0].as_py()
    return error


def copy_frame(writer: Writer, table: RowHolder, frame: object) -> int:
    """A Spark DataFrame: Spark writes it as Parquet, and that is copied."""
    folder = writer.transaction.staging() / "frame"
    folder.mkdir()
    paths = writer.transaction.store.engine.save_data_frame(frame, str(folder))
    return copy_path(writer, table, str(folder), {"format": "parquet"}) if paths else 0


# --- out -------------------------------------------------------------------------------------------


def query_of(statement: Copy) -> Sql:
    """What COPY … TO writes: a query, or the columns of a relation."""
    if statement.query is not None:
        return statement.query
    columns = ", ".join(_quoted(name) for name in statement.columns) or "*"
    return parse_query(f"SELECT {columns} FROM {_quoted(str(statement.table))}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def copy_out(table: pa.Table, types: Sequence[Type], statement: Copy) -> int:
    if statement.path is None:
        sys.stdout.flush()
        return write_csv(sys.stdout.buffer, [table], types, csv_rules(statement.options, "csv"))
    return export(table, types, statement.path, statement.options)
