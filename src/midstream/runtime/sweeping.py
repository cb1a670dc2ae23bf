"""Groups that no later read can ask for leave a state also where nothing is merged: an old week in one large file, say.

A file of partials may lose such rows without a merge, since no other file is needed to tell them. The work is bounded:
a file is looked at when the moment has moved on, is written again only if much of it is dead, so that a row that goes
pays for few that stay, and is read in slices, between which whoever waits for an answer goes first.

    3 files of 1,000,000 rows, of which 900,000, 100,000 and 0 are dead: the first one is written again, as 100,000 rows
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow.parquet as pq

from midstream.kernels import Kernel, quote_name
from midstream.log.files import disk_errors
from midstream.maintenance.engine import Input, Piece, WriteParquet
from midstream.runtime.states import KeptFile, State, as_input

FEW_ROWS = 50_000
"""A state of fewer rows is left alone: it waits for a merge, and is read at once."""
MUCH = 4
"""A file is written again if a quarter of its rows is dead."""
SLICE_ROWS = 1_000_000

Groups = tuple[int, ...] | None
"""Row groups of a file; None: all."""


@dataclass
class Looks:
    """As of which moment each file was last looked at, told by the condition on what was dead then."""

    _seen: weakref.WeakKeyDictionary[KeptFile, str] = field(default_factory=weakref.WeakKeyDictionary)

    def note(self, files: Sequence[KeptFile], dead: str | None) -> None:
        for file in files:
            if dead is not None:
                self._seen[file] = dead

    def due(self, state: State, dead: str) -> list[KeptFile]:
        """Files in which more may be dead than at the last look."""
        if state.rows < FEW_ROWS:
            return []
        return [file for file in state.files if self._seen.get(file) != dead]


def counting_piece(state: State, file: KeptFile, dead: str) -> Piece:
    """How many rows of a file are dead."""
    return _piece(state, file, None, "count(*) AS dead", dead)


def is_worth_it(file: KeptFile, dead_rows: int) -> bool:
    return dead_rows * MUCH >= file.rows


def living_pieces(state: State, file: KeptFile, dead: str) -> Iterator[Piece]:
    """What is not dead of a file, slice by slice. The files that come of it are of the same run."""
    output = WriteParquet(state.folder, state.program.columns)
    for groups in _slices(file):
        yield _piece(state, file, groups, _columns(state), f"NOT ({dead})", output)


def _slices(file: KeptFile) -> list[Groups]:
    """A file of one batch stays one file: several would seem to be of several batches."""
    if file.level == 0 or file.rows <= SLICE_ROWS:
        return [None]
    found: list[list[int]] = [[]]
    rows = 0
    with disk_errors("partials could not be read"):
        footer = pq.read_metadata(file.path)
    for number in range(footer.num_row_groups):
        if rows >= SLICE_ROWS:
            found.append([])
            rows = 0
        found[-1].append(number)
        rows += footer.row_group(number).num_rows
    return [tuple(groups) for groups in found]


def _columns(state: State) -> str:
    kernel = state.program.kernel
    return ", ".join(quote_name(name, kernel) for name, _ in state.program.columns)


def _piece(
    state: State, file: KeptFile, groups: Groups, listed: str, where: str, output: WriteParquet | None = None
) -> Piece:
    kernel: Kernel = state.program.kernel
    source = as_input([file], state.program.columns, None if groups is None else (groups,))
    inputs: dict[str, Input] = {"partials": source}
    text = f"SELECT {listed} FROM {quote_name('partials', kernel)} AS {quote_name('state', kernel)} WHERE {where}"
    return Piece(text, inputs, output=output)
