"""Whatever the text, parsing gives a list of statements or an error of ours, and soon."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import Error, InternalError
from midstream.sql import parse, to_sql
from midstream.sql.lexer import Source, read_statement
from midstream.sql.text import canonical_text

_SCRIPT = Path(__file__).with_name("statements.sql").read_text()
_STATEMENTS = [match for match in re.split(r"^-- .*\n", _SCRIPT, flags=re.MULTILINE) if match.strip()]
_WORDS = sorted(set(re.findall(r"\w+|[^\w\s]+|'[^']*'", _SCRIPT)))
_SOON = 3000
"""Milliseconds that one text may take on a busy machine."""


def _parse_or_refuse(text: str) -> None:
    try:
        statements = parse(text)
    except InternalError:
        raise
    except Error:
        return
    for statement in statements:
        printed = to_sql(statement)
        assert parse(printed) == [statement], printed


@settings(deadline=_SOON)
@given(st.text())
def test_any_text(text: str) -> None:
    _parse_or_refuse(text)


@settings(deadline=_SOON)
@given(st.binary())
def test_any_bytes(data: bytes) -> None:
    _parse_or_refuse(data.decode("latin-1"))


@settings(max_examples=300, deadline=_SOON)
@given(st.lists(st.sampled_from(_WORDS), max_size=25))
def test_any_words_of_the_language(words: list[str]) -> None:
    _parse_or_refuse(" ".join(words))


@settings(max_examples=300, deadline=_SOON)
@given(
    st.sampled_from(["SELECT ", "CREATE ", "INSERT INTO t ", "SELECT a FROM t ", "ALTER TABLE t ", "COPY t FROM 'x' "]),
    st.lists(st.sampled_from(_WORDS), max_size=12),
)
def test_any_words_behind_a_beginning(beginning: str, words: list[str]) -> None:
    _parse_or_refuse(beginning + " ".join(words))


@settings(max_examples=500, deadline=_SOON)
@given(st.sampled_from(_STATEMENTS), st.data())
def test_any_statement_with_a_part_lost_doubled_moved_or_changed(text: str, data: st.DataObject) -> None:
    parts = re.findall(r"\w+|\s+|[^\w\s]", text)
    at = data.draw(st.integers(0, len(parts) - 1))
    match data.draw(st.sampled_from(["lose", "double", "move", "change", "cut"])):
        case "lose":
            del parts[at]
        case "double":
            parts.insert(at, parts[at] + " ")
        case "move":
            parts.insert(data.draw(st.integers(0, len(parts))), parts.pop(at))
        case "change":
            parts[at] = data.draw(st.sampled_from(_WORDS))
        case "cut":
            del parts[at:]
    _parse_or_refuse("".join(parts))


@settings(deadline=_SOON)
@given(st.lists(st.sampled_from([*_WORDS, "1", ".5", "'a'", '"b"', "-", "$1", "E'\\n'"]), max_size=12))
def test_canonical_text_reads_back_into_the_same_tokens(words: list[str]) -> None:
    source = Source(" ".join(words))
    try:
        tokens, end = read_statement(source, 0)
    except Error:
        return
    pairs = list(zip(tokens, tokens[1:], strict=False))
    if any({before.kind, after.kind} & {"number"} and "." in (before.value, after.value) for before, after in pairs):
        return  # "1 . x" and ". 1" are no SQL, and joined they would read as a number
    again, _ = read_statement(Source(canonical_text(tokens)), 0)
    assert [(token.kind, token.value) for token in again] == [(token.kind, token.value) for token in tokens]
