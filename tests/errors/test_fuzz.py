"""Whatever the text, the answer is a result or a midstream.Error that is not our own fault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import midstream

SETUP = "CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(5,2)); INSERT INTO t VALUES (1, 'x', 1.5)"
SCRIPTS = sorted(Path(__file__).parents[1].glob("sql/standard/*.test"))
TOKEN = re.compile(r"\s+|\w+|'[^']*'|\"[^\"]*\"|.", re.DOTALL)
WORDS = """SELECT FROM WHERE GROUP BY ORDER HAVING JOIN LEFT FULL ON USING UNION ALL EXCEPT INTERSECT DISTINCT WITH AS
OF SCN CASE WHEN THEN ELSE END CAST NULL NOT IN EXISTS BETWEEN LIKE IS AND OR OVER PARTITION ROWS WINDOW SLIDE LANDMARK
INSERT INTO VALUES UPDATE SET DELETE MERGE MATCHED CREATE TABLE VIEW STREAM CONTINUOUS QUERY ALTER ADD COLUMN CONSTRAINT
PRIMARY KEY REFERENCES CHECK DEFAULT INCREASING BEGIN COMMIT ROLLBACK EXPLAIN DESCRIBE SHOW TABLES PATTERN INITIALIZE
count sum max length t a b c x interval date timestamp int text numeric array ROLLUP CUBE GROUPING SETS LIMIT OFFSET
( ) [ ] , . ; * + - / % = < > <> || :: ? $1 1 0 -1 2.5 1e400 99999999999999999999999999 'x' '' '2024-01-01' "A" ""
_row_id clog_t current_scn() now() true false ARRAY[1] {} \\ ` @ # ~ ! E'\\x' $$ -- /* */""".split()

FEW = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))


def corpus() -> list[str]:
    """The statements of the scripts; those that write files are left out."""
    blocks = [block for path in SCRIPTS for block in path.read_text().split("\n\n")]
    found = [
        block.split("\n----\n")[0].split("\n", 1)[1]
        for block in blocks
        if block.startswith(("statement", "query", "error")) and "\n" in block
    ]
    return [sql for sql in found if "COPY" not in sql]


CORPUS = corpus()


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement of the scripts with some tokens dropped, doubled, swapped or replaced."""
    tokens = TOKEN.findall(draw(st.sampled_from(CORPUS)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(0, len(tokens) - 1)))
        match draw(st.sampled_from(["drop", "double", "swap", "word", "character"])):
            case "drop":
                del tokens[place : place + 1]
            case "double":
                tokens[place:place] = tokens[place : place + 3]
            case "swap" if tokens:
                other = draw(st.integers(0, len(tokens) - 1))
                tokens[place], tokens[other] = tokens[other], tokens[place]
            case "word":
                tokens.insert(place, f" {draw(st.sampled_from(WORDS))} ")
            case _:
                tokens.insert(place, draw(st.characters()))
    return "".join(tokens)


def never_fails_otherwise(session: Any, sql: str, parameters: list[Any] | None = None) -> None:
    try:
        result = session.sql(sql, parameters) if parameters is not None else session.sql(sql)
        result.fetchall()
    except midstream.Error as error:
        assert error.sqlstate != "XX000", f"{sql!r}: {error}"
        assert re.fullmatch(r"[0-9A-Z]{5}", error.sqlstate)
        str(error)
    finally:
        session.sql("ROLLBACK")


@FEW
@given(text=st.text(max_size=60))
def test_any_text(shop: Any, text: str) -> None:
    never_fails_otherwise(shop, text)


@FEW
@given(data=st.binary(max_size=80))
def test_any_bytes(shop: Any, data: bytes) -> None:
    never_fails_otherwise(shop, data.decode("latin-1"))


@FEW
@given(words=st.lists(st.sampled_from(WORDS), max_size=25))
def test_any_words(shop: Any, words: list[str]) -> None:
    never_fails_otherwise(shop, " ".join(words))


@settings(FEW, max_examples=100)
@given(sql=mutated())
def test_statements_with_mistakes(shop: Any, sql: str) -> None:
    never_fails_otherwise(shop, sql)


@pytest.mark.long
@MANY
@given(sql=st.one_of(mutated(), st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join), st.text(max_size=200)))
def test_many_texts(shop: Any, sql: str) -> None:
    never_fails_otherwise(shop, sql)


EXTREME = {
    "parentheses": "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "open parentheses": "SELECT " + "(" * 3000,
    "sums": "SELECT " + "+".join(["1"] * 3000),
    "nested cases": "SELECT " + "CASE WHEN true THEN " * 300 + "1" + " END" * 300,
    "nested queries": "SELECT * FROM " + "(SELECT * FROM " * 200 + "t" + ")" * 200,
    "nots": "SELECT " + "NOT " * 3000 + "true",
    "minuses": "SELECT " + "- " * 3000 + "1",
    "unions": " UNION ALL ".join(["SELECT 1"] * 400),
    "a long name": f"SELECT 1 AS {'x' * 100_000}",
    "many columns": "SELECT " + ", ".join(f"{n} AS c{n}" for n in range(2000)),
    "a long list": f"SELECT 1 WHERE 1 IN ({', '.join(map(str, range(20_000)))})",
    "nul": "SELECT 'a\0b'",
    "a lone surrogate": "SELECT '\ud800'",
    "a huge number": f"SELECT {'9' * 5000}",
    "a huge exponent": "SELECT 1e999999",
    "nothing": "",
    "semicolons": ";;;;",
    "a comment": "-- nothing",
    "an open comment": "/* nothing",
    "nested brackets": "SELECT " + "ARRAY[" * 500 + "1" + "]" * 500,
    "a byte order mark": "\ufeffSELECT 1",
    "line ends": "SELECT\r\n1\r;\v\f",
    "casts": "SELECT 1" + "::text" * 2000,
}


@pytest.mark.parametrize("sql", EXTREME.values(), ids=EXTREME.keys())
def test_texts_beyond_measure(shop: Any, sql: str) -> None:
    never_fails_otherwise(shop, sql)


@pytest.mark.parametrize(
    "parameter", [object(), {1, 2}, {"a": 1}, 10**50, float("nan"), "\ud800", b"\xff", [[1], 2], [object()], ..., 1j]
)
def test_any_parameter(shop: Any, parameter: Any) -> None:
    never_fails_otherwise(shop, "SELECT ? AS x", [parameter])
    never_fails_otherwise(shop, "INSERT INTO t (a, b) VALUES (77, ?)", [parameter])


@settings(FEW, max_examples=25)
@given(data=st.binary(max_size=200), format_=st.sampled_from(["CSV", "CSV HEADER", "JSON", "PARQUET"]))
def test_any_file(shop: Any, tmp_path_factory: pytest.TempPathFactory, data: bytes, format_: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.file"
    path.write_bytes(data)
    never_fails_otherwise(shop, f"COPY t FROM '{path}' {format_}")
