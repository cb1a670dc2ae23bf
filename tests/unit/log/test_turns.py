"""Turns: commits that change tables, and rows that count only if such a commit does."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from faulty_files import PowerCut
from midstream.errors import Error, InternalError
from midstream.log.journal import Insert, NowWanted, Unkept
from midstream.log.records import BulkFile
from unit.log.small_log import Kept, Log, insert_of, table_of


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "log"))


def test_a_turn_has_the_next_scn(log: Log) -> None:
    log.insert(1)
    with log.journal.turn() as turn:
        assert turn.scn == 2 and log.journal.last_scn == 1
        turn.commit()
    assert log.insert(2) == 3
    assert log.scns == [1, 2, 3]


def test_a_turn_that_is_not_taken_leaves_its_scn(log: Log) -> None:
    with pytest.raises(InternalError), log.journal.turn():
        raise InternalError("the commit failed")
    assert log.insert(1) == 1


def test_prepared_rows_count_from_their_commit_on(log: Log) -> None:
    log.insert(1)
    with log.journal.turn() as turn:
        turn.prepare(Insert({7: [table_of(2), BulkFile("bulk/x.parquet", 3, 9), table_of(3)], 8: [table_of(4)]}))
        assert log.journal.active.records == log.accepted and len(log.accepted) == 1
        assert log.journal.standing(7).rows == 1
        turn.commit()
    log.insert(5)
    assert log.kept() == [
        Kept(7, 1, 0, 1),
        Kept(7, 2, 1, 2),
        Kept(7, 2, 2, "bulk/x.parquet"),
        Kept(7, 2, 5, 3),
        Kept(7, 3, 6, 5),
    ]
    assert log.journal.standing(8).rows == 1


def test_prepared_rows_of_a_commit_that_failed_never_count(log: Log) -> None:
    with pytest.raises(InternalError), log.journal.turn() as turn:
        turn.prepare(insert_of(1, 2))
        raise InternalError("the catalog said no")
    assert log.journal.standing(7).rows == 0
    assert log.insert(3) == 2, "a later commit with that SCN would make the rows count"
    assert log.kept() == [Kept(7, 2, 0, 3)]
    log.commits.add(1)
    log.close_and_open()
    assert log.kept() == [Kept(7, 2, 0, 3)], "the log itself knows the verdict"


def test_rows_are_asked_for_again_if_they_were_left_out(log: Log) -> None:
    with pytest.raises(NowWanted), log.journal.turn() as turn:
        turn.prepare(Insert({7: [Unkept(10, 10)]}))
    assert log.insert(1) == 1


def test_rows_that_nobody_reads_are_counted_by_a_turn_too(log: Log) -> None:
    size = log.journal.bytes_on_disk
    assert log.commit(Insert({8: [table_of(1), Unkept(10, 10)]})) == 1
    assert log.journal.standing(8).rows == 11
    assert log.journal.bytes_on_disk == size


def test_what_was_appended_before_a_turn_is_on_the_disk(log: Log) -> None:
    with log.journal._turn:
        thread = threading.Thread(target=log.insert, args=(1,))
        thread.start()
        while not log.journal._queue:
            thread.join(0.01)
        with log.journal.turn() as turn:
            assert turn.scn == 2
            assert [record.rows for record in log.journal.active.records] == [1]
            turn.commit()
    thread.join(timeout=30)
    assert log.journal.last_scn == 2


# --- crashes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_after_a_power_cut_in_the_turn_the_catalog_decides(log: Log, published: bool, seed: int) -> None:
    log.insert(1)
    with log.journal.turn() as turn:
        turn.prepare(insert_of(2, 3))
        if published:
            log.commits.add(turn.scn)
        log.power_cut(seed)
        turn._is_over = True
    assert log.values() == ([1, 2, 3] if published else [1])
    assert log.insert(4) > 2, "an SCN that the log has seen is not given again"
    assert log.values() == ([1, 2, 3, 4] if published else [1, 4])


@pytest.mark.parametrize("seed", range(20))
def test_after_a_power_cut_the_verdict_is_the_catalogs_where_the_log_has_lost_it(log: Log, seed: int) -> None:
    log.commit(insert_of(1))
    with pytest.raises(InternalError), log.journal.turn() as turn:
        turn.prepare(insert_of(2))
        raise InternalError("the catalog said no")
    log.commit(insert_of(3))
    log.power_cut(seed)
    assert log.values() == [1, 3]


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_in_the_write_after_a_verdict_is_no_damage(log: Log, seed: int) -> None:
    """Several writes that were not synced may reach the disk in any order."""
    first, second = list(range(8 * seed)), list(range(1000, 1050))
    log.commit(insert_of(*first, 0))
    log.files.cut_power_after(2)
    with pytest.raises(PowerCut):
        log.insert(*second)
    log.power_cut(seed)
    assert log.values() in ([*first, 0], [*first, 0, *second])


def test_the_catalog_may_forget_a_commit_once_the_file_is_closed(log: Log) -> None:
    log.commit(insert_of(1))
    log.journal.rotate()
    log.commits.clear()
    log.power_cut(seed=1)
    assert log.values() == [1]


def test_positions_of_a_commit_that_failed_are_given_again_and_read_once(log: Log) -> None:
    """Two records with the same first position in one file: only one of them counts."""
    for _ in range(2):
        with pytest.raises(Error), log.journal.turn() as turn:
            turn.prepare(insert_of(1, 2))
            raise InternalError("no")
    log.commit(insert_of(3))
    with pytest.raises(Error), log.journal.turn() as turn:
        turn.prepare(insert_of(4))
        raise InternalError("no")
    assert log.kept() == [Kept(7, 3, 0, 3)]
    log.power_cut(seed=0)
    assert log.kept() == [Kept(7, 3, 0, 3)]


def test_no_scn_passes_while_somebody_is_alone(log: Log) -> None:
    with log.journal.alone():
        thread = threading.Thread(target=log.insert, args=(1,))
        thread.start()
        while not log.journal._queue:
            thread.join(0.01)
        with log.journal.alone():
            log.journal.rotate()
            assert log.journal.last_scn == 0
    thread.join(timeout=30)
    assert log.journal.last_scn == 1
