"""However the rows come, every window of a view holds what its query answers over the rows of that window.

A world has random streams, tables and window views. Rows come in random pieces, in order and out of order, in time and
late; views are made while rows come; the database is closed and opened; views are read in between, and all of them at
the end. Which windows are complete, and which rows each has, is computed from all rows (window_model.py), and
PostgreSQL runs the query over them, window by window, with the tables as they were. A twin of each view is kept by
re-evaluation, subscribers get every window once and in order, and views over views count what they had.

    pytest tests/laws/test_windows.py -k world_3        runs one world again
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from view_world import Difference, Tally
from window_reduce import smaller
from window_world import Look, Restart, WindowWorld

from midstream.runtime import totals

REDUCE_SECONDS = 40.0


@pytest.fixture(scope="module")
def tally() -> Tally:
    return Tally()


@pytest.fixture
def play(
    database: Any, postgres_dsn: str, tmp_path: Path, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """Plays one world; the shared database keeps Spark up."""

    def run(seed: int, views: tuple[int, int], acts: int, kernel: str = "duckdb", scale: int = 1) -> None:
        if seed % 2 == 0:
            # Windows are made one from the other, which small ones are not by themselves.
            monkeypatch.setattr(totals, "FROM_ROWS", 0)
        world = WindowWorld(seed, str(tmp_path / "world.db"), postgres_dsn, kernel, scale)
        try:
            play_world(world, seed, views, acts, tally)
        finally:
            world.close()

    return run


@pytest.mark.parametrize("seed", range(1), ids=lambda seed: f"world_{seed}")
def test_every_window_holds_what_its_query_answers(seed: int, play: Callable[..., None]) -> None:
    play(seed, (2, 1), 5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 130), ids=lambda seed: f"world_{seed}")
def test_every_window_of_many_views_is_right(seed: int, play: Callable[..., None]) -> None:
    play(seed, (7, 3), 12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(200, 204), ids=lambda seed: f"world_{seed}")
def test_every_window_is_right_on_the_spark_kernel(seed: int, play: Callable[..., None]) -> None:
    play(seed, (2, 1), 4, kernel="spark")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(300, 308), ids=lambda seed: f"world_{seed}")
def test_every_large_window_is_right(seed: int, play: Callable[..., None]) -> None:
    play(seed, (2, 1), 3, scale=1000)


def test_hardly_a_view_is_refused_or_broken(tally: Tally, play: Callable[..., None]) -> None:
    """Counted over the views above, or over a world of its own when this runs alone."""
    if not tally.views:
        play(0, (2, 1), 5)
    assert len(tally.refused) <= 0.05 * tally.views, tally.refused
    assert tally.broken <= 0.1 * tally.reads, "the generator makes too many queries that fail everywhere"


def play_world(world: WindowWorld, seed: int, views: tuple[int, int], acts: int, tally: Tally) -> None:
    sources = iter(range(seed * 10_000, seed * 10_000 + 1000))
    for _ in range(views[0]):
        make_view(world, next(sources), tally)
    for act in range(acts):
        if act == acts // 2:
            for _ in range(views[1]):
                make_view(world, next(sources), tally)
        act_once(world, tally)
    if world.choices.chance(2):
        world.act(Restart())
    for name in list(world.views):
        check(world, name, tally)
    world.check_late()


def act_once(world: WindowWorld, tally: Tally) -> None:
    """Rows come; then perhaps something else happens."""
    counts = [1, 2, 7, 20, 40] if world.scale == 1 else [1, 300, 21_000]
    for _ in range(world.choices.pick([1, 1, 3])):
        world.act(world.random_insert(world.choices.pick(counts)))
    match world.choices.draw(9):
        case 0 | 1 if world.views:
            check(world, world.choices.pick(list(world.views)), tally)
        case 2:
            world.act(Look())
        case 3:
            world.act(Restart())
        case 4:
            world.act(world.random_change())
        case 5:
            world.act(world.random_wait())
        case 6:
            world.act(world.random_together(world.choices.pick([1, 5])))
        case _:
            pass


def make_view(world: WindowWorld, source: int, tally: Tally) -> None:
    view, _ = world.view_of(source)
    try:
        world.create(view, tally, retain=world.choices.pick([100_000, 100_000, None, 3]))
        if world.scale == 1 and world.choices.chance(4):
            world.create(world.sibling_of(view), tally)
    except Difference as refused:
        pytest.fail(str(refused), pytrace=False)


def check(world: WindowWorld, name: str, tally: Tally) -> None:
    try:
        world.check(name, tally)
    except Difference as wrong:
        pytest.fail(f"{wrong}\n\n{smaller(world, world.views[name], REDUCE_SECONDS)}", pytrace=False)
