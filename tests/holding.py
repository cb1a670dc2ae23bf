"""Jobs that stand still until a test lets them go: what others do meanwhile is then no matter of luck."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Held:
    """Jobs of some kind: `reached` when the first of them stands still, let go by `release`."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)
    labels: list[str] = field(default_factory=list)

    def release(self) -> None:
        self.released.set()


@contextmanager
def held(db: Any, label: str, patience: float = 60) -> Iterator[Held]:
    """Jobs whose label begins so wait meanwhile, unless they are let go."""
    engine, run, jobs = db._engine, db._engine.run, Held()

    def waiting(kernel: str, pieces: Any, *, label: str = "", cancellation: Any = None) -> Any:
        if pieces and label.startswith(wanted):
            jobs.labels.append(label)
            jobs.reached.set()
            assert jobs.released.wait(patience), "nobody let the job go"
        return run(kernel, pieces, label=label, cancellation=cancellation)

    wanted, engine.run = label, waiting
    try:
        yield jobs
    finally:
        jobs.release()
        del engine.run


@contextmanager
def held_by_another(lock: Any, patience: float = 60) -> Iterator[None]:
    """Another thread holds it meanwhile."""
    has_it, enough = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has_it.set()
            enough.wait(patience)

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_it.wait(patience)
    try:
        yield
    finally:
        enough.set()
        thread.join()
