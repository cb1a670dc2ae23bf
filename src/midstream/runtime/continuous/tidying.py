"""The log of a continuous query stays small: files of few changes become one, and what nobody needs any more goes.

Changes are kept for `retain_history`, so that a subscriber can go on from an SCN, and longer for triggers and
subscribers of a queue that have not had them. Of a queue, what all subscribers have had goes.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace

import pyarrow.parquet as pq

from midstream.log.files import disk_errors
from midstream.relations.query import ContinuousQuery
from midstream.runtime.continuous.changes import END
from midstream.runtime.continuous.delivering import SUBSCRIBER, max_queue
from midstream.runtime.continuous.log import QueryLog, read_log
from midstream.runtime.rows import FEW_ROWS
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store

MANY = 32
"""So many files of few changes become one."""


def tidied(
    store: Store, query: ContinuousQuery, log: QueryLog, folder: str, *, now: bool = False
) -> tuple[QueryLog, list[KeptFile]]:
    """The same log in fewer files, without what nobody needs; and the files that are to go once it is written down.
    Now and then, unless it is to be done now."""
    is_due = now or not len(log.files) % MANY or (query.is_queue and log.rows > max_queue(store))
    if not log.files or not is_due:
        return log, []
    kept, start = _needed(store, query, log)
    merged = _merged(store, query, kept, folder)
    left = {id(file) for file in merged}
    return replace(log, files=merged, start=start), [file for file in log.files if id(file) not in left]


def _needed(store: Store, query: ContinuousQuery, log: QueryLog) -> tuple[list[KeptFile], int]:
    retain = float(str(store.catalog.setting("retain_history") or DEFAULTS["retain_history"]))
    horizon = store.catalog.horizon(time.time() - retain)
    readers = store.queries.readers.of(query)
    read = {name: scn if number == END else scn - 1 for name, (scn, number) in readers.items()}
    if query.is_queue:
        # What all subscribers of a queue have had goes, however new it is.
        had = [scn for name, scn in read.items() if name.startswith(SUBSCRIBER)]
        horizon = max(horizon, min(had) if had else _before_newest(log, max_queue(store)))
    horizon = min([horizon, *read.values()])
    gone = [file for file in log.files if file.upto <= horizon]
    start = max([log.start, *(file.upto for file in gone)])
    return [file for file in log.files if file.upto > horizon], start


def _before_newest(log: QueryLog, many: int) -> int:
    """The SCN after which there are no more than so many changes, or those of the newest file."""
    many -= log.files[-1].rows
    for file in reversed(log.files[:-1]):
        many -= file.rows
        if many < 0:
            return file.upto
    return 0


def _merged(store: Store, query: ContinuousQuery, files: Sequence[KeptFile], folder: str) -> list[KeptFile]:
    """Runs of files with few changes, each run as one file."""
    found: list[KeptFile] = []
    run: list[KeptFile] = []
    for file in files:
        if run and sum(other.rows for other in run) + file.rows > FEW_ROWS:
            found += _as_one(store, query, run, folder)
            run = []
        run.append(file)
    return found + _as_one(store, query, run, folder)


def _as_one(store: Store, query: ContinuousQuery, files: Sequence[KeptFile], folder: str) -> list[KeptFile]:
    if len(files) < 2:
        return list(files)
    path = os.path.join(folder, f"merged-{uuid.uuid4().hex}.parquet")
    with disk_errors("changes could not be written"):
        rows = read_log([type_ for _, type_ in query.columns], files)
        pq.write_table(rows, path, write_statistics=False)
        store.streams.files.sync_file(path)
        store.streams.files.sync_folder(folder)
    return [KeptFile(path, rows.num_rows, os.path.getsize(path), files[-1].upto)]
