"""The e-store: users, their orders, ten lines an order; and what happens to it, one transaction after the other.

There are two sets of tables with the same rows: `keyed` ones, which declare their foreign keys, and `plain` ones,
which do not. A change is a list of steps, which any system that speaks SQL can take; what ON DELETE CASCADE does in one
set is said in the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from peers.estore_sizes import LINES

TABLES = ("users", "orders", "orderline")
KEYED, PLAIN = "keyed", "plain"
COLUMNS = {
    KEYED: {
        "users": "uid bigint PRIMARY KEY, name text, address text, age int",
        "orders": "oid bigint PRIMARY KEY, time timestamp, uid bigint REFERENCES users (uid) ON DELETE CASCADE",
        "orderline": "oid bigint REFERENCES orders (oid) ON DELETE CASCADE, itemid bigint, price numeric(10, 2)",
    },
    PLAIN: {
        "users": "uid bigint PRIMARY KEY, name text, address text, age int",
        "orders": "oid bigint PRIMARY KEY, time timestamp, uid bigint",
        "orderline": "oid bigint, itemid bigint, price numeric(10, 2)",
    },
}
JOINED = "FROM {orderline} ol, {orders} o, {users} u WHERE ol.oid = o.oid AND u.uid = o.uid"
BOUGHT = "SELECT ol.itemid, o.oid, u.name{more} " + JOINED + " AND u.age < {age}"
"""Q18 of the paper: what users under 18 have bought."""
SPENT = "SELECT u.uid, sum(ol.price) AS spent, count(*) AS items " + JOINED + " AND u.age < {age} GROUP BY u.uid"

SCATTERED, ASCENDING = "(({n}) * 2654435761) % 4294967296", "{n}"
"""The id of an order by its number: where its rows lie, as ids tell it, or not at all."""
MAKE = {
    "users": """SELECT i AS uid, 'user ' || i AS name, 'street ' || i % 1000 AS address,
        CAST(10 + hash(i) % 70 AS INTEGER) AS age FROM range({first}, {last}) AS r (i)""",
    "orders": """SELECT {order} AS oid, TIMESTAMP '2026-01-01' + to_seconds(i) AS time, uid
        FROM range({first}, {last}) AS r (i)
        JOIN (SELECT uid, row_number() OVER (ORDER BY uid) - 1 AS number FROM users) AS living
        ON number = CAST(hash(i) % {users} AS BIGINT) ORDER BY i""",
    "orderline": """SELECT {order} AS oid, CAST(hash(i + 7) % 100000 AS BIGINT) AS itemid,
        CAST((1 + hash(i + 9) % 10000) * 0.01 AS DECIMAL(10, 2)) AS price FROM range({first}, {last}) AS r (i)""",
}


def make(table: str, ids: str, first: int, last: int, users: int) -> str:
    """Rows by their numbers, for a database that has so many users."""
    order = ids.format(n=f"i // {LINES}" if table == "orderline" else "i")
    return MAKE[table].format(order=order, first=first, last=last, users=users)


def named(table: str, tables: str) -> str:
    """A table of a set by its name."""
    return table if tables == KEYED else f"{table}_{tables}"


def over(query: str, tables: str = KEYED, more: str = "", age: int = 18) -> str:
    """A query, or a statement, over the tables of a set."""
    return query.format(more=more, age=age, **{table: named(table, tables) for table in TABLES})


@dataclass(frozen=True)
class Insert:
    table: str
    rows: pa.Table


@dataclass(frozen=True)
class Statement:
    """SQL over `{orders}` and the like. One that `follows` is what a cascade does where there is one."""

    sql: str
    follows: bool = False


@dataclass(frozen=True)
class Change:
    """One transaction."""

    steps: tuple[Insert | Statement, ...]

    def of(self, tables: str) -> list[Insert | Statement]:
        """What is to be done to a set of tables."""
        return [step for step in self.steps if tables == PLAIN or not (isinstance(step, Statement) and step.follows)]


class Workload:
    """Hands out changes. `rows` asks a database that has the tables as they are."""

    def __init__(self, users: int, orders: int, ids: str, rows: Callable[[str], pa.Table]) -> None:
        self.users, self.orders, self.ids = users, orders, ids
        self._rows = rows
        self._next = orders
        self._seed = 0

    def new_orders(self, count: int, older: float = 0.0) -> Change:
        """So many orders and ten times as many lines, of which a share goes to orders that were there before."""
        first = self._next
        self._next = first + count
        users = self._rows("SELECT count(*) AS n FROM users").column("n")[0].as_py()
        orders = self._rows(make("orders", self.ids, first, first + count, users))
        lines = self._rows(make("orderline", self.ids, first * LINES, (first + count) * LINES, users))
        oids = lines.column("oid").to_pylist()
        to_new = round(len(oids) * (1 - older))
        oids[to_new:] = self._older(len(oids) - to_new)
        lines = lines.set_column(0, "oid", pa.array(oids, pa.int64()))
        return Change((Insert("orders", orders), Insert("orderline", lines)))

    def single_orders(self, count: int) -> list[Change]:
        """So many transactions of one order."""
        orders, lines = (step.rows for step in self.new_orders(count).steps if isinstance(step, Insert))
        return [
            Change((Insert("orders", orders.slice(n, 1)), Insert("orderline", lines.slice(n * LINES, LINES))))
            for n in range(count)
        ]

    def with_updates(self, count: int) -> Change:
        """New orders, and as many old ones that are for other items now."""
        old = _listed(self._older(count))
        changed = Statement(f"UPDATE {{orderline}} SET itemid = itemid + 100000 WHERE oid IN ({old})")
        return Change((*self.new_orders(count).steps, changed))

    def moved(self, count: int) -> Change:
        """So many orders turn out to be another user's, who is under 18."""
        uid = self._rows("SELECT min(uid) AS uid FROM users WHERE age < 18").column("uid")[0].as_py()
        old = _listed(self._older(count))
        return Change((Statement(f"UPDATE {{orders}} SET uid = {uid} WHERE oid IN ({old})"),))

    def without_orders(self, count: int) -> Change:
        """So many orders go, and their lines with them."""
        old = _listed(self._older(count))
        lines = Statement(f"DELETE FROM {{orderline}} WHERE oid IN ({old})", follows=True)
        return Change((lines, Statement(f"DELETE FROM {{orders}} WHERE oid IN ({old})")))

    def without_users(self, orders: int) -> Change:
        """Users go who have about so many orders, and their orders and lines with them."""
        self._seed += 1
        count = max(1, orders * self.users // self.orders)
        found = self._rows(f"SELECT uid FROM users ORDER BY hash(uid + {self._seed}) LIMIT {count}")
        gone = _listed(found.column("uid").to_pylist())
        theirs = f"SELECT oid FROM {{orders}} WHERE uid IN ({gone})"
        lines = Statement(f"DELETE FROM {{orderline}} WHERE oid IN ({theirs})", follows=True)
        orders_too = Statement(f"DELETE FROM {{orders}} WHERE uid IN ({gone})", follows=True)
        return Change((lines, orders_too, Statement(f"DELETE FROM {{users}} WHERE uid IN ({gone})")))

    def _older(self, count: int) -> list[int]:
        """Some orders that were there at the beginning and still are."""
        if count == 0:
            return []
        self._seed += 1
        first = f"time < TIMESTAMP '2026-01-01' + to_seconds({self.orders})"
        old = f"SELECT oid FROM orders WHERE {first} ORDER BY hash(oid + {self._seed}) LIMIT {count}"
        found = self._rows(old).column("oid").to_pylist()
        return [found[number % len(found)] for number in range(count)]


def as_values(step: Insert, table: str) -> str:
    """The INSERT as a client would write it."""
    rows = zip(*(column.to_pylist() for column in step.rows.columns), strict=True)
    written = ", ".join("(" + ", ".join(_literal(value) for value in row) + ")" for row in rows)
    return f"INSERT INTO {table} VALUES {written}"


def _literal(value: object) -> str:
    """Numbers as they are, all others as text, which a column takes."""
    return str(value) if isinstance(value, int) or hasattr(value, "as_tuple") else f"'{value}'"


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
