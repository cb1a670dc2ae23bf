"""The journal on a disk that is full or fails: errors are clear, and what was acknowledged stays."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from faulty_files import PowerCut
from midstream.errors import Error, OutOfResources, StorageError
from unit.log.small_log import Kept, Log, insert_of


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "log"))


# --- a full disk -------------------------------------------------------------------------------------


@pytest.mark.parametrize("room", [0, 1, 40, 200])
def test_a_full_disk_fails_the_insert_and_nothing_else(log: Log, room: int) -> None:
    log.insert(1)
    log.files.room = room
    with pytest.raises(OutOfResources) as refused:
        log.insert(2)
    assert refused.value.message == "the disk is full: the rows could not be written to the log"
    assert refused.value.sqlstate == "53100"
    assert "Nothing of this insert was taken" in str(refused.value.hint)
    log.files.heal()
    assert log.insert(3) == 2
    assert log.kept() == [Kept(7, 1, 0, 1), Kept(7, 2, 1, 3)]
    log.close_and_open()
    assert log.values() == [1, 3]


def test_a_full_disk_fails_the_commit_that_prepares(log: Log) -> None:
    log.files.room = 30
    with pytest.raises(OutOfResources):
        log.commit(insert_of(1))
    log.files.heal()
    assert log.commit(insert_of(2)) == 1
    assert log.values() == [2]


def test_a_full_disk_when_the_file_is_closed_leaves_it_open(log: Log) -> None:
    log.insert(1)
    log.files.room = 3
    with pytest.raises(OutOfResources, match="a new file of the log could not be made"):
        log.journal.rotate()
    log.files.heal()
    log.insert(2)
    assert log.values() == [1, 2]
    log.power_cut(seed=0)
    assert log.values() == [1, 2]


def test_a_log_on_a_full_disk_can_be_closed(log: Log) -> None:
    log.insert(1)
    last = log.insert(2, stream_id=8)
    log.files.room = 0
    log.journal.close()
    log.files.heal()
    log.open()
    assert log.values() == [1]
    assert log.insert(3) > last


def test_a_disk_that_is_full_at_opening_is_an_error_that_passes(log: Log) -> None:
    log.insert(1)
    log.files.room = 5
    with pytest.raises(OutOfResources, match="the log could not be opened"):
        log.open()
    log.files.heal()
    log.open()
    assert log.values() == [1]


# --- writes and syncs that fail ------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_write_that_fails_is_taken_back(log: Log, call: str) -> None:
    log.insert(1)
    log.files.fail(call)
    with pytest.raises(StorageError, match="the rows could not be written to the log") as refused:
        log.insert(2)
    assert f"{call} failed" in str(refused.value.detail)
    log.insert(3)
    assert log.values() == [1, 3]
    log.power_cut(seed=0)
    assert log.values() == [1, 3]


@pytest.mark.parametrize("second", ["truncate", "sync"])
def test_a_write_that_cannot_be_taken_back_stops_the_log_until_it_is_opened_again(log: Log, second: str) -> None:
    log.insert(1)
    log.files.fail("sync", times=2)
    log.files.fail(second, times=2)
    with pytest.raises(StorageError, match="the rows could not be written"):
        log.insert(2)
    log.files.heal()
    for refused_call in (lambda: log.insert(3), log.journal.rotate, lambda: log.commit(insert_of(4))):
        with pytest.raises(StorageError) as refused:
            refused_call()
        assert refused.value.message == "the log cannot be written since an earlier write failed"
        assert "sync failed" in str(refused.value.detail)
        assert "Close the database and open it again" in str(refused.value.hint)
    log.close_and_open()
    assert log.values() in ([1], [1, 2])
    assert log.insert(5) > 2
    assert log.values()[-1] == 5


def test_all_that_share_a_failed_write_are_told(log: Log) -> None:
    told: list[str] = []

    def insert_one(value: int) -> None:
        try:
            log.insert(value)
        except Error as failure:
            told.append(failure.message)

    threads = [threading.Thread(target=insert_one, args=(value,)) for value in range(4)]
    with log.journal.alone():
        for thread in threads:
            thread.start()
        while len(log.journal._queue) < 4:
            threads[0].join(0.01)
        log.files.fail("sync")
    for thread in threads:
        thread.join(timeout=30)
    assert told == ["the rows could not be written to the log"] * 4
    assert log.values() == []


@pytest.mark.parametrize("call", ["create", "write", "sync", "sync_folder"])
def test_a_new_file_that_cannot_be_made_does_no_harm(log: Log, call: str) -> None:
    log.insert(1)
    log.files.fail(call)
    with pytest.raises(StorageError):
        log.journal.rotate()
    log.insert(2)
    for seed in range(3):
        log.power_cut(seed)
        assert log.values() == [1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_a_new_file_that_failed_does_not_come_back_from_the_dead(log: Log, seed: int) -> None:
    """Its name was removed, which a power cut may undo; rows that came later stand before it."""
    log.insert(1)
    log.files.fail("sync_folder")
    with pytest.raises(StorageError):
        log.journal.rotate()
    log.insert(2)
    log.files.cut_power_after(2)
    with pytest.raises(PowerCut):
        log.insert(*range(100, 200))
    log.power_cut(seed)
    assert log.values() in ([1, 2], [1, 2, *range(100, 200)])
    assert all(segment.last_scn >= record.last_scn for segment in log.journal.closed for record in segment.records)


def test_an_old_file_that_cannot_be_removed_is_an_error_that_passes(log: Log) -> None:
    log.insert(1)
    log.journal.rotate()
    log.files.fail("remove")
    with pytest.raises(StorageError, match="an old file of the log could not be removed"):
        log.journal.cut(lambda segment: False)
    assert log.values() == [1]
    assert len(log.journal.cut(lambda segment: False)) == 1
