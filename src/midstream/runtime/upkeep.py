"""Upkeep: small files become large ones, logs are summed up, and the past beyond `retain_history` goes.

Nothing that a running statement or AS OF may still read is deleted: a file goes when the commit that
replaced it is older than both the horizon and every picture in use.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from midstream.errors import Error
from midstream.relations.catalog import CatalogState
from midstream.relations.schema import RowHolder, has_folder
from midstream.relations.stream import Stream
from midstream.relations.table import Table
from midstream.runtime.history import forget_parts
from midstream.runtime.store import Store

SMALL_FILE = 16 * 2**20
FILE_TARGET = 128 * 2**20
FEW_FILES = 32
COMMITS_PER_CHECKPOINT = 50


@dataclass
class Report:
    """What one round did."""

    compacted_tables: int = 0
    forgotten_parts: int = 0
    """Streams whose oldest parts went."""
    removed_files: int = 0
    checkpoints: int = 0


def upkeep(store: Store, retain_seconds: float, few_files: int = FEW_FILES) -> Report:
    """One round over all tables."""
    report = Report()
    for table in _tables(store.catalog.state):
        if isinstance(table, Stream):
            with store.commit_lock:
                report.forgotten_parts += forget_parts(store, table)
        if _compact(store, table, few_files):
            report.compacted_tables += 1
        report.checkpoints += _checkpoint(store, table)
        if isinstance(table, Stream):
            report.removed_files += _forget_replaced(store, table)
    report.removed_files += forget(store, retain_seconds)
    store.queries.tidy()
    return report


def _tables(state: CatalogState) -> list[RowHolder]:
    return [r for r in state.relations.values() if isinstance(r, Table | Stream) and has_folder(r)]


def _compact(store: Store, table: RowHolder, few_files: int) -> bool:
    """The lock is held while it runs, so the work of one round is bounded by the small files alone."""
    with store.commit_lock:
        state = store.catalog.state
        if table.id not in state.versions or state.relations.get(table.name) != table:
            return False
        folder = store.folder(table.id)
        small = [file for file in folder.files(state.versions[table.id]) if file.bytes < SMALL_FILE]
        if len(small) < few_files:
            return False
        commit = folder.compact(FILE_TARGET)
        if commit is None:
            return False
        store.catalog.publish_version(table.id, commit.version, commit.removed)
        return True


def _checkpoint(store: Store, table: RowHolder) -> int:
    """Delta reads its log from the newest checkpoint on."""
    log = store.folder(table.id).path / "_delta_log"
    with store.commit_lock:
        state = store.catalog.state
        version = state.versions.get(table.id)
        if version is None or not log.exists() or version - _newest_checkpoint(log) < COMMITS_PER_CHECKPOINT:
            return 0
        store.folder(table.id).checkpoint()
        return 1


def _forget_replaced(store: Store, stream: Stream) -> int:
    """A history is read from its newest files as of any SCN, so those that were replaced go when nobody reads them."""
    oldest = store.oldest_pin()
    paths = store.catalog.forget_files(stream.id, store.catalog.state.scn + 1 if oldest is None else oldest)
    for path in paths:
        (store.folder(stream.id).path / path).unlink(missing_ok=True)
    return len(paths)


def _checkpoints(log: Path) -> list[int]:
    return sorted({int(path.name[:20]) for path in log.glob("*.checkpoint*.parquet")})


def _newest_checkpoint(log: Path) -> int:
    return max(_checkpoints(log), default=0)


def forget(store: Store, retain_seconds: float) -> int:
    """Deletes what only the forgotten past needs; returns how many files went."""
    with store.commit_lock:
        horizon = store.catalog.horizon(time.time() - retain_seconds)
        oldest_pin = store.oldest_pin()
        if oldest_pin is not None:
            horizon = min(horizon, oldest_pin - 1)
        position = store.queries.oldest_position()
        if position is not None:
            # What a query has not yet computed, it computes from what was there then.
            horizon = min(horizon, position)
        if horizon <= store.catalog.history_from() - 1 or horizon <= 0:
            return 0
        files, tables = store.catalog.forget_before(horizon)
    for table_id in tables:
        store.forget_folder(table_id)
    for table_id, version in store.catalog.oldest_versions().items():
        _forget_log(store.folder(table_id).path / "_delta_log", version)
    for table_id, path in files:
        if table_id not in tables:
            (store.folder(table_id).path / path).unlink(missing_ok=True)
    return len(files)


def _forget_log(log: Path, oldest_version: int) -> None:
    """Delta's log before the newest checkpoint that the oldest readable version can be built from."""
    start = max((version for version in _checkpoints(log) if version <= oldest_version), default=0)
    for path in log.iterdir():
        if path.name[:20].isdigit() and int(path.name[:20]) < start:
            path.unlink(missing_ok=True)


class Housekeeper:
    """Runs upkeep from time to time in the background, after enough commits."""

    def __init__(self, store: Store, retain_seconds: Callable[[], float], every_seconds: float = 30.0) -> None:
        self._store = store
        self._retain_seconds = retain_seconds
        self._every = every_seconds
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="midstream-upkeep", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        seen = self._store.catalog.state.scn
        while not self._stop.wait(self._every):
            # Time passes also where nothing is committed.
            self._store.views.merger.sweep()
            scn = self._store.catalog.state.scn
            if scn == seen:
                continue
            seen = scn
            try:
                upkeep(self._store, self._retain_seconds())
            except (Error, OSError):
                # A round that fails leaves everything as it was; the next one tries again.
                continue
