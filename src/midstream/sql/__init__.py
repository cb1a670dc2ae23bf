"""Text → statements: PostgreSQL's SQL and ours, read into frozen values with sqlglot trees inside.

    parse("BEGIN; INSERT INTO t VALUES (1)")   [Begin(), InsertValues(table='t', …)]
    parse_query("SELECT a FROM t")             Sql: a tree and its canonical text
    to_sql(statement)                          text that parses into an equal statement
    position_of(node)                          (line, column) in the text that was parsed

A text either parses completely, into what PostgreSQL would take it for, or raises a `midstream.errors.Error`
that points at the place: what is not understood is never skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError

from midstream.errors import SqlSyntaxError, Unsupported
from midstream.sql.bulk import read_bulk_insert
from midstream.sql.commands import StatementReader
from midstream.sql.dialect import Midstream
from midstream.sql.lexer import Source, read_statement, skip_space
from midstream.sql.positions import operator_position_of, position_of
from midstream.sql.printing import to_sql
from midstream.sql.reader import too_complex
from midstream.sql.statements import DEFAULT, Sql, Statement

__all__ = [
    "DEFAULT",
    "operator_position_of",
    "parse",
    "parse_expression",
    "parse_one",
    "parse_query",
    "position_of",
    "print_expression",
    "to_sql",
]

Result = TypeVar("Result")


def parse(text: str) -> list[Statement]:
    """The statements of a text, in order; none for an empty one."""
    source = Source(text)
    return _guarded(source, lambda: _read_script(source))


def parse_one(text: str) -> Statement:
    """The one statement of a text."""
    statements = parse(text)
    if len(statements) != 1:
        error = SqlSyntaxError(f"one statement is expected here, not {len(statements)}")
        if statements:
            error.position, error.sql = statements[1].start, text
        raise error
    return statements[0]


def parse_query(text: str) -> Sql:
    """A query alone, such as a view's."""
    return _read_whole(text, lambda reader: reader.sql(reader.query))


def parse_expression(text: str) -> Sql:
    """A scalar expression alone, such as a CHECK condition or a DEFAULT."""
    return _read_whole(text, lambda reader: reader.sql(reader.expression))


def print_expression(tree: exp.Expression) -> str:
    """A scalar tree that was changed, as text; refused if the text would not mean exactly the tree."""
    text = tree.sql(dialect=Midstream)
    if parse_expression(text).tree() != tree:
        raise Unsupported(
            "the expression cannot be written down again",
            detail=f"Its text would be: {text}",
            hint="Drop what contains it, and create it anew.",
        )
    return text


def _read_script(source: Source) -> list[Statement]:
    _check_characters(source)
    statements: list[Statement] = []
    at = 0
    while True:
        at = skip_space(source, at)
        if at >= len(source.text):
            return statements
        if (bulk := read_bulk_insert(source, at)) is not None:
            statement, at = bulk
            statements.append(statement)
            continue
        tokens, at = read_statement(source, at)
        if len(tokens) > 1:
            statements.append(StatementReader(source, tokens).statement())


def _read_whole(text: str, read: Callable[[StatementReader], Result]) -> Result:
    source = Source(text)

    def read_all() -> Result:
        _check_characters(source)
        tokens, end = read_statement(source, 0)
        reader = StatementReader(source, tokens)
        result = read(reader)
        reader.expect_end()
        if (rest := skip_space(source, end)) < len(text):
            raise source.syntax_error(rest, rest + 1)
        return result

    return _guarded(source, read_all)


def _guarded(source: Source, read: Callable[[], Result]) -> Result:
    """Turns what a layer below may raise into an error of ours."""
    try:
        return read()
    except RecursionError:
        error = too_complex()
    except SqlglotError as fault:
        error = SqlSyntaxError(f"syntax error: {fault}")
    error.sql = source.text
    raise error from None


def _check_characters(source: Source) -> None:
    """Refuses what no stored text may hold: NUL, and halves of surrogate pairs."""
    at = source.text.find("\0")
    if at < 0 and not source.text.isascii():
        try:
            source.text.encode()
        except UnicodeEncodeError as fault:
            at = fault.start
    if at >= 0:
        message = f"invalid character in the text: U+{ord(source.text[at]):04X}"
        raise source.fail(SqlSyntaxError(message, sqlstate="22021"), at)
