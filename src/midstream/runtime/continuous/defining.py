"""CREATE and ALTER CONTINUOUS QUERY: what a query must be to be kept, and how it will be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import cast

from midstream.errors import (
    DuplicateName,
    InvalidDefinition,
    InvalidParameter,
    InvalidQuery,
    UndefinedName,
    Unsupported,
)
from midstream.plan import BindContext, BoundQuery, bind_query, freeze_stars
from midstream.plan.difference import Difference, Step
from midstream.plan.difference.facts import increasing_tables, key_holds, refuse_volatile
from midstream.relations.catalog import CatalogState
from midstream.relations.query import (
    KINDS,
    ContinuousQuery,
    MaterializedView,
    Output,
    Refresh,
    When,
)
from midstream.relations.stream import Stream
from midstream.relations.table import Table
from midstream.runtime.continuous.computing import Plans
from midstream.runtime.continuous.destinations import prepare_destination
from midstream.runtime.continuous.naming import check_free, find_query
from midstream.runtime.continuous.stepping import key_violation
from midstream.runtime.continuous.streamed import rows_of_stream
from midstream.runtime.continuous.texts import answer_check_text
from midstream.runtime.query import prepare
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import StateSchema
from midstream.runtime.transaction import Transaction
from midstream.runtime.writing import Writer
from midstream.sql.change_items import Item, arguments_of, items_of, place_of_old, row_query, row_tree
from midstream.sql.mentions import place_of_name, place_of_output, place_of_relation, relations_named
from midstream.sql.positions import position_of
from midstream.sql.statements import (
    AlterContinuousQuery,
    Compute,
    CreateContinuousQuery,
    Destination,
    Options,
    Sql,
)
from midstream.types import Type

REFRESHES = ("auto", "incremental", "full")


@dataclass(frozen=True)
class Definition:
    """A query that was checked: what it is bound to, and what it reads."""

    bound: BoundQuery
    text: str
    reads: tuple[str, ...]
    stream: str | None = None


def create_continuous_query(writer: Writer, statement: CreateContinuousQuery) -> list[str]:
    """Returns notices."""
    from midstream.runtime.definitions import is_there

    transaction = writer.transaction
    state = transaction.state
    if is_there(state, statement.name, statement.if_not_exists):
        return []
    check_free(state, statement.name)
    query = defined_query(writer, statement)
    _check_is_there(transaction, query, statement)
    transaction.store.queries.materialized.bring_to_base(transaction, Plans(transaction.store, query).stored(state))
    if query.destination is not None:
        transaction.define(prepare_destination(writer, query, state))
    notices = check_maintenance(writer.transaction.store, query, writer.transaction.state, writer.context)
    _check_answer(writer, query)
    transaction.define([query])
    if Plans(transaction.store, query).views(state):
        transaction.store.queries.first_answers[query.id] = transaction.store.queries.answers.first(query)
    return notices


def _check_is_there(transaction: Transaction, query: ContinuousQuery, statement: CreateContinuousQuery) -> None:
    """A query over tables begins with the commit that makes it, so they may be made with it. All others begin with
    something that must be there before: the reader of a stream, or an answer."""
    plans, state = Plans(transaction.store, query), transaction.state
    if query.stream is None and not plans.views(state) and not plans.stored(state):
        return
    new = next((name for name, relation in plans.read_from(state).items() if relation.id in transaction.defined), None)
    if new is not None:
        raise Unsupported(
            f'a continuous query over "{new}" can be made after COMMIT',
            detail="It would begin with an answer, or a stream, that is only there after it.",
            position=place_of_name(statement, new),
        )


def defined_query(writer: Writer, statement: CreateContinuousQuery) -> ContinuousQuery:
    """What it would be."""
    return _define(writer, statement, read_options(statement.options, ("refresh", "kinds")))


def _define(writer: Writer, statement: CreateContinuousQuery, options: Mapping[str, object]) -> ContinuousQuery:
    state, store = writer.transaction.state, writer.transaction.store
    definition = define_query(store, statement.query, state, writer.context, statement.name)
    columns = _columns(definition.bound, statement.query)
    names = [name for name, _ in columns]
    outputs = _outputs(statement.query, names, definition)
    for name in statement.primary_key:
        if statement.primary_key.count(name) > 1:
            raise DuplicateName(
                f'column "{name}" appears twice in primary key constraint',
                sqlstate="42701",
                position=place_of_name(statement, name, after="key"),
            )
        if name not in names:
            raise UndefinedName(
                f'column "{name}" named in key is not in the select list',
                hint="The columns are " + ", ".join(names) + ".",
                sqlstate="42703",
                position=place_of_name(statement, name, after="key"),
            )
    if statement.primary_key and definition.stream is not None:
        raise Unsupported(
            f'a PRIMARY KEY over stream "{definition.stream}" could not be checked',
            detail="The rows of a stream only come, and are not kept to be compared with those that come later.",
            hint="Leave PRIMARY KEY out: every change is a row that came. Or make a view with GROUP BY over it, and a "
            "continuous query with a key over that.",
            position=place_of_name(statement, "key"),
        )
    compute = statement.compute or Compute("on commit")
    destination = statement.destination
    return ContinuousQuery(
        store.catalog.new_id(),
        statement.name,
        columns,
        definition.text,
        definition.reads,
        outputs,
        statement.primary_key,
        *_when(compute),
        destination=destination.name if destination is not None else None,
        is_queue=destination is not None and destination.is_queue,
        kinds=cast("tuple[str, ...]", options.get("kinds", KINDS)),
        refresh=cast(Refresh, options.get("refresh", "auto")),
        kernel=str(writer.settings["kernel"]),
        stream=definition.stream,
        append_only=increasing_tables(definition.bound),
        key_is_proved=key_holds(definition.bound, statement.primary_key),
    )


def define_query(store: Store, query: Sql, state: CatalogState, context: BindContext, name: str) -> Definition:
    """A query that can be kept: over tables and views, the same at every moment."""
    from midstream.runtime.definitions import relations_read

    schema = StateSchema(store.catalog, state)
    stream = _stream_in(query, state)
    if stream is not None:
        rows = rows_of_stream(query, schema, context)
        _check_timeless(rows.query)
        text = freeze_stars(query, schema, context, takes_streams=True, prepared=row_tree).text
        return Definition(replace(rows.query, outputs=rows.outputs), text, (stream,), stream)
    bound = bind_query(row_query(query), schema, context)
    _check_timeless(bound)
    for scan in bound.scans:
        _check_source(scan.relation, scan.source, query)
    reads = relations_read(query, state)
    text = freeze_stars(query, schema, context, prepared=row_tree).text
    return Definition(bound, text, reads)


def _stream_in(query: Sql, state: CatalogState) -> str | None:
    return next((name for name in relations_named(query) if isinstance(state.relations.get(name), Stream)), None)


def _check_timeless(bound: BoundQuery) -> None:
    if not bound.is_timeless:
        raise Unsupported(
            "the answer would change with the clock, not with commits",
            detail="It uses now(), current_date, current_week() or current_scn().",
            hint="Compare with a column, or put the condition where the changes are read.",
            position=bound.place_of_moment,
        )
    refuse_volatile(bound)


def _check_source(relation: object, source: str, query: Sql) -> None:
    if source == "changes" and isinstance(relation, Table):
        log = place_of_relation(query, f"clog_{relation.name}")
        raise Unsupported(
            f'what is kept by changes cannot read the change log of "{relation.name}"',
            detail="A change log has no change log of its own.",
            hint=f'Read "{relation.name}": what comes out are its changes. Or read the log in an ordinary view.',
            position=log or place_of_relation(query, relation.name),
        )
    if source == "late" and isinstance(relation, Stream):
        raise Unsupported(
            f'what is kept by changes cannot read the late rows of "{relation.name}"',
            detail="They have no change log.",
            hint="Read them in an ordinary view.",
            position=place_of_relation(query, f"late_{relation.name}"),
        )


def _columns(bound: BoundQuery, query: Sql) -> tuple[tuple[str, Type], ...]:
    columns = tuple((output.name, output.type) for output in bound.outputs)
    _check_names([column for column, _ in columns], query)
    return columns


def _check_names(names: Sequence[str], query: Sql) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DuplicateName(
                f'column "{name}" specified more than once',
                hint="Give one of them another name with AS.",
                sqlstate="42701",
                position=place_of_output(query, name),
            )


def _outputs(query: Sql, names: Sequence[str], definition: Definition) -> tuple[Output, ...]:
    """What each item of the select list hands out; what is wrong with one is told at its place in the query as it was
    written, with its stars."""
    from midstream.sql import parse_query

    items, arguments = items_of(parse_query(definition.text)), iter(arguments_of(query))
    items = items or [Item(None) for _ in names]
    found, place = list[Output](), 0
    for item in items:
        if item.function is None:
            found.append(Output(names[place], "row", place))
            place += 1
        elif item.argument is None:
            found.append(Output(str(item.alias), "kind"))
        else:
            found.append(Output(str(item.alias), "old", place_of_old(item, items, names, position_of(next(arguments)))))
    _check_names([output.name for output in found], query)
    if place != len(names):
        raise InvalidQuery("a * over columns of the same name cannot be kept", hint="Name the columns.")
    return tuple(found)


def _when(compute: Compute) -> tuple[When, bool, float | None, int | None]:
    if compute.when == "on commit":
        if compute.transactional is False:
            raise InvalidDefinition(
                "ON COMMIT is commit by commit", hint="BATCHED goes with ON DEMAND and PERIOD.", sqlstate="42P16"
            )
        return "on commit", True, None, None
    start = None
    if compute.start_with is not None:
        try:
            moment = datetime.fromisoformat(compute.start_with)
        except ValueError:
            raise InvalidParameter(
                f"START WITH takes a date or a time, not '{compute.start_with}'", hint="Write '2027-01-01 00:00'."
            ) from None
        start = (moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)).timestamp()
    return compute.when, bool(compute.transactional), start, compute.period_seconds


def read_options(options: Options, known: Sequence[str]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in options.items():
        if name not in known:
            raise InvalidParameter(
                f'unrecognized option "{name}"', detail="The options are " + ", ".join(known) + ".", sqlstate="22023"
            )
        found[name] = value
    if "kinds" in found:
        kinds = tuple(kind.strip().upper() for kind in str(found["kinds"]).split(","))
        if not kinds or any(kind not in KINDS for kind in kinds):
            raise InvalidParameter(
                f"option \"kinds\" takes some of 'I, D, U', not {found['kinds']!r}", sqlstate="22023"
            )
        found["kinds"] = kinds
    if "refresh" in found and "kinds" in known:
        refresh = str(found["refresh"]).lower()
        if refresh not in REFRESHES:
            raise InvalidParameter(f'option "refresh" takes {", ".join(REFRESHES)}, not {refresh!r}', sqlstate="22023")
        found["refresh"] = refresh
    return found


# --- how it will be kept -------------------------------------------------------------------------------


def steps_of(store: Store, query: ContinuousQuery | MaterializedView, state: CatalogState) -> tuple[Step, ...]:
    """How its changes are computed when anything may have happened to its tables."""
    difference = _any_difference(store, query, state)
    return difference.steps if difference is not None else ()


def _any_difference(store: Store, query: ContinuousQuery | MaterializedView, state: CatalogState) -> Difference | None:
    plans = Plans(store, query)
    changed = plans.possible(state, "mixed")
    return plans.difference(state, changed, True, has_backing=plans.keeps_frames(state))


def _check_kernel(store: Store, query: ContinuousQuery | MaterializedView, state: CatalogState) -> None:
    """A kernel that can run the query may be unable to run its change, which is another one."""
    difference = _any_difference(store, query, state)
    reason = None if difference is None or difference.query is None else _refusal_of(difference.query, query.kernel)
    if reason is not None:
        raise Unsupported(
            f'the {query.kernel} kernel cannot compute what changes in "{query.name}"',
            detail=f"{reason}.",
            hint="SET kernel = 'auto' before it is created.",
        )


def _refusal_of(bound: BoundQuery, wanted: str) -> str | None:
    return next((reason for kernel, reason in bound.refusals.items() if kernel == wanted), None)


def check_maintenance(
    store: Store, query: ContinuousQuery | MaterializedView, state: CatalogState, context: BindContext
) -> list[str]:
    """Notices about what is computed anew; with refresh = 'incremental' that is an error."""
    plans = Plans(store, query)
    if plans.stream is not None:
        return []
    views = plans.views(state)
    if not views and query.kernel != "auto":
        _check_kernel(store, query, state)
    if query.refresh == "full":
        return []
    if views:
        if query.refresh == "incremental":
            names = ", ".join(dict.fromkeys(f'"{view.name}"' for view in views))
            raise _not_by_changes(query, [f"continuous view {names} has no log of what changed"])
        return ["it reads a continuous view: its answer is computed when that changes, and compared with the last"]
    anew = [step for step in steps_of(store, query, state) if step.kind == "recompute"]
    if anew and query.refresh == "incremental":
        raise _not_by_changes(query, [step.reason for step in anew])
    return [
        f"a part of it is computed before and after every change, and compared: {reason}"
        for reason in dict.fromkeys(step.reason for step in anew)
    ]


def _not_by_changes(query: ContinuousQuery | MaterializedView, reasons: Sequence[str]) -> Unsupported:
    return Unsupported(
        f'"{query.name}" cannot be kept by changes alone',
        detail="; ".join(dict.fromkeys(reasons)) + ".",
        hint="Leave refresh = 'incremental' out: that part is then computed before and after, and compared.",
    )


def _check_answer(writer: Writer, query: ContinuousQuery) -> None:
    """The key must hold for what is there; over a continuous view, this is seen with the first answer."""
    transaction = writer.transaction
    plans = Plans(transaction.store, query)
    if not query.key or plans.views(transaction.state):
        return
    bound = plans.bound(transaction.state)
    choice, sources = prepare(transaction.store, transaction, bound, writer.settings)
    places = [query.column_names.index(name) for name in query.key]
    piece = sources.piece(answer_check_text(bound.sql(choice.kernel), places))
    [answer] = transaction.store.engine.run(choice.kernel, [piece], label="key of a continuous query")
    if answer.table is not None and answer.table.num_rows:
        raise key_violation(query, list(answer.table.slice(0, 1).to_pylist()[0].values()))


# --- ALTER -----------------------------------------------------------------------------------------------


def alter_continuous_query(writer: Writer, statement: AlterContinuousQuery) -> None:
    """COMPUTE and DESTINATION; states are changed at once, outside of transactions."""
    transaction = writer.transaction
    query = find_query(transaction.state, statement.name, statement, "query")
    if isinstance(statement.action, Compute):
        when, transactional, start, period = _when(statement.action)
        query = replace(query, when=when, transactional=transactional, start_at=start, period_seconds=period)
    elif isinstance(statement.action, Destination):
        query = replace(query, destination=statement.action.name, is_queue=statement.action.is_queue)
        transaction.define(prepare_destination(writer, query, transaction.state))
    transaction.define([query])
