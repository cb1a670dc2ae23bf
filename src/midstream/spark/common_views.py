"""Views that several pieces of one task have in common are computed once: the groups of a state that something new has
come to, say, which all views over that state need.

A view is known by what it means: its text and the texts below it, down to the files that they read. It is kept as a
table of the worker's DuckDB until the task ends.

    with CommonViews(pieces, connect) as common:
        names = common.taken(connection, piece, names)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

import duckdb

from midstream.maintenance.engine import Files, Input, Piece
from midstream.spark.duckdb_inputs import quote_name
from midstream.spark.named_inputs import Names, used_by

_numbers = count()
_FEW_BYTES = 10_000


class CommonViews:
    """What one task has computed. A worker runs one task at a time."""

    def __init__(self, pieces: Sequence[Piece], connect: Callable[[], duckdb.DuckDBPyConnection]) -> None:
        found = Counter(meaning_of(piece, name) for piece in pieces for name in piece.shared)
        self._common = {meaning for meaning, times in found.items() if times > 1}
        self._tables: dict[str, str] = {}
        self._connect = connect

    def __enter__(self) -> CommonViews:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._tables:
            return
        with self._connect() as connection:
            for table in self._tables.values():
                connection.execute(f"DROP TABLE {table}")

    def taken(self, connection: duckdb.DuckDBPyConnection, piece: Piece, names: Names) -> Names:
        """The names of a piece, with what is in common read from where it is kept."""
        for name in piece.shared:
            meaning = meaning_of(piece, name)
            if meaning not in self._common:
                continue
            if meaning not in self._tables and not self._compute(connection, meaning, names, name):
                continue
            names = names.instead(name, f"SELECT * FROM {self._tables[meaning]}")
        return names

    def _compute(self, connection: duckdb.DuckDBPyConnection, meaning: str, names: Names, name: str) -> bool:
        table = f"memory.main.{quote_name(f'common {next(_numbers)}')}"
        try:
            connection.execute(f"CREATE TABLE {table} AS {names.before(f'SELECT * FROM {quote_name(name)}')}")
        except duckdb.OutOfMemoryException:
            return False
        self._tables[meaning] = table
        return True


def meaning_of(piece: Piece, name: str) -> str:
    """What a view is, whoever asks."""
    texts = used_by(f"SELECT * FROM {quote_name(name)}", [*((given, "") for given in piece.inputs), *piece.views])
    given = [(name, _content(piece.inputs[name])) for name, _ in texts if name in piece.inputs]
    return repr([texts, given]) if all(content is not None for _, content in given) else repr(id(piece))


def _content(given: Input) -> object:
    """What an input has in it; None: only it itself can say."""
    if isinstance(given, Files):
        return given.paths, given.columns
    return (given.table.schema, given.table.to_pylist()) if given.table.nbytes <= _FEW_BYTES else None
