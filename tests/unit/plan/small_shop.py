"""A small schema with rows, and what it takes to bind a text over it and run it with DuckDB."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable, Sequence

import duckdb
import pytest

from midstream.errors import Error, Position
from midstream.plan import (
    BindContext,
    BoundQuery,
    bind_delete,
    bind_insert,
    bind_merge,
    bind_query,
    bind_update,
)
from midstream.plan.render import DUCKDB_SETTINGS
from midstream.relations.schema import Relation
from midstream.relations.table import Column, Key, Table
from midstream.relations.view import View
from midstream.sql import parse_one, parse_query
from midstream.sql.statements import Delete, InsertQuery, Merge, Update
from midstream.types import BIGINT, DATE, INT, NUMERIC, TEXT, array_of

NOW = datetime.datetime(2027, 1, 31, 12, 30, tzinfo=datetime.timezone.utc)

USERS = Table(
    1,
    "users",
    (
        Column("id", INT, not_null=True, id=1),
        Column("name", TEXT, id=2),
        Column("region", TEXT, default="'north'", id=3),
        Column("age", INT, id=4),
    ),
    (Key("users_pkey", ("id",), is_primary=True),),
)
ORDERS = Table(
    2,
    "orders",
    (
        Column("oid", BIGINT, id=1),
        Column("id", INT, id=2),
        Column("amount", NUMERIC(10, 2), default="0", id=3),
        Column("day", DATE, default="current_date", id=4),
    ),
)
TAGS = Table(3, "tags", (Column("id", INT, id=1), Column("Tags", array_of(TEXT), id=2)))
OLD_USERS = Table(1, "users", (Column("id", INT, id=1), Column("nick", TEXT, id=2)))
ADULTS = View(4, "adults", (("key", INT), ("who", TEXT)), "SELECT id, name FROM users WHERE age >= 18", ("users",))
SPENDING = View(
    5,
    "spending",
    (("who", TEXT), ("total", NUMERIC(38, 2)), ("orders", BIGINT)),
    "WITH s AS (SELECT id, sum(amount) AS total, count(*) AS n FROM orders GROUP BY id) "
    "SELECT a.who, s.total, s.n FROM adults a JOIN s ON s.id = a.key",
    ("adults", "orders"),
)

_ROWS: dict[str, tuple[str, list[str]]] = {
    "users": (
        '_row_id BIGINT, id INTEGER, name VARCHAR, region VARCHAR, age INTEGER',
        [
            "(1, 1, 'ann', 'north', 30)",
            "(2, 2, 'bob', 'south', 17)",
            "(3, 3, 'cid', 'north', NULL)",
            "(4, 4, 'dan', NULL, 44)",
        ],
    ),
    "orders": (
        "_row_id BIGINT, oid BIGINT, id INTEGER, amount DECIMAL(10,2), day DATE",
        [
            "(1, 10, 1, 5.50, '2027-01-01')",
            "(2, 11, 1, 4.50, '2027-01-02')",
            "(3, 12, 2, 7.00, '2027-01-02')",
            "(4, 13, NULL, 1.00, NULL)",
            "(5, 14, 4, 2.00, '2027-01-03')",
        ],
    ),
    "tags": ('_row_id BIGINT, id INTEGER, "Tags" VARCHAR[]', ["(1, 1, ['x', 'y'])", "(2, 2, [])", "(3, 3, NULL)"]),
}  # fmt: skip


class Shop:
    """The schema; `users` had other columns up to SCN 9."""

    relations: dict[str, Relation] = {r.name: r for r in (USERS, ORDERS, TAGS, ADULTS, SPENDING)}

    def relation(self, name: str, as_of: int | None = None) -> Relation | None:
        return OLD_USERS if name == "users" and as_of is not None and as_of < 10 else self.relations.get(name)

    def names(self) -> Iterable[str]:
        return list(self.relations)


def context(parameters: Sequence[object] = ()) -> BindContext:
    return BindContext(scn=41, now=NOW, parameters=tuple(parameters))


def bind(text: str, *parameters: object) -> BoundQuery:
    return bind_query(parse_query(text), Shop(), context(parameters))


def bind_change(text: str, *parameters: object) -> BoundQuery:
    """An INSERT, UPDATE, DELETE or MERGE."""
    statement, shop, moment = parse_one(text), Shop(), context(parameters)
    assert isinstance(statement, InsertQuery | Update | Delete | Merge), statement
    table = shop.relations[statement.table]
    assert isinstance(table, Table)
    match statement:
        case InsertQuery():
            return bind_insert(statement, table, shop, moment)
        case Update():
            return bind_update(statement, table, shop, moment)
        case Delete():
            return bind_delete(statement, table, shop, moment)
        case Merge():
            return bind_merge(statement, table, shop, moment)


@functools.cache
def _shop_connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, value in DUCKDB_SETTINGS.items():
        connection.execute(f"SET {name} = {value!r}")
    for name, (columns, values) in _ROWS.items():
        connection.execute(f"CREATE TABLE {name} ({columns})")
        connection.execute(f"INSERT INTO {name} VALUES {', '.join(values)}")
    return connection


def run(bound: BoundQuery) -> list[tuple[object, ...]]:
    """The rows that the DuckDB kernel's text gives over the small shop, each scan with just its columns."""
    connection = _shop_connection()
    for scan in bound.scans:
        assert scan.source == "table"
        listed = ", ".join(f'"{column}"' for column in scan.columns)
        connection.execute(f'CREATE OR REPLACE VIEW "{scan.name}" AS SELECT {listed} FROM {scan.relation.name}')
    result = connection.execute(bound.sql("duckdb"))
    assert [column[0] for column in result.description or []] == [f"c{i}" for i in range(len(bound.outputs))]
    return result.fetchall()


def evaluate(text: str) -> object:
    """The one value of a DuckDB text."""
    [(value,)] = _shop_connection().execute(text).fetchall()
    return value


def rows(text: str, *parameters: object) -> list[tuple[object, ...]]:
    return run(bind(text, *parameters))


def names(text: str) -> list[str]:
    return [output.name for output in bind(text).outputs]


def types(text: str) -> list[str]:
    return [str(output.type) for output in bind(text).outputs]


def scans(bound: BoundQuery) -> list[tuple[str, str, int | None, tuple[str, ...]]]:
    return [(scan.relation.name, scan.source, scan.as_of, scan.columns) for scan in bound.scans]


def fails(text: str, *parameters: object, change: bool = False) -> Error:
    with pytest.raises(Error) as caught:
        (bind_change if change else bind)(text, *parameters)
    return caught.value


def complaint(text: str, *parameters: object, change: bool = False) -> tuple[str, str, Position | None]:
    """SQLSTATE, message and position of the error that a text must raise."""
    error = fails(text, *parameters, change=change)
    return error.sqlstate, error.message, error.position
