"""Names of continuous queries, queues and triggers: those that are free, and those that are there."""

from __future__ import annotations

from midstream.errors import DuplicateName, UndefinedName, WrongObject
from midstream.relations.catalog import CatalogState
from midstream.relations.query import ContinuousQuery


def check_free(state: CatalogState, name: str) -> None:
    from midstream.runtime.definitions import check_name

    check_name(name)
    if name in state.relations:
        raise DuplicateName(f'relation "{name}" already exists')


def find_query(state: CatalogState, name: str) -> ContinuousQuery:
    found = state.relations.get(name)
    if found is None:
        raise UndefinedName(f'continuous query "{name}" does not exist')
    if not isinstance(found, ContinuousQuery):
        raise WrongObject(f'"{name}" is not a continuous query')
    return found
