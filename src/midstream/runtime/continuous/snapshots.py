"""What a query has now, as rows that came; and what commits changed of a stored answer."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.errors import HistoryGone, InvalidParameter
from midstream.ingest.arrow_types import to_rows
from midstream.maintenance.engine import Piece, WriteParquet
from midstream.plan import bind_query
from midstream.relations.catalog import CatalogState, ChangeFile
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.table import ROW_ID
from midstream.relations.view import ContinuousView, View
from midstream.runtime.continuous.answers import answer_columns
from midstream.runtime.continuous.changes import BATCH, Change, made
from midstream.runtime.continuous.computing import Kept, context_at
from midstream.runtime.continuous.log import QueryLog
from midstream.runtime.continuous.queries import suspended
from midstream.runtime.continuous.settled import settled
from midstream.runtime.query import prepare, run_query
from midstream.runtime.reading import CHANGE_TYPE, Picture, change_files
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import StateSchema
from midstream.runtime.transaction import Glimpse
from midstream.sql import parse_query
from midstream.sql.text import quote_name
from midstream.types import Type


def answer_of(store: Store, view: View) -> tuple[Counter[tuple[object, ...]], int]:
    """The rows of a view's answer, each with how often it is there, and the SCN that they are of."""
    state = store.catalog.state
    context = context_at(state)
    query = parse_query(f"SELECT * FROM {quote_name(view.name)}")
    bound = bind_query(query, StateSchema(store.catalog, state), context)
    relations = [scan.relation for scan in bound.scans]
    continuous = [relation for relation in relations if isinstance(relation, ContinuousView)]
    stored = [relation for relation in relations if isinstance(relation, MaterializedView)]
    picture: Picture = Glimpse(state)
    if continuous:
        picture = store.queries.materialized.moment(continuous, stored, DEFAULTS)
    elif stored:
        picture = Glimpse(store.queries.materialized.bring(stored))
    with store.pinned(picture.state):
        table = run_query(store, picture, bound, DEFAULTS)
    return Counter(map(_hashable, to_rows(table, [output.type for output in bound.outputs]))), picture.state.scn


def _hashable(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


@dataclass(frozen=True)
class Snapshot:
    """All rows of an answer as rows that came, read from files as they are asked for, and the SCN that they are of."""

    rows: Iterator[Change]
    scn: int


def snapshot_of(store: Store, query: Kept, at: int | None = None) -> Snapshot:
    """What it has come to, or what it was at an SCN: the changes after that begin there."""
    with store.queries.computing:
        if isinstance(query, MaterializedView):
            return _stored(store, query, at)
        log = store.queries.log_of(query)
        if log.status == "inactive":
            raise suspended(query.name, log)
        if store.queries.plans_of(query).views(store.catalog.state):
            return _last_answer(query, log, at)
        return _computed(store, query, log, at)


def _last_answer(query: ContinuousQuery, log: QueryLog, at: int | None) -> Snapshot:
    """The changes of a query over continuous views are told from its last answer, which is kept."""
    if at is not None and at != log.position:
        raise HistoryGone(
            f'the answer of continuous query "{query.name}" at SCN {at} is not kept',
            detail=f"It reads a continuous view, and has come to SCN {log.position}.",
            hint="Leave the SCN out: the snapshot is then what it has come to.",
        )
    return Snapshot(_inserted(query, list(log.answer), log.position), log.position)


def _computed(store: Store, query: ContinuousQuery, log: QueryLog, at: int | None) -> Snapshot:
    """Its answer at an SCN between two of its changes."""
    scn = log.position if at is None else at
    if scn != log.position and not query.transactional:
        raise InvalidParameter(
            f'continuous query "{query.name}" hands out net changes, and one of them may begin before SCN {scn}',
            hint="Leave the SCN out: the snapshot is then what it has come to.",
        )
    plans = store.queries.plans_of(query)
    if at is not None and plans.stored(store.catalog.state):
        _check_settled(store, query, log, at)
    state, folder = store.catalog.state_at(scn), str(store.new_staging())
    with store.pinned(state):
        bound = plans.bound(state)
        choice, sources = prepare(store, Glimpse(state), bound, {**DEFAULTS, "kernel": query.kernel})
        piece = sources.piece(bound.sql(choice.kernel), WriteParquet(folder, answer_columns(query), compressed=False))
        [answer] = store.engine.run(choice.kernel, [piece], label="snapshot")
    files = [KeptFile(file.path, file.rows, file.bytes, scn) for file in answer.files]
    for file in files:
        file.doom()
    return Snapshot(_inserted(query, files, scn), scn)


def _check_settled(store: Store, query: ContinuousQuery, log: QueryLog, at: int) -> None:
    """No change that it hands out after an SCN is partly of commits before it."""
    if at == log.position:
        return
    if at > log.position or not settled(store, store.queries, query, [at], log.start, log.position):
        raise HistoryGone(
            f'the answer of continuous query "{query.name}" at SCN {at} is not known',
            detail="It reads a materialized view, and a refresh of that takes several commits together, as the query "
            f"does then. It has come to SCN {log.position}.",
            hint="Leave the SCN out: the snapshot is then what it has come to.",
        )


def _inserted(query: ContinuousQuery, files: Sequence[KeptFile], scn: int) -> Iterator[Change]:
    names, types = [f"c{place}" for place in range(len(query.columns))], [type_ for _, type_ in query.columns]
    found = (row for file in files for row in _rows_in(file.path, names, types))
    for number, row in enumerate(found):
        yield made(query, "I", row, [None] * len(row), scn, number)


def _rows_in(path: str, names: Sequence[str], types: Sequence[Type]) -> Iterator[tuple[object, ...]]:
    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(BATCH, columns=list(names)):
            yield from to_rows(pa.Table.from_batches([batch]).select(list(names)), types)


def _stored(store: Store, view: MaterializedView, at: int | None) -> Snapshot:
    materialized = store.queries.materialized
    state = materialized.bring([view]) if view.when == "on commit" else materialized.picture(store.catalog.state)
    if at is not None:
        state = store.catalog.state_at(at)
    folder = store.folder(view.id)
    paths = [str(folder.path / file.path) for file in folder.files(state.versions[view.id])]
    rows = _stored_rows(view, paths, state.scn)
    # The files stay for as long as somebody has yet to read them.
    store.pin(state)
    weakref.finalize(rows, store.unpin, state)
    return Snapshot(rows, state.scn)


def _stored_rows(view: MaterializedView, paths: Sequence[str], scn: int) -> Iterator[Change]:
    names, types = list(view.column_names), [column.type for column in view.columns]
    found = (row for path in paths for row in _rows_in(path, names, types))
    for number, row in enumerate(found):
        yield Change("I", dict(zip(names, row, strict=True)), None, scn, number, view.name)


_KINDS = {"insert": "I", "delete": "D", "update_postimage": "U"}


def changes_of_table(
    store: Store, view: MaterializedView, after: int, state: CatalogState, many: int
) -> tuple[list[Change], int]:
    """What commits after an SCN changed of stored rows, of as many commits as come to so many changes; and the SCN that
    this reaches. An update is one change, with what the row was."""
    found: list[Change] = []
    files = sorted(store.catalog.changes(view.id, after, state.scn), key=lambda file: file.scn)
    for scn, of_commit in groupby(files, key=lambda file: file.scn):
        if len(found) >= many:
            return found, after
        entries = [entry for file in of_commit for entry in _entries(store, view, file)]
        found += _of_commit(view, scn, entries)
        after = scn
    return found, max(after, state.scn)


def _entries(store: Store, view: MaterializedView, file: ChangeFile) -> list[tuple[str, int, tuple[object, ...]]]:
    """What a file of the change log says of each row: what happened, its id, and the row."""
    path = str(store.folder(view.id).path / file.path)
    files = change_files(view, [path], is_feed=file.is_feed)
    table = store.engine.look_up(Piece("SELECT * FROM changes", {"changes": files})).table
    if table is None:
        return []
    kinds = table.column(CHANGE_TYPE).to_pylist() if file.is_feed else ["insert"] * table.num_rows
    rows = to_rows(table.select(list(view.column_names)), [column.type for column in view.columns])
    return list(zip(kinds, table.column(ROW_ID).to_pylist(), rows, strict=True))


def _of_commit(view: MaterializedView, scn: int, entries: list[tuple[str, int, tuple[object, ...]]]) -> list[Change]:
    before = {id: row for kind, id, row in entries if kind == "update_preimage"}
    found: list[Change] = []
    for kind, id, row in sorted(entries, key=lambda entry: entry[:2]):
        if kind not in _KINDS:
            continue
        old = row if kind == "delete" else before.get(id)
        names = view.column_names
        was = dict(zip(names, old, strict=True)) if old is not None else None
        found.append(Change(_KINDS[kind], dict(zip(names, row, strict=True)), was, scn, len(found), view.name))
    return found
