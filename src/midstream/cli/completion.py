"""What Tab offers: keywords, and the names that the database has.

Names are read from the catalog when the shell starts and after a statement that may have changed them, never
while someone is typing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from midstream.cli.commands import COMMANDS
from midstream.cli.dialogue import Dialogue
from midstream.errors import Error

KEYWORDS = """
    ADD ALL ALTER AND AS ASC BEGIN BETWEEN BIGINT BOOLEAN BY BYTEA CASCADE CASE CAST CHECK COLUMN COMMIT CONSTRAINT
    COPY CREATE CROSS CSV CURRENT_DATE CURRENT_TIMESTAMP DATE DEFAULT DELETE DESC DESCRIBE DISTINCT DOUBLE DROP ELSE
    END EXCEPT EXISTS EXPLAIN FALSE FILTER FIRST FOREIGN FROM FULL GROUP GROUPING HAVING HEADER ILIKE IN INCREASING
    INNER INSERT INT INTERSECT INTERVAL INTO IS JOIN JSON KEY LAST LEFT LIKE LIMIT MATCHED MERGE NOT NULL NULLS
    NUMERIC OF OFFSET ON OR ORDER OUTER OVER PARQUET PARTITION PRECISION PRIMARY REFERENCES RENAME REPLACE RESET
    RESTRICT RIGHT ROLLBACK SCN SELECT SET SETS SHOW STATUS STRICTLY TABLE TABLES TEXT THEN TIMESTAMP TIMESTAMPTZ TO
    TRUE UNION UNIQUE UPDATE USING VALUES VARCHAR VIEW VIEWS WHEN WHERE WITH
""".split()
_WORD = re.compile(r"[\w$]+")


class Names:
    """The relations and columns that the database has, as it was when last asked."""

    def __init__(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue
        self._words: list[str] = []
        self._is_old = True
        dialogue.schema_changed = self.forget

    def forget(self) -> None:
        self._is_old = True

    def refresh(self) -> None:
        """Asks the catalog if something may have changed; a failed transaction keeps the old names."""
        if not self._is_old or self._dialogue.transaction == "failed":
            return
        try:
            self._words = sorted(self._read())
        except Error:
            return
        self._is_old = False

    @property
    def words(self) -> Sequence[str]:
        return self._words

    def _read(self) -> set[str]:
        kinds = ("TABLES", "STREAMS", "VIEWS")
        relations = [name for kind in kinds for name in self._first_column(f"SHOW {kind}")]
        columns = [column for name in relations for column in self._first_column(f"DESCRIBE {_quoted(name)}")]
        return {*relations, *columns}

    def _first_column(self, sql: str) -> list[str]:
        return [str(row[0]) for row in self._dialogue.session.sql(sql).fetchall()]


class SqlCompleter(Completer):
    """Names first, then keywords, in the case that the user types in."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith("\\") and " " not in text:
            return [Completion(name, -len(text)) for name in COMMANDS if name.startswith(text)]
        word = document.get_word_before_cursor(pattern=_WORD)
        if not word:
            return []
        keywords = [keyword if word[0].isupper() else keyword.lower() for keyword in KEYWORDS]
        offered = dict.fromkeys([*self._names.words, *keywords])
        return [Completion(entry, -len(word)) for entry in offered if _starts_with(entry, word)]


def _starts_with(entry: str, word: str) -> bool:
    return entry.lower().startswith(word.lower()) and entry != word


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
