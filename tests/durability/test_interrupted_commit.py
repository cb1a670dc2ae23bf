"""Ctrl-C at any moment of a commit: a stream is there and takes rows, or is not there at all."""

from __future__ import annotations

import contextlib
import itertools
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import midstream
from midstream.relations import catalog
from midstream.runtime import commit

pytestmark = pytest.mark.spark


class CtrlC:
    """Interrupts as the so manyth call returns to the commit or to the catalog: there Python looks for Ctrl-C."""

    files = (commit.__file__, catalog.__file__)

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        caller = frame if event == "c_return" else frame.f_back
        if event in ("return", "c_return") and caller is not None and caller.f_code.co_filename in self.files:
            self.left -= 1
            if self.left == 0:
                signal.raise_signal(signal.SIGINT)

    def __enter__(self) -> CtrlC:
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with midstream.connect(Path(tmp_path_factory.mktemp("interrupted")) / "x.db") as opened:
        yield opened


def test_a_stream_whose_commit_was_interrupted_is_there_wholly_or_not_at_all(db: Any) -> None:
    """The last one is not interrupted: so many calls there are not."""
    for at in itertools.count(1):
        ctrl_c = CtrlC(at)
        with contextlib.suppress(KeyboardInterrupt), ctrl_c:
            db.sql("CREATE STREAM s (n bigint) WITH (retain = '1 hour')")
        is_there = bool(db.sql("SHOW STREAMS").fetchall())
        if is_there:
            db.sql("INSERT INTO s VALUES (1)")
        expected = [(1, 1)] if is_there else []
        found = [(status.rows, len(status.readers)) for status in db._store.streams.status()]
        assert found == expected, f"rows and readers when interrupted at call {at}"
        db.sql("DROP STREAM IF EXISTS s")
        if ctrl_c.left > 0:
            assert is_there
            return
