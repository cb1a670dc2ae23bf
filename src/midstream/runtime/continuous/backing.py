"""What is kept beside a query, so that a change costs what it touches: sums of groups, or rows that frames may reach.

Beside a change of the answer goes a piece of the same job that writes what the change adds: one file more, together
with the last files as long as these are small, so that there are few files and each row is seldom written again. The
log names the files, and is written together with what they belong to.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from midstream.kernels import Kernel
from midstream.maintenance.engine import Answer, Piece, WriteParquet
from midstream.plan import BoundQuery
from midstream.plan.difference import NEWER, BackingPlan
from midstream.runtime.continuous.computing import Plans, database_setting
from midstream.runtime.continuous.log import Backing
from midstream.runtime.pipelines import kept_files
from midstream.runtime.query import prepare
from midstream.runtime.reading import Between, Picture
from midstream.runtime.settings import DEFAULTS
from midstream.runtime.states import KeptFile
from midstream.runtime.store import Store
from midstream.runtime.transaction import Glimpse

WORTH = 100_000
"""Tables of so many rows are worth it; what was in smaller ones is as soon read."""
FEW = 10_000
"""So many rows are written again without a thought."""


@dataclass(frozen=True)
class Fold:
    """What a change does to what is kept of a query: what runs for it, and what there is then."""

    to: Backing | None
    """What there is then, but for the file that is to be written."""
    kernel: Kernel = "duckdb"
    piece: Piece | None = None
    gone: tuple[KeptFile, ...] = ()

    def after(self, store: Store, answer: Answer | None) -> Backing | None:
        if answer is None or self.to is None:
            return self.to
        return replace(self.to, files=(*self.to.files, *kept_files(store, [answer], self.to.at)))


def readable(plans: Plans, between: Between, backing: Backing | None) -> Backing | None:
    """What is kept, if it is of the query just before a change."""
    if backing is None or database_setting(plans.store, "preimage") not in ("auto", "kept"):
        return None
    plan = _plan(plans, between)
    if plan is None or plan.identity != backing.of or backing.at > between.before.scn:
        return None
    tables, catalog = plans.tables(between.state), plans.store.catalog
    return None if any(catalog.changes(table.id, backing.at, between.before.scn) for table in tables) else backing


def before(plans: Plans, between: Between, backing: Backing | None, folder: str) -> Backing | None:
    """What is kept of the query just before a change. What frames need is made where it is not there, once, from the
    tables as they were, so that not even the first change is computed from all rows twice."""
    known = readable(plans, between, backing)
    if known is not None or not plans.keeps_frames(between.state):
        return known
    (changed, are_same), store = plans.changed(between), plans.store
    plan = plans.backing(between.state, changed, are_same)
    if plan is None or not changed or not are_same or not _is_wanted(plans, plan, between):
        return None
    os.makedirs(folder, exist_ok=True)
    to = Backing(plan.identity, between.before.scn, ())
    making = _planned(plans, Glimpse(between.before), plan, plan.whole, to, (), folder)
    assert making.piece is not None
    [answer] = store.engine.run(making.kernel, [making.piece], label="rows that frames reach")
    return making.after(store, answer)


def fold(
    plans: Plans, between: Between, backing: Backing | None, folder: str, old: Backing | None = None
) -> Fold | None:
    """What a change does to what is kept, or is worth keeping from now on, in place of something older.
    None: nothing is kept."""
    found = _fold(plans, between, backing, folder)
    if old is None or old is backing:
        return found
    return replace(found, gone=(*found.gone, *old.files)) if found is not None else Fold(None, gone=old.files)


def _fold(plans: Plans, between: Between, backing: Backing | None, folder: str) -> Fold | None:
    plan = _plan(plans, between)
    if plan is None or not _is_wanted(plans, plan, between):
        return Fold(None, gone=backing.files) if backing is not None else None
    os.makedirs(folder, exist_ok=True)
    known, scn = readable(plans, between, backing), between.state.scn
    if known is None:
        gone = backing.files if backing is not None else ()
        return _planned(plans, Glimpse(between.state), plan, plan.whole, Backing(plan.identity, scn, ()), gone, folder)
    if plan.fold is None:
        return Fold(replace(known, at=scn))
    stay, newer = _parted(known.files, _rows_changed(plans, between)) if plan.counts is not None else ((), known.files)
    picture = replace(between, kept={NEWER: newer})
    return _planned(plans, picture, plan, plan.fold, Backing(plan.identity, scn, stay), newer, folder)


def _plan(plans: Plans, between: Between) -> BackingPlan | None:
    if not plans.can_be_backed(between.state):
        return None
    return plans.backing(between.state, *plans.changed(between))


def _planned(
    plans: Plans,
    picture: Picture,
    plan: BackingPlan,
    bound: BoundQuery,
    to: Backing,
    gone: tuple[KeptFile, ...],
    folder: str,
) -> Fold:
    choice, sources = prepare(plans.store, picture, bound, {**DEFAULTS, "kernel": plans.query.kernel})
    text = bound.sql(choice.kernel)
    if plan.counts is not None and not to.files:
        # All that there is: a group without rows is none.
        text = f"SELECT * FROM ({text}) AS sums WHERE {plan.counts} <> 0"
    return Fold(to, choice.kernel, sources.piece(text, WriteParquet(folder, plan.columns, compressed=False)), gone)


def _is_wanted(plans: Plans, plan: BackingPlan, between: Between) -> bool:
    """Rows that frames may reach are few, and frames from the first row on reach all; sums of groups are many, and what
    they save are the rows of some."""
    wanted = database_setting(plans.store, "preimage")
    if wanted != "auto" or plan.what != "groups":
        return wanted in ("auto", "kept")
    versions = between.state.versions
    files = (plans.store.folder(table.id).files(versions[table.id]) for table in plans.tables(between.state))
    return sum(file.rows for own in files for file in own) >= WORTH


def _rows_changed(plans: Plans, between: Between) -> int:
    tables = plans.tables(between.state)
    return sum(file.rows for table in tables for file in plans.store.catalog.changes(table.id, *between.range))


def _parted(files: Sequence[KeptFile], rows: int) -> tuple[tuple[KeptFile, ...], tuple[KeptFile, ...]]:
    """The files that stay, and the newest ones, which become one with a change of so many rows: each file that stays is
    larger than all that come after it."""
    stay = list(files)
    while stay and stay[-1].rows <= max(2 * rows, FEW):
        rows += stay.pop().rows
    return tuple(stay), tuple(files[len(stay) :])
