"""The law of partials: however rows are cut into batches, and in whatever order the partials of these are merged, the
upper query gives what the aggregate gives over all rows. Here on DuckDB alone, in this process."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from midstream.plan import BindContext, bind_query
from midstream.plan.cut import Program, cut_view, fold
from midstream.plan.render import DUCKDB_SETTINGS
from midstream.relations.stream import Stream
from midstream.relations.table import Column, Table
from midstream.sql import parse_query
from midstream.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NUMERIC, TEXT, TIMESTAMP

COLUMNS = (
    Column("k", INT),
    Column("i", INT),
    Column("b", BIGINT),
    Column("n", NUMERIC(12, 3)),
    Column("f", DOUBLE),
    Column("t", TEXT),
    Column("o", BOOLEAN),
    Column("d", DATE),
    Column("ts", TIMESTAMP),
)
KINDS = "INTEGER INTEGER BIGINT DECIMAL(12,3) DOUBLE VARCHAR BOOLEAN DATE TIMESTAMP".split()
CONTEXT = BindContext(1, datetime.now(timezone.utc))
AGGREGATES = """
count(*); count(i); count(*) FILTER (WHERE i > 2); sum(i); sum(b); sum(n); sum(f); sum(i) FILTER (WHERE o); avg(i);
avg(b); avg(n); avg(f); min(i); max(t); min(d); max(ts); max(n); bool_and(o); bool_or(o); every(o);
bit_and(i); bit_or(i); bit_xor(b); stddev(f); stddev_pop(i); variance(n); var_pop(f); var_samp(i) FILTER (WHERE i < 5);
corr(f, i); covar_pop(f, i); covar_samp(f, i); regr_avgx(f, i); regr_avgy(f, i); regr_count(f, i); regr_slope(f, i);
regr_intercept(f, i); regr_r2(f, i); regr_sxx(f, i); regr_syy(f, i); regr_sxy(f, i); corr(i, i); regr_r2(i, i);
count(DISTINCT i); sum(DISTINCT i); avg(DISTINCT n); count(DISTINCT t) FILTER (WHERE o); stddev(DISTINCT i);
array_agg(DISTINCT i ORDER BY i); string_agg(DISTINCT t, ',' ORDER BY t); array_agg(i ORDER BY i);
array_agg(t ORDER BY t DESC NULLS LAST, i); string_agg(t, '-' ORDER BY t); min_by(i, ts); max_by(t, ts);
first(i ORDER BY ts, i); last(t ORDER BY ts, t); first(i ORDER BY ts DESC NULLS LAST, i) FILTER (WHERE i > 1);
mode() WITHIN GROUP (ORDER BY i); median(f); median(i); percentile_cont(0.3) WITHIN GROUP (ORDER BY f);
percentile_cont(0.3) WITHIN GROUP (ORDER BY i DESC); percentile_disc(0.5) WITHIN GROUP (ORDER BY t);
percentile_disc(0.25) WITHIN GROUP (ORDER BY d DESC); approx_count_distinct(i); sum(DISTINCT 3); min(DISTINCT i);
some(o); some(i > 2) FILTER (WHERE o); approx_count_distinct(t) FILTER (WHERE i > 2)
"""
NEAR = {
    "approx_percentile(f, 0.5)": "percentile_disc(0.5) WITHIN GROUP (ORDER BY f)",
    "approx_percentile(i, 0.25) FILTER (WHERE o)": "percentile_disc(0.25) WITHIN GROUP (ORDER BY i) FILTER (WHERE o)",
    "approx_percentile(n, 1)": "percentile_disc(1) WITHIN GROUP (ORDER BY n)",
    "approx_percentile(b, 0)": "percentile_disc(0) WITHIN GROUP (ORDER BY b)",
}
"""What is kept of an estimate is a value that came, to four digits: whatever the cut, it is as near as that."""
FOUR_DIGITS = 5.0001e-4
CASES = [*(text.strip() for text in AGGREGATES.replace("\n", " ").split(";") if text.strip()), *NEAR]


class Schema:
    def __init__(self) -> None:
        self.known = {"s": Stream(7, "s", COLUMNS), "twin": Table(8, "twin", COLUMNS)}

    def relation(self, name: str, as_of: int | None = None) -> Any:
        return self.known.get(name)

    def names(self) -> Iterable[str]:
        return self.known


def rows_of(chosen: random.Random, count: int) -> list[tuple[Any, ...]]:
    def maybe(value: Any) -> Any:
        return None if chosen.random() < 0.15 else value

    def row(number: int) -> tuple[Any, ...]:
        return (
            maybe(chosen.randrange(3)),
            maybe(chosen.randrange(-3, 8)),
            maybe(chosen.choice([2**62, -(2**62), 5, -7, 0])),
            maybe(Decimal(chosen.randrange(-5000, 5000)) / 1000),
            maybe(chosen.choice([0.1, 1e9 + chosen.random(), chosen.random() * 1e-3, 3.5])),
            maybe(chosen.choice(["x", "y", "zz", "", "ä"])),
            maybe(chosen.random() < 0.5),
            maybe(datetime(2027, 1, 1 + chosen.randrange(9)).date()),
            datetime(2027, 1, 1, 0, 0, 0, number),
        )

    rows = [row(number) for number in range(count)]
    chosen.shuffle(rows)
    return rows


class Kernel:
    """Tables of a DuckDB, and SQL of ours over them."""

    def __init__(self) -> None:
        self.db = duckdb.connect()
        for name, value in DUCKDB_SETTINGS.items():
            self.db.execute(f"SET {name} = {value!r}" if isinstance(value, str) else f"SET {name} = {value}")
        self.made = 0

    def table(self, sql: str, **inputs: list[str]) -> str:
        """A table of what a query gives; an input is the tables that it is made of."""
        for name, tables in inputs.items():
            union = " UNION ALL ".join(f"SELECT * FROM {table}" for table in tables)
            self.db.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {union}')
        self.made += 1
        self.db.execute(f"CREATE TEMP TABLE made_{self.made} AS {sql}")
        return f"made_{self.made}"

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        return self.db.execute(f"SELECT * FROM {table}").fetchall()


def cut_rows(chosen: random.Random, rows: list[Any]) -> list[list[Any]]:
    places = sorted(chosen.randrange(len(rows) + 1) for _ in range(chosen.randrange(6)))
    return [rows[a:b] for a, b in zip([0, *places], [*places, len(rows)], strict=True)]


def merged(kernel: Kernel, chosen: random.Random, program: Program, partials: list[str]) -> list[str]:
    """The partials after some merges, of any of them in any order."""
    left = list(partials)
    while len(left) > 1 and chosen.random() < 0.8:
        chosen.shuffle(left)
        size = chosen.randrange(1, len(left) + 1)
        left = [*left[size:], kernel.table(program.merge, **{program.merge_scan: left[:size]})]
    return left


def same(one: Any, other: Any, digits: float = 1e-9) -> bool:
    if isinstance(one, float) and isinstance(other, float | int | Decimal):
        return math.isclose(one, other, rel_tol=digits, abs_tol=1e-6) or (math.isnan(one) and math.isnan(other))
    return bool(one == other)


def sort_key(row: tuple[Any, ...]) -> tuple[bool, str]:
    return (row[0] is None, str(row[0]))


@pytest.mark.parametrize("grouped", ["GROUP BY k", ""])
@pytest.mark.parametrize("call", CASES)
def test_partials_merge_to_the_answer(call: str, grouped: str) -> None:
    check_law(call, grouped, random.Random(f"{call} {grouped}"), rounds=1)


@pytest.mark.long
@pytest.mark.parametrize("call", CASES)
def test_many_cuts_merge_to_the_answer(call: str) -> None:
    for grouped in ("GROUP BY k", "", "GROUP BY ROLLUP (k, o)", "WHERE o GROUP BY k HAVING count(*) > 1"):
        check_law(call, grouped, random.Random(call), rounds=40)


def check_law(call: str, grouped: str, chosen: random.Random, rounds: int) -> None:
    schema, key = Schema(), "k, " if "k" in grouped else ""
    plan = cut_view(parse_query(f"SELECT {key}{call} AS answer FROM s {grouped}"), schema, CONTEXT)
    judge, digits = NEAR.get(call, call), FOUR_DIGITS if call in NEAR else 1e-9
    direct = bind_query(parse_query(f"SELECT {key}{judge} AS answer FROM twin {grouped}"), schema, CONTEXT).sql(
        "duckdb"
    )
    programs = [fold([pipeline]).program for pipeline in plan.pipelines]
    upper = plan.upper({})
    for number in range(rounds):
        kernel, rows = Kernel(), rows_of(chosen, chosen.choice([0, 1, 5, 40]) if number else 40)
        columns = ", ".join(f'"{c.name}" {kind}' for c, kind in zip(COLUMNS, KINDS, strict=True))
        kernel.db.execute(f"CREATE TABLE scan_0 ({columns})")
        kernel.db.execute("CREATE TABLE empty AS SELECT * FROM scan_0")
        if rows:
            kernel.db.executemany(f"INSERT INTO scan_0 VALUES ({', '.join('?' * len(COLUMNS))})", rows)
        expected = kernel.rows(kernel.table(direct))
        states = {}
        for program in programs:
            feed = program.feeds[7]
            partials = []
            for batch in cut_rows(chosen, rows):
                table = kernel.table("SELECT * FROM empty")
                kernel.db.execute(f"ALTER TABLE {table} ADD COLUMN _row_id BIGINT")
                if batch:
                    marks = ", ".join("?" * len(COLUMNS))
                    kernel.db.executemany(f"INSERT INTO {table} VALUES ({marks}, 0)", batch)
                partials.append(kernel.table(feed.sql.replace('"scan_0"', table)))
            states[program.name] = merged(kernel, chosen, program, partials)
        inputs = {scan.name: states[scan.relation.name] for scan in upper.scans}
        found = kernel.rows(kernel.table(upper.sql("duckdb"), **inputs))
        assert len(found) == len(expected), (call, grouped, number)
        for one, other in zip(sorted(found, key=sort_key), sorted(expected, key=sort_key), strict=True):
            assert all(same(*pair, digits) for pair in zip(one, other, strict=True)), (
                call,
                grouped,
                number,
                one,
                other,
            )
