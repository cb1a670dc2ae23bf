"""Tables that rows of a stream meet, joined with each other before: once, when the view is created.

    FROM customers c, orders o, lines WHERE c.id = o.customer AND o.id = lines.order_id AND c.region = 1
    FROM (SELECT o.id, … FROM orders o, customers c WHERE c.id = o.customer AND c.region = 1) AS o, lines …

Every batch then meets fewer rows. Only a join along a key of one side is made in advance, because it has no more rows
than the other side; and only if what that side gives has a fixed size, because it is then there once for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from sqlglot import exp

from midstream.plan.cut.build import Node, both, derived, equated_columns, select, stored_column
from midstream.plan.cut.streams import Streams, items_of
from midstream.plan.nodes import conjuncts, is_query, quoted
from midstream.relations.table import Table
from midstream.types import Type

Columns = frozenset[tuple[str, str]]
"""Each with the alias of its table."""


@dataclass(frozen=True)
class _Unit:
    """Tables that become one, the first of which gives it its name and its keys."""

    aliases: tuple[str, ...]
    keys: tuple[Columns, ...]

    def with_one_row_of(self, other: _Unit) -> _Unit:
        return _Unit((*self.aliases, *other.aliases), self.keys)


def join_along_keys(streams: Streams, query: exp.Select, filters: list[Node], late: Sequence[Node]) -> None:
    """Puts tables of a grouping query together, with the conditions that are about them alone."""
    joins: list[exp.Join] = query.args.get("joins") or []
    tables = {item.alias: item for item in items_of(query) if _keys_of(streams, item) is not None}
    if len(tables) < 2 or any(join.args.get("side") or join.args.get("using") for join in joins):
        return
    conditions = [*filters, *(part for join in joins for part in conjuncts(join.args.get("on")))]
    above = [part for key in query.args if key not in ("from_", "joins") for part in _parts(query.args[key])]
    above += [*late, *(item for item in items_of(query) if item.alias not in tables)]
    joining = _Joining(streams, tables, conditions, above)
    units = joining.units()
    if len(units) == len(tables):
        return
    filters[:] = conditions
    for unit in units:
        if len(unit.aliases) > 1:
            joining.put_together(unit, filters, late, query)
    gone = {id(tables[alias]) for unit in units for alias in unit.aliases[1:]}
    items = [item for item in items_of(query) if id(item) not in gone]
    query.set("from_", exp.From(this=items[0]))
    query.set("joins", [exp.Join(this=item) for item in items[1:]])


def _keys_of(streams: Streams, item: Node) -> tuple[Columns, ...] | None:
    """The keys of a table as it is; None: it is something else."""
    key = streams.key_of(item) if isinstance(item, exp.Table) and not item.args.get("joins") else None
    if key is None or key.source != "table" or not isinstance(key.relation, Table) or key.as_of is not None:
        return None
    return tuple(frozenset((item.alias, name) for name in unique.columns) for unique in key.relation.keys)


def _parts(value: object) -> Iterator[Node]:
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, exp.Expression):
            yield part


@dataclass
class _Joining:
    streams: Streams
    tables: dict[str, Node]
    conditions: list[Node]
    above: Sequence[Node]
    """What else uses columns of the tables."""

    def units(self) -> list[_Unit]:
        units = [_Unit((alias,), _keys_of(self.streams, item) or ()) for alias, item in self.tables.items()]
        while (pair := next((p for p in permutations(units, 2) if self._is_along_a_key(*p)), None)) is not None:
            one, other = pair
            units = [u.with_one_row_of(other) if u is one else u for u in units if u is not other]
        return units

    def put_together(self, unit: _Unit, filters: list[Node], late: Sequence[Node], query: exp.Select) -> None:
        """One query in place of the tables of a unit."""
        own = [node for node in filters if self._is_about(node, unit.aliases)]
        filters[:] = [node for node in filters if not any(node is taken for taken in own)]
        name, items = unit.aliases[0], [self.tables[alias] for alias in unit.aliases]
        used = self._used([*self.above, *filters, *late], unit.aliases) or sorted(min(unit.keys, default=frozenset()))
        names = _names(used or [(name, next(iter(self._types(name))))])
        outputs = [(new, stored_column(*column, self._types(column[0])[column[1]])) for column, new in names.items()]
        joined = [exp.Join(this=item.copy()) for item in items[1:]]
        inner = select(outputs, items[0].copy(), joins=joined, where=both(own))
        for column in (c for tree in (query, *filters, *late) for c in tree.find_all(exp.Column)):
            if (column.table, column.name) in names:
                column.set("this", quoted(names[column.table, column.name]))
                column.set("table", quoted(name))
        items[0].replace(derived(inner, name))

    def _is_along_a_key(self, one: _Unit, other: _Unit) -> bool:
        met = {column for node in self.conditions for column in _equal_to(node, one.aliases, other.aliases)}
        if not any(key <= met for key in other.keys):
            return False
        both_of = (*one.aliases, *other.aliases)
        rest = [node for node in self.conditions if not self._is_about(node, both_of)]
        given = self._used([*self.above, *rest], other.aliases)
        kept = self._used([*self.above, *rest], one.aliases)
        return all(_is_fixed(self._types(alias)[name]) for alias, name in given) and not any(
            "interval" in str(self._types(alias)[name]) for alias, name in kept
        )

    def _is_about(self, node: Node, aliases: Sequence[str]) -> bool:
        """Whether a condition is about some tables alone."""
        used = {column.table for column in node.find_all(exp.Column)}
        return bool(used) and used <= set(aliases) and not any(is_query(part) for part in node.walk())

    def _used(self, trees: Sequence[Node], aliases: Sequence[str]) -> list[tuple[str, str]]:
        columns = [column for tree in trees for column in tree.find_all(exp.Column) if column.table in aliases]
        return sorted({(column.table, column.name) for column in columns}, key=lambda c: (aliases.index(c[0]), c[1]))

    def _types(self, alias: str) -> dict[str, Type]:
        item = self.tables[alias]
        assert isinstance(item, exp.Table)
        key = self.streams.key_of(item)
        assert key is not None
        return key.columns()


def _equal_to(node: Node, one: Sequence[str], other: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The column of `other` that a condition holds against one of `one`."""
    for this, that in equated_columns(node):
        if this.table in other and that.table in one:
            yield this.table, this.name


def _is_fixed(type_: Type) -> bool:
    return type_.is_number or type_.name in ("boolean", "date", "timestamp", "timestamptz")


def _names(columns: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """A name for each, its own if no other has it."""
    names: dict[tuple[str, str], str] = {}
    for alias, name in columns:
        new, number = name, 1
        while new in names.values():
            number += 1
            new = f"{name}_{number}"
        names[alias, name] = new
    return names
