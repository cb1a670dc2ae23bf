"""What the log must do, in plain Python: rows in the order of their SCNs, and readers that have each of them once.

    got(reader) = the rows of its stream with an SCN in (since, absorbed]        at every moment

Rows are kept while somebody reads their stream; of the others only the number counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

STREAMS = (7, 8)
Values = Mapping[int, Sequence[int]]
"""The rows of one insert by stream. No value comes twice."""


class Row(NamedTuple):
    scn: int
    position: int
    value: int


@dataclass
class Reader:
    """What a catalog knows of a reader: it outlives every crash."""

    stream_id: int
    since: int
    absorbed: int
    got: list[Row] = field(default_factory=list)


@dataclass
class Model:
    rows: dict[int, list[Row]] = field(default_factory=lambda: {stream_id: [] for stream_id in STREAMS})
    """All rows that were ever kept."""
    counted: dict[int, int] = field(default_factory=lambda: dict.fromkeys(STREAMS, 0))
    newest_scn: int = 0
    readers: dict[int, Reader] = field(default_factory=dict)
    in_doubt: Values | None = None
    """An insert whose client was not told how it ended: wholly there, or not at all."""

    def is_wanted(self, stream_id: int) -> bool:
        return any(reader.stream_id == stream_id for reader in self.readers.values())

    def acknowledge(self, scn: int, values: Values) -> None:
        assert scn > self.newest_scn, f"SCN {scn} after {self.newest_scn}"
        self.newest_scn = scn
        for stream_id, own in values.items():
            first = self.counted[stream_id]
            self.counted[stream_id] += len(own)
            if self.is_wanted(stream_id):
                self.rows[stream_id] += [Row(scn, first + number, value) for number, value in enumerate(own)]

    def is_needed(self, stream_id: int, scn: int) -> bool:
        return any(r.stream_id == stream_id and r.absorbed < scn for r in self.readers.values())

    def resolve(self, kept: Mapping[int, list[Row]]) -> None:
        """After a crash: what was in doubt is in the log, or it never happened."""
        doubted, self.in_doubt = self.in_doubt, None
        wanted = {s: list(values) for s, values in (doubted or {}).items() if values and self.is_wanted(s)}
        found = {s: [row for row in kept[s] if row.value in values] for s, values in wanted.items()}
        if not any(found.values()):
            return
        for stream_id, values in wanted.items():
            assert [row.value for row in found[stream_id]] == values, "half an insert"
            self.rows[stream_id] += found[stream_id]
            self.counted[stream_id] += len(values)
        assert len({row.scn for rows in found.values() for row in rows}) == 1, "an insert with two SCNs"
        self.newest_scn = max(self.newest_scn, *(row.scn for rows in found.values() for row in rows))

    def check_kept(self, kept: Mapping[int, list[Row]]) -> None:
        """The log holds the newest rows: all that some reader still needs, nothing else, nothing changed."""
        for stream_id, own in self.rows.items():
            assert kept[stream_id] == own[len(own) - len(kept[stream_id]) :], "the log holds other rows"
            missing = own[: len(own) - len(kept[stream_id])]
            assert not any(self.is_needed(stream_id, row.scn) for row in missing), "rows were cut that a reader needs"

    def check_standing(self, stream_id: int, rows: int, *, exactly: bool) -> None:
        """After a crash, rows that nobody reads may be forgotten; a position that a reader has seen is never."""
        seen = self.rows[stream_id][-1].position + 1 if self.rows[stream_id] else 0
        assert rows == self.counted[stream_id] or (not exactly and seen <= rows <= self.counted[stream_id])
        self.counted[stream_id] = rows

    def check_reader(self, reader: Reader) -> None:
        due = [row for row in self.rows[reader.stream_id] if reader.since < row.scn <= reader.absorbed]
        assert reader.got == due, "a reader has lost, doubled or other rows"
