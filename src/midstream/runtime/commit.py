"""COMMIT: the changes of a transaction become one SCN, wholly or not at all.

    under the commit lock:
      nobody else changed the same rows, and the constraints hold against what others committed
      each table's changes become Delta commits
      in the journal's turn, which gives the SCN:
        rows for streams go into the log, to count if the next step happens
        the catalog publishes the Delta versions under the SCN      <- the moment that counts

A transaction that only inserts into streams needs none of this: its rows go into the log, together with those of all
others that come at the same time.

A crash before that moment leaves Delta versions that no SCN names; `recovery` takes them back. An error
before it takes them back at once.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa

from midstream.errors import TransactionConflict
from midstream.log.journal import Insert, Turn
from midstream.maintenance.engine import Cancellation, FileColumn, Files, Piece, WrittenFile
from midstream.relations.catalog import CatalogState, ChangeFile, ChangeKind, Publication, ReaderEntry
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.schema import Relation
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID, ROW_ID_TYPE
from midstream.relations.view import ContinuousView
from midstream.runtime.constraints import check_against_others
from midstream.runtime.constraints.increasing import encode_maximum
from midstream.runtime.continuous.log import log_name, readers_name
from midstream.runtime.history import HISTORY
from midstream.runtime.interrupts import uninterrupted
from midstream.runtime.lateness import LATE, new_state
from midstream.runtime.rows import physical_schema
from midstream.runtime.store import Store
from midstream.runtime.streams import StreamRows
from midstream.runtime.transaction import TableChanges, Transaction
from midstream.storage.delta import ACTION, Commit, DataFile
from midstream.types import TEXT


@dataclass
class _Written:
    """What the Delta commits of one SCN did, gathered for the catalog."""

    versions: dict[int, int] = field(default_factory=dict)
    changes: list[tuple[int, tuple[str, ChangeKind, int]]] = field(default_factory=list)
    """Change files by table: path, kind and rows."""
    dead_files: list[tuple[int, str]] = field(default_factory=list)


def commit(transaction: Transaction, settings: Mapping[str, object], cancellation: Cancellation | None = None) -> int:
    """Publishes the transaction and returns its SCN; with nothing changed, the SCN that it saw."""
    with transaction.store.queries.readers.moved(transaction) as texts:
        transaction.kept.update(texts)
        return _commit(transaction, settings, cancellation)


def _commit(transaction: Transaction, settings: Mapping[str, object], cancellation: Cancellation | None) -> int:
    changes = [c for c in transaction.changes.values() if c and c.table.id not in transaction.dropped]
    inserts = [rows for rows in transaction.streamed.values() if rows.stream.id not in transaction.dropped]
    if not (changes or inserts or transaction.defined or transaction.dropped):
        transaction.store.catalog.keep_all(transaction.kept)
        return transaction.base.scn
    streams = transaction.store.streams
    limit, patience = cast(int, settings["max_backlog"]), cast(float, settings["insert_timeout"])
    with streams.admitted(inserts, limit, patience, cancellation) as insert:
        if not (changes or transaction.defined or transaction.dropped):
            scn = streams.append(inserts, insert)
        else:
            scn = _commit_tables(transaction, changes, inserts, insert, settings, cancellation)
        transaction.is_committed = True
    for relation in transaction.defined.values():
        if isinstance(relation, ContinuousView) and relation.backfill:
            transaction.store.views.fill(relation.id, cancellation)
    for relation in transaction.defined.values():
        if isinstance(relation, ContinuousQuery) and _was_there(transaction.base, relation):
            transaction.store.queries.restart_clock(relation)
    for relation in transaction.dropped.values():
        if isinstance(relation, ContinuousView):
            transaction.store.views.drop(relation.id)
        elif isinstance(relation, ContinuousQuery | MaterializedView):
            transaction.store.queries.drop(relation.id)
    for relation in transaction.dropped.values():
        if isinstance(relation, Stream):
            streams.dropped(relation)
    return scn


def _commit_tables(
    transaction: Transaction,
    changes: list[TableChanges],
    inserts: Sequence[StreamRows],
    insert: Insert,
    settings: Mapping[str, object],
    cancellation: Cancellation | None,
) -> int:
    store = transaction.store
    with store.commit_lock:
        latest = store.catalog.state
        if latest.relations is not transaction.base.relations or latest.versions is not transaction.base.versions:
            _check_conflicts(transaction, changes, latest)
        for rows in inserts:
            if transaction.rebased(latest).relations.get(rows.stream.name) != rows.stream:
                raise _conflict(f'stream "{rows.stream.name}" was dropped by a concurrent transaction')
        views = _new_views(transaction, latest, settings, cancellation)
        scn = 0
        written = _Written()
        try:
            written = _write_all(store, changes, latest)
            with store.streams.journal.turn() as turn:
                scn = turn.scn
                return _publish(transaction, changes, written, insert, turn)
        except BaseException:
            if not store.catalog.has_commit(scn):
                take_back(store, latest, written.versions)
                _unmake(store, views)
            raise


def _unmake(store: Store, made: Iterable[ContinuousView | ContinuousQuery]) -> None:
    for view in made:
        if isinstance(view, ContinuousQuery):
            store.queries.detach(view.id)
        else:
            store.views.drop(view.id)


def publish_answer(transaction: Transaction, scn: int) -> None:
    """The changes of a stored answer become the answer of an SCN that has passed. Nobody else writes it."""
    store = transaction.store
    [change] = transaction.changes.values()
    with store.commit_lock:
        latest = store.catalog.state
        table = change.table
        if latest.relations.get(table.name) != table:
            raise _conflict(f'"{table.name}" was dropped by a concurrent transaction')
        written = _write_all(store, [change], latest)
        with uninterrupted():
            try:
                store.catalog.publish_answer(
                    table.id,
                    scn,
                    written.versions[table.id],
                    [ChangeFile(scn, *described) for _, described in written.changes],
                    [path for _, path in written.dead_files],
                    store.next_row_id(table.id),
                    transaction.kept,
                )
            except BaseException:
                take_back(store, latest, written.versions)
                raise
        transaction.is_committed = True


def _new_views(
    transaction: Transaction,
    latest: CatalogState,
    settings: Mapping[str, object],
    cancellation: Cancellation | None,
) -> list[ContinuousView | ContinuousQuery]:
    """Readers of streams for new views and queries are there before these, so that no insert comes between."""
    known = {relation.id for relation in latest.relations.values()}
    made: list[ContinuousView | ContinuousQuery] = []
    picture = transaction.glimpse(transaction.rebased(latest))
    try:
        for view in transaction.defined.values():
            if isinstance(view, ContinuousView) and view.id not in known:
                transaction.store.views.create(view, picture, settings, cancellation)
                made.append(view)
            elif isinstance(view, ContinuousQuery) and view.stream is not None and view.id not in known:
                transaction.store.queries.attach(view, picture.state)
                made.append(view)
    except BaseException:
        _unmake(transaction.store, made)
        raise
    return made


def _publish(
    transaction: Transaction, changes: list[TableChanges], written: _Written, insert: Insert, turn: Turn
) -> int:
    """The moment that counts. Rows for streams are in the log before it, and count from then on."""
    store = transaction.store
    histories = _new_histories(transaction, turn.scn - 1)
    for reader in histories:
        store.streams.journal.want(reader.stream_id, True)
    if insert.streams:
        turn.prepare(insert)
    publication = _publication(transaction, changes, written, turn.scn, histories)
    with uninterrupted():
        try:
            store.catalog.publish(publication)
        finally:
            # It may fail just after the moment: what is committed is then committed all the same.
            if store.catalog.has_commit(turn.scn):
                _tell(transaction, histories, turn)
    return turn.scn


def _tell(transaction: Transaction, histories: Sequence[ReaderEntry], turn: Turn) -> None:
    """Everybody who must know of the commit."""
    store = transaction.store
    store.catalog.catch_up(turn.scn)
    turn.commit()
    transaction.is_committed = True
    store.queries.wake()
    for relation in transaction.defined.values():
        if isinstance(relation, Stream):
            own = [reader for reader in histories if reader.stream_id == relation.id]
            store.streams.created(relation, own)


def _new_histories(transaction: Transaction, absorbed: int) -> list[ReaderEntry]:
    """A stream that keeps its history, or has a time of its own, has a reader for that from the first moment."""
    new_id = transaction.store.catalog.new_id
    timed = [r for r in transaction.defined.values() if isinstance(r, Stream) and r.timestamp is not None]
    return [
        ReaderEntry(new_id(), stream.id, f"{LATE}_{stream.name}", LATE, absorbed, new_state(str(stream.timestamp)))
        for stream in timed
    ] + [
        ReaderEntry(new_id(), relation.id, relation.name, HISTORY, absorbed)
        for relation in transaction.defined.values()
        if isinstance(relation, Stream) and relation.history is not None
    ]


def _publication(
    transaction: Transaction,
    changes: list[TableChanges],
    written: _Written,
    scn: int,
    readers: Sequence[ReaderEntry],
) -> Publication:
    new = transaction.new_tables()
    touched = {*new, *(change.table.id for change in changes)}
    return Publication(
        scn,
        time.time(),
        relations=list(transaction.defined.values()),
        dropped=[r for r in transaction.dropped.values() if _was_there(transaction.base, r)],
        versions={**dict.fromkeys(new, 0), **written.versions},
        row_ids={table_id: transaction.store.next_row_id(table_id) for table_id in touched},
        changes=[(table_id, ChangeFile(scn, *described)) for table_id, described in written.changes],
        dead_files=written.dead_files,
        maxima={key: encode_maximum(largest) for key, (_, largest) in transaction.maxima.items()},
        readers=readers,
        kept={
            **transaction.kept,
            **transaction.store.queries.begun(transaction.defined.values(), transaction.state, scn),
        },
        forgotten=[name for id in transaction.dropped for name in (log_name(id), readers_name(id))],
    )


def _was_there(state: CatalogState, relation: Relation) -> bool:
    return any(known.id == relation.id for known in state.relations.values())


def take_back(store: Store, state: CatalogState, table_ids: Iterable[int]) -> None:
    """Undoes Delta commits that no SCN will name."""
    for table_id in table_ids:
        if table_id in state.versions:
            store.folder(table_id).take_back(state.versions[table_id])


# --- others ----------------------------------------------------------------------------------------


def _check_conflicts(transaction: Transaction, changes: list[TableChanges], latest: CatalogState) -> None:
    if (transaction.defined or transaction.dropped) and latest.relations != transaction.base.relations:
        raise _conflict("definitions were changed by a concurrent transaction")
    for change in changes:
        if transaction.rebased(latest).relations.get(change.table.name) != change.table:
            raise _conflict(f'table "{change.table.name}" was altered or dropped by a concurrent transaction')
        if change.updated or change.deleted:
            _check_same_rows(transaction, change, latest)
    check_against_others(transaction, transaction.rebased(latest))


def _conflict(message: str, detail: str | None = None) -> TransactionConflict:
    return TransactionConflict(message, detail=detail, hint="Run the transaction again.")


def _check_same_rows(transaction: Transaction, change: TableChanges, latest: CatalogState) -> None:
    """First committer wins: a row that someone else changed since our picture may not be changed by us."""
    store, table = transaction.store, change.table
    later = store.catalog.changes(table.id, transaction.base.scn, latest.scn)
    theirs = [file.path for file in later if file.is_feed]
    if not theirs:
        return
    folder = store.folder(table.id).path
    files = Files(tuple(str(folder / path) for path in theirs), (FileColumn(ROW_ID, ROW_ID_TYPE),))
    ours = change.updated.inputs("updated") | change.deleted.inputs("deleted")
    ids = " UNION ALL ".join(f'SELECT {ROW_ID} FROM "{name}"' for name in ours)
    piece = Piece(f"SELECT {ROW_ID} FROM theirs WHERE {ROW_ID} IN ({ids}) LIMIT 1", {"theirs": files, **ours})
    found = store.engine.look_up(piece).table
    if found is not None and found.num_rows:
        raise _conflict(
            "could not serialize access due to concurrent update",
            f'Another transaction changed the same rows of table "{table.name}" first.',
        )


# --- writing ---------------------------------------------------------------------------------------


def _write_all(store: Store, changes: list[TableChanges], latest: CatalogState) -> _Written:
    written = _Written()
    started: list[int] = []
    try:
        for change in changes:
            started.append(change.table.id)
            _write_table(store, change, written)
    except BaseException:
        take_back(store, latest, started)
        raise
    return written


def _write_table(store: Store, change: TableChanges, written: _Written) -> None:
    table_id, folder = change.table.id, store.folder(change.table.id)
    if change.new.table is not None:
        _record(written, table_id, folder.append_rows(change.new.table))
    if change.new.files:
        files = [(adopt(folder.path, file), file.stats) for file in change.new.files]
        _record(written, table_id, folder.append_files(files))
    if change.updated or change.deleted:
        columns = [column.name for column in change.table.columns]
        kind: ChangeKind = "change" if change.updated else "delete"
        _record(written, table_id, folder.merge(merge_source(change), ROW_ID, columns), kind)


def _record(written: _Written, table_id: int, commit: Commit, kind: ChangeKind = "insert") -> None:
    written.versions[table_id] = commit.version
    written.dead_files += [(table_id, path) for path in commit.removed]
    if kind != "insert":
        written.changes += [(table_id, (path, kind, 0)) for path in commit.changes]
    else:
        written.changes += [(table_id, (file.path, "insert", file.rows)) for file in commit.added]


def adopt(folder: Path, file: WrittenFile) -> DataFile:
    """A file that was written elsewhere moves into the table's folder."""
    path = Path(file.path)
    if path.parent != folder:
        path = Path(shutil.move(path, folder / path.name))
    return DataFile(path.name, file.rows, file.bytes)


def merge_source(change: TableChanges) -> pa.Table | pa.RecordBatchReader:
    """The updated images and deleted ids as one stream of rows, each with its action."""
    columns = change.updated.columns
    schema = physical_schema((*columns, (ACTION, TEXT)))

    def batches() -> Iterable[pa.RecordBatch]:
        for rows, action in ((change.updated, "U"), (change.deleted, "D")):
            for batch in rows.reader():
                if batch.num_rows:
                    yield _with_action(batch, schema, action)

    if change.updated.is_small and change.deleted.is_small:
        return pa.Table.from_batches(list(batches()), schema)
    return pa.RecordBatchReader.from_batches(schema, batches())


def _with_action(batch: pa.RecordBatch, schema: pa.Schema, action: str) -> pa.RecordBatch:
    def column(field: pa.Field) -> pa.Array:
        if field.name == ACTION:
            return pa.array([action] * batch.num_rows, pa.string())
        if field.name in batch.schema.names:
            return batch.column(field.name)
        return pa.nulls(batch.num_rows, field.type)

    return pa.RecordBatch.from_arrays([column(field) for field in schema], schema=schema)
