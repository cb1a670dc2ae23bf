"""The journal: SCNs and positions in the order of the log, and files that are closed and cut."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from midstream.errors import Closed, Error
from midstream.log.journal import Insert, NowWanted, Segment, Unkept
from midstream.log.records import BulkFile, FilesRecord, MadeFile, RowsRecord, Standing
from unit.log.small_log import Kept, Log, insert_of, table_of

THREADS = 8


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "log"))


# --- inserts -------------------------------------------------------------------------------------


def test_scns_and_positions_follow_the_order_of_the_inserts(log: Log) -> None:
    assert [log.insert(10), log.insert(20, 21), log.insert(30)] == [1, 2, 3]
    assert log.kept() == [Kept(7, 1, 0, 10), Kept(7, 2, 1, 20), Kept(7, 2, 2, 21), Kept(7, 3, 3, 30)]
    assert log.scns == [1, 2, 3]


def test_one_insert_may_go_into_several_streams_in_several_pieces(log: Log) -> None:
    log.journal.want(8, True)
    log.insert(1)
    file = BulkFile("bulk/x.parquet", 100, 1000)
    scn = log.journal.append(Insert({7: [table_of(2), table_of(3), file, table_of(4)], 8: [table_of(5)]}))
    assert log.kept(7) == [Kept(7, 1, 0, 1)] + [
        Kept(7, scn, 1, 2),
        Kept(7, scn, 2, 3),
        Kept(7, scn, 3, "bulk/x.parquet"),
        Kept(7, scn, 103, 4),
    ]
    assert log.kept(8) == [Kept(8, scn, 0, 5)]
    assert log.journal.standing(7).rows == 104


def test_an_insert_of_no_rows_takes_an_scn_and_no_place(log: Log) -> None:
    assert [log.insert(), log.insert(1), log.insert()] == [1, 2, 3]
    assert log.kept() == [Kept(7, 2, 0, 1)]


def test_rows_that_nobody_reads_are_counted_and_not_written(log: Log) -> None:
    size = log.journal.bytes_on_disk
    assert [log.insert(1, 2, stream_id=8), log.insert(3, stream_id=8)] == [1, 2]
    assert log.journal.append(Insert({8: [Unkept(1000, 8000), BulkFile("bulk/x.parquet", 10, 80)]})) == 3
    assert log.journal.bytes_on_disk == size
    assert log.journal.standing(8) == Standing(8, 1013, 8104)
    assert log.kept() == [] and log.accepted == []


def test_positions_count_the_rows_that_came_before_the_first_reader(log: Log) -> None:
    log.insert(1, 2, 3, stream_id=8)
    log.journal.want(8, True)
    log.insert(4, stream_id=8)
    log.journal.want(8, False)
    log.insert(5, stream_id=8)
    log.journal.rotate()
    log.journal.want(8, True)
    log.insert(6, stream_id=8)
    assert log.kept() == [Kept(8, 2, 3, 4), Kept(8, 4, 5, 6)]


def test_rows_that_were_left_out_for_want_of_a_reader_are_asked_for_again(log: Log) -> None:
    with pytest.raises(NowWanted) as refused:
        log.journal.append(Insert({8: [table_of(1)], 7: [Unkept(1000, 8000)]}))
    assert refused.value.sqlstate == "40001"
    assert log.insert(1) == 1, "no SCN was used"
    assert log.journal.standing(8).rows == 0 and log.journal.standing(7).rows == 1


def test_rows_that_lie_in_no_file_count_if_all_readers_have_what_they_need_of_them(log: Log) -> None:
    made = BulkFile("made/x", 10, 80, made=((3, (MadeFile("views/a.parquet", 2, 20),)),))
    with pytest.raises(NowWanted):
        log.journal.append(Insert({7: [table_of(1), made]}))
    log.made.add("made/x")
    assert log.journal.append(Insert({7: [table_of(1), made]})) == 1
    for journal in (log.journal, log.open()):
        records = [record for segment in [*journal.closed, journal.active] for record in segment.records]
        assert [record.files for record in records if isinstance(record, FilesRecord)] == [(made,)]
        assert journal.standing(7).rows == 11


def test_what_is_accepted_is_told_before_the_scn_moves(log: Log) -> None:
    log.insert(1, 2)
    [record] = log.accepted
    assert isinstance(record, RowsRecord)
    assert (record.stream_id, record.rows, record.last_scn, record.batch) == (7, 2, 1, None)
    assert record.bytes == table_of(1, 2).nbytes


def test_a_part_of_a_larger_table_is_written_alone(log: Log) -> None:
    table = table_of(*range(100))
    log.journal.append(Insert({7: [table.slice(50, 2)]}))
    log.journal.append(Insert({7: [table.slice(10, 1), table.slice(98)]}))
    assert log.values() == [50, 51, 10, 98, 99]


# --- many at once ----------------------------------------------------------------------------------


def test_inserts_of_many_threads_have_one_order(log: Log) -> None:
    told: dict[int, list[int]] = {}

    def insert_some(name: int) -> None:
        told[name] = [log.insert(name * 1000 + n, name * 1000 + n) for n in range(50)]

    run_threads([threading.Thread(target=insert_some, args=(name,)) for name in range(THREADS)])
    kept = log.kept()
    assert [row.position for row in kept] == list(range(2 * 50 * THREADS))
    assert [row.scn for row in kept] == sorted(row.scn for row in kept)
    assert sorted(scn for scns in told.values() for scn in scns) == list(range(1, 50 * THREADS + 1))
    for name, scns in told.items():
        own = [(row.scn, row.value) for row in kept if int(row.value) // 1000 == name]
        assert own == [(scn, name * 1000 + n) for n, scn in enumerate(scns) for _ in range(2)]


def test_inserts_that_come_during_a_sync_share_the_next(log: Log) -> None:
    """The first sync ends when all others wait: they are one frame, and one sync is enough for all."""
    in_sync, go_on = threading.Event(), threading.Event()

    def wait_once() -> None:
        in_sync.set()
        assert go_on.wait(30)

    log.files.calls.clear()
    log.files.before["sync"] = wait_once
    first = threading.Thread(target=log.insert, args=(0,))
    first.start()
    assert in_sync.wait(30)
    others = [threading.Thread(target=log.insert, args=(n,)) for n in range(1, THREADS)]
    for thread in others:
        thread.start()
    wait_until(lambda: len(log.journal._queue) == THREADS - 1)
    go_on.set()
    run_threads([first, *others], start=False)
    assert log.files.calls["sync"] == 2 and log.files.calls["write"] == 2
    assert sorted(log.values()) == list(range(THREADS))
    assert [row.scn for row in log.kept()] == list(range(1, THREADS + 1))


def test_one_late_insert_does_not_fail_those_that_share_its_frame(log: Log) -> None:
    log.journal.want(8, True)
    failures: list[BaseException] = []

    def insert_late() -> None:
        try:
            log.journal.append(Insert({8: [Unkept(5, 5)]}))
        except Error as failure:
            failures.append(failure)

    threads = [threading.Thread(target=log.insert, args=(n,)) for n in range(3)]
    with log.journal.alone():
        threads.insert(1, threading.Thread(target=insert_late))
        for thread in threads:
            thread.start()
        wait_until(lambda: len(log.journal._queue) == 4)
    run_threads(threads, start=False)
    assert [type(failure) for failure in failures] == [NowWanted]
    assert sorted(log.values()) == [0, 1, 2] and log.scns[-1] == 3


def test_nobody_appends_while_one_is_alone(log: Log) -> None:
    thread = threading.Thread(target=log.insert, args=(1,))
    with log.journal.alone():
        thread.start()
        wait_until(lambda: len(log.journal._queue) == 1)
        assert log.journal.last_scn == 0 and log.journal.active.records == []
    run_threads([thread], start=False)
    assert log.journal.last_scn == 1


# --- files -----------------------------------------------------------------------------------------


def test_closed_files_hold_what_came_before(log: Log) -> None:
    log.insert(1)
    log.insert(2)
    log.journal.rotate()
    log.insert(3)
    log.insert(4, stream_id=8)
    [closed] = log.journal.closed
    assert (closed.last_scn, [record.rows for record in closed.records], closed.bytes) == (2, [1, 1], 16)
    assert [record.first_position for record in log.journal.load(closed)] == [0, 1]
    log.journal.rotate()
    assert [segment.last_scn for segment in log.journal.closed] == [2, 4]
    assert log.values() == [1, 2, 3]


def test_a_file_without_rows_is_not_closed(log: Log) -> None:
    log.insert(1, stream_id=8)
    log.journal.rotate()
    log.journal.rotate()
    assert not log.journal.closed


def test_old_files_are_cut_up_to_the_first_that_is_needed(log: Log) -> None:
    for value in range(4):
        log.insert(value)
        log.journal.rotate()
    needed = log.journal.closed[2]

    def is_needed(segment: Segment) -> bool:
        return segment is needed

    assert [segment.last_scn for segment in log.journal.cut(is_needed)] == [1, 2]
    assert log.values() == [2, 3]
    assert log.journal.cut(lambda segment: True) == []
    assert len(log.journal.cut(lambda segment: False)) == 2
    assert log.files.names(log.folder) == [Path(log.journal.active.path).name]


def test_the_log_knows_whether_it_holds_rows_of_a_stream(log: Log) -> None:
    log.insert(1, stream_id=8)
    log.insert(2)
    log.journal.rotate()
    log.insert(3, stream_id=8)
    log.insert(4)
    assert log.journal.has_rows(7, 0, 2) and log.journal.has_rows(7, 2, 4)
    assert not log.journal.has_rows(7, 2, 3) and not log.journal.has_rows(7, 4, 100)
    assert not log.journal.has_rows(7, 0, 1) and not log.journal.has_rows(8, 0, 100)


def test_the_size_on_disk_is_that_of_the_files(log: Log) -> None:
    for value in range(5):
        log.insert(value)
        log.journal.rotate()
        sizes = sum(path.stat().st_size for path in Path(log.folder).iterdir())
        assert log.journal.bytes_on_disk == sizes
    log.journal.cut(lambda segment: False)
    assert log.journal.bytes_on_disk == Path(log.journal.active.path).stat().st_size


# --- opening again ---------------------------------------------------------------------------------


@pytest.mark.parametrize("closed_well", [True, False])
def test_opening_again_gives_exactly_what_was_acknowledged(log: Log, closed_well: bool) -> None:
    log.journal.want(8, True)
    log.wanted.add(8)
    log.insert(1, 2)
    log.journal.append(Insert({7: [table_of(3), BulkFile("bulk/x.parquet", 5, 50)], 8: [table_of(4)]}))
    log.journal.rotate()
    log.insert(5)
    before, standing = log.kept(), log.journal.standing(7)
    if closed_well:
        log.journal.close()
    log.open()
    assert log.kept() == before
    assert log.journal.standing(7) == standing


def test_scns_and_positions_go_on_after_a_clean_end(log: Log) -> None:
    log.insert(1)
    log.insert(2, 3, stream_id=8)
    assert log.close_and_open().last_scn == 2
    assert log.insert(4) == 3
    assert log.journal.standing(8).rows == 2
    assert log.kept() == [Kept(7, 1, 0, 1), Kept(7, 3, 1, 4)]


def test_files_that_readers_have_are_gone_after_opening_if_nothing_in_them_counts(log: Log) -> None:
    log.insert(1)
    log.journal.rotate()
    log.journal.cut(lambda segment: False)
    log.close_and_open()
    assert not log.journal.closed
    assert log.files.names(log.folder) == [Path(log.journal.active.path).name]
    assert log.insert(2) == 2 and log.kept() == [Kept(7, 2, 1, 2)]


def test_a_dropped_stream_is_forgotten_for_good(log: Log) -> None:
    log.insert(1)
    log.insert(2, stream_id=8)
    log.journal.rotate()
    log.journal.forget(8)
    for _ in range(2):
        log.close_and_open()
        assert log.journal.standing(8) == Standing(8, 0, 0)
    assert log.journal.standing(7).rows == 1


def test_a_missing_file_is_an_error(log: Log) -> None:
    for value in range(3):
        log.insert(value)
        log.journal.rotate()
    log.journal.close()
    Path(log.journal.closed[1].path).unlink()
    with pytest.raises(Error) as refused:
        log.open()
    assert refused.value.message == "a file of the log is missing"
    assert refused.value.sqlstate == "XX001"
    assert str(refused.value.detail).startswith("There are 0000000001.log, 0000000003.log")


def test_a_closed_log_takes_nothing(log: Log) -> None:
    log.journal.close()
    for _ in range(2):
        with pytest.raises(Closed, match="the database is closed"):
            log.journal.append(insert_of(1))
        with pytest.raises(Closed), log.journal.turn():
            raise AssertionError("nobody comes here")
        log.journal.close()


def run_threads(threads: list[threading.Thread], *, start: bool = True) -> None:
    for thread in threads if start else []:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def wait_until(is_so: object) -> None:
    assert callable(is_so)
    tick = threading.Event()
    for _ in range(3000):
        if is_so():
            return
        tick.wait(0.01)
    raise AssertionError("it never came")
