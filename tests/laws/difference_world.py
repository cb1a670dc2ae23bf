"""A small shop in memory: tables with keys and references, random commits to them, and queries of every shape.

The change of a query is computed by DuckDB from what the plan asks for: tables before and after, and what changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from random import Random
from types import MappingProxyType
from typing import Any

import duckdb

from midstream.kernels import kernel_type
from midstream.plan import BindContext, BoundQuery, bind_query
from midstream.plan.context import COMMIT, WEIGHT
from midstream.plan.difference import Changed, Difference, bind_difference
from midstream.relations.table import Column, ForeignKey, IncreasingConstraint, Key, Table
from midstream.relations.view import Derived
from midstream.sql import parse_query
from midstream.types import BIGINT, INT, TEXT

CONTEXT = BindContext(scn=1, now=datetime(2027, 1, 1, tzinfo=timezone.utc))
USERS = Table(
    1,
    "users",
    (Column("id", BIGINT, True), Column("name", TEXT), Column("age", INT)),
    (Key("users_pkey", ("id",), True),),
)
ORDERS = Table(
    2,
    "orders",
    (Column("oid", BIGINT, True), Column("uid", BIGINT), Column("x", INT)),
    (Key("orders_pkey", ("oid",), True), ForeignKey("orders_uid_fkey", ("uid",), "users", ("id",), "cascade")),
)
LINES = Table(
    3,
    "lines",
    (Column("oid", BIGINT), Column("item", INT), Column("price", INT)),
    (ForeignKey("lines_oid_fkey", ("oid",), "orders", ("oid",), "cascade"),),
)
OTHER = Table(4, "other", (Column("a", INT), Column("b", INT), Column("c", TEXT)))
_MEASURES = (Column("loc", INT, True), Column("at", INT, True), Column("temp", INT))
TICKS = Table(5, "ticks", _MEASURES, (IncreasingConstraint("up", "at", ("loc",), True),))
BEATS = Table(6, "beats", _MEASURES, (IncreasingConstraint("up", "at", ()),))
TABLES = {table.name: table for table in (USERS, ORDERS, LINES, OTHER, TICKS, BEATS)}
GROWING = ("ticks", "beats")
"""Rows only come to them."""
_SQL_TYPES = {BIGINT: "BIGINT", INT: "INTEGER", TEXT: "VARCHAR"}

Row = tuple[Any, ...]
Image = dict[str, dict[int, Row]]
"""The rows of each table by their row ids."""
Kept = Mapping[str, Sequence[Row]]
"""What was kept of a query, by the names under which it is read."""

QUERIES = """
SELECT * FROM other WHERE a > 1;
SELECT a + 1, c FROM other;
SELECT l.item, o.oid, u.name FROM lines l, orders o, users u WHERE l.oid = o.oid AND u.id = o.uid AND u.age < 18;
SELECT l.item, o.oid, u.name FROM lines l JOIN orders o ON l.oid = o.oid JOIN users u ON u.id = o.uid;
SELECT o1.a, o2.b FROM other o1, other o2 WHERE o1.a = o2.b;
SELECT uid, count(*), sum(x) FROM orders GROUP BY uid HAVING count(*) > 1;
SELECT u.name, sum(l.price) FROM lines l, orders o, users u WHERE l.oid = o.oid AND u.id = o.uid GROUP BY u.name;
SELECT s.c, count(*) FROM other s JOIN other t ON s.a = t.b GROUP BY s.c;
SELECT x + 1, count(*) FILTER (WHERE uid IS NULL), avg(x), sum(oid) FROM orders GROUP BY x + 1 HAVING avg(x) > 1;
SELECT c, sum(a::numeric(10, 2)), avg(a::numeric(10, 2)), count(b) FROM other GROUP BY c;
SELECT coalesce(c, '-') || 'x', sum(a) + count(*), sum(b) FILTER (WHERE a > 1) FROM other GROUP BY c;
SELECT c, count(*), min(b) FROM other GROUP BY c;
SELECT c FROM other GROUP BY c;
SELECT DISTINCT s.c FROM other s JOIN other t ON s.a = t.b;
SELECT s.c FROM other s JOIN other t ON s.a = t.b UNION SELECT c FROM other;
SELECT s.c, t.b, count(*) OVER (PARTITION BY s.c) FROM other s JOIN other t ON s.a = t.b;
SELECT * FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.oid = o.oid AND l.price > 2);
SELECT * FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.oid = o.oid);
SELECT * FROM other WHERE a IN (SELECT x FROM orders);
SELECT * FROM other WHERE a NOT IN (SELECT x FROM orders);
SELECT * FROM other WHERE a NOT IN (SELECT x FROM orders WHERE x IS NOT NULL) OR b = 2;
SELECT o.oid, l.item FROM orders o LEFT JOIN lines l ON l.oid = o.oid AND l.price > 1;
SELECT o.oid, l.item, u.name FROM users u LEFT JOIN orders o ON o.uid = u.id LEFT JOIN lines l ON l.oid = o.oid;
SELECT o.oid, l.item FROM orders o RIGHT JOIN lines l ON l.oid = o.oid;
SELECT o.oid, t.b, t.c FROM orders o FULL JOIN other t ON t.a = o.x;
SELECT o.oid, t.b, u.name FROM orders o FULL JOIN other t ON t.a = o.x LEFT JOIN users u ON u.id = o.uid;
SELECT o.oid, t.b, t2.c FROM orders o FULL JOIN other t ON t.a = o.x FULL JOIN other t2 ON t2.b = t.a;
SELECT DISTINCT a, c FROM other;
SELECT DISTINCT u.name FROM users u, orders o WHERE u.id = o.uid;
SELECT a FROM other UNION ALL SELECT x FROM orders;
SELECT a FROM other UNION SELECT x FROM orders;
SELECT a FROM other EXCEPT SELECT x FROM orders;
SELECT a FROM other INTERSECT SELECT x FROM orders;
SELECT a FROM other EXCEPT ALL SELECT x FROM orders;
SELECT * FROM (SELECT uid, count(*) AS n FROM orders GROUP BY uid) q WHERE n > 1;
WITH big AS (SELECT uid, count(*) AS n FROM orders GROUP BY uid)
  SELECT u.name, b.n FROM users u JOIN big b ON b.uid = u.id WHERE b.n >= (SELECT min(n) FROM big);
SELECT u.name, (SELECT max(o.x) FROM orders o WHERE o.uid = u.id) FROM users u;
SELECT count(*), sum(a), min(b) FROM other;
SELECT a, b, row_number() OVER (PARTITION BY a ORDER BY b, c) FROM other;
SELECT uid, x, sum(x) OVER (PARTITION BY uid) FROM orders;
SELECT a, sum(b) OVER () FROM other;
SELECT u.name FROM users u
  WHERE u.id IN (SELECT o.uid FROM orders o WHERE o.x > 1 AND o.oid IN (SELECT oid FROM lines));
SELECT u.name, count(DISTINCT o.x), avg(l.price)
  FROM users u LEFT JOIN orders o ON o.uid = u.id LEFT JOIN lines l ON l.oid = o.oid GROUP BY u.name;
SELECT * FROM other ORDER BY a, b, c LIMIT 3;
SELECT a, b FROM other WHERE (a, b) IN (SELECT x, x FROM orders);
SELECT u.name FROM users u WHERE u.age > (SELECT avg(age) FROM users);
SELECT CASE WHEN EXISTS (SELECT 1 FROM lines l WHERE l.oid = o.oid) THEN 1 ELSE 0 END, o.x FROM orders o;
SELECT t.a, q.n FROM other t, LATERAL (SELECT count(*) AS n FROM orders o WHERE o.x = t.a) q;
SELECT a, b, count(*) FROM other GROUP BY ROLLUP (a, b);
SELECT t.a, l.item FROM other t LEFT JOIN (lines l JOIN orders o ON l.oid = o.oid) ON o.x = t.a;
SELECT t.a, l.item FROM other t JOIN (lines l JOIN orders o ON l.oid = o.oid) ON o.x = t.a;
SELECT x.a, y.n FROM other x JOIN (SELECT a, count(*) AS n FROM other GROUP BY a) y ON x.a = y.a;
SELECT a FROM other WHERE a IN (SELECT x FROM orders UNION SELECT item FROM lines);
SELECT sum(q.s) FROM (SELECT uid, sum(x) AS s FROM orders GROUP BY uid) q;
SELECT o.oid, l.item, l2.item
  FROM orders o JOIN lines l ON l.oid = o.oid JOIN lines l2 ON l2.oid = o.oid AND l2.price < l.price;
SELECT count(*) FROM lines;
SELECT count(*), sum(l.price), avg(l.price) FROM lines l JOIN orders o ON l.oid = o.oid
  WHERE o.x > 1 HAVING count(*) <> 3;
SELECT u.name, q.n FROM (SELECT uid, count(*) AS n, sum(x) AS s FROM orders GROUP BY uid) q
  JOIN users u ON u.id = q.uid;
SELECT n + 1 FROM (SELECT c, count(*) AS n, sum(a) AS s FROM other WHERE b > 0 GROUP BY c) q WHERE s > 2;
SELECT loc, at, lag(temp) OVER (PARTITION BY loc ORDER BY at) FROM ticks;
SELECT loc, at, sum(temp) OVER (PARTITION BY loc ORDER BY at ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING),
  count(*) OVER (PARTITION BY loc, temp ORDER BY at RANGE BETWEEN 3 PRECEDING AND CURRENT ROW)
  FROM ticks WHERE temp > 0;
SELECT d FROM (SELECT temp - lag(temp, 2) OVER (PARTITION BY loc ORDER BY at) AS d FROM ticks) q WHERE d > 0;
SELECT at, count(*) OVER (ORDER BY at RANGE BETWEEN 2 PRECEDING AND CURRENT ROW) FROM beats;
SELECT loc, at, max(temp) OVER (PARTITION BY loc ORDER BY at RANGE CURRENT ROW),
  sum(temp) OVER (PARTITION BY temp ORDER BY at RANGE BETWEEN 4 PRECEDING AND 1 PRECEDING) FROM beats;
SELECT loc, sum(temp) OVER (PARTITION BY loc ORDER BY at), row_number() OVER (PARTITION BY loc ORDER BY at) FROM ticks;
SELECT at, total FROM (SELECT loc, at, temp + 1 AS t, avg(temp) OVER (PARTITION BY loc ORDER BY at
  ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS total FROM ticks WHERE temp <> 2) q WHERE total < 5;
SELECT loc, max(temp) OVER w - min(temp) FILTER (WHERE at > 4) OVER w, rank() OVER w FROM ticks
  WINDOW w AS (PARTITION BY loc ORDER BY at);
SELECT at, count(temp) OVER (PARTITION BY temp % 2, loc ORDER BY at), bool_or(temp > 3) OVER (PARTITION BY temp % 2, loc
  ORDER BY at) FROM ticks;
SELECT at, sum(temp) OVER (PARTITION BY loc ORDER BY at), lag(temp) OVER (PARTITION BY loc ORDER BY at) FROM ticks;
SELECT o.oid FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.oid = o.oid
  AND NOT EXISTS (SELECT 1 FROM other t WHERE t.a = o.x AND t.b = l.item));
SELECT o.oid FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.oid = o.oid
  AND l.price > (SELECT max(t.b) FROM other t WHERE t.a = o.x));
SELECT u.name, (SELECT (SELECT max(t.b) FROM other t WHERE t.a = o.x) FROM orders o WHERE o.uid = u.id
  ORDER BY o.oid LIMIT 1) FROM users u;
SELECT u.id, (SELECT count(*) + (SELECT sum(t.b) FROM other t) FROM orders o WHERE o.uid = u.id) FROM users u;
SELECT u.id FROM users u WHERE EXISTS (SELECT 1 FROM orders o WHERE o.uid = u.id AND EXISTS (SELECT 1 FROM lines l
  WHERE l.oid = o.oid AND l.item <= u.id AND NOT EXISTS (SELECT 1 FROM other t WHERE t.a = l.item AND t.b < u.age)));
SELECT a, b, (SELECT count(*) FROM orders o WHERE o.x = t.a), row_number() OVER (PARTITION BY b ORDER BY a, c)
  FROM other t;
SELECT oid, a IN (SELECT item FROM lines), sum((SELECT count(*) FROM lines l WHERE l.oid = o.oid)) OVER (PARTITION BY x)
  FROM orders o JOIN other t ON t.b = o.x;
SELECT oid, rank() OVER (PARTITION BY uid ORDER BY (SELECT count(*) FROM lines l WHERE l.oid = o.oid)) FROM orders o;
SELECT o.x, count(*) OVER (PARTITION BY o.x), l.price FROM orders o FULL JOIN lines l ON l.oid = o.oid;
SELECT o.oid, l.item FROM orders o LEFT JOIN lines l ON l.oid = o.oid
  AND EXISTS (SELECT 1 FROM other t WHERE t.a = l.item AND t.b <= o.x) AND o.x NOT IN (SELECT b FROM other);
SELECT o.oid, l.item FROM orders o RIGHT JOIN lines l ON l.oid = o.oid
  AND EXISTS (SELECT 1 FROM other t WHERE t.a = l.item);
SELECT o.oid, l.item FROM orders o FULL JOIN lines l ON l.oid = o.oid AND l.item IN (SELECT t.a FROM other t);
SELECT uid, count(*) FROM orders o GROUP BY uid HAVING count(*) > (SELECT age - 16 FROM users u WHERE u.id = o.uid);
SELECT x, count(*), (SELECT count(*) FROM other t WHERE t.a = o.x), grouping(x) FROM orders o GROUP BY x;
SELECT o.oid, s.i FROM orders o LEFT JOIN generate_series(1, (SELECT max(b) FROM other)) AS s(i) ON s.i = o.x
"""
SHAPES = tuple(" ".join(text.split()) for text in QUERIES.split(";"))


class Schema:
    def relation(self, name: str, as_of: int | None = None) -> Table | None:
        return TABLES.get(name)

    def names(self) -> Iterable[str]:
        return TABLES


class Shop:
    """Rows, and commits that respect keys and references."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.rows: Image = {name: {} for name in TABLES}
        self._next = 0

    def image(self) -> Image:
        return {name: dict(rows) for name, rows in self.rows.items()}

    def commit(self, kinds: str, names: Sequence[str] = tuple(TABLES)) -> None:
        """A few changes of some tables, of the kinds that letters stand for: i, u, d."""
        for _ in range(self._random.randint(1, 6)):
            name = self._random.choice(names)
            kind = self._random.choice(kinds)
            if kind == "i":
                self._insert(name)
            elif self.rows[name] and name not in GROWING:
                id = self._random.choice(list(self.rows[name]))
                if kind == "d":
                    self._delete(name, id)
                else:
                    self._update(name, id)

    def _new(self) -> int:
        self._next += 1
        return self._next

    def _measure(self, name: str) -> Row:
        """The next one of a place, behind all that are there, or at least not before them."""
        loc, rows = self._random.choice([0, 1]), self.rows[name].values()
        step = self._random.choice([1, 2]) if name == "ticks" else self._random.choice([0, 0, 1, 3])
        last = max((at for place, at, _ in rows if place == loc or name == "beats"), default=0)
        return loc, last + step, self._value()

    def _value(self) -> int | None:
        return self._random.choice([None, 0, 1, 2, 3, 4])

    def _keys(self, name: str) -> list[Any]:
        return [row[0] for row in self.rows[name].values()] + [None]

    def _insert(self, name: str) -> None:
        pick = self._random.choice
        row: Row
        if name == "users":
            row = (self._new(), pick(["a", "b", None]), pick([10, 17, 18, 30, None]))
        elif name == "orders":
            row = (self._new(), pick(self._keys("users")), self._value())
        elif name in GROWING:
            row = self._measure(name)
        elif name == "lines":
            row = (pick(self._keys("orders")), self._value(), self._value())
        else:
            row = (self._value(), self._value(), pick(["p", "q", None]))
        self.rows[name][self._new()] = row

    def _update(self, name: str, id: int) -> None:
        row, pick = list(self.rows[name][id]), self._random.choice
        place = self._random.randint(1 if name in ("users", "orders") else 0, len(row) - 1)
        if (name, place) == ("orders", 1):
            row[1] = pick(self._keys("users"))
        elif (name, place) == ("lines", 0):
            row[0] = pick(self._keys("orders"))
        elif TABLES[name].columns[place].type == TEXT:
            row[place] = pick(["a", "b", "p", None])
        else:
            row[place] = pick([10, 17, 18, None]) if name == "users" else self._value()
        self.rows[name][id] = tuple(row)

    def _delete(self, name: str, id: int) -> None:
        row = self.rows[name].pop(id)
        for child, key in (("orders", 1), ("lines", 0)):
            parent = "users" if child == "orders" else "orders"
            if name == parent:
                for other, referring in list(self.rows[child].items()):
                    if referring[key] == row[0]:
                        self._delete(child, other)


def changed_between(before: Image, after: Image) -> dict[int, Changed]:
    found = {}
    for name, table in TABLES.items():
        old, new = before.get(name, {}), after.get(name, {})
        came, went = any(id not in old for id in new), any(id not in new for id in old)
        replaced = any(id in new and new[id] != row for id, row in old.items())
        if came or went or replaced:
            only = "insert" if not went and not replaced else "delete" if not came and not replaced else "mixed"
            found[table.id] = Changed(only, len(new))
    return found


class Judge:
    """Runs what plans ask for."""

    def __init__(self) -> None:
        self._duckdb = duckdb.connect()

    def answer(self, query: str, image: Image) -> Counter[Row]:
        return Counter(self._run(bind_query(parse_query(query), Schema(), CONTEXT), [image]))

    def true_change(self, query: str, before: Image, after: Image) -> dict[Row, int]:
        old, new = self.answer(query, before), self.answer(query, after)
        return {row: new[row] - old[row] for row in {*old, *new} if new[row] != old[row]}

    def change(
        self, query: str, images: list[Image], kept: Kept = MappingProxyType({}), **how: Any
    ) -> tuple[list[Row], Difference] | None:
        """Rows with their weights, from the first image to the last; None: commits cannot be told apart."""
        kinds = changed_between_all(images)
        plan = bind_difference(parse_query(query), Schema(), CONTEXT, kinds, **how)
        if plan is None:
            return None
        return (self._run(plan.query, images, kept) if plan.query is not None else []), plan

    def kept(self, bound: BoundQuery, images: list[Image], kept: Kept) -> list[Row]:
        """What is to be kept of a query."""
        return self._run(bound, images, kept)

    def _run(self, bound: BoundQuery, images: list[Image], kept: Kept = MappingProxyType({})) -> list[Row]:
        for scan in bound.scans:
            table = scan.relation
            if isinstance(table, Derived):
                kinds = [f'"{name}" {kernel_type(kind, "duckdb")}' for name, kind in table.columns]
                self._fill(scan.name, kinds, kept[table.name])
                continue
            assert isinstance(table, Table)
            rows: list[Row] = []
            if scan.source == "delta":
                for number, (before, after) in enumerate(zip(images, images[1:], strict=False), 1):
                    old, new = before[table.name], after[table.name]
                    rows += [(id, *row, number, -1) for id, row in old.items() if new.get(id) != row]
                    rows += [(id, *row, number, 1) for id, row in new.items() if old.get(id) != row]
            else:
                image = images[0] if scan.source == "before" else images[-1]
                rows = [(id, *row) for id, row in image[table.name].items()]
            self._load(scan.name, table, rows, scan.source == "delta")
        return self._duckdb.execute(bound.sql("duckdb")).fetchall()

    def _load(self, name: str, table: Table, rows: list[Row], is_change: bool) -> None:
        columns = [f'"{column.name}" {_SQL_TYPES[column.type]}' for column in table.columns]
        marks = [f'"{COMMIT}" BIGINT', f'"{WEIGHT}" BIGINT'] if is_change else []
        self._fill(name, ['"_row_id" BIGINT', *columns, *marks], rows)

    def _fill(self, name: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        self._duckdb.execute(f'CREATE OR REPLACE TABLE "{name}" ({", ".join(columns)})')
        if rows:
            self._duckdb.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(rows[0]))})', rows)


def changed_between_all(images: list[Image]) -> dict[int, Changed]:
    """What several commits did, one after the other."""
    found: dict[int, Changed] = {}
    for before, after in zip(images, images[1:], strict=False):
        for id, change in changed_between(before, after).items():
            known = found.get(id)
            kind = change.kind if known is None or known.kind == change.kind else "mixed"
            found[id] = Changed(kind, change.rows)
    return found
