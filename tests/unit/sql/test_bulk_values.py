"""INSERT … VALUES of plain literals: a fast path that agrees with the grammar."""

from __future__ import annotations

import statistics
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import Error
from midstream.sql import parse, parse_one
from midstream.sql.bulk import read_bulk_insert
from midstream.sql.commands import StatementReader
from midstream.sql.lexer import Source, read_statement
from midstream.sql.statements import DEFAULT, InsertQuery, InsertValues, Select, Statement


def _by_grammar(text: str) -> Statement:
    source = Source(text)
    return StatementReader(source, read_statement(source, 0)[0]).statement()


def _rows(text: str) -> tuple[tuple[object, ...], ...]:
    bulk = read_bulk_insert(Source(text), 0)
    assert bulk is not None
    return bulk[0].rows


def test_every_kind_of_plain_value_is_read() -> None:
    values = r"'it''s', E'tab\t\'x''', -1, +2.50, .5, 1e3, NULL, true, FALSE, Default"
    text = f'insert into Public.T ( A,"b ""C" ) values ({values})'
    bulk = read_bulk_insert(Source(text), 0)
    assert bulk is not None
    statement = bulk[0]
    assert (statement.table, statement.columns) == ("t", ("a", 'b "C'))
    [row] = statement.rows
    assert row == ("it's", "tab\t'x'", -1, Decimal("2.50"), Decimal("0.5"), Decimal("1e3"), None, True, False, DEFAULT)
    assert [type(value) for value in row[2:6]] == [int, Decimal, Decimal, Decimal]


_literals = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8).map(
        lambda text: "'" + text.replace("'", "''") + "'"
    ),
    st.text(st.sampled_from("ab'\\nt x"), max_size=6).map(
        lambda text: "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    ),
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.sampled_from(["NULL", "null", "TRUE", "false", "DEFAULT", "+1", "- 1", "1.", ".5", "1e3", "-.5E-3", "007"]),
    st.sampled_from(
        ["1 + 1", "date '2020-01-01'", "now()", "$1", "'a' 'b'", "-'x'", "1a", "'", "--1", "NULLS", "e'\\"]
    ),
)
_spaces = st.sampled_from(["", " ", "\n", " /* ',' */ ", " -- x\n"])


@st.composite
def _inserts(draw: st.DrawFn) -> str:
    header = draw(
        st.sampled_from(["INSERT INTO t VALUES", 'insert into T (a, "B") values', "INSERT INTO select VALUES"])
    )
    width = draw(st.integers(1, 3))
    space = draw(_spaces)
    rows = [
        "(" + (space + ",").join(draw(_literals) for _ in range(draw(st.sampled_from([width] * 9 + [width + 1])))) + ")"
        for _ in range(draw(st.integers(1, 3)))
    ]
    return (
        header
        + " "
        + ("," + space).join(rows)
        + draw(st.sampled_from(["", ";", " RETURNING a", " ", ", ", "; SELECT 1"]))
    )


@settings(deadline=None)
@given(_inserts())
def test_the_fast_path_agrees_with_the_grammar(text: str) -> None:
    bulk = read_bulk_insert(Source(text), 0)
    if bulk is None:
        return
    slow = _by_grammar(text)
    assert slow == bulk[0]
    assert (slow.text, slow.start) == (bulk[0].text, bulk[0].start)
    assert isinstance(slow, InsertValues)
    assert [[type(v) for v in row] for row in slow.rows] == [[type(v) for v in row] for row in bulk[0].rows]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO t VALUES (1, 'a') -- comment",
        "INSERT INTO t VALUES (1 /* one */, 'a')",
        "INSERT /* into */ INTO t VALUES (1, 'a')",
        "INSERT INTO t VALUES (- -1, 'a' \n 'b')",
    ],
)
def test_plain_values_are_the_same_statement_whichever_way_they_were_read(text: str) -> None:
    assert isinstance(parse_one(text), InsertValues | InsertQuery)
    assert parse_one(text) == _by_grammar(text)


def test_richer_values_are_a_query() -> None:
    statement = parse_one("INSERT INTO t VALUES (1, now())")
    assert isinstance(statement, InsertQuery)
    assert statement.query is not None and statement.query.text == "VALUES (1, now())"


def test_rows_of_unequal_length_are_refused() -> None:
    with pytest.raises(Error, match="VALUES lists must all be the same length"):
        parse("INSERT INTO t VALUES (1, 2), (3)")


def test_a_number_longer_than_python_reads_is_a_query() -> None:
    assert isinstance(parse_one(f"INSERT INTO t VALUES ({'9' * 5000})"), InsertQuery)


def test_a_script_around_a_bulk_insert_is_cut_at_the_right_places() -> None:
    rows = ", ".join(f"({i}, 'semi;colon -- {i}', '$$', '/*')" for i in range(50))
    script = f"SELECT ';' || $$ ; $$ /* ; */;INSERT INTO t VALUES {rows};INSERT INTO t VALUES {rows} ; SELECT 2 -- ;"
    statements = parse(script)
    assert [type(statement) for statement in statements] == [Select, InsertValues, InsertValues, Select]
    assert statements[1] == statements[2]


def _thousand_rows() -> str:
    return ", ".join(f"({i}, 'name {i}', {i}.25, 'it''s a text')" for i in range(1000))


def test_a_thousand_rows_of_four_values_parse_in_under_ten_milliseconds() -> None:
    text = f"INSERT INTO t VALUES {_thousand_rows()}"
    assert len(_rows(text)) == 1000
    assert _median_milliseconds(text) < 10


def test_a_script_with_bulk_inserts_takes_no_longer_than_its_inserts() -> None:
    text = f"BEGIN; INSERT INTO t VALUES {_thousand_rows()}; INSERT INTO t VALUES {_thousand_rows()}; COMMIT"
    assert _median_milliseconds(text) < 20


def _median_milliseconds(text: str) -> float:
    """Of the process's own time: what else runs on the machine does not count."""
    taken = []
    for _ in range(9):
        start = time.process_time()
        parse(text)
        taken.append((time.process_time() - start) * 1000)
    return statistics.median(taken)
