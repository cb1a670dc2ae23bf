"""Joins of two windows: what pairs of rows come to is kept by the older of the two basic windows of a pair.

When basic windows are complete, only the pairs are computed that they bring: the new ones of one side with all of the
other, and the old ones of the first with the new ones of the second. A pair leaves with its older basic window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from midstream.maintenance.engine import Piece, WriteParquet
from midstream.plan import Scan
from midstream.plan.cut import Program
from midstream.plan.cut.programs import NEWER, PairProgram
from midstream.runtime.states import KeptFile

MANY_FILES = 8
"""So many files of pairs are merged into one."""


@dataclass
class Pairs:
    """What is kept of the pairs of one view."""

    done: int | None = None
    """Pairs of basic windows before this one are in the files."""
    files: list[KeptFile] = field(default_factory=list)


NO_PAIRS = Pairs()


@dataclass(frozen=True)
class NewPairs:
    """The pairs that basic windows up to `last` bring, as a query over the rows of both sides."""

    program: Program
    kept: Pairs
    first: int
    last: int
    scans: tuple[Scan, ...]
    text: str

    @property
    def view(self) -> tuple[str, str]:
        """The pairs, with the newer basic window of each beside."""
        return self.new_name, self.text

    @property
    def kept_name(self) -> str:
        return f"{self.program.name}_kept"

    @property
    def new_name(self) -> str:
        return f"{self.program.name}_new"

    @property
    def once_name(self) -> str:
        """The same for the windows of one piece."""
        return f"{self.program.name}_once"

    @property
    def _names(self) -> str:
        return ", ".join(f'"{name}"' for name, _ in self.program.columns)

    def upto(self, last: int) -> str:
        """What a window has that ends with the basic window before `last`."""
        new = f'SELECT {self._names} FROM "{self.once_name}" WHERE "{NEWER}" < {last}'
        return f'SELECT {self._names} FROM "{self.kept_name}" UNION ALL {new}'

    def piece(self, inputs: Piece, folder: str) -> Piece:
        """Writes the new pairs, or, when there are many files, all that are still needed."""
        output = WriteParquet(folder, self.program.columns, compressed=False)
        new = f'SELECT {self._names} FROM "{self.new_name}"'
        if len(self.kept.files) < MANY_FILES:
            return replace(inputs, sql=new, output=output, along=True)
        every = f'SELECT {self._names} FROM "{self.kept_name}" UNION ALL {new}'
        needed = f'SELECT * FROM ({every}) AS pairs WHERE "{self.program.slot_key}" >= {self.first}'
        views = (*inputs.views, (self.program.merge_scan, needed))
        return replace(inputs, sql=self.program.merge, views=views, output=output, along=True)

    def after(self, files: Sequence[KeptFile]) -> tuple[Pairs, list[KeptFile]]:
        """What is kept then, and the files that are no longer needed."""
        if len(self.kept.files) < MANY_FILES:
            return Pairs(self.last, [*self.kept.files, *files]), []
        return Pairs(self.last, list(files)), self.kept.files


def new_pairs(paired: PairProgram, kept: Pairs, first: int, last: int) -> NewPairs:
    """`first` is the first basic window that the next window has, `last` the one behind the last that is complete."""
    done = max(kept.done if kept.done is not None else first, first)
    spans = [((done, last), (first, last)), ((first, done), (done, last))]
    texts = (f"SELECT * FROM ({paired.sql(*span)}) AS pairs" for span in spans)
    return NewPairs(paired.program, kept, first, last, paired.scans, " UNION ALL ".join(texts))
