"""How far a windowed pipeline has come in its stream, and which rows are too late for it.

Rows are counted as they come. By the stream's own time, the watermark is the largest time so far, less the lateness
that the stream allows; it moves at the end of each insert, and a row that is older than the watermark was when its
insert began is late: it is in no window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

import pyarrow as pa

from midstream.kernels import Kernel, quote_name
from midstream.log.batches import ARRIVED, POSITION, SCN, Batch
from midstream.maintenance.engine import Rows
from midstream.relations.stream import Stream
from midstream.relations.window import PLACE, SLOT, Slots
from midstream.runtime.readers import BATCH

CLOCK = "clock"
"""What SQL calls the watermarks at the beginning of inserts."""
_WATERMARK, _OF = "watermark", "of_scn"


@dataclass(frozen=True)
class Clock:
    """Times are microseconds since 1970."""

    origin: int = 0
    """The position of the first row that counts."""
    rows: int = 0
    """How many rows have come since."""
    high: int | None = None
    """The largest time of a row."""
    low: int | None = None
    """The first basic window that a row came to."""
    arrived: int | None = None
    """When the newest row arrived."""
    floor: int | None = None
    """A watermark that was set because nothing came any more."""

    def written(self) -> dict[str, int | None]:
        return asdict(self)

    def watermark(self, lateness: int) -> int | None:
        if self.high is None:
            return self.floor
        return max(self.high - lateness, self.floor if self.floor is not None else self.high - lateness)

    def at_least(self, watermark: int) -> Clock:
        """With a watermark that is not behind another."""
        return replace(self, floor=_last([self.floor, watermark]))

    def after(self, batch: Batch, low: int | None = None) -> Clock:
        """Where it stands behind a batch; `low` is the first basic window of its rows."""
        last = max((file.first_position + file.rows for file in batch.files), default=self.origin + self.rows)
        highs = [times.high for file in batch.files for times in file.times]
        arrivals = [int(file.at * 1e6) for file in batch.files if file.rows]
        return replace(
            self,
            rows=max(self.rows, last - self.origin),
            high=_last([self.high, *highs]),
            low=_first([self.low, low]),
            arrived=_last([self.arrived, *arrivals]),
        )

    def first_slot(self, batch: Batch, slots: Slots) -> int | None:
        """The first basic window of a batch's rows, if none of them is late; None: only the rows tell."""
        files = [file for file in batch.files if file.rows]
        if slots.by == "rows":
            return _first([(file.first_position - self.origin) // slots.unit for file in files])
        if slots.by == "arrival" or not all(file.times for file in files):
            return None
        lows = [times.low for file in files for times in file.times]
        return None if None in lows else _first([low // slots.unit for low in lows if low is not None])

    def since(self, slots: Sequence[int]) -> Clock:
        """With rows that had come to these basic windows before."""
        return replace(self, low=_first([self.low, *slots]))

    def watermarks(self, batch: Batch, lateness: int) -> Watermarks:
        """The watermark at the beginning of each insert of a batch, where there is one."""
        found: dict[int, int] = {}
        has_late, clock = False, self
        inserts = sorted((times for file in batch.files for times in file.times), key=lambda times: times.scn)
        for scn, group in groupby(inserts, key=lambda times: times.scn):
            own = list(group)
            now = clock.watermark(lateness)
            if now is not None:
                found[scn] = now
            lows = [times.low for times in own if times.low is not None]
            has_late = (
                has_late or any(times.has_nulls for times in own) or (now is not None and min(lows, default=now) < now)
            )
            clock = replace(clock, high=_last([clock.high, *(times.high for times in own)]))
        return Watermarks(found, has_late)


@dataclass(frozen=True)
class Watermarks:
    """Those at the beginning of inserts, by SCN, and whether any row of these is late."""

    by_scn: Mapping[int, int]
    has_late: bool

    def input(self) -> dict[str, Rows]:
        """As an input of SQL that looks for late rows: none, where all are in time."""
        if not self.has_late:
            return {}
        scns, marks = pa.array(list(self.by_scn), pa.int64()), pa.array(list(self.by_scn.values()), pa.int64())
        return {CLOCK: Rows(pa.table({_OF: scns, _WATERMARK: marks}))}


def _last(values: Sequence[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _first(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def lateness_of(stream: Stream) -> int:
    return int(stream.lateness_seconds * 1_000_000)


def windowed_rows(
    columns: Sequence[str], slots: Slots, clock: Clock, kernel: Kernel, stream: Stream, late: bool
) -> str:
    """The rows of a batch that are in time, each with the number of its basic window; `late`: some may not be."""
    listed = [f"{BATCH}.{quote_name(name, kernel)}" for name in columns]
    listed.append(f"{_slot(slots, clock, kernel, stream)} AS {quote_name(SLOT, kernel)}")
    listed.append(f"{POSITION} - {clock.origin} AS {quote_name(PLACE, kernel)}")
    text = f"SELECT {', '.join(listed)} FROM {BATCH}"
    return f"{text} {_JOINED} WHERE NOT {_is_late(slots, kernel, stream)}" if late else text


def late_rows(columns: Sequence[str], slots: Slots, kernel: Kernel, stream: Stream) -> str:
    """Those of a batch, each with its SCN."""
    listed = ", ".join(f"{BATCH}.{quote_name(name, kernel)}" for name in (*columns, SCN))
    return f"SELECT {listed} FROM {BATCH} {_JOINED} WHERE {_is_late(slots, kernel, stream)} ORDER BY {POSITION}"


def history_watermarks(slots: Slots, kernel: Kernel, stream: Stream) -> str:
    """The watermark at the beginning of each insert that a stream has kept."""
    highs = f"SELECT {SCN} AS {_OF}, max({_microseconds(slots, kernel, stream)}) AS high FROM {BATCH} GROUP BY {SCN}"
    before = f"ORDER BY {_OF} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    return f"SELECT {_OF}, max(high) OVER ({before}) - {lateness_of(stream)} AS {_WATERMARK} FROM ({highs}) AS inserts"


def _is_late(slots: Slots, kernel: Kernel, stream: Stream) -> str:
    """A row without a time is in no window either."""
    time = _microseconds(slots, kernel, stream)
    return f"({time} IS NULL OR coalesce({time} < {CLOCK}.{_WATERMARK}, false))"


_JOINED = f"LEFT JOIN {CLOCK} ON {CLOCK}.{_OF} = {BATCH}.{SCN}"


def _slot(slots: Slots, clock: Clock, kernel: Kernel, stream: Stream) -> str:
    if slots.by == "rows":
        return _floor(f"({POSITION} - {clock.origin})", slots.unit, kernel)
    return _floor(_microseconds(slots, kernel, stream), slots.unit, kernel)


def _microseconds(slots: Slots, kernel: Kernel, stream: Stream) -> str:
    value = quote_name(slots.column, kernel) if slots.column is not None else ARRIVED
    column = stream.column(slots.column) if slots.column is not None else None
    if kernel == "spark":
        return f"unix_micros(CAST({value} AS TIMESTAMP_LTZ))"
    is_date = column is not None and column.type.name == "date"
    return f"epoch_us(CAST({value} AS TIMESTAMP))" if is_date else f"epoch_us({value})"


def _floor(value: str, unit: int, kernel: Kernel) -> str:
    """Divided by the unit, towards what is smaller."""
    divide = "//" if kernel == "duckdb" else "div"
    return f"(({value} - (({value} % {unit}) + {unit}) % {unit}) {divide} {unit})"
