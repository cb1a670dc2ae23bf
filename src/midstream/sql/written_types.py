"""Types as they are written in casts and column definitions: `numeric(10,2)`, `timestamp with time zone`, `int[]`.

What a type's text stands for is PostgreSQL's: `char` is `char(1)`, `float(10)` is `real`. A precision that
would have to round (`timestamp(3)`) is refused.
"""

from __future__ import annotations

from sqlglot import exp

from midstream.errors import TypeMismatch
from midstream.sql.reader import TokenReader
from midstream.types import Type, parse_type

INTERVAL_FIELDS = ("year", "month", "day", "hour", "minute", "second")
_DATA_TYPES = {
    "smallint": exp.DType.SMALLINT,
    "int": exp.DType.INT,
    "bigint": exp.DType.BIGINT,
    "real": exp.DType.FLOAT,
    "double precision": exp.DType.DOUBLE,
    "numeric": exp.DType.DECIMAL,
    "boolean": exp.DType.BOOLEAN,
    "text": exp.DType.TEXT,
    "varchar": exp.DType.VARCHAR,
    "char": exp.DType.CHAR,
    "date": exp.DType.DATE,
    "timestamp": exp.DType.TIMESTAMP,
    "timestamptz": exp.DType.TIMESTAMPTZ,
    "interval": exp.DType.INTERVAL,
    "bytea": exp.DType.VARBINARY,
    "json": exp.DType.JSON,
}


class TypeReader(TokenReader):
    def type(self) -> Type:
        return self._written_type()[0]

    def data_type(self) -> exp.DataType:
        """The type of a cast; `numeric` without bounds stays without, since a cast to it keeps every digit."""
        token = self.token
        type_, bounded = self._written_type()
        return self.placed(_data_type_node(type_, bounded), token)

    def _written_type(self) -> tuple[Type, bool]:
        start = self.token
        if start.kind != "quoted" and self.take("pg_catalog", "."):
            start = self.token
        name = self.function_name().value
        words, arguments = self._type_words(name)
        written = words if arguments is None else f"{words}({', '.join(map(str, arguments))})"
        try:
            type_ = parse_type(written if start.kind == "word" else f'"{name}"')
            for _ in range(self._array_dimensions()):
                type_ = parse_type(f"{type_}[]")
        except TypeMismatch as error:
            self.fail_at(start, error)
        return type_, words != "numeric" or arguments is not None

    def _type_words(self, name: str) -> tuple[str, list[int] | None]:
        if name == "double":
            self.expect("precision")
            return "double precision", None
        if name in ("char", "character") and self.take("varying"):
            name = "varchar"
        arguments = self.in_parentheses(self.integer) if self.sees("(") else None
        if name in ("timestamp", "time"):
            name += self._time_zone()
        if name == "interval" and self.sees_any(*INTERVAL_FIELDS):
            self.refuse("an interval type with fields", hint="Use plain interval.")
        if name.startswith(("timestamp", "interval")) and arguments not in (None, [6]):
            self.refuse(f"{name.split()[0]} with fewer than 6 digits of a second", hint=f"Use plain {name.split()[0]}.")
        return _without_arguments(name, arguments)

    def _time_zone(self) -> str:
        for words in (("with", "time", "zone"), ("without", "time", "zone")):
            if self.take(*words):
                return " " + " ".join(words)
        return ""

    def _array_dimensions(self) -> int:
        dimensions = 0
        if self.take("array"):
            dimensions = 1
            if not self.sees("["):
                return 1
            dimensions = 0
        while self.take("["):
            if self.token.kind == "number":
                self.integer()
            self.expect("]")
            dimensions += 1
        return dimensions


def _without_arguments(name: str, arguments: list[int] | None) -> tuple[str, list[int] | None]:
    """Spells out what a length, or its absence, stands for."""
    if name.startswith(("timestamp", "interval")):
        return name, None
    if name == "float" and arguments is not None and len(arguments) == 1:
        return ("real" if arguments[0] <= 24 else "double precision"), None
    if name in ("char", "character") and arguments is None:
        return "char", [1]
    return {"decimal": "numeric", "dec": "numeric"}.get(name, name), arguments


def _data_type_node(type_: Type, bounded: bool) -> exp.DataType:
    if type_.element is not None:
        element = _data_type_node(type_.element, bounded)
        return exp.DataType(this=exp.DType.ARRAY, expressions=[element], nested=True)
    numbers = [n for n in (type_.precision, type_.scale) if n is not None] if bounded else []
    parameters = [exp.DataTypeParam(this=exp.Literal.number(n)) for n in numbers]
    return exp.DataType(this=_DATA_TYPES[type_.name], expressions=parameters or None, nested=False)
