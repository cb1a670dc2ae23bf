"""What a window view has handed out: its last results, and which window comes next.

The log of a view is one text in the catalog, written when results are on the disk: killed before that, the same windows
are computed again, from basic windows that go only once they are behind the next window.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from midstream.relations.view import ContinuousView
from midstream.runtime.pairs import Pairs
from midstream.runtime.states import KeptFile
from midstream.runtime.totals import Total

KEPT_WINDOWS = 100


@dataclass(frozen=True)
class WindowResult:
    number: int
    rows: int
    scn: int
    """All that it was computed with was there. Results that were computed later have a later one."""
    at: float
    end: int
    files: tuple[KeptFile, ...]
    """Shared with windows that were computed at the same time; none: it has no rows. Spark writes several."""
    key: tuple[str, ...] = ()
    """Whose session it was."""
    place: int | None = None
    """How many rows the views over this one have been handed with it; None: there was none."""


@dataclass
class WindowLog:
    next: int | None = None
    """The number of the window that is computed next; None: none has begun."""
    results: list[WindowResult] = field(default_factory=list)
    firsts: dict[int, int] = field(default_factory=dict)
    """For each window of the view, the first basic window that rows came to."""
    handed_out: int = 0
    """How many windows there have been."""
    looked: int | None = None
    """Sessions that had ended by this time have been handed out,"""
    more: int = 0
    """and so many that ended after it."""
    horizon: int | None = None
    """No session that is still open has begun before."""
    pairs: dict[str, Pairs] = field(default_factory=dict)
    """What is kept of pairs of windows, by pipeline."""
    totals: dict[str, Total] = field(default_factory=dict)
    """What the groups of the last window come to, by pipeline, where the next is made from it."""
    gone: int = 0
    """The SCN of the newest result that is no longer kept."""

    @property
    def files(self) -> list[KeptFile]:
        results = files_of(self.results)
        pairs = [file for pairs in self.pairs.values() for file in pairs.files]
        return [*results, *pairs, *(total.file for total in self.totals.values() if total.file is not None)]

    def with_results(
        self, results: Sequence[WindowResult], pairs: Mapping[str, Pairs], totals: Mapping[str, Total]
    ) -> WindowLog:
        return replace(
            self,
            results=[*self.results, *results],
            handed_out=self.handed_out + len(results),
            more=self.more + len(results),
            next=results[-1].number + 1,
            pairs={**self.pairs, **pairs},
            totals=dict(totals),
        )

    def become(self, other: WindowLog) -> None:
        """Takes over what has been written down."""
        self.__dict__.update(other.__dict__)

    def kept(self, view: ContinuousView) -> list[WindowResult]:
        """The results that are to be had now: the last ones, or those of the last while and the newest."""
        if view.retain_seconds is None:
            return self.results[-(view.retain_windows or KEPT_WINDOWS) :]
        oldest = time.time() - view.retain_seconds
        return [result for result in self.results[:-1] if result.at >= oldest] + self.results[-1:]

    @property
    def dropped(self) -> int:
        """How many results are no longer kept."""
        return self.handed_out - len(self.results)

    @property
    def last_scn(self) -> int:
        """The SCN of the newest result that there has been."""
        return max([self.gone, *(result.scn for result in self.results[-1:])])

    def trim(self, view: ContinuousView) -> list[WindowResult]:
        """Forgets results that are not to be kept, and tells which."""
        kept = self.kept(view)
        dropped = self.results[: len(self.results) - len(kept)]
        self.results, self.gone = kept, max((result.scn for result in dropped), default=self.gone)
        return dropped

    def unneeded(self, dropped: Sequence[WindowResult]) -> list[KeptFile]:
        """The files of results that were forgotten, but for those that have others, too."""
        left = set(map(id, files_of(self.results)))
        return [file for file in files_of(dropped) if id(file) not in left]

    def written(self) -> str:
        names = {id(file): os.path.basename(file.path) for file in files_of(self.results)}
        return json.dumps(
            {
                "next": self.next,
                "firsts": self.firsts,
                "handed_out": self.handed_out,
                "looked": self.looked,
                "more": self.more,
                "horizon": self.horizon,
                "gone": self.gone,
                "pairs": {name: [p.done, [file.written() for file in p.files]] for name, p in self.pairs.items()},
                "totals": {
                    name: [total.number, total.file.written() if total.file is not None else None]
                    for name, total in self.totals.items()
                },
                "files": {names[id(file)]: file.written() for file in files_of(self.results)},
                "results": [
                    [
                        *(r.number, r.rows, r.scn, r.at, r.end),
                        [names[id(file)] for file in r.files],
                        *(list(r.key), r.place),
                    ]
                    for r in self.results
                ],
            }
        )

    @classmethod
    def read(cls, text: str, folder: str) -> WindowLog:
        value = json.loads(text)
        files: Mapping[str, KeptFile] = {
            name: KeptFile(f"{folder}/{name}", *written[1:]) for name, written in value["files"].items()
        }
        results = [
            WindowResult(number, rows, scn, at, end, tuple(files[name] for name in _names(names)), tuple(key), place)
            for number, rows, scn, at, end, names, key, place in value["results"]
        ]
        firsts = {int(index): slot for index, slot in value["firsts"].items()}
        return cls(
            value["next"],
            results,
            firsts,
            value["handed_out"],
            value["looked"],
            value["more"],
            value["horizon"],
            {
                name: Pairs(done, [KeptFile(f"{folder}/{file}", *rest) for file, *rest in written])
                for name, (done, written) in value["pairs"].items()
            },
            {
                name: Total(number, KeptFile(f"{folder}/{file[0]}", *file[1:]) if file is not None else None)
                for name, (number, file) in value.get("totals", {}).items()
            },
            value.get("gone", 0),
        )


def _names(written: list[str] | str | None) -> Sequence[str]:
    """A log that was written when results had at most one file has its name."""
    return [written] if isinstance(written, str) else written or []


def files_of(results: Sequence[WindowResult]) -> list[KeptFile]:
    """Each file once."""
    return list({id(file): file for result in results for file in result.files}.values())
