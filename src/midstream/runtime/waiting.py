"""Waiting that can be given up: for a lock that another thread holds, or for so many seconds.

with in_time('"v" has not reached SCN 7 in time', 0.5) as cancellation, held(lock, cancellation):
    ...                             # Cancelled if the lock, or what is done here, takes longer
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from midstream.errors import Cancelled
from midstream.maintenance.engine import Cancellation

_LOOK = 0.1
"""So often somebody who waits looks whether that was given up."""


@contextmanager
def held(lock: threading.RLock, cancellation: Cancellation | None) -> Iterator[None]:
    while not lock.acquire(timeout=_LOOK):
        if cancellation is not None and cancellation.requested:
            raise Cancelled("the statement was cancelled")
    try:
        yield
    finally:
        lock.release()


@contextmanager
def in_time(message: str, seconds: float | None) -> Iterator[Cancellation]:
    """A flag that is raised when the time is over; what stops because of it says so."""
    cancellation = Cancellation()
    timer = threading.Timer(seconds, cancellation.cancel) if seconds is not None else None
    if timer is not None:
        timer.daemon = True
        timer.start()
    try:
        yield cancellation
    except Cancelled as error:
        if cancellation.requested:
            raise Cancelled(message) from error
        raise
    finally:
        if timer is not None:
            timer.cancel()
