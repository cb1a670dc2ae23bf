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
from midstream.runtime.clocks import Clock
from midstream.types import Type, parse_type

FEW_FILES = 8
"""So many files of a level are merged into one of the next."""
LARGE = 50_000
"""Fewer rows are read faster than they are merged."""
SMALL, MUCH = 2, 3
"""Half of the large run is still small beside it; when a third is reached, there is time to merge."""


class KeptFile:
    """A file of partials, or of a result."""

    __slots__ = ("__weakref__", "_end", "bytes", "level", "path", "rows", "upto")

    def __init__(self, path: str, rows: int, bytes: int, upto: int, level: int = 0) -> None:
        self.path, self.rows, self.bytes, self.upto, self.level = path, rows, bytes, upto, level
        self._end: weakref.finalize[..., KeptFile] | None = None

    def doom(self) -> None:
        """The file goes when nobody holds it any more."""
        if self._end is None:
            self._end = weakref.finalize(self, remove_kept, self.path)

    def written(self) -> list[object]:
        return [os.path.basename(self.path), self.rows, self.bytes, self.upto, self.level]


def remove_kept(path: str) -> None:
    """The last file takes its folder along, unless that is held."""
    with contextlib.suppress(OSError):
        os.unlink(path)
        os.rmdir(os.path.dirname(path))


HOLDER = "held"
"""A file that keeps a folder there while it has no other: jobs write into it."""


def hold_folder(folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, HOLDER), "ab"):
        pass


def release_folder(folder: str) -> None:
    """The folder goes with the last of its files."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, HOLDER))
        os.rmdir(folder)


def as_input(
    files: Sequence[KeptFile],
    columns: Sequence[tuple[str, Type]],
    row_groups: tuple[tuple[int, ...], ...] | None = None,
) -> Files:
    return Files(
        tuple(file.path for file in files),
        tuple(FileColumn(name, type_) for name, type_ in columns),
        row_groups=row_groups,
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
    scn: int = 0
    """As of which it was computed. A view that shares it later found the tables unchanged until then."""


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
    backfill: int | None = None
    """What the stream had kept up to this SCN is still to be taken in."""
    clock: Clock | None = None
    """Where a windowed pipeline stands."""
    summed: dict[int, int] = field(default_factory=dict)
    """For each level of sums of basic windows, how many there are."""

    def written(self) -> str:
        statics = {
            name: [
                [[column, str(type_)] for column, type_ in static.columns],
                [file.written() for file in static.files],
                static.tables,
                static.scn,
            ]
            for name, static in self.statics.items()
        }
        return json.dumps(
            {
                "program": self.program.written(),
                "views": self.views,
                "folder": os.path.basename(self.folder),
                "start": self.start,
                "backfill": self.backfill,
                "clock": self.clock.written() if self.clock is not None else None,
                "summed": self.summed,
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
                scn,
            )
            for name, (columns, files, tables, scn) in value["statics"].items()
        }
        return cls(
            Program.read(value["program"]),
            tuple(value["views"]),
            value["start"],
            folder,
            [file(written) for written in value["files"]],
            statics,
            value["backfill"],
            Clock(**value["clock"]) if value.get("clock") else None,
            {int(level): count for level, count in value.get("summed", {}).items()},
        )

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    def doom(self) -> None:
        """All of it goes when nobody reads it any more."""
        for file in (*self.files, *(file for static in self.statics.values() for file in static.files)):
            file.doom()
        release_folder(self.folder)

    def upto(self, scn: int) -> list[KeptFile]:
        """The files that make up the state as of an SCN."""
        return [file for file in self.files if file.upto <= scn]

    def runs(self, cuts: Sequence[int] = ()) -> list[Run]:
        """The files as they belong together, but for those beyond a cut that a reader waits for."""
        oldest = min(cuts, default=None)
        return runs_of([file for file in self.files if oldest is None or file.upto <= oldest])

    def crowded(self, cuts: Sequence[int], *, idle: bool, is_read: bool = False) -> list[KeptFile]:
        """Files that should be merged: many of one level; when there is nothing else to do, large ones of which several
        have the same groups, since every read merges them again; and while somebody reads, all, before the small ones
        are so many that a read would have to merge the large run, too."""
        runs = self.runs(cuts)
        for level in sorted({run.level for run in runs}):
            same = [run for run in runs if run.level == level]
            if len(same) >= FEW_FILES:
                return [file for run in same for file in run.files]
        largest = max((run.rows for run in runs), default=0)
        if is_read and largest >= LARGE and sum(run.rows for run in runs) - largest > largest // MUCH:
            return [file for run in runs for file in run.files]
        large = [run for run in runs if run.rows >= max(LARGE, largest // 5)]
        return [file for run in large for file in run.files] if idle and len(large) > 1 else []


@dataclass(frozen=True)
class Run:
    """Files that no group is in twice: what one merge has written, or one task of a batch."""

    files: tuple[KeptFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def level(self) -> int:
        return self.files[0].level


def runs_of(files: Sequence[KeptFile]) -> list[Run]:
    found: dict[object, list[KeptFile]] = {}
    for number, file in enumerate(files):
        found.setdefault((os.path.dirname(file.path), file.level, file.upto) if file.level else number, []).append(file)
    return [Run(tuple(own)) for own in found.values()]


def main_and_rest(files: Sequence[KeptFile]) -> tuple[list[KeptFile], list[KeptFile]] | None:
    """The one large run and the small rest, if partials are so: what is in the large one alone needs no merge."""
    main = max(runs_of(files), key=lambda run: run.rows, default=None)
    if main is None or main.rows < LARGE:
        return None
    rest = [file for file in files if file not in main.files]
    return (list(main.files), rest) if sum(file.rows for file in rest) <= main.rows // SMALL else None
