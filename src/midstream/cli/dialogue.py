"""One statement at a time against one session: run it, print what it gave, remember where we stand.

The interactive shell, `midstream run` and `midstream sql` are all dialogues; they differ in where the text comes
from, in how rows are printed, and in whether an error ends them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from midstream.cli import formats
from midstream.cli.screen import Screen
from midstream.errors import Cancelled

if TYPE_CHECKING:
    from midstream import Database, Result, Session

Transaction = Literal["none", "open", "failed"]


class Dialogue:
    """A session with a screen."""

    def __init__(self, db: Database, session: Session, screen: Screen, format: formats.Format = "table") -> None:
        self.db = db
        self.session = session
        self.screen = screen
        self.format = format
        self.page = False
        self.timing = False
        self.expanded = False
        self._has_failed = False
        self.last_query = ""
        self.schema_changed: Callable[[], None] = lambda: None

    @property
    def transaction(self) -> Transaction:
        """What the session is in; a statement that failed inside a transaction has aborted it."""
        if not self.session.in_transaction:
            return "none"
        return "failed" if self._has_failed else "open"

    def run(self, sql: str) -> None:
        """Runs one statement and prints its result; raises the database's errors."""
        started_at = time.monotonic()
        result = self._answer(sql)
        seconds = time.monotonic() - started_at
        self._note(sql, result)
        self._print(result)
        if result.changes is not None:
            self._follow(result)
        if self.timing:
            self.screen.say(f"Time: {seconds * 1000:,.1f} ms", style="dim")

    def _follow(self, result: Result) -> None:
        """Prints changes as they come, until Ctrl-C, or as long as somebody reads them."""
        assert result.changes is not None
        if not self.screen.output.is_terminal:
            result.changes.close()
            return
        self.screen.say("Waiting for changes; Ctrl-C ends it.", style="dim")
        try:
            for change in result.changes:
                values = ", ".join(f"{name}={value}" for name, value in change.row.items())
                self.screen.say(f"{change.scn}  {change.kind}  {values}")
        except KeyboardInterrupt:
            self.screen.say("")
        finally:
            result.changes.close()

    def _answer(self, sql: str) -> Result:
        """Ctrl-C stops the statement and nothing else, however the interruption reaches us."""
        self._has_failed = True
        try:
            with self.screen.progress(self.db.progress):
                result = self.session.sql(sql)
        except KeyboardInterrupt:
            raise Cancelled("the statement was cancelled") from None
        self._has_failed = False
        return result

    def _note(self, sql: str, result: Result) -> None:
        if sql.split(maxsplit=1)[0].upper() in ("CREATE", "ALTER", "DROP", "ROLLBACK"):
            self.schema_changed()
        if result.has_rows:
            self.last_query = sql

    def _print(self, result: Result) -> None:
        for notice in result.notices:
            self.screen.show_notice(notice)
        if self.format == "table":
            self.screen.show_result(result, self.page, self.expanded)
        elif not result.has_rows:
            self.screen.errors.print(result.status)
        else:
            _WRITERS[self.format](result, sys.stdout.buffer)
            sys.stdout.buffer.flush()


_WRITERS = {"csv": formats.write_csv, "json": formats.write_json, "arrow": formats.write_arrow}
