"""Relations as JSON text and back: what the catalog file keeps. `decode(encode(r)) == r`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, cast

from midstream.relations.query import ContinuousQuery, MaterializedView, Output, Queue, Trigger
from midstream.relations.schema import Relation
from midstream.relations.stream import History, Stream
from midstream.relations.table import (
    CheckConstraint,
    Column,
    ForeignKey,
    IncreasingConstraint,
    Key,
    Table,
    TableConstraint,
)
from midstream.relations.view import ContinuousView, View
from midstream.types import parse_type

_CONSTRAINTS: dict[str, type[TableConstraint]] = {
    "key": Key,
    "foreign key": ForeignKey,
    "check": CheckConstraint,
    "increasing": IncreasingConstraint,
}


_KINDS: dict[type[Relation], str] = {
    Table: "table",
    Stream: "stream",
    View: "view",
    ContinuousView: "continuous view",
    MaterializedView: "materialized view",
    ContinuousQuery: "continuous query",
    Queue: "queue",
    Trigger: "trigger",
}


def kind_of(relation: Relation) -> str:
    return _KINDS[type(relation)]


def encode(relation: Relation) -> str:
    """The definition without name and id, which have columns of their own."""
    if isinstance(relation, Queue | Trigger):
        return json.dumps({key: value for key, value in asdict(relation).items() if key not in ("id", "name")})
    if isinstance(relation, ContinuousQuery):
        plain = {key: value for key, value in asdict(relation).items() if key not in ("id", "name")}
        return json.dumps(plain | {"columns": [[name, str(type_)] for name, type_ in relation.columns]})
    if isinstance(relation, View):
        columns = [[name, str(type_)] for name, type_ in relation.columns]
        written_view: dict[str, Any] = {"columns": columns, "query": relation.query, "reads": relation.reads}
        if isinstance(relation, ContinuousView):
            written_view["options"] = {
                "kernel": relation.kernel,
                "backfill": relation.backfill,
                "is_windowed": relation.is_windowed,
                "maintenance": relation.maintenance,
                "retain_windows": relation.retain_windows,
                "retain_seconds": relation.retain_seconds,
                "key": relation.key,
                "unit": relation.unit,
            }
        return json.dumps(written_view)
    written: dict[str, Any] = {
        "columns": [_encode_column(column) for column in relation.columns],
        "constraints": [_encode_constraint(constraint) for constraint in relation.constraints],
    }
    if isinstance(relation, MaterializedView):
        written |= {
            "query": relation.query,
            "reads": relation.reads,
            "when": relation.when,
            "period_seconds": relation.period_seconds,
            "refresh": relation.refresh,
            "kernel": relation.kernel,
            "append_only": relation.append_only,
        }
    if isinstance(relation, Stream):
        written |= {
            "timestamp": relation.timestamp,
            "lateness_seconds": relation.lateness_seconds,
            "history": asdict(relation.history) if relation.history else None,
        }
    return json.dumps(written)


def decode(kind: str, id: int, name: str, text: str) -> Relation:
    value = json.loads(text)
    if kind in ("view", "continuous view"):
        named = tuple((column, parse_type(type_)) for column, type_ in value["columns"])
        plain = (id, name, named, value["query"], tuple(value["reads"]))
        if kind == "view":
            return View(*plain)
        options = value["options"]
        return ContinuousView(*plain, **options | {"key": tuple(options.get("key", ()))})
    if kind == "queue":
        return Queue(id, name)
    if kind == "trigger":
        return Trigger(id, name, **value)
    if kind == "continuous query":
        return _decode_query(id, name, value)
    columns = tuple(_decode_column(column) for column in value.pop("columns"))
    constraints = tuple(_decode_constraint(constraint) for constraint in value.pop("constraints"))
    if kind == "table":
        return Table(id, name, columns, constraints)
    if kind == "materialized view":
        lists = {key: tuple(value[key]) for key in ("reads", "append_only")}
        return MaterializedView(id, name, columns, constraints, **value | lists)
    history = value.pop("history")
    checks = cast("tuple[CheckConstraint, ...]", constraints)
    return Stream(id, name, columns, checks, **value, history=History(**history) if history else None)


def _decode_query(id: int, name: str, value: dict[str, Any]) -> ContinuousQuery:
    given: dict[str, Any] = {key: tuple(field) if isinstance(field, list) else field for key, field in value.items()}
    given["columns"] = tuple((column, parse_type(type_)) for column, type_ in value["columns"])
    given["outputs"] = tuple(Output(**output) for output in value["outputs"])
    return ContinuousQuery(id, name, **given)


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
