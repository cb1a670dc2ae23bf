"""Partials of every aggregate merge in any order and any grouping: merge is commutative and associative.

One stream gets several copies of the same rows, each copy in an order and a cut of its own, and its number with every
row. A view groups by the copy. All copies must have the same answer, and it must be PostgreSQL's.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from pathlib import Path
from typing import Any

import psycopg
import pytest
from answers import same_value

import midstream

COPIES = 4
SHARED = """count(*); count(i); count(DISTINCT t); sum(n); sum(d); sum(i); sum(DISTINCT i); sum(i) FILTER (WHERE o)
avg(d); avg(DISTINCT d); min(i); max(t); min(at); max(d); bool_and(o); bool_or(o); every(i > 0)
bit_and(i); bit_or(i); bit_xor(i)
stddev(d); stddev_pop(d); variance(d); var_pop(d); stddev_samp(d) FILTER (WHERE o); var_samp(d)
corr(d, f); covar_pop(d, f); covar_samp(d, f); regr_count(d, f); regr_slope(d, f); regr_intercept(d, f)
regr_r2(d, f); regr_avgx(d, f); regr_avgy(d, f); regr_sxx(d, f); regr_syy(d, f); regr_sxy(d, f)
array_agg(i ORDER BY id); array_agg(t ORDER BY t, id DESC); array_agg(DISTINCT i ORDER BY i)
string_agg(t, ',' ORDER BY id DESC); string_agg(DISTINCT t, '/' ORDER BY t)
mode() WITHIN GROUP (ORDER BY i); percentile_cont(0.3) WITHIN GROUP (ORDER BY d)
percentile_disc(0.7) WITHIN GROUP (ORDER BY i DESC); percentile_disc(0.5) WITHIN GROUP (ORDER BY t) FILTER (WHERE o)"""
ESTIMATES = {
    "approx_percentile(d, 0.4)": "percentile_disc(0.4) WITHIN GROUP (ORDER BY d)",
    "approx_percentile(i, 0.9) FILTER (WHERE o)": "percentile_disc(0.9) WITHIN GROUP (ORDER BY i) FILTER (WHERE o)",
}
"""A view keeps values of four digits for these, and no value here has more; a query estimates in another way."""
OURS = {
    "median(d)": "percentile_cont(0.5) WITHIN GROUP (ORDER BY d)",
    "median(i) FILTER (WHERE o)": "percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FILTER (WHERE o)",
    "avg(i)": "avg(CAST(i AS double precision))",
    "min_by(t, id)": "(array_agg(t ORDER BY id))[1]",
    "max_by(i, id)": "(array_agg(i ORDER BY id DESC))[1]",
    "first(d ORDER BY id)": "(array_agg(d ORDER BY id))[1]",
    "last(t ORDER BY id) FILTER (WHERE o)": "(array_agg(t ORDER BY id DESC) FILTER (WHERE o))[1]",
    "some(o)": "bool_or(o)",
    "some(i > 3) FILTER (WHERE o)": "bool_or(i > 3) FILTER (WHERE o)",
    "approx_count_distinct(i)": "count(DISTINCT i)",
    "approx_count_distinct(t) FILTER (WHERE o)": "count(DISTINCT t) FILTER (WHERE o)",
    **ESTIMATES,
}
AGGREGATES = {text.strip(): text.strip() for line in SHARED.split("\n") for text in line.split(";")} | OURS
COLUMNS = (
    "copy int, id int, i int, n numeric(10,2), d double precision, f double precision, t text, o boolean, at timestamp"
)


def in_groups(size: int, left_out: Collection[str] = ()) -> list[tuple[str, ...]]:
    names = tuple(name for name in AGGREGATES if name not in left_out)
    return [names[start : start + size] for start in range(0, len(names), size)]


def row(chosen: random.Random, id: int) -> str:
    """A row without its copy."""
    values = [
        str(chosen.randint(-3, 9)),
        f"{chosen.randint(-500, 500) / 100}",
        repr(chosen.choice([0.1, 2.5, -1.25, 3.0, 1e6, 7.75])),
        repr(chosen.uniform(-5, 5)),
        f"'{chosen.choice(['a', 'b', 'ab', 'é', ''])}'",
        chosen.choice(["true", "false"]),
        f"'2024-01-0{chosen.randint(1, 9)}'",
    ]
    return ", ".join([str(id), *("NULL" if chosen.random() < 0.15 else value for value in values)])


def pieces(chosen: random.Random, rows: list[str]) -> list[str]:
    """All copies, each in an order of its own, cut at random places."""
    shuffled = [[f"({copy}, {text})" for text in chosen.sample(rows, len(rows))] for copy in range(COPIES)]
    mixed = [text for texts in zip(*shuffled, strict=True) for text in texts]
    cut: list[str] = []
    while mixed:
        count = chosen.choice([1, 2, 5, 13, 40])
        cut.append(", ".join(mixed[:count]))
        mixed = mixed[count:]
    return cut


@pytest.mark.parametrize("seed", [1])
def test_partials_merge_in_any_order(database: Any, postgres_dsn: str, tmp_path: Path, seed: int) -> None:
    merge_copies(tmp_path / "merged.db", postgres_dsn, seed, rows=25)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 25))
def test_partials_merge_in_any_order_for_long(database: Any, postgres_dsn: str, tmp_path: Path, seed: int) -> None:
    merge_copies(tmp_path / "merged.db", postgres_dsn, seed, rows=60)


def merge_copies(folder: Path, dsn: str, seed: int, rows: int) -> None:
    chosen = random.Random(seed)
    values = [row(chosen, id) for id in range(rows)]
    db = midstream.connect(str(folder))
    db.sql(f"CREATE STREAM s ({COLUMNS})")
    groups = in_groups(14)
    for number, names in enumerate(groups):
        listed = ", ".join(f"{name} AS c{place}" for place, name in enumerate(names))
        db.sql(f"CREATE VIEW v{number} AS SELECT copy, {listed} FROM s GROUP BY copy")
    try:
        for piece in pieces(chosen, values):
            db.sql(f"INSERT INTO s VALUES {piece}")
            if chosen.random() < 0.3:
                db.sql(f"SELECT * FROM v{chosen.randrange(len(groups))}")
            if chosen.random() < 0.05:
                db.close()
                db = midstream.connect(str(folder))
        answers = {number: db.sql(f"SELECT * FROM v{number}").fetchall() for number in range(len(groups))}
    finally:
        db.close()
    for number, names in enumerate(groups):
        wanted = judged(dsn, list(names), values)
        assert len(answers[number]) == COPIES
        for copy, *got in answers[number]:
            wrong = [
                (name, mine, theirs)
                for name, mine, theirs in zip(names, got, wanted, strict=True)
                if not same_value(mine, theirs)
            ]
            assert not wrong, f"copy {copy}, seed {seed}: (aggregate, view, PostgreSQL) {wrong}"


def judged(dsn: str, names: list[str], rows: list[str]) -> tuple[Any, ...]:
    with psycopg.connect(dsn, options="-c timezone=UTC") as judge:
        judge.execute(f"CREATE TEMP TABLE s ({COLUMNS})".encode())
        judge.execute(f"INSERT INTO s VALUES {', '.join(f'(0, {text})' for text in rows)}".encode())
        [found] = judge.execute(f"SELECT {', '.join(AGGREGATES[name] for name in names)} FROM s".encode()).fetchall()
        return found


def test_the_judge_and_our_own_query_agree(db: Any, postgres_dsn: str) -> None:
    """So that a difference above is a view's."""
    chosen = random.Random(3)
    values = [row(chosen, id) for id in range(20)]
    db.sql(f"CREATE TABLE s ({COLUMNS}); INSERT INTO s VALUES {', '.join(f'(0, {text})' for text in values)}")
    for names in in_groups(20, ESTIMATES):
        [found] = db.sql(f"SELECT {', '.join(f'{n} AS c{place}' for place, n in enumerate(names))} FROM s").fetchall()
        pairs = zip(names, found, judged(postgres_dsn, list(names), values), strict=True)
        assert [pair for pair in pairs if not same_value(*pair[1:])] == []
