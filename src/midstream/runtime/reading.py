"""From the scans of a bound query to files: which Parquet a name in the SQL text stands for.

Inside a transaction a table is its files, less the rows that the transaction replaced or deleted, plus
its new images and rows. The change log is the files that each commit added or wrote to Delta's change
feed, with the commit's SCN beside them:

    scan_0  =  base EXCEPT ids of (updated, deleted)  UNION ALL  updated  UNION ALL  new
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol, cast

import pyarrow as pa

from midstream.errors import TransactionConflict, UndefinedName
from midstream.kernels import Kernel, quote_name
from midstream.log.batches import ARRIVED, POSITION, SCN
from midstream.maintenance.engine import FileColumn, Files, Input, Piece, Rows, WriteParquet
from midstream.plan import BoundQuery, Scan
from midstream.plan.context import COMMIT, DML_TYPE, IMAGE, WEIGHT
from midstream.relations.catalog import CatalogState, ChangeFile
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import ROW_ID, ROW_ID_TYPE, Table
from midstream.relations.view import ContinuousView, Derived
from midstream.runtime.history import HISTORY
from midstream.runtime.lateness import late_reader
from midstream.runtime.results import WINDOW, Moment, Result
from midstream.runtime.rows import STREAM_MARKS, RowSet
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile, as_input
from midstream.runtime.store import Store
from midstream.storage.delta import DataFile
from midstream.types import BIGINT, TEXT, Type

CHANGE_TYPE = "_change_type"
_NTH, _NTH_LAST = "~nth", "~nth_last"
FILE_ROWS = 10_000
"""To open a file takes as long as to read so many rows,"""
LOG_ROWS = 2
"""and to leave out of a row's file what the log has of it as long as to read so many."""


class Pending(Protocol):
    """What a transaction has done to a table and not yet committed."""

    @property
    def new(self) -> RowSet: ...

    @property
    def updated(self) -> RowSet: ...

    @property
    def deleted(self) -> RowSet: ...


class Picture(Protocol):
    """What a statement sees: one SCN, and its own transaction's changes."""

    @property
    def state(self) -> CatalogState: ...

    def pending(self, table_id: int) -> Pending | None: ...


@dataclass(frozen=True)
class Between:
    """What the change of a query sees: tables after some commits, and before them."""

    state: CatalogState
    before: CatalogState
    preimage: str = "as of"
    """How what was before is read: as of that SCN, or as what is there less what came and with what went ('anti-join'),
    or whichever is sooner ('auto')."""
    kept: Mapping[str, Sequence[KeptFile]] = field(default_factory=dict)
    """What was kept of the query before, by the names under which it is read."""

    @property
    def range(self) -> tuple[int, int]:
        """The commits that lie between: those after the first SCN, up to the second."""
        return self.before.scn, self.state.scn

    def pending(self, table_id: int) -> Pending | None:
        return None


@dataclass(frozen=True)
class Beside:
    """A picture, and rows in memory that stand for tables."""

    picture: Picture
    rows: Mapping[int, pa.Table]

    @property
    def state(self) -> CatalogState:
        return self.picture.state

    def pending(self, table_id: int) -> Pending | None:
        return self.picture.pending(table_id)


def _between(picture: Picture) -> Between:
    assert isinstance(picture, Between), "only the change of a query asks what was before"
    return picture


@dataclass
class Sources:
    """Inputs and views of a piece, gathered scan by scan."""

    kernel: Kernel
    inputs: dict[str, Input] = field(default_factory=dict)
    views: list[tuple[str, str]] = field(default_factory=list)
    held: list[object] = field(default_factory=list)
    """Results of views, whose files stay while somebody holds them."""
    shared: list[str] = field(default_factory=list)
    """The views that mean the same in other pieces that have them."""
    kept: list[str] = field(default_factory=list)
    """The views that workers may know from an earlier time."""
    by_log: list[str] = field(default_factory=list)
    """Tables whose rows before some commits are those of now, and the log of these commits."""

    def quote(self, name: str) -> str:
        return quote_name(name, self.kernel)

    def add(self, name: str, rows: RowSet, columns: Sequence[str]) -> list[str]:
        """A set of rows as inputs; returns a SELECT of the columns for each of them."""
        inputs = rows.inputs(name)
        self.inputs |= inputs
        return [self.select(columns, input_name) for input_name in inputs]

    def select(self, columns: Sequence[str], source: str, where: str = "") -> str:
        listed = ", ".join(self.quote(column) for column in columns)
        return f"SELECT {listed} FROM {self.quote(source)}{where}"

    def view(self, name: str, texts: Sequence[str]) -> None:
        self.views.append((name, " UNION ALL ".join(texts)))

    def piece(self, sql: str, output: WriteParquet | None = None, checks: Sequence[tuple[str, str]] = ()) -> Piece:
        shared, kept = tuple(self.shared), tuple(self.kept)
        return Piece(sql, self.inputs, tuple(self.views), output, tuple(checks), shared=shared, kept=kept)

    @property
    def bytes(self) -> int:
        return sum(input.bytes for input in self.inputs.values() if isinstance(input, Files))

    @property
    def rows(self) -> int:
        return sum(input.rows for input in self.inputs.values() if isinstance(input, Files))


def sources_of(store: Store, picture: Picture, bound: BoundQuery, kernel: Kernel) -> Sources:
    """All inputs of a bound query, as one picture shows them."""
    sources = Sources(kernel)
    for scan in bound.scans:
        add_scan(store, picture, scan, sources)
    return sources


def add_scan(store: Store, picture: Picture, scan: Scan, sources: Sources) -> None:
    relation = scan.relation
    if isinstance(picture, Beside) and not isinstance(relation, Derived):
        if relation.id in picture.rows:
            sources.inputs[scan.name] = Rows(picture.rows[relation.id].select(list(scan.columns)))
            return
        picture = picture.picture
    if isinstance(relation, ContinuousView):
        result = _result_of(store, picture, relation)
        _add_result(store, relation, result.every if scan.all_windows and result.every else result, scan, sources)
    elif isinstance(relation, Derived):
        files = _between(picture).kept[relation.name]
        sources.held.append(files)
        sources.inputs[scan.name] = as_input(files, [(n, kind) for n, kind in relation.columns if n in scan.columns])
    elif isinstance(relation, Stream) and scan.source == "late":
        _add_late(store, picture.state, relation, scan, sources)
    elif isinstance(relation, Stream):
        _add_history(store, picture.state, relation, scan, sources)
    elif scan.source == "before":
        _add_before(store, _between(picture), relation, scan, sources)
    elif scan.source == "delta":
        _add_delta(store, relation, scan, sources, *_between(picture).range)
    elif scan.source == "changes":
        _add_changes(store, picture.state, relation, scan, sources)
    elif scan.as_of is not None:
        state = store.catalog.state_at(scan.as_of)
        sources.inputs[scan.name] = table_files(store, state, relation, scan.columns)
    else:
        add_table(store, picture, relation, scan.columns, scan.name, sources)


def _add_result(store: Store, view: ContinuousView, result: Result, scan: Scan, sources: Sources) -> None:
    columns = _view_columns(view, scan)
    files = store.views.input_of(view, result, columns)
    sources.held.append(result)
    if result.windows is None:
        sources.inputs[scan.name] = files
        return
    numbers = ", ".join(map(str, result.windows)) or "NULL"
    window = FileColumn(WINDOW, BIGINT)
    sources.inputs[f"{scan.name}_all"] = replace(files, columns=(*files.columns, window))
    where = f" WHERE {sources.quote(WINDOW)} IN ({numbers})"
    sources.view(scan.name, [sources.select(columns, f"{scan.name}_all", where)])


def _result_of(store: Store, picture: Picture, view: ContinuousView) -> Result:
    """The view's result that the statement has got, or else the newest."""
    known = picture.results.get(view.id) if isinstance(picture, Moment) else None
    return known if known is not None else store.views.moment([view], DEFAULTS).results[view.id]


def _view_columns(view: ContinuousView, scan: Scan) -> tuple[str, ...]:
    return tuple(name for name in scan.columns if name != ROW_ID) or view.column_names[:1]


def history_view(
    store: Store, stream: Stream, columns: Sequence[str], upto: int, kernel: Kernel, *, marked: bool = False
) -> tuple[dict[str, Input], str]:
    """What a stream has kept up to an SCN: inputs, and a SELECT of columns over them; `marked`: with the SCN and the
    position of each row, and when it arrived."""
    wanted = tuple(name for name in columns if name != ROW_ID) + ((SCN, POSITION, ARRIVED) if marked else ())
    read = tuple(dict.fromkeys((SCN, *wanted)))
    kept = table_files(store, store.catalog.state, stream, read, keep=lambda file: _began_by(file, upto))
    listed = ", ".join(quote_name(name, kernel) for name in wanted) or f"0 AS {quote_name(ROW_ID, kernel)}"
    return {"kept": kept}, f"SELECT {listed} FROM kept WHERE {SCN} <= {upto}"


def _add_history(store: Store, state: CatalogState, stream: Stream, scan: Scan, sources: Sources) -> None:
    """What a stream has kept: its newest files, without the rows that came after the SCN that is asked for."""
    upto = scan.as_of if scan.as_of is not None else state.scn
    history = store.streams.reader_of(stream.id, HISTORY)
    if history is not None:
        try:
            store.streams.wait(history.id, upto)
        except UndefinedName:
            raise TransactionConflict(
                f'stream "{stream.name}" was dropped by a concurrent transaction', hint="Run the query again."
            ) from None
    newest = store.catalog.state if stream.id in store.catalog.state.versions else state
    sources.inputs[f"{scan.name}_kept"] = table_files(
        store, newest, stream, (SCN, *scan.columns), keep=lambda file: _began_by(file, upto)
    )
    sources.view(scan.name, [sources.select(scan.columns, f"{scan.name}_kept", f" WHERE {SCN} <= {upto}")])


def _add_late(store: Store, state: CatalogState, stream: Stream, scan: Scan, sources: Sources) -> None:
    """What came too late for windows, up to an SCN."""
    found = late_reader(store, stream.id)
    columns = [(c.name, c.type) for c in stream.columns if c.name in scan.columns or ROW_ID in scan.columns]
    if found is None:
        sources.inputs[scan.name] = as_input((), columns)
        return
    entry, reader = found
    store.streams.wait(entry.id, state.scn)
    files = list(reader.files)
    sources.held.append(files)
    sources.inputs[f"{scan.name}_kept"] = as_input(files, [*columns, (SCN, BIGINT)])
    names = [name for name, _ in columns]
    sources.view(scan.name, [sources.select(names, f"{scan.name}_kept", f" WHERE {SCN} <= {state.scn}")])


def _began_by(file: DataFile, scn: int) -> bool:
    smallest, _ = file.ranges.get(SCN, (0, 0))
    return smallest <= scn


def add_table(
    store: Store,
    picture: Picture,
    table: Table,
    columns: Sequence[str],
    name: str,
    sources: Sources,
    keep: Callable[[DataFile], bool] | None = None,
) -> None:
    """A table as the picture's transaction sees it; `keep` leaves out files that cannot matter."""
    pending = picture.pending(table.id)
    if pending is None:
        sources.inputs[name] = table_files(store, picture.state, table, columns, keep)
        return
    replaced = [text for rows in (pending.updated, pending.deleted) for text in _ids(sources, name, rows)]
    needed = tuple(columns) if not replaced else tuple(dict.fromkeys((ROW_ID, *columns)))
    sources.inputs[f"{name}_base"] = table_files(store, picture.state, table, needed, keep)
    where = ""
    if replaced:
        sources.view(f"{name}_gone", replaced)
        where = f" WHERE {sources.quote(ROW_ID)} NOT IN ({sources.select([ROW_ID], name + '_gone')})"
    texts = [sources.select(columns, f"{name}_base", where)]
    texts += sources.add(f"{name}_updated", pending.updated, columns)
    texts += sources.add(f"{name}_new", pending.new, columns)
    sources.view(name, texts)


def _ids(sources: Sources, name: str, rows: RowSet) -> list[str]:
    kind = "updated" if len(rows.columns) > 1 else "deleted"
    return sources.add(f"{name}_{kind}", rows, [ROW_ID])


def table_files(
    store: Store,
    state: CatalogState,
    table: RowHolder,
    columns: Sequence[str],
    keep: Callable[[DataFile], bool] | None = None,
) -> Files:
    """The files of a table at one SCN, and those of its columns that are needed."""
    folder = store.folder(table.id)
    files = [file for file in folder.files(state.versions[table.id]) if keep is None or keep(file)]
    share = len(columns) / (len(table.columns) + 1)
    return Files(
        tuple(f"{folder.path}/{file.path}" for file in files),
        tuple(FileColumn(name, type_of_column(table, name)) for name in columns),
        rows=sum(file.rows for file in files),
        bytes=int(sum(file.bytes for file in files) * share),
    )


def _add_before(store: Store, between: Between, table: Table, scan: Scan, sources: Sources) -> None:
    """A table before some commits: its files of that SCN, or its files of now and the log of these commits."""
    if not (between.preimage == "anti-join" or between.preimage == "auto" and _is_sooner_by_log(store, between, table)):
        sources.inputs[scan.name] = _files_before(store, between.before, table, scan.columns)
        return
    sources.by_log.append(table.name)
    needed = tuple(dict.fromkeys((ROW_ID, *scan.columns)))
    sources.inputs[f"{scan.name}_now"] = table_files(store, between.state, table, needed)
    log = replace(scan, name=f"{scan.name}_log", columns=(*needed, WEIGHT, COMMIT))
    _add_changes_between(store, table, log, sources, *between.range)
    id, weight, commit, nth = map(sources.quote, (ROW_ID, WEIGHT, COMMIT, _NTH))
    untouched = f" WHERE {id} NOT IN (SELECT {id} FROM {sources.quote(log.name)})"
    first = f"row_number() OVER (PARTITION BY {id} ORDER BY {commit}, {weight})"
    numbered = f"(SELECT *, {first} AS {nth} FROM {sources.quote(log.name)}) AS numbered"
    listed = ", ".join(sources.quote(column) for column in scan.columns)
    texts = [
        sources.select(scan.columns, f"{scan.name}_now", untouched),
        f"SELECT {listed} FROM {numbered} WHERE {nth} = 1 AND {weight} < 0",
    ]
    sources.view(scan.name, texts)


def _is_sooner_by_log(store: Store, between: Between, table: Table) -> bool:
    """Mostly it is not; but a table may have been many small files once, and have been compacted since."""
    folder, log = store.folder(table.id), store.catalog.changes(table.id, *between.range)
    then, now = (folder.files(state.versions[table.id]) for state in (between.before, between.state))
    touched = (LOG_ROWS - 1) * sum(file.rows for file in now)
    return _cost(now) + _cost(log) + touched < _cost(then)


def _cost(files: Sequence[DataFile] | Sequence[ChangeFile]) -> int:
    """About how long it takes to read files, in rows."""
    return sum(FILE_ROWS + file.rows for file in files)


def _files_before(store: Store, before: CatalogState, table: Table, columns: Sequence[str]) -> Files:
    """A table as it was; a column is found by its id, since it may have had another name."""
    stored = next(relation for relation in before.relations.values() if relation.id == table.id)
    assert isinstance(stored, Table)
    names = {column.id: column.name for column in stored.columns}
    wanted = {name: column.id for name in columns if (column := table.column(name)) is not None}
    files = table_files(store, before, table, columns)
    found = (replace(c, stored_as=names.get(wanted[c.name])) if c.name in wanted else c for c in files.columns)
    return replace(files, columns=tuple(found))


def type_of_column(table: RowHolder, name: str) -> Type:
    if name in (ROW_ID, SCN):
        return BIGINT
    if name in (marks := dict(STREAM_MARKS)):
        return marks[name]
    column = table.column(name)
    assert column is not None, f"{table.name} has no column {name}"
    return column.type


# --- the change log --------------------------------------------------------------------------------


def _add_changes(store: Store, state: CatalogState, table: Table, scan: Scan, sources: Sources) -> None:
    """`clog_<table>`: the table's columns, whose image it is, what happened, and under which SCN."""
    upto = scan.as_of if scan.as_of is not None else state.scn
    _add_changes_between(store, table, scan, sources, store.catalog.history_from(), upto)


def _add_changes_between(store: Store, table: Table, scan: Scan, sources: Sources, after: int, upto: int) -> None:
    changes = store.catalog.changes(table.id, after, upto)
    eras = store.catalog.past_tables(table.id)
    texts = [_no_changes(sources, scan)]
    for number, (kind, stored, files) in enumerate(_by_kind_and_era(changes, eras)):
        name = f"{scan.name}_{number}"
        sources.inputs[name] = _change_files(store, table, stored, kind, files, scan.columns)
        texts.append(_select_changes(sources, name, kind, scan.columns))
    sources.view(scan.name, texts)


def _add_delta(store: Store, table: Table, scan: Scan, sources: Sources, after: int, upto: int) -> None:
    """What some commits changed. Unless they are told apart, of a row that several of them changed only its first image
    counts, if it was there before, and its last, if it is there now: no query need compute with what came and went."""
    changes = store.catalog.changes(table.id, after, upto)
    is_simple = all(change.kind == "insert" for change in changes) or len({change.scn for change in changes}) < 2
    if is_simple or COMMIT in scan.columns:
        _add_changes_between(store, table, scan, sources, after, upto)
        return
    log = replace(scan, name=f"{scan.name}_log", columns=(*dict.fromkeys((ROW_ID, *scan.columns, WEIGHT)), COMMIT))
    _add_changes_between(store, table, log, sources, after, upto)
    id, weight, commit, nth, nth_last = map(sources.quote, (ROW_ID, WEIGHT, COMMIT, _NTH, _NTH_LAST))
    first = f"row_number() OVER (PARTITION BY {id} ORDER BY {commit}, {weight}) AS {nth}"
    last = f"row_number() OVER (PARTITION BY {id} ORDER BY {commit} DESC, {weight} DESC) AS {nth_last}"
    numbered = f"(SELECT *, {first}, {last} FROM {sources.quote(log.name)}) AS numbered"
    listed = ", ".join(sources.quote(column) for column in scan.columns)
    kept = f"({nth} = 1 AND {weight} < 0) OR ({nth_last} = 1 AND {weight} > 0)"
    sources.view(scan.name, [f"SELECT {listed} FROM {numbered} WHERE {kept}"])


def _by_kind_and_era(
    changes: Sequence[ChangeFile], eras: Sequence[tuple[int, int | None, Table]]
) -> list[tuple[str, Table, list[ChangeFile]]]:
    """Change files that look alike: of one kind, written while the table had one set of columns."""

    def era(change: ChangeFile) -> int:
        return max((i for i, (first, _, _) in enumerate(eras) if first <= change.scn), default=0)

    ordered = sorted(changes, key=lambda change: (change.kind, era(change), change.scn))
    groups = groupby(ordered, key=lambda change: (change.kind, era(change)))
    return [(kind, eras[number][2], list(files)) for (kind, number), files in groups]


def _change_files(
    store: Store, table: Table, stored: Table, kind: str, files: Sequence[ChangeFile], columns: Sequence[str]
) -> Files:
    """A column is found by its id, since it may have had another name when the file was written."""
    folder = store.folder(table.id)
    names = {column.id: column.name for column in stored.columns}
    found = [
        FileColumn(column.name, column.type, names.get(column.id, f"absent {column.id}"))
        for column in table.columns
        if column.name in columns
    ]
    if ROW_ID in columns:
        found.append(FileColumn(ROW_ID, ROW_ID_TYPE))
    if kind != "insert":
        found.append(FileColumn(CHANGE_TYPE, TEXT))
    return Files(
        tuple(str(folder.path / file.path) for file in files),
        tuple(found),
        file_values=((COMMIT, BIGINT, tuple(file.scn for file in files)),),
        rows=sum(file.rows for file in files),
    )


def change_files(table: Table, paths: Sequence[str], *, is_feed: bool = False) -> Files:
    """Files of a table whose columns have the names that it has now, or of its change feed."""
    columns = [FileColumn(ROW_ID, ROW_ID_TYPE), *(FileColumn(c.name, c.type) for c in table.columns)]
    if is_feed:
        columns.append(FileColumn(CHANGE_TYPE, TEXT))
    return Files(tuple(paths), tuple(columns))


_MARKS = {
    "insert": {IMAGE: "'N'", DML_TYPE: "'I'", WEIGHT: "CAST(1 AS BIGINT)"},
    "feed": {
        WEIGHT: "CAST(CASE WHEN {type} IN ('delete', 'update_preimage') THEN -1 ELSE 1 END AS BIGINT)",
        IMAGE: "CASE WHEN {type} IN ('delete', 'update_preimage') THEN 'O' ELSE 'N' END",
        DML_TYPE: "CASE {type} WHEN 'insert' THEN 'I' WHEN 'delete' THEN 'D' ELSE 'U' END",
    },
}


def _select_changes(sources: Sources, name: str, kind: str, columns: Sequence[str]) -> str:
    def text(column: str) -> str:
        mark = (
            _MARKS["insert" if kind == "insert" else "feed"]
            .get(column, sources.quote(column))
            .format(type=sources.quote(CHANGE_TYPE))
        )
        return f"{mark} AS {sources.quote(column)}"

    return f"SELECT {', '.join(text(column) for column in columns)} FROM {sources.quote(name)}"


def _no_changes(sources: Sources, scan: Scan) -> str:
    """An empty relation of the right shape, so that a table with no change has a change log."""
    types = {IMAGE: TEXT, DML_TYPE: TEXT, COMMIT: BIGINT, WEIGHT: BIGINT}
    table = cast(Table, scan.relation)
    columns = tuple(FileColumn(name, types.get(name) or type_of_column(table, name)) for name in scan.columns)
    sources.inputs[f"{scan.name}_none"] = Files((), columns)
    return sources.select([column.name for column in columns], f"{scan.name}_none")
