"""The backlog: inserts wait while readers are behind, by turns, for a time, and never for a stream that is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from midstream.errors import Cancelled, OutOfResources
from midstream.log.backlog import Backlog

STREAM = 7
LONG = 60.0


class Insert(threading.Thread):
    """An insert that is let in or not, and stays until it is told to go."""

    def __init__(self, backlog: Backlog, size: int, limit: int = 100, patience: float = LONG) -> None:
        super().__init__(daemon=True)
        self.backlog, self.size, self.limit, self.patience = backlog, size, limit, patience
        self.is_in, self.may_go, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            with self.backlog.admitted(
                "rides", STREAM, self.size, limit=self.limit, patience=self.patience, stopped=self.stopped
            ):
                self.is_in.set()
                assert self.may_go.wait(LONG)
        except BaseException as failure:  # noqa: BLE001
            self.failure = failure

    def finish(self) -> None:
        assert self.is_in.wait(LONG)
        self.may_go.set()
        self.join(LONG)


def admit(backlog: Backlog, size: int, limit: int = 100, patience: float = 0.0) -> None:
    with backlog.admitted("rides", STREAM, size, limit=limit, patience=patience):
        pass


def wait_for(is_so: Callable[[], bool]) -> None:
    tick = threading.Event()
    for _ in range(6000):
        if is_so():
            return
        tick.wait(0.01)
    raise AssertionError("it never came")


def waiting(backlog: Backlog) -> int:
    return backlog.standing(STREAM)[2]


def test_an_insert_of_any_size_fits_into_an_empty_backlog() -> None:
    admit(Backlog(), 10_000)


def test_inserts_fit_up_to_the_limit() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=6, size=60)
    admit(backlog, 40)
    with pytest.raises(OutOfResources):
        admit(backlog, 41)


def test_an_insert_that_does_not_fit_in_time_is_refused_with_all_there_is_to_say() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=12_345, size=67_890)
    with pytest.raises(OutOfResources) as refused:
        admit(backlog, 1, limit=60_000, patience=0.01)
    assert refused.value.sqlstate == "53400"
    assert str(refused.value) == (
        'ERROR:  stream "rides" cannot take more rows now: its readers are behind\n'
        "DETAIL: 12,345 rows (67,890 bytes) wait to be absorbed, and 60,000 bytes may; the insert waited for 0.01 s.\n"
        "HINT:   Try again later, insert more slowly, or raise max_backlog or insert_timeout; SHOW STATUS names the "
        "slowest reader."
    )
    assert backlog.standing(STREAM) == (12_345, 67_890, 0)


def test_an_insert_waits_until_readers_have_absorbed_enough() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=1, size=50)
    backlog.add(STREAM, scn=2, rows=1, size=50)
    insert = Insert(backlog, 60)
    wait_for(lambda: waiting(backlog) == 1)
    backlog.absorbed(STREAM, 1)
    assert not insert.is_in.wait(0.2), "50 and 60 bytes are more than 100"
    backlog.absorbed(STREAM, 2)
    insert.finish()
    assert insert.failure is None and backlog.standing(STREAM) == (0, 0, 0)


def test_those_that_were_let_in_count_until_they_are_in_the_log_or_have_failed() -> None:
    backlog = Backlog()
    first = Insert(backlog, 80)
    assert first.is_in.wait(LONG)
    with pytest.raises(OutOfResources):
        admit(backlog, 30)
    first.finish()
    admit(backlog, 30)
    with pytest.raises(KeyError), backlog.admitted("rides", STREAM, 100, limit=100, patience=0):
        raise KeyError("the insert failed")
    admit(backlog, 100)


def test_a_large_insert_is_not_kept_out_by_small_ones_that_come_later() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=1, size=10)
    large = Insert(backlog, 200)
    wait_for(lambda: waiting(backlog) == 1)
    small = Insert(backlog, 5)
    wait_for(lambda: waiting(backlog) == 2)
    assert not small.is_in.is_set(), "it would fit, but another one waits"
    backlog.absorbed(STREAM, 1)
    large.finish()
    small.finish()
    assert large.failure is None and small.failure is None


def test_who_gives_up_does_not_hold_up_those_behind() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=1, size=10)
    large = Insert(backlog, 200, patience=0.2)
    wait_for(lambda: waiting(backlog) == 1)
    small = Insert(backlog, 5)
    small.finish()
    large.join(LONG)
    assert small.failure is None and isinstance(large.failure, OutOfResources)


def test_an_insert_that_is_cancelled_stops_waiting() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=1, size=100)
    insert = Insert(backlog, 1)
    wait_for(lambda: waiting(backlog) == 1)
    insert.stopped.set()
    insert.join(LONG)
    assert isinstance(insert.failure, Cancelled) and insert.failure.message == "the statement was cancelled"
    assert waiting(backlog) == 0


def test_nobody_waits_for_a_stream_that_is_gone() -> None:
    backlog = Backlog()
    backlog.add(STREAM, scn=1, rows=1, size=100)
    insert = Insert(backlog, 10)
    wait_for(lambda: waiting(backlog) == 1)
    backlog.forget(STREAM)
    insert.finish()
    assert insert.failure is None
    admit(backlog, 100)
    assert backlog.standing(STREAM) == (0, 0, 0)


def test_streams_do_not_wait_for_each_other() -> None:
    backlog = Backlog()
    backlog.add(8, scn=1, rows=1, size=1000)
    admit(backlog, 100)
    assert backlog.standing(8) == (1, 1000, 0)


def test_what_is_absorbed_leaves_by_scn() -> None:
    backlog = Backlog()
    for scn in (1, 3, 5):
        backlog.add(STREAM, scn, rows=scn, size=10 * scn)
    assert backlog.standing(STREAM) == (9, 90, 0)
    backlog.absorbed(STREAM, 4)
    assert backlog.standing(STREAM) == (5, 50, 0)
    assert not backlog.has_upto(STREAM, 4) and backlog.has_upto(STREAM, 5)
    backlog.absorbed(STREAM, 100)
    assert backlog.standing(STREAM) == (0, 0, 0) and not backlog.has_upto(STREAM, 100)
