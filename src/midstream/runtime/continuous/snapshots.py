"""What a query has now, as rows that came; and what commits changed of a stored answer."""

from __future__ import annotations

from collections import Counter

from midstream.ingest.arrow_types import to_rows
from midstream.maintenance.engine import Piece
from midstream.plan import bind_query
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.table import ROW_ID
from midstream.relations.view import ContinuousView, View
from midstream.runtime.continuous.changes import Change, made
from midstream.runtime.continuous.computing import Kept, context_at
from midstream.runtime.query import run_query
from midstream.runtime.reading import CHANGE_TYPE, Picture, change_files
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import StateSchema
from midstream.runtime.transaction import Glimpse
from midstream.sql import parse_query
from midstream.sql.text import quote_name


def answer_of(store: Store, view: View) -> tuple[Counter[tuple[object, ...]], int]:
    """The rows of a view's answer, each with how often it is there, and the SCN that they are of."""
    state = store.catalog.state
    context = context_at(state)
    query = parse_query(f"SELECT * FROM {quote_name(view.name)}")
    bound = bind_query(query, StateSchema(store.catalog, state), context)
    relations = [scan.relation for scan in bound.scans]
    continuous = [relation for relation in relations if isinstance(relation, ContinuousView)]
    picture: Picture = Glimpse(state)
    if continuous:
        picture = store.views.moment(continuous, DEFAULTS)
    elif any(isinstance(relation, MaterializedView) for relation in relations):
        stored = [relation for relation in relations if isinstance(relation, MaterializedView)]
        picture = Glimpse(store.queries.materialized.bring(stored))
    with store.pinned(picture.state):
        table = run_query(store, picture, bound, DEFAULTS)
    return Counter(map(_hashable, to_rows(table, [output.type for output in bound.outputs]))), picture.state.scn


def _hashable(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)


def snapshot_of(store: Store, query: Kept) -> tuple[list[Change], int]:
    """All rows of its answer, and the SCN that they are of."""
    with store.queries.computing:
        if isinstance(query, MaterializedView):
            return _stored(store, query)
        scn = store.queries.log_of(query).position
        state = store.catalog.state_at(scn)
        with store.pinned(state):
            bound = store.queries.plans_of(query).bound(state)
            table = run_query(store, Glimpse(state), bound, {**DEFAULTS, "kernel": query.kernel})
    types = [type_ for _, type_ in query.columns]
    return [_inserted(query, row, scn, number) for number, row in enumerate(to_rows(table, types))], scn


def _inserted(query: ContinuousQuery, row: tuple[object, ...], scn: int, number: int) -> Change:
    return made(query, "I", row, [None] * len(row), scn, number)


def _stored(store: Store, view: MaterializedView) -> tuple[list[Change], int]:
    materialized = store.queries.materialized
    state = materialized.bring([view]) if view.when == "on commit" else materialized.picture(store.catalog.state)
    files = store.folder(view.id).path
    paths = [str(files / file.path) for file in store.folder(view.id).files(state.versions[view.id])]
    table = store.engine.look_up(Piece("SELECT * FROM stored", {"stored": change_files(view, paths)})).table
    scn = state.scn
    if table is None:
        return [], scn
    types = [column.type for column in view.columns]
    rows = to_rows(table.select(list(view.column_names)), types)
    named = [dict(zip(view.column_names, row, strict=True)) for row in rows]
    return [Change("I", row, None, scn, number, view.name) for number, row in enumerate(named)], scn


_KINDS = {"insert": "I", "delete": "D", "update_postimage": "U"}


def changes_of_table(store: Store, view: MaterializedView, after: int, state: CatalogState) -> list[Change]:
    """What commits in (after, state] changed of stored rows; an update is one change, with what the row was."""
    found: list[Change] = []
    folder = store.folder(view.id).path
    types = [column.type for column in view.columns]
    by_scn: dict[int, list[tuple[str, int, tuple[object, ...]]]] = {}
    for file in store.catalog.changes(view.id, after, state.scn):
        files = change_files(view, [str(folder / file.path)], is_feed=file.is_feed)
        table = store.engine.look_up(Piece("SELECT * FROM changes", {"changes": files})).table
        if table is None:
            continue
        kinds = table.column(CHANGE_TYPE).to_pylist() if file.is_feed else ["insert"] * table.num_rows
        rows = to_rows(table.select(list(view.column_names)), types)
        by_scn.setdefault(file.scn, []).extend(zip(kinds, table.column(ROW_ID).to_pylist(), rows, strict=True))
    for scn, entries in sorted(by_scn.items()):
        found += _of_commit(view, scn, entries)
    return found


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
