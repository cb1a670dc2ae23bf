"""What all tests share: one database for the whole run, empty for each test, and a session on each kernel.

A test that needs a folder of its own takes `tmp_path` and connects itself; Spark is started once a process, so
that is cheap.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

KERNELS = ("duckdb", "spark")
_numbers = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs Spark or PostgreSQL by the fixtures that it takes."""
    for item in items:
        taken = getattr(item, "fixturenames", ())
        if "database" in taken:
            item.add_marker("spark")
        if "postgres_dsn" in taken:
            item.add_marker("postgres")


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The database that the run shares. Take `db` instead, which is empty."""
    import midstream

    with_spark = midstream.connect(str(tmp_path_factory.mktemp("shared") / "shared.db"))
    yield with_spark
    with_spark.close()


@pytest.fixture
def db(database: Any) -> Any:
    drop_everything(database)
    database.sql("RESET kernel")
    return database


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(db: Any, kernel: str) -> Iterator[Any]:
    """A session of the empty database that is forced on one kernel; the test runs once on each."""
    forced = db.session()
    forced.sql(f"SET kernel = '{kernel}'")
    yield forced
    forced.close()


def drop_everything(db: Any) -> None:
    """Leaves no relation behind. The first column of every SHOW is the name."""
    cleaner = db.session()
    for kind in ("VIEW", "STREAM", "TABLE"):
        for name, *_ in cleaner.sql(f"SHOW {kind}S").fetchall():
            quoted = name.replace('"', '""')
            cleaner.sql(f'DROP {kind} IF EXISTS "{quoted}" CASCADE')
    for relation in list(db._store.catalog.state.relations.values()):
        if type(relation).__name__ == "Queue":
            cleaner.sql(f'DROP QUEUE "{relation.name}"')
    cleaner.close()


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """A real PostgreSQL server of this run."""
    from postgres import postgres_server

    with postgres_server() as dsn:
        yield dsn


@pytest.fixture
def postgres(postgres_dsn: str) -> Iterator[PostgresSessions]:
    """Sessions of that server with an empty schema."""
    made = PostgresSessions(postgres_dsn)
    yield made
    made.close()


class PostgresResult:
    """A cursor that looks like a result of ours."""

    def __init__(self, cursor: Any) -> None:
        self.status = cursor.statusmessage
        self.columns = [column.name for column in cursor.description or ()]
        self.types = [column.type_code for column in cursor.description or ()]
        self._rows = cursor.fetchall() if cursor.description else []

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


class PostgresSessions:
    """Connections by name, all in one new schema that goes when they close."""

    def __init__(self, dsn: str) -> None:
        self.dsn, self.connections = dsn, dict[str, Any]()
        self.schema = f"run_{os.getpid()}_{next(_numbers)}"
        self.run("first", f"CREATE SCHEMA {self.schema}")

    def run(self, session: str, sql: str) -> PostgresResult:
        import psycopg

        if session not in self.connections:
            options = f"-c search_path={self.schema} -c timezone=UTC -c client_encoding=utf8"
            self.connections[session] = psycopg.connect(self.dsn, autocommit=True, options=options)
        cursor = self.connections[session].cursor()
        return PostgresResult(cursor.execute(sql.encode()))

    def close(self) -> None:
        self.connections["first"].rollback()
        self.run("first", f"DROP SCHEMA {self.schema} CASCADE")
        for connection in self.connections.values():
            connection.close()
