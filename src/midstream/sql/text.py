"""Tokens → canonical text: one way to write what a statement says.

The text reads back into the same tokens, so it means exactly what the user wrote; comments are gone, white
space is even, unquoted names are in lower case, every string is in plain quotes, parameters are numbered.

    select  count( * )from "T"   →   SELECT count(*) FROM "T"
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from midstream.sql.keywords import NO_BARE_NAME, PRINTED_IN_CAPITALS
from midstream.sql.lexer import Token

_COMMA_OUTSIDE_QUOTES = re.compile(r',(?=(?:[^"]*"[^"]*")*[^"]*$)')
_TIGHT_AFTER = frozenset(["(", "[", ".", "::", "{"])
_TIGHT_BEFORE = frozenset([")", "]", ",", ".", "::", "[", "}"])
_SPACED_BEFORE_PARENTHESIS = PRINTED_IN_CAPITALS - {"left", "right", "session", "interval", "replace", "range"}


def canonical_text(tokens: Sequence[Token]) -> str:
    out: list[str] = []
    before: Token | None = None
    earlier: Token | None = None
    for token in tokens:
        if token.kind == "end":
            continue
        if before is not None and _needs_space(earlier, before, token):
            out.append(" ")
        out.append(_written(token))
        earlier, before = before, token
    return "".join(out)


def quote_name(name: str) -> str:
    """A name as it must be written: bare where that means the same."""
    simple = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name == name.lower()
    return name if simple and name not in NO_BARE_NAME else '"' + name.replace('"', '""') + '"'


def listed_names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Names between commas, as in an option: as one that is known is spelled, or as SQL reads a name."""
    return tuple(_read_name(part.strip(), known) for part in _COMMA_OUTSIDE_QUOTES.split(text))


def _read_name(written: str, known: Sequence[str]) -> str:
    if written in known:
        return written
    is_quoted = len(written) > 2 and written.startswith('"') and written.endswith('"')
    return written[1:-1].replace('""', '"') if is_quoted else written.lower()


def quote_string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _written(token: Token) -> str:
    match token.kind:
        case "word":
            return token.value.upper() if token.value in PRINTED_IN_CAPITALS else token.value
        case "quoted":
            return '"' + token.value.replace('"', '""') + '"'
        case "string":
            return quote_string(token.value)
        case "parameter":
            return "$" + token.value
        case _:
            return token.value


def _needs_space(earlier: Token | None, before: Token, token: Token) -> bool:
    if _would_merge(before, token):
        return True
    if token.kind == "operator" and token.value in _TIGHT_BEFORE:
        return token.value == "[" and (before.kind == "operator" and before.value not in ("]", ")", "["))
    if before.kind == "operator":
        if before.value in _TIGHT_AFTER:
            return False
        if before.value in ("+", "-"):
            return token.kind == "operator" and token.value != "(" or not _is_sign(earlier)
        return True
    if token.kind == "operator" and token.value == "(":
        return before.kind != "quoted" and (before.kind != "word" or before.value in _SPACED_BEFORE_PARENTHESIS)
    return True


def _would_merge(before: Token, token: Token) -> bool:
    """Whether two marks without a space between them read as another one: `. .` and `..`, `: :` and `::`."""
    if before.kind != "operator" or token.kind not in ("operator", "number"):
        return False
    return before.value[-1:] == token.value[:1] and before.value[-1:] in (".", ":")


def _is_sign(earlier: Token | None) -> bool:
    """Whether a + or - behind this token is a sign and not an operation."""
    if earlier is None:
        return True
    if earlier.kind == "operator":
        return earlier.value not in (")", "]", "}")
    return earlier.kind == "word" and earlier.value in NO_BARE_NAME
