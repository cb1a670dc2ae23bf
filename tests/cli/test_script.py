"""Cutting a text into statements and backslash commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.cli.script import Entry, is_finished, split


def texts(script: str) -> list[str]:
    return [entry.text for entry in split(script)[0]]


def rest(script: str) -> str | None:
    unfinished = split(script)[1]
    return unfinished and unfinished.text


def test_statements_end_with_semicolons() -> None:
    assert texts("SELECT 1; SELECT 2;") == ["SELECT 1", "SELECT 2"]
    assert rest("SELECT 1; SELECT 2;") is None


def test_what_has_no_semicolon_is_left_over() -> None:
    assert texts("SELECT 1; SELECT 2") == ["SELECT 1"]
    assert rest("SELECT 1; SELECT 2") == "SELECT 2"


@pytest.mark.parametrize(
    "quoted",
    ["'a;b'", "'it''s;'", '"a;b"', '"a"";b"', "$$a;b$$", "$tag$ $$;$$ $tag$", "E'it\\'s;'", "/* a;b */", "-- a;b\n"],
)
def test_a_quoted_semicolon_ends_nothing(quoted: str) -> None:
    statement = f"SELECT {quoted} AS x"
    assert texts(statement + ";") == [statement]


@pytest.mark.parametrize("opened", ["'", '"', "$$", "$tag$", "E'it\\'", "/*", "/* /* */"])
def test_an_open_quote_swallows_the_semicolon(opened: str) -> None:
    script = f"SELECT {opened} ;"
    assert texts(script) == []
    assert not is_finished(script)


def test_a_parameter_is_no_dollar_quote() -> None:
    assert texts("SELECT $1; SELECT a$b$ FROM t; SELECT $2;") == ["SELECT $1", "SELECT a$b$ FROM t", "SELECT $2"]


def test_block_comments_nest() -> None:
    assert texts("SELECT /* a /* ; */ ; */ 1;") == ["SELECT /* a /* ; */ ; */ 1"]


def test_blanks_and_comments_alone_are_no_statement() -> None:
    assert split(" \n-- nothing\n;; /* still nothing */ ;") == ([], None)
    assert is_finished("") and is_finished("-- only a comment")


def test_a_backslash_command_ends_with_its_line() -> None:
    assert texts("\\d\nSELECT 1;\n\\d users\n") == ["\\d", "SELECT 1", "\\d users"]
    assert is_finished("\\watch 2")


def test_a_backslash_inside_a_statement_is_no_command() -> None:
    assert texts("SELECT\n\\d\n1;") == ["SELECT\n\\d\n1"]


def test_entries_know_where_they_begin() -> None:
    entries, unfinished = split("SELECT 1;\n  SELECT\n 2; SELECT 3")
    assert entries == [Entry("SELECT 1", 1, 1), Entry("SELECT\n 2", 2, 3)]
    assert unfinished == Entry("SELECT 3", 3, 5)


@given(st.text(alphabet="ab;'\"$\\/*-e \n", max_size=40))
def test_no_character_of_a_statement_is_lost(script: str) -> None:
    entries, unfinished = split(script)
    kept = "".join(entry.text for entry in [*entries, *([unfinished] if unfinished else [])])
    left_out = script
    for character in kept:
        left_out = left_out.replace(character, "", 1)
    assert not left_out.strip("; \n") or "--" in script or "/*" in script


@given(
    st.lists(st.sampled_from(["SELECT 1", "SELECT ';'", 'SELECT ";"', "SELECT $$;$$", "SELECT /*;*/ 1"]), max_size=6)
)
def test_joined_statements_come_apart_again(statements: list[str]) -> None:
    assert texts("".join(statement + ";\n" for statement in statements)) == statements
