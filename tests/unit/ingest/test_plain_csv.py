"""Plain CSV read by Arrow gives exactly the rows that the careful way gives, or refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import Error
from midstream.ingest.files import first_rows, open_files, select_for, split
from midstream.ingest.plain_csv import plain_pieces
from midstream.maintenance.engine import Files, Piece
from midstream.plan.render import DUCKDB_SETTINGS
from midstream.relations.table import Column
from midstream.spark import csv_ranges, duckdb_connection
from midstream.spark.named_inputs import define_inputs
from midstream.types import parse_type

REFUSED = "refused"
Outcome = str | pa.Table


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("plain")
    yield folder
    duckdb_connection.forget(str(folder))


def columns_of(*types: str) -> tuple[Column, ...]:
    return tuple(Column(f"c{place}", parse_type(type_)) for place, type_ in enumerate(types))


def run(folder: Path, columns: Sequence[Column], pieces: Sequence[Files]) -> pa.Table:
    limits = duckdb_connection.Limits(1, 256 << 20, tuple(DUCKDB_SETTINGS.items()))
    tables = []
    for piece in pieces:
        connection = duckdb_connection.connect(limits, str(folder))
        try:
            names = define_inputs(connection, Piece("", {"file": piece}))
            tables.append(connection.sql(names.before(select_for(columns, piece))).to_arrow_table())
        finally:
            connection.close()
    return pa.concat_tables(tables) if tables else pa.table({})


def both_ways(
    folder: Path,
    columns: Sequence[Column],
    content: str | bytes,
    *,
    tasks: int = 1,
    smallest_share: int = 1,
    **options: object,
) -> tuple[Outcome, Outcome]:
    """What the fast and the careful way make of a file."""
    (folder / "f.csv").write_bytes(content.encode() if isinstance(content, str) else content)

    def fast() -> Outcome:
        input = open_files(str(folder / "f.csv"), options, columns, relation="t")
        pieces = plain_pieces(input, columns, tasks, smallest_share=smallest_share)
        return run(folder, columns, pieces) if pieces else REFUSED

    def careful() -> Outcome:
        input = open_files(str(folder / "f.csv"), options, columns, relation="t")
        return run(folder, columns, split(input, tasks))

    return outcome(fast), outcome(careful)


def outcome(read: object) -> Outcome:
    try:
        return read()  # type: ignore[operator, no-any-return]
    except (Error, duckdb.Error):
        return REFUSED


def bits(table: pa.Table) -> list[list[str]]:
    """Values that tell -0.0 from 0.0, and take every NaN for the same."""
    return [[repr(value) for value in column.to_pylist()] for column in table.columns]


def assert_the_same(fast: Outcome, careful: Outcome, content: object) -> None:
    if isinstance(fast, pa.Table):
        assert isinstance(careful, pa.Table), f"only the fast way takes {content!r}"
        assert fast.schema.equals(careful.schema)
        assert bits(fast) == bits(careful), content


# --- texts of one type -----------------------------------------------------------------------------

TAKEN = {
    "smallint": ["0", "-7", "32767", "-32768", "007"],
    "int": ["2147483647", "-2147483648", " 5", "5 "],
    "bigint": ["9223372036854775807", "-9223372036854775808"],
    "double precision": ["1", "-1.5e-3", ".5", "5.", "1e308", "-0", "0e5", "0e-5", "0.000", "nan", "-inf", "5e-324"],
    "real": ["1e38", "0.1", "16777217", "1e-45", "Infinity"],
    "numeric(5,2)": ["1.5", "-999.99", ".5", "5.", "0"],
    "numeric(38,10)": ["1" * 28, "0.0000000001", "-1"],
    "boolean": ["true", "false", "t", "f", "1", "0", "TRUE", "False", "yes", "No", "on", "OFF"],
    "text": ["a", " a ", "é👍", "0x1F", "one-two", "NaN", "at 12", "e-5"],
    "varchar(3)": ["abc", "abc  ", "é👍x"],
    "date": ["2020-02-29", "0001-01-01", "9999-12-31"],
    "timestamp": ["2020-01-02", "2020-01-02 03:04", "2020-01-02T03:04:05", "1969-12-31 23:59:59.999999"],
    "timestamptz": ["2020-01-02 03:04:05+02", "2020-01-02T03:04:05Z", "2020-01-02 03:04:05.123456-05:30"],
    "interval": ["1 day", "-00:00:01.5"],
    "json": ["1", "[1]"],
    "int[]": ["{1}", "{}"],
    "bytea": ["\\xDEad", "plain"],
}
"""What the fast way takes."""
ODD = {
    "int": ["+5", "\t5", "1.5", "1e3", "0x1F", " 0X1f", "1_000", "2147483648", "--5", "5-", " ", "٣", "0" * 31],
    "bigint": ["9223372036854775808", "0" * 29 + "7", "0" * 30 + "7", "0xFFFFFFFFFFFFFFFF", "-0x1"],
    "smallint": ["32768", "0x7fff", "0xffff"],
    "double precision": ["+5", "1e400", "-1e400", "1e-400", "0." + "0" * 400 + "1", "nan(1)", "+nan", "-nan", "+inf"]
    + ["0x10", "1_0", "infin", "1e", "e5", ".", "1.e5", "0" * 40, "0e-999", "1e-324", "2.4e-324", "1d5"],
    "real": ["1e39", "1e-46", "0." + "0" * 50 + "1", "3.4028236e38", "7e-46", "8e-46"],
    "numeric(5,2)": [
        "1e2",
        "12e-1",
        "1.005",
        "-1.005",
        "99999",
        "1000",
        "999.995",
        "1e3",
        "1e99",
        "1e002",
        "+1",
        "00001.50",
        "1.500",
    ]
    + ["1005e-3", "nan", "-", ".", "e1", "0" * 60, "1e-0", "1E+2", "1e0x02"],
    "numeric(38,37)": ["1.5", "12", "9.9", "99e0", "1e1"],
    "numeric(38,10)": [
        "1" * 29,
        "1" * 30,
        "-20758000501566090601248508023976.02",
        "72000409964093641209837900E+08",
        "0" * 40 + "1",
        "1e27",
        "1e28",
        "0.00000000005",
        "9" * 38,
    ],
    "boolean": ["T", "tr", "oN", " t", "o", "2", "tRUE", "10"],
    "varchar(3)": ["abcd"],
    "date": [
        "0000-01-01",
        "2021-02-29",
        "2020-1-2",
        "2020/01/02",
        "2020-01-02 10:00",
        "20200102",
        "infinity",
        "10000-01-01",
    ],
    "timestamp": ["2026-11-15 01", "2026-11-15T01", "2020-01-02 24:00:00", "2020-01-02 03:04:05.1234567", "infinity"]
    + [
        "2020-01-02 03:04:60",
        "2020-01-02 03:04:05Z",
        "2020-01-02 03:04:05+02",
        "2020-01-02 0304",
        "0000-12-31 00:00:00",
    ]
    + [" 2020-01-02", "2020-01-02 03:04:05.", "2020-01-02 ", "2020-01-02 3:04:05", "9999-12-31 23:59:59.999999"],
    "timestamptz": ["2020-01-02", "2020-01-02 03:04:05", "2020-01-02 03+02", "2020-01-02 03Z", "2020-01-02 03:04:05+16"]
    + ["2020-01-02 03:04:05+1559", "2020-01-02 03:04:05-15:60", "0001-01-01 00:00:00+01", "9999-12-31 23:59:59-01"]
    + ["2020-01-02 03:04:05z", "2020-01-02 03:04:05 +02", "2020-01-02 03:04+02", "2020-01-02 03:04:05.1+20"],
    "text": ["\x00", "\ufeffa", "a\x7f"],
    "json": ["{", "nan"],
}
"""What must not be read in another way, and may be refused."""


@pytest.mark.parametrize(("type_", "text"), [(type_, text) for type_, texts in TAKEN.items() for text in texts])
def test_a_usual_text_is_taken_as_the_careful_way_takes_it(folder: Path, type_: str, text: str) -> None:
    fast, careful = both_ways(folder, columns_of(type_, "int"), f"{text},1\n,2\n")
    assert isinstance(fast, pa.Table)
    assert_the_same(fast, careful, text)


@pytest.mark.parametrize(("type_", "text"), [(type_, text) for type_, texts in ODD.items() for text in texts])
def test_an_odd_text_is_refused_or_taken_as_the_careful_way_takes_it(folder: Path, type_: str, text: str) -> None:
    assert_the_same(*both_ways(folder, columns_of("int", type_), f"1,{text}\n2,\n"), text)
    assert_the_same(*both_ways(folder, columns_of(type_), f"{text}\n\n{text}"), text)


ALPHABETS = {
    "int": "0123456789+- .e_xX\t",
    "double precision": "0123456789+-.eE infa",
    "real": "0123456789+-.eE",
    "numeric(9,3)": "0123456789+-.eE ",
    "boolean": "truefalsynoTF10 ",
    "text": "aé\t 0x\u2028e-",
    "date": "0123456789-/",
    "timestamp": "0123456789-: T.Z+",
    "timestamptz": "0123456789-: T.Z+",
}
dates = st.from_regex(r"[0-2][0-9]{3}-[0-1]?[0-9]-[0-3]?[0-9]", fullmatch=True)
clocks = st.from_regex(
    r"([ T][0-2]?[0-9](:[0-6][0-9](:[0-6][0-9](\.[0-9]{0,7})?)?)?)?( ?(Z|[+-][0-2][0-9](:?[0-6][0-9])?))?",
    fullmatch=True,
)
numbers = st.from_regex(r"[+-]?[0-9]{1,3}\.?[0-9]{0,3}([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def texts_of(type_: str) -> st.SearchStrategy[str]:
    known = st.sampled_from(TAKEN.get(type_, ["1"]) + ODD.get(type_, [""]) + ["", "NIL"])
    drawn = st.text(ALPHABETS[type_], max_size=8)
    if type_ in ("date", "timestamp", "timestamptz"):
        return known | drawn | st.builds(str.__add__, dates, clocks)
    return known | drawn | numbers if type_ in ("double precision", "real", "numeric(9,3)") else known | drawn


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_texts_are_refused_or_taken_as_the_careful_way_takes_them(folder: Path, data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(sorted(ALPHABETS)), min_size=1, max_size=3))
    delimiter = data.draw(st.sampled_from([",", ";", "\t", "|", " ", "x", "-"]))
    null = data.draw(st.sampled_from(["", "NIL", "0"]))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    rows = data.draw(st.lists(st.tuples(*map(texts_of, types)), min_size=1, max_size=4))
    content = "".join(delimiter.join(row) + end for row in rows)
    if data.draw(st.booleans()):
        content = content.removesuffix(end)
    if delimiter in null:
        return
    assert_the_same(
        *both_ways(folder, columns_of(*types), content, delimiter=delimiter, null=null),
        (types, delimiter, null, content),
    )


# --- whole files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("1,a\n2,b\n", {}),
        ("1,a\n2,b", {}),
        ("1,\n,\n", {}),
        ("1,a\r\n2,b\r\n", {}),
        ("1,a\r\n2,b", {}),
        ("\ufeff1,a\n", {}),
        ("\ufeffc1,c0\na,1\n", {"header": True}),
        ('"c0","c1"\n1,a\n', {"header": True}),
        ("c0,c1\r\n1,a\r\n", {"header": True}),
        ("1;a,b\n", {"delimiter": ";"}),
        ("1,NIL\n2,\n3,nil\n", {"null": "NIL"}),
        ("1,é\n2,É\n", {"null": "é"}),
        ("1,'a'\n", {"quote": "*"}),
    ],
)
def test_a_plain_file_is_taken(folder: Path, content: str, options: dict[str, object]) -> None:
    fast, careful = both_ways(folder, columns_of("int", "text"), content, **options)
    assert isinstance(fast, pa.Table)
    assert_the_same(fast, careful, content)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ('1,"a"\n', {}),
        ('1,a"b\n', {}),
        ("1,a\rb\n", {}),
        ("1,a\r2,b\r", {}),
        ("1,a\r\n2,b\n", {}),
        ("1,a\n2,b\r\n", {}),
        ("1,a\r\n2,b\rc\r\n", {}),
        ("1,a\n\n2,b\n", {}),
        ("1,a\n\n", {}),
        ("\n1,a\n", {}),
        ("1,a\n2\n", {}),
        ("1,a\n2,b,c\n", {}),
        (b"1,\xff\n", {}),
        (b"1,\x00\n", {}),
        ("1,\\a\n", {"escape": "\\"}),
        ("1,a\n" + "2," + "b" * (5 << 20) + "\n3,c\n", {}),
        ("x" * 70_000 + "\n", {}),
    ],
)
def test_a_file_that_is_not_plain_is_refused(folder: Path, content: str | bytes, options: dict[str, object]) -> None:
    fast, _ = both_ways(folder, columns_of("int", "text"), content, **options)
    assert fast is REFUSED


def test_an_odd_text_far_down_is_found(folder: Path) -> None:
    lines = ["1,a"] * 200_000
    for line, types in (("0x1F,b", ("int", "text")), ("1e-400,b", ("double precision", "text"))):
        fast, _ = both_ways(folder, columns_of(*types), "\n".join([*lines, line, *lines]), tasks=3)
        assert fast is REFUSED


def test_what_only_looks_odd_is_taken(folder: Path) -> None:
    content = "5,0.0,2020-01-01 00:00:00,at 12,0x1F\n6,1e-5,2020-01-01 01:00:00,8e-4,one\n"
    columns = columns_of("int", "double precision", "timestamp", "text", "text")
    fast, careful = both_ways(folder, columns, content)
    assert isinstance(fast, pa.Table)
    assert_the_same(fast, careful, content)


TYPES = ("bigint", "int", "double precision", "boolean", "numeric(10,2)", "date", "timestamp", "text", "text[]")


def lines_of(rows: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [
        f"{chance.randrange(-(2**63), 2**63)},{number},{chance.random() * 10 ** chance.randrange(-20, 20)!r},"
        f"{chance.choice(['true', 'f', ''])},{chance.randrange(10**8)}.{chance.randrange(10)},"
        f"20{chance.randrange(10, 99)}-0{chance.randrange(1, 9)}-11,2026-11-15 0{chance.randrange(9)}:00:59,"
        f"{'word ' * chance.randrange(20)},{chance.choice(['{a}', '{}', ''])}"
        for number in range(rows)
    ]


@pytest.mark.parametrize(("end", "tasks"), [("\n", 1), ("\n", 7), ("\r\n", 3)])
def test_many_blocks_and_ranges_give_the_rows_in_their_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch, end: str, tasks: int
) -> None:
    monkeypatch.setattr(csv_ranges, "BLOCK_BYTES", 20_000)
    content = end.join(lines_of(5_000, seed=tasks))
    fast, careful = both_ways(folder, columns_of(*TYPES), content, tasks=tasks)
    assert isinstance(fast, pa.Table)
    assert fast["c1"].to_pylist() == list(range(5_000))
    assert_the_same(fast, careful, "random lines")


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.lists(st.text("ab\n", max_size=12), max_size=3), min_size=1, max_size=4), st.integers(1, 5), st.data()
)
def test_ranges_hold_every_byte_behind_the_header_once(
    folder: Path, files: list[list[str]], tasks: int, data: st.DataObject
) -> None:
    header = data.draw(st.booleans())
    inside = folder / "ranges"
    inside.mkdir(exist_ok=True)
    for path in inside.iterdir():
        path.unlink()
    wanted = []
    for number, parts in enumerate(files):
        body = "".join(parts)
        (inside / f"{number}.csv").write_text(("c0\n" if header else "") + body)
        wanted.append(body)
    input = open_files(str(inside), {"header": header}, columns_of("text"), relation="t")
    pieces = plain_pieces(input, columns_of("text"), tasks, smallest_share=data.draw(st.integers(1, 20)))
    found: dict[str, str] = {}
    for piece in pieces:
        for path, (start, end) in zip(piece.paths, piece.options["ranges"], strict=True):  # type: ignore[call-overload]
            cut = Path(path).read_bytes()[start:end].decode()
            assert cut
            found[path] = found.get(path, "") + cut
    assert [found.get(str(inside / f"{number}.csv"), "") for number in range(len(files))] == wanted
    assert [path for piece in pieces for path in piece.paths] == sorted(
        path for piece in pieces for path in piece.paths
    )
    starts = [*first_rows(pieces), 2**63]
    assert all(start + piece.bytes <= after for start, piece, after in zip(starts, pieces, starts[1:], strict=False))


def test_small_files_share_a_task_where_their_columns_are_the_same(tmp_path: Path) -> None:
    for name, text in {"a": "c0,c1\n1,a\n", "b": "c0,c1\n2,b\n", "c": "c1,c0\nc,3\n"}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    columns = columns_of("int", "text")
    pieces = plain_pieces(open_files(str(tmp_path), {"header": True}, columns, relation="t"), columns, 4)
    assert [[Path(path).stem for path in piece.paths] for piece in pieces] == [["a", "b"], ["c"]]
    assert run(tmp_path, columns, pieces).to_pydict() == {"c0": [1, 2, 3], "c1": ["a", "b", "c"]}
    duckdb_connection.forget(str(tmp_path))


def test_a_file_that_changes_before_it_is_read_is_refused(folder: Path) -> None:
    columns = columns_of("int", "text")
    (folder / "g.csv").write_text("1,a\n2,b\n")
    pieces = plain_pieces(open_files(str(folder / "g.csv"), {}, columns, relation="t"), columns, 1)
    (folder / "g.csv").write_text("1,a\n2,b\n3,c\n")
    with pytest.raises(duckdb.Error, match=r"\[22P04\] the CSV is not plain: the file was changed"):
        run(folder, columns, pieces)
