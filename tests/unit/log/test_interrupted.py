"""Ctrl-C at any moment leaves the log as it was, or with all of what was asked for; and the log goes on."""

from __future__ import annotations

import sys
from collections.abc import Collection
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


def opened(folder: Path, commits: Collection[int] = ()) -> Journal:
    journal = Journal(str(folder), LocalFiles(), known_scn=0, is_committed=lambda scn: scn in commits)
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


class CtrlCAfterCall:
    """Raises KeyboardInterrupt as the so manyth call returns to the journal: there Python looks for it."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        caller = frame if event == "c_return" else frame.f_back
        if event in ("return", "c_return") and caller is not None and caller.f_code.co_filename == module.__file__:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def __enter__(self) -> CtrlCAfterCall:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


@pytest.mark.parametrize("at", range(1, 60))
def test_a_file_that_is_being_closed_is_closed_or_goes_on(tmp_path: Path, at: int) -> None:
    """A newer file beside one that goes on would seem, after a crash, to begin behind all of its rows."""
    journal = opened(tmp_path)
    journal.append(one(1))
    try:
        with CtrlCAfterCall(at):
            journal.rotate()
    except KeyboardInterrupt:
        pass
    scn = journal.append(one(2))
    again = opened(tmp_path)
    assert [segment.last_scn for segment in again.closed if segment.records][-1] >= scn
    assert numbers(again) == [1, 2]
    again.close()
    assert numbers(journal) == [1, 2]


@pytest.mark.parametrize("at", range(1, 160))
def test_rows_of_a_commit_count_if_the_catalog_knows_it(tmp_path: Path, at: int) -> None:
    commits: set[int] = set()
    journal = opened(tmp_path, commits)
    journal.append(one(1))
    try:
        with CtrlCAfterCall(at), journal.turn() as turn:
            turn.prepare(one(2))
            commits.add(turn.scn)
            turn.commit()
    except KeyboardInterrupt:
        pass
    expected = [1, 2, 3] if commits else [1, 3]
    assert journal.append(one(3)) not in commits
    assert numbers(opened(tmp_path, commits)) == expected, "as after a crash"
    assert numbers(journal) == expected
    later = journal.last_scn + 1
    with journal.turn() as turn:
        commits.add(turn.scn)
        turn.commit()
    assert turn.scn == later
    journal.close()
    assert numbers(opened(tmp_path, commits)) == expected
