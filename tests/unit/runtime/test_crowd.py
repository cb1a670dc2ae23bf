"""Readers who come again and again wait for each other, shortly."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

from midstream.runtime.crowd import PATIENCE, Crowd


def seconds_to_gather(crowd: Crowd) -> float:
    started = time.monotonic()
    crowd.gather()
    return time.monotonic() - started


def test_who_reads_alone_does_not_wait() -> None:
    crowd = Crowd()
    for _ in range(3):
        with crowd.joined():
            assert seconds_to_gather(crowd) < PATIENCE / 2


def test_those_who_came_last_time_are_waited_for() -> None:
    crowd, told = Crowd(), threading.Event()
    with ExitStack() as readers:
        for _ in range(3):
            readers.enter_context(crowd.joined())

    def come() -> None:
        with crowd.joined():
            told.wait(5)

    with crowd.joined():
        others = [threading.Thread(target=come) for _ in range(2)]
        gathered = threading.Thread(target=crowd.gather)
        gathered.start()
        for thread in others:
            thread.start()
        gathered.join()
        assert crowd._here == 3 or crowd._expected < 3, "all have come, or it took too long"
    told.set()
    for thread in others:
        thread.join()


def test_who_does_not_come_again_is_waited_for_once() -> None:
    crowd = Crowd()
    with crowd.joined(), crowd.joined():
        pass
    with crowd.joined():
        assert seconds_to_gather(crowd) >= PATIENCE * 0.9
        assert seconds_to_gather(crowd) < PATIENCE / 2
