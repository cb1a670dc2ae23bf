"""Partials are merged in the background, so that reads have little to merge themselves.

Nothing depends on it but speed: the upper query of a view merges whatever files there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from midstream.errors import Error
from midstream.maintenance.engine import Cancellation, Input, Piece, WriteParquet
from midstream.plan.cut import Program, ViewPlan
from midstream.plan.cut.programs import dead_rows
from midstream.relations.view import ContinuousView
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.states import KeptFile, State, as_input
from midstream.runtime.store import Store
from midstream.runtime.summaries import dead_slots
from midstream.runtime.sweeping import Looks, counting_piece, is_worth_it, living_pieces

if TYPE_CHECKING:
    from midstream.runtime.windows import Windows

MANY_ROWS = 1_000_000
"""A merge of more is shared among tasks, by the hash of the keys."""
PATIENCE = 1.0
"""So many seconds a merge lets those go first who wait for an answer."""
QUIET = 0.2
"""So long nobody must have waited: who has just inserted may be about to ask."""


@dataclass(frozen=True)
class Merges:
    """What the merges of a pipeline have cost since the database was opened."""

    jobs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0

    def plus(self, rows_in: int, rows_out: int, seconds: float) -> Merges:
        return Merges(self.jobs + 1, self.rows_in + rows_in, self.rows_out + rows_out, self.seconds + seconds)


class Merger:
    def __init__(
        self,
        store: Store,
        plan: Callable[[ContinuousView], ViewPlan],
        windows: Windows,
        is_read: Callable[[State], bool],
        readers: Callable[[], Sequence[PipelineReader]],
    ) -> None:
        self._store = store
        self._plan = plan
        self._windows = windows
        self._is_read = is_read
        self._readers = readers
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="midstream-merge")
        self._merging: dict[int, Cancellation] = {}
        """By reader, what stops the merge of its partials."""
        self.spent: dict[int, Merges] = {}
        """By reader."""
        self.now: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
        self._looks = Looks()
        self._is_sweeping = False
        self._cancellation = Cancellation()

    def close(self) -> None:
        self._cancellation.cancel()
        with self._lock:
            merging = list(self._merging.values())
        for stop in merging:
            stop.cancel()
        self._pool.shutdown(wait=True)

    def wait(self) -> None:
        """Returns when what was begun is done."""
        self._pool.submit(lambda: None).result()

    def grown(self, reader: PipelineReader) -> None:
        """A pipeline has one file more."""
        with self._lock:
            is_read = self._is_read(reader.state)
            if reader.id in self._merging or not reader.state.crowded((), idle=True, is_read=is_read):
                return
            stop = self._merging[reader.id] = Cancellation()
        try:
            self._pool.submit(self._merge_all, reader, stop)
        except RuntimeError:
            # The database is being closed.
            self._merging.pop(reader.id, None)

    def sweep(self) -> None:
        """Lets what is dead by now go from states that nothing else makes smaller."""
        with self._lock:
            if self._is_sweeping:
                return
            self._is_sweeping = True
        try:
            self._pool.submit(self._sweep_all)
        except RuntimeError:
            # The database is being closed.
            self._is_sweeping = False

    def _sweep_all(self) -> None:
        try:
            for reader in self._readers():
                # One that is dropped just now, say: whatever fails is tried again the next time.
                with suppress(Error):
                    self._sweep(reader)
        finally:
            with self._lock:
                self._is_sweeping = False

    def _sweep(self, reader: PipelineReader) -> None:
        """Files of which much is dead are written again, one after the other, while the reader has nothing to do.
        What windows no longer need goes when they are merged, which their rows bring about."""
        state, program = reader.state, reader.state.program
        dead = self._dead(state) if program.slot_key is None else None
        due = self._looks.due(state, dead) if dead is not None else []
        if dead is None or not due or not self._may_sweep(reader):
            return
        pieces = [counting_piece(state, file, dead) for file in due]
        found = self._store.engine.run(
            program.kernel, pieces, label="count dead partials", cancellation=self._cancellation
        )
        for file, answer in zip(due, found, strict=True):
            assert answer.table is not None
            if not is_worth_it(file, int(answer.table.column(0)[0].as_py())):
                self._looks.note([file], dead)
            elif self._may_sweep(reader):
                self._looks.note(self._without(reader, file, dead), dead)

    def _may_sweep(self, reader: PipelineReader) -> bool:
        return not self._cancellation.requested and self._store.streams.is_idle(reader.id)

    def _without(self, reader: PipelineReader, file: KeptFile, dead: str) -> list[KeptFile]:
        """Writes a file again without what is dead."""
        state, started, new = reader.state, time.monotonic(), list[KeptFile]()
        try:
            for piece in living_pieces(state, file, dead):
                self._stand_back()
                run, stop = self._store.engine.run, self._cancellation
                answers = run(state.program.kernel, [piece], label="remove dead partials", cancellation=stop)
                new += kept_files(self._store, answers, file.upto, file.level)
        except Error:
            _doom(new)
            raise
        self._note(reader, [file], new, started)
        return new if self._swap(reader, [file], new) else []

    def _swap(self, reader: PipelineReader, old: Sequence[KeptFile], new: Sequence[KeptFile]) -> bool:
        """Puts files in the place of others; not if somebody came meanwhile who wants the state as of an SCN between,
        or if the pipeline is gone."""
        streams, state = self._store.streams, reader.state
        gone, is_swapped = {id(file) for file in old}, False
        before = max((file.upto for file in old), default=0)

        def swapped() -> str:
            nonlocal is_swapped
            between = len({file.upto for file in old}) > 1 and any(before > cut for cut in streams.cuts)
            if not between and gone <= {id(file) for file in state.files}:
                place = next(number for number, file in enumerate(state.files) if id(file) in gone)
                left = [file for file in state.files if id(file) not in gone]
                state.files = [*left[:place], *new, *left[place:]]
                is_swapped = True
            return state.written()

        streams.rewrite(reader.id, swapped)
        _doom(old if is_swapped else new)
        return is_swapped

    def _note(self, reader: PipelineReader, old: Sequence[KeptFile], new: Sequence[KeptFile], started: float) -> None:
        before, after = (sum(file.rows for file in files) for files in (old, new))
        with self._lock:
            known = self.spent.get(reader.id, Merges())
            self.spent[reader.id] = known.plus(before, after, time.monotonic() - started)

    def forget(self, reader_id: int) -> None:
        """A pipeline is gone: what is being merged of it is of no use."""
        with self._lock:
            self.spent.pop(reader_id, None)
            stop = self._merging.get(reader_id)
        if stop is not None:
            stop.cancel()

    def _merge_all(self, reader: PipelineReader, stop: Cancellation) -> None:
        try:
            self._stand_back()
            while not (self._cancellation.requested or stop.requested) and self._merge(reader, stop):
                self._stand_back()
        except Error:
            # It is tried again when the next file comes; nothing depends on it but speed.
            pass
        finally:
            with self._lock:
                self._merging.pop(reader.id, None)

    def _stand_back(self) -> None:
        """A reader who waits, or is about to, has the cores first, for a while."""
        last_seen = time.monotonic()
        end = last_seen + PATIENCE
        while not self._cancellation.raised.wait(0.02):
            now = time.monotonic()
            if self._store.streams.cuts:
                last_seen = now
            if now >= end or now - last_seen >= QUIET:
                return

    def _merge(self, reader: PipelineReader, stop: Cancellation) -> bool:
        """Many files of one level become one of the next; whether there were many."""
        streams, state = self._store.streams, reader.state
        old = state.crowded(streams.cuts, idle=streams.is_idle(reader.id), is_read=self._is_read(state))
        if not old:
            return False
        dead = self._dead(state)
        pieces = self._merge_pieces(state, old, dead)
        run, kernel, started = self._store.engine.run, state.program.kernel, time.monotonic()
        answers = run(kernel, pieces, label="merge partials", cancellation=stop)
        upto, level = max(file.upto for file in old), max(file.level for file in old) + 1
        new = kept_files(self._store, answers, upto, level)
        self._looks.note(new, dead)
        self._note(reader, old, new, started)
        return self._swap(reader, old, new)

    def _merge_pieces(self, state: State, old: Sequence[KeptFile], dead: str | None) -> list[Piece]:
        program = state.program
        output = WriteParquet(state.folder, program.columns)
        keys = [key for key in program.keys if key != program.slot_key]
        parts = self._store.engine.cores if sum(file.rows for file in old) > MANY_ROWS and keys else 1
        pieces = []
        for part in range(parts):
            name, conditions = program.merge_scan, []
            if dead is not None:
                conditions.append(f"NOT ({dead})")
            if parts > 1:
                conditions.append(_share_of_keys(keys, part, parts, program.kernel))
            inputs: dict[str, Input] = {f"{name}_all": as_input(old, program.columns)}
            where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
            quote = '"' if program.kernel == "duckdb" else "`"
            listed = self._collapsed(state, quote) or "*"
            view = f"SELECT {listed} FROM {quote}{name}_all{quote} AS {quote}state{quote}{where}"
            pieces.append(Piece(_by_slot(program), inputs, ((name, view),), output))
        return pieces

    def _collapsed(self, state: State, quote: str) -> str | None:
        """The columns of partials of a landmark: basic windows that are never told apart again become one."""
        key, members = state.program.slot_key, self._members(state)
        if key is None or len(members) < len(state.views):
            return None
        plans = [(view, self._plan(view)) for view in members]
        found = [self._windows.collapsed(view, plan, state.program) if plan.windows else None for view, plan in plans]
        known = [one for one in found if one is not None]
        if not known or len(known) < len(found):
            return None
        before, reset = min(before for before, _ in known), known[0][1]
        slot = f"{quote}{key}{quote}"
        first = (
            f"CAST({before - 1} AS BIGINT)" if reset is None else f"({slot} - (({slot} % {reset}) + {reset}) % {reset})"
        )
        value = f"CASE WHEN {slot} < {before} THEN {first} ELSE {slot} END AS {slot}"
        names = [name for name, _ in state.program.columns]
        return ", ".join(value if name == key else f"{quote}{name}{quote}" for name in names)

    def _members(self, state: State) -> list[ContinuousView]:
        relations = self._store.catalog.state.relations.values()
        return [view for view in relations if isinstance(view, ContinuousView) and view.id in state.views]

    def _dead(self, state: State) -> str | None:
        members = self._members(state)
        if len(members) < len(state.views):
            return None
        found: list[str] = []
        for view in members:
            plan = self._plan(view)
            pipelines = [p for p in plan.pipelines if p.name == state.program.name]
            words = plan.words(self.now(), 0)
            if plan.windows:
                needed = self._windows.needed(view, plan)
                if needed is None:
                    return None
                words |= needed
            dead = dead_rows(pipelines, words, state.program.kernel) if pipelines else None
            if plan.windows and not plan.times and state.program.slot_key is not None:
                first = self._windows.first_needed(view, plan, state.program)
                quote = '"' if state.program.kernel == "duckdb" else "`"
                dead = dead_slots(f"{quote}state{quote}.{quote}{state.program.slot_key}{quote}", first)
            if dead is None:
                return None
            found.append(f"coalesce({dead}, false)")
        return " AND ".join(dict.fromkeys(found)) or None


def _by_slot(program: Program) -> str:
    """What merges, with basic windows in order: who looks for some of them skips all other row groups."""
    if program.slot_key is None or program.kernel != "duckdb":
        return program.merge
    return f'SELECT * FROM ({program.merge}) AS merged ORDER BY "{program.slot_key}"'


def _doom(files: Sequence[KeptFile]) -> None:
    for file in files:
        file.doom()


def _share_of_keys(keys: Sequence[str], part: int, parts: int, kernel: str) -> str:
    if kernel == "duckdb":
        listed = ", ".join('"state"."' + key + '"' for key in keys)
        return f"hash({listed}) % {parts} = {part}"
    listed = ", ".join(f"`state`.`{key}`" for key in keys)
    return f"pmod(xxhash64({listed}), {parts}) = {part}"
