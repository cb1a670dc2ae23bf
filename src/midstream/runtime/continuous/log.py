"""What a continuous query has handed out, and how far it has come: one text in the catalog.

A change is known by the query, the SCN of the commit that caused it and its number among the changes of that commit.
The text is written when the files that it names are on the disk, together with what the changes did to a destination:
killed before that, the same changes are computed again, and nobody has seen them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from midstream.runtime.continuous.texts import KIND, NUMBER, SCN, old_names, row_names
from midstream.runtime.rows import physical_schema
from midstream.runtime.states import KeptFile
from midstream.types import BIGINT, TEXT, Type

Status = Literal["active", "suspended", "inactive"]


@dataclass
class QueryLog:
    position: int
    """It has been computed up to this SCN."""
    status: Status = "active"
    error: str | None = None
    """Why it was suspended."""
    start: int = 0
    """Changes of commits after this SCN are in the files."""
    files: list[KeptFile] = field(default_factory=list)
    next_at: float | None = None
    """When a periodic one is computed next."""
    answer: list[KeptFile] = field(default_factory=list)
    """The last answer of a query over continuous views."""
    last_full: str | None = None
    """Why all of a stored answer was computed anew the last time that this was so."""

    def with_files(self, files: Sequence[KeptFile], position: int) -> QueryLog:
        return replace(self, files=[*self.files, *files], position=position)

    def become(self, other: QueryLog) -> None:
        self.__dict__.update(other.__dict__)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def written(self) -> str:
        return json.dumps(
            {
                "position": self.position,
                "status": self.status,
                "error": self.error,
                "start": self.start,
                "files": [file.written() for file in self.files],
                "next_at": self.next_at,
                "answer": [file.written() for file in self.answer],
                "last_full": self.last_full,
            }
        )

    @classmethod
    def read(cls, text: str, folder: str) -> QueryLog:
        value = json.loads(text)
        files, answer = (
            [KeptFile(os.path.join(folder, name), *rest) for name, *rest in value.pop(key)]
            for key in ("files", "answer")
        )
        return cls(**value, files=files, answer=answer)


def log_columns(types: Sequence[Type]) -> tuple[tuple[str, Type], ...]:
    """How changes lie in files: where each belongs, what happened, the row, and what it was before."""
    rows = list(zip(row_names(len(types)), types, strict=True))
    olds = list(zip(old_names(len(types)), types, strict=True))
    return ((SCN, BIGINT), (NUMBER, BIGINT), (KIND, TEXT), *rows, *olds)


def read_log(types: Sequence[Type], files: Sequence[KeptFile]) -> pa.Table:
    """All changes of some files in memory: only for few."""
    schema = physical_schema(log_columns(types))
    tables = [pq.read_table(file.path, schema=schema, partitioning=None) for file in files]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def log_name(id: int) -> str:
    """What the catalog keeps it under."""
    return f"query {id}"
