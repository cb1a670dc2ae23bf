"""Names of continuous queries, queues and triggers: those that are free, and those that are there."""

from __future__ import annotations

from midstream.errors import DuplicateName, UndefinedName, WrongObject
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery
from midstream.sql.mentions import place_of_name
from midstream.sql.statements import Statement


def check_free(state: CatalogState, name: str) -> None:
    from midstream.runtime.definitions import check_name

    check_name(name)
    if name in state.relations:
        raise DuplicateName(f'relation "{name}" already exists')


def find_query(state: CatalogState, name: str, statement: Statement, after: str = "") -> ContinuousQuery:
    """`after`: a word of the statement that the name stands behind."""
    found, place = state.relations.get(name), place_of_name(statement, name, after)
    if found is None:
        raise UndefinedName(f'continuous query "{name}" does not exist', position=place)
    if not isinstance(found, ContinuousQuery):
        raise WrongObject(f'"{name}" is not a continuous query', position=place)
    return found
