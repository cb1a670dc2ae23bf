"""Text → tokens by PostgreSQL's rules for names, strings, numbers, operators and comments.

A token keeps where it began, so everything later can point at the user's text. Words that are not quoted
are lower-cased; a string's value is what it stands for, whichever way it was quoted. One statement is read
at a time: `read_statement` stops behind its semicolon.

    >>> source = Source("SELECT 'it''s'; SELECT 2")
    >>> [token.value for token in read_statement(source, 0)[0]]
    ['select', "it's", '']
    >>> source.position(16)
    (1, 17)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Literal, NamedTuple

from midstream.errors import Error, Position, SqlSyntaxError, UndefinedName, Unsupported

Kind = Literal["word", "quoted", "string", "number", "parameter", "operator", "end"]


class Token(NamedTuple):
    kind: Kind
    value: str
    """A word in lower case, a quoted name or a string without its quotes, a parameter's number, else the text."""
    start: int
    end: int


class Source:
    """What was handed to `parse`, and where its lines begin."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._line_starts: list[int] | None = None

    def position(self, offset: int) -> Position:
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def fail(self, error: Error, offset: int) -> Error:
        """The error, pointing at a place in this text."""
        error.position = self.position(offset)
        error.sql = self.text
        return error

    def syntax_error(self, offset: int, end: int, hint: str | None = None) -> Error:
        """PostgreSQL's words for a text that stops making sense at a place."""
        near = self.text[offset:end]
        where = f'at or near "{near}"' if near else "at end of input"
        return self.fail(SqlSyntaxError(f"syntax error {where}", hint=hint), offset)


_SPACE = re.compile(r"(?:[ \t\n\r\f\v]+|--[^\n\r]*)+")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_LETTER = r"A-Za-z_\u0080-\U0010ffff"
_TOKEN = re.compile(
    rf"""(?P<escaped>[eE]'(?:[^'\\]|''|\\.)*')
    | (?P<special>[bBxX]'|[uU]&['"])
    | (?P<word>[{_LETTER}][{_LETTER}0-9$]*)
    | (?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<string>'[^']*(?:''[^']*)*')
    | (?P<quoted>"[^"]*(?:""[^"]*)*")
    | (?P<parameter>\$\d+|\?)
    | (?P<dollar>\$(?:[{_LETTER}][{_LETTER}0-9]*)?\$)
    | (?P<mark>::|:=|\.\.|[,()\[\].;:{{}}])
    | (?P<operator>[-+*/<>=~!@\#%^&|]+)""",
    re.VERBOSE | re.DOTALL,
)
_JUNK = re.compile(rf"[{_LETTER}0-9$]+")
_NEWLINE_STRING = re.compile(r"(?:[ \t\f\v]|--[^\n\r]*)*[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*)*(?=')")

OPERATORS = frozenset(
    ["+", "-", "*", "/", "%", "^", "<", ">", "=", "<=", ">=", "<>", "!=", "||", "~", "~*", "!~", "!~*", "~~", "~~*"]
    + ["!~~", "!~~*", "&", "|", "#", "<<", ">>", "->", "->>", "#>", "#>>", "@>", "<@", "&&", "=>"]
)
_ENDS_IN_SIGN = frozenset("~!@#%^&|")
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"''|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)


def skip_space(source: Source, at: int) -> int:
    """The first offset that is neither white space nor comment."""
    while True:
        if space := _SPACE.match(source.text, at):
            at = space.end()
        if not source.text.startswith("/*", at):
            return at
        at = _comment_end(source, at)


def _comment_end(source: Source, start: int) -> int:
    depth = 0
    for edge in _COMMENT_EDGE.finditer(source.text, start):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    raise source.fail(SqlSyntaxError("unterminated /* comment"), start)


def read_statement(source: Source, at: int) -> tuple[list[Token], int]:
    """The tokens of the statement that begins at an offset, closed by an `end` token, and where the next begins."""
    tokens: list[Token] = []
    while True:
        at = skip_space(source, at)
        if at >= len(source.text):
            tokens.append(Token("end", "", at, at))
            break
        token = _read_token(source, at)
        at = token.end
        if token.kind == "operator" and token.value == ";":
            tokens.append(Token("end", "", token.start, token.end))
            break
        tokens.append(token)
    return _number_parameters(source, tokens), at


def _number_parameters(source: Source, tokens: list[Token]) -> list[Token]:
    """Gives each `?` its number, from left to right."""
    marks = [token for token in tokens if token.kind == "parameter"]
    if not any(token.value == "?" for token in marks):
        return tokens
    if other := next((token for token in marks if token.value != "?"), None):
        raise source.fail(
            SqlSyntaxError("parameters ? and $1 cannot be mixed in one statement", hint="Use one of the two."),
            other.start,
        )
    numbers = iter(range(1, len(marks) + 1))
    return [t._replace(value=str(next(numbers))) if t.kind == "parameter" else t for t in tokens]


def _read_token(source: Source, at: int) -> Token:
    match = _TOKEN.match(source.text, at)
    if match is None:
        raise _unreadable(source, at)
    text, end = match[0], match.end()
    match match.lastgroup:
        case "word":
            if text in ("e", "E") and source.text.startswith("'", end):
                raise _unreadable(source, at)
            return Token("word", text.lower() if text.isascii() else _fold(text), at, end)
        case "mark":
            return Token("operator", text, at, end)
        case "operator":
            return _operator(source, text, at)
        case "number":
            return _number(source, text, at, end)
        case "string":
            return _string(source, text[1:-1].replace("''", "'"), at, end)
        case "escaped":
            return _string(source, unescape(source, text[2:-1], at), at, end)
        case "quoted":
            return _quoted(source, text, at, end)
        case "parameter":
            return Token("parameter", text.lstrip("$"), at, end)
        case "dollar":
            return _dollar_string(source, text, at, end)
        case _:
            raise source.fail(
                Unsupported(f"{text[:-1].upper()}{text[-1]}…{text[-1]} literals are not supported"),
                at,
            )


def _fold(text: str) -> str:
    """Lower-cases ASCII letters only, as PostgreSQL does in UTF-8 databases."""
    return "".join(c.lower() if c.isascii() else c for c in text)


def _unreadable(source: Source, at: int) -> Error:
    character = source.text[at]
    if character == "'" or source.text[at : at + 2] in ("e'", "E'"):
        return source.fail(SqlSyntaxError(f'unterminated quoted string at or near "{_line(source, at)}"'), at)
    if character == '"':
        return source.fail(SqlSyntaxError(f'unterminated quoted identifier at or near "{_line(source, at)}"'), at)
    if character == "`":
        return source.syntax_error(at, at + 1, hint='Names are quoted with double quotes: "name".')
    return source.syntax_error(at, at + 1)


def _line(source: Source, at: int) -> str:
    return source.text[at : at + 60].split("\n")[0]


def _number(source: Source, text: str, at: int, end: int) -> Token:
    if junk := _JUNK.match(source.text, end):
        written = source.text[at : junk.end()]
        raise source.fail(SqlSyntaxError(f'trailing junk after numeric literal at or near "{written}"'), at)
    return Token("number", text.lower(), at, end)


def _operator(source: Source, run: str, at: int) -> Token:
    """Cuts a run of operator characters as PostgreSQL does: `a<-1` is `a < -1`, but `a@-1` is one operator."""
    for comment in ("--", "/*"):
        run = run.split(comment)[0] if comment in run[1:] else run
    while len(run) > 1 and run[-1] in "+-" and not _ENDS_IN_SIGN & set(run):
        run = run[:-1]
    if run not in OPERATORS:
        raise source.fail(UndefinedName(f"operator does not exist: {run}", sqlstate="42883"), at)
    return Token("operator", "<>" if run == "!=" else run, at, at + len(run))


def _string(source: Source, value: str, at: int, end: int) -> Token:
    """A string, with those that follow it on later lines, which SQL takes for its continuation."""
    while gap := _NEWLINE_STRING.match(source.text, end):
        more = _TOKEN.match(source.text, gap.end())
        if more is None:
            raise _unreadable(source, gap.end())
        value += more[0][1:-1].replace("''", "'")
        end = more.end()
    return Token("string", value, at, end)


def _quoted(source: Source, text: str, at: int, end: int) -> Token:
    name = text[1:-1].replace('""', '"')
    if not name:
        raise source.fail(SqlSyntaxError('zero-length delimited identifier at or near """"'), at)
    return Token("quoted", name, at, end)


def _dollar_string(source: Source, tag: str, at: int, end: int) -> Token:
    close = source.text.find(tag, end)
    if close < 0:
        raise source.fail(
            SqlSyntaxError(f'unterminated dollar-quoted string at or near "{_line(source, at)}"'),
            at,
        )
    return Token("string", source.text[end:close], at, close + len(tag))


def unescape(source: Source, body: str, at: int) -> str:
    """What an E'…' string stands for; \\x and octal escapes are bytes of UTF-8."""
    out = bytearray()
    last = 0
    try:
        for match in _ESCAPE.finditer(body):
            out += body[last : match.start()].encode() + _escaped_bytes(match)
            last = match.end()
        value = (out + body[last:].encode()).decode()
        if "\0" in value:
            raise ValueError("NUL")
        return value
    except (ValueError, OverflowError):
        error = SqlSyntaxError("invalid escape in E'…' string", sqlstate="22025")
        raise source.fail(error, at) from None


def _escaped_bytes(match: re.Match[str]) -> bytes:
    if match[0] == "''":
        return b"'"
    if code := match[1] or match[2]:
        return chr(int(code, 16)).encode()
    if match[3] or match[4]:
        return bytes([(int(match[3], 16) if match[3] else int(match[4], 8)) & 0xFF])
    return _ESCAPES.get(match[5], match[5]).encode()
