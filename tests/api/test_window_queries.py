"""What queries over windows may be made of: streams put together, views beside windows, three windows, and more."""

from __future__ import annotations

from typing import Any

import pytest

from asking import rows
from windowing import feed

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
