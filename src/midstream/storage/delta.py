"""Delta tables, committed through delta-rs: the files of a version, and the commits that make new ones.

One `DeltaFolder` is one table's folder. Its callers take turns (the database's commit lock), so a commit
never meets another. Every commit says which files it added, removed and wrote to the change feed, read
from Delta's own log; a version that was never published in the catalog can be taken back.

    folder.append_rows(arrow)          -> Commit(version=8, added=(…,), removed=(), changes=())
    folder.merge(source)               -> Commit(version=9, added=(…,), removed=(…,), changes=(…,))
    folder.files(8)                    -> the Parquet files that version 8 consists of
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import ColumnProperties, DeltaTable, Field, Schema, WriterProperties, write_deltalake
from deltalake.transaction import AddAction, PostCommitHookProperties

from midstream.errors import Error, OutOfResources, StorageError

_CONFIGURATION: Mapping[str, str | None] = {
    "delta.enableChangeDataFeed": "true",
    "delta.logRetentionDuration": "interval 36500 days",
    "delta.checkpointInterval": "50",
}
_VERSIONS_KEPT_IN_MEMORY = 32
ACTION = "_action"
"""The column of a merge's source that says 'U' (new image) or 'D' (gone)."""


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table; `path` is relative to the table's folder."""

    path: str
    rows: int
    bytes: int
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict, compare=False, repr=False)
    """The smallest and largest value of each integer column, where Delta's statistics say so."""


@dataclass(frozen=True)
class Commit:
    """What one Delta commit did."""

    version: int
    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Files of the change feed."""


class DeltaFolder:
    """One table's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._table: DeltaTable | None = None
        self._files: OrderedDict[int, tuple[DataFile, ...]] = OrderedDict()

    @classmethod
    def create(cls, path: Path, schema: pa.Schema, *, change_feed: bool = True) -> DeltaFolder:
        folder = cls(path)
        configuration = {**_CONFIGURATION, "delta.enableChangeDataFeed": str(change_feed).lower()}
        with _errors(path):
            folder._table = DeltaTable.create(str(path), schema, configuration=configuration)
        folder._files[0] = ()
        _sync(path / "_delta_log" / _log_name(0))
        return folder

    # --- reading ---------------------------------------------------------------------------------

    def version(self) -> int:
        return self._open().version()

    def files(self, version: int) -> tuple[DataFile, ...]:
        with self._lock:
            if version not in self._files:
                before = self._files.get(version - 1)
                known = self._after(before, version) if before is not None else None
                self._remember(version, known if known is not None else self._load_files(version))
            self._files.move_to_end(version)
            return self._files[version]

    def _after(self, before: tuple[DataFile, ...], version: int) -> tuple[DataFile, ...] | None:
        """The files of a version from those of the one before it; None: its commit is summed up in a checkpoint."""
        if not (self.path / "_delta_log" / _log_name(version)).exists():
            return None
        return _with_commit(before, self._read_log(version))

    def _load_files(self, version: int) -> tuple[DataFile, ...]:
        with _errors(self.path):
            actions = pa.table(DeltaTable(str(self.path), version=version).get_add_actions(flatten=True))
        found = (_described(action) for action in actions.to_pylist())
        return tuple(sorted(found, key=lambda file: file.path))

    def _remember(self, version: int, files: tuple[DataFile, ...]) -> None:
        self._files[version] = files
        while len(self._files) > _VERSIONS_KEPT_IN_MEMORY:
            self._files.popitem(last=False)

    # --- committing ------------------------------------------------------------------------------

    def append_rows(self, rows: pa.Table) -> Commit:
        """Rows that the driver has in memory."""
        with self._committing() as table:
            write_deltalake(
                table,
                rows,
                mode="append",
                writer_properties=_written_as(table),
                post_commithook_properties=_NO_HOOKS,
            )
        return self._committed()

    def append_files(self, files: Sequence[tuple[DataFile, str]]) -> Commit:
        """Files that lie in the folder already, each with Delta's statistics as JSON."""
        with self._committing() as table:
            table.create_write_transaction(
                [_add(file, stats) for file, stats in files],
                mode="append",
                schema=table.schema(),
                partition_by=[],
                post_commithook_properties=_NO_HOOKS,
            )
            table.update_incremental()
        return self._committed()

    def merge(self, source: pa.Table | pa.RecordBatchReader, key: str, columns: Sequence[str]) -> Commit:
        """Replaces and deletes rows by key, as the source's `_action` says."""
        with self._committing() as table:
            merger = table.merge(
                source,
                predicate=f"t.{_quote(key)} = s.{_quote(key)}",
                source_alias="s",
                target_alias="t",
                writer_properties=_written_as(table),
                post_commithook_properties=_NO_HOOKS,
            )
            merger = merger.when_matched_delete(predicate=f"s.{ACTION} = 'D'")
            updates = {_quote(column): f"s.{_quote(column)}" for column in columns}
            merger.when_matched_update(updates=updates, predicate=f"s.{ACTION} = 'U'").execute()
        return self._committed()

    def add_column(self, name: str, arrow_type: pa.DataType) -> Commit:
        """A new column, NULL in the rows that are there."""
        [field] = Schema.from_arrow(pa.schema([pa.field(name, arrow_type)])).fields
        with self._committing() as table:
            table.alter.add_columns([Field(name, field.type, nullable=True)])
        return self._committed()

    def replace(self, schema: pa.Schema, files: Sequence[tuple[DataFile, str]]) -> Commit:
        """Other files with another schema in place of all that is there."""
        with self._committing() as table:
            table.create_write_transaction(
                [_add(file, stats) for file, stats in files],
                mode="overwrite",
                schema=Schema.from_arrow(schema),
                partition_by=[],
                post_commithook_properties=_NO_HOOKS,
            )
            table.update_incremental()
        return self._committed()

    def delete(self, predicate: str) -> Commit | None:
        """Removes rows by a condition in Delta's SQL. None: there was none."""
        before = self.version()
        with self._committing() as table:
            table.delete(predicate, writer_properties=_written_as(table), post_commithook_properties=_NO_HOOKS)
        return None if self.version() == before else self._committed()

    def compact(self, target_bytes: int) -> Commit | None:
        """Many small files become few; the rows stay. None: there was nothing to do."""
        before = self.version()
        with self._committing() as table:
            table.optimize.compact(
                target_size=target_bytes,
                writer_properties=_written_as(table),
                post_commithook_properties=_NO_HOOKS,
            )
        return None if self.version() == before else self._committed()

    def checkpoint(self) -> None:
        """Sums up Delta's log, so that opening the table stays fast."""
        with _errors(self.path):
            self._open().create_checkpoint()

    def take_back(self, version: int) -> int:
        """Undoes every commit after a version by a new one; returns the newest version."""
        with self._committing() as table:
            if table.version() != version:
                table.restore(version)
        return self.version()

    def _open(self) -> DeltaTable:
        with self._lock:
            if self._table is None:
                with _errors(self.path):
                    self._table = DeltaTable(str(self.path))
            return self._table

    @contextmanager
    def _committing(self) -> Iterator[DeltaTable]:
        """A commit that failed leaves the kept table in doubt, so it is opened anew."""
        with self._lock:
            try:
                with _errors(self.path):
                    yield self._open()
            except BaseException:
                self._table = None
                raise

    def _committed(self) -> Commit:
        with self._lock:
            version = self.version()
            commit = self._read_log(version)
            previous = self._files.get(version - 1)
            if previous is not None:
                self._remember(version, _with_commit(previous, commit))
            self._sync_commit(commit)
            return commit

    def _read_log(self, version: int) -> Commit:
        added, removed, changes = [], [], []
        with _errors(self.path), open(self.path / "_delta_log" / _log_name(version), encoding="utf-8") as log:
            for line in log:
                for kind, action in json.loads(line).items():
                    if kind == "add":
                        added.append(_added(action))
                    elif kind == "remove":
                        removed.append(unquote(action["path"]))
                    elif kind == "cdc":
                        changes.append(unquote(action["path"]))
        return Commit(version, tuple(added), tuple(removed), tuple(changes))

    def _sync_commit(self, commit: Commit) -> None:
        for path in (*(file.path for file in commit.added), *commit.changes):
            _sync(self.path / path)
        _sync(self.path / "_delta_log" / _log_name(commit.version))


def _with_commit(files: tuple[DataFile, ...], commit: Commit) -> tuple[DataFile, ...]:
    gone = set(commit.removed)
    return tuple(file for file in files if file.path not in gone) + commit.added


_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Checkpoints are upkeep's work, not the committing client's."""


def _written_as(table: DeltaTable) -> WriterProperties:
    """Without the smallest and the largest of floating point numbers. delta-rs leaves NaN out of them, though it is
    larger than all numbers, and a kernel does not look for it in a file whose largest value is below what it seeks."""
    floats = [field.name for field in table.schema().fields if getattr(field.type, "type", None) in ("float", "double")]
    unknown = ColumnProperties(statistics_enabled="NONE")
    return WriterProperties(compression="SNAPPY", column_properties=dict.fromkeys(floats, unknown))


def _described(action: Mapping[str, Any]) -> DataFile:
    """A file as a table's list of files describes it."""
    names = [key.removeprefix("min.") for key in action if key.startswith("min.")]
    ranges = _ranges({name: action[f"min.{name}"] for name in names}, {name: action[f"max.{name}"] for name in names})
    return DataFile(unquote(action["path"]), action.get("num_records") or 0, action["size_bytes"], ranges)


def _added(action: Mapping[str, Any]) -> DataFile:
    """A file as the commit that added it describes it."""
    stats = json.loads(action.get("stats") or "{}")
    ranges = _ranges(stats.get("minValues", {}), stats.get("maxValues", {}))
    return DataFile(unquote(action["path"]), stats.get("numRecords", 0), action["size"], ranges)


def _ranges(smallest: Mapping[str, Any], largest: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Only integers are told exactly: texts are cut, and floats have NaN."""
    return {
        name: (low, largest[name])
        for name, low in smallest.items()
        if type(low) is int and type(largest.get(name)) is int
    }


def _add(file: DataFile, stats: str) -> AddAction:
    return AddAction(file.path, file.bytes, {}, int(time.time() * 1000), True, stats)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _log_name(version: int) -> str:
    return f"{version:020d}.json"


def _sync(path: Path) -> None:
    """Forces a file and its name to the disk."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except Error:
        raise
    except Exception as error:  # delta-rs raises a bare Exception for some of its own
        if getattr(error, "errno", None) == 28 or "No space left" in str(error):
            raise OutOfResources("the disk is full", detail=str(error), sqlstate="53100") from error
        raise StorageError("a table's files could not be read or written", detail=f"{path.name}: {error}") from error
