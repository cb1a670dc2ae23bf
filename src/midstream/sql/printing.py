"""Statements → text of our dialect: `parse_one(to_sql(statement)) == statement` for every statement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import singledispatch

from midstream.errors import InternalError
from midstream.sql import statements as s
from midstream.sql.statements import DEFAULT
from midstream.sql.text import quote_name, quote_string


@singledispatch
def to_sql(statement: s.Statement) -> str:
    """The statement as text, in one canonical spelling."""
    raise InternalError(f"{type(statement).__name__} has no text")


# --- queries and settings ------------------------------------------------------------------------


@to_sql.register
def _(statement: s.Select) -> str:
    return statement.query.text


@to_sql.register
def _(statement: s.Explain) -> str:
    target = statement.target
    text = f"VIEW {quote_name(target)}" if isinstance(target, str) else to_sql(target)
    return f"EXPLAIN {'(ANALYZE) ' if statement.analyze else ''}{text}"


@to_sql.register
def _(statement: s.Show) -> str:
    shown = ("streams", "tables", "views", "continuous queries", "status", "all")
    return "SHOW " + (statement.what.upper() if statement.what in shown else _setting(statement.what))


@to_sql.register
def _(statement: s.Describe) -> str:
    return f"DESCRIBE {quote_name(statement.name)}"


@to_sql.register
def _(statement: s.Set) -> str:
    name = _setting(statement.name)
    if statement.value is None:
        return f"RESET {'ALL' if statement.name == 'all' else name}"
    return f"SET {name} = {_literal(statement.value)}"


def _setting(name: str) -> str:
    return ".".join(quote_name(part) for part in name.split("."))


# --- tables --------------------------------------------------------------------------------------


@to_sql.register
def _(statement: s.CreateTable) -> str:
    elements = _elements(statement.columns, statement.constraints)
    return f"CREATE TABLE {_if_not(statement.if_not_exists)}{quote_name(statement.name)} {elements}"


@to_sql.register
def _(statement: s.CreateTableAs) -> str:
    return f"CREATE TABLE {_if_not(statement.if_not_exists)}{quote_name(statement.name)} AS {statement.query.text}"


@to_sql.register
def _(statement: s.CreateStream) -> str:
    elements = _elements(statement.columns, statement.constraints)
    head = f"CREATE STREAM {_if_not(statement.if_not_exists)}{quote_name(statement.name)} {elements}"
    return head + _with(statement.options)


@to_sql.register
def _(statement: s.AlterTable) -> str:
    alterations = ", ".join(_alteration(alteration) for alteration in statement.alterations)
    exists = "IF EXISTS " if statement.if_exists else ""
    return f"ALTER TABLE {exists}{quote_name(statement.name)} {alterations}"


@to_sql.register
def _(statement: s.Drop) -> str:
    exists = "IF EXISTS " if statement.if_exists else ""
    cascade = " CASCADE" if statement.cascade else ""
    return f"DROP {statement.kind.upper()} {exists}{_names(statement.names)}{cascade}"


def _if_not(if_not_exists: bool) -> str:
    return "IF NOT EXISTS " if if_not_exists else ""


def _names(names: Iterable[str]) -> str:
    return ", ".join(quote_name(name) for name in names)


def _elements(columns: Sequence[s.ColumnDefinition], constraints: Sequence[s.Constraint]) -> str:
    return f"({', '.join([*map(_column, columns), *map(_constraint, constraints)])})"


def _column(column: s.ColumnDefinition) -> str:
    default = f" DEFAULT {column.default.text}" if column.default is not None else ""
    return f"{quote_name(column.name)} {column.type}{default}{' NOT NULL' if column.not_null else ''}"


def _constraint(constraint: s.Constraint) -> str:
    name = f"CONSTRAINT {quote_name(constraint.name)} " if constraint.name is not None else ""
    return name + _constraint_body(constraint)


def _constraint_body(constraint: s.Constraint) -> str:
    match constraint:
        case s.PrimaryKey():
            return f"PRIMARY KEY ({_names(constraint.columns)})"
        case s.Unique():
            return f"UNIQUE ({_names(constraint.columns)})"
        case s.Check():
            return f"CHECK ({constraint.condition.text})"
        case s.References():
            referred = f" ({_names(constraint.referred)})" if constraint.referred else ""
            cascade = " ON DELETE CASCADE" if constraint.on_delete == "cascade" else ""
            columns = _names(constraint.columns)
            return f"FOREIGN KEY ({columns}) REFERENCES {quote_name(constraint.table)}{referred}{cascade}"
        case s.Increasing():
            strictly = "STRICTLY " if constraint.strictly else ""
            partition = f" PARTITION BY {_names(constraint.partition_by)}" if constraint.partition_by else ""
            return f"{strictly}INCREASING {quote_name(constraint.column)}{partition}"
        case _:
            raise InternalError(f"{type(constraint).__name__} has no text")


def _alteration(alteration: s.Alteration) -> str:
    match alteration:
        case s.AddColumn(column, constraints, if_not_exists):
            own = "".join(f" {_own_constraint(column.name, constraint)}" for constraint in constraints)
            return f"ADD COLUMN {_if_not(if_not_exists)}{_column(column)}{own}"
        case s.DropColumn(name, cascade, if_exists):
            return f"DROP COLUMN {'IF EXISTS ' if if_exists else ''}{quote_name(name)}{' CASCADE' if cascade else ''}"
        case s.RenameColumn(name, to):
            return f"RENAME COLUMN {quote_name(name)} TO {quote_name(to)}"
        case s.RenameTable(to):
            return f"RENAME TO {quote_name(to)}"
        case s.AddConstraint(constraint):
            return f"ADD {_constraint(constraint)}"
        case s.DropConstraint(name, cascade, if_exists):
            exists = "IF EXISTS " if if_exists else ""
            return f"DROP CONSTRAINT {exists}{quote_name(name)}{' CASCADE' if cascade else ''}"
        case s.SetDefault(column_name, None):
            return f"ALTER COLUMN {quote_name(column_name)} DROP DEFAULT"
        case s.SetDefault(column_name, s.Sql() as default):
            return f"ALTER COLUMN {quote_name(column_name)} SET DEFAULT {default.text}"
        case s.SetNotNull(column_name, not_null):
            return f"ALTER COLUMN {quote_name(column_name)} {'SET' if not_null else 'DROP'} NOT NULL"
    raise InternalError(f"{type(alteration).__name__} has no text")


def _own_constraint(column: str, constraint: s.Constraint) -> str:
    """A constraint written behind its column, without naming the column again."""
    named = _constraint(constraint)
    column = quote_name(column)
    for written, own in (
        (f"PRIMARY KEY ({column})", "PRIMARY KEY"),
        (f"UNIQUE ({column})", "UNIQUE"),
        (f"FOREIGN KEY ({column}) REFERENCES", "REFERENCES"),
        (f"INCREASING {column}", "INCREASING"),
    ):
        named = named.replace(written, own, 1)
    return named


# --- data ----------------------------------------------------------------------------------------


@to_sql.register
def _(statement: s.InsertValues) -> str:
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in statement.rows)
    return f"{_insert(statement.table, statement.columns)} VALUES {rows}"


@to_sql.register
def _(statement: s.InsertQuery) -> str:
    source = "DEFAULT VALUES" if statement.query is None else statement.query.text
    return f"{_insert(statement.table, statement.columns)} {source}"


def _insert(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {quote_name(table)}" + (f" ({_names(columns)})" if columns else "")


@to_sql.register
def _(statement: s.Update) -> str:
    return statement.tree.text


@to_sql.register
def _(statement: s.Delete) -> str:
    return statement.tree.text


@to_sql.register
def _(statement: s.Merge) -> str:
    return statement.tree.text


@to_sql.register
def _(statement: s.Copy) -> str:
    if statement.query is not None:
        source = f"({statement.query.text})"
    else:
        source = quote_name(statement.table or "") + (f" ({_names(statement.columns)})" if statement.columns else "")
    standard = "STDIN" if statement.direction == "from" else "STDOUT"
    path = standard if statement.path is None else quote_string(statement.path)
    options = ", ".join(f"{key.upper()} {_literal(value)}" for key, value in statement.options.items())
    return f"COPY {source} {statement.direction.upper()} {path}" + (f" WITH ({options})" if options else "")


@to_sql.register
def _(statement: s.Begin) -> str:
    return "BEGIN"


@to_sql.register
def _(statement: s.Commit) -> str:
    return "COMMIT"


@to_sql.register
def _(statement: s.Rollback) -> str:
    return "ROLLBACK"


def _literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return quote_string(value)
        case _ if value is DEFAULT:
            return "DEFAULT"
        case _:
            return str(value)


def _with(options: s.Options) -> str:
    if not options:
        return ""
    return f" WITH ({', '.join(f'{quote_name(key)} = {_literal(value)}' for key, value in options.items())})"


# --- views and continuous queries ----------------------------------------------------------------


@to_sql.register
def _(statement: s.CreateView) -> str:
    kind = "" if statement.kind == "plain" else f"{statement.kind.upper()} "
    columns = f" ({_names(statement.columns)})" if statement.columns else ""
    head = f"CREATE {'OR REPLACE ' if statement.or_replace else ''}{kind}VIEW {_if_not(statement.if_not_exists)}"
    return f"{head}{quote_name(statement.name)}{columns}{_with(statement.options)} AS {statement.query.text}"


@to_sql.register
def _(statement: s.CreatePartView) -> str:
    name = quote_name(statement.name)
    head = f"CREATE {'OR REPLACE ' if statement.or_replace else ''}VIEW {name}{_with(statement.options)} AS"
    initialize = f"INITIALIZE {name}[{quote_name(statement.initialize_index)}] AS {statement.initialize.text}"
    update = f"UPDATE {name}[{quote_name(statement.update_index)}] AS {statement.update.text}"
    return f"{head} {initialize} {update} PARTITION LENGTH {statement.partition_length}"


@to_sql.register
def _(statement: s.CreateContinuousQuery) -> str:
    parts = [f"CREATE CONTINUOUS QUERY {_if_not(statement.if_not_exists)}{quote_name(statement.name)}"]
    if statement.primary_key:
        parts.append(f"PRIMARY KEY ({_names(statement.primary_key)})")
    if statement.compute is not None:
        parts.append(_compute(statement.compute))
    if statement.destination is not None:
        parts.append(_destination(statement.destination))
    return " ".join(parts) + _with(statement.options) + f" AS {statement.query.text}"


@to_sql.register
def _(statement: s.AlterContinuousQuery) -> str:
    match statement.action:
        case s.Compute() as compute:
            action = _compute(compute)
        case s.Destination() as destination:
            action = _destination(destination)
        case word:
            action = word.upper()
    return f"ALTER CONTINUOUS QUERY {quote_name(statement.name)} {action}"


def _compute(compute: s.Compute) -> str:
    mode = {None: "", True: "TRANSACTIONAL ", False: "BATCHED "}[compute.transactional]
    if compute.when != "periodic":
        return f"COMPUTE {mode}{compute.when.upper()}"
    start = f"START WITH {quote_string(compute.start_with)} " if compute.start_with is not None else ""
    return f"COMPUTE {mode}{start}PERIOD {compute.period_seconds} SECONDS"


def _destination(destination: s.Destination) -> str:
    return f"DESTINATION {'QUEUE ' if destination.is_queue else ''}{quote_name(destination.name)}"


@to_sql.register
def _(statement: s.CreateTrigger) -> str:
    if statement.function is not None:
        action = f"EXECUTE {quote_string(statement.function)}"
    else:
        action = f"NOTIFY {quote_name(statement.channel or '')}"
    return f"CREATE TRIGGER {quote_name(statement.name)} ON {quote_name(statement.on)} FOR EACH ROW {action}"


@to_sql.register
def _(statement: s.CreateQueue) -> str:
    return f"CREATE QUEUE {_if_not(statement.if_not_exists)}{quote_name(statement.name)}"


@to_sql.register
def _(statement: s.Subscribe) -> str:
    snapshot = " WITH (snapshot)" if statement.snapshot else ""
    after = f" AS OF SCN {statement.after_scn}" if statement.after_scn is not None else ""
    return f"SUBSCRIBE TO {quote_name(statement.name)}{snapshot}{after}"


@to_sql.register
def _(statement: s.RefreshView) -> str:
    return f"REFRESH MATERIALIZED VIEW {quote_name(statement.name)}{' FULL' if statement.full else ''}"
