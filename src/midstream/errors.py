"""The error tree: what went wrong, why, what to do, and where.

Every error that a user can meet is an `Error` with a SQLSTATE of PostgreSQL's. Its text has three
voices: the message says what, `detail` says why, `hint` says what to do; `position` is (line, column)
in the SQL text, both from 1. A fault of ours is an `InternalError`, and nothing else is.

    >>> print(UndefinedName('column "scor" does not exist', hint='Did you mean "score"?',
    ...                     position=(1, 8)).render("SELECT scor FROM posts"))
    ERROR:  column "scor" does not exist
    LINE 1: SELECT scor FROM posts
                   ^
    HINT:   Did you mean "score"?
"""

from __future__ import annotations

from typing import ClassVar

Position = tuple[int, int]


class Error(Exception):
    """Anything that Midstream says no to. Everything is as it was before the statement."""

    default_sqlstate: ClassVar[str] = "XX000"

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: Position | None = None,
        sqlstate: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
        self.sqlstate = sqlstate or self.default_sqlstate
        self.sql: str | None = None

    def __str__(self) -> str:
        return self.render(self.sql)

    def render(self, sql: str | None = None) -> str:
        """The whole text, with a caret under the place where `sql` went wrong."""
        lines = [f"ERROR:  {self.message}"]
        lines += _caret(sql, self.position)
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT:   {self.hint}")
        return "\n".join(lines)


def _caret(sql: str | None, position: Position | None) -> list[str]:
    if sql is None or position is None:
        return []
    line, column = position
    texts = sql.split("\n")
    if not 1 <= line <= len(texts):
        return []
    label = f"LINE {line}: "
    text = texts[line - 1].rstrip("\r").replace("\t", " ")
    start = max(0, column - 60) if len(text) > 110 else 0
    return [label + text[start : start + 110], " " * (len(label) + column - 1 - start) + "^"]


class SqlSyntaxError(Error):
    """The text is not SQL as Midstream reads it."""

    default_sqlstate = "42601"


class UndefinedName(Error):
    """A table (42P01), column (42703) or function (42883) that is not there."""

    default_sqlstate = "42P01"


class AmbiguousName(Error):
    """A column name that several relations of the query have."""

    default_sqlstate = "42702"


class DuplicateName(Error):
    """A relation (42P07), column (42701) or constraint (42710) that is there already."""

    default_sqlstate = "42P07"


class TypeMismatch(Error):
    """Types that do not go together."""

    default_sqlstate = "42804"


class InvalidQuery(Error):
    """A query that is well written but means nothing, such as a column outside GROUP BY (42803)."""

    default_sqlstate = "42803"


class InvalidDefinition(Error):
    """A definition that contradicts itself, or does not fit what it refers to."""

    default_sqlstate = "42P16"


class WrongObject(Error):
    """The name stands for another kind of relation than the statement needs."""

    default_sqlstate = "42809"


class Unsupported(Error):
    """Something that Midstream does not do, and says so rather than guess."""

    default_sqlstate = "0A000"


class Forbidden(Error):
    """A function or statement that reaches outside the database."""

    default_sqlstate = "42501"


class DependentObjects(Error):
    """Others read what is to be dropped or changed."""

    default_sqlstate = "2BP01"


class DataError(Error):
    """A value that cannot be computed or stored: 22012, 22003, 22P02 and their kin."""

    default_sqlstate = "22000"


class BadFile(DataError):
    """A line or a file that COPY could not read; the message names both."""

    default_sqlstate = "22P04"


class InvalidParameter(Error):
    """A setting, option or parameter with a value that it cannot have."""

    default_sqlstate = "22023"


class ConstraintViolation(Error):
    """Rows that a constraint does not allow."""

    default_sqlstate = "23000"


class NotNullViolation(ConstraintViolation):
    default_sqlstate = "23502"


class ForeignKeyViolation(ConstraintViolation):
    default_sqlstate = "23503"


class UniqueViolation(ConstraintViolation):
    default_sqlstate = "23505"


class CheckViolation(ConstraintViolation):
    default_sqlstate = "23514"


class TransactionError(Error):
    """A statement that the state of the session's transaction does not allow."""

    default_sqlstate = "25000"


class TransactionAborted(TransactionError):
    """An earlier statement of the transaction failed; only ROLLBACK goes on from here."""

    default_sqlstate = "25P02"


class TransactionConflict(Error):
    """Another transaction changed the same rows first. Running it again may succeed."""

    default_sqlstate = "40001"


class HistoryGone(Error):
    """The past that was asked for is no longer kept."""

    default_sqlstate = "72000"


class Cancelled(Error):
    """The user or a time limit stopped the statement."""

    default_sqlstate = "57014"


class Closed(Error):
    """The database or session was closed."""

    default_sqlstate = "08003"


class DatabaseInUse(Error):
    """Another process has the database folder open."""

    default_sqlstate = "55006"


class OutOfResources(Error):
    """Memory (53200) or disk (53100) ran out."""

    default_sqlstate = "53000"


class StorageError(Error):
    """The file system, the catalog file or a Delta table could not be read or written."""

    default_sqlstate = "58030"


class EngineError(Error):
    """Spark could not run a job, for a reason that is neither the user's SQL nor our fault."""

    default_sqlstate = "58000"


class InternalError(Error):
    """A fault in Midstream itself."""

    default_sqlstate = "XX000"
