"""A journal on a disk that can fail, with what a catalog would know of it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from faulty_files import FaultyFiles
from midstream.log.journal import DataRecord, Insert, Journal
from midstream.log.records import FilesRecord, rows_of

SCHEMA = pa.schema([("a", pa.int64())])


class Kept(NamedTuple):
    """A row that the log holds; a file of many rows is known by its path."""

    stream_id: int
    scn: int
    position: int
    value: int | str


@dataclass
class Log:
    """A folder of the log, the process that has it open, and streams that somebody reads."""

    folder: str
    wanted: set[int] = field(default_factory=lambda: {7})
    files: FaultyFiles = field(default_factory=FaultyFiles)
    commits: set[int] = field(default_factory=set)
    reserved: int = 0
    now: float = 1.5
    """Not the real time: it is written with as many bytes as it has digits, and a full disk counts bytes."""
    scns: list[int] = field(default_factory=list)
    """The newest SCN each time that it moved."""
    accepted: list[DataRecord] = field(default_factory=list)
    made: set[str] = field(default_factory=set)
    """Of these, all readers have what they need."""
    journal: Journal = field(init=False)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> Journal:
        """Opens the folder, as after a process that was killed."""
        self.files.end_process()
        self.journal = Journal(
            self.folder,
            self.files,
            known_scn=max([self.reserved, *self.commits]),
            is_committed=self.commits.__contains__,
            reserve_scns=self._reserve,
            moved=self.scns.append,
            accepted=self.accepted.append,
            have_all=lambda stream_id, file: file.path in self.made,
            clock=lambda: self.now,
        )
        for stream_id in self.wanted:
            self.journal.want(stream_id, True)
        return self.journal

    def power_cut(self, seed: int) -> Journal:
        """What was not synced is lost or torn; then the folder is opened again."""
        self.files.lose(random.Random(seed))
        return self.open()

    def close_and_open(self) -> Journal:
        self.journal.close()
        return self.open()

    def insert(self, *values: int, stream_id: int = 7) -> int:
        return self.journal.append(insert_of(*values, stream_id=stream_id))

    def commit(self, insert: Insert) -> int:
        """A commit that also changes tables."""
        with self.journal.turn() as turn:
            turn.prepare(insert)
            self.commits.add(turn.scn)
            turn.commit()
            return turn.scn

    def kept(self, stream_id: int | None = None) -> list[Kept]:
        """All rows that the log holds, as readers would get them."""
        self.journal.rotate()
        found: list[Kept] = []
        for segment in self.journal.closed:
            loaded = iter(self.journal.load(segment))
            for record in segment.records:
                if isinstance(record, FilesRecord):
                    found += [Kept(record.stream_id, record.scn, record.first_position, f.path) for f in record.files]
                    continue
                values = rows_of(next(loaded), SCHEMA)["a"].to_pylist()
                scns = [scn for scn, rows in record.inserts for _ in range(rows)]
                for number, (scn, value) in enumerate(zip(scns, values, strict=True)):
                    found.append(Kept(record.stream_id, scn, record.first_position + number, value))
            assert next(loaded, None) is None, "rows that nobody may see"
        return [row for row in found if stream_id in (None, row.stream_id)]

    def values(self, stream_id: int = 7) -> list[int | str]:
        return [row.value for row in self.kept(stream_id)]

    def _reserve(self, scn: int) -> None:
        self.reserved = scn


def table_of(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


def insert_of(*values: int, stream_id: int = 7) -> Insert:
    return Insert({stream_id: [table_of(*values)]})
