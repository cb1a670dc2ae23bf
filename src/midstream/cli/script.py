"""Cuts a text into what the shell runs one by one: statements that end with `;`, and backslash commands.

A semicolon inside quotes, dollar quotes or comments ends nothing. A backslash command begins where a
statement could begin, and ends with its line. What is left over at the end is not finished yet:

    >>> split("SELECT 1; SELECT ';' FROM")
    ([Entry(text='SELECT 1', line=1, column=1)], Entry(text="SELECT ';' FROM", line=1, column=11))
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* )
    | (?P<block>   /\* )
    | (?P<escape>  (?<![\w$])[eE]'(?:[^'\\]|''|\\.)*(?P<escape_end>'|\Z) )
    | (?P<string>  '(?:[^']|'')*(?P<string_end>'|\Z) )
    | (?P<name>    "(?:[^"]|"")*(?P<name_end>"|\Z) )
    | (?P<dollar>  (?<![\w$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$ )
    | (?P<end>     ; )
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z))*")


@dataclass(frozen=True)
class Entry:
    """A statement without its semicolon, or a backslash command; and where it begins, both from 1."""

    text: str
    line: int
    column: int

    @property
    def is_command(self) -> bool:
        return self.text.startswith("\\")


def split(text: str) -> tuple[list[Entry], Entry | None]:
    """The finished entries, and the unfinished rest if there is more in it than blanks and comments."""
    entries: list[Entry] = []
    start = 0
    while True:
        start = _skip_blanks(text, start)
        end, next_start = (
            _end_of_command(text, start) if text.startswith("\\", start) else _end_of_statement(text, start)
        )
        if end is None:
            rest = text[start:]
            return entries, _entry(text, start, len(text)) if _says_something(rest) else None
        if _says_something(text[start:end]):
            entries.append(_entry(text, start, end))
        start = next_start


def is_finished(text: str) -> bool:
    """Whether the shell should run the text rather than ask for one more line."""
    return split(text)[1] is None


def _skip_blanks(text: str, start: int) -> int:
    match = _BLANK.match(text, start)
    return match.end() if match else start


def _end_of_command(text: str, start: int) -> tuple[int | None, int]:
    newline = text.find("\n", start)
    end = len(text) if newline < 0 else newline
    return end, end


def _end_of_statement(text: str, start: int) -> tuple[int | None, int]:
    at = start
    while match := _TOKEN.search(text, at):
        if match["end"]:
            return match.start(), match.end()
        closed = _end_of_token(text, match)
        if closed is None:
            return None, len(text)
        at = closed
    return None, len(text)


def _end_of_token(text: str, match: re.Match[str]) -> int | None:
    """Where a comment or a quoted text ends; None if it does not."""
    if match["block"]:
        return _end_of_block_comment(text, match.end())
    if match["dollar"]:
        closing = text.find(match["dollar"], match.end())
        return None if closing < 0 else closing + len(match["dollar"])
    if "" in (match["escape_end"], match["string_end"], match["name_end"]):
        return None
    return match.end()


def _end_of_block_comment(text: str, at: int) -> int | None:
    """Block comments nest, as the standard says."""
    depth = 1
    while edge := _BLOCK_EDGE.search(text, at):
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
        if depth == 0:
            return at
    return None


def _says_something(text: str) -> bool:
    """Whether there is more than blanks and finished comments."""
    at = _skip_blanks(text, 0)
    while text.startswith("/*", at):
        end = _end_of_block_comment(text, at + 2)
        if end is None:
            return True
        at = _skip_blanks(text, end)
    return at < len(text)


def _entry(text: str, start: int, end: int) -> Entry:
    line_start = text.rfind("\n", 0, start) + 1
    return Entry(text[start:end].rstrip(), text.count("\n", 0, start) + 1, start - line_start + 1)
