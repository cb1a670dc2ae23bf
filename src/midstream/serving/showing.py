"""SHOW, DESCRIBE and EXPLAIN: the database about itself."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterator
from dataclasses import replace

from midstream.errors import TransactionConflict, UndefinedName, Unsupported, WrongObject
from midstream.plan import BindContext, BoundQuery, bind_delete, bind_insert, bind_merge, bind_query, bind_update
from midstream.plan.context import CHANGE_COLUMNS
from midstream.plan.explain import explain_query
from midstream.relations.catalog import CatalogState
from midstream.relations.definition import kind_of
from midstream.relations.query import ContinuousQuery, MaterializedView, Queue, Trigger
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import CheckConstraint, ForeignKey, Key, Table, TableConstraint
from midstream.relations.view import ContinuousView, View
from midstream.runtime import query
from midstream.runtime.definitions import reads_stream, relations_read
from midstream.runtime.lateness import late_reader
from midstream.runtime.results import Moment
from midstream.runtime.results import Result as ViewResult
from midstream.runtime.settings import SETTINGS, read_setting
from midstream.runtime.stored_schema import StateSchema
from midstream.serving import query_plans
from midstream.serving.result import Result, Row
from midstream.serving.seeing import seen_by
from midstream.serving.session import Session
from midstream.serving.values import without_query
from midstream.serving.view_plans import explain_new, explain_view, facts_of, frozen_tables, measure_view
from midstream.sql import parse_query
from midstream.sql.mentions import columns_named, place_of_name
from midstream.sql.statements import (
    CreateContinuousQuery,
    CreateTableAs,
    CreateView,
    Delete,
    Describe,
    Explain,
    InsertQuery,
    InsertValues,
    Merge,
    Name,
    Select,
    Show,
    Statement,
    Update,
)
from midstream.types import BIGINT, BOOLEAN, DOUBLE, TEXT


def show(session: Session, statement: Explain | Show | Describe, context: BindContext) -> Result:
    match statement:
        case Describe(name=name):
            return describe(session, name)
        case Explain():
            return explain(session, statement, context)
        case Show(what=what):
            return show_list(session, what.lower())


def did_you_mean(name: str, state: CatalogState) -> str | None:
    near = difflib.get_close_matches(name, list(state.relations), 1)
    return f'Did you mean "{near[0]}"?' if near else None


# --- SHOW ------------------------------------------------------------------------------------------


def show_list(session: Session, what: str) -> Result:
    with session.reading() as picture:
        state = picture.state
        match what:
            case "tables":
                return _tables(session, state)
            case "views":
                return _views(session, state)
            case "streams":
                return _streams(session, state)
            case "continuous queries":
                rows = query_plans.rows_of(session, state)
                return Result.of_rows(query_plans.COLUMNS, rows, status="SHOW", scn=state.scn)
            case "status":
                return _status(session, state)
            case _:
                return _setting(session, what, state.scn)


def _tables(session: Session, state: CatalogState) -> Result:
    columns = [("name", TEXT), ("columns", BIGINT), ("rows", BIGINT), ("files", BIGINT), ("bytes", BIGINT)]
    rows: list[Row] = []
    plain = [r for r in state.relations.values() if isinstance(r, Table) and not isinstance(r, MaterializedView)]
    for table in sorted(plain, key=lambda t: t.name):
        files = session.store.folder(table.id).files(state.versions[table.id])
        sizes = (sum(file.rows for file in files), len(files), sum(file.bytes for file in files))
        rows.append((table.name, len(table.columns), *sizes))
    return Result.of_rows(columns, rows, status="SHOW", scn=state.scn)


def _streams(session: Session, state: CatalogState) -> Result:
    columns = [("name", TEXT), ("columns", BIGINT), ("rows", BIGINT), ("bytes", BIGINT), ("rows_per_second", DOUBLE)]
    columns += [("unabsorbed_rows", BIGINT), ("unabsorbed_bytes", BIGINT), ("waiting_inserts", BIGINT)]
    columns += [("readers", BIGINT), ("slowest_reader", TEXT), ("history", TEXT)]
    rows: list[Row] = []
    for status in session.store.streams.status():
        stream = status.stream
        if state.relations.get(stream.name) != stream:
            continue
        history = stream.history
        kept = f"{history.retain_seconds:g} s in parts of {history.part_seconds} s" if history else None
        counts = (len(stream.columns), status.rows, status.bytes, round(status.rate, 1))
        behind = (status.unabsorbed_rows, status.unabsorbed_bytes, status.waiting_inserts)
        slowest = status.readers[0].name if status.readers else None
        rows.append((stream.name, *counts, *behind, len(status.readers), slowest, kept))
    return Result.of_rows(columns, rows, status="SHOW", scn=state.scn)


def _views(session: Session, state: CatalogState) -> Result:
    found = [r for r in state.relations.values() if isinstance(r, View | MaterializedView)]
    views = sorted(found, key=lambda v: v.name)
    columns = [("name", TEXT), ("kind", TEXT), ("reads", TEXT), ("query", TEXT), ("rows", BIGINT)]
    columns += [("lag_rows", BIGINT), ("result_age_seconds", DOUBLE), ("state_bytes", BIGINT), ("refreshes", BIGINT)]
    columns += [("last_refresh_ms", DOUBLE), ("lag_seconds", DOUBLE), ("rows_per_second", DOUBLE)]
    rows: list[Row] = []
    for view in views:
        plain = (view.name, _kind_of_view(view), ", ".join(view.reads))
        if isinstance(view, MaterializedView):
            rows.append((*plain, view.query, *_stored_facts(session, view, state), None, None))
            continue
        if not isinstance(view, ContinuousView):
            rows.append((*plain, view.query, *[None] * 8))
            continue
        facts = facts_of(session, view)
        age, spent = facts.result_age, facts.last_refresh_seconds
        ages = None if age is None else round(age, 1)
        took = None if spent is None else round(spent * 1000, 1)
        result = (facts.rows, facts.lag_rows, ages, facts.state_bytes, facts.refreshes, took)
        rows.append((*plain, view.query, *result, round(facts.lag_seconds, 1), round(facts.rows_per_second, 1)))
    return Result.of_rows(columns, rows, status="SHOW", scn=state.scn)


def _stored_facts(session: Session, view: MaterializedView, state: CatalogState) -> tuple[object, ...]:
    files = session.store.folder(view.id).files(state.versions[view.id])
    spent = session.store.queries.spent.get(view.id)
    counts = (sum(file.rows for file in files), None, None, sum(file.bytes for file in files))
    return (*counts, spent.computed if spent else 0, round(spent.last_seconds * 1000, 1) if spent else None)


def _kind_of_view(view: View | MaterializedView) -> str:
    if isinstance(view, MaterializedView):
        return "materialized"
    if not isinstance(view, ContinuousView):
        return "ordinary"
    return "over windows" if view.is_windowed else "continuous"


def _status(session: Session, state: CatalogState) -> Result:
    tables = [r for r in state.relations.values() if isinstance(r, Table) and not isinstance(r, MaterializedView)]
    facts: list[Row] = [
        ("current_scn", str(state.scn)),
        ("oldest_scn", str(session.store.catalog.history_from())),
        ("tables", str(len(tables))),
        ("streams", str(sum(isinstance(r, Stream) for r in state.relations.values()))),
        ("views", str(sum(isinstance(r, View | MaterializedView) for r in state.relations.values()))),
        ("continuous_queries", str(sum(isinstance(r, ContinuousQuery) for r in state.relations.values()))),
        ("change_jobs", str(session.store.queries.jobs)),
        ("running_jobs", str(len(session.store.engine.progress()))),
        ("cores", str(session.store.engine.cores)),
        ("log_bytes", str(session.store.streams.journal.bytes_on_disk)),
        *_stream_facts(session),
        *_view_facts(session, state),
        *_query_facts(session, state),
    ]
    return Result.of_rows([("name", TEXT), ("value", TEXT)], facts, status="SHOW", scn=state.scn)


def _stream_facts(session: Session) -> Iterator[Row]:
    """Of every stream that is read: what came in, what is behind, and who."""
    for status in session.store.streams.status():
        name = status.stream.name
        yield (
            f"stream {name}",
            f"{status.rows:,} rows in ({status.bytes:,} bytes), {status.rate:,.0f} rows/s, "
            f"{status.unabsorbed_rows:,} rows unabsorbed, {status.waiting_inserts} inserts waiting",
        )
        late = late_reader(session.store, status.stream.id)
        if late is not None:
            yield f"late rows of stream {name}", f"{late[1].rows:,}"
        for number, reader in enumerate(status.readers):
            words = [f"{reader.kind}, absorbed up to SCN {reader.absorbed}"]
            if number == 0 and status.unabsorbed_rows:
                words.append("the slowest")
            if reader.failure is not None:
                words.append(f"fails: {reader.failure.message}")
            yield f"reader {reader.name} of stream {name}", "; ".join(words)


def _view_facts(session: Session, state: CatalogState) -> Iterator[Row]:
    for view in sorted((r for r in state.relations.values() if isinstance(r, ContinuousView)), key=lambda v: v.name):
        facts = facts_of(session, view)
        newest = "none yet"
        if facts.result_age is not None:
            took = (facts.last_refresh_seconds or 0) * 1000
            newest = f"{facts.rows or 0:,} rows, {facts.result_age:,.1f} s old, made in {took:,.0f} ms"
        failure = session.store.views.windows.failure(view.id)
        fails = f"; fails: {failure.message}. {failure.detail or ''}".rstrip() if failure is not None else ""
        yield (
            f"view {view.name}",
            f"{facts.lag_rows:,} rows and {facts.lag_seconds:,.1f} s behind, {facts.rows_per_second:,.0f} rows/s, "
            f"{facts.state_bytes:,} bytes of state, {facts.refreshes} refreshes; result: {newest}{fails}",
        )


def _query_facts(session: Session, state: CatalogState) -> Iterator[Row]:
    for name, status, _, _, scn, behind, changes, *_ in query_plans.rows_of(session, state):
        yield f"continuous query {name}", f"{status}, SCN {scn}, {behind} commits behind, {changes} changes kept"


def _setting(session: Session, name: str, scn: int) -> Result:
    if name == "all":
        rows: list[Row] = [(s.name, str(session.settings[s.name]), s.about) for s in SETTINGS.values()]
        columns = [("name", TEXT), ("value", TEXT), ("about", TEXT)]
        return Result.of_rows(columns, rows, status="SHOW", scn=scn)
    if name not in SETTINGS:
        read_setting(name, "")
    return Result.of_rows(
        [("name", TEXT), ("value", TEXT)], [(name, str(session.settings[name]))], status="SHOW", scn=scn
    )


# --- DESCRIBE --------------------------------------------------------------------------------------


def describe(session: Session, name: Name) -> Result:
    with session.reading() as picture:
        state = picture.state
    relation = state.relations.get(name)
    late = state.relations.get(name.removeprefix("late_")) if name.startswith("late_") else None
    if relation is None and isinstance(late, Stream):
        relation = Stream(late.id, name, tuple(replace(column, default=None) for column in late.columns))
    logged = state.relations.get(name.removeprefix("clog_")) if name.startswith("clog_") else None
    if relation is None and isinstance(logged, Table):
        relation = _change_log(name, logged)
    if relation is None:
        raise UndefinedName(f'relation "{name}" does not exist', hint=did_you_mean(name, state))
    columns = [("name", TEXT), ("type", TEXT), ("not_null", BOOLEAN), ("default", TEXT), ("constraints", TEXT)]
    rows: list[Row]
    if isinstance(relation, View):
        rows = [(column, str(type_), False, None, "") for column, type_ in relation.columns]
    elif isinstance(relation, ContinuousQuery):
        rows = [(column, str(type_), False, None, "") for column, type_ in relation.output_columns]
    elif isinstance(relation, Queue | Trigger):
        rows = []
    else:
        rows = [
            (c.name, str(c.type), c.not_null, c.default, "; ".join(_constraints_of(relation, c.name)))
            for c in relation.columns
        ]
    result = Result.of_rows(columns, rows, status="DESCRIBE", scn=state.scn)
    if isinstance(relation, ContinuousView):
        result.notices = tuple(frozen_tables(session, relation))
    return result


def _change_log(name: str, table: Table) -> View:
    """As DESCRIBE sees it: its columns are NULL where the table's once were not there."""
    own = tuple((column.name, column.type) for column in table.columns)
    marks = tuple((column, BIGINT if column == "trans_scn" else TEXT) for column in CHANGE_COLUMNS)
    return View(table.id, name, own + marks, "", (table.name,))


def _constraints_of(table: RowHolder, column: str) -> list[str]:
    texts = [text for constraint in table.constraints if (text := _constraint_text(constraint, column))]
    return [*texts, "TIMESTAMP"] if isinstance(table, Stream) and table.timestamp == column else texts


def _constraint_text(constraint: TableConstraint, column: str) -> str:
    match constraint:
        case Key(columns=columns, is_primary=is_primary):
            text = f"{'PRIMARY KEY' if is_primary else 'UNIQUE'} ({', '.join(columns)})"
            return text if column in columns else ""
        case ForeignKey(columns=columns, table=table, referred=referred, on_delete=on_delete):
            text = f"REFERENCES {table} ({', '.join(referred)}) ON DELETE {on_delete.upper()}"
            return text if column in columns else ""
        case CheckConstraint(condition=condition):
            return f"CHECK ({condition})" if column in columns_named(parse_query(f"SELECT {condition}")) else ""
        case _:
            parts = f" PARTITION BY {', '.join(constraint.partition_by)}" if constraint.partition_by else ""
            text = f"{'STRICTLY ' if constraint.strictly else ''}INCREASING {constraint.column}{parts}"
            return text if column == constraint.column else ""


# --- EXPLAIN ---------------------------------------------------------------------------------------


def explain(session: Session, statement: Explain, context: BindContext) -> Result:
    target = statement.target
    with session.reading() as picture, session.cancellable() as cancellation:
        schema = StateSchema(session.store.catalog, picture.state)
        if isinstance(target, CreateContinuousQuery) or (
            isinstance(target, CreateView)
            and target.kind == "materialized"
            and reads_stream(target, picture.state) is None
        ):
            lines = query_plans.explain_new_kept(session, target, context)
            return Result.of_lines("plan", lines, status="EXPLAIN", scn=picture.state.scn)
        if isinstance(target, str):
            view = schema.relation(target)
            if isinstance(view, ContinuousQuery | MaterializedView):
                if statement.analyze:
                    raise _only_read()
                lines = query_plans.explain_kept(session, view, picture.state)
                return Result.of_lines("plan", lines, status="EXPLAIN", scn=picture.state.scn)
            if isinstance(view, ContinuousView):
                measured = measure_view(session, view, cancellation) if statement.analyze else []
                seen = session.store.catalog.state if statement.analyze else picture.state
                lines = [*explain_view(session, view, seen), *measured]
                return Result.of_lines("plan", lines, status="EXPLAIN", scn=picture.state.scn)
            target = _view_query(schema, target)
        if isinstance(target, CreateView) and reads_stream(target, picture.state) is not None:
            lines = explain_new(session, target, picture.state, context)
            return Result.of_lines("plan", lines, status="EXPLAIN", scn=picture.state.scn)
        if isinstance(target, InsertQuery):
            target = without_query(session, target, context)
        if isinstance(target, InsertValues):
            return _explain_values(schema, target, statement.analyze)
        bound = _bound(target, session.schema(picture.state), context)
        views = [scan.relation for scan in bound.scans if isinstance(scan.relation, ContinuousView)]
        known = session.store.views.known(views, picture.state) if views else picture
        choice, sources = query.prepare(session.store, known, bound, session.settings)
        lines = list(explain_query(bound, choice.kernel, choice.reason, sources.inputs))
        if isinstance(target, CreateView):
            reads = ", ".join(relations_read(target.query, picture.state))
            lines.insert(0, f"An ordinary view: its query runs at each read, over {reads or 'no relation'}.")
        if statement.analyze and isinstance(target, Select):
            started = time.perf_counter()
            shown = seen_by(session, picture, bound, cancellation)
            fresh = time.perf_counter() - started
            table = query.run_query(session.store, shown, bound, session.settings, cancellation)
            seconds = time.perf_counter() - started
            if isinstance(shown, Moment):
                lines += [_view_cost(view, shown.results[view.id], fresh) for view in views]
            lines.append(f"Ran in {seconds * 1000:,.0f} ms, {table.num_rows:,} rows.")
        elif statement.analyze:
            raise _only_read()
    return Result.of_lines("plan", lines, status="EXPLAIN", scn=picture.state.scn)


def _view_cost(view: ContinuousView, result: ViewResult, fresh: float) -> str:
    return (
        f'View "{view.name}": its result of SCN {result.scn}, {result.rows:,} rows from {result.rows_in:,} rows of '
        f"inputs, took {result.seconds * 1000:,.0f} ms; views took {fresh * 1000:,.0f} ms here."
    )


def _explain_values(schema: StateSchema, statement: InsertValues, analyze: bool) -> Result:
    table = _target(schema, statement.table)
    if analyze:
        raise _only_read()
    kind = "stream" if isinstance(table, Stream) else "table"
    lines = [f'Insert of {len(statement.rows):,} literal rows into {kind} "{table.name}": no job.']
    if isinstance(table, Stream):
        lines.append("The driver reads the values, checks the rows and appends them to the log, which readers absorb.")
    else:
        lines.append(
            "The driver reads the values, checks the rows, and looks the keys up while that is little to read."
        )
    return Result.of_lines("plan", lines, status="EXPLAIN", scn=schema.state.scn)


def _only_read() -> Unsupported:
    return Unsupported(
        "EXPLAIN (ANALYZE) takes a SELECT, or a view that is computed at a read",
        hint="EXPLAIN without ANALYZE takes any statement.",
    )


def dropped_meanwhile(name: str) -> TransactionConflict:
    return TransactionConflict(
        f'stream "{name}" was dropped by a concurrent transaction', hint="Run the transaction again."
    )


def append_only(name: str, verb: str, statement: Statement | None) -> WrongObject:
    return WrongObject(
        f'cannot {verb} stream "{name}"',
        detail="A stream is append-only: its rows are read as they come and are not there to be changed.",
        hint="INSERT, COPY and db.insert add rows. For rows that change, use a table.",
        position=place_of_name(statement, name) if statement is not None else None,
    )


def _table(schema: StateSchema, name: str, verb: str, statement: Statement) -> Table:
    table = _target(schema, name)
    if not isinstance(table, Table):
        raise append_only(name, verb, statement)
    return table


def _target(schema: StateSchema, name: str) -> RowHolder:
    relation = schema.relation(name)
    if isinstance(relation, MaterializedView):
        raise WrongObject(f'"{name}" is a materialized view, whose rows only the database writes')
    if not isinstance(relation, Table | Stream):
        raise UndefinedName(f'table "{name}" does not exist', hint=did_you_mean(name, schema.state))
    return relation


def _view_query(schema: StateSchema, name: str) -> Select:
    relation = schema.relation(name)
    if relation is None:
        raise UndefinedName(f'view "{name}" does not exist', hint=did_you_mean(name, schema.state))
    if not isinstance(relation, View):
        raise WrongObject(f'"{name}" is a {kind_of(relation)}, not a view', hint="DESCRIBE tells of it.")
    return Select(parse_query(relation.query))


def _bound(target: Statement, schema: StateSchema, context: BindContext) -> BoundQuery:
    match target:
        case Select(query=text) | CreateView(query=text) | CreateTableAs(query=text):
            return bind_query(text, schema, context)
        case InsertQuery(table=name):
            return bind_insert(target, _target(schema, name), schema, context)
        case Update(table=name):
            return bind_update(target, _table(schema, name, "update", target), schema, context)
        case Delete(table=name):
            return bind_delete(target, _table(schema, name, "delete from", target), schema, context)
        case Merge(table=name):
            return bind_merge(target, _table(schema, name, "merge into", target), schema, context)
        case _:
            raise Unsupported(
                "EXPLAIN cannot explain this statement",
                hint="It takes queries, DML and CREATE VIEW.",
                position=target.start,
            )
