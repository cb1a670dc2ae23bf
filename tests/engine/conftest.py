"""One engine for all tests of this folder, and small Parquet files to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.spark.engine import SparkEngine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and "engine" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    started = SparkEngine(tmp_path_factory.mktemp("engine") / "work", cores=2, memory="2g")
    yield started
    started.close()


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a Parquet file and gives its path."""

    def write_file(name: str, table: pa.Table, **options: object) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, **options)
        return str(path)

    return write_file
