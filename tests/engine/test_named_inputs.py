"""The names that a piece uses, put before its SQL."""

from __future__ import annotations

import duckdb
import pytest

from midstream.spark.named_inputs import Names

NAMES = Names(
    (("one", "SELECT 1 AS n"), ('"odd" name', "SELECT n + 1 AS n FROM one"), ("unused", "SELECT * FROM missing"))
)


@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT n FROM one", [(1,)]),
        ('SELECT n FROM """odd"" name"', [(2,)]),
        ('WITH own AS (SELECT n * 10 AS n FROM """odd"" name") SELECT o.n + i.n FROM own o, one i', [(21,)]),
        ("\n  with\nown as (select 5 as n) select n from own union all select n from one", [(5,), (1,)]),
        ("SELECT 7", [(7,)]),
        ("SELECT n FROM (VALUES (3), (1), (2)) AS v(n) WHERE n <> (SELECT n FROM one) ORDER BY n DESC", [(3,), (2,)]),
    ],
)
def test_a_query_sees_the_names_that_it_uses(sql: str, answer: list[tuple[int]]) -> None:
    assert duckdb.sql(NAMES.before(sql)).fetchall() == answer


def test_a_name_is_looked_at_once_however_many_use_it() -> None:
    names = NAMES
    for number in range(20):
        below = "one" if number == 0 else f"v{number - 1}"
        names = names.also(f"v{number}", f"SELECT n + 1 AS n FROM {below}")
    assert duckdb.sql(names.before("SELECT n FROM v19")).fetchall() == [(21,)]
    assert names.before("SELECT n FROM v19").count("SELECT 1 AS n") == 1


def test_what_nobody_uses_is_left_out() -> None:
    assert "missing" not in NAMES.before("SELECT n FROM one")
    assert NAMES.before("SELECT 7") == "SELECT 7"
