"""One statement, by its kind: which part of the runtime does it, and what the client is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from midstream.errors import (
    Error,
    InvalidDefinition,
    InvalidParameter,
    InvalidQuery,
    SqlSyntaxError,
    TransactionConflict,
    UndefinedName,
    Unsupported,
    WrongObject,
)
from midstream.plan import BindContext, BoundQuery, bind_delete, bind_insert, bind_merge, bind_query, bind_update
from midstream.relations.definition import kind_of
from midstream.relations.query import ContinuousQuery, MaterializedView, Queue, Trigger
from midstream.relations.schema import RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import Column, Table
from midstream.relations.view import View
from midstream.runtime import copying, definitions, query
from midstream.runtime.alterations import alter_table
from midstream.runtime.continuous.stored_views import create_materialized_view
from midstream.runtime.definitions import relations_read
from midstream.runtime.new_streams import create_stream
from midstream.runtime.reading import Beside
from midstream.runtime.seeing import schema_seen, seeing
from midstream.runtime.settings import SETTINGS, read_setting
from midstream.runtime.stored_schema import StateSchema, stored_answers
from midstream.runtime.transaction import Transaction
from midstream.runtime.writing import Writer
from midstream.serving import continuous, showing
from midstream.serving.dequeuing import dequeued
from midstream.serving.result import Result
from midstream.serving.seeing import seen_by
from midstream.serving.session import ATTEMPTS, Session
from midstream.serving.values import listed_columns, without_query
from midstream.sql.mentions import assigned_columns, place_of_name, place_of_parameter, place_of_value, quoted_name
from midstream.sql.statements import (
    DEFAULT,
    AlterContinuousQuery,
    AlterTable,
    Copy,
    CreateContinuousQuery,
    CreateQueue,
    CreateStream,
    CreateTable,
    CreateTableAs,
    CreateTrigger,
    CreateView,
    Delete,
    Describe,
    Drop,
    Explain,
    InsertQuery,
    InsertValues,
    Merge,
    RefreshView,
    Select,
    Set,
    Show,
    Statement,
    Subscribe,
    Update,
)


def execute(session: Session, statement: Statement, context: BindContext) -> Result:
    meant = statement.target if isinstance(statement, Explain) else statement
    _refuse_parameters(meant)
    _refuse_inner_names(meant)
    match statement:
        case Select():
            return select(session, statement, context)
        case InsertValues() | InsertQuery() | Update() | Delete() | Merge():
            return write(session, statement, context)
        case Copy(direction="from"):
            return copy_from(session, statement, context)
        case Copy():
            return copy_to(session, statement, context)
        case CreateTable() | CreateTableAs() | CreateStream() | CreateView() | Drop():
            return define(session, statement, context)
        case CreateContinuousQuery() | CreateQueue() | CreateTrigger() | AlterContinuousQuery() | RefreshView():
            return continuous.execute(session, statement, context)
        case AlterTable():
            return alter(session, statement, context)
        case Explain() | Show() | Describe():
            return showing.show(session, statement, context)
        case Subscribe():
            return continuous.subscribed(session, statement)
        case Set(name=name, value=value):
            return set_setting(session, name, value)
        case _:
            raise not_yet(statement)


def not_yet(statement: Statement) -> Unsupported:
    """What the grammar reads and nothing runs yet."""
    match statement:
        case CreateView(kind="plain"):
            what = "CREATE VIEW … WITH (…)"
        case CreateView(kind=kind):
            what = f"CREATE {kind.upper()} VIEW"
        case Drop(kind=kind):
            what = f"DROP {kind.upper()}"
        case _:
            what = "CREATE VIEW … INITIALIZE … UPDATE"
    return Unsupported(
        f"{what} is not available yet",
        detail="The statement is understood, but this version of Midstream cannot run it.",
        hint="docs/roadmap.md says what comes next.",
        position=statement.start,
    )


# --- reading ---------------------------------------------------------------------------------------


def select(session: Session, statement: Select, context: BindContext) -> Result:
    recomputed = continuous.recomputed(session, statement, context)
    if recomputed is not None:
        return recomputed
    return _read_again(session, lambda: _select(session, statement, context))


def _read_again(session: Session, read: Callable[[], Result]) -> Result:
    """If a view was replaced meanwhile, what is there now answers, or says that it is gone."""
    for _ in range(ATTEMPTS - 1):
        try:
            return read()
        except TransactionConflict:
            if session.in_transaction:
                raise
    return read()


def _select(session: Session, statement: Select, context: BindContext) -> Result:
    with (
        session.reading() as transaction,
        session.cancellable() as cancellation,
        dequeued(session, statement, transaction, context) as taken,
    ):
        store = session.store
        if taken is None:
            bound = _bound(session, statement, transaction, context)
        else:
            rest = replace(context, taken_out=taken.highest_parameter)
            bound = bind_query(taken.query, taken.schema(session, transaction.state), rest)
        picture = seen_by(session, transaction, bound, cancellation)
        if taken is not None:
            picture = Beside(picture, taken.rows)
        table = query.run_query(store, picture, bound, session.settings, cancellation)
    return Result(
        status=f"SELECT {table.num_rows}",
        scn=picture.state.scn,
        table=table,
        types=[output.type for output in bound.outputs],
        data_frame=lambda: query.data_frame(store, picture, bound, table),
    )


def _bound(session: Session, statement: Select, transaction: Transaction, context: BindContext) -> BoundQuery:
    """A query that was asked before, while definitions are the same, need not be bound again."""
    known, relations = session.store.bound_queries, transaction.state.relations
    text = statement.query.text
    found = known.get(text) if not context.parameters else None
    if found is not None and found[0] is relations:
        bound = cast(BoundQuery, found[1])
        if not session.in_transaction or not stored_answers(bound):
            return bound
    bound = bind_query(statement.query, session.schema(transaction.state), context)
    if not context.parameters and bound.is_timeless and len(text) < 4000 and not session.in_transaction:
        if len(known) >= 200:
            known.clear()
        known[text] = (relations, bound)
    return bound


def _refuse_parameters(statement: Statement | str) -> None:
    """What is kept has no values of one statement in it."""
    if not isinstance(statement, CreateView | CreateContinuousQuery):
        return
    place = place_of_parameter(statement.query)
    if place is not None:
        raise InvalidParameter(
            f'the query of "{statement.name}" may have no parameters',
            detail="It is kept as it is written and runs again and again; a value is given to one statement.",
            hint="Write the value into the query, or leave the condition to those who read.",
            sqlstate="42P02",
            position=place,
        )


_DEFINITIONS = (CreateTable, CreateTableAs, CreateStream, CreateView, CreateContinuousQuery, AlterTable)


def _refuse_inner_names(statement: Statement | str) -> None:
    """What the database adds to rows and queries has names that begin with ~, so no definition may have one."""
    if not isinstance(statement, _DEFINITIONS):
        return
    found = quoted_name(statement, "~")
    if found is not None:
        raise InvalidDefinition(
            f'the name "{found[0]}" is not allowed',
            detail="Names that begin with ~ are those that the database uses for itself.",
            hint="Give it another name.",
            sqlstate="42939",
            position=found[1],
        )


# --- writing ---------------------------------------------------------------------------------------


def table_to_write(picture: Transaction, name: str, verb: str, statement: Statement | None = None) -> Table:
    """A table: a stream takes rows, and nothing else."""
    relation = target_of(picture, name, verb, statement)
    if isinstance(relation, Stream):
        raise showing.append_only(name, verb, statement)
    return relation


def target_of(picture: Transaction, name: str, verb: str, statement: Statement | None = None) -> RowHolder:
    """What rows are written to."""
    place = place_of_name(statement, name) if statement is not None else None
    relation = picture.state.relations.get(name)
    if relation is None and isinstance(picture.state.relations.get(name.removeprefix("clog_")), Table):
        raise WrongObject(
            f'cannot {verb} "{name}"', detail="It is a change log, which the database writes itself.", position=place
        )
    if relation is None:
        raise UndefinedName(
            f'relation "{name}" does not exist', hint=showing.did_you_mean(name, picture.state), position=place
        )
    if isinstance(relation, MaterializedView):
        raise WrongObject(
            f'cannot {verb} materialized view "{name}"',
            detail="Its rows are the answer of its query, which the database keeps up to date.",
            position=place,
        )
    if isinstance(relation, View):
        raise WrongObject(f'cannot {verb} view "{name}"', detail="A view has no rows of its own.", position=place)
    if isinstance(relation, ContinuousQuery | Queue | Trigger):
        raise WrongObject(f'cannot {verb} {kind_of(relation)} "{name}"', detail="It has no rows.", position=place)
    return relation


def write(
    session: Session, statement: InsertValues | InsertQuery | Update | Delete | Merge, context: BindContext
) -> Result:
    if isinstance(statement, InsertQuery):
        statement = without_query(session, statement, context)
    if isinstance(statement, InsertValues) and (result := _gathered(session, statement, context)) is not None:
        return result

    def work(writer: Writer) -> int:
        picture = writer.transaction
        schema = schema_seen(picture, is_alone=writer.is_alone)
        match statement:
            case InsertValues(table=name):
                return _insert_values(writer, target_of(picture, name, "insert into", statement), statement)
            case InsertQuery(table=name):
                target = target_of(picture, name, "insert into", statement)
                _refuse_own_rows(target, statement, picture)
                bound = bind_insert(statement, target, schema, context)
                return seeing(writer, bound).insert_query(target, bound)
            case Update(table=name):
                table = table_to_write(picture, name, "update", statement)
                bound = bind_update(statement, table, schema, context)
                return seeing(writer, bound).update(table, bound, assigned_columns(statement))
            case Delete(table=name):
                table = table_to_write(picture, name, "delete from", statement)
                bound = bind_delete(statement, table, schema, context)
                return seeing(writer, bound).delete(table, bound)
            case Merge(table=name):
                table = table_to_write(picture, name, "merge into", statement)
                bound = bind_merge(statement, table, schema, context)
                return seeing(writer, bound).merge(table, bound)

    rows, scn = session.writing(work, context)
    tag = {InsertValues: "INSERT 0", InsertQuery: "INSERT 0", Update: "UPDATE", Delete: "DELETE", Merge: "MERGE"}
    return Result(status=f"{tag[type(statement)]} {rows}", scn=scn)


def _refuse_own_rows(target: RowHolder, statement: InsertQuery, picture: Transaction) -> None:
    query = statement.query
    if isinstance(target, Stream) and query is not None and target.name in relations_read(query, picture.state):
        raise InvalidQuery(
            f'INSERT INTO "{target.name}" may not read "{target.name}"',
            detail="A stream that is fed from itself would never end.",
            hint="Read a view over it, or a table.",
            position=place_of_name(statement, target.name, after=target.name),
        )


def _gathered(session: Session, statement: InsertValues, context: BindContext) -> Result | None:
    stream = session.store.catalog.state.relations.get(statement.table)
    if not isinstance(stream, Stream) or _has_default(statement.rows):
        return None
    return session.gathered(stream, statement.rows, _value_columns(stream, statement), context)


def _insert_values(writer: Writer, table: RowHolder, statement: InsertValues) -> int:
    columns = _value_columns(table, statement)
    return writer.insert_values(table, columns, _with_defaults(writer, columns, statement.rows))


def _value_columns(table: RowHolder, statement: InsertValues) -> list[Column]:
    """The columns that the rows of VALUES are for."""
    columns = listed_columns(table, statement.columns, statement)
    width = len(statement.rows[0]) if statement.rows else 0
    if not statement.columns:
        columns = columns[:width] if width < len(columns) else columns
    if width != len(columns):
        more = (
            "more expressions than target columns" if width > len(columns) else "more target columns than expressions"
        )
        place = place_of_value(statement, len(columns)) if width > len(columns) else None
        raise SqlSyntaxError(f"INSERT has {more}", position=place)
    return columns


def _has_default(rows: Sequence[Sequence[object]]) -> bool:
    return any(DEFAULT in row for row in rows)


def _with_defaults(
    writer: Writer, columns: Sequence[Column], rows: Sequence[Sequence[object]]
) -> Sequence[Sequence[object]]:
    """DEFAULT in a VALUES list, replaced by what it stands for."""
    if not _has_default(rows):
        return rows
    defaults = [writer.default_value(column) if column.default is not None else None for column in columns]
    return [
        [default if value is DEFAULT else value for value, default in zip(row, defaults, strict=True)] for row in rows
    ]


def copy_from(session: Session, statement: Copy, context: BindContext) -> Result:
    def work(writer: Writer) -> int:
        table = target_of(writer.transaction, cast(str, statement.table), "copy to", statement)
        try:
            return copying.copy_into(writer, table, listed_columns(table, statement.columns, statement), statement)
        except Error as error:
            there = table.id in writer.transaction.defined or session.store.streams.knows_id(table.id)
            if isinstance(table, Stream) and not there:
                # Its folder went while the files were read; that is what the client must know.
                raise showing.dropped_meanwhile(table.name) from error
            raise

    rows, scn = session.writing(work, context)
    return Result(status=f"COPY {rows}", scn=scn)


def copy_to(session: Session, statement: Copy, context: BindContext) -> Result:
    return _read_again(session, lambda: _copy_to(session, statement, context))


def _copy_to(session: Session, statement: Copy, context: BindContext) -> Result:
    with session.reading() as picture, session.cancellable() as cancellation:
        bound = _bind_copied(statement, session.schema(picture.state), context)
        seen = seen_by(session, picture, bound, cancellation)
        table = query.run_query(session.store, seen, bound, session.settings, cancellation)
        rows = copying.copy_out(table, [output.type for output in bound.outputs], statement)
    return Result(status=f"COPY {rows}", scn=seen.state.scn)


def _bind_copied(statement: Copy, schema: StateSchema, context: BindContext) -> BoundQuery:
    """What COPY … TO writes; an error about a relation points at its name, not into a query that nobody wrote."""
    try:
        return bind_query(copying.query_of(statement), schema, context)
    except Error as error:
        if statement.query is None:
            error.position = place_of_name(statement, str(statement.table))
        raise


# --- defining --------------------------------------------------------------------------------------


def define(
    session: Session, statement: CreateTable | CreateTableAs | CreateStream | CreateView | Drop, context: BindContext
) -> Result:
    notices: list[str] = []

    def work(writer: Writer) -> str:
        notices.clear()
        match statement:
            case CreateTable():
                definitions.create_table(writer, statement)
                return "CREATE TABLE"
            case CreateTableAs():
                return f"SELECT {definitions.create_table_as(writer, statement)}"
            case CreateStream():
                create_stream(writer, statement)
                return "CREATE STREAM"
            case CreateView(kind="materialized") if (
                definitions.reads_stream(statement, writer.transaction.state) is None
            ):
                session.forbid_in_transaction("CREATE MATERIALIZED VIEW")
                notices.extend(create_materialized_view(writer, statement))
                return "CREATE MATERIALIZED VIEW"
            case CreateView():
                _check_kind(statement, writer)
                notices.extend(definitions.create_view(writer, statement))
                return "CREATE VIEW"
            case Drop(kind=kind):
                definitions.drop(writer.transaction, statement)
                return f"DROP {kind.upper()}"

    status, scn = session.writing(work, context)
    return Result(status=status, scn=scn, notices=notices)


def _check_kind(statement: CreateView, writer: Writer) -> None:
    """A view over a stream is continuous, whatever it is called."""
    if statement.kind == "continuous" and definitions.reads_stream(statement, writer.transaction.state) is None:
        raise InvalidQuery(
            f'view "{statement.name}" reads no stream, and only then is a view continuous',
            hint="CREATE VIEW makes an ordinary one, CREATE MATERIALIZED VIEW one that is kept.",
            sqlstate="42P16",
        )


def alter(session: Session, statement: AlterTable, context: BindContext) -> Result:
    session.forbid_in_transaction("ALTER TABLE")
    with session.cancellable() as cancellation:
        scn = alter_table(session.store, statement, context, cancellation)
    return Result(status="ALTER TABLE", scn=scn)


def set_setting(session: Session, name: str, value: object | None) -> Result:
    scn = session.store.catalog.state.scn
    is_reset = value is None
    if value is None:
        setting = SETTINGS.get(name)
        value = setting.default if setting else None
    read = read_setting(name, value)
    if SETTINGS[name].of_database:
        session.store.catalog.keep_setting(name, str(read))
        session.store.views.windows.wake()
    session.settings[name] = read
    return Result(status="RESET" if is_reset else "SET", scn=scn)
