"""The catalog: one SQLite file that says what exists at which commit number (SCN).

Invariant: what a commit did is published in one SQLite transaction, so either all of it is there or
nothing is. A reader takes `catalog.state`, an immutable picture at one SCN, and is never disturbed.

    state 41: users -> delta version 7, orders -> delta version 3
    publish(Publication(scn=42, versions={users.id: 8, orders.id: 4}, …))
    state 42: users -> 8, orders -> 4; state 41 is still what it was, for whoever holds it
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from midstream.errors import HistoryGone, InvalidParameter, OutOfResources, StorageError
from midstream.relations.definition import decode, encode, kind_of
from midstream.relations.schema import Relation
from midstream.relations.table import Table

FORMAT = "1"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS commits (scn INTEGER PRIMARY KEY, committed_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS relations (
  id INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, definition TEXT NOT NULL,
  from_scn INTEGER NOT NULL, to_scn INTEGER, PRIMARY KEY (id, from_scn));
CREATE INDEX IF NOT EXISTS relations_by_name ON relations (name, from_scn);
CREATE TABLE IF NOT EXISTS versions (
  table_id INTEGER NOT NULL, scn INTEGER NOT NULL, version INTEGER NOT NULL, PRIMARY KEY (table_id, scn));
CREATE TABLE IF NOT EXISTS row_ids (table_id INTEGER PRIMARY KEY, next INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS changes (
  table_id INTEGER NOT NULL, scn INTEGER NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, rows INTEGER NOT NULL,
  PRIMARY KEY (table_id, scn, path));
CREATE TABLE IF NOT EXISTS dead_files (
  table_id INTEGER NOT NULL, path TEXT NOT NULL, scn INTEGER NOT NULL, PRIMARY KEY (table_id, path));
CREATE TABLE IF NOT EXISTS maxima (
  table_id INTEGER NOT NULL, name TEXT NOT NULL, part TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (table_id, name, part));
CREATE TABLE IF NOT EXISTS readers (
  id INTEGER PRIMARY KEY, stream_id INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL,
  absorbed INTEGER NOT NULL, state TEXT NOT NULL);
"""


_WITH_FOLDER = "('table', 'stream', 'materialized view')"
ChangeKind = Literal["insert", "change", "delete"]


@dataclass(frozen=True)
class ChangeFile:
    """A file of a table's change log: whole new rows ('insert'), or Delta's change feed, of nothing but deleted rows
    ('delete') or of any ('change')."""

    scn: int
    path: str
    kind: ChangeKind
    rows: int

    @property
    def is_feed(self) -> bool:
        return self.kind != "insert"


@dataclass(frozen=True)
class ReaderEntry:
    """Who reads a stream, up to which SCN it has absorbed it, and what it keeps of it as JSON."""

    id: int
    stream_id: int
    name: str
    kind: str
    absorbed: int
    state: str = "{}"


@dataclass(frozen=True)
class CatalogState:
    """What exists at one SCN."""

    scn: int
    relations: Mapping[str, Relation]
    versions: Mapping[int, int]
    """Delta version of each table, by its id."""

    def name_of(self, written: str) -> str:
        """What Python calls a relation: its name as it is spelled, as SQL reads it in quotes, or without."""
        if written in self.relations:
            return written
        quoted = len(written) > 2 and written.startswith('"') and written.endswith('"')
        return written[1:-1].replace('""', '"') if quoted else written.lower()

    def table_by_id(self, id: int) -> Table:
        return next(r for r in self.relations.values() if isinstance(r, Table) and r.id == id)


@dataclass(frozen=True)
class Publication:
    """All that one commit did.

    `maxima` are the largest values of INCREASING columns: (table, constraint, part) -> JSON."""

    scn: int
    committed_at: float
    relations: Sequence[Relation] = ()
    dropped: Sequence[Relation] = ()
    versions: Mapping[int, int] = field(default_factory=dict)
    row_ids: Mapping[int, int] = field(default_factory=dict)
    changes: Sequence[tuple[int, ChangeFile]] = ()
    dead_files: Sequence[tuple[int, str]] = ()
    maxima: Mapping[tuple[int, str, str], str] = field(default_factory=dict)
    readers: Sequence[ReaderEntry] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    """Texts under names, as `keep` takes them."""
    forgotten: Sequence[str] = ()


class Catalog:
    """Thread-safe; writers take turns through the database's commit lock."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        with self._errors():
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.executescript(_SCHEMA)
        self._check_format()
        self.state = self._load()

    def close(self) -> None:
        with self._lock, self._errors():
            self._db.close()

    # --- reading ---------------------------------------------------------------------------------

    def state_at(self, scn: int) -> CatalogState:
        """The picture at an earlier SCN, if the past is kept so far back."""
        state = self.state
        if scn == state.scn:
            return state
        self.check_reachable(scn)
        with self._lock, self._errors():
            rows = self._definitions_at(scn)
            versions = self._db.execute(
                "SELECT table_id, version FROM versions v WHERE scn = "
                "(SELECT max(scn) FROM versions w WHERE w.table_id = v.table_id AND w.scn <= ?)",
                (scn,),
            ).fetchall()
        if rows is None:
            return CatalogState(scn, state.relations, dict(versions))
        relations = (decode(*row) for row in rows)
        return CatalogState(scn, {relation.name: relation for relation in relations}, dict(versions))

    def _definitions_at(self, scn: int) -> list[tuple[str, int, str, str]] | None:
        """None: they are what they are now."""
        later = self._db.execute("SELECT 1 FROM relations WHERE from_scn > ? OR to_scn > ? LIMIT 1", (scn, scn))
        if later.fetchone() is None:
            return None
        return self._db.execute(
            "SELECT kind, id, name, definition FROM relations WHERE from_scn <= ? AND (to_scn IS NULL OR to_scn > ?)",
            (scn, scn),
        ).fetchall()

    def check_reachable(self, scn: int) -> None:
        if scn > self.state.scn:
            raise InvalidParameter(f"SCN {scn} has not been reached", detail=f"The newest commit is {self.state.scn}.")
        oldest = self.history_from()
        if scn < oldest:
            raise HistoryGone(
                f"the past at SCN {scn} is no longer kept",
                detail=f"The oldest commit that can still be read is {oldest}.",
                hint="A longer retain_history keeps more of the past.",
            )

    def history_from(self) -> int:
        return int(self._meta("history_from", "0"))

    def changes(self, table_id: int, after: int, upto: int) -> list[ChangeFile]:
        """The change files of commits in (after, upto], oldest first."""
        with self._lock, self._errors():
            rows = self._db.execute(
                "SELECT scn, path, kind, rows FROM changes "
                "WHERE table_id = ? AND scn > ? AND scn <= ? ORDER BY scn, path",
                (table_id, after, upto),
            ).fetchall()
        return [ChangeFile(*row) for row in rows]

    def commits_that_changed(self, table_ids: Sequence[int], after: int, upto: int) -> list[int]:
        """The SCNs in (after, upto] that changed rows of some tables, oldest first."""
        places = ", ".join("?" * len(table_ids))
        with self._lock, self._errors():
            rows = self._db.execute(
                f"SELECT DISTINCT scn FROM changes WHERE table_id IN ({places}) AND scn > ? AND scn <= ? ORDER BY scn",
                (*table_ids, after, upto),
            ).fetchall()
        return [row[0] for row in rows]

    def past_tables(self, table_id: int) -> list[tuple[int, int | None, Table]]:
        """Every definition that a table has had: (from SCN, to SCN or None, table), oldest first."""
        with self._lock, self._errors():
            rows = self._db.execute(
                "SELECT from_scn, to_scn, kind, id, name, definition FROM relations WHERE id = ? ORDER BY from_scn",
                (table_id,),
            ).fetchall()
        past = [(first, last, decode(kind, id, name, text)) for first, last, kind, id, name, text in rows]
        return [(first, last, table) for first, last, table in past if isinstance(table, Table)]

    def next_row_id(self, table_id: int) -> int:
        with self._lock, self._errors():
            row = self._db.execute("SELECT next FROM row_ids WHERE table_id = ?", (table_id,)).fetchone()
        return int(row[0]) if row else 0

    def maximum(self, table_id: int, name: str, parts: Iterable[str]) -> dict[str, object]:
        """The largest value that an INCREASING column has ever had, for each part that has one."""
        with self._lock, self._errors():
            found = {}
            for part in parts:
                row = self._db.execute(
                    "SELECT value FROM maxima WHERE table_id = ? AND name = ? AND part = ?", (table_id, name, part)
                ).fetchone()
                if row:
                    found[part] = json.loads(row[0])
        return found

    def new_id(self) -> int:
        """An id that no relation has had."""
        with self._lock, self._errors():
            id = int(self._meta("next_id", "1"))
            self._set_meta("next_id", str(id + 1))
        return id

    def table_ids(self) -> set[int]:
        """Every table that exists now or that AS OF can still reach."""
        with self._lock, self._errors():
            rows = self._db.execute(f"SELECT DISTINCT id FROM relations WHERE kind IN {_WITH_FOLDER}")
            return {row[0] for row in rows}

    def has_commit(self, scn: int) -> bool:
        with self._lock, self._errors():
            return self._db.execute("SELECT 1 FROM commits WHERE scn = ?", (scn,)).fetchone() is not None

    def setting(self, name: str) -> str | None:
        value = self._meta(f"setting {name}", "")
        return value or None

    def keep_setting(self, name: str, value: str) -> None:
        with self._lock, self._errors():
            self._set_meta(f"setting {name}", value)

    def kept(self, name: str) -> str | None:
        """A text that was kept under a name."""
        with self._lock, self._errors():
            return self._meta(f"kept {name}", "") or None

    def keep(self, name: str, text: str) -> None:
        with self._lock, self._errors():
            self._set_meta(f"kept {name}", text)

    def keep_all(self, texts: Mapping[str, str]) -> None:
        """Several texts, all at once."""
        with self._lock, self._transaction():
            for name, text in texts.items():
                self._set_meta(f"kept {name}", text)

    def forget(self, name: str) -> None:
        with self._lock, self._errors():
            self._db.execute("DELETE FROM meta WHERE key = ?", (f"kept {name}",))

    # --- publishing ------------------------------------------------------------------------------

    def publish(self, publication: Publication) -> CatalogState:
        """Makes a commit visible, all of it at once."""
        with self._lock:
            with self._transaction():
                self._write(publication)
            self.state = self._apply(publication)
            return self.state

    def catch_up(self, scn: int) -> None:
        """Reads the picture anew if a commit was interrupted before it had one."""
        with self._lock:
            if self.state.scn < scn:
                self.state = self._load()

    def advance(self, scn: int) -> None:
        """An insert into a stream took an SCN; what exists is the same."""
        with self._lock:
            self.state = replace(self.state, scn=scn)

    def publish_version(self, table_id: int, version: int, dead_files: Sequence[str]) -> CatalogState:
        """The same rows in other files: what compaction leaves behind. No SCN passes."""
        with self._lock:
            scn = self.state.scn
            with self._transaction():
                self._db.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?)", (table_id, scn, version))
                self._bury(table_id, dead_files, scn)
            self.state = replace(self.state, versions={**self.state.versions, table_id: version})
            return self.state

    def publish_answer(
        self,
        table_id: int,
        scn: int,
        version: int,
        changes: Sequence[ChangeFile],
        dead_files: Sequence[str],
        next_row_id: int,
        kept: Mapping[str, str],
    ) -> None:
        """A stored answer as it is at an SCN that has passed: what it was until now, it was before that SCN."""
        with self._lock:
            db = self._db
            with self._transaction():
                # Versions after the SCN are the earlier answer in other files, which this one was made from.
                db.execute("DELETE FROM versions WHERE table_id = ? AND scn >= ?", (table_id, scn))
                db.execute("INSERT INTO versions VALUES (?, ?, ?)", (table_id, scn, version))
                for change in changes:
                    written = (table_id, scn, change.path, change.kind, change.rows)
                    db.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", written)
                self._bury(table_id, dead_files, self.state.scn)
                db.execute("INSERT OR REPLACE INTO row_ids VALUES (?, ?)", (table_id, next_row_id))
                for name, text in kept.items():
                    self._set_meta(f"kept {name}", text)
            self.state = replace(self.state, versions={**self.state.versions, table_id: version})

    def _write(self, publication: Publication) -> None:
        db, scn = self._db, publication.scn
        db.execute("INSERT INTO commits VALUES (?, ?)", (scn, publication.committed_at))
        for relation in (*publication.dropped, *publication.relations):
            db.execute("UPDATE relations SET to_scn = ? WHERE id = ? AND to_scn IS NULL", (scn, relation.id))
        for relation in publication.relations:
            row = (relation.id, relation.name, kind_of(relation), encode(relation), scn, None)
            db.execute("INSERT INTO relations VALUES (?, ?, ?, ?, ?, ?)", row)
        for table_id, version in publication.versions.items():
            db.execute("INSERT INTO versions VALUES (?, ?, ?)", (table_id, scn, version))
        for table_id, next_id in publication.row_ids.items():
            db.execute("INSERT OR REPLACE INTO row_ids VALUES (?, ?)", (table_id, next_id))
        for table_id, change in publication.changes:
            written = (table_id, change.scn, change.path, change.kind, change.rows)
            db.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", written)
        for table_id, path in publication.dead_files:
            self._bury(table_id, [path], scn)
        for relation in publication.dropped:
            db.execute("DELETE FROM readers WHERE stream_id = ?", (relation.id,))
        for reader in publication.readers:
            self._write_reader(reader)
        for name, text in publication.kept.items():
            self._set_meta(f"kept {name}", text)
        for name in publication.forgotten:
            db.execute("DELETE FROM meta WHERE key = ?", (f"kept {name}",))
        for (table_id, name, part), value in publication.maxima.items():
            db.execute("INSERT OR REPLACE INTO maxima VALUES (?, ?, ?, ?)", (table_id, name, part, value))

    def _bury(self, table_id: int, paths: Sequence[str], scn: int) -> None:
        for path in paths:
            self._db.execute("INSERT OR REPLACE INTO dead_files VALUES (?, ?, ?)", (table_id, path, scn))

    def _apply(self, publication: Publication) -> CatalogState:
        versions = {**self.state.versions, **publication.versions}
        if not publication.dropped and not publication.relations:
            # The same definitions are the same object, so that plans which were made for them are known to hold.
            return CatalogState(publication.scn, self.state.relations, versions)
        gone = {relation.id for relation in (*publication.dropped, *publication.relations)}
        relations = {name: relation for name, relation in self.state.relations.items() if relation.id not in gone}
        relations |= {relation.name: relation for relation in publication.relations}
        return CatalogState(publication.scn, relations, versions)

    # --- readers of streams ----------------------------------------------------------------------

    def reserved_scn(self) -> int:
        """No SCN above it was given without a trace in the catalog or the log."""
        return int(self._meta("scn_reserved", "0"))

    def reserve_scns(self, scn: int) -> None:
        with self._lock, self._errors():
            self._set_meta("scn_reserved", str(scn))

    def readers(self) -> list[ReaderEntry]:
        with self._lock, self._errors():
            rows = self._db.execute("SELECT id, stream_id, name, kind, absorbed, state FROM readers ORDER BY id")
            return [ReaderEntry(*row) for row in rows.fetchall()]

    def keep_reader(
        self, reader: ReaderEntry, version: tuple[int, int] | None = None, dead_files: Sequence[str] = ()
    ) -> None:
        """What a reader has absorbed and what it keeps of it, at once; with `version`, as (table, Delta version), also
        the rows that it has stored."""
        with self._lock:
            with self._transaction():
                self._write_reader(reader)
                if version is not None:
                    table_id, number = version
                    self._db.execute("DELETE FROM versions WHERE table_id = ?", (table_id,))
                    self._db.execute("INSERT INTO versions VALUES (?, ?, ?)", (table_id, self.state.scn, number))
                    self._bury(table_id, dead_files, self.state.scn)
            if version is not None:
                self.state = replace(self.state, versions={**self.state.versions, version[0]: version[1]})

    def drop_reader(self, id: int) -> None:
        with self._lock, self._errors():
            self._db.execute("DELETE FROM readers WHERE id = ?", (id,))

    def _write_reader(self, reader: ReaderEntry) -> None:
        row = (reader.id, reader.stream_id, reader.name, reader.kind, reader.absorbed, reader.state)
        self._db.execute("INSERT OR REPLACE INTO readers VALUES (?, ?, ?, ?, ?, ?)", row)

    # --- forgetting ------------------------------------------------------------------------------

    def horizon(self, kept_since: float) -> int:
        """The newest SCN that was current at a moment: older ones may be forgotten."""
        with self._lock, self._errors():
            row = self._db.execute("SELECT max(scn) FROM commits WHERE committed_at <= ?", (kept_since,)).fetchone()
        return int(row[0] or 0)

    def oldest_versions(self) -> dict[int, int]:
        """The oldest Delta version of each table that can still be asked for."""
        with self._lock, self._errors():
            return dict(self._db.execute("SELECT table_id, min(version) FROM versions GROUP BY table_id").fetchall())

    def forget_before(self, horizon: int) -> tuple[list[tuple[int, str]], set[int]]:
        """Gives up the past before an SCN: the files to delete as (table, path), and the tables to delete whole."""
        with self._lock, self._transaction():
            self._set_meta("history_from", str(max(horizon, self.history_from())))
            files = self._dead_before(horizon)
            tables = self._tables_gone_before(horizon)
            self._delete_past(horizon)
        return files, tables

    def forget_files(self, table_id: int, before: int) -> list[str]:
        """The files of a table that were replaced before an SCN, which nobody asks for any more."""
        with self._lock, self._transaction():
            rows = self._db.execute(
                "SELECT path FROM dead_files WHERE table_id = ? AND scn < ?", (table_id, before)
            ).fetchall()
            self._db.execute("DELETE FROM dead_files WHERE table_id = ? AND scn < ?", (table_id, before))
        return [path for (path,) in rows]

    def _dead_before(self, horizon: int) -> list[tuple[int, str]]:
        dead = self._db.execute("SELECT table_id, path FROM dead_files WHERE scn <= ?", (horizon,)).fetchall()
        changed = self._db.execute(
            "SELECT table_id, path FROM changes WHERE scn <= ? AND kind <> 'insert'", (horizon,)
        ).fetchall()
        return [(table_id, path) for table_id, path in dead + changed]

    def _tables_gone_before(self, horizon: int) -> set[int]:
        rows = self._db.execute(
            f"SELECT id FROM relations WHERE kind IN {_WITH_FOLDER} GROUP BY id "
            "HAVING max(CASE WHEN to_scn IS NULL OR to_scn > ? THEN 1 ELSE 0 END) = 0",
            (horizon,),
        ).fetchall()
        return {row[0] for row in rows}

    def _delete_past(self, horizon: int) -> None:
        db = self._db
        db.execute("DELETE FROM dead_files WHERE scn <= ?", (horizon,))
        db.execute("DELETE FROM changes WHERE scn <= ?", (horizon,))
        db.execute(
            "DELETE FROM versions WHERE scn < (SELECT max(scn) FROM versions w "
            "WHERE w.table_id = versions.table_id AND w.scn <= ?)",
            (horizon,),
        )
        db.execute("DELETE FROM relations WHERE to_scn <= ?", (horizon,))
        for table in ("versions", "changes", "row_ids", "maxima"):
            db.execute(f"DELETE FROM {table} WHERE table_id NOT IN (SELECT id FROM relations)")
        db.execute("DELETE FROM commits WHERE scn < ?", (horizon,))

    # --- inside ----------------------------------------------------------------------------------

    def known_paths(self, table_id: int) -> set[str]:
        """Files that are no longer in the table but that the past or the change log still needs."""
        with self._lock, self._errors():
            rows = self._db.execute(
                "SELECT path FROM dead_files WHERE table_id = ? UNION SELECT path FROM changes WHERE table_id = ?",
                (table_id, table_id),
            ).fetchall()
        return {row[0] for row in rows}

    def _load(self) -> CatalogState:
        with self._errors():
            rows = self._db.execute("SELECT kind, id, name, definition FROM relations WHERE to_scn IS NULL").fetchall()
            versions = self._db.execute(
                "SELECT table_id, version FROM versions v WHERE scn = "
                "(SELECT max(scn) FROM versions w WHERE w.table_id = v.table_id)"
            ).fetchall()
            scn = self._db.execute("SELECT max(scn) FROM commits").fetchone()[0] or 0
        relations = (decode(*row) for row in rows)
        return CatalogState(int(scn), {relation.name: relation for relation in relations}, dict(versions))

    def _check_format(self) -> None:
        with self._lock, self._errors():
            found = self._meta("format", "")
            if not found:
                self._set_meta("format", FORMAT)
        if found not in ("", FORMAT):
            raise StorageError(
                f"the database folder has format {found}, and this Midstream reads format {FORMAT}",
                hint="Open it with the version of Midstream that wrote it.",
            )

    def _meta(self, key: str, default: str) -> str:
        with self._lock, self._errors():
            row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return row[0] if row else default

    def _set_meta(self, key: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if "full" in str(error):
                raise OutOfResources("the disk is full", detail=str(error), sqlstate="53100") from error
            raise StorageError(
                "the catalog of the database could not be read or written",
                detail=str(error),
                hint="Check that the folder is a Midstream database and that you may write to it.",
            ) from error
