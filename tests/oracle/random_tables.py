"""Random tables with awkward rows: NULLs, unicode, extremes, decimals, moments, arrays, -0.0 and NaN.

A column is *tame* when arithmetic on its values cannot overflow; wild ones are only compared, grouped and handed on.
Every literal means the same to Midstream and to PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from choices import Choices


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    tame: bool


@dataclass(frozen=True)
class Key:
    """Columns that tell the rows of a table apart. Rows with a NULL in them are equal to none, and a primary key has no
    such rows."""

    columns: tuple[str, ...]
    is_primary: bool = False


@dataclass(frozen=True)
class RandomTable:
    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[Key, ...] = ()

    def create(self, *, postgres: bool) -> str:
        collation = ' COLLATE "C"' if postgres else ""
        parts = [f"{c.name} {c.type}{collation if c.type.startswith('text') else ''}" for c in self.columns]
        parts += [f"{'PRIMARY KEY' if key.is_primary else 'UNIQUE'} ({', '.join(key.columns)})" for key in self.keys]
        return f"CREATE TABLE {self.name} ({', '.join(parts)})"

    def insert(self) -> str | None:
        if not self.rows:
            return None
        return f"INSERT INTO {self.name} VALUES " + ", ".join(f"({', '.join(row)})" for row in self.rows)


KEYS = (
    (Key(("k",), is_primary=True),),
    (Key(("k",)),),
    (Key(("k", "i"), is_primary=True),),
    (Key(("k", "i")), Key(("s",))),
    (Key(("i",)),),
    (Key(("k",), is_primary=True), Key(("i",))),
)
TAME = {
    "smallint": [str(n) for n in (0, 1, 2, -3)],
    "int": [str(n) for n in (0, 1, 2, 3, -1, 7)],
    "bigint": [str(n) for n in (0, 1, 2, -5, 1000)],
    "real": ["0", "0.5", "-1.25", "2"],
    "double precision": ["0", "0.5", "-1.25", "2", "3.75"],
    "numeric(10,2)": ["0", "1.50", "-2.25", "3.33", "10.00"],
    "text": ["'a'", "'b'", "'ab'", "'B'", "''", "' x y '", "'10'"],
    "boolean": ["true", "false"],
    "date": ["'2024-02-28'", "'2024-03-01'", "'2023-12-31'", "'1970-01-01'", "'1969-07-20'"],
    "timestamp": [
        "'2024-02-28 23:59:59.999999'",
        "'2024-03-01 00:00:00'",
        "'1969-12-31 23:00:00'",
        "'2024-03-31 02:30:00'",
    ],
    "timestamptz": ["'2024-03-01 00:00:00+00'", "'2024-03-01 01:00:00+01'", "'1969-12-31 23:00:00.5-05'"],
    "int[]": ["ARRAY[1, 2]", "ARRAY[2, 1]", "ARRAY[1]", "ARRAY[]::int[]", "ARRAY[1, NULL]::int[]"],
    "text[]": ["ARRAY['a']", "ARRAY['a', 'b']", "ARRAY[]::text[]", "ARRAY[NULL, '']::text[]"],
}
WILD = {
    "smallint": ["-32768", "32767"],
    "int": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "9007199254740993", "9007199254740992"],
    "real": ["'NaN'", "'Infinity'", "3.4e38", "0.1"],
    "double precision": ["'NaN'", "'-Infinity'", "'Infinity'", "-0.0", "1e300", "1e-300", "0.1"],
    "numeric(10,2)": ["99999999.99", "-99999999.99", "0.01"],
    "text": ["'ä'", "'😀'", "'é'", "'é'", "'ß'", "'it''s'", "'a%b'", "'a_b'", "'\\'", "'\t'", "'Z'"],
    "boolean": ["true"],
    "date": ["'0001-01-01'", "'9999-12-31'", "'1582-10-10'"],
    "timestamp": ["'0001-01-01 00:00:00'", "'9999-12-31 23:59:59.999999'", "'1582-10-10 12:00:00'"],
    "timestamptz": ["'0002-01-01 00:00:00+00'", "'9999-12-30 00:00:00+00'"],
    "int[]": ["ARRAY[2147483647, -2147483648]", "ARRAY[NULL]::int[]"],
    "text[]": ["ARRAY['ü', '😀', '\"', ',']"],
}
TYPES = ("int", "text", "bigint", "double precision", "numeric(10,2)", "boolean", "date", "timestamp")
RARE_TYPES = ("smallint", "real", "timestamptz", "int[]", "text[]")


def random_tables(choices: Choices, prefix: str) -> tuple[RandomTable, ...]:
    return tuple(_random_table(choices, f"{prefix}_t{number}") for number in range(choices.between(2, 3)))


def _random_table(choices: Choices, name: str) -> RandomTable:
    columns = [Column("k", "int", True), Column("i", "int", True), Column("s", "text", True)]
    for number in range(choices.between(2, 5)):
        type_ = choices.pick(RARE_TYPES) if choices.chance(4) else choices.pick(TYPES)
        columns.append(Column(f"c{number}", type_, not choices.chance(3)))
    rows = tuple(
        tuple(_value(choices, column) for column in columns)
        for _ in range(0 if choices.chance(10) else choices.between(3, 12))
    )
    return RandomTable(name, tuple(columns), rows)


def with_keys(choices: Choices, table: RandomTable) -> RandomTable:
    """The table with keys, more often than not, and those of its rows that keep to them."""
    keys = choices.pick(KEYS) if not choices.chance(4) else ()
    places = {column.name: place for place, column in enumerate(table.columns)}
    rows: list[tuple[str, ...]] = []
    for row in table.rows:
        if all(_may_come(key, row, rows, places) for key in keys):
            rows.append(row)
    return replace(table, rows=tuple(rows), keys=keys)


def _may_come(key: Key, row: tuple[str, ...], rows: list[tuple[str, ...]], places: dict[str, int]) -> bool:
    values, *others = ([r[places[name]] for name in key.columns] for r in (row, *rows))
    return not key.is_primary if "NULL" in values else values not in others


def _value(choices: Choices, column: Column) -> str:
    if choices.chance(5):
        return "NULL"
    return choices.pick(TAME[column.type] if column.tame else TAME[column.type] + WILD[column.type] * 2)
