"""Short ways to say which piece a test runs, and what came back."""

from __future__ import annotations

import pyarrow as pa

from midstream.maintenance.engine import FileColumn, Files, Kernel, Piece
from midstream.spark.engine import SparkEngine
from midstream.types import Type


def named(**types: Type) -> tuple[FileColumn, ...]:
    return tuple(FileColumn(name, type_) for name, type_ in types.items())


def quoted(sql: str, kernel: Kernel) -> str:
    """Test texts quote names as DuckDB does."""
    return sql if kernel == "duckdb" else sql.replace('"', "`")


def ask(engine: SparkEngine, kernel: Kernel, sql: str, **inputs: object) -> pa.Table:
    """The rows of one piece."""
    [answer] = engine.run(kernel, [Piece(quoted(sql, kernel), inputs)])  # type: ignore[arg-type]
    assert answer.table is not None
    return answer.table


def rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def files(*paths: str, **types: Type) -> Files:
    return Files(paths, named(**types))
