"""Ctrl-C at any line of an insert leaves the log as it was, or the insert wholly in it; and the log goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

from midstream.log import journal as module
from midstream.log.files import LocalFiles
from midstream.log.journal import Insert, Journal
from midstream.log.records import RowsRecord, rows_of

SCHEMA = pa.schema([pa.field("n", pa.int64())])


def opened(folder: Path) -> Journal:
    journal = Journal(str(folder), LocalFiles(), known_scn=0, is_committed=lambda scn: False)
    journal.want(1, True)
    return journal


def one(n: int) -> Insert:
    return Insert({1: [pa.table({"n": [n]}, schema=SCHEMA)]})


def numbers(journal: Journal) -> list[int]:
    """What a reader would get."""
    journal.rotate()
    found: list[int] = []
    for segment in journal.closed:
        for record in journal.load(segment):
            assert isinstance(record, RowsRecord)
            assert record.first_position == len(found)
            found += rows_of(record, SCHEMA).column(0).to_pylist()
    return found


INSIDE = {"_flush", "_add", "_close_runs", "_close_run", "_count", "_reserve", "_write", "_accept", "_mark"}


class CtrlC:
    """Raises KeyboardInterrupt at the so manyth line that runs while the queue is written."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> CtrlC | None:
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line" and frame.f_code.co_name in INSIDE:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def __enter__(self) -> CtrlC:
        sys.settrace(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)


@pytest.mark.parametrize("at", range(1, 130))
def test_an_insert_that_is_interrupted_is_there_wholly_or_not_at_all(tmp_path: Path, at: int) -> None:
    journal = opened(tmp_path)
    journal.append(one(1))
    was_interrupted = False
    try:
        with CtrlC(at):
            journal.append(one(2))
    except KeyboardInterrupt:
        was_interrupted = True
    acknowledged = [1, 3] if was_interrupted else [1, 2, 3]
    scn = journal.append(one(3))
    assert scn == journal.last_scn
    found = numbers(journal)
    assert found in ([1, 2, 3], acknowledged)
    journal.close()
    again = opened(tmp_path)
    assert numbers(again) == found, "the disk has what we knew"
    assert again.last_scn >= scn
    again.close()
