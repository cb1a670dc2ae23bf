"""A session of a database that holds what the test file's SETUP makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from conftest import drop_everything


@pytest.fixture(scope="module")
def shop(database: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    drop_everything(database)
    database.sql(request.module.SETUP)
    session = database.session()
    yield session
    session.close()
    drop_everything(database)
