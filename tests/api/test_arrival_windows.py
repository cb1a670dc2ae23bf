"""Windows by arrival, with a clock that stands still until the test moves it on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import midstream
from windowing import feed

BEGIN = (int(time.time()) // 3600 + 2) * 3600
"""A full hour that is still to come, since the time of a log never goes back."""
KINDS = {
    "sliding": "[WINDOW 20 SECONDS SLIDE 10 SECONDS]",
    "hopping": "[WINDOW 5 SECONDS SLIDE 10 SECONDS]",
    "growing": "[LANDMARK SLIDE 10 SECONDS]",
    "visits": "[SESSION 8 SECONDS]",
}


class Machine:
    """A database whose rows arrive when the test says so."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = str(folder), 0.0
        self.open()

    def open(self) -> None:
        self.db: Any = midstream.connect(self.folder)
        self.db._store.streams.journal._clock = lambda: BEGIN + self.now

    def at(self, seconds: float, *numbers: int) -> None:
        """Rows arrive so many seconds after the beginning."""
        self.now = seconds
        if numbers:
            feed(self.db, *numbers)

    def windows(self, view: str) -> list[tuple[Any, ...]]:
        """In seconds since the beginning."""
        start = datetime(1970, 1, 1) + timedelta(seconds=BEGIN)
        found = self.db.sql(f"SELECT * FROM {view} ALL WINDOWS").fetchall()
        return sorted(((a - start).total_seconds(), (b - start).total_seconds(), *rest) for a, b, *rest in found)


@pytest.fixture
def machine(database: Any, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path / "arriving.db")
    yield made
    made.db.close()


def test_windows_by_arrival_are_those_of_the_clock_also_after_a_restart(machine: Machine) -> None:
    machine.db.sql("CREATE STREAM s (n int)")
    for name, window in KINDS.items():
        query = f"SELECT window_start, window_end, count(*) AS c, sum(n) AS n FROM s {window}"
        machine.db.sql(f"CREATE VIEW {name} AS {query}")
        machine.db.sql(f"CREATE VIEW {name}_anew WITH (maintenance = 'reevaluate') AS {query}")
    machine.at(1, 1, 2)
    machine.at(7, 3)
    machine.at(19.999, 4)
    machine.db.close()
    machine.open()
    machine.at(20, 5)
    machine.at(29, 6)
    machine.at(41)
    expected = {
        "sliding": [(-10, 10, 3, 6), (0, 20, 4, 10), (10, 30, 3, 15), (20, 40, 2, 11)],
        "hopping": [(5, 10, 1, 3), (15, 20, 1, 4), (25, 30, 1, 6), (35, 40, 0, None)],
        "growing": [(0, 10, 3, 6), (0, 20, 4, 10), (0, 30, 6, 21), (0, 40, 6, 21)],
        "visits": [(1, 15, 3, 6), (19.999, 28, 2, 9), (29, 37, 1, 6)],
    }
    for name, wanted in expected.items():
        assert machine.windows(name) == wanted, name
        assert machine.windows(f"{name}_anew") == wanted, f"{name} anew"


def test_windows_that_closed_while_nobody_listened_come_to_who_goes_on(machine: Machine) -> None:
    machine.db.sql("CREATE STREAM s (n int)")
    machine.db.sql("CREATE VIEW v AS SELECT window_end, count(*) AS c FROM s [WINDOW 10 SECONDS]")
    with machine.db.subscribe("v") as windows:
        machine.at(1, 1)
        machine.at(10)
        machine.db.sql("SELECT * FROM v")
        [change] = windows.poll(10)
    machine.at(30)
    machine.db.sql("SELECT * FROM v")
    with machine.db.subscribe("v", after=change.scn) as windows:
        assert [later.row["c"] for later in windows.poll(10)] == [0, 0]
