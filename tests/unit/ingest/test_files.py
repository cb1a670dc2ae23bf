"""Files of a COPY: found, checked before a row is read, shared among tasks, and searched for the bad line."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duckdb_task import run_piece
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import Error
from midstream.ingest.files import FileInput, InputFile, expand_path, first_rows, open_files, select_for, split
from midstream.ingest.locate import locate_fault
from midstream.maintenance.engine import FileColumn
from midstream.relations.table import Column
from midstream.types import BIGINT, INT, JSON, NUMERIC, TEXT, TIMESTAMP, array_of

USERS = (
    Column("id", BIGINT, not_null=True),
    Column("name", TEXT),
    Column("age", INT),
    Column("tags", array_of(TEXT)),
)


def opened(path: Path | str, columns: tuple[Column, ...] = USERS, **options: object) -> FileInput:
    return open_files(str(path), options, columns, relation="users")


def taken(input: FileInput, columns: tuple[Column, ...] = USERS, **defaults: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for piece in split(input, 4):
        rows += run_piece(piece, select_for(columns, piece, defaults=defaults)).to_pylist()
    return rows


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


# --- paths -----------------------------------------------------------------------------------------


def test_a_folder_and_a_glob_are_their_files_in_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", ".hidden.csv", "_SUCCESS", "sub/c.csv", "_temporary/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [str(Path(path).relative_to(tmp_path)) for path in expand_path(str(tmp_path))]
    assert names == ["a.csv", "b.csv", "sub/c.csv"]
    assert expand_path(str(tmp_path / "*.csv")) == (str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a[1].csv", "1,a,2,{}\n")
    assert expand_path(str(file)) == (str(file),)


def test_no_path_is_not_the_folder_that_the_process_is_in() -> None:
    with pytest.raises(Error) as raised:
        expand_path("")
    assert raised.value.sqlstate == "22023"


@pytest.mark.parametrize("name", ["missing.csv", "*.parquet"])
def test_a_path_that_is_not_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(Error) as raised:
        expand_path(str(tmp_path / name))
    assert raised.value.sqlstate == "58P01"
    assert raised.value.message == (f'could not open file "{tmp_path / name}" for reading: No such file or directory')


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Error, match="has no files to read"):
        expand_path(str(tmp_path))


# --- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"format": "xml"}, 'COPY format "xml" not recognized', "The formats are csv, parquet, json."),
        ({"headr": True}, 'option "headr" not recognized', 'Did you mean "header"?'),
        ({"delimiter": "||"}, "COPY delimiter must be a single one-byte character", None),
        ({"delimiter": '"'}, "COPY delimiter and quote must be different", None),
        ({"null": "a,b"}, "COPY delimiter must not appear in the NULL specification", None),
        ({"header": "maybe"}, "header requires a Boolean value", None),
        ({"format": "parquet", "header": True}, "COPY header available only in CSV mode", None),
    ],
)
def test_a_wrong_option_is_refused(tmp_path: Path, options: dict[str, object], message: str, hint: str | None) -> None:
    file = write(tmp_path / "a.csv", "1,a,2,{}\n")
    with pytest.raises(Error) as raised:
        opened(file, **options)
    assert (raised.value.message, raised.value.hint) == (message, hint)


def test_a_format_that_the_name_does_not_say_must_be_said(tmp_path: Path) -> None:
    file = write(tmp_path / "data.txt", "1,a,2,{}\n")
    with pytest.raises(Error, match="is not clear from its name"):
        opened(file)
    assert taken(opened(file, format="csv"))[0]["id"] == 1


# --- CSV -------------------------------------------------------------------------------------------


def test_csv_goes_by_position_without_a_header(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", '1,"",,"{a,""b c""}"\n2,,7,\n')
    assert taken(opened(file)) == [
        {"id": 1, "name": "", "age": None, "tags": ["a", "b c"]},
        {"id": 2, "name": None, "age": 7, "tags": None},
    ]


def test_csv_goes_by_name_with_a_header(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "age,ID\n3,1\n")
    write(tmp_path / "b.csv", 'id,name\n2,"x\ny"\n')
    assert taken(opened(tmp_path, header=True)) == [
        {"id": 1, "name": None, "age": 3, "tags": None},
        {"id": 2, "name": "x\ny", "age": None, "tags": None},
    ]


def test_columns_that_copy_lists_are_those_of_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "x,1\n")
    input = open_files(str(file), {}, USERS, relation="users", listed=["name", "id"])
    assert taken(input) == [{"id": 1, "name": "x", "age": None, "tags": None}]


def test_a_listed_column_that_is_not_there(tmp_path: Path) -> None:
    file = write(tmp_path / "a.csv", "x,1\n")
    with pytest.raises(Error, match='column "nam" of relation "users" does not exist'):
        open_files(str(file), {}, USERS, relation="users", listed=["nam", "id"])


def test_a_file_of_other_width_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with pytest.raises(Error, match='missing data for column "age"') as raised:
        opened(write(tmp_path / "a.csv", "1,a\n2,b\n"))
    assert raised.value.detail == f"{tmp_path / 'a.csv'}, line 1"


def test_a_column_that_the_file_lacks_takes_its_default(tmp_path: Path) -> None:
    columns = (USERS[0], Column("name", TEXT, not_null=True, default="'nobody'"))
    csv_file = write(tmp_path / "a.csv", "id\n1\n")
    assert taken(opened(csv_file, columns, header=True), columns, name="'nobody'") == [{"id": 1, "name": "nobody"}]
    json_file = write(tmp_path / "a.json", '{"id": 1}\n{"id": 2, "name": null}')
    rows = taken(opened(json_file, columns), columns, name="'nobody'")
    assert rows == [{"id": 1, "name": "nobody"}, {"id": 2, "name": None}]


def test_a_header_with_an_unknown_column_is_an_error_with_a_guess(tmp_path: Path) -> None:
    with pytest.raises(Error) as raised:
        opened(write(tmp_path / "a.csv", "id,nam\n1,x\n"), header=True)
    assert raised.value.message == 'column "nam" of relation "users" does not exist'
    assert raised.value.hint == 'Did you mean "name"?'


def test_a_header_without_a_column_that_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(Error) as raised:
        opened(write(tmp_path / "a.csv", "name\nx\n"), header=True)
    assert raised.value.sqlstate == "23502"
    assert str(tmp_path / "a.csv") in str(raised.value.detail)


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "")
    write(tmp_path / "b.csv", "id\n")
    assert taken(opened(tmp_path, header=True)) == []


# --- the bad line ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message", "place", "sqlstate"),
    [
        (["1,a,2,", "2,b,x,", "3,c,y,"], 'invalid input syntax for type int: "x"', "line 3, column age", "22P02"),
        (['1,"a', '","2",', "y,b,2,"], 'invalid input syntax for type bigint: "y"', "line 4, column id", "22P02"),
        (["1,a,99999999999,"], 'value "99999999999" is out of range for type int', "line 2, column age", "22003"),
        (["1,a,2,{", "2,b,2,"], 'malformed array literal: "{"', "line 2, column tags", "22P02"),
        (['1,a,"",'], 'invalid input syntax for type int: ""', "line 2, column age", "22P02"),
        (["1,a,2"], 'missing data for column "tags"', "line 2", "22P04"),
        (["1,a,2,{},5"], "extra data after last expected column", "line 2", "22P04"),
    ],
)
def test_the_bad_line_of_a_csv_file_is_found(
    tmp_path: Path, lines: list[str], message: str, place: str, sqlstate: str
) -> None:
    file = write(tmp_path / "users.csv", "\n".join(["id,name,age,tags", *lines]) + "\n")
    with pytest.raises((duckdb.Error, Error)) as failed:
        taken(opened(file, header=True))
    if isinstance(failed.value, Error):
        error: Error | None = failed.value
    else:
        error = locate_fault(opened(file, header=True), USERS, relation="users")
    assert error is not None
    assert (error.message, error.sqlstate) == (message, sqlstate)
    assert str(error.detail).startswith(f"{file}, {place}")


def test_a_null_is_found_by_its_line(tmp_path: Path) -> None:
    file = write(tmp_path / "users.csv", "1,a,2,\n,b,3,\n")
    error = locate_fault(opened(file), USERS, relation="users")
    assert str(error) == (
        'ERROR:  null value in column "id" of relation "users" violates not-null constraint\n'
        f"DETAIL: {file}, line 2, column id"
    )


def test_files_as_they_should_be_have_no_fault(tmp_path: Path) -> None:
    for name, text in {"a.csv": "1,a,2,{x}\n", "b.json": '{"id": 1, "tags": ["x"]}'}.items():
        assert locate_fault(opened(write(tmp_path / name, text)), USERS, relation="users") is None


def test_a_bad_line_far_down_is_found(tmp_path: Path) -> None:
    lines = [f"{n},name,{n % 90},{{a}}" for n in range(30_000)]
    lines[25_000] = "25000,name,old,"
    error = locate_fault(opened(write(tmp_path / "a.csv", "\n".join(lines))), USERS, relation="users")
    assert error is not None
    assert error.detail == f"{tmp_path / 'a.csv'}, line 25001, column age"


# --- JSON ------------------------------------------------------------------------------------------

OBJECTS = [{"id": 1, "name": 'a"b', "tags": ["x", None]}, {"age": 5, "id": 2, "name": None}]


@pytest.mark.parametrize(
    "text", ["\n".join(map(json.dumps, OBJECTS)), json.dumps(OBJECTS, indent=1)], ids=["lines", "array"]
)
def test_json_goes_by_name(tmp_path: Path, text: str) -> None:
    assert taken(opened(write(tmp_path / "a.json", text))) == [
        {"id": 1, "name": 'a"b', "age": None, "tags": ["x", None]},
        {"id": 2, "name": None, "age": 5, "tags": None},
    ]


@pytest.mark.parametrize(
    ("line", "message", "place"),
    [
        ('{"id": 2, "age": "x"}', 'invalid input syntax for type int: "x"', "line 2, column age"),
        ('{"id": 2, "age": 1.5}', 'invalid input syntax for type int: "1.5"', "line 2, column age"),
        ('{"id": 2, "tags": "x"}', 'invalid input syntax for type text[]: "x"', "line 2, column tags"),
        ('{"id": 2, "nam": 1}', 'column "nam" of relation "users" does not exist', "line 2"),
        ('{"id": 2, "id": 3}', "invalid input syntax for type json", 'line 2: key "id" stands twice in one object'),
        ('{"id": 2,}', "invalid input syntax for type json", "line 2"),
        ("[1]", "a row of a JSON file must be an object", "line 2"),
        (
            '{"id": null}',
            'null value in column "id" of relation "users" violates not-null constraint',
            "line 2, column id",
        ),
    ],
)
def test_the_bad_line_of_a_json_file_is_found(tmp_path: Path, line: str, message: str, place: str) -> None:
    file = write(tmp_path / "a.json", f'{{"id": 1}}\n{line}\n{{"id": 3}}\n')
    error = locate_fault(opened(file), USERS, relation="users")
    assert error is not None
    assert error.message == message
    assert str(error.detail).startswith(f"{file}, {place}")
    if "null value" not in message and not line.endswith(",}"):
        with pytest.raises(duckdb.Error):
            taken(opened(file))


def test_json_numbers_keep_all_their_digits(tmp_path: Path) -> None:
    columns = (Column("n", NUMERIC(38, 22)), Column("t", TEXT), Column("b", BIGINT), Column("j", JSON))
    file = write(
        tmp_path / "a.json",
        '{"n": 0.1234567890123456789012, "t": 1.10, "b": 9223372036854775807, "j": [0.30000000000000004]}',
    )
    assert taken(opened(file, columns), columns) == [
        {"n": Decimal("0.1234567890123456789012"), "t": "1.10", "b": 2**63 - 1, "j": "[0.30000000000000004]"}
    ]


@pytest.mark.parametrize("value", ["[0.1234567890123456789012]", '{"n": 0.12345678901234567}'])
def test_json_numbers_whose_digits_would_be_lost_are_refused(tmp_path: Path, value: str) -> None:
    columns = (Column("j", JSON),)
    file = write(tmp_path / "a.json", f'{{"j": {value}}}')
    with pytest.raises(duckdb.Error, match="more digits than can be read"):
        taken(opened(file, columns), columns)


# --- Parquet ---------------------------------------------------------------------------------------


def test_parquet_goes_by_name_with_the_rules_of_arrow(tmp_path: Path) -> None:
    columns = (
        Column("a", INT),
        Column("b", NUMERIC(5, 1)),
        Column("c", BIGINT),
        Column("d", TIMESTAMP),
        Column("e", array_of(INT)),
    )
    table = pa.table(
        {
            "B": pa.array([Decimal("1.25"), None]),
            "a": pa.array([1, None], pa.int64()),
            "c": pa.array([2.0, None]),
            "d": pa.array([datetime(2020, 1, 2), None], pa.timestamp("ms")),
            "e": pa.array([[1, None], None], pa.list_(pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert taken(opened(tmp_path, columns), columns) == [
        {"a": 1, "b": Decimal("1.3"), "c": 2, "d": datetime(2020, 1, 2), "e": [1, None]},
        dict.fromkeys("abcde"),
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"id": ["1"]}), 'column "id" is of type bigint but expression is of type text'),
        (pa.table({"id": [1], "x": [1]}), 'column "x" of relation "users" does not exist'),
        (pa.table({"name": ["a"]}), 'null value in column "id" of relation "users" violates not-null constraint'),
        (pa.table({"id": [1], "name": pa.array([{"a": 1}])}), "Arrow type struct<a: int64> has no SQL type"),
    ],
)
def test_a_parquet_file_that_does_not_fit_is_refused_by_its_footer(
    tmp_path: Path, table: pa.Table, message: str
) -> None:
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(Error) as raised:
        opened(tmp_path)
    assert raised.value.message == message


def test_a_parquet_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(Error) as raised:
        opened(write(tmp_path / "a.parquet", "hello"))
    assert (raised.value.sqlstate, raised.value.message) == (
        "22P04",
        f'file "{tmp_path / "a.parquet"}" is not a Parquet file',
    )


def test_a_parquet_value_that_does_not_fit_is_found_by_its_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3], "age": [1, 2**40, 3]}), tmp_path / "a.parquet", row_group_size=1)
    input = opened(tmp_path)
    with pytest.raises(duckdb.Error):
        run_piece(split(input, 1)[0], select_for(USERS, split(input, 1)[0]))
    error = locate_fault(input, USERS, relation="users")
    assert str(error) == (f"ERROR:  int out of range\nDETAIL: {tmp_path / 'a.parquet'}. Row 2 is (2, {2**40}).")


# --- pieces ----------------------------------------------------------------------------------------

ID = (FileColumn("id", BIGINT),)


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 50), max_size=6), min_size=1, max_size=5), st.integers(1, 9))
def test_pieces_hold_every_row_group_once_and_in_order(groups: list[list[int]], tasks: int) -> None:
    files = tuple(InputFile(f"f{n}", ID, 10, tuple(rows)) for n, rows in enumerate(groups))
    pieces = split(FileInput("parquet", files), tasks)
    covered = [
        (path, group)
        for piece in pieces
        for path, limit in zip(piece.paths, piece.row_groups or [None] * len(piece.paths), strict=True)
        for group in (limit if limit is not None else range(len(groups[int(path[1:])])))
    ]
    with_rows = [(f"f{n}", g) for n, rows in enumerate(groups) for g, count in enumerate(rows) if count]
    assert [each for each in covered if groups[int(each[0][1:])][each[1]]] == with_rows
    assert sum(piece.rows for piece in pieces) == sum(map(sum, groups))
    starts = first_rows(pieces)
    assert all(after == before + piece.rows for before, after, piece in zip(starts, starts[1:], pieces, strict=False))


def test_tasks_share_row_groups_evenly() -> None:
    files = (InputFile("f", ID, 1000, (100,) * 16),)
    assert [piece.rows for piece in split(FileInput("parquet", files), 4)] == [400] * 4


def test_files_with_other_columns_are_other_pieces() -> None:
    other = (FileColumn("id", INT),)
    files = (InputFile("f", ID, 10, (1,)), InputFile("g", other, 10, (1,)))
    assert [piece.columns for piece in split(FileInput("parquet", files), 1)] == [ID, other]


def test_text_files_are_a_piece_each_and_their_rows_do_not_overlap(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "1,a,2,\n" * 3)
    write(tmp_path / "b.csv", "1,a,2,\n")
    pieces = split(opened(tmp_path), 1)
    assert [piece.paths for piece in pieces] == [(str(tmp_path / "a.csv"),), (str(tmp_path / "b.csv"),)]
    starts = first_rows(pieces)
    assert starts[0] == 0
    assert starts[1] >= 3
