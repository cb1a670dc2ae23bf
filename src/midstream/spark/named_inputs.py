"""The names that a piece's SQL uses, put before it as WITH queries.

A view would do the same, but DuckDB looks at all that is below a view when the view is made, and again for every view
over it: with few rows, that takes longer than to compute them.

    names = define_inputs(connection, piece)
    connection.sql(names.before(piece.sql))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from midstream.maintenance.engine import Files, Piece, Rows
from midstream.spark.csv_ranges import is_ranged, read_ranges
from midstream.spark.duckdb_inputs import quote_name, select_files
from midstream.spark.kept_inputs import KeptInputs

_WITH = re.compile(r"\s*WITH\b", re.IGNORECASE)


@dataclass(frozen=True)
class Names:
    """SELECTs by name, each over names before it."""

    texts: tuple[tuple[str, str], ...] = ()

    def before(self, sql: str) -> str:
        """A SELECT that knows the names it uses."""
        used = [f"{quote_name(name)} AS NOT MATERIALIZED ({text})" for name, text in used_by(sql, self.texts)]
        if not used:
            return sql
        own = _WITH.match(sql)
        after = f", {sql[own.end() :]}" if own is not None else f" {sql}"
        return f"WITH {', '.join(used)}{after}"

    def also(self, name: str, sql: str) -> Names:
        return Names((*self.texts, (name, sql)))

    def instead(self, name: str, sql: str) -> Names:
        """With another SELECT under a name."""
        return Names(tuple((known, sql if known == name else text) for known, text in self.texts))


def used_by(sql: str, names: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Of names that are each over names before them, those that a text uses, and all that these use."""
    used, texts = list[tuple[str, str]](), [sql]
    for name, text in reversed(names):
        if any(name in other or quote_name(name) in other for other in texts):
            used.append((name, text))
            texts.append(text)
    return used[::-1]


def define_inputs(connection: duckdb.DuckDBPyConnection, piece: Piece, kept: KeptInputs | None = None) -> Names:
    """What a piece calls its inputs and views; what is read often comes from what is kept."""
    if kept is not None:
        kept.begin()
    names, once = Names(), _read_once(piece)
    for name, given in piece.inputs.items():
        match given:
            case Files() if is_ranged(given):
                connection.register(name, read_ranges(given))
            case Files():
                keeps = kept if name not in once else None
                names = names.also(name, keeps.select(connection, given) if keeps else select_files(given))
            case Rows(table):
                connection.register(name, table)
    return Names((*names.texts, *piece.views))


def _read_once(piece: Piece) -> set[str]:
    """The inputs that only views read which are kept themselves."""
    if not piece.kept:
        return set()
    known = [*((name, "") for name in piece.inputs)]
    known += [(name, "" if name in piece.kept else text) for name, text in piece.views]
    asked = " ".join([piece.sql, *(text for _, text in piece.checks)])
    return set(piece.inputs) - {name for name, _ in used_by(asked, known)}
