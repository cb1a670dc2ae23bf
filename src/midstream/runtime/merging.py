"""Partials are merged in the background, so that reads have little to merge themselves.

Nothing depends on it but speed: the upper query of a view merges whatever files there are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from midstream.errors import Error
from midstream.maintenance.engine import Cancellation, Input, Piece, WriteParquet
from midstream.plan.cut import ViewPlan
from midstream.plan.cut.programs import dead_rows
from midstream.relations.view import ContinuousView
from midstream.runtime.pipelines import PipelineReader, kept_files
from midstream.runtime.states import KeptFile, State, as_input
from midstream.runtime.store import Store
from midstream.runtime.summaries import dead_slots

if TYPE_CHECKING:
    from midstream.runtime.windows import Windows

MANY_ROWS = 1_000_000
"""A merge of more is shared among tasks, by the hash of the keys."""
PATIENCE = 1.0
"""So many seconds a merge lets those go first who wait for an answer."""


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
    ) -> None:
        self._store = store
        self._plan = plan
        self._windows = windows
        self._is_read = is_read
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="midstream-merge")
        self._merging: set[int] = set()
        self.spent: dict[int, Merges] = {}
        """By reader."""
        self._cancellation = Cancellation()

    def close(self) -> None:
        self._cancellation.cancel()
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
            self._merging.add(reader.id)
        try:
            self._pool.submit(self._merge_all, reader)
        except RuntimeError:
            # The database is being closed.
            self._merging.discard(reader.id)

    def _merge_all(self, reader: PipelineReader) -> None:
        try:
            self._stand_back()
            while not self._cancellation.requested and self._merge(reader):
                self._stand_back()
        except Error:
            # It is tried again when the next file comes; nothing depends on it but speed.
            pass
        finally:
            with self._lock:
                self._merging.discard(reader.id)

    def _stand_back(self) -> None:
        """A reader who waits has the cores first, for a while."""
        end = time.monotonic() + PATIENCE
        while self._store.streams.cuts and time.monotonic() < end and not self._cancellation.raised.wait(0.02):
            pass

    def _merge(self, reader: PipelineReader) -> bool:
        """Many files of one level become one of the next; whether there were many."""
        streams, state = self._store.streams, reader.state
        old = state.crowded(streams.cuts, idle=streams.is_idle(reader.id), is_read=self._is_read(state))
        if not old:
            return False
        pieces = self._merge_pieces(state, old)
        run, kernel, started = self._store.engine.run, state.program.kernel, time.monotonic()
        answers = run(kernel, pieces, label="merge partials", cancellation=self._cancellation)
        upto, level = max(file.upto for file in old), max(file.level for file in old) + 1
        new = kept_files(self._store, answers, upto, level)
        gone = {id(file) for file in old}
        rows_in, rows_out = (sum(file.rows for file in files) for files in (old, new))
        self.spent[reader.id] = self.spent.get(reader.id, Merges()).plus(rows_in, rows_out, time.monotonic() - started)

        def merged() -> str:
            if any(file.upto > cut for cut in streams.cuts for file in new):
                # Somebody came meanwhile who wants the state as of an SCN between.
                for file in new:
                    file.doom()
                return state.written()
            state.files = [*new, *(file for file in state.files if id(file) not in gone)]
            for file in old:
                file.doom()
            return state.written()

        return streams.rewrite(reader.id, merged) and new[0] in state.files if new else False

    def _merge_pieces(self, state: State, old: Sequence[KeptFile]) -> list[Piece]:
        program = state.program
        output = WriteParquet(state.folder, program.columns)
        dead = self._dead(state)
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
            pieces.append(Piece(program.merge, inputs, ((name, view),), output))
        return pieces

    def _collapsed(self, state: State, quote: str) -> str | None:
        """The columns of partials of a landmark: basic windows that are never told apart again become one."""
        key, members = state.program.slot_key, self._members(state)
        if key is None or len(members) < len(state.views):
            return None
        plans = [(view, self._plan(view)) for view in members]
        found = {self._windows.collapsed(view, plan) if plan.windows else None for view, plan in plans}
        if len(found) != 1 or (only := found.pop()) is None:
            return None
        before, reset = only
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
            words = plan.words(datetime.now(timezone.utc), 0)
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


def _share_of_keys(keys: Sequence[str], part: int, parts: int, kernel: str) -> str:
    if kernel == "duckdb":
        listed = ", ".join('"state"."' + key + '"' for key in keys)
        return f"hash({listed}) % {parts} = {part}"
    listed = ", ".join(f"`state`.`{key}`" for key in keys)
    return f"pmod(xxhash64({listed}), {parts}) = {part}"
