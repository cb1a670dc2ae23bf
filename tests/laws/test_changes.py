"""What a commit changes of a query's answer is what continuous queries hand out and materialized views take in.

A world has random tables with keys and foreign keys; every query of it is watched by a continuous query and kept by a
materialized view. Random transactions come; queries are suspended, deactivated, recomputed; the database is closed and
opened. PostgreSQL answers each query from scratch after every commit, and all is compared with the differences.

    pytest tests/laws/test_changes.py -k world_3        runs one world again
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from choices import Choices
from query_world import MODES, ON_COMMIT, Difference, QueryWorld, Rows, Watched, multiset, told_apart
from random_changes import SHAPES, WINDOWED, DeltaQueryMaker, Growing, window_query
from random_transactions import TransactionMaker, random_schema

import midstream
from asking import in_threads

WORLDS, QUERIES, ACTS = 1, 8, 4
ACCOUNTS = 10
Play = Callable[..., None]


@pytest.fixture
def play(database: Any, postgres_dsn: str, tmp_path: Path) -> Play:
    """Plays one world; the shared database keeps Spark up."""

    def run(
        seed: int, kernel: str, queries: int, acts: int, growing: Growing | None = None, *, awkward: bool = False
    ) -> None:
        folder, wrong = str(tmp_path / "world.db"), ""
        world = QueryWorld(seed, folder, postgres_dsn, kernel, growing, awkward=awkward)
        try:
            play_world(world, queries, acts)
        except Difference as difference:
            wrong = str(difference)
        finally:
            world.close()
        if wrong:
            pytest.fail(wrong, pytrace=False)

    return run


@pytest.mark.parametrize("seed", range(WORLDS), ids=lambda seed: f"world_{seed}")
def test_changes_are_the_difference_of_answers(seed: int, play: Play) -> None:
    play(seed, "duckdb", QUERIES, ACTS)


def test_changes_of_awkward_values_are_the_difference_of_answers(play: Play) -> None:
    play(1, "duckdb", 4, 3, awkward=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(400, 414), ids=lambda seed: f"world_{seed}")
def test_many_changes_of_awkward_values_are_the_difference_of_answers(seed: int, play: Play) -> None:
    play(seed, "duckdb", 8, 8, awkward=True)


@pytest.mark.long
def test_changes_are_the_same_on_the_spark_kernel(play: Play) -> None:
    play(3, "spark", 1, 1)


@pytest.mark.parametrize("strictly", [True, False])
def test_window_functions_change_with_a_table_that_grows(strictly: bool, play: Play) -> None:
    play(4, "duckdb", 2, 3, Growing(strictly))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130), ids=lambda seed: f"world_{seed}")
def test_many_changes_are_the_difference_of_answers(seed: int, play: Play) -> None:
    play(seed, "duckdb", 8, 14)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 206), ids=lambda seed: f"world_{seed}")
def test_many_changes_are_the_same_on_the_spark_kernel(seed: int, play: Play) -> None:
    play(seed, "spark", 4, 4)


@pytest.mark.long
@pytest.mark.parametrize("strictly", [True, False])
@pytest.mark.parametrize("seed", range(300, 305), ids=lambda seed: f"world_{seed}")
def test_many_window_functions_change_with_a_table_that_grows(seed: int, strictly: bool, play: Play) -> None:
    play(seed, "duckdb", 6, 10, Growing(strictly))


def play_world(world: QueryWorld, queries: int, acts: int) -> None:
    first = make_queries(world, queries)
    deactivated: set[str] = set()
    for _ in range(acts):
        world.transact()
        deactivated |= act_once(world)
    for watched in world.watched.values():
        if watched.state != "ACTIVE":
            world.alter(watched, "ACTIVATE")
    world.transact()
    world.settle_all()
    for name, watched in world.watched.items():
        world.check_destination(watched)
        if name not in deactivated:
            world.check_replay(watched, first[name])
    for view in world.kept.values():
        if view.refresh == "on demand":
            world.refresh(view)
        world.check_view(view)
        world.check_changes(view)


def make_queries(world: QueryWorld, count: int) -> dict[str, Rows]:
    """Each world goes on in the list of shapes where the one before stopped."""
    first = {}
    names = list(SHAPES)
    for number in range(count):
        source = world.seed * 1000 + number
        if world.growing is not None:
            query = window_query(Choices(source), world.growing)
        else:
            query = world.query_of(source, names[(world.seed * count + number) % len(names)])
        if world.is_refused(query):
            continue
        if query.shape not in WINDOWED:
            watched = world.watch(query, MODES[number % len(MODES)])
            first[watched.name] = watched.answer
        if world.growing is None:
            world.keep(query)
    assert 2 * len(world.watched) >= count or world.growing is not None, "the kernel refuses too much"
    return first


def act_once(world: QueryWorld) -> set[str]:
    """Something that happens between two transactions; the names of queries that begin anew."""
    watched = world.choices.pick(list(world.watched.values()))
    views = list(world.kept.values())
    match world.choices.draw(9):
        case 0 | 1:
            for view in views[:2]:
                world.check_view(view)
        case 2:
            world.settle(watched)
        case 3 if watched.state == "ACTIVE":
            world.alter(watched, "SUSPEND")
        case 4 if watched.state == "ACTIVE":
            world.deactivate(watched)
            return {watched.name}
        case 3 | 4:
            world.alter(watched, "ACTIVATE")
        case 5:
            world.restart(at_once=world.choices.chance(2))
        case 6 if views:
            refresh_one(world)
        case 7 if world.growing is None:
            world.alter_table()
        case _:
            pass
    return set()


def refresh_one(world: QueryWorld) -> None:
    view = world.choices.pick(list(world.kept.values()))
    world.refresh(view)
    world.check_view(view)


# the queries themselves


def test_generated_queries_mean_the_same_to_two_judges(postgres: Any) -> None:
    """Whoever fails here has a query with two answers, or none."""
    for seed in range(3):
        choices = Choices(seed)
        tables, duckdb_judge = random_schema(choices, f"s{seed}_t"), duckdb.connect()
        duckdb_judge.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        maker, state = TransactionMaker(choices, tables), dict[str, list[dict[str, Any]]]()
        for table in tables:
            postgres.run("judge", table.create())
            insert = maker.first_rows(table, {**state, table.name: []})
            postgres.run("judge", insert)
            found = postgres.run("judge", f"SELECT * FROM {table.name}")
            state[table.name] = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
            columns = ", ".join(f"{field.name} {field.type}" for field in table.fields)
            duckdb_judge.execute(f"CREATE TABLE {table.name} ({columns}); {insert}")
        for number, shape in enumerate(SHAPES):
            query = DeltaQueryMaker(Choices(seed * 100 + number), tables).query(shape)
            one = multiset(postgres.run("judge", query.plain).fetchall())
            two = multiset(duckdb_judge.execute(query.plain).fetchall())
            assert one == two, f"{shape}: {query.plain}\n{told_apart(one, two)}"


# resuming


def test_a_subscription_goes_on_from_any_commit(database: Any, postgres_dsn: str, tmp_path: Path) -> None:
    world = QueryWorld(11, str(tmp_path / "world.db"), postgres_dsn)
    try:
        watched = [world.watch(world.query_of(n, shape), ON_COMMIT) for n, shape in enumerate(["filter", "group"])]
        for _ in range(6):
            world.transact()
        world.settle_all()
        for one in watched:
            for after in [*one.wanted, world.last_scn]:
                resume(world, one, after)
    finally:
        world.close()


def resume(world: QueryWorld, watched: Watched, after: int) -> None:
    wanted = sum((changes for scn, changes in watched.wanted.items() if scn > after), Counter())
    again = Watched(watched.name, watched.query, watched.mode, watched.key, None, False, Counter(), Counter())
    again.wanted = {scn: changes for scn, changes in watched.wanted.items() if scn > after}
    with world.db.subscribe(watched.name, after=after) as again.feed:
        world.collect(again)
    assert sum(again.heard.values(), Counter()) == wanted


# transfers


@pytest.fixture
def bank(database: Any, tmp_path: Path) -> Any:
    with midstream.connect(str(tmp_path / "bank.db")) as db:
        db.sql("CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL)")
        db.sql("CREATE TABLE bookings (acct int NOT NULL REFERENCES accounts (id), amt bigint NOT NULL)")
        db.sql("INSERT INTO accounts VALUES " + ", ".join(f"({n}, 0)" for n in range(ACCOUNTS)))
        yield db


def test_the_sum_of_all_balances_is_zero_in_every_output(bank: Any) -> None:
    transfer_and_look(bank, threads=3, transfers=6)


@pytest.mark.long
def test_the_sum_of_all_balances_is_zero_in_very_many_outputs(bank: Any) -> None:
    transfer_and_look(bank, threads=4, transfers=120)


def transfer_and_look(db: Any, threads: int, transfers: int) -> None:
    db.sql("CREATE CONTINUOUS QUERY balances PRIMARY KEY (id) COMPUTE ON COMMIT AS SELECT id, balance FROM accounts")
    db.sql("CREATE CONTINUOUS QUERY total COMPUTE ON COMMIT AS SELECT sum(balance) AS total FROM accounts")
    db.sql(
        "CREATE CONTINUOUS QUERY booked PRIMARY KEY (acct) COMPUTE BATCHED ON DEMAND AS "
        "SELECT acct, sum(amt) AS balance FROM bookings GROUP BY acct"
    )
    db.sql("CREATE MATERIALIZED VIEW kept AS SELECT id, balance FROM accounts")
    db.sql("CREATE MATERIALIZED VIEW kept_total AS SELECT sum(balance) AS total, count(*) AS n FROM accounts")
    done, scns = threading.Event(), list[int]()
    with db.subscribe("balances") as single, db.subscribe("booked") as batched, db.subscribe("total") as totals:
        patience = 30 + 5.0 * threads * transfers
        workers = [lambda seed=seed: transfer(db, seed, transfers, scns) for seed in range(threads)]

        def run_all() -> None:
            try:
                in_threads(workers, patience)  # type: ignore[arg-type]
            finally:
                done.set()

        in_threads([run_all, lambda: look_at_views(db, done), lambda: recompute_often(db, done)], 2 * patience)
        db.wait("balances", max(scns))
        db.wait("total", max(scns))
        db.sql("SELECT cq_recompute('booked')").fetchall()
        outputs = [outputs_of(single, len(scns) * 2), outputs_of(batched, 1)]
        assert totals.poll(timeout=0.1) == []
    assert sorted({change.scn for change in outputs[0]}) == sorted(scns), "one output for each transfer"
    final = dict(db.sql("SELECT id, balance FROM accounts").fetchall())
    for changes, key, start in [(outputs[0], "id", dict.fromkeys(final, 0)), (outputs[1], "acct", {})]:
        reached = replay(changes, key, start)
        assert {k: v for k, v in reached.items() if v} == {k: v for k, v in final.items() if v}


def replay(changes: list[Any], key: str, balances: dict[int, int]) -> dict[int, int]:
    """After all changes of one SCN, each time, the sum is zero."""
    scns = [change.scn for change in changes]
    assert scns == sorted(scns), "not in the order of commits"
    for scn in sorted(set(scns)):
        for change in (change for change in changes if change.scn == scn):
            if change.kind == "U":
                assert balances[change.row[key]] == change.old["balance"], f"the old balance of {change.row}"
            if change.kind == "D":
                del balances[change.old[key]]
            else:
                balances[change.row[key]] = change.row["balance"]
        assert sum(balances.values()) == 0, f"money was made or lost in the output of SCN {scn}: {balances}"
    return balances


def outputs_of(feed: Any, least: int) -> list[Any]:
    heard = list(feed.poll(timeout=30))
    while more := feed.poll(timeout=30 if len(heard) < least else 0.2):
        heard += more
    return heard


def transfer(db: Any, seed: int, times: int, scns: list[int]) -> None:
    """Moves money between two accounts, again after each conflict."""
    chosen = random.Random(seed)
    with db.session() as session:
        for _ in range(times):
            giver, taker = chosen.sample(range(ACCOUNTS), 2)
            amount = chosen.randint(1, 50)
            while (scn := try_transfer(session, giver, taker, amount)) is None:
                pass
            scns.append(scn)


def try_transfer(session: Any, giver: int, taker: int, amount: int) -> int | None:
    try:
        session.sql("BEGIN")
        session.sql(f"UPDATE accounts SET balance = balance - {amount} WHERE id = {giver}")
        session.sql(f"UPDATE accounts SET balance = balance + {amount} WHERE id = {taker}")
        session.sql(f"INSERT INTO bookings VALUES ({giver}, {-amount}), ({taker}, {amount})")
        return int(session.sql("COMMIT").scn)
    except midstream.Error as error:
        if error.sqlstate != "40001":
            raise
        session.sql("ROLLBACK")
        return None


def look_at_views(db: Any, done: threading.Event) -> None:
    with db.session() as session:
        while not done.is_set():
            [(total, count)] = session.sql("SELECT total, n FROM kept_total").fetchall()
            assert (total, count) == (0, ACCOUNTS)
            assert session.sql("SELECT sum(balance), count(*) FROM kept").fetchall() == [(0, ACCOUNTS)]


def recompute_often(db: Any, done: threading.Event) -> None:
    with db.session() as session:
        while not done.is_set():
            session.sql("SELECT cq_recompute('booked')").fetchall()
