"""Streams that have gone quiet hold no window up: with the setting `idle`, their time goes on without rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asking import rows, wait_for
from windowing import feed_at, spans

PAIRS = "SELECT a.window_start, a.window_end, count(b.n) AS n FROM"


@pytest.fixture
def idle(db: Any) -> Iterator[Any]:
    """Two streams with a time of their own, in a database whose streams are quiet after a moment."""
    for stream in ("e", "f", "g"):
        db.sql(f"CREATE STREAM {stream} (at timestamp, n int) WITH (timestamp = 'at')")
    yield db
    db.sql("SET idle = 0")


def come_to(db: Any, view: str, claim: Callable[[list[Any]], bool]) -> None:
    """Waits until something can be said of the windows of a view."""
    wait_for(lambda: claim(spans(db, view)), 20)


def test_a_quiet_stream_follows_the_others_of_its_views(idle: Any) -> None:
    """Stream f falls silent, and g never had a row; e goes on."""
    idle.sql(f"CREATE VIEW joined AS {PAIRS} e [WINDOW 10 MINUTES] a LEFT JOIN f [WINDOW 10 MINUTES] b ON b.n < a.n")
    idle.sql(
        f"CREATE VIEW sliding AS {PAIRS} e [WINDOW 20 MINUTES SLIDE 10 MINUTES] a"
        " LEFT JOIN f [WINDOW 10 MINUTES] b ON b.n < a.n"
    )
    idle.sql(f"CREATE VIEW never AS {PAIRS} e [WINDOW 10 MINUTES] a LEFT JOIN g [WINDOW 10 MINUTES] b ON b.n < a.n")
    idle.sql(
        f"CREATE VIEW growing AS {PAIRS} e [LANDMARK SLIDE 10 MINUTES] a"
        " LEFT JOIN g [LANDMARK SLIDE 10 MINUTES] b ON b.n < a.n"
    )
    feed_at(idle, 1, 3, stream="f")
    feed_at(idle, 2)
    idle.sql("SET idle = '1 second'")

    def goes_on() -> bool:
        """Stream e is never quiet, and the others have got as far as the windows that it has completed."""
        feed_at(idle, 35)
        return (20, 30, 0) in spans(idle, "never")

    wait_for(goes_on)
    assert spans(idle, "joined")[:3] == [(0, 10, 1), (10, 20, 0), (20, 30, 0)]
    assert [span[:2] for span in spans(idle, "sliding")][:3] == [(-10, 10), (0, 20), (10, 30)]
    assert [span[:2] for span in spans(idle, "growing")][:3] == [(0, 10), (0, 20), (0, 30)]
    come_to(idle, "never", lambda found: (30, 40) in [span[:2] for span in found])
    come_to(idle, "sliding", lambda found: (30, 50) in [span[:2] for span in found])
    feed_at(idle, 45, stream="f")
    feed_at(idle, 52, stream="g")
    feed_at(idle, 55, 61)
    come_to(idle, "never", lambda found: (50, 60, 1) in found)
    assert rows(idle, "SELECT n FROM late_f") == [(45,)]


def test_quiet_sessions_and_landmarks_end_behind_their_last_rows(idle: Any) -> None:
    idle.sql("CREATE VIEW visits AS SELECT window_start, window_end, count(*) AS n FROM e [SESSION 10 MINUTES]")
    idle.sql("CREATE VIEW growing AS SELECT window_start, window_end, count(*) AS n FROM e [LANDMARK SLIDE 10 MINUTES]")
    feed_at(idle, 2, 5, 21)
    idle.sql("SET idle = '300 milliseconds'")
    come_to(idle, "visits", [(2, 15, 2), (21, 31, 1)].__eq__)
    come_to(idle, "growing", [(0, 10, 2), (0, 20, 2), (0, 30, 3)].__eq__)
    feed_at(idle, 24)
    assert rows(idle, "SELECT n FROM late_e") == [(24,)]
    feed_at(idle, 47)
    come_to(idle, "visits", [(2, 15, 2), (21, 31, 1), (47, 57, 1)].__eq__)


def test_a_view_over_a_stream_that_is_quiet_already_waits_for_nobody(idle: Any) -> None:
    idle.sql("CREATE VIEW v AS SELECT window_start, window_end, count(*) AS n FROM f [WINDOW 10 MINUTES]")
    feed_at(idle, 1, stream="f")
    idle.sql("SET idle = '300 milliseconds'")
    come_to(idle, "v", [(0, 10, 1)].__eq__)
    idle.sql(f"CREATE VIEW joined AS {PAIRS} e [WINDOW 10 MINUTES] a LEFT JOIN f [WINDOW 10 MINUTES] b ON b.n < a.n")
    feed_at(idle, 4)
    come_to(idle, "joined", [(0, 10, 0)].__eq__)
