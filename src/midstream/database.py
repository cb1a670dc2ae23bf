"""A database: a folder, the process that has it open, and all the parts wired together."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from midstream.errors import Closed, DatabaseInUse, OutOfResources, StorageError
from midstream.log.files import LocalFiles
from midstream.maintenance.engine import Progress
from midstream.runtime.continuous.queries import Queries
from midstream.runtime.continuous.streamed import STREAMED, StreamedReader
from midstream.runtime.gathering import Gatherer
from midstream.runtime.history import HISTORY, HistoryReader
from midstream.runtime.lateness import LATE, LateReader
from midstream.runtime.pipelines import PIPELINE, PipelineReader
from midstream.runtime.readers import ReaderMaker
from midstream.runtime.recovery import recover
from midstream.runtime.settings import SETTINGS, read_setting
from midstream.runtime.store import Store
from midstream.runtime.streams import Streams
from midstream.runtime.tally import ROW_TALLY, TALLY, TallyReader
from midstream.runtime.upkeep import Housekeeper, Report, upkeep
from midstream.runtime.views import Views
from midstream.serving.execute import execute
from midstream.serving.inserting import insert
from midstream.serving.result import Result
from midstream.serving.session import Session
from midstream.serving.subscriptions import Notifications, Subscription, subscribe, wait
from midstream.spark.engine import SparkEngine


class Database:
    """Made by `midstream.connect`. May be shared by threads; transactions belong to a `session()`."""

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        spark: Any = None,
        master: str | None = None,
        cores: int | None = None,
        memory: int | str | None = None,
        **settings: object,
    ) -> None:
        self._settings = {name: read_setting(name, value) for name, value in settings.items()}
        self._temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix="midstream-") if path is None else path).absolute()
        self._lock_file = _take(self.path)
        self._closed = False
        self._closing = threading.Lock()
        try:
            self._engine = SparkEngine(self.path / "work", spark=spark, master=master, cores=cores, memory=memory)
            self._store = Store(self.path, self._engine)
            self._store.streams = Streams(self._store, LocalFiles(), READERS)
            self._store.gatherer = Gatherer(self._store)
            recover(self._store)
            self._store.queries = Queries(self._store)
            self._store.views = Views(self._store)
            self._store.streams.start(self._store.views.start)
            self._store.queries.start()
        except BaseException:
            os.close(self._lock_file)
            raise
        self._keep_settings()
        self._housekeeper = Housekeeper(self._store, self._retain_seconds)
        self._session = self.session()

    # --- the public face -------------------------------------------------------------------------

    def sql(self, text: str, parameters: Sequence[object] = ()) -> Result:
        """Runs one or more statements and gives the last one's result."""
        self._check_open()
        return self._session.sql(text, parameters)

    def insert(self, name: str, data: object) -> Result:
        """Rows from Arrow, pandas, polars, a list of dicts, a Spark DataFrame or a path."""
        self._check_open()
        return self._session.insert(name, data)

    def subscribe(self, name: str, *, snapshot: bool = False, after: int | None = None) -> Subscription:
        """What a view hands out from now on, or after an SCN; with `snapshot`, what it has now comes first."""
        self._check_open()
        return subscribe(self._store, self._store.catalog.state.name_of(name), snapshot=snapshot, after=after)

    def listen(self, channel: str) -> Notifications:
        """What triggers with NOTIFY tell a channel from now on."""
        self._check_open()
        return Notifications(self._store, channel)

    def wait(self, name: str, scn: int, timeout: float | None = None) -> None:
        """Returns when a continuous query or a view has computed up to a commit."""
        self._check_open()
        wait(self._store, self._store.catalog.state.name_of(name), scn, timeout)

    def session(self) -> Session:
        """Another session, with its own transaction and settings."""
        self._check_open()
        session = Session(self._store, _Work())
        session.settings |= self._known_settings()
        return session

    def progress(self) -> Sequence[Progress]:
        """The jobs that run now, and how far they have come."""
        self._check_open()
        return self._engine.progress()

    def upkeep(self) -> Report:
        """Compacts small files and forgets the past beyond `retain_history`, now."""
        self._check_open()
        return upkeep(self._store, self._retain_seconds(), few_files=2)

    def close(self) -> None:
        """Closes it; connecting to the same folder goes on where it was."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._session.close()
        self._store.is_closed = True
        self._housekeeper.close()
        self._store.queries.close()
        self._store.views.close()
        self._store.streams.close()
        self._engine.close()
        self._store.close()
        os.close(self._lock_file)
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<midstream.Database {self.path}{' (closed)' if self._closed else ''}>"

    # --- inside ----------------------------------------------------------------------------------

    def _keep_settings(self) -> None:
        for name, value in self._settings.items():
            if SETTINGS[name].of_database:
                self._store.catalog.keep_setting(name, str(value))

    def _known_settings(self) -> dict[str, object]:
        kept = {name: self._store.catalog.setting(name) for name, s in SETTINGS.items() if s.of_database}
        of_database = {name: read_setting(name, value) for name, value in kept.items() if value is not None}
        return of_database | {name: value for name, value in self._settings.items() if name not in of_database}

    def _retain_seconds(self) -> float:
        kept = self._store.catalog.setting("retain_history")
        return float(kept if kept is not None else str(SETTINGS["retain_history"].default))

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the database is closed", hint="midstream.connect opens it again.")


READERS: dict[str, ReaderMaker] = {
    HISTORY: HistoryReader,
    PIPELINE: PipelineReader,
    LATE: LateReader,
    TALLY: TallyReader,
    ROW_TALLY: TallyReader,
    STREAMED: StreamedReader,
}
"""Who can read a stream."""


class _Work:
    """What sessions do: the statements of SQL, and rows from Python."""

    execute = staticmethod(execute)
    insert = staticmethod(insert)


def _take(path: Path) -> int:
    """The lock of the folder, which the operating system frees when its owner dies."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        if error.errno == 28:
            raise OutOfResources("the disk is full", detail=str(error), sqlstate="53100") from error
        raise StorageError(f'cannot open the database folder "{path}"', detail=str(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DatabaseInUse(
            f'the database "{path}" is in use by process {owner}',
            detail="A database is open in one process at a time.",
            hint="Close it there, or work with it through that process.",
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
