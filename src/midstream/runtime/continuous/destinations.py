"""Where a continuous query may leave its changes: a table whose columns fit, or a queue of its own."""

from __future__ import annotations

from midstream.errors import DependentObjects, InvalidDefinition, TypeMismatch, UndefinedName, WrongObject
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery, MaterializedView, Queue
from midstream.relations.schema import Relation
from midstream.relations.table import Table
from midstream.relations.view import View
from midstream.runtime.continuous.delivering import destination_names
from midstream.runtime.continuous.naming import check_free
from midstream.runtime.store import Store
from midstream.runtime.writing import Writer
from midstream.sql.text import quote_name
from midstream.types import Type


def prepare_destination(writer: Writer, query: ContinuousQuery, state: CatalogState) -> list[Relation]:
    """What must be made for a destination to be there."""
    name = str(query.destination)
    found = state.relations.get(name)
    if query.is_queue:
        return _queue(writer.transaction.store, query, found, state)
    if found is None:
        raise UndefinedName(
            f'the destination table "{name}" does not exist', hint=f"{_fitting_table(query, name)} makes one that fits."
        )
    if not isinstance(found, Table) or isinstance(found, MaterializedView):
        raise WrongObject(f'the destination "{name}" is not a table')
    check_fits(query, found)
    _check_cycle(query, state, name)
    return []


def _queue(store: Store, query: ContinuousQuery, found: Relation | None, state: CatalogState) -> list[Relation]:
    name = str(query.destination)
    if found is None:
        check_free(state, name)
        return [Queue(store.catalog.new_id(), name)]
    if not isinstance(found, Queue):
        raise WrongObject(f'"{name}" is not a queue')
    other = query_of_queue(state, name)
    if other is not None and other.id != query.id:
        raise DependentObjects(
            f'queue "{name}" takes the changes of continuous query "{other.name}"',
            detail="A queue has the changes of one query.",
        )
    return []


def query_of_queue(state: CatalogState, name: str) -> ContinuousQuery | None:
    queries = (r for r in state.relations.values() if isinstance(r, ContinuousQuery))
    return next((query for query in queries if query.is_queue and query.destination == name), None)


def _fitting_table(query: ContinuousQuery, name: str) -> str:
    columns = ", ".join(f"{quote_name(column)} {type_}" for column, type_ in query.output_columns)
    return f"CREATE TABLE {quote_name(name)} ({columns})"


def check_fits(query: ContinuousQuery, table: Table) -> None:
    given = query.output_columns
    hint = f"{_fitting_table(query, table.name)} would fit."
    if len(table.columns) < len(given):
        raise InvalidDefinition(
            f'the destination "{table.name}" has {len(table.columns)} columns, and {len(given)} are handed out',
            hint=hint,
        )
    targets = destination_names(query, table)
    missing = [c.name for c in table.columns if c.not_null and c.default is None and c.name not in targets]
    if missing:
        raise InvalidDefinition(
            f'column "{missing[0]}" of the destination "{table.name}" is NOT NULL, and gets nothing', hint=hint
        )
    for (name, type_), target in zip(given, targets, strict=True):
        column = table.column(target)
        assert column is not None
        if not _assignable(type_, column.type):
            raise TypeMismatch(
                f'column "{target}" of the destination "{table.name}" is of type {column.type}, '
                f'but "{name}" is of type {type_}',
                hint=hint,
            )


def _assignable(given: Type, wanted: Type) -> bool:
    same = given.is_number and wanted.is_number or given.is_text and wanted.is_text
    return given == wanted or given.name == wanted.name or same


def _check_cycle(query: ContinuousQuery, state: CatalogState, destination: str) -> None:
    """What a query writes must not lead back to what it reads."""
    reached, todo = set[str](), [destination]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        for relation in state.relations.values():
            if isinstance(relation, ContinuousQuery) and name in relation.reads and relation.destination:
                todo.append(relation.destination)
            if isinstance(relation, View | MaterializedView) and name in relation.reads:
                todo.append(relation.name)
    if reached & set(query.reads):
        raise InvalidDefinition(
            f'continuous query "{query.name}" would read what it writes',
            detail=f'Its destination "{destination}" leads back to {", ".join(sorted(reached & set(query.reads)))}.',
            sqlstate="42P17",
        )
