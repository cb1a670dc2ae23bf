"""The partials that a pipeline keeps: Parquet files, whose merge is the state, however many there are.

A batch leaves a file of level 0; when a level has many, they are merged into one of the next, so a group is written
again only as often as there are levels. A file knows the SCN that it reaches, so a read takes the state as of one SCN:
the files up to it. Nobody deletes a file under a reader: one that is no longer needed goes when nobody holds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field

from midstream.maintenance.engine import FileColumn, Files
from midstream.plan.cut import Program
from midstream.types import Type, parse_type

FEW_FILES = 8
"""So many files of a level are merged into one of the next."""


class KeptFile:
    """A file of partials, or of a result."""

    __slots__ = ("__weakref__", "_end", "bytes", "level", "path", "rows", "upto")

    def __init__(self, path: str, rows: int, bytes: int, upto: int, level: int = 0) -> None:
        self.path, self.rows, self.bytes, self.upto, self.level = path, rows, bytes, upto, level
        self._end: weakref.finalize[..., KeptFile] | None = None

    def doom(self) -> None:
        """The file goes when nobody holds it any more."""
        if self._end is None:
            self._end = weakref.finalize(self, _remove, self.path)

    def written(self) -> list[object]:
        return [os.path.basename(self.path), self.rows, self.bytes, self.upto, self.level]


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def as_input(files: Sequence[KeptFile], columns: Sequence[tuple[str, Type]]) -> Files:
    return Files(
        tuple(file.path for file in files),
        tuple(FileColumn(name, type_) for name, type_ in columns),
        rows=sum(file.rows for file in files),
        bytes=sum(file.bytes for file in files),
    )


@dataclass(frozen=True)
class StaticFiles:
    """What a pipeline takes from tables, as it was when the view was created."""

    columns: tuple[tuple[str, Type], ...]
    files: tuple[KeptFile, ...]
    tables: tuple[tuple[int, int], ...] = ()
    """The tables that it was computed from, and their Delta versions."""


@dataclass
class State:
    """What a pipeline keeps of one stream."""

    program: Program
    views: tuple[int, ...]
    """The views that read it."""
    start: int
    """It has what came after this SCN."""
    folder: str
    files: list[KeptFile] = field(default_factory=list)
    statics: dict[str, StaticFiles] = field(default_factory=dict)
    scn: int = 0
    """The SCN of the tables below the grouping."""

    def written(self) -> str:
        statics = {
            name: [
                [[column, str(type_)] for column, type_ in static.columns],
                [file.written() for file in static.files],
                static.tables,
            ]
            for name, static in self.statics.items()
        }
        return json.dumps(
            {
                "program": self.program.written(),
                "views": self.views,
                "folder": os.path.basename(self.folder),
                "start": self.start,
                "scn": self.scn,
                "files": [file.written() for file in self.files],
                "statics": statics,
            }
        )

    @classmethod
    def read(cls, text: str, path: str) -> State:
        value = json.loads(text)
        folder = f"{path}/{value['folder']}"

        def file(written: Sequence[object]) -> KeptFile:
            name, rows, size, upto, level = written
            return KeptFile(f"{folder}/{name}", int(str(rows)), int(str(size)), int(str(upto)), int(str(level)))

        statics = {
            name: StaticFiles(
                tuple((column, parse_type(type_)) for column, type_ in columns),
                tuple(map(file, files)),
                tuple((table, version) for table, version in tables),
            )
            for name, (columns, files, tables) in value["statics"].items()
        }
        return cls(
            Program.read(value["program"]),
            tuple(value["views"]),
            value["start"],
            folder,
            [file(written) for written in value["files"]],
            statics,
            value["scn"],
        )

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def upto(self, scn: int) -> list[KeptFile]:
        """The files that make up the state as of an SCN."""
        return [file for file in self.files if file.upto <= scn]

    def crowded(self, cuts: Sequence[int]) -> list[KeptFile]:
        """Files of one level that should be merged: many, and none of them beyond a cut that a reader waits for."""
        oldest = min(cuts, default=None)
        for level in sorted({file.level for file in self.files}):
            found = [f for f in self.files if f.level == level and (oldest is None or f.upto <= oldest)]
            if len(found) >= FEW_FILES:
                return found
        return []
