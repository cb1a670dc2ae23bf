"""Runs a script's inserts into streams in pieces, and restarts the database in between: the answers must not change.

    >>> pieces("INSERT INTO s VALUES (1, 'a'), (2, '(''),('), (3, NULL)", 2)
    ["INSERT INTO s VALUES (1, 'a'), (2, '(''),(')", 'INSERT INTO s VALUES (3, NULL)']

Whole statements are cut at the commas between the rows of VALUES, so the pieces are the statement's own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from script import Block, Runner

import midstream

CREATE_STREAM = re.compile(r"\s*CREATE\s+(?:STREAM|FOREIGN\s+TABLE)\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)", re.IGNORECASE)
INSERT_VALUES = re.compile(r"(\s*INSERT\s+INTO\s+(\w+)\s*(?:\([^()]*\)\s*)?VALUES\s*)(?=\()", re.IGNORECASE)


def pieces(sql: str, rows: int) -> list[str]:
    """The statement cut so that each piece has at most so many rows; itself where it is no INSERT of VALUES."""
    head = INSERT_VALUES.match(sql)
    if head is None:
        return [sql]
    values = list(_rows(sql[head.end() :]))
    return [head[1] + ", ".join(values[start : start + rows]) for start in range(0, len(values), rows)]


def _rows(text: str) -> Iterator[str]:
    """The parenthesised rows behind VALUES."""
    depth, quoted, start = 0, False, 0
    for place, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif not quoted and letter in "([":
            start = place if depth == 0 else start
            depth += 1
        elif not quoted and letter in ")]":
            depth -= 1
            if depth == 0:
                yield text[start : place + 1]


@dataclass
class Pieced:
    """What an INSERT in pieces gives, as if it had been whole."""

    status: str
    columns: tuple[str, ...] = ()


class CutSessions:
    """Sessions of a database of its own; `restart` closes and opens it in the middle of every such insert, unless a
    transaction is open. What a session has set, it sets again."""

    def __init__(self, folder: Path, kernel: str, rows: int, *, restart: bool = False) -> None:
        self.folder, self.kernel, self.rows, self.restarts = folder, kernel, rows, restart
        self.db: Any = midstream.connect(str(folder))
        self.sessions: dict[str, Any] = {}
        self.streams: set[str] = set()
        self.settings: dict[str, list[str]] = {}
        self.open: set[str] = set()
        """Sessions with a transaction."""
        self.whole = False

    def run(self, session: str, sql: str) -> Any:
        if created := CREATE_STREAM.match(sql):
            self.streams.add(created[1].lower())
        word = sql.split()[0].upper().rstrip(";")
        if word == "SET":
            self.settings.setdefault(session, []).append(sql)
        if word in ("BEGIN", "START"):
            self.open.add(session)
        elif word in ("COMMIT", "END", "ROLLBACK"):
            self.open.discard(session)
        inserted = INSERT_VALUES.match(sql)
        if self.whole or inserted is None or inserted[2].lower() not in self.streams:
            return self._session(session).sql(sql)
        return self._in_pieces(session, pieces(sql, self.rows))

    def _in_pieces(self, session: str, parts: list[str]) -> Any:
        count = 0
        for number, part in enumerate(parts):
            count += int(self._session(session).sql(part).status.split()[-1])
            if self.restarts and not self.open and number == (len(parts) - 1) // 2:
                self._restart()
        return Pieced(f"INSERT 0 {count}")

    def _session(self, name: str) -> Any:
        if name not in self.sessions:
            self.sessions[name] = self.db.session()
            for setting in (f"SET kernel = '{self.kernel}'", *self.settings.get(name, ())):
                self.sessions[name].sql(setting)
        return self.sessions[name]

    def _restart(self) -> None:
        self.close()
        self.db = midstream.connect(str(self.folder))

    def close(self) -> None:
        self.sessions.clear()
        self.db.close()


class CutRunner(Runner):
    """Cuts the inserts that succeed; one that must fail is run as it stands, because it takes nothing."""

    def __init__(self, sessions: CutSessions, folder: str) -> None:
        super().__init__(sessions.run, folder, kernel=sessions.kernel)
        self.sessions = sessions

    def _expect_error(self, block: Block) -> None:
        self.sessions.whole = True
        try:
            super()._expect_error(block)
        finally:
            self.sessions.whole = False
