"""CREATE and DROP: definitions come and go with the transaction that they are part of.

A definition is checked whole before anything is made: names are free, references lead to keys of the same
types, conditions and defaults bind. What others read is not dropped under them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from midstream.errors import (
    DependentObjects,
    DuplicateName,
    Error,
    InvalidDefinition,
    InvalidParameter,
    Position,
    TypeMismatch,
    UndefinedName,
    Unsupported,
    WrongObject,
)
from midstream.plan import BindContext, Output, bind_condition, bind_default, bind_query, freeze_stars
from midstream.plan.cut import ViewPlan
from midstream.relations.catalog import CatalogState
from midstream.relations.definition import kind_of
from midstream.relations.query import ContinuousQuery, MaterializedView, Trigger
from midstream.relations.schema import Reader, Relation, RowHolder
from midstream.relations.stream import Stream
from midstream.relations.table import (
    ROW_ID,
    CheckConstraint,
    Column,
    ForeignKey,
    IncreasingConstraint,
    Key,
    Table,
    TableConstraint,
)
from midstream.relations.view import ContinuousView, View
from midstream.runtime.lateness import late_reader
from midstream.runtime.rows import STREAM_MARKS
from midstream.runtime.seeing import schema_seen, seeing
from midstream.runtime.store import Store
from midstream.runtime.stored_schema import ComputedSchema, StateSchema
from midstream.runtime.transaction import Transaction
from midstream.runtime.views import how_to_cut
from midstream.runtime.writing import Writer
from midstream.sql import parse_query
from midstream.sql.change_items import row_query
from midstream.sql.durations import microseconds_of
from midstream.sql.mentions import columns_named, place_of_name, place_of_output, place_of_relation, relations_named
from midstream.sql.statements import (
    Check,
    ColumnDefinition,
    Constraint,
    CreateTable,
    CreateTableAs,
    CreateView,
    Drop,
    Increasing,
    PrimaryKey,
    References,
    Sql,
    Unique,
)
from midstream.sql.text import listed_names
from midstream.types import Type

RESERVED_COLUMNS = frozenset([ROW_ID, "_action", "_change_type", "_commit_version", "_commit_timestamp"])
RESERVED_COLUMNS |= {name for name, _ in STREAM_MARKS}
READERS = (View, ContinuousQuery, MaterializedView)
RESERVED_PREFIXES = ("clog_", "late_", "dead_")


# --- tables ----------------------------------------------------------------------------------------


def create_table(writer: Writer, statement: CreateTable) -> None:
    transaction = writer.transaction
    if not is_there(transaction.state, statement.name, statement.if_not_exists):
        transaction.define([define_table(transaction, statement, writer.context)])


def create_table_as(writer: Writer, statement: CreateTableAs) -> int:
    """A table with the columns and the rows of a query; returns the number of rows."""
    transaction, context = writer.transaction, writer.context
    if is_there(transaction.state, statement.name, statement.if_not_exists):
        return 0
    bound = bind_query(statement.query, schema_seen(transaction, is_alone=writer.is_alone), context)
    columns = tuple(ColumnDefinition(output.name, output.type) for output in bound.outputs)
    table = define_table(transaction, CreateTable(statement.name, columns), context)
    transaction.define([table])
    return seeing(writer, bound).insert_query(table, bound)


def is_there(state: CatalogState, name: str, if_not_exists: bool) -> bool:
    """True if the name is taken and that is all right."""
    if name not in state.relations:
        return False
    if if_not_exists:
        return True
    raise DuplicateName(f'relation "{name}" already exists')


def define_table(transaction: Transaction, statement: CreateTable, context: BindContext) -> Table:
    """A table that is consistent in itself and with what is there."""
    check_name(statement.name)
    columns = tuple(define_column(column, number) for number, column in enumerate(statement.columns, 1))
    check_columns(statement.name, columns)
    table = Table(transaction.store.catalog.new_id(), statement.name, columns)
    for constraint in sorted(statement.constraints, key=lambda c: not isinstance(c, PrimaryKey)):
        table = with_constraint(table, constraint, transaction.state, context)
    for column in table.columns:
        if column.default is not None:
            bind_default(column, context)
    return table


def check_name(name: str) -> None:
    if name.startswith(RESERVED_PREFIXES):
        raise InvalidDefinition(
            f'the name "{name}" is not allowed',
            detail="Names that begin with clog_, late_ or dead_ belong to logs that the database keeps.",
            sqlstate="42939",
        )


def check_column_name(name: str, position: Position | None = None) -> None:
    if name in RESERVED_COLUMNS:
        raise InvalidDefinition(
            f'the column name "{name}" is not allowed',
            detail="The database uses it for itself.",
            position=position,
            sqlstate="42939",
        )


def define_column(definition: ColumnDefinition, id: int) -> Column:
    check_column_name(definition.name, definition.position)
    default = definition.default.text if definition.default is not None else None
    return Column(definition.name, definition.type, definition.not_null, default, id)


def check_columns(name: str, columns: Sequence[Column], kind: str = "table") -> None:
    if not columns:
        raise InvalidDefinition(f'{kind} "{name}" needs at least one column')
    for number, column in enumerate(columns):
        check_new_column(column.name, [known.name for known in columns[:number]])


def check_new_column(name: str, known: Sequence[str]) -> None:
    """Delta does not tell names apart by case, so neither may the columns of a table."""
    if name in known:
        raise DuplicateName(f'column "{name}" specified more than once', sqlstate="42701")
    same = next((other for other in known if other.lower() == name.lower()), None)
    if same is not None:
        raise DuplicateName(
            f'columns "{same}" and "{name}" differ only in case',
            detail="Tables are Delta tables, whose column names do not differ by case alone.",
            sqlstate="42701",
        )


# --- constraints -----------------------------------------------------------------------------------


def with_constraint(table: Table, constraint: Constraint, state: CatalogState, context: BindContext) -> Table:
    """The table with one constraint more, checked against the table and what it refers to."""
    defined = _define_constraint(table, constraint, state, context)
    if any(known.name == defined.name for known in table.constraints):
        raise DuplicateName(f'constraint "{defined.name}" for relation "{table.name}" already exists', sqlstate="42710")
    if isinstance(defined, Key) and defined.is_primary:
        table = replace(table, columns=tuple(_required(column, defined.columns) for column in table.columns))
    return replace(table, constraints=(*table.constraints, defined))


def _required(column: Column, names: Sequence[str]) -> Column:
    return replace(column, not_null=True) if column.name in names else column


def _define_constraint(
    table: Table, constraint: Constraint, state: CatalogState, context: BindContext
) -> TableConstraint:
    match constraint:
        case PrimaryKey(columns=columns):
            if table.primary_key is not None:
                raise InvalidDefinition(f'multiple primary keys for table "{table.name}" are not allowed')
            _check_known(table, columns)
            return Key(constraint.name or free_name(table, f"{table.name}_pkey"), columns, is_primary=True)
        case Unique(columns=columns):
            _check_known(table, columns)
            return Key(constraint.name or free_name(table, "_".join([table.name, *columns, "key"])), columns)
        case References():
            return _define_reference(table, constraint, state)
        case Check():
            return define_check(table, constraint, context)
        case Increasing(column=column, partition_by=parts, strictly=strictly):
            _check_known(table, (column, *parts))
            name = constraint.name or free_name(table, f"{table.name}_{column}_increasing")
            return IncreasingConstraint(name, column, parts, strictly)
        case _:
            raise AssertionError(constraint)


def define_check(table: RowHolder, constraint: Check, context: BindContext) -> CheckConstraint:
    bind_condition(constraint.condition, table, context)
    named = columns_named(constraint.condition)
    stem = [table.name, named[0], "check"] if len(named) == 1 else [table.name, "check"]
    return CheckConstraint(constraint.name or free_name(table, "_".join(stem)), constraint.condition.text)


def free_name(table: RowHolder, wanted: str) -> str:
    taken = {constraint.name for constraint in table.constraints}
    names = (wanted if number == 0 else f"{wanted}{number}" for number in range(len(taken) + 1))
    return next(name for name in names if name not in taken)


def _check_known(table: Table, names: Sequence[str]) -> None:
    for name in names:
        if table.column(name) is None:
            raise UndefinedName(f'column "{name}" named in key does not exist', sqlstate="42703")
    if len(set(names)) != len(names):
        raise DuplicateName("a column appears twice in one constraint", sqlstate="42701")


def _define_reference(table: Table, constraint: References, state: CatalogState) -> ForeignKey:
    _check_known(table, constraint.columns)
    referred = table if constraint.table == table.name else state.relations.get(constraint.table)
    if referred is None:
        raise UndefinedName(f'relation "{constraint.table}" does not exist', position=constraint.position)
    if not isinstance(referred, Table) or isinstance(referred, MaterializedView):
        raise WrongObject(f'referenced relation "{constraint.table}" is not a table', position=constraint.position)
    columns = constraint.referred or (referred.primary_key.columns if referred.primary_key else ())
    _check_referred(table, constraint, referred, columns)
    name = constraint.name or free_name(table, "_".join([table.name, *constraint.columns, "fkey"]))
    return ForeignKey(name, constraint.columns, referred.name, columns, constraint.on_delete)


def _check_referred(table: Table, constraint: References, referred: Table, columns: Sequence[str]) -> None:
    if not columns:
        raise InvalidDefinition(f'there is no primary key for referenced table "{referred.name}"', sqlstate="42704")
    _check_known(referred, columns)
    if len(columns) != len(constraint.columns):
        raise InvalidDefinition(
            "number of referencing and referenced columns for foreign key disagree", sqlstate="42830"
        )
    if not any(set(key.columns) == set(columns) for key in referred.keys):
        raise InvalidDefinition(
            f'there is no unique constraint matching given keys for referenced table "{referred.name}"',
            sqlstate="42830",
        )
    for ours, theirs in zip(constraint.columns, columns, strict=True):
        left, right = table.column(ours), referred.column(theirs)
        if left and right and not _comparable(left, right):
            raise TypeMismatch(
                f'foreign key column "{ours}" has type {left.type}, and "{theirs}" of table "{referred.name}" '
                f"has type {right.type}"
            )


def _comparable(left: Column, right: Column) -> bool:
    same_family = left.type.is_number and right.type.is_number or left.type.is_text and right.type.is_text
    return left.type == right.type or same_family


# --- views -----------------------------------------------------------------------------------------


def create_view(writer: Writer, statement: CreateView) -> tuple[str, ...]:
    transaction, context = writer.transaction, writer.context
    store, state = transaction.store, transaction.state
    check_name(statement.name)
    known = state.relations.get(statement.name)
    if not statement.or_replace and is_there(state, statement.name, statement.if_not_exists):
        return ()
    if known is not None and not isinstance(known, View):
        raise WrongObject(f'"{statement.name}" is not a view')
    view, notices = define_view(store, statement, state, writer)
    if isinstance(view, ContinuousView):
        _check_streams_are_there(transaction, statement)
    if known is not None:
        check_readers(store, known.name, replace_relation(state, known, view), context)
    is_same = type(view) is View and type(known) is View
    transaction.define([replace(view, id=known.id) if is_same and known is not None else view])
    if known is not None and not is_same:
        transaction.define(dropped=[known])
    return notices


def _check_streams_are_there(transaction: Transaction, statement: CreateView) -> None:
    """The reader of a stream is there before the view that it is for, and a new stream has none before COMMIT."""
    for name in relations_named(statement.query):
        stream = transaction.state.relations.get(name)
        if isinstance(stream, Stream) and stream.id in transaction.defined:
            raise Unsupported(
                f'a view over stream "{name}" can be made after COMMIT',
                detail="A continuous view reads what comes from then on, and this transaction makes the stream.",
                position=place_of_name(statement, name),
            )


def reads_stream(statement: CreateView, state: CatalogState) -> str | None:
    """The first stream that a view's query names."""
    named = relations_named(statement.query)
    return next((name for name in named if _is_stream(state.relations.get(name))), None)


def _is_stream(relation: Relation | None) -> bool:
    """A view over windows is one for other views: of what it hands out."""
    return isinstance(relation, Stream) or (isinstance(relation, ContinuousView) and relation.is_windowed)


VIEW_OPTIONS = ("backfill", "key", "maintenance", "retain")
MAINTENANCE = ("auto", "incremental", "reevaluate")


def define_view(
    store: Store, statement: CreateView, state: CatalogState, writer: Writer
) -> tuple[View, tuple[str, ...]]:
    schema, context = StateSchema(store.catalog, state), writer.context
    stream = reads_stream(statement, state)
    options = _view_options(statement, stream)
    notices: tuple[str, ...] = ()
    outputs: tuple[Output, ...]
    is_windowed, unit = False, None
    if stream is not None:
        how = how_to_cut(str(writer.settings["kernel"]), str(options.get("maintenance", "auto")))
        plan, unit = store.views.cut_new(statement.query, state, context, how, writer.settings)
        outputs, notices, is_windowed = plan.outputs, plan.notices, bool(plan.windows)
        _check_windowed(store, options, plan)
    else:
        outputs = bind_query(statement.query, schema, context).outputs
    names = [output.name for output in outputs]
    check_not_more_names(statement, len(names))
    names[: len(statement.columns)] = statement.columns
    _check_column_names(statement, names)
    reads = relations_read(statement.query, state)
    check_not_around(statement, reads, state)
    columns = tuple((name, output.type) for name, output in zip(names, outputs, strict=True))
    text = freeze_stars(statement.query, schema, context, takes_streams=stream is not None).text
    plain = (store.catalog.new_id(), statement.name, columns, text, reads)
    if stream is None:
        return View(*plain), notices
    kernel = "spark" if writer.settings["kernel"] == "spark" else "duckdb"
    kept = options.get("retain")
    return ContinuousView(
        *plain,
        kernel,
        bool(options.get("backfill")),
        is_windowed,
        str(options.get("maintenance", "auto")),
        kept if isinstance(kept, int) else None,
        kept if isinstance(kept, float) else None,
        _view_key(options, names),
        unit,
    ), notices


def check_not_more_names(statement: CreateView, count: int) -> None:
    if len(statement.columns) > count:
        raise InvalidDefinition(
            "CREATE VIEW specifies more column names than columns",
            detail=f"The query has {count}.",
            sqlstate="42601",
            position=place_of_name(statement, statement.columns[count], "("),
        )


def _check_column_names(statement: CreateView, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is None:
        return
    place = place_of_output(statement.query, twice)
    if place is None:
        place = place_of_name(statement, twice, "(" if twice in statement.columns else "")
    hint = "Give one of them another name with AS, or name the columns: CREATE VIEW v (a, b) AS …."
    raise DuplicateName(f'column "{twice}" specified more than once', hint=hint, sqlstate="42701", position=place)


def check_not_around(statement: CreateView, reads: Sequence[str], state: CatalogState) -> None:
    """A view that takes the place of another may not read what reads that one."""
    above = {statement.name, *(reader.name for reader in readers_of(state, statement.name))}
    name = next((name for name in reads if name in above), None)
    if name is None:
        return
    raise InvalidDefinition(
        f'view "{statement.name}" would read itself',
        detail=None if name == statement.name else f'"{name}" reads "{statement.name}", directly or through others.',
        hint="Create it under another name.",
        sqlstate="42P17",
        position=place_of_relation(statement.query, name),
    )


def _view_key(options: Mapping[str, object], names: Sequence[str]) -> tuple[str, ...]:
    if "key" not in options:
        return ()
    key = listed_names(str(options["key"]), names)
    for name in key:
        if name not in names:
            raise UndefinedName(
                f'column "{name}" named in key does not exist',
                hint="The columns are " + ", ".join(names) + ".",
                sqlstate="42703",
            )
    return key


def _check_windowed(store: Store, options: Mapping[str, object], plan: ViewPlan) -> None:
    for name in ("maintenance", "retain"):
        if name in options and not plan.windows:
            raise InvalidParameter(f'option "{name}" is one of views over windows', sqlstate="22023")
    if options.get("backfill"):
        _check_backfill(store, plan)
    for window, streams in zip(plan.windows, plan.window_streams, strict=True):
        for id in streams if window.slots.column is not None else ():
            known = late_reader(store, id)
            if known is not None and known[1].clock != window.slots.column:
                raise Unsupported(
                    f'windows over this stream go by its column "{known[1].clock}", not "{window.slots.column}"',
                    detail="A stream has one time of its own.",
                    hint="Create the stream WITH (timestamp = …), and another stream for another time.",
                )


def _check_backfill(store: Store, plan: ViewPlan) -> None:
    """A history has rows with times; which of them was the first is forgotten."""
    relations = store.catalog.state.relations.values()
    clocks = {relation.id: relation.timestamp for relation in relations if isinstance(relation, Stream)}
    for window, streams in zip(plan.windows, plan.window_streams, strict=True):
        if window.slots.column is None or any(clocks.get(id) != window.slots.column for id in streams):
            raise Unsupported(
                "a view over these windows cannot begin with the history of its streams",
                detail="Only windows by the time that a stream was created with can.",
                hint="Leave backfill out: it begins with the rows that come.",
            )


def _view_options(statement: CreateView, stream: str | None) -> dict[str, object]:
    options = {name: read_option(name, value) for name, value in statement.options.items()}
    if options and stream is None:
        raise Unsupported(
            f'"{next(iter(options))}" is an option of views over streams',
            hint="Leave WITH out: an ordinary view has no options.",
        )
    return options


def read_option(name: str, value: object) -> object:
    if name not in VIEW_OPTIONS:
        raise InvalidParameter(
            f'unrecognized option "{name}" of a view',
            detail="The options are " + ", ".join(VIEW_OPTIONS) + ".",
            sqlstate="22023",
        )
    if name == "maintenance":
        if str(value).lower() not in MAINTENANCE:
            raise InvalidParameter(
                f'option "maintenance" takes {", ".join(MAINTENANCE)}, not {value!r}', sqlstate="22023"
            )
        return str(value).lower()
    if name == "retain":
        return _read_retain(value)
    if name == "key":
        return str(value)
    if str(value).lower() not in ("true", "false", "on", "off", "1", "0"):
        raise InvalidParameter(f'option "{name}" takes true or false, not {value!r}', sqlstate="22023")
    return str(value).lower() in ("true", "on", "1")


def _read_retain(value: object) -> int | float:
    """A number of windows, or seconds."""
    if str(value).isdigit() and int(str(value)) > 0:
        return int(str(value))
    length = microseconds_of(str(value))
    if not length:
        raise InvalidParameter(
            f'option "retain" takes a number of windows or a length of time, not {value!r}',
            hint="Write retain = 1000, or retain = '1 day'.",
            sqlstate="22023",
        )
    return length / 1e6


def relations_read(query: Sql, state: CatalogState) -> tuple[str, ...]:
    """The relations that a query names, its change logs counted as their tables."""
    named = [name if name in state.relations else _base(name) for name in relations_named(query)]
    return tuple(dict.fromkeys(name for name in named if name in state.relations))


def _base(name: str) -> str:
    """The relation that a change log or late rows are of."""
    return next((name.removeprefix(prefix) for prefix in ("clog_", "late_") if name.startswith(prefix)), name)


# --- who reads whom --------------------------------------------------------------------------------


def readers_of(state: CatalogState, name: str) -> list[Reader]:
    """The views and continuous queries that read a relation, directly or through others."""
    found: list[Reader] = []
    for relation in state.relations.values():
        if isinstance(relation, READERS) and name in relation.reads and relation not in found:
            found.append(relation)
            found += [view for view in readers_of(state, relation.name) if view not in found]
    return found


def writers_of(state: CatalogState, name: str) -> list[ContinuousQuery]:
    """The continuous queries whose destination a table is."""
    queries = (relation for relation in state.relations.values() if isinstance(relation, ContinuousQuery))
    return [query for query in queries if query.destination == name and not query.is_queue]


def replace_relation(state: CatalogState, old: Relation, new: Relation) -> CatalogState:
    relations = {name: relation for name, relation in state.relations.items() if relation.id != old.id}
    return replace(state, relations={**relations, new.name: new})


def broken_readers(store: Store, name: str, state: CatalogState, context: BindContext) -> list[Reader]:
    """The views and continuous queries over a relation that would no longer give what they give now."""
    return [view for view in readers_of(state, name) if not _still_binds(store, view, state, context)]


def _still_binds(store: Store, view: Reader, state: CatalogState, context: BindContext) -> bool:
    schema = StateSchema(store.catalog, state)
    try:
        if isinstance(view, ContinuousQuery):
            return _types(bind_query(row_query(parse_query(view.query)), schema, context).outputs) == _types_of(view)
        if isinstance(view, ContinuousView):
            plan = store.views.cut(view, ComputedSchema(store.catalog, state), context)
            return _types(plan.outputs) == _types_of(view) and store.views.keeps(view, plan)
        return _types(bind_query(parse_query(view.query), schema, context).outputs) == _types_of(view)
    except Error:
        return False


def _types(outputs: Sequence[Output]) -> list[Type]:
    return [output.type for output in outputs]


def _types_of(view: Reader) -> list[Type]:
    if isinstance(view, MaterializedView):
        return [column.type for column in view.columns]
    return [type_ for _, type_ in view.columns]


def check_readers(store: Store, name: str, state: CatalogState, context: BindContext) -> None:
    broken = broken_readers(store, name, state, context)
    if broken:
        raise_dependent(name, [described(view) for view in broken], "Drop them first.")


def described(relation: Relation) -> str:
    kind = "view" if isinstance(relation, View | MaterializedView) else kind_of(relation)
    return f'{kind} "{relation.name}"'


def raise_dependent(
    name: str, dependents: Sequence[str], hint: str = "Drop them first, or use DROP … CASCADE."
) -> None:
    raise DependentObjects(
        f'cannot drop or change "{name}" because others depend on it',
        detail="They are " + ", ".join(dependents) + ".",
        hint=hint,
    )


# --- DROP ------------------------------------------------------------------------------------------


def drop(transaction: Transaction, statement: Drop) -> None:
    state = transaction.state
    doomed: dict[int, Relation] = {}
    altered: dict[int, Table] = {}
    for name in statement.names:
        relation = _find(state, statement, name)
        if relation is not None:
            _doom(state, relation, statement, doomed, altered)
    survivors = [table for table in altered.values() if table.id not in doomed]
    transaction.define(survivors, dropped=doomed.values())


def _find(state: CatalogState, statement: Drop, name: str) -> Relation | None:
    relation = state.relations.get(name)
    if relation is None:
        if statement.if_exists:
            return None
        raise UndefinedName(f'{statement.kind} "{name}" does not exist')
    kind = "view" if isinstance(relation, View | MaterializedView) else kind_of(relation)
    if kind != statement.kind:
        raise WrongObject(f'"{name}" is not a {statement.kind}', hint=f"Use DROP {kind.upper()} to remove a {kind}.")
    return relation


def _doom(
    state: CatalogState,
    relation: Relation,
    statement: Drop,
    doomed: dict[int, Relation],
    altered: dict[int, Table],
) -> None:
    """The relation, and with CASCADE all that needs it."""
    doomed[relation.id] = relation
    readers = readers_of(state, relation.name)
    referring = [
        table
        for table in state.relations.values()
        if isinstance(table, Table) and table.id != relation.id and _refers(table, relation.name)
    ]
    needed = [other for other in _needing(state, relation) if other not in readers]
    dependents = [described(other) for other in (*readers, *needed) if other.name not in statement.names]
    dependents += [f'table "{table.name}" (foreign key)' for table in referring if table.name not in statement.names]
    if dependents and not statement.cascade:
        raise_dependent(relation.name, dependents)
    doomed |= {other.id: other for other in (*readers, *needed)}
    for other in (*readers, *needed):
        doomed |= {trigger.id: trigger for trigger in _needing(state, other)}
    for table in referring:
        table = altered.get(table.id, table)
        kept = tuple(c for c in table.constraints if not (isinstance(c, ForeignKey) and c.table == relation.name))
        altered[table.id] = replace(table, constraints=kept)


def _needing(state: CatalogState, relation: Relation) -> list[Relation]:
    """The triggers of a continuous query, and the queries whose destination a relation is."""
    return [
        other
        for other in state.relations.values()
        if (isinstance(other, Trigger) and other.on == relation.name)
        or (isinstance(other, ContinuousQuery) and other.destination == relation.name)
    ]


def _refers(table: Table, name: str) -> bool:
    return any(key.table == name for key in table.foreign_keys)
