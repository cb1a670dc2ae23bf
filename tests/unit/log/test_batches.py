"""Batches: closed files of the log become Parquet with the SCN and the position of every row, which tasks share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faulty_files import FaultyFiles
from midstream.errors import InternalError, OutOfResources, StorageError
from midstream.log.batches import ARRIVED, POSITION, SCN, Batch, BatchFile, Sealed, Sealer, shares, write_parquet
from midstream.log.journal import Insert
from midstream.log.records import BulkFile
from unit.log.small_log import SCHEMA, Log, insert_of, table_of


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(str(tmp_path / "log"), wanted={7, 8})


def seal(log: Log, *stream_ids: int) -> list[Sealed]:
    """All closed files of the log, sealed for some streams."""
    log.journal.rotate()
    sealer = Sealer(str(Path(log.folder).parent / "streams"), log.files, log.journal)
    return [sealer.seal(segment, dict.fromkeys(stream_ids or (7, 8), SCHEMA)) for segment in log.journal.closed]


def rows_in(file: BatchFile) -> list[tuple[int, int, int]]:
    """The rows of a sealed file as (value, SCN, position)."""
    table = pq.read_table(file.path)
    assert table.num_rows == file.rows and Path(file.path).stat().st_size == file.bytes and file.scn is None
    return list(zip(*(table[name].to_pylist() for name in ("a", SCN, POSITION)), strict=True))


# --- sealing -----------------------------------------------------------------------------------------


def test_a_sealed_file_has_the_scn_and_the_position_of_every_row(log: Log) -> None:
    log.insert(10, 11)
    log.insert(20, stream_id=8)
    log.insert(30)
    [sealed] = seal(log)
    [own], [other] = sealed.files[7], sealed.files[8]
    assert rows_in(own) == [(10, 1, 0), (11, 1, 1), (30, 3, 2)]
    assert rows_in(other) == [(20, 2, 0)]
    assert own.first_position == 0 and sealed.segment.last_scn == 3


def test_a_sealed_file_says_when_its_rows_arrived(log: Log) -> None:
    log.now = 10.25
    log.insert(1)
    log.now = 11.000001
    log.insert(2, 3)
    [sealed] = seal(log)
    arrived = pq.read_table(sealed.files[7][0].path)[ARRIVED]
    assert arrived.type == pa.timestamp("us")
    assert arrived.cast(pa.int64()).to_pylist() == [10_250_000, 11_000_001, 11_000_001]


def test_files_of_many_rows_are_taken_as_they_are_in_the_order_of_the_rows(log: Log) -> None:
    log.insert(1)
    log.journal.append(
        Insert({7: [table_of(2), BulkFile("bulk/x.parquet", 100, 999), BulkFile("bulk/y.parquet", 5, 9)]})
    )
    log.insert(3)
    [sealed] = seal(log)
    first, x, y, last = sealed.files[7]
    assert rows_in(first) == [(1, 1, 0), (2, 2, 1)] and rows_in(last) == [(3, 3, 107)]
    assert [(file.rows, file.bytes, file.first_position, file.scn) for file in (x, y)] == [
        (100, 999, 2, 2),
        (5, 9, 102, 2),
    ]
    assert x.path.endswith("/streams/7/bulk/x.parquet") and x.at > 0


def test_only_streams_that_are_asked_for_are_sealed(log: Log) -> None:
    log.insert(1)
    log.insert(2, stream_id=8)
    [sealed] = seal(log, 8, 9)
    assert sealed.files.keys() == {8}


def test_rows_of_commits_that_failed_are_not_sealed(log: Log) -> None:
    with pytest.raises(InternalError), log.journal.turn() as turn:
        turn.prepare(Insert({7: [table_of(1), BulkFile("bulk/x.parquet", 9, 9)]}))
        raise InternalError("no")
    log.commit(insert_of(2))
    log.insert(3)
    [sealed] = seal(log)
    assert [rows_in(file) for file in sealed.files[7]] == [[(2, 2, 0), (3, 3, 1)]]


def test_positions_are_those_of_the_records_though_rows_between_them_were_not_kept(log: Log) -> None:
    log.insert(1)
    log.journal.want(7, False)
    log.insert(2, 3, 4)
    log.journal.want(7, True)
    log.insert(5)
    [sealed] = seal(log)
    assert rows_in(sealed.files[7][0]) == [(1, 1, 0), (5, 3, 4)]


def test_what_is_sealed_again_after_a_crash_is_the_same(log: Log) -> None:
    for value in range(5):
        log.insert(value, value)
        if value % 2:
            log.journal.rotate()
    before = [rows_in(file) for sealed in seal(log) for file in sealed.files[7]]
    log.power_cut(seed=3)
    assert [rows_in(file) for sealed in seal(log) for file in sealed.files.get(7, ())] == before


def test_a_full_disk_leaves_no_half_of_a_sealed_file(log: Log) -> None:
    log.insert(*range(100))
    log.journal.rotate()
    for room in (0, 10, 500):
        log.files.room = room
        with pytest.raises(OutOfResources, match="the disk is full: a batch could not be written"):
            seal(log)
        assert list((Path(log.folder).parent / "streams/7/sealed").iterdir()) == []
    log.files.heal()
    [sealed] = seal(log)
    assert len(rows_in(sealed.files[7][0])) == 100


def test_damage_in_a_closed_file_is_found_when_it_is_sealed(log: Log) -> None:
    log.insert(1)
    log.insert(2)
    log.journal.rotate()
    path = Path(log.journal.closed[0].path)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(StorageError, match="the log is damaged"):
        seal(log)


# --- writing -----------------------------------------------------------------------------------------


def test_a_file_is_on_the_disk_if_that_was_asked_for(tmp_path: Path) -> None:
    files, path = FaultyFiles(), str(tmp_path / "x.parquet")
    size = write_parquet(files, path, table_of(1, 2), sync=True)
    assert files.calls["sync"] == 1 and Path(path).stat().st_size == size
    assert pq.read_table(path) == table_of(1, 2)


@pytest.mark.parametrize("call", ["write", "sync"])
def test_a_file_that_could_not_be_written_is_removed(tmp_path: Path, call: str) -> None:
    files, path = FaultyFiles(), tmp_path / "x.parquet"
    files.fail(call)
    with pytest.raises(OSError, match=f"{call} failed"):
        write_parquet(files, str(path), table_of(*range(1000)), sync=True)
    assert not path.exists()


# --- sharing -----------------------------------------------------------------------------------------


def batch_of(folder: Path, groups: list[list[int]]) -> Batch:
    """A file for each list, with a row group of as many rows as each number says."""
    files: list[BatchFile] = []
    position = 0
    for number, sizes in enumerate(groups):
        path = folder / f"{number}.parquet"
        rows = sum(sizes)
        with pq.ParquetWriter(path, SCHEMA) as writer:
            start = position
            for size in sizes:
                writer.write_table(table_of(*range(start, start + size)), row_group_size=max(size, 1))
                start += size
        files.append(BatchFile(str(path), rows, path.stat().st_size, position, scn=number))
        position += rows
    return Batch(7, 0, 100, tuple(files))


def values_of(share: Batch) -> list[int]:
    found: list[int] = []
    for file in share.files:
        groups = file.row_groups
        table = pq.read_table(file.path) if groups is None else pq.ParquetFile(file.path).read_row_groups(list(groups))
        assert table.num_rows == file.rows
        found += table["a"].to_pylist()
    return found


def test_a_batch_of_few_rows_stays_whole(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, [[5], [5]])
    assert shares(batch, tasks=4, few_rows=10) == [batch]
    assert shares(batch, tasks=1, few_rows=0) == [batch]
    assert len(shares(batch, tasks=2, few_rows=9)) == 2


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=6), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(0, 50),
)
def test_shares_have_every_row_once_in_order(
    tmp_path_factory: pytest.TempPathFactory, groups: list[list[int]], tasks: int, few_rows: int
) -> None:
    batch = batch_of(tmp_path_factory.mktemp("shares"), groups)
    parts = shares(batch, tasks, few_rows)
    values = [value for part in parts for value in values_of(part)]
    assert values == list(range(batch.rows))
    assert sum(part.rows for part in parts) == batch.rows
    assert all(part.files for part in parts)
    assert all((part.stream_id, part.after, part.upto) == (7, 0, 100) for part in parts)
    originals = {file.path: file for file in batch.files}
    for file in (file for part in parts for file in part.files):
        original = originals[file.path]
        assert file == replace(original, rows=file.rows, bytes=file.bytes, row_groups=file.row_groups)


def test_shares_are_about_as_large_as_each_other(tmp_path: Path) -> None:
    batch = batch_of(tmp_path, [[10] * 8, [10] * 8])
    assert [part.rows for part in shares(batch, tasks=4, few_rows=0)] == [40, 40, 40, 40]
    assert [len(part.files) for part in shares(batch, tasks=3, few_rows=0)] == [1, 2, 1]
    assert [part.rows for part in shares(batch, tasks=3, few_rows=0)] == [50, 60, 50]
