"""The least that makes a window view fail: fewer rows, fewer inserts, the view alone in a database."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from choices import reduce_choices
from view_world import Difference, Tally
from window_world import Act, Insert, Made, WindowWorld

_folders = itertools.count()


def smaller(world: WindowWorld, made: Made, seconds: float) -> str:
    """What happens to the view alone, told shortly."""
    atoms = [None, *_atoms(world.acts, made)]

    def failure(numbers: Sequence[int]) -> str | None:
        return _try_alone(world, made, list(_put_together(world.acts, [atoms[n] for n in numbers])))

    everything = list(range(1, len(atoms)))
    if failure(everything) is None:
        return "Alone, the view is right."
    best = reduce_choices(everything, lambda numbers: failure(numbers) is not None, seconds)
    acts = _put_together(world.acts, [atoms[n] for n in best])
    told = [f"CREATE VIEW v AS {world.ours(made.view)}" if act is None else act.sql for act in acts]
    return "Alone and smaller:\n" + ";\n".join(told) + f"\n{failure(best)}"


def _atoms(acts: Sequence[Act], made: Made) -> Iterator[tuple[int, int]]:
    """The rows of inserts, and other acts, as the number of the act and of the row; the view itself is act -1."""
    for number, act in enumerate(acts):
        if number == made.at:
            yield -1, 0
        yield from ((number, row) for row in range(len(act.rows) if isinstance(act, Insert) else 1))


def _put_together(acts: Sequence[Act], atoms: Sequence[tuple[int, int] | None]) -> Iterator[Act | None]:
    """Acts again; None is where the view is made."""
    known = [atom for atom in atoms if atom is not None]
    if not any(number == -1 for number, _ in known):
        known.insert(0, (-1, 0))
    for number, group in itertools.groupby(known, key=lambda atom: atom[0]):
        act = acts[number] if number >= 0 else None
        if isinstance(act, Insert):
            rows = [row for _, row in group]
            yield Insert(act.stream, tuple(act.rows[n] for n in rows), tuple(act.times[n] for n in rows))
        else:
            yield act


def _try_alone(world: WindowWorld, made: Made, acts: Sequence[Act | None]) -> str | None:
    folder = f"{world.folder}.alone_{next(_folders)}"
    alone = WindowWorld(world.seed, folder, world.dsn, world.kernel, world.scale)
    try:
        for act in acts:
            if act is None:
                alone.create(made.view, Tally(), retain=made.retain, twin=made.twin is not None)
            else:
                alone.act(act)
        alone.check("v0", Tally())
    except Difference as wrong:
        return str(wrong)
    finally:
        alone.close()
    return None
