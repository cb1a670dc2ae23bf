"""What continuous queries and materialized views keep, so that a change costs what it touches: sums, and last rows.

That answers are right with them is in `tests/laws/test_changes.py` too, where every other world keeps them.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import midstream
from asking import rows, scn_now

JOINED = "users JOIN orders ON uid = id"
SPENT = f"SELECT region, count(*) AS n, sum(price) AS spent, avg(price) AS mean FROM {JOINED} GROUP BY region"
ALL = "SELECT count(*) AS n, sum(price) AS spent, avg(price) AS mean FROM orders"
COUNT = "SELECT count(*) AS n FROM orders"


@pytest.fixture
def shop(db: Any) -> Iterator[Any]:
    db.sql("SET preimage = 'kept'")
    db.sql("CREATE TABLE users (id bigint PRIMARY KEY, region text)")
    db.sql(
        "CREATE TABLE orders (oid bigint PRIMARY KEY, uid bigint REFERENCES users (id) ON DELETE CASCADE,"
        " price numeric(10,2))"
    )
    db.sql("INSERT INTO users SELECT i, CASE WHEN i % 4 < 3 THEN 'r' || i % 4 END FROM generate_series(1, 20) AS g(i)")
    db.sql("INSERT INTO orders SELECT i, i % 20 + 1, i / 10.0 FROM generate_series(1, 200) AS g(i)")
    yield db
    db.sql("SET preimage = 'auto'")


def plan_of(db: Any, view: str) -> str:
    return "\n".join(line for (line,) in db.sql(f"EXPLAIN VIEW {view}").fetchall())


def random_change(choose: random.Random, next_id: int) -> str:
    who = choose.randint(1, 20)
    return choose.choice(
        [
            f"INSERT INTO orders VALUES ({next_id}, {who}, {choose.randint(-50, 50)}.25)",
            f"UPDATE orders SET price = price + 1 WHERE uid = {who}",
            f"UPDATE orders SET price = NULL WHERE oid % 50 = {who}",
            f"DELETE FROM orders WHERE oid % 40 = {who}",
            f"UPDATE users SET region = 'r{choose.randint(0, 4)}' WHERE id = {who}",
            f"UPDATE users SET region = NULL WHERE id = {who}",
            f"DELETE FROM orders WHERE uid = {who}",
        ]
    )


@pytest.mark.parametrize(
    "query", [SPENT, ALL, COUNT, SPENT + " HAVING sum(price) > 30"], ids=["groups", "all", "count", "having"]
)
def test_a_view_with_kept_sums_answers_what_its_query_does(shop: Any, query: str) -> None:
    choose = random.Random(query)
    shop.sql(f"CREATE MATERIALIZED VIEW spent WITH (refresh = 'incremental') AS {query}")
    for step in range(4):
        shop.sql(random_change(choose, 1000 + step))
        if choose.random() < 0.8:
            assert rows(shop, "SELECT * FROM spent") == rows(shop, query)
    assert rows(shop, "SELECT * FROM spent") == rows(shop, query)
    assert "Sums of its groups are kept" in plan_of(shop, "spent")


def test_all_rows_that_go_leave_one_row_without_groups_and_none_with(shop: Any) -> None:
    shop.sql(f"CREATE MATERIALIZED VIEW every AS {ALL}")
    shop.sql(f"CREATE MATERIALIZED VIEW by_region AS {SPENT}")
    for _ in range(2):
        shop.sql("DELETE FROM orders")
        assert rows(shop, "SELECT * FROM every") == [(0, None, None)]
        assert rows(shop, "SELECT * FROM by_region") == []
        shop.sql("INSERT INTO orders VALUES (1, 1, 2.5)")
        assert rows(shop, "SELECT * FROM every") == [(1, Decimal("2.50"), Decimal("2.500000"))]
        assert len(rows(shop, "SELECT * FROM by_region")) == 1


def test_changes_of_kept_sums_are_told_commit_by_commit(shop: Any) -> None:
    """Commits that come before a query looks are computed together, and each has its own changes."""
    shop.sql(f"CREATE CONTINUOUS QUERY spent COMPUTE TRANSACTIONAL DELTA ON DEMAND AS {ALL}")
    with shop.subscribe("spent") as feed:
        for first in (1000, 2000):
            scns = []
            for step in range(3):
                shop.sql(f"INSERT INTO orders VALUES ({first + step}, 1, 1)")
                scns.append(scn_now(shop))
            shop.sql("SELECT cq_recompute('spent')").fetchall()
            told = [(change.scn, change.kind, change.row["n"]) for change in feed.poll(timeout=10)]
            count = 200 if first == 1000 else 203
            wanted = [
                part
                for place, scn in enumerate(scns)
                for part in ((scn, "D", count + place), (scn, "I", count + place + 1))
            ]
            assert sorted(told) == wanted


def test_a_key_that_nothing_proves_is_checked_with_kept_sums_too(shop: Any) -> None:
    """Such commits are computed one by one, in one job: sums are as they were before the first."""
    query = f"SELECT coalesce(region, 'none') AS region, sum(price) AS spent FROM {JOINED} GROUP BY region"
    shop.sql(f"CREATE CONTINUOUS QUERY spent PRIMARY KEY (region) COMPUTE TRANSACTIONAL DELTA ON DEMAND AS {query}")
    answer = {row[0]: row[1] for row in rows(shop, query)}
    with shop.subscribe("spent") as feed:
        for round in range(2):
            for who in (1, 2, 3, 1):
                shop.sql(f"UPDATE orders SET price = price + 1 WHERE oid = {who}")
            shop.sql("SELECT cq_recompute('spent')").fetchall()
            for change in feed.poll(timeout=10):
                assert change.kind == "U" and answer[change.row["region"]] == change.old["spent"]
                answer[change.row["region"]] = change.row["spent"]
            assert answer == {row[0]: row[1] for row in rows(shop, query)}, f"round {round}"


def test_kept_sums_stay_few_and_go_with_the_view(shop: Any) -> None:
    folder = Path(shop.path)
    shop.sql(f"CREATE MATERIALIZED VIEW spent AS {SPENT}")
    for step in range(6):
        shop.sql(f"INSERT INTO orders VALUES ({1000 + step}, {step + 1}, 1)")
        rows(shop, "SELECT * FROM spent")
    assert rows(shop, "SELECT * FROM spent") == rows(shop, SPENT)
    assert len(list((folder / "queries").rglob("*.parquet"))) <= 2
    shop.sql("DROP MATERIALIZED VIEW spent")
    assert not list((folder / "queries").rglob("*.parquet"))


def test_kept_sums_are_made_anew_when_what_they_are_of_is_another(shop: Any) -> None:
    shop.sql("CREATE VIEW paid AS SELECT * FROM orders WHERE price > 5")
    query = "SELECT uid, count(*) AS n, sum(price) AS spent FROM paid GROUP BY uid"
    shop.sql(f"CREATE MATERIALIZED VIEW spent AS {query}")
    for step, statement in enumerate(
        [
            "UPDATE orders SET price = price + 1 WHERE uid = 2",
            "CREATE OR REPLACE VIEW paid AS SELECT * FROM orders WHERE price > 8",
            "UPDATE orders SET price = price + 1 WHERE uid = 3",
            "ALTER TABLE orders ADD COLUMN note text",
            "UPDATE orders SET price = price - 2 WHERE uid = 4",
            "REFRESH MATERIALIZED VIEW spent FULL",
            "DELETE FROM orders WHERE uid = 5",
            "SET preimage = 'as of'",
            "DELETE FROM orders WHERE oid = 7",
            "SET preimage = 'kept'",
            "DELETE FROM orders WHERE oid = 8",
            "DELETE FROM orders WHERE oid = 9",
        ]
    ):
        shop.sql(statement)
        assert rows(shop, "SELECT * FROM spent") == rows(shop, query), f"step {step}: {statement}"


def test_kept_sums_survive_a_restart(tmp_path: Path, database: Any) -> None:
    folder = str(tmp_path / "kept.db")
    query = "SELECT g, sum(v) AS v FROM t GROUP BY g"
    with midstream.connect(folder) as db:
        db.sql("SET preimage = 'kept'")
        db.sql("CREATE TABLE t (id bigint, g int, v int)")
        db.sql("INSERT INTO t SELECT i, i % 5, i FROM generate_series(1, 100) AS g(i)")
        db.sql(f"CREATE MATERIALIZED VIEW sums AS {query}")
        db.sql("UPDATE t SET v = 0 WHERE id = 7")
        assert rows(db, "SELECT * FROM sums") == rows(db, query)
    for round in range(2):
        with midstream.connect(folder) as db:
            assert "Sums of its groups are kept: 5 in 1 file" in plan_of(db, "sums")
            db.sql(f"DELETE FROM t WHERE id % 10 = {round}")
            assert rows(db, "SELECT * FROM sums") == rows(db, query)


def test_deactivated_queries_keep_no_sums(shop: Any) -> None:
    shop.sql(f"CREATE CONTINUOUS QUERY spent COMPUTE ON DEMAND AS {SPENT}")
    shop.sql("DELETE FROM orders WHERE uid = 1")
    shop.sql("SELECT cq_recompute('spent')").fetchall()
    shop.sql("ALTER CONTINUOUS QUERY spent DEACTIVATE")
    assert not list((Path(shop.path) / "queries").rglob("*.parquet"))
    shop.sql("DELETE FROM orders WHERE uid = 2")
    shop.sql("ALTER CONTINUOUS QUERY spent ACTIVATE")
    before = rows(shop, SPENT)
    with shop.subscribe("spent") as feed:
        shop.sql("DELETE FROM orders WHERE uid = 3")
        shop.sql("SELECT cq_recompute('spent')").fetchall()
        told = [(change.kind, tuple(change.row.values())) for change in feed.poll(timeout=10)]
    after = rows(shop, SPENT)
    assert sorted(told, key=repr) == sorted(
        [*(("D", row) for row in before if row not in after), *(("I", row) for row in after if row not in before)],
        key=repr,
    )


def test_sums_of_large_tables_are_kept_by_themselves(db: Any) -> None:
    db.sql("CREATE TABLE t (id bigint, g int, v int)")
    db.sql("INSERT INTO t SELECT i, i % 7, i FROM generate_series(1, 99000) AS g(i)")
    query = "SELECT g, count(*) AS n, sum(v) AS v FROM t GROUP BY g"
    db.sql(f"CREATE MATERIALIZED VIEW sums AS {query}")
    db.sql("INSERT INTO t VALUES (0, 1, 1)")
    assert rows(db, "SELECT * FROM sums") == rows(db, query)
    assert "are kept" not in plan_of(db, "sums")
    db.sql("INSERT INTO t SELECT i, i % 7, i FROM generate_series(1, 1000) AS g(i)")
    assert rows(db, "SELECT * FROM sums") == rows(db, query)
    assert "Sums of its groups are kept: 7 in 1 file" in plan_of(db, "sums")
    db.sql("DELETE FROM t WHERE g = 3")
    assert rows(db, "SELECT * FROM sums") == rows(db, query)


# Rows that frames may reach

FRAMES = {
    "range": "SELECT loc, at, avg(temp) OVER (PARTITION BY loc ORDER BY at RANGE BETWEEN 4 PRECEDING AND CURRENT ROW)"
    " AS m FROM ticks WHERE temp > 10",
    "peers": "SELECT loc, at, count(*) OVER (PARTITION BY loc ORDER BY at RANGE CURRENT ROW) AS m FROM ticks",
    "lag": "SELECT loc, at, lag(temp) OVER (PARTITION BY loc ORDER BY at) AS m FROM ticks",
    "rows": "SELECT loc, at, m FROM (SELECT loc, at, lag(temp, 2) OVER (PARTITION BY loc ORDER BY at) AS was,"
    " max(temp) OVER (PARTITION BY loc ORDER BY at ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS m FROM ticks) AS w"
    " WHERE was < m",
    "apart": "SELECT at, lag(temp) OVER (PARTITION BY loc ORDER BY at) AS l,"
    " sum(temp) OVER (PARTITION BY loc, temp ORDER BY at RANGE BETWEEN 5 PRECEDING AND CURRENT ROW) AS s FROM ticks",
}
"""The first two need no strict order."""

RUNNING = {
    "average": "SELECT loc, at, m FROM (SELECT loc, at, avg(temp) OVER (PARTITION BY loc ORDER BY at ROWS BETWEEN"
    " UNBOUNDED PRECEDING AND CURRENT ROW) AS m FROM ticks) AS w WHERE m < 25",
    "records": "SELECT loc, at, temp, max(temp) OVER w AS high, sum(temp) OVER w + at AS s, row_number() OVER w AS n"
    " FROM ticks WHERE temp > 5 WINDOW w AS (PARTITION BY loc ORDER BY at)",
}


def measure(db: Any, choose: random.Random, last: list[int], strictly: bool, count: int) -> None:
    rows = []
    for _ in range(count):
        place = choose.randrange(len(last))
        last[place] += choose.randint(1, 3) if strictly else choose.randint(0, 2)
        rows.append(f"({place}, {last[place]}, {choose.randint(0, 40)})")
    db.sql(f"INSERT INTO ticks VALUES {', '.join(rows)}")


def make_ticks(db: Any, strictly: bool) -> list[int]:
    db.sql("CREATE TABLE ticks (loc int NOT NULL, at int NOT NULL, temp int)")
    how = "STRICTLY INCREASING" if strictly else "INCREASING"
    db.sql(f"ALTER TABLE ticks ADD CONSTRAINT up {how} at PARTITION BY loc")
    return [0, 0, 0]


@pytest.mark.parametrize(
    ("strictly", "names"), [(True, list(FRAMES)), (False, ["range", "peers"])], ids=["strictly", "with ties"]
)
def test_frames_over_a_table_that_grows(db: Any, strictly: bool, names: list[str]) -> None:
    choose, last = random.Random(5), make_ticks(db, strictly)
    measure(db, choose, last, strictly, 10)
    for name in names:
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (refresh = 'incremental') AS {FRAMES[name]}")
    for step in range(5):
        measure(db, choose, last, strictly, choose.randint(1, 6))
        for name in names if step % 2 else ():
            assert rows(db, f"SELECT * FROM v_{name}") == rows(db, FRAMES[name]), f"{name}, step {step}"
    measure(db, choose, last, strictly, 300)
    for name in names:
        assert rows(db, f"SELECT * FROM v_{name}") == rows(db, FRAMES[name]), name
        plan = plan_of(db, f"v_{name}")
        [kept] = [line for line in plan.splitlines() if line.startswith("Rows that its frames may reach are kept: ")]
        assert int(kept.split(": ")[1].split()[0]) <= 60, kept
        assert "frames end at the row" in plan


def test_frames_from_the_first_row_on(db: Any) -> None:
    """The paper's query for low balances: of each partition, sums are kept, not its rows."""
    choose, last = random.Random(6), make_ticks(db, True)
    measure(db, choose, last, True, 10)
    for name, query in RUNNING.items():
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} WITH (refresh = 'incremental') AS {query}")
    for count in (1, 4, 300, 2):
        measure(db, choose, last, True, count)
        for name, query in RUNNING.items():
            assert rows(db, f"SELECT * FROM v_{name}") == rows(db, query), f"{name}, {count}"
    for name in RUNNING:
        plan = plan_of(db, f"v_{name}")
        assert "Sums of its partitions are kept: 3 in 1 file" in plan
        assert "frames begin at the first row" in plan


@pytest.mark.parametrize(
    "frame",
    [
        "sum(amount) OVER (ORDER BY n)",
        "sum(amount) OVER (ORDER BY n ROWS 2 PRECEDING)",
        "lag(amount) OVER (ORDER BY n)",
    ],
)
def test_frames_over_all_rows_are_kept_from_the_first_change_on(db: Any, frame: str) -> None:
    """Without PARTITION BY, all rows would be computed before and after, but for what is kept."""
    query = f"SELECT n, {frame} AS v FROM ledger"
    db.sql("CREATE TABLE ledger (n int NOT NULL, amount int)")
    db.sql("ALTER TABLE ledger ADD CONSTRAINT up STRICTLY INCREASING n")
    db.sql("INSERT INTO ledger SELECT i, i * i % 17 FROM generate_series(1, 50) AS s(i)")
    assert "computed before and after" not in "\n".join(
        line for (line,) in db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").fetchall()
    )
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (refresh = 'incremental') AS {query}")
    for n in (51, 52):
        db.sql(
            f"INSERT INTO ledger VALUES ({n}, {n}), ({n + 10}, 3)" if n == 52 else f"INSERT INTO ledger VALUES ({n}, 1)"
        )
        assert rows(db, "SELECT * FROM v") == rows(db, query)
        plan = plan_of(db, "v")
        assert " are kept: " in plan and "computed before and after" not in plan
    db.sql("SET preimage = 'as of'")
    db.sql("INSERT INTO ledger VALUES (70, 4)")
    assert rows(db, "SELECT * FROM v") == rows(db, query)
    assert " are kept: " not in plan_of(db, "v")
    db.sql("SET preimage = 'auto'")
    db.sql("INSERT INTO ledger VALUES (71, 5)")
    assert rows(db, "SELECT * FROM v") == rows(db, query)
    assert " are kept: " in plan_of(db, "v")


def test_the_frames_of_each_commit_are_told_by_itself(db: Any) -> None:
    make_ticks(db, True)
    db.sql("INSERT INTO ticks VALUES (0, 1, 5)")
    db.sql(f"CREATE CONTINUOUS QUERY q COMPUTE TRANSACTIONAL DELTA ON DEMAND AS {FRAMES['lag']}")
    with db.subscribe("q") as feed:
        for first in (2, 10):
            scns = []
            for at in range(first, first + 3):
                db.sql(f"INSERT INTO ticks VALUES (0, {at}, {at})")
                scns.append(scn_now(db))
            db.sql("SELECT cq_recompute('q')").fetchall()
            told = [(c.scn, c.kind, c.row["at"], c.row["m"]) for c in feed.poll(timeout=10)]
            before = 5 if first == 2 else 4
            assert told == [
                (scn, "I", at, at - 1 if at > first else before)
                for scn, at in zip(scns, range(first, first + 3), strict=True)
            ]


@pytest.mark.long
def test_both_kernels_keep_the_same(session: Any) -> None:
    choose, last = random.Random(7), make_ticks(session, True)
    measure(session, choose, last, True, 20)
    queries = {
        "sums": "SELECT loc, count(*) AS n, sum(temp) AS s, avg(temp) AS a FROM ticks WHERE temp > 3 GROUP BY loc",
        "frames": FRAMES["rows"],
        "running": RUNNING["records"],
    }
    session.sql("SET preimage = 'kept'")
    try:
        for name, query in queries.items():
            session.sql(f"CREATE MATERIALIZED VIEW v_{name} AS {query}")
        for _ in range(3):
            measure(session, choose, last, True, 4)
            for name, query in queries.items():
                assert rows(session, f"SELECT * FROM v_{name}") == rows(session, query)
    finally:
        session.sql("SET preimage = 'auto'")
