"""The journal after a power cut or with damaged files: what was acknowledged is there, or a clear error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from faulty_files import PowerCut
from midstream.errors import StorageError
from unit.log.small_log import Kept, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "log"))


@pytest.mark.parametrize("calls", range(1, 12))
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_at_any_call_keeps_all_that_was_acknowledged(log: Log, calls: int, seed: int) -> None:
    log.insert(0)
    acknowledged, tried = [0], [0]
    log.files.cut_power_after(calls)
    with pytest.raises(PowerCut):
        for value in range(1, 100):
            tried.append(value)
            log.insert(value)
            acknowledged.append(value)
            if value % 2:
                log.journal.rotate()
    log.power_cut(seed)
    assert log.values() in (acknowledged, tried)
    standing = log.journal.standing(7)
    assert standing.rows == len(log.values())
    assert [row.position for row in log.kept()] == list(range(standing.rows))


@pytest.mark.parametrize("calls", range(1, 9))
@pytest.mark.parametrize("seed", range(4))
def test_a_power_cut_while_the_log_is_opened_loses_nothing(log: Log, calls: int, seed: int) -> None:
    for value in range(3):
        log.insert(value)
        log.journal.rotate()
    log.journal.cut(lambda segment: segment.number == 3)
    last_scn = log.insert(5, 6, stream_id=8)
    log.journal.close()
    log.files.cut_power_after(calls)
    with pytest.raises(PowerCut):
        for _ in range(10):
            log.open()
    log.power_cut(seed)
    assert log.kept()[-1] == Kept(7, 3, 2, 2), "files that were cut may be back, and readers know that they have them"
    assert log.journal.standing(8).rows == 2
    assert log.insert(9) > last_scn
    assert log.kept()[-1].position == 3


@pytest.mark.parametrize("calls", range(1, 9))
@pytest.mark.parametrize("seed", range(4))
def test_positions_outlive_a_power_cut_while_a_log_without_rows_is_opened(log: Log, calls: int, seed: int) -> None:
    log.insert(1, 2)
    log.journal.rotate()
    log.journal.cut(lambda segment: False)
    log.journal.close()
    log.files.cut_power_after(calls)
    with pytest.raises(PowerCut):
        for _ in range(10):
            log.open()
    log.power_cut(seed)
    log.insert(3)
    assert log.kept()[-1][2:] == (2, 3)


def test_a_file_has_the_same_last_scn_however_often_it_is_opened(log: Log) -> None:
    """Readers know by it whether they have the rows of a file: SCNs that were set aside must not move it."""
    log.insert(1)
    log.open()
    last = [segment.last_scn for segment in log.journal.closed]
    for _ in range(3):
        log.open()
        assert [segment.last_scn for segment in log.journal.closed][: len(last)] == last


@pytest.mark.parametrize("seed", range(6))
def test_what_was_found_after_a_kill_outlives_a_power_cut(log: Log, seed: int) -> None:
    """The killed process had written rows and not synced them; readers may have them since."""
    log.insert(1)
    log.files.cut_power_after(2)
    with pytest.raises(PowerCut):
        log.insert(*range(2, 200))
    log.files.heal()
    log.open()
    assert log.values() == list(range(1, 200))
    log.power_cut(seed)
    assert log.values() == list(range(1, 200))


def test_scns_are_never_given_again_after_a_crash(log: Log) -> None:
    """Not even those of inserts that left no trace, since nobody reads their stream."""
    given: list[int] = []
    for seed in range(5):
        given += [log.insert(1, stream_id=8), log.insert(2), log.insert(3, stream_id=8)]
        log.power_cut(seed)
    assert given == sorted(set(given))


def test_a_torn_first_file_of_a_new_log_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "0000000001.log").write_bytes(b"\xabMSLOG1\n")
    log = Log(str(folder))
    assert log.insert(1) == 1 and log.values() == [1]


def test_a_file_that_begins_with_damage_is_not_taken_for_a_new_one(log: Log) -> None:
    """Before a file goes there is a newer one, so the only one there is was whole."""
    log.insert(1)
    log.journal.rotate()
    log.journal.cut(lambda segment: False)
    log.journal.close()
    path = Path(log.journal.active.path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(StorageError, match="the log is damaged"):
        log.open()
    assert path.stat().st_size == 20, "nothing was changed"


# --- damage --------------------------------------------------------------------------------------------


def test_a_flipped_byte_anywhere_is_an_error_or_a_clean_cut(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "log"))
    for value in range(6):
        log.insert(value, value)
        if value == 2:
            log.journal.rotate()
    paths = sorted(Path(log.folder).iterdir())
    whole = [path.read_bytes() for path in paths]
    everything = [value for value in range(6) for _ in range(2)]
    outcomes = set()
    chosen = random.Random(0)
    for number, data in enumerate(whole):
        for place in sorted(chosen.sample(range(len(data)), 150)):
            outcome = values_after_damage(log, paths, whole, number, place)
            assert outcome is None or outcome == everything[: len(outcome)], (number, place)
            assert outcome is None or len(outcome) >= len(everything) - 2, (number, place)
            outcomes.add(outcome is None)
    assert outcomes == {True, False}


def values_after_damage(
    log: Log, paths: list[Path], whole: list[bytes], number: int, place: int
) -> list[int | str] | None:
    """What is read when one byte is another; None for an error."""
    for path in Path(log.folder).iterdir():
        path.unlink()
    for path, data in zip(paths, whole, strict=True):
        path.write_bytes(data)
    damaged = bytearray(whole[number])
    damaged[place] ^= 0x10
    paths[number].write_bytes(bytes(damaged))
    try:
        log.open()
    except StorageError as refused:
        assert refused.sqlstate == "XX001"
        assert paths[number].read_bytes() == bytes(damaged), "nothing was changed"
        return None
    return log.values()
