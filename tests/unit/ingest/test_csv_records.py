"""CSV records are split as PostgreSQL splits them, and a record that is not one names its line."""

from __future__ import annotations

import csv
import io
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import BadFile
from midstream.ingest.csv_records import CsvRules, check_structure, header_of, records

NAMES = ("a", "b")
USUAL = CsvRules()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "f.csv"


def read(file: Path, content: str | bytes, rules: CsvRules = USUAL) -> list[tuple[int, tuple[str | None, ...]]]:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    check_structure(str(file), rules, NAMES)
    return list(records(str(file), rules, NAMES))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("1,x\n2,y\n", [(1, ("1", "x")), (2, ("2", "y"))]),
        ("1,x", [(1, ("1", "x"))]),
        (',""\n', [(1, (None, ""))]),
        ('1,"a\nb\r\nc"\n2,y', [(1, ("1", "a\nb\r\nc")), (4, ("2", "y"))]),
        ('1,"a""b"\n', [(1, ("1", 'a"b'))]),
        ("1, x \r\n2,y\r\n", [(1, ("1", " x ")), (2, ("2", "y"))]),
        ("\ufeff1,x\n", [(1, ("1", "x"))]),
        ("", []),
        ('"1,2","3"\n', [(1, ("1,2", "3"))]),
    ],
)
def test_records_begin_on_their_line(file: Path, content: str, expected: list[object]) -> None:
    assert read(file, content) == expected


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        ("1,x\n2,y,z\n", "extra data after last expected column", 2),
        ("1,x\n2\n", 'missing data for column "b"', 2),
        ("1,x\n\n2,y\n", 'missing data for column "b"', 2),
        ('1,"x\ny"\n2\n', 'missing data for column "b"', 3),
        ('1,x\n2,"y\n3,z\n', "unterminated CSV quoted field", 2),
        ('1,x\n2,a"b"\n', "a quote stands inside a field that is not quoted as a whole", 2),
        ('1,x\n2,"a"b\n', "a quote stands inside a field that is not quoted as a whole", 2),
        (b"1,x\n2,\xff\n", 'invalid byte sequence for encoding "UTF8"', 2),
    ],
)
def test_a_record_that_is_none_names_its_line(file: Path, content: str | bytes, message: str, line: int) -> None:
    with pytest.raises(BadFile) as raised:
        read(file, content)
    assert raised.value.message == message
    assert raised.value.detail == f"{file}, line {line}"


def test_other_signs_may_be_agreed_on(file: Path) -> None:
    rules = CsvRules(delimiter="|", null="NULL", quote="'", escape="\\", header=True)
    content = "a|b\n1|'it\\'s|\\\\'\nNULL|'NULL'\n"
    assert read(file, content, rules) == [(2, ("1", "it's|\\")), (3, (None, "NULL"))]
    assert header_of(str(file), rules) == ("a", "b")


fields = st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=6)


@settings(deadline=None)
@given(st.lists(st.tuples(fields, fields), max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str | None, ...]], end: str
) -> None:
    written = "".join(",".join(_written(field) for field in row) + end for row in rows)
    file = tmp_path_factory.getbasetemp() / "written.csv"
    assert [fields for _, fields in read(file, written)] == rows


def _written(field: str | None) -> str:
    return "" if field is None else '"' + field.replace('"', '""') + '"'


@settings(deadline=None)
@given(st.text(alphabet='ab,"\n\r', max_size=30))
def test_what_is_taken_has_the_meaning_that_python_gives_it(
    tmp_path_factory: pytest.TempPathFactory, content: str
) -> None:
    """Python's own reader is a judge where it tells apart as much as we do: not for NULL and empty text."""
    file = tmp_path_factory.getbasetemp() / "any.csv"
    try:
        found = read(file, content)
    except BadFile:
        return
    expected = list(csv.reader(io.StringIO(content, newline="")))
    assert [[field or "" for field in fields] for _, fields in found] == expected


def test_files_without_quotes_are_not_looked_through(file: Path) -> None:
    file.write_text("1,abcdefgh\n" * 1_000_000)
    began = time.perf_counter()
    check_structure(str(file), CsvRules(), NAMES)
    assert time.perf_counter() - began < 0.5


def test_files_with_quotes_are_looked_through_quickly(file: Path) -> None:
    file.write_text('1,"abc ""d"", efgh"\n' * 200_000 + "2,b,c\n")
    began = time.perf_counter()
    with pytest.raises(BadFile, match="extra data") as raised:
        check_structure(str(file), CsvRules(), NAMES)
    assert raised.value.detail == f"{file}, line 200001"
    assert time.perf_counter() - began < 3.0
