"""Numbers of windows, sums of basic windows, watermarks, and the search for the right number of chunks."""

from __future__ import annotations

import random
import time
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from midstream.log.batches import Batch, BatchFile, Times, with_times
from midstream.relations.view import ContinuousView
from midstream.relations.window import EVER, Slots, Window
from midstream.runtime.chunking import REMEMBERED, STEPS, Chunking
from midstream.runtime.clocks import Clock
from midstream.runtime.summaries import WIDTH, levels_of, number_of, pieces
from midstream.runtime.trials import Trial
from midstream.runtime.window_log import WindowLog, WindowResult

ROWS, TIME = Slots("rows", 0), Slots("column", 0, "ts")


def test_windows_by_rows_are_counted_from_the_first_row() -> None:
    window = Window.sliding(ROWS, size=10, slide=4)
    assert window.slots.unit == 2
    assert [window.span(number) for number in range(3)] == [(0, 10), (4, 14), (8, 18)]
    assert [window.last_before(rows) for rows in (9, 10, 13, 14)] == [-1, 0, 0, 1]
    assert window.slots_of(1) == (2, 7)


def test_ends_of_windows_by_time_are_multiples_of_the_slide() -> None:
    window = Window.sliding(TIME, size=15, slide=10)
    assert (window.slots.unit, window.span(3), window.last_before(39)) == (5, (15, 30), 3)
    assert window.first_with(slot=4) == 3, "the row at 20 is first in the window that ends at 30"
    assert window.last_end_with(20) == 30
    assert Window.sliding(TIME, size=5, slide=10).last_end_with(8) == 10


def test_a_landmark_grows_and_begins_anew() -> None:
    assert [Window.landmark(ROWS, 3).span(number) for number in range(2)] == [(0, 3), (0, 6)]
    assert [Window.landmark(ROWS, 2, 4).span(number) for number in range(4)] == [(0, 2), (0, 4), (4, 6), (4, 8)]
    assert Window.landmark(TIME, 10).slots_of(7) == (EVER, 7)


@pytest.mark.parametrize("seed", range(20))
def test_sums_cover_a_window_exactly(seed: int) -> None:
    chosen = random.Random(seed)
    first = chosen.randrange(5000)
    last = first + chosen.randrange(1, 5000)
    summed = {level: chosen.randrange(last // WIDTH**level + 1) for level in range(1, 3)}
    taken = pieces(first, last, summed)
    meant = {number_of(level, place): (level, place) for level in summed for place in range(summed[level])}
    covered = []
    for number in taken:
        level, place = meant[number] if number < 0 else (0, number)
        covered += range(place * WIDTH**level, (place + 1) * WIDTH**level)
    assert covered == list(range(first, last))


def test_there_are_sums_where_a_window_has_many_basic_windows() -> None:
    found = {count: list(levels_of(Window.sliding(ROWS, count, 1))) for count in (63, 64, 1023, 1024)}
    assert found == {63: [], 64: [1], 1023: [1], 1024: [1, 2]}


def batch(*inserts: Times, at: float = 0.0, first: int = 0) -> Batch:
    return Batch(1, 0, 9, (BatchFile("", 10, 0, first, at=at, times=inserts),))


def test_a_row_is_late_by_the_watermark_at_the_beginning_of_its_insert() -> None:
    clock = Clock(high=100)
    seen = clock.watermarks(batch(Times(1, 90, 120, False), Times(2, 95, 95, False)), lateness=10)
    assert (seen.by_scn, seen.has_late) == ({1: 90, 2: 110}, True)
    assert not clock.watermarks(batch(Times(1, 90, 120, False), Times(2, 110, 115, False)), lateness=10).has_late
    assert clock.watermarks(batch(Times(1, 100, 120, True)), lateness=0).has_late, (
        "a row without a time is in no window"
    )
    assert Clock().watermarks(batch(Times(1, 5, 9, False)), lateness=0).by_scn == {}


def test_a_clock_goes_on_with_what_comes() -> None:
    clock = Clock(origin=4).after(batch(Times(1, 5, 9, False), Times(2, 3, None, True), at=0.000077), low=2)
    assert (clock.rows, clock.high, clock.low, clock.arrived) == (6, 9, 2, 77)
    assert clock.watermark(3) == 6
    assert clock.at_least(50).watermark(3) == 50
    assert clock.at_least(1).watermark(3) == 6


def test_a_batch_tells_the_first_basic_window_of_its_rows_if_it_can() -> None:
    by_rows, by_time, by_arrival = Slots("rows", 5), Slots("column", 5, "ts"), Slots("arrival", 5)
    assert Clock(origin=3).first_slot(batch(first=14), by_rows) == 2
    assert Clock(origin=3).first_slot(batch(first=0), by_rows) == -1
    assert Clock().first_slot(batch(Times(1, 12, 30, False), Times(2, -1, 9, False)), by_time) == -1
    assert Clock().first_slot(batch(Times(1, None, None, True), Times(2, 7, 9, False)), by_time) is None
    assert Clock().first_slot(batch(), by_time) is None
    assert Clock().first_slot(batch(Times(1, 12, 30, False)), by_arrival) is None


@pytest.mark.parametrize("statistics", [True, False])
def test_the_times_of_an_insert_are_read_off_its_file(tmp_path: Path, statistics: bool) -> None:
    times = [datetime(2027, 1, 1) + timedelta(seconds=second) for second in (5, 2, 9)]
    path = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"a": [1, 2, 3, 4], "ts": [*times, None]}), path, write_statistics=statistics)
    [found] = with_times(BatchFile(path, 4, 0, 0, scn=7), "ts").times
    start = (datetime(2027, 1, 1) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    assert found == Times(7, start + 2_000_000, start + 9_000_000, has_nulls=True)


def test_chunks_are_doubled_as_long_as_that_helps_and_found_anew_when_the_load_changes() -> None:
    search = Chunking()
    for seconds in [1.0] * STEPS + [0.6] * STEPS + [0.9] * STEPS:
        search.saw(seconds)
    assert (search.chunks, search.settled) == (2, 0.6)
    for seconds in [0.7] * STEPS:
        search.saw(seconds)
    assert search.chunks == 2
    for seconds in [1.5] * STEPS:
        search.saw(seconds)
    assert (search.chunks, search.settled) == (1, None)
    for seconds in [2.0] * STEPS + [2.5] * STEPS:
        search.saw(seconds)
    assert (search.chunks, search.settled) == (1, 2.0)
    assert search.history == [(1, 1.0), (2, 0.6), (4, 0.9), (1, 2.0), (2, 2.5)], "earlier searches are not forgotten"


def test_the_way_that_took_less_time_is_taken_until_the_load_changes() -> None:
    trial = Trial(("pairs", "anew"))
    ways = []
    for seconds in [0.3] * STEPS + [0.2] * STEPS + [0.25] * STEPS:
        ways.append(trial.way)
        trial.saw(seconds)
    assert ways == ["pairs"] * STEPS + ["anew"] * 2 * STEPS
    assert trial.is_over and trial.seconds == {"pairs": 0.3, "anew": 0.2}
    for seconds in [0.5] * STEPS:
        trial.saw(seconds)
    assert not trial.is_over and trial.way == "pairs", "answers take twice as long: all ways are tried again"
    for seconds in [0.4] * STEPS + [0.9] * STEPS:
        trial.saw(seconds)
    assert trial.way == "pairs"


def test_the_history_of_chunks_stays_short() -> None:
    search, longer = Chunking(), 1.0
    for _ in range(100):
        for seconds in [longer] * STEPS:
            search.saw(seconds)
        longer *= 3
    assert len(search.history) == REMEMBERED


def test_results_older_than_their_interval_are_not_to_be_had() -> None:
    view = ContinuousView(1, "v", (), "", (), is_windowed=True, retain_seconds=60.0)
    log = WindowLog(results=[WindowResult(n, 0, 1, time.time() - age, n, ()) for n, age in enumerate((90, 61, 30, 5))])
    assert [result.number for result in log.kept(view)] == [2, 3]
    alone = WindowLog(results=log.results[:2])
    assert [result.number for result in alone.kept(view)] == [1], "the newest stays"
    log.trim(view)
    assert [result.number for result in log.results] == [2, 3]
