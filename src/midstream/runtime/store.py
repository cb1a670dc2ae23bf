"""What a database has on disk, and the few things that its parts take turns at.

    shop.db/
      lock            the process that has the database open
      catalog.db      what exists at which SCN
      tables/7/       one Delta table
      log/            what streams have acknowledged and some reader still has to absorb
      streams/9/      files of one stream on their way to its readers
      views/…/        what a continuous view keeps of a stream
      queries/8/      what a continuous query has handed out
      staging/        rows on their way; empty when nothing runs

`pinned(state)` protects the files of a picture from being deleted while someone reads them.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from midstream.maintenance.engine import Engine
from midstream.relations.catalog import Catalog, CatalogState
from midstream.relations.schema import RowHolder
from midstream.relations.table import Table
from midstream.runtime.rows import physical_schema, stored_columns
from midstream.storage.delta import DeltaFolder

if TYPE_CHECKING:
    from midstream.runtime.continuous.queries import Queries
    from midstream.runtime.gathering import Gatherer
    from midstream.runtime.streams import Streams
    from midstream.runtime.views import Views

ID_BLOCK = 1 << 36
"""Row ids set aside for a task that cannot know how many rows it will write."""


class Store:
    """The catalog, the tables' folders, and the engine that reads and writes them."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self.path = path
        self.engine = engine
        self.tables_path = path / "tables"
        self.staging_path = path / "staging"
        self.tables_path.mkdir(exist_ok=True)
        shutil.rmtree(self.staging_path, ignore_errors=True)
        self.staging_path.mkdir()
        self.catalog = Catalog(path / "catalog.db")
        self.commit_lock = threading.RLock()
        self.is_closed = False
        self.streams: Streams
        self.views: Views
        self.queries: Queries
        self.gatherer: Gatherer
        """Streams at work, and their small inserts; set by whoever wires the database."""
        self.bound_queries: dict[str, tuple[object, object]] = {}
        """Queries that were asked lately, with the definitions that they were bound to."""
        self._folders: dict[int, DeltaFolder] = {}
        self._next_ids: dict[int, int] = {}
        self._pins: Counter[int] = Counter()
        self._lock = threading.Lock()

    def close(self) -> None:
        self.is_closed = True
        self.catalog.close()
        shutil.rmtree(self.staging_path, ignore_errors=True)

    # --- folders ---------------------------------------------------------------------------------

    def folder(self, table_id: int) -> DeltaFolder:
        with self._lock:
            if table_id not in self._folders:
                self._folders[table_id] = DeltaFolder(self.tables_path / str(table_id))
            return self._folders[table_id]

    def create_folder(self, table: RowHolder) -> DeltaFolder:
        path = self.tables_path / str(table.id)
        shutil.rmtree(path, ignore_errors=True)
        schema = physical_schema(stored_columns(table))
        folder = DeltaFolder.create(path, schema, change_feed=isinstance(table, Table))
        with self._lock:
            self._folders[table.id] = folder
        return folder

    def forget_folder(self, table_id: int) -> None:
        with self._lock:
            self._folders.pop(table_id, None)
        shutil.rmtree(self.tables_path / str(table_id), ignore_errors=True)

    def new_staging(self) -> Path:
        path = self.staging_path / uuid.uuid4().hex
        path.mkdir()
        return path

    # --- row ids ---------------------------------------------------------------------------------

    def next_row_id(self, table_id: int) -> int:
        with self._lock:
            if table_id not in self._next_ids:
                self._next_ids[table_id] = self.catalog.next_row_id(table_id)
            return self._next_ids[table_id]

    def reserve_row_ids(self, table_id: int, count: int) -> int:
        """The first of `count` ids that nobody else will get."""
        first = self.next_row_id(table_id)
        with self._lock:
            first = self._next_ids[table_id]
            self._next_ids[table_id] = first + count
        return first

    def return_row_ids(self, table_id: int, first: int, reserved: int, used: int) -> None:
        """Gives back what a block did not need, if nobody has reserved after it."""
        with self._lock:
            if self._next_ids[table_id] == first + reserved:
                self._next_ids[table_id] = first + used

    # --- pictures in use -------------------------------------------------------------------------

    @contextmanager
    def pinned(self, state: CatalogState) -> Iterator[CatalogState]:
        self.pin(state)
        try:
            yield state
        finally:
            self.unpin(state)

    def pin(self, state: CatalogState) -> None:
        with self._lock:
            self._pins[state.scn] += 1

    def unpin(self, state: CatalogState) -> None:
        with self._lock:
            self._pins[state.scn] -= 1
            self._pins += Counter()

    def oldest_pin(self) -> int | None:
        with self._lock:
            return min(self._pins, default=None)
