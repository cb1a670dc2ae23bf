"""CREATE, ALTER and DROP of continuous queries, materialized views, queues and triggers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import cast

from midstream.errors import (
    DependentObjects,
    DuplicateName,
    InvalidDefinition,
    InvalidParameter,
    InvalidQuery,
    TypeMismatch,
    UndefinedName,
    Unsupported,
    WrongObject,
)
from midstream.plan import BindContext, BoundQuery, bind_query, freeze_stars
from midstream.plan.difference import Changed, Step
from midstream.plan.difference.facts import increasing_tables, key_holds, refuse_volatile
from midstream.relations.catalog import CatalogState
from midstream.relations.query import (
    KINDS,
    ContinuousQuery,
    MaterializedView,
    Output,
    Queue,
    Refresh,
    Trigger,
    When,
)
from midstream.relations.schema import Relation
from midstream.relations.stream import Stream
from midstream.relations.table import Column, Key, Table
from midstream.relations.view import ContinuousView, View
from midstream.runtime.continuous.computing import Plans
from midstream.runtime.continuous.delivering import dead_letters, destination_names, function_of, trigger_reader
from midstream.runtime.continuous.queries import key_violation
from midstream.runtime.continuous.streamed import rows_of_stream
from midstream.runtime.continuous.texts import answer_check_text
from midstream.runtime.query import prepare
from midstream.runtime.settings import read_duration
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import StateSchema
from midstream.runtime.writing import Writer
from midstream.sql.change_items import items_of, place_of_old, row_query, row_tree
from midstream.sql.mentions import place_of_name, relations_named
from midstream.sql.statements import (
    AlterContinuousQuery,
    Compute,
    CreateContinuousQuery,
    CreateQueue,
    CreateTrigger,
    CreateView,
    Destination,
    Options,
    Sql,
)
from midstream.types import BIGINT, TEXT, TIMESTAMPTZ, Type

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
    transaction = writer.transaction
    state = transaction.state
    _check_free(state, statement.name)
    query = defined_query(writer, statement)
    transaction.store.queries.materialized.bring_to_base(transaction, Plans(transaction.store, query).stored(state))
    if query.destination is not None:
        transaction.define(_destination(writer, query, state))
    notices = check_maintenance(writer.transaction.store, query, writer.transaction.state, writer.context)
    _check_answer(writer, query)
    transaction.define([query])
    if Plans(transaction.store, query).views(state):
        transaction.store.queries.first_answers[query.id] = transaction.store.queries.answers.first(query)
        notices.append(
            "it reads a continuous view: its answer is computed when that changes, and compared with the last"
        )
    return notices


def defined_query(writer: Writer, statement: CreateContinuousQuery) -> ContinuousQuery:
    """What it would be."""
    return _define(writer, statement, _read_options(statement.options, ("refresh", "kinds")))


def _define(writer: Writer, statement: CreateContinuousQuery, options: Mapping[str, object]) -> ContinuousQuery:
    state, store = writer.transaction.state, writer.transaction.store
    definition = define_query(store, statement.query, state, writer.context, statement.name)
    columns = _columns(definition.bound, statement.name)
    names = [name for name, _ in columns]
    outputs = _outputs(Sql(statement.query.tree(), definition.text), names, store, definition)
    for name in statement.primary_key:
        if name not in names:
            raise UndefinedName(
                f'column "{name}" named in key is not in the select list',
                hint="The columns are " + ", ".join(names) + ".",
                sqlstate="42703",
                position=place_of_name(statement, name, after="key"),
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
        rows = rows_of_stream(query.text, schema, context)
        _check_timeless(rows.query)
        text = freeze_stars(query, schema, context, takes_streams=True, prepared=row_tree).text
        return Definition(replace(rows.query, outputs=rows.outputs), text, (stream,), stream)
    bound = bind_query(row_query(query), schema, context)
    _check_timeless(bound)
    for scan in bound.scans:
        _check_source(scan.relation, scan.source)
    reads = relations_read(query, state)
    if name in reads:
        raise InvalidDefinition(f'"{name}" would read itself', sqlstate="42P17")
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
        )
    refuse_volatile(bound)


def _check_source(relation: object, source: str) -> None:
    if source == "changes" and isinstance(relation, Table):
        raise Unsupported(
            f'a continuous query cannot read the change log of "{relation.name}"',
            hint="Read the table: what is handed out are its changes.",
        )


def _columns(bound: BoundQuery, name: str) -> tuple[tuple[str, Type], ...]:
    columns = tuple((output.name, output.type) for output in bound.outputs)
    names = [column for column, _ in columns]
    for column in names:
        if names.count(column) > 1:
            raise DuplicateName(f'column "{column}" specified more than once', sqlstate="42701")
    return columns


def _outputs(query: Sql, names: Sequence[str], store: Store, definition: Definition) -> tuple[Output, ...]:
    from midstream.sql import parse_query

    items = items_of(parse_query(definition.text))
    found, place = list[Output](), 0
    for item in items:
        if item.function is None:
            found.append(Output(names[place], "row", place))
            place += 1
        elif item.argument is None:
            found.append(Output(str(item.alias), "kind"))
        else:
            found.append(Output(str(item.alias), "old", place_of_old(item, items, names)))
    given = [output.name for output in found]
    for name in given:
        if given.count(name) > 1:
            raise DuplicateName(f'column "{name}" specified more than once', sqlstate="42701")
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


def _read_options(options: Options, known: Sequence[str]) -> dict[str, object]:
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


def _check_free(state: CatalogState, name: str) -> None:
    from midstream.runtime.definitions import check_name

    check_name(name)
    if name in state.relations:
        raise DuplicateName(f'relation "{name}" already exists')


# --- how it will be kept -------------------------------------------------------------------------------


def steps_of(store: Store, query: ContinuousQuery | MaterializedView, state: CatalogState) -> tuple[Step, ...]:
    """How its changes are computed when anything may have happened to its tables."""
    plans = Plans(store, query)
    changed = {table.id: Changed("mixed") for table in plans.tables(state)}
    difference = plans.difference(state, changed, True)
    return difference.steps if difference is not None else ()


def check_maintenance(
    store: Store, query: ContinuousQuery | MaterializedView, state: CatalogState, context: BindContext
) -> list[str]:
    """Notices about what is computed anew; with refresh = 'incremental' that is an error."""
    plans = Plans(store, query)
    if query.refresh == "full" or plans.stream is not None or plans.views(state):
        return []
    anew = [step for step in steps_of(store, query, state) if step.kind == "recompute"]
    if anew and query.refresh == "incremental":
        raise Unsupported(
            f'"{query.name}" cannot be kept by changes alone',
            detail="; ".join(dict.fromkeys(step.reason for step in anew)) + ".",
            hint="Leave refresh = 'incremental' out: that part is then computed before and after, and compared.",
        )
    return [
        f"a part of it is computed before and after every change, and compared: {reason}"
        for reason in dict.fromkeys(step.reason for step in anew)
    ]


def _check_answer(writer: Writer, query: ContinuousQuery) -> None:
    """The key must hold for what is there."""
    if not query.key or query.stream is not None:
        return
    transaction = writer.transaction
    bound = Plans(transaction.store, query).bound(transaction.state)
    choice, sources = prepare(transaction.store, transaction, bound, writer.settings)
    places = [query.column_names.index(name) for name in query.key]
    piece = sources.piece(answer_check_text(bound.sql(choice.kernel), places))
    [answer] = transaction.store.engine.run(choice.kernel, [piece], label="key of a continuous query")
    if answer.table is not None and answer.table.num_rows:
        raise key_violation(query, list(answer.table.slice(0, 1).to_pylist()[0].values()))


# --- destinations --------------------------------------------------------------------------------------


def _destination(writer: Writer, query: ContinuousQuery, state: CatalogState) -> list[Relation]:
    """What must be made for a destination to be there."""
    name = str(query.destination)
    found = state.relations.get(name)
    if query.is_queue:
        return _queue(writer.transaction.store, query, found, state)
    if found is None:
        raise UndefinedName(
            f'the destination table "{name}" does not exist', hint=f"{_fitting_table(query, name)} makes one that fits."
        )
    if not isinstance(found, Table) or isinstance(found, MaterializedView):
        raise WrongObject(f'the destination "{name}" is not a table')
    check_fits(query, found)
    _check_cycle(query, state, name)
    return []


def _queue(store: Store, query: ContinuousQuery, found: Relation | None, state: CatalogState) -> list[Relation]:
    name = str(query.destination)
    if found is None:
        _check_free(state, name)
        return [Queue(store.catalog.new_id(), name)]
    if not isinstance(found, Queue):
        raise WrongObject(f'"{name}" is not a queue')
    other = query_of_queue(state, name)
    if other is not None and other.id != query.id:
        raise DependentObjects(
            f'queue "{name}" takes the changes of continuous query "{other.name}"',
            detail="A queue has the changes of one query.",
        )
    return []


def query_of_queue(state: CatalogState, name: str) -> ContinuousQuery | None:
    queries = (r for r in state.relations.values() if isinstance(r, ContinuousQuery))
    return next((query for query in queries if query.is_queue and query.destination == name), None)


def _fitting_table(query: ContinuousQuery, name: str) -> str:
    columns = ", ".join(f"{column} {type_}" for column, type_ in query.output_columns)
    return f"CREATE TABLE {name} ({columns})"


def check_fits(query: ContinuousQuery, table: Table) -> None:
    given = query.output_columns
    hint = f"{_fitting_table(query, table.name)} would fit."
    if len(table.columns) < len(given):
        raise InvalidDefinition(
            f'the destination "{table.name}" has {len(table.columns)} columns, and {len(given)} are handed out',
            hint=hint,
        )
    targets = destination_names(query, table)
    missing = [c.name for c in table.columns if c.not_null and c.default is None and c.name not in targets]
    if missing:
        raise InvalidDefinition(
            f'column "{missing[0]}" of the destination "{table.name}" is NOT NULL, and gets nothing', hint=hint
        )
    for (name, type_), target in zip(given, targets, strict=True):
        column = table.column(target)
        assert column is not None
        if not _assignable(type_, column.type):
            raise TypeMismatch(
                f'column "{target}" of the destination "{table.name}" is of type {column.type}, '
                f'but "{name}" is of type {type_}',
                hint=hint,
            )


def _assignable(given: Type, wanted: Type) -> bool:
    same = given.is_number and wanted.is_number or given.is_text and wanted.is_text
    return given == wanted or given.name == wanted.name or same


def _check_cycle(query: ContinuousQuery, state: CatalogState, destination: str) -> None:
    """What a query writes must not lead back to what it reads."""
    reached, todo = set[str](), [destination]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        for relation in state.relations.values():
            if isinstance(relation, ContinuousQuery) and name in relation.reads and relation.destination:
                todo.append(relation.destination)
            if isinstance(relation, View | MaterializedView) and name in relation.reads:
                todo.append(relation.name)
    if reached & set(query.reads):
        raise InvalidDefinition(
            f'continuous query "{query.name}" would read what it writes',
            detail=f'Its destination "{destination}" leads back to {", ".join(sorted(reached & set(query.reads)))}.',
            sqlstate="42P17",
        )


# --- ALTER -----------------------------------------------------------------------------------------------


def alter_continuous_query(writer: Writer, statement: AlterContinuousQuery) -> None:
    """COMPUTE and DESTINATION; states are changed at once, outside of transactions."""
    transaction = writer.transaction
    query = find_query(transaction.state, statement.name)
    if isinstance(statement.action, Compute):
        when, transactional, start, period = _when(statement.action)
        query = replace(query, when=when, transactional=transactional, start_at=start, period_seconds=period)
    elif isinstance(statement.action, Destination):
        query = replace(query, destination=statement.action.name, is_queue=statement.action.is_queue)
        transaction.define(_destination(writer, query, transaction.state))
    transaction.define([query])


def find_query(state: CatalogState, name: str) -> ContinuousQuery:
    found = state.relations.get(name)
    if found is None:
        raise UndefinedName(f'continuous query "{name}" does not exist')
    if not isinstance(found, ContinuousQuery):
        raise WrongObject(f'"{name}" is not a continuous query')
    return found


# --- queues and triggers -----------------------------------------------------------------------------------


def create_queue(writer: Writer, statement: CreateQueue) -> None:
    from midstream.runtime.definitions import is_there

    transaction = writer.transaction
    if is_there(transaction.state, statement.name, statement.if_not_exists):
        return
    _check_free(transaction.state, statement.name)
    transaction.define([Queue(transaction.store.catalog.new_id(), statement.name)])


def create_trigger(writer: Writer, statement: CreateTrigger) -> None:
    transaction = writer.transaction
    state, store = transaction.state, transaction.store
    _check_free(state, statement.name)
    query = find_query(state, statement.on)
    if statement.function is not None:
        _check_function(statement.function)
    trigger = Trigger(store.catalog.new_id(), statement.name, statement.on, statement.function, statement.channel)
    dead = dead_letters(statement.name)
    if dead not in state.relations:
        transaction.define([_dead_table(store, dead)])
    transaction.define([trigger])
    position = store.queries.log_of(query).position if query.id not in transaction.defined else state.scn
    name, text = store.queries.readers.written(query, trigger_reader(trigger), (position, 1 << 60))
    transaction.kept[name] = text


def _check_function(path: str) -> None:
    try:
        function_of(path)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise UndefinedName(
            f"there is no function '{path}'",
            detail=f"{type(error).__name__}: {error}",
            hint="Write 'package.module:function', of a module that this process can import.",
            sqlstate="42883",
        ) from error


def _dead_table(store: Store, name: str) -> Table:
    columns = (("id", TEXT), ("scn", BIGINT), ("kind", TEXT), ("row", TEXT), ("old", TEXT), ("error", TEXT))
    made = [Column(column, type_, id=number) for number, (column, type_) in enumerate(columns, 1)]
    return Table(store.catalog.new_id(), name, (*made, Column("failed_at", TIMESTAMPTZ, id=len(made) + 1)))


# --- materialized views --------------------------------------------------------------------------------------

VIEW_OPTIONS = ("refresh", "key")


def create_materialized_view(writer: Writer, statement: CreateView) -> list[str]:
    """Its answer is that of the picture of the transaction, whose SCN it is kept from."""
    from midstream.runtime.definitions import check_readers, is_there, replace_relation

    transaction, state = writer.transaction, writer.transaction.state
    known = state.relations.get(statement.name)
    if known is not None and not statement.or_replace and is_there(state, statement.name, statement.if_not_exists):
        return []
    if known is not None and not isinstance(known, MaterializedView):
        raise WrongObject(f'"{statement.name}" is not a materialized view')
    view = defined_view(writer, statement)
    transaction.store.queries.materialized.bring_to_base(transaction, Plans(transaction.store, view).stored(state))
    state = transaction.state
    notices = check_maintenance(transaction.store, view, state, writer.context)
    if known is not None:
        check_readers(transaction.store, known.name, replace_relation(state, known, view), writer.context)
        transaction.define(dropped=[known])
    transaction.define([view])
    bound = Plans(transaction.store, view).bound(state)
    writer.insert_query(view, bound)
    return notices


def defined_view(writer: Writer, statement: CreateView) -> MaterializedView:
    """What it would be."""
    from midstream.runtime.definitions import check_columns, check_name

    state, store = writer.transaction.state, writer.transaction.store
    check_name(statement.name)
    options = _read_options(statement.options, VIEW_OPTIONS)
    definition = define_query(store, statement.query, state, writer.context, statement.name)
    if definition.stream is not None or any(isinstance(s.relation, ContinuousView) for s in definition.bound.scans):
        raise Unsupported(
            "a materialized view over a continuous view is not supported",
            hint="A view over a continuous view is a continuous view: leave MATERIALIZED out.",
        )
    names = [output.name for output in definition.bound.outputs]
    if len(statement.columns) > len(names):
        raise InvalidDefinition("CREATE VIEW specifies more column names than columns", sqlstate="42601")
    names[: len(statement.columns)] = statement.columns
    outputs = definition.bound.outputs
    columns = tuple(
        Column(name, output.type, id=number)
        for number, (name, output) in enumerate(zip(names, outputs, strict=True), 1)
    )
    check_columns(statement.name, columns, "materialized view")
    when, period, refresh = _read_refresh(str(options.get("refresh", "on commit")))
    constraints = _view_key(statement.name, options.get("key"), columns)
    if constraints:
        required = constraints[0].columns
        columns = tuple(replace(c, not_null=True) if c.name in required else c for c in columns)
    return MaterializedView(
        store.catalog.new_id(),
        statement.name,
        columns,
        constraints,
        definition.text,
        definition.reads,
        when,
        period,
        refresh,
        str(writer.settings["kernel"]),
        increasing_tables(definition.bound),
    )


def _view_key(name: str, key: object, columns: Sequence[Column]) -> tuple[Key, ...]:
    if key is None:
        return ()
    wanted = tuple(part.strip() for part in str(key).split(","))
    for column in wanted:
        if column not in [known.name for known in columns]:
            raise UndefinedName(f'column "{column}" named in key does not exist', sqlstate="42703")
    return (Key(f"{name}_pkey", wanted, is_primary=True),)


def _read_refresh(text: str) -> tuple[When, float | None, Refresh]:
    word = " ".join(text.lower().split())
    if word in ("on commit", "on demand"):
        return cast(When, word), None, "auto"
    if word in ("incremental", "auto"):
        return "on commit", None, cast(Refresh, word)
    if word == "full":
        return "on commit", None, "full"
    try:
        seconds = read_duration(word)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise InvalidParameter(
            f'option "refresh" does not take {text!r}',
            hint="It takes 'on commit', 'on demand', 'incremental', 'full', or a length of time such as '1 minute'.",
            sqlstate="22023",
        )
    return "periodic", seconds, "auto"
