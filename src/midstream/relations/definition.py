"""Relations as JSON text and back: what the catalog file keeps. `decode(encode(r)) == r`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from midstream.relations.schema import Relation
from midstream.relations.table import (
    CheckConstraint,
    Column,
    ForeignKey,
    IncreasingConstraint,
    Key,
    Table,
    TableConstraint,
)
from midstream.relations.view import View
from midstream.types import parse_type

_CONSTRAINTS: dict[str, type[TableConstraint]] = {
    "key": Key,
    "foreign key": ForeignKey,
    "check": CheckConstraint,
    "increasing": IncreasingConstraint,
}


def kind_of(relation: Relation) -> str:
    return "table" if isinstance(relation, Table) else "view"


def encode(relation: Relation) -> str:
    """The definition without name and id, which have columns of their own."""
    if isinstance(relation, View):
        columns = [[name, str(type_)] for name, type_ in relation.columns]
        return json.dumps({"columns": columns, "query": relation.query, "reads": relation.reads})
    return json.dumps(
        {
            "columns": [_encode_column(column) for column in relation.columns],
            "constraints": [_encode_constraint(constraint) for constraint in relation.constraints],
        }
    )


def decode(kind: str, id: int, name: str, text: str) -> Relation:
    value = json.loads(text)
    if kind == "view":
        columns = tuple((column, parse_type(type_)) for column, type_ in value["columns"])
        return View(id, name, columns, value["query"], tuple(value["reads"]))
    return Table(
        id,
        name,
        tuple(_decode_column(column) for column in value["columns"]),
        tuple(_decode_constraint(constraint) for constraint in value["constraints"]),
    )


def _encode_column(column: Column) -> dict[str, Any]:
    return asdict(column) | {"type": str(column.type)}


def _decode_column(value: dict[str, Any]) -> Column:
    return Column(**value | {"type": parse_type(value["type"])})


def _encode_constraint(constraint: TableConstraint) -> dict[str, Any]:
    kind = next(kind for kind, known in _CONSTRAINTS.items() if isinstance(constraint, known))
    return asdict(constraint) | {"kind": kind}


def _decode_constraint(value: dict[str, Any]) -> TableConstraint:
    fields: dict[str, Any] = {k: tuple(field) if isinstance(field, list) else field for k, field in value.items()}
    return _CONSTRAINTS[fields.pop("kind")](**fields)
