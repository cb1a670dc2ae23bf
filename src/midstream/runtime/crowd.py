"""Readers who come again and again, at about the same time.

A read shares a refresh that begins after it. Of several clients who read one after the other without pause, one would
begin a refresh just before the others come, and they would wait for it and for the next. So it waits for them, if so
many came last time, but not for long.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 0.05


class Crowd:
    """Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._here = 0
        self._expected = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Somebody waits for a refresh, or refreshes."""
        with self._changed:
            self._here += 1
            self._expected = max(self._expected, self._here)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._here -= 1

    def gather(self) -> None:
        """Waits for those who are expected; who does not come is not expected again."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._here >= self._expected, PATIENCE):
                self._expected = self._here
