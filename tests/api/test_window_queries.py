"""What queries over windows may be made of: streams put together, views beside windows, three windows, and more."""

from __future__ import annotations

from typing import Any

import pytest

from asking import rows
from windowing import feed, feed_at, plan_of, wait_for

W = "[WINDOW 4 ROWS SLIDE 2 ROWS]"


@pytest.fixture
def counted(db: Any) -> Any:
    """Two streams whose rows are told apart by a number."""
    db.sql("CREATE STREAM s (n int); CREATE STREAM r (n int)")
    return db


def test_streams_are_put_together_below_a_grouping(counted: Any) -> None:
    counted.sql("CREATE TABLE names (n int, name text); INSERT INTO names VALUES (1, 'one'), (2, 'two'), (9, 'nine')")
    queries = {
        "united": "SELECT n % 2 AS odd, count(*) AS c, sum(n) AS t "
        f"FROM (SELECT n FROM s {W} UNION ALL SELECT -n FROM r {W} WHERE n < 9) AS q GROUP BY n % 2",
        "on_the_right": "SELECT name, count(*) AS c "
        f"FROM names RIGHT JOIN s {W} ON s.n = names.n AND s.n < 2 GROUP BY name",
    }
    for name, query in queries.items():
        counted.sql(f"CREATE VIEW {name} AS {query}")
        counted.sql(f"CREATE VIEW {name}_anew WITH (maintenance = 'reevaluate') AS {query}")
    feed(counted, 1, 2, 3, 4, 5, 1)
    assert rows(counted, "SELECT * FROM united") == [], "the other stream has not completed a window"
    feed(counted, 1, 9, 3, stream="r")
    feed(counted, 3, 2, stream="r")
    assert rows(counted, "SELECT * FROM united ALL WINDOWS") == [(-1, 3, -7), (0, 2, 6), (1, 2, 4)]
    feed(counted, 4, 1, 7, 8)
    feed(counted, 6, stream="r")
    assert rows(counted, "SELECT * FROM united") == [(-1, 2, -6), (0, 3, -4), (1, 3, 9)]
    assert rows(counted, "SELECT * FROM on_the_right ALL WINDOWS") == [
        ("one", 1), ("one", 1), ("one", 1), ("one", 2), (None, 2), (None, 3), (None, 3), (None, 3)
    ]  # fmt: skip
    for name in queries:
        assert rows(counted, f"SELECT * FROM {name} ALL WINDOWS") == rows(
            counted, f"SELECT * FROM {name}_anew ALL WINDOWS"
        )


def test_sums_of_many_basic_windows_are_in_no_other_window_of_the_same_state(db: Any) -> None:
    """A window of 64 basic windows takes sums of sixteen of them; a landmark over the same basic windows does not."""
    db.sql("CREATE STREAM e (at timestamp, n int) WITH (timestamp = 'at')")
    sliding = "SELECT window_end, sum(n) AS n, max(n) AS most FROM e [WINDOW 64 MINUTES SLIDE 1 MINUTE]"
    growing = "SELECT window_end, sum(n) AS n, max(n) AS most FROM e [LANDMARK SLIDE 1 MINUTE]"
    db.sql(f"CREATE VIEW sliding WITH (retain = 1000) AS {sliding}")
    db.sql(f"CREATE VIEW growing WITH (retain = 1000) AS {growing}")
    db.sql(f"CREATE VIEW together WITH (retain = 1000) AS SELECT a.n, b.n AS more FROM ({sliding}) a, ({growing}) b")
    for last in range(13, 126, 14):
        feed_at(db, *range(last - 13, last + 1))
        assert rows(db, "SELECT n FROM growing") == [(sum(range(last)),)]
    ours = sum(range(last - 64, last))
    assert rows(db, "SELECT n, most FROM sliding") == [(ours, last - 1)]
    assert rows(db, "SELECT * FROM together") == [(ours, sum(range(last)))]
    wait_for(lambda: state_rows(db, "growing") < 64, 10)
    assert rows(db, "SELECT n FROM growing ALL WINDOWS") == sorted(
        ((sum(range(n + 1)),) for n in range(last)), key=repr
    )


def state_rows(db: Any, view: str) -> int:
    """How many rows of partials are kept for a view."""
    found = [line for line in plan_of(db, view).splitlines() if "rows of partials" in line]
    return sum(int(line.split(" rows of partials")[0].rsplit(" ", 1)[1].replace(",", "")) for line in found)
