"""Small inserts of several threads are taken in together, and none of them waits for one that was interrupted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

import midstream
from midstream.errors import Error
from midstream.runtime import gathering
from midstream.runtime.tally import TALLY, Counts

CALLS = 82
"""A few more than there are: the last ones are not interrupted."""


class CtrlC:
    """Raises KeyboardInterrupt as the so manyth call returns to this thread's part in gathering: there Python looks for
    Ctrl-C."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        caller = frame if event == "c_return" else frame.f_back
        if event in ("return", "c_return") and caller is not None and caller.f_code.co_filename == gathering.__file__:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


@pytest.fixture(scope="module")
def fed(database: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with midstream.connect(str(tmp_path_factory.mktemp("gathering") / "fed.db")) as db:
        db.sql("CREATE STREAM fed (n bigint)")
        db._store.streams.register(db._store.catalog.state.relations["fed"], "reader", TALLY, Counts().written())
        yield db


@pytest.mark.parametrize("at", range(1, CALLS))
def test_nobody_waits_for_a_thread_that_was_interrupted(fed: Any, at: int) -> None:
    """One thread is interrupted while it leads the inserts of three others."""
    gatherer, before = fed._store.gatherer, fed._store.streams.status()[0].rows
    taken: list[int] = []

    def insert(n: int) -> None:
        try:
            fed.insert("fed", [{"n": n}])
            taken.append(n)
        except Error as error:
            assert "took nothing" in error.message

    others = [threading.Thread(target=insert, args=(n,)) for n in range(3)]
    gatherer._leader = "nobody"
    for other in others:
        other.start()
    while len(gatherer._queue) < len(others):
        others[0].join(0.001)
    gatherer._leader = None
    was_interrupted = False
    sys.setprofile(CtrlC(at))
    try:
        fed.insert("fed", [{"n": 9}])
    except KeyboardInterrupt:
        was_interrupted = True
    finally:
        sys.setprofile(None)
    for other in others:
        other.join(timeout=20)
        assert not other.is_alive()
    fed._store.streams.journal.flush()
    rows = fed._store.streams.status()[0].rows - before
    assert rows in (len(taken), len(taken) + 1) if was_interrupted else rows == len(taken) + 1
