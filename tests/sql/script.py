"""SQL scripts: statements with what they must answer, in blocks parted by empty lines.

    # a comment
    statement                         any answer but an error
    INSERT INTO t VALUES (1, 'a')

    statement INSERT 0 1              exactly this command tag
    INSERT INTO t VALUES (2, NULL)

    query                             rows in any order; `query ordered`: in this order
    SELECT id, name FROM t
    ----
    id|name
    1|a
    2|NULL

    query types                       the second line has the types
    SELECT id FROM t WHERE id = 1
    ----
    id
    int
    1

    query only:duckdb                 the other kernel, when it is forced, refuses with 0A000

    error 23505                       this SQLSTATE; words behind it must occur in the message
    INSERT INTO t VALUES (1, 'b')

    session second                    what follows is another session's, until the next such line

`{folder}` stands for an empty folder of the run, `{name}` for the answer of an earlier `let name` block.
Values are written as `show_value` writes them, which is how PostgreSQL prints them too.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Protocol


class Rows(Protocol):
    """What running a statement gives: rows with names, or a status."""

    columns: list[str]
    types: list[str]
    status: str

    def fetchall(self) -> list[tuple[Any, ...]]: ...


Run = Callable[[str, str], Rows]
"""(session, sql) -> result; raises an error with `.sqlstate` and `str(error)`."""


@dataclass
class Block:
    """One block of a script: its first line as words, its SQL, and what must come back."""

    line: int
    kind: str
    options: list[str]
    sql: str
    expected: list[str] = field(default_factory=list)

    def text(self) -> str:
        head = " ".join([self.kind, *self.options])
        body = [head, self.sql] if self.sql else [head]
        return "\n".join([*body, "----", *self.expected] if self.kind in ("query", "let") else body)


@dataclass
class Comment:
    line: int
    lines: list[str]

    def text(self) -> str:
        return "\n".join(self.lines)


def read_script(path: Path) -> list[Block | Comment]:
    """The blocks of a file, each with the number of its first line."""
    blocks: list[Block | Comment] = []
    start, lines = 1, list[str]()
    for number, line in enumerate([*path.read_text().split("\n"), ""], 1):
        if line.strip():
            if not lines:
                start = number
            lines.append(line)
        elif lines:
            blocks += _parse(start, lines)
            lines = []
    return blocks


def write_script(path: Path, blocks: list[Block | Comment]) -> None:
    path.write_text("\n\n".join(block.text() for block in blocks) + "\n")


def _parse(start: int, lines: list[str]) -> list[Block | Comment]:
    comments = []
    while lines and lines[0].startswith("#"):
        comments.append(lines[0])
        lines = lines[1:]
    found: list[Block | Comment] = [Comment(start, comments)] if comments else []
    if not lines:
        return found
    kind, *options = lines[0].split()
    if kind not in ("statement", "query", "error", "session", "let"):
        raise ValueError(f"line {start}: a block starts with statement, query, error, session or let, not {kind}")
    rest = lines[1:]
    cut = rest.index("----") if "----" in rest else len(rest)
    return [*found, Block(start + len(comments), kind, options, "\n".join(rest[:cut]), rest[cut + 1 :])]


class Mismatch(AssertionError):
    """A block that answered something else than the script says."""


@dataclass
class Runner:
    """Runs the blocks of one script; `exact` is False where numbers of another type count as the same."""

    run: Run
    folder: str
    exact: bool = True
    kernel: str = ""
    session: str = "first"
    names: dict[str, str] = field(default_factory=dict)

    def check(self, block: Block) -> None:
        """Runs one block and raises Mismatch if it does not do what it says."""
        only = [option.removeprefix("only:") for option in block.options if option.startswith("only:")]
        if only and self.kernel and self.kernel not in only:
            self._expect_error(Block(block.line, "error", ["0A000"], block.sql))
            return
        got = self.answer(block)
        match block.kind:
            case "query":
                self._check_rows(block, got)
            case "statement" if block.options and got != [" ".join(block.options)]:
                raise Mismatch(f"line {block.line}: {block.sql}\n  status {got[0]}, not {' '.join(block.options)}")
            case _:
                pass

    def answer(self, block: Block) -> list[str]:
        """Runs one block and gives the lines that a query answered, or the status."""
        if block.kind == "session":
            self.session = block.options[0]
            return []
        if block.kind == "error":
            self._expect_error(block)
            return []
        result = self.run(self.session, self._filled(block.sql))
        if block.kind == "statement":
            return [str(result.status)]
        if block.kind == "let":
            self.names[block.options[0]] = show_value(result.fetchall()[0][0])
            return []
        return show_result(result, types="types" in block.options)

    def _expect_error(self, block: Block) -> None:
        try:
            self.run(self.session, self._filled(block.sql))
        except Exception as error:
            sqlstate = getattr(error, "sqlstate", None)
            if sqlstate is None:
                raise
            if sqlstate not in block.options[0].split("/"):
                raise Mismatch(
                    f"line {block.line}: {block.sql}\n  {sqlstate}, not {block.options[0]}: {error}"
                ) from error
            words = " ".join(block.options[1:])
            if self.exact and words and words not in str(error):
                raise Mismatch(f"line {block.line}: {block.sql}\n  no words {words!r} in: {error}") from error
            return
        raise Mismatch(f"line {block.line}: {block.sql}\n  no error, but {block.options[0]} was expected")

    def _filled(self, sql: str) -> str:
        filled = sql.replace("{folder}", self.folder)
        for name, value in self.names.items():
            filled = filled.replace("{" + name + "}", value)
        return filled

    def _check_rows(self, block: Block, got: list[str]) -> None:
        heads = 2 if "types" in block.options else 1
        wanted_head, wanted = block.expected[:heads], block.expected[heads:]
        got_head, rows = got[:heads], got[heads:]
        wanted = [self._filled(row) for row in wanted]
        if "ordered" not in block.options:
            wanted, rows = sorted(wanted, key=_row_key), sorted(rows, key=_row_key)
        same = len(wanted) == len(rows) and all(self._same_row(*pair) for pair in zip(wanted, rows, strict=True))
        if not same or (self.exact and wanted_head != got_head):
            expected, answered = "\n    ".join(wanted_head + wanted), "\n    ".join(got_head + rows)
            raise Mismatch(f"line {block.line}: {block.sql}\n  expected:\n    {expected}\n  got:\n    {answered}")

    def _same_row(self, wanted: str, got: str) -> bool:
        if wanted == got:
            return True
        if self.exact:
            return False
        pairs = list(zip(wanted.split("|"), got.split("|"), strict=False))
        return wanted.count("|") == got.count("|") and all(_same_number(a, b) for a, b in pairs)


def _row_key(row: str) -> list[str]:
    """Numbers of different scale sort alike, so that rows of two engines meet."""
    return [_plain_number(field) for field in row.split("|")]


def _plain_number(text: str) -> str:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return f"{float(number):.9g}" if number.is_finite() else text


def _same_number(a: str, b: str) -> bool:
    if a == b:
        return True
    try:
        x, y = Decimal(a), Decimal(b)
    except InvalidOperation:
        return False
    return x.is_finite() and y.is_finite() and math.isclose(float(x), float(y), rel_tol=1e-12)


def show_result(result: Rows, *, types: bool) -> list[str]:
    """Head line(s) and one line a row."""
    head = ["|".join(result.columns)]
    if types:
        head.append("|".join(str(type_) for type_ in result.types))
    return head + ["|".join(show_value(value) for value in row) for row in result.fetchall()]


def show_value(value: Any) -> str:
    """A value as PostgreSQL prints it; NULL and the empty text are written out."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case "":
            return "''"
        case str():
            return value.replace("\\", "\\\\").replace("\n", "\\n").replace("|", "\\p")
        case float():
            return _show_float(value)
        case bytes() | bytearray() | memoryview():
            return "\\x" + bytes(value).hex()
        case dt.datetime():
            return _show_moment(value)
        case list() | tuple():
            return "{" + ",".join(show_value(element) for element in value) + "}"
        case _:
            return str(value)


def _show_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value).removesuffix(".0")


def _show_moment(value: dt.datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(" ")
    return value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(" ") + "+00"
