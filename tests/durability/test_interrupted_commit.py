"""Ctrl-C at any moment of a commit: a stream is there and takes rows, or is not there at all."""

from __future__ import annotations

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
CALLS = 400
"""More than there are: in the end nothing is interrupted."""


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
    for at in range(1, CALLS):
        ctrl_c = CtrlC(at)
        try:
            with ctrl_c:
                db.sql("CREATE STREAM s (n bigint) WITH (retain = '1 hour')")
        except KeyboardInterrupt:
            pass
        if db.sql("SHOW STREAMS").fetchall():
            db.sql("INSERT INTO s VALUES (1)")
            [status] = db._store.streams.status()
            assert (status.rows, len(status.readers)) == (1, 1), f"at call {at}"
            db.sql("DROP STREAM s")
        else:
            assert not db._store.streams.status(), f"at call {at}"
    assert ctrl_c.left > 0
