"""However the rows come, a view answers what its query answers over all of them.

A world has random streams, tables and views. Rows come in random pieces, to one stream or to several in one commit;
tables change; views are made while rows come; the database is closed and opened; views are read in between, and all
of them at the end. PostgreSQL runs the same queries over tables with all rows. A view that fails is tried again by
itself, with all rows in one insert, and made smaller.

    pytest tests/laws/test_views.py -k world_3        runs one world again
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from choices import reduce_choices
from view_world import Difference, Epoch, Tally, World

VIEWS_AT_FIRST, VIEWS_LATER = 4, 2
ACTS = 8
REDUCE_SECONDS = 30.0


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.fixture
def play(database: Any, postgres_dsn: str, tmp_path: Path, tally: Tally) -> Callable[..., None]:
    """Plays one world; the shared database keeps Spark up."""

    def run(seed: int, kernel: str, views: tuple[int, int], acts: int) -> None:
        world = World(seed, str(tmp_path / "world.db"), postgres_dsn, kernel)
        try:
            play_world(world, seed, views, acts, tally)
        finally:
            world.close()

    return run


@pytest.mark.parametrize("seed", range(1), ids=lambda seed: f"world_{seed}")
def test_a_view_answers_what_its_query_answers(seed: int, play: Callable[..., None]) -> None:
    play(seed, "duckdb", (VIEWS_AT_FIRST, VIEWS_LATER), ACTS)


@pytest.mark.long
def test_a_view_answers_the_same_on_the_spark_kernel(play: Callable[..., None]) -> None:
    play(2, "spark", (2, 1), 3)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130), ids=lambda seed: f"world_{seed}")
def test_many_views_answer_what_their_queries_answer(seed: int, play: Callable[..., None]) -> None:
    play(seed, "duckdb", (7, 3), 14)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 210), ids=lambda seed: f"world_{seed}")
def test_many_views_answer_the_same_on_the_spark_kernel(seed: int, play: Callable[..., None]) -> None:
    play(seed, "spark", (4, 1), 6)


def test_hardly_a_view_is_refused_or_broken(tally: Tally, play: Callable[..., None]) -> None:
    """Counted over the views above, or over a world of its own when this runs alone."""
    if not tally.views:
        play(0, "duckdb", (VIEWS_AT_FIRST, VIEWS_LATER), ACTS)
    assert len(tally.refused) <= 0.05 * tally.views, tally.refused
    assert tally.broken <= 0.05 * tally.reads, "the generator makes too many queries that fail everywhere"


def play_world(world: World, seed: int, views: tuple[int, int], acts: int, tally: Tally) -> None:
    queries = iter(range(seed * 10_000, seed * 10_000 + 1000))
    first = world.new_epoch()
    for _ in range(views[0]):
        make_view(world, next(queries), first, tally)
    for act in range(acts):
        if act == acts // 2:
            later = world.new_epoch()
            for _ in range(views[1]):
                make_view(world, next(queries), later, tally)
        act_once(world, next(queries), tally)
    if world.choices.chance(2):
        world.restart()
    for name in list(world.views):
        check(world, name, tally)


def act_once(world: World, number: int, tally: Tally) -> None:
    """Rows come; then perhaps something else happens."""
    world.insert(world.choices.pick([1, 2, 7, 20, 40]))
    match world.choices.draw(6):
        case 0 | 1:
            check(world, world.choices.pick(list(world.views)), tally)
        case 2:
            world.change_a_table()
        case 3:
            world.restart()
        case 4:
            world.check_statement(world.query_of(number, adhoc=True)[0], tally)
        case _:
            pass


def make_view(world: World, source: int, epoch: Epoch, tally: Tally) -> None:
    query, drawn = world.query_of(source)
    try:
        made = world.create(query, epoch, tally)
        if made is not None:
            world.drawn[made.name] = drawn
    except Difference as refused:
        pytest.fail(f"{refused}\n\n{smaller(world, drawn)}", pytrace=False)


def check(world: World, name: str, tally: Tally) -> None:
    try:
        world.check(name, tally)
    except Difference as wrong:
        pytest.fail(f"{wrong}\n\n{smaller(world, world.drawn[name])}", pytrace=False)


def smaller(world: World, drawn: list[int]) -> str:
    """The shortest query found that also fails when it is alone and its rows come at once."""

    def failure(candidate: Sequence[int]) -> str | None:
        query, _ = world.query_of(candidate)
        return world.try_alone(query)

    if failure(drawn) is None:
        return "Alone, with the rows in one insert, the view is right."
    best = reduce_choices(drawn, lambda candidate: failure(candidate) is not None, REDUCE_SECONDS)
    return f"Alone and smaller:\n{failure(best)}"
