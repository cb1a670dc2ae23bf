"""What a text can say, as frozen values: one class for each statement of the language.

A statement keeps `text`, its own SQL as the user wrote it, and `start`, where that text begins in what
was handed to `parse`, so that a position in the statement is a position in the user's script. Queries and
scalar expressions stay sqlglot trees inside `Sql`, which hands out copies only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from sqlglot import exp

from midstream.errors import Position
from midstream.types import Type


@dataclass(frozen=True)
class Sql:
    """An immutable sqlglot tree: a query, a condition, a default."""

    _tree: exp.Expression = field(repr=False, compare=False)
    text: str
    """The tree printed in our dialect: what makes two of them equal, and what the catalog keeps."""

    def tree(self) -> exp.Expression:
        return self._tree.copy()


Name = str
"""A relation's or column's name, lower-cased unless it was quoted."""


@dataclass(frozen=True)
class Statement:
    text: str = field(default="", kw_only=True, compare=False)
    start: Position = field(default=(1, 1), kw_only=True, compare=False)


# --- queries -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Select(Statement):
    """Any query: SELECT, WITH, VALUES, TABLE t, set operations."""

    query: Sql


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [(ANALYZE)] of a statement, or EXPLAIN VIEW name."""

    target: Statement | Name
    analyze: bool = False


@dataclass(frozen=True)
class Show(Statement):
    """SHOW STREAMS | TABLES | VIEWS | CONTINUOUS QUERIES | STATUS | a setting."""

    what: str


@dataclass(frozen=True)
class Describe(Statement):
    name: Name


@dataclass(frozen=True)
class Set(Statement):
    """SET name = value; value None: back to the default (RESET name, SET name = DEFAULT)."""

    name: Name
    value: object | None


# --- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnDefinition:
    name: Name
    type: Type
    not_null: bool = False
    default: Sql | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Constraint:
    """A constraint of a table; `name` None: the database gives it one, as PostgreSQL would."""

    name: Name | None = field(default=None, kw_only=True)
    position: Position | None = field(default=None, kw_only=True, compare=False)


@dataclass(frozen=True)
class PrimaryKey(Constraint):
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class Unique(Constraint):
    columns: tuple[Name, ...]


@dataclass(frozen=True)
class References(Constraint):
    """FOREIGN KEY (columns) REFERENCES table (referred); no referred columns: its primary key."""

    columns: tuple[Name, ...]
    table: Name
    referred: tuple[Name, ...] = ()
    on_delete: Literal["restrict", "cascade"] = "restrict"


@dataclass(frozen=True)
class Check(Constraint):
    condition: Sql


@dataclass(frozen=True)
class Increasing(Constraint):
    column: Name
    partition_by: tuple[Name, ...] = ()
    strictly: bool = False


@dataclass(frozen=True)
class CreateTable(Statement):
    name: Name
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[Constraint, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateTableAs(Statement):
    name: Name
    query: Sql
    if_not_exists: bool = False


Options = Mapping[str, object]


@dataclass(frozen=True)
class CreateStream(Statement):
    """CREATE STREAM, and CREATE FOREIGN TABLE … SERVER stream."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    constraints: tuple[Constraint, ...] = ()
    options: Options = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class AddColumn:
    column: ColumnDefinition
    constraints: tuple[Constraint, ...] = ()
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumn:
    name: Name
    cascade: bool = False
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    name: Name
    to: Name


@dataclass(frozen=True)
class RenameTable:
    to: Name


@dataclass(frozen=True)
class AddConstraint:
    constraint: Constraint


@dataclass(frozen=True)
class DropConstraint:
    name: Name
    cascade: bool = False
    if_exists: bool = False


@dataclass(frozen=True)
class SetDefault:
    column: Name
    default: Sql | None


@dataclass(frozen=True)
class SetNotNull:
    column: Name
    not_null: bool


Alteration = (
    AddColumn | DropColumn | RenameColumn | RenameTable | AddConstraint | DropConstraint | SetDefault | SetNotNull
)


@dataclass(frozen=True)
class AlterTable(Statement):
    """ALTER TABLE, and the paper's CONSTRAINT … ON table."""

    name: Name
    alterations: tuple[Alteration, ...]
    if_exists: bool = False


DropKind = Literal["table", "stream", "view", "continuous query", "trigger", "queue"]


@dataclass(frozen=True)
class Drop(Statement):
    """DROP kind; FOREIGN TABLE is a stream, MATERIALIZED and CONTINUOUS VIEW are views."""

    kind: DropKind
    names: tuple[Name, ...]
    if_exists: bool = False
    cascade: bool = False


# --- data ----------------------------------------------------------------------------------------


class _Default(Enum):
    DEFAULT = "DEFAULT"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT = _Default.DEFAULT
"""The word DEFAULT among the values of an `InsertValues`."""


@dataclass(frozen=True)
class InsertValues(Statement):
    """INSERT … VALUES of literals alone, read without a tree: each value is None, bool, int, float-text
    (`Decimal`), str, or `DEFAULT`. Anything richer is an `InsertQuery`."""

    table: Name
    columns: tuple[Name, ...]
    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class InsertQuery(Statement):
    """INSERT INTO table [(columns)] query; `DEFAULT VALUES` has query None."""

    table: Name
    columns: tuple[Name, ...]
    query: Sql | None


@dataclass(frozen=True)
class Update(Statement):
    """UPDATE table [AS alias] SET … [FROM …] [WHERE …], as one sqlglot `exp.Update`."""

    table: Name
    tree: Sql


@dataclass(frozen=True)
class Delete(Statement):
    """DELETE FROM table [AS alias] [USING …] [WHERE …], as one sqlglot `exp.Delete`."""

    table: Name
    tree: Sql


@dataclass(frozen=True)
class Merge(Statement):
    """MERGE INTO table …, as one sqlglot `exp.Merge`."""

    table: Name
    tree: Sql


@dataclass(frozen=True)
class Copy(Statement):
    """COPY table [(columns)] FROM path|STDIN, COPY table|(query) TO path|STDOUT.

    `options` has lower-case keys: format ('csv' | 'parquet' | 'json'), header, delimiter, null, quote,
    escape. `path` None is STDIN or STDOUT."""

    direction: Literal["from", "to"]
    table: Name | None
    columns: tuple[Name, ...]
    query: Sql | None
    path: str | None
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Begin(Statement):
    pass


@dataclass(frozen=True)
class Commit(Statement):
    pass


@dataclass(frozen=True)
class Rollback(Statement):
    pass


# --- views and continuous queries -----------------------------------------------------------------


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE [OR REPLACE] [CONTINUOUS | MATERIALIZED] VIEW name [(columns)] [WITH (…)] AS query."""

    name: Name
    query: Sql
    columns: tuple[Name, ...] = ()
    kind: Literal["plain", "continuous", "materialized"] = "plain"
    or_replace: bool = False
    if_not_exists: bool = False
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class CreatePartView(Statement):
    """CREATE VIEW name AS INITIALIZE name[i] AS query UPDATE name[j] AS query PARTITION LENGTH n."""

    name: Name
    initialize_index: Name
    initialize: Sql
    update_index: Name
    update: Sql
    partition_length: int
    or_replace: bool = False
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Compute:
    """When a continuous query computes: on commit, on demand, or by the clock; `transactional`: commit by commit."""

    when: Literal["on commit", "on demand", "periodic"]
    transactional: bool | None = None
    start_with: str | None = None
    period_seconds: int | None = None


@dataclass(frozen=True)
class Destination:
    name: Name
    is_queue: bool = False


@dataclass(frozen=True)
class CreateContinuousQuery(Statement):
    name: Name
    query: Sql
    primary_key: tuple[Name, ...] = ()
    compute: Compute | None = None
    destination: Destination | None = None
    options: Options = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class AlterContinuousQuery(Statement):
    name: Name
    action: Literal["suspend", "activate", "deactivate"] | Compute | Destination


@dataclass(frozen=True)
class CreateTrigger(Statement):
    """CREATE TRIGGER name ON query FOR EACH ROW EXECUTE 'module:function' | NOTIFY channel."""

    name: Name
    on: Name
    function: str | None = None
    channel: Name | None = None


@dataclass(frozen=True)
class CreateQueue(Statement):
    name: Name
    if_not_exists: bool = False


@dataclass(frozen=True)
class Subscribe(Statement):
    name: Name
    snapshot: bool = False
    after_scn: int | None = None


@dataclass(frozen=True)
class RefreshView(Statement):
    """REFRESH MATERIALIZED VIEW name [FULL]."""

    name: Name
    full: bool = False
