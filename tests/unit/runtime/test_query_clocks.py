"""When the clock of a periodic query comes round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from midstream.relations.query import ContinuousQuery
from midstream.runtime.continuous.queries import next_time

HOURLY = ContinuousQuery(
    1, "hourly", (), "SELECT 1", (), (), (), "periodic", False, start_at=1000.0, period_seconds=3600
)


@pytest.mark.parametrize(
    ("now", "due_at"),
    [
        (0.0, 1000.0),  # not before START WITH
        (999.9, 1000.0),
        (1000.0, 4600.0),  # what is due now has been computed now
        (1000.1, 4600.0),
        (4599.9, 4600.0),
        (4600.0, 8200.0),
        (1000.0 + 100.5 * 3600, 1000.0 + 101 * 3600),  # however long nobody looked, it stays aligned
    ],
)
def test_it_comes_round_at_start_with_and_whole_periods_after_it(now: float, due_at: float) -> None:
    assert next_time(HOURLY, now) == due_at


def test_without_start_with_it_comes_round_a_period_from_now() -> None:
    assert next_time(replace(HOURLY, start_at=None), 50.0) == 3650.0
