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


@dataclass(frozen=True)
class Backing:
    """What is kept of a query at an SCN, so that a change costs what it touches: files that add up to it."""

    of: str
    """What it is kept of."""
    at: int
    files: tuple[KeptFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def written(self) -> list[object]:
        return [self.of, self.at, [file.written() for file in self.files]]


@dataclass
class QueryLog:
    position: int
    """It has been computed up to this SCN."""
    status: Status = "active"
    error: str | None = None
    """Why it was suspended,"""
    hint: str | None = None
    """and how it goes on."""
    start: int = 0
    """Changes of commits after this SCN are in the files."""
    files: list[KeptFile] = field(default_factory=list)
    next_at: float | None = None
    """When a periodic one is computed next."""
    answer: list[KeptFile] = field(default_factory=list)
    """The last answer of a query over continuous views."""
    last_full: str | None = None
    """Why all of a stored answer was computed anew the last time that this was so."""
    backing: Backing | None = None

    @property
    def all_files(self) -> list[KeptFile]:
        return [*self.files, *self.answer, *(self.backing.files if self.backing is not None else ())]

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
                "hint": self.hint,
                "start": self.start,
                "files": [file.written() for file in self.files],
                "next_at": self.next_at,
                "answer": [file.written() for file in self.answer],
                "last_full": self.last_full,
                "backing": self.backing.written() if self.backing is not None else None,
            }
        )

    @classmethod
    def read(cls, text: str, folder: str) -> QueryLog:
        value = json.loads(text)

        def read(written: Sequence[Sequence[object]]) -> list[KeptFile]:
            return [KeptFile(os.path.join(folder, str(name)), *map(int, map(str, rest))) for name, *rest in written]

        files, answer, backing = read(value.pop("files")), read(value.pop("answer")), value.pop("backing", None)
        kept = Backing(backing[0], backing[1], tuple(read(backing[2]))) if backing is not None else None
        return cls(**value, files=files, answer=answer, backing=kept)


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


def readers_name(id: int) -> str:
    """What the catalog keeps under it: how far those who read its changes have come."""
    return f"readers {id}"
