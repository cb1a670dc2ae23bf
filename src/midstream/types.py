"""The types of SQL values, one frozen word for each.

`str(type)` is what people write (`numeric(10,2)`, `bigint[]`) and what the catalog keeps;
`parse_type(str(t)) == t` for every type. `varchar(n)` and `char(n)` are texts whose length is checked
when they are stored.

    >>> NUMERIC(10, 2), str(array_of(BIGINT))
    (Type(numeric(10,2)), 'bigint[]')
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from midstream.errors import TypeMismatch

_ALIASES = {
    "int2": "smallint",
    "integer": "int",
    "int4": "int",
    "int8": "bigint",
    "float4": "real",
    "float": "double precision",
    "float8": "double precision",
    "double": "double precision",
    "decimal": "numeric",
    "dec": "numeric",
    "bool": "boolean",
    "character varying": "varchar",
    "character": "char",
    "bpchar": "char",
    "string": "text",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
    "jsonb": "json",
    "binary": "bytea",
}
SIMPLE_NAMES = frozenset(
    ["smallint", "int", "bigint", "real", "double precision", "boolean", "text"]
    + ["date", "timestamp", "timestamptz", "interval", "bytea", "json"]
)
NAMES = SIMPLE_NAMES | {"numeric", "varchar", "char"}
MAX_PRECISION = 38
UNBOUNDED_NUMERIC = (38, 10)
"""What plain `numeric` means: Spark and DuckDB both need bounds."""


@dataclass(frozen=True, repr=False)
class Type:
    """A type by its canonical name; numeric has both numbers, varchar and char a length, arrays an element."""

    name: str
    precision: int | None = None
    scale: int | None = None
    element: Type | None = None

    def __post_init__(self) -> None:
        if self.name == "array":
            if self.element is None:
                raise TypeMismatch("an array type needs the type of its elements")
        elif self.name not in NAMES and self.name != "null":
            raise TypeMismatch(f'type "{self.name}" does not exist', sqlstate="42704")
        if self.name == "numeric" and not _fits(self.precision, self.scale):
            raise TypeMismatch(
                f"numeric({self.precision},{self.scale}) is out of range",
                hint=f"The precision is 1 to {MAX_PRECISION}, the scale 0 to the precision.",
                sqlstate="22023",
            )

    def __str__(self) -> str:
        if self.element is not None:
            return f"{self.element}[]"
        if self.name == "numeric":
            return f"numeric({self.precision},{self.scale})"
        return self.name if self.precision is None else f"{self.name}({self.precision})"

    def __repr__(self) -> str:
        return f"Type({self})"

    @property
    def is_integer(self) -> bool:
        return self.name in ("smallint", "int", "bigint")

    @property
    def is_float(self) -> bool:
        return self.name in ("real", "double precision")

    @property
    def is_number(self) -> bool:
        return self.is_integer or self.is_float or self.name == "numeric"

    @property
    def is_text(self) -> bool:
        return self.name in ("text", "varchar", "char")

    @property
    def is_time(self) -> bool:
        return self.name in ("date", "timestamp", "timestamptz")


def _fits(precision: int | None, scale: int | None) -> bool:
    return precision is not None and scale is not None and 1 <= precision <= MAX_PRECISION and 0 <= scale <= precision


SMALLINT, INT, BIGINT = Type("smallint"), Type("int"), Type("bigint")
REAL, DOUBLE = Type("real"), Type("double precision")
BOOLEAN, TEXT, BYTEA, JSON = Type("boolean"), Type("text"), Type("bytea"), Type("json")
DATE, TIMESTAMP, TIMESTAMPTZ, INTERVAL = Type("date"), Type("timestamp"), Type("timestamptz"), Type("interval")
NULL = Type("null")
"""The type of a bare NULL, before something gives it one."""


def NUMERIC(precision: int, scale: int = 0) -> Type:  # noqa: N802
    return Type("numeric", precision, scale)


def array_of(element: Type) -> Type:
    return Type("array", element=element)


_WRITTEN = re.compile(r"([a-z][a-z0-9 _]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?(\s+with(?:out)? time zone)?")


def parse_type(text: str) -> Type:
    """Reads a type as people and the catalog write it."""
    written = " ".join(text.strip().lower().split())
    if written.endswith("[]"):
        return array_of(parse_type(written[:-2]))
    match = _WRITTEN.fullmatch(written)
    if match is None:
        raise TypeMismatch(f'type "{text}" does not exist', sqlstate="42704")
    name = match[1] + (match[4] or "")
    name = _ALIASES.get(name, name)
    if name == "numeric":
        return _numeric(match[2], match[3])
    if match[2] is None or name in ("timestamp", "timestamptz"):
        return Type(name)
    if name not in ("varchar", "char"):
        raise TypeMismatch(f'type "{name}" takes no length', sqlstate="42601")
    return Type(name, int(match[2]))


def _numeric(precision: str | None, scale: str | None) -> Type:
    if precision is None:
        return NUMERIC(*UNBOUNDED_NUMERIC)
    return NUMERIC(int(precision), int(scale or 0))
