"""Statements about continuous queries, queues, triggers and materialized views."""

from __future__ import annotations

from midstream.errors import InvalidQuery, UndefinedName, WrongObject
from midstream.plan import BindContext
from midstream.relations.query import ContinuousQuery, MaterializedView
from midstream.relations.table import Table
from midstream.relations.view import ContinuousView, View
from midstream.runtime.continuous import defining, destinations, naming, takers
from midstream.runtime.continuous.delivering import subscriber
from midstream.runtime.continuous.log import Status
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.writing import Writer
from midstream.serving.result import Result
from midstream.serving.session import Session
from midstream.serving.showing import did_you_mean
from midstream.serving.subscriptions import subscribe
from midstream.sql.mentions import place_of_name
from midstream.sql.procedures import RECOMPUTE, UNSUBSCRIBE, procedure_call
from midstream.sql.statements import (
    AlterContinuousQuery,
    CreateContinuousQuery,
    CreateQueue,
    CreateTrigger,
    RefreshView,
    Select,
    Subscribe,
)
from midstream.types import BIGINT, BOOLEAN, TEXT, Type

Handled = CreateContinuousQuery | CreateQueue | CreateTrigger | AlterContinuousQuery | RefreshView
_STATES: dict[str, Status] = {"suspend": "suspended", "activate": "active", "deactivate": "inactive"}


def execute(session: Session, statement: Handled, context: BindContext) -> Result:
    match statement:
        case RefreshView():
            return refresh(session, statement)
        case AlterContinuousQuery(action=str(action)):
            return _set_state(session, statement, action)
        case _:
            return _define(session, statement, context)


def _define(
    session: Session,
    statement: CreateContinuousQuery | CreateQueue | CreateTrigger | AlterContinuousQuery,
    context: BindContext,
) -> Result:
    notices: list[str] = []

    def work(writer: Writer) -> str:
        notices.clear()
        match statement:
            case CreateContinuousQuery():
                notices.extend(defining.create_continuous_query(writer, statement))
                return "CREATE CONTINUOUS QUERY"
            case CreateQueue():
                takers.create_queue(writer, statement)
                return "CREATE QUEUE"
            case CreateTrigger():
                takers.create_trigger(writer, statement)
                return "CREATE TRIGGER"
            case AlterContinuousQuery():
                defining.alter_continuous_query(writer, statement)
                return "ALTER CONTINUOUS QUERY"

    status, scn = session.writing(work, context)
    return Result(status=status, scn=scn, notices=notices)


def _set_state(session: Session, statement: AlterContinuousQuery, action: str) -> Result:
    session.forbid_in_transaction(f"ALTER CONTINUOUS QUERY … {action.upper()}")
    state = session.store.catalog.state
    query = naming.find_query(state, statement.name, statement, "query")
    session.store.queries.set_status(query, _STATES[action])
    return Result(status="ALTER CONTINUOUS QUERY", scn=state.scn)


def refresh(session: Session, statement: RefreshView) -> Result:
    session.forbid_in_transaction("REFRESH MATERIALIZED VIEW")
    state, place = session.store.catalog.state, place_of_name(statement, statement.name, after="view")
    view = state.relations.get(statement.name)
    if view is None:
        raise UndefinedName(
            f'materialized view "{statement.name}" does not exist',
            hint=did_you_mean(statement.name, state),
            position=place,
        )
    if isinstance(view, ContinuousView):
        with session.cancellable() as cancellation:
            scn = session.store.views.moment([view], DEFAULTS, cancellation).state.scn
        return _reached(scn)
    if not isinstance(view, MaterializedView):
        raise WrongObject(f'"{statement.name}" is not a materialized view', position=place)
    with session.cancellable() as cancellation:
        of, written = session.store.queries.materialized.refresh(
            view, in_full=statement.full, cancellation=cancellation
        )
    return _reached(of, written)


def subscribed(session: Session, statement: Subscribe) -> Result:
    """What SUBSCRIBE has to give at once, and in `changes` what comes."""
    try:
        changes = subscribe(session.store, statement.name, snapshot=statement.snapshot, after=statement.after_scn)
    except (UndefinedName, WrongObject) as error:
        error.position = place_of_name(statement, statement.name, after="to ")
        raise
    found = changes.poll(0)
    if statement.snapshot and statement.after_scn is not None:
        # These were its rows then; what has changed since comes next.
        found += changes.poll(0)
    columns = columns_handed_out(session, statement.name)
    rows = [(change.scn, change.kind, *change.row.values()) for change in found]
    marks: list[tuple[str, Type]] = [("_scn", BIGINT), ("_kind", TEXT)]
    result = Result.of_rows([*marks, *columns], rows, status=f"SUBSCRIBE {len(rows)}", scn=session.state.scn)
    result.changes = changes
    return result


def columns_handed_out(session: Session, name: str) -> list[tuple[str, Type]]:
    relation = session.store.catalog.state.relations[name]
    if isinstance(relation, ContinuousQuery):
        return list(relation.output_columns)
    if isinstance(relation, View):
        return list(relation.columns)
    return [(column.name, column.type) for column in relation.columns] if isinstance(relation, Table) else []


# --- SELECT cq_recompute('name') --------------------------------------------------------------------------


def recomputed(session: Session, statement: Select, context: BindContext) -> Result | None:
    """The answer of SELECT cq_recompute('name'), which waits and returns the SCN reached; None: it is another query."""
    call = procedure_call(statement.query, context.parameters, RECOMPUTE)
    if call is None:
        return _unsubscribed(session, statement, context)
    if len(call.arguments) != 1:
        raise InvalidQuery("cq_recompute takes the name of a continuous query", position=call.position)
    name = str(call.arguments[0])
    session.forbid_in_transaction("cq_recompute")
    query = session.store.queries.find(name)
    if isinstance(query, MaterializedView):
        raise WrongObject(f'"{name}" is a materialized view', hint=f"REFRESH MATERIALIZED VIEW {name} computes it.")
    if query.when == "on commit":
        raise WrongObject(
            f'continuous query "{name}" is computed on commit',
            detail="cq_recompute is for queries that are computed on demand or by the clock.",
            hint="db.wait waits until it has reached a commit.",
            sqlstate="55000",
        )
    with session.cancellable() as cancellation:
        scn = session.store.queries.recompute(query, cancellation)
    return Result.of_rows([(call.name, BIGINT)], [(scn,)], status="SELECT 1", scn=scn)


def _unsubscribed(session: Session, statement: Select, context: BindContext) -> Result | None:
    """The answer of SELECT unsubscribe('queue', 'subscriber'): whether there was such a subscriber."""
    call = procedure_call(statement.query, context.parameters, UNSUBSCRIBE)
    if call is None:
        return None
    if len(call.arguments) != 2:
        raise InvalidQuery("unsubscribe takes the names of a queue and of a subscriber", position=call.position)
    queue, name = map(str, call.arguments)
    state, readers = session.store.catalog.state, session.store.queries.readers
    query = destinations.query_of_queue(state, queue)
    if query is None:
        raise UndefinedName(f'queue "{queue}" does not exist, or no continuous query fills it', position=call.position)
    known = subscriber(name) in readers.of(query)
    readers.move(query, subscriber(name), None)
    return Result.of_rows([(call.name, BOOLEAN)], [(known,)], status="SELECT 1", scn=state.scn)


def _reached(scn: int, written: int | None = None) -> Result:
    """The SCN that an answer is of; `written`: the commit that its changes have."""
    commit = scn if written is None else written
    return Result.of_rows([("scn", BIGINT)], [(scn,)], status="REFRESH MATERIALIZED VIEW", scn=commit)
