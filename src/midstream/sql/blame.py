"""Where a statement has what an error is about, for errors of layers that know names and no text.

A message quotes what it is about: "names" and 'values'. The place is the first of them that the statement has, as a
name or within a string. What is wrong with rows, and not with the statement, has no place.

    >>> from midstream.errors import UndefinedName
    >>> from midstream.sql import parse
    >>> place_of_error(parse("DROP TABLE a, nope")[0], UndefinedName('table "nope" does not exist'))
    (1, 15)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from midstream import errors
from midstream.errors import Error, Position
from midstream.sql.lexer import Source, Token, read_statement
from midstream.sql.mentions import place_in
from midstream.sql.statements import Statement

_QUOTED = re.compile(r'"((?:[^"]|"")+)"|\'((?:[^\']|\'\')+)\'|\bSCN (-?\d+)')
_OF_THE_STATEMENT = (
    errors.UndefinedName,
    errors.DuplicateName,
    errors.AmbiguousName,
    errors.InvalidDefinition,
    errors.InvalidParameter,
    errors.InvalidQuery,
    errors.WrongObject,
    errors.DependentObjects,
    errors.TypeMismatch,
    errors.Unsupported,
    errors.StorageError,
)


def place_of_error(statement: Statement, error: Error) -> Position | None:
    """Where the statement has what the message quotes; None: the error is about rows, or quotes nothing of it."""
    if not isinstance(error, _OF_THE_STATEMENT):
        return None
    tokens, _ = read_statement(Source(statement.text), 0)
    for word in _quoted(error.message):
        token = _token_of(word, tokens)
        if token is not None:
            return place_in(statement, token.start)
    return None


def _quoted(message: str) -> Iterator[str]:
    for name, value, scn in _QUOTED.findall(message):
        yield name.replace('""', '"') or value.replace("''", "'") or scn


def _token_of(word: str, tokens: Sequence[Token]) -> Token | None:
    """A name before a text that is just the word, and that before one that holds it among others."""
    named = [token for token in tokens if token.kind in ("word", "quoted", "number") and token.value == word]
    texts = [token for token in tokens if token.kind == "string"]
    just = [token for token in texts if token.value == word]
    among = [token for token in texts if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", token.value)]
    return next(iter([*named, *just, *among]), None)
