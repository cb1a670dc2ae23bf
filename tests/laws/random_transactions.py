"""Random tables with keys and foreign keys, and random transactions on them.

A schema has two to four tables: with a key of one column or of two, or without one and with equal rows in it; with
foreign keys, with and without ON DELETE CASCADE; with columns that may be NULL. An awkward schema has columns of NaN,
-0.0, large numbers, arrays and moments as well, and a UNIQUE of two columns that may be NULL. Statements mean the same
to Midstream and to PostgreSQL, but the latter may refuse one (a key that is taken, a row that others refer to), so a
transaction is made of statements that were tried there.

    >>> random_schema(Choices([0]), "t")[0].create()
    'CREATE TABLE t0 (id int NOT NULL, k int, g int NOT NULL, t text NOT NULL, x0 numeric(10,2), PRIMARY KEY (id))'
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from choices import Choices
from random_tables import TAME, WILD

State = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of every table."""
AWKWARD_TYPES = ("double precision", "numeric(38,4)", "int[]", "timestamptz", "double precision", "text[]")
VALUES = TAME | {
    "text": ["'a'", "'b'", "'ab'", "'B'", "''", "'ä'"],
    "double precision": ["'NaN'", "'NaN'", "-0.0", "0", "0.5", "'Infinity'", "1e300"],
    "numeric(38,4)": ["0", "0.0001", "-1234567890123456789012345678901234.5678", "9007199254740993"],
    "int[]": [*TAME["int[]"], *WILD["int[]"]],
}
UNIQUE_TYPES = ("double precision", "numeric(38,4)", "timestamptz")
OTHER_TYPES = ("numeric(10,2)", "text", "boolean", "date", "bigint", "int")
KEYS = 14
"""Keys are below it, so that they are taken, left and taken again."""


@dataclass(frozen=True)
class Field:
    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True)
class Reference:
    column: str
    parent: str
    cascades: bool


@dataclass(frozen=True)
class ChangingTable:
    name: str
    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    unique: tuple[str, ...] = ()

    def create(self) -> str:
        lines = [f"{f.name} {f.type}{'' if f.nullable else ' NOT NULL'}" for f in self.fields]
        lines += [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        lines += [f"UNIQUE ({', '.join(self.unique)})"] if self.unique else []
        for reference in self.references:
            cascade = " ON DELETE CASCADE" if reference.cascades else ""
            lines.append(f"FOREIGN KEY ({reference.column}) REFERENCES {reference.parent} (id){cascade}")
        return f"CREATE TABLE {self.name} ({', '.join(lines)})"

    def field(self, name: str) -> Field:
        return next(field for field in self.fields if field.name == name)

    @property
    def plain_fields(self) -> tuple[Field, ...]:
        """Those that are in no key and refer to nothing."""
        taken = {*self.key, *(reference.column for reference in self.references)}
        return tuple(field for field in self.fields if field.name not in taken)


# schemas


def random_schema(choices: Choices, prefix: str) -> tuple[ChangingTable, ...]:
    tables = [_table(choices, f"{prefix}0", (Field("id", "int", False),), ("id",), ())]
    for number in range(1, choices.between(2, 4)):
        tables.append(_any_table(choices, f"{prefix}{number}", tables))
    return tuple(tables)


def awkward_schema(choices: Choices, prefix: str) -> tuple[ChangingTable, ...]:
    """A random schema whose tables have one or two columns of awkward values more, and some of them a UNIQUE."""
    return tuple(_made_awkward(choices, table) for table in random_schema(choices, prefix))


def _made_awkward(choices: Choices, table: ChangingTable) -> ChangingTable:
    types = [choices.pick(AWKWARD_TYPES) for _ in range(choices.between(1, 2))]
    more = tuple(Field(f"w{number}", type_) for number, type_ in enumerate(types))
    unique = ("t", "w0") if types[0] in UNIQUE_TYPES and choices.chance(2) else ()
    return replace(table, fields=(*table.fields, *more), unique=unique)


def _any_table(choices: Choices, name: str, earlier: list[ChangingTable]) -> ChangingTable:
    parents = [table.name for table in earlier if table.key == ("id",)]
    first, second = (Reference(c, choices.pick(parents), not choices.chance(3)) for c in ("p", "q"))
    fields: tuple[Field, ...]
    match choices.draw(6):
        case 0 | 1:
            fields = Field("id", "int", False), Field("p", "int", choices.chance(2))
            return _table(choices, name, fields, ("id",), (first,))
        case 2:
            fields = Field("id", "int", False), Field("p", "int"), Field("q", "int")
            return _table(choices, name, fields, ("id",), (first, second))
        case 3:
            fields = Field("p", "int", False), Field("nr", "int", False)
            return _table(choices, name, fields, ("p", "nr"), (first,))
        case 4:
            return _table(choices, name, (Field("p", "int"),), (), (first,))
        case _:
            return _table(choices, name, (), (), ())


def _table(
    choices: Choices, name: str, fields: tuple[Field, ...], key: tuple[str, ...], references: tuple[Reference, ...]
) -> ChangingTable:
    more = [Field("k", "int"), Field("g", "int", False), Field("t", "text", choices.chance(2))]
    more += [Field(f"x{n}", choices.pick(OTHER_TYPES), not choices.chance(4)) for n in range(choices.between(1, 2))]
    return ChangingTable(name, (*fields, *more), key, references)


def alteration(choices: Choices, table: ChangingTable, dropped: Collection[str]) -> str:
    """A constraint more, or one less; `dropped`: the names of those that are gone."""
    if table.references and choices.chance(2):
        reference = choices.pick(table.references)
        name = f"{table.name}_{reference.column}_fkey"
        if name not in dropped:
            return f"ALTER TABLE {table.name} DROP CONSTRAINT {name}"
        cascade = " ON DELETE CASCADE" if reference.cascades else ""
        refers = f"FOREIGN KEY ({reference.column}) REFERENCES {reference.parent} (id){cascade}"
        return f"ALTER TABLE {table.name} ADD CONSTRAINT {name} {refers}"
    field = choices.pick(table.plain_fields)
    return f"ALTER TABLE {table.name} ALTER COLUMN {field.name} {choices.pick(['SET', 'DROP'])} NOT NULL"


# transactions


class TransactionMaker:
    """Makes statements for tables that are as a state says."""

    def __init__(self, choices: Choices, tables: Sequence[ChangingTable]) -> None:
        self.choices, self.tables = choices, {table.name: table for table in tables}

    def first_rows(self, table: ChangingTable, state: State) -> str:
        return self._insert(table, state, self.choices.between(5, 9))

    def statements(self, state: State) -> list[str]:
        """One change, or several that belong together."""
        table = self.choices.pick(list(self.tables.values()))
        kinds: list[Callable[[ChangingTable, State], list[str]]] = [self._insert_some, self._update, self._delete_one]
        kinds += [self._insert_some, self._update, self._merge, self._merge_and_delete, self._copy_rows]
        kinds += [self._there_and_back, self._update_all, self._delete_some, self._update]
        kinds += [self._move_key, self._replace_row, self._delete_one] if table.key else [self._same_row_again]
        kinds += [self._move_reference] if table.references else [self._family, self._family]
        kinds += [self._delete_all] if self.choices.chance(6) else []
        return self.choices.pick(kinds)(table, state)

    # inserts

    def _insert_some(self, table: ChangingTable, state: State) -> list[str]:
        return [self._insert(table, state, self.choices.pick([1, 1, 2, 3]))]

    def _insert(self, table: ChangingTable, state: State, count: int) -> str:
        names = ", ".join(field.name for field in table.fields)
        return f"INSERT INTO {table.name} ({names}) VALUES {', '.join(map(_listed, self._rows(table, state, count)))}"

    def _rows(self, table: ChangingTable, state: State, count: int) -> list[dict[str, str]]:
        made: list[dict[str, str]] = []
        for _ in range(count):
            row = {field.name: self._value_of(table, field, state) for field in table.fields}
            if table.key:
                row |= self._free_key(table, state, made)
            made.append(row)
        return made

    def _value_of(self, table: ChangingTable, field: Field, state: State) -> str:
        if field.nullable and self.choices.chance(5):
            return "NULL"
        for reference in table.references:
            parents = [str(row["id"]) for row in state[reference.parent]]
            if reference.column == field.name:
                return self.choices.pick(parents) if parents else "NULL"
        return self.choices.pick(VALUES[field.type])

    def _free_key(self, table: ChangingTable, state: State, made: list[dict[str, str]]) -> dict[str, str]:
        """A key that is not taken, if there is one."""
        options = _possible_keys(table, state)
        taken = {tuple(str(row[column]) for column in table.key) for row in [*state[table.name], *made]}
        free = [key for key in options if key not in taken] or options or [("0",) * len(table.key)]
        return dict(zip(table.key, self.choices.pick(free), strict=True))

    def _copy_rows(self, table: ChangingTable, state: State) -> list[str]:
        """INSERT of what a query finds: rows of the table itself, where there is no key, or those of another."""
        other = self.choices.pick(list(self.tables.values()))
        values = [
            f"o.{field.name}" if field in other.plain_fields else self._value_of(table, field, state)
            for field in table.fields
        ]
        if table.key and "id" in table.key:
            ids = [int(row["id"]) for row in state[table.name]]
            values[0] = f"o.g + {max([*ids, 0]) + 8}"
        names = ", ".join(field.name for field in table.fields)
        where = f"o.g = {self.choices.pick(VALUES['int'])}"
        return [f"INSERT INTO {table.name} ({names}) SELECT {', '.join(values)} FROM {other.name} AS o WHERE {where}"]

    def _same_row_again(self, table: ChangingTable, state: State) -> list[str]:
        row = _listed(self._rows(table, state, 1)[0])
        names = ", ".join(field.name for field in table.fields)
        return [f"INSERT INTO {table.name} ({names}) VALUES {', '.join([row] * self.choices.between(2, 3))}"]

    def _family(self, table: ChangingTable, state: State) -> list[str]:
        """A parent with its children in one commit, and sometimes a child of an older one."""
        children = [c for c in self.tables.values() if any(r.parent == table.name for r in c.references)]
        if not children:
            return self._insert_some(table, state)
        parent = self._rows(table, state, 1)[0]
        made = [f"INSERT INTO {table.name} ({', '.join(parent)}) VALUES {_listed(parent)}"]
        child = self.choices.pick(children)
        only_new = {**state, table.name: [{"id": int(parent["id"])}]}
        made.append(self._insert(child, {**only_new, child.name: state[child.name]}, self.choices.between(1, 3)))
        if self.choices.chance(3):
            made.append(self._insert(child, state, 1))
        return made

    # updates

    def _update(self, table: ChangingTable, state: State) -> list[str]:
        changes = [self._assignment(self.choices.pick(table.plain_fields)) for _ in range(self.choices.between(1, 2))]
        unique = dict(change.split(" = ", 1) for change in changes)
        text = ", ".join(f"{name} = {value}" for name, value in unique.items())
        return [f"UPDATE {table.name} SET {text} WHERE {self._which(table, state)}"]

    def _update_all(self, table: ChangingTable, state: State) -> list[str]:
        return [f"UPDATE {table.name} SET {self._assignment(self.choices.pick(table.plain_fields))}"]

    def _assignment(self, field: Field) -> str:
        if field.type in ("int", "bigint") and self.choices.chance(2):
            return f"{field.name} = {field.name} {self.choices.pick(['+', '-'])} 1"
        if field.nullable and self.choices.chance(4):
            return f"{field.name} = NULL"
        return f"{field.name} = {literal(field.type, self.choices.pick(VALUES[field.type]))}"

    def _move_key(self, table: ChangingTable, state: State) -> list[str]:
        """A row takes another key."""
        if not state[table.name]:
            return self._insert_some(table, state)
        row, free = self.choices.pick(state[table.name]), self._free_key(table, state, [])
        text = ", ".join(f"{column} = {value}" for column, value in free.items())
        return [f"UPDATE {table.name} SET {text} WHERE {_keyed(table, row)}"]

    def _move_reference(self, table: ChangingTable, state: State) -> list[str]:
        reference = self.choices.pick(table.references)
        field = table.field(reference.column)
        new = self._value_of(table, field, state)
        return [f"UPDATE {table.name} SET {field.name} = {new} WHERE {self._which(table, state)}"]

    def _replace_row(self, table: ChangingTable, state: State) -> list[str]:
        """Deleted and inserted again under the same key, in one transaction."""
        if not state[table.name]:
            return self._insert_some(table, state)
        row = self.choices.pick(state[table.name])
        new = self._rows(table, state, 1)[0] | {column: str(row[column]) for column in table.key}
        again = f"INSERT INTO {table.name} ({', '.join(new)}) VALUES {_listed(new)}"
        return [f"DELETE FROM {table.name} WHERE {_keyed(table, row)}", again]

    def _there_and_back(self, table: ChangingTable, state: State) -> list[str]:
        """Changes that come to nothing within one transaction."""
        which = self._which(table, state)
        return [f"UPDATE {table.name} SET g = g + 1 WHERE {which}", f"UPDATE {table.name} SET g = g - 1 WHERE {which}"]

    # deletes and merges

    def _delete_one(self, table: ChangingTable, state: State) -> list[str]:
        """The row of one key, with all that depends on it; without a key, all rows that are equal in g."""
        if not state[table.name]:
            return self._insert_some(table, state)
        row = self.choices.pick(state[table.name])
        return [f"DELETE FROM {table.name} WHERE {_keyed(table, row) if table.key else 'g = ' + str(row['g'])}"]

    def _delete_some(self, table: ChangingTable, state: State) -> list[str]:
        return [f"DELETE FROM {table.name} WHERE {self._which(table, state)}"]

    def _delete_all(self, table: ChangingTable, state: State) -> list[str]:
        return [f"DELETE FROM {table.name}"]

    def _which(self, table: ChangingTable, state: State) -> str:
        rows = state[table.name]
        if table.key and rows and self.choices.chance(2):
            return _keyed(table, self.choices.pick(rows))
        field = self.choices.pick([f for f in table.fields if f.type in ("int", "bigint")])
        if self.choices.chance(5) and field.nullable:
            return f"{field.name} IS NULL"
        number = self.choices.pick(VALUES["int"])
        return f"{field.name} {self.choices.pick(['=', '=', '<', '>'])} {number}"

    def _merge(self, table: ChangingTable, state: State) -> list[str]:
        """Some keys that are there and some that are not; without a key, rows go by g."""
        rows = self._merge_rows(table, state)
        values = ", ".join(f"new.{field.name}" for field in table.fields)
        names = ", ".join(field.name for field in table.fields)
        changed = self.choices.pick(table.plain_fields)
        when = f"WHEN MATCHED THEN UPDATE SET {changed.name} = new.{changed.name}"
        when += f" WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        return [f"{self._merge_head(table, rows)} {when}"]

    def _merge_and_delete(self, table: ChangingTable, state: State) -> list[str]:
        rows = self._merge_rows(table, state)
        limit = self.choices.pick(VALUES["int"])
        when = f"WHEN MATCHED AND {table.name}.g < {limit} THEN DELETE WHEN MATCHED THEN UPDATE SET g = new.g"
        return [f"{self._merge_head(table, rows)} {when}"]

    def _merge_head(self, table: ChangingTable, rows: list[dict[str, str]]) -> str:
        names = ", ".join(field.name for field in table.fields)
        given = ", ".join(_listed({f.name: literal(f.type, row[f.name]) for f in table.fields}) for row in rows)
        on = " AND ".join(f"{table.name}.{column} = new.{column}" for column in table.key or ("g",))
        return f"MERGE INTO {table.name} USING (VALUES {given}) AS new ({names}) ON {on}"

    def _merge_rows(self, table: ChangingTable, state: State) -> list[dict[str, str]]:
        rows = self._rows(table, state, self.choices.between(1, 2))
        if not table.key:
            return list({row["g"]: row for row in rows}.values())
        for old in list(state[table.name])[: self.choices.between(0, 2)]:
            rows.append(self._rows(table, state, 1)[0] | {column: str(old[column]) for column in table.key})
        return list({tuple(row[column] for column in table.key): row for row in rows}.values())


def _possible_keys(table: ChangingTable, state: State) -> list[tuple[str, ...]]:
    if table.key == ("id",):
        return [(str(number),) for number in range(KEYS)]
    parents = [str(row["id"]) for row in state[table.references[0].parent]]
    return [(parent, str(number)) for parent in parents for number in range(3)]


def _listed(row: Mapping[str, str]) -> str:
    return f"({', '.join(row.values())})"


def _keyed(table: ChangingTable, row: Mapping[str, Any]) -> str:
    return " AND ".join(f"{column} = {row[column]}" for column in table.key)


def literal(type_: str, text: str) -> str:
    return text if type_ in ("int", "boolean") and text != "NULL" else f"CAST({text} AS {type_})"
