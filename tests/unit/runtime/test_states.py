"""Which files of partials are merged, and when a read can leave most groups as they are."""

from __future__ import annotations

from typing import Any, cast

import pytest

from midstream.runtime.states import FEW_FILES, KeptFile, State, main_and_rest


def state_of(*files: tuple[int, int]) -> State:
    """Files of so many rows and of a level, the oldest first."""
    made = [KeptFile(f"state/{n}.parquet", rows, rows * 8, n, level) for n, (rows, level) in enumerate(files, 1)]
    return State(cast(Any, None), (1,), 0, "state", made)


def names(files: list[KeptFile]) -> list[int]:
    return sorted(file.upto for file in files)


def test_many_files_of_a_level_are_merged_whoever_reads() -> None:
    state = state_of((1_000_000, 3), *[(10, 0)] * FEW_FILES)
    assert names(state.crowded((), idle=False)) == list(range(2, FEW_FILES + 2))


def test_large_files_are_merged_when_there_is_nothing_else_to_do() -> None:
    state = state_of((1_000_000, 2), (300_000, 1), (1_000, 0))
    assert state.crowded((), idle=False) == []
    assert names(state.crowded((), idle=True)) == [1, 2]


@pytest.mark.parametrize(("new", "is_merged"), [(330_000, False), (340_000, True), (480_000, True)])
def test_while_somebody_reads_the_small_ones_stay_small_beside_the_large_run(new: int, is_merged: bool) -> None:
    state = state_of((1_000_000, 2), (new - 60_000, 0), (60_000, 0))
    assert state.crowded((), idle=False) == []
    assert names(state.crowded((), idle=False, is_read=True)) == ([1, 2, 3] if is_merged else [])
    assert main_and_rest(state.files) is not None, "it is merged before a read has to merge the large run"


def test_what_a_reader_waits_for_is_not_merged_with_what_came_after() -> None:
    state = state_of((1_000_000, 2), (200_000, 0), (200_000, 0))
    assert names(state.crowded((2,), idle=False, is_read=True)) == []
    assert names(state.crowded((3,), idle=False, is_read=True)) == [1, 2, 3]


def test_a_batch_costs_as_much_after_many_as_after_few() -> None:
    """Rows that merges read for each batch, and files that a read finds, for batches of 500 of 100,000 groups."""
    groups, batch = 100_000, 500
    state = state_of()
    read, found = [0] * 40_000, 0
    for number in range(len(read)):
        state.files.append(KeptFile(f"state/{number}.parquet", batch, 0, number))
        while merged := state.crowded((), idle=False, is_read=True):
            rows = sum(file.rows for file in merged)
            level, upto = 1 + max(file.level for file in merged), max(file.upto for file in merged)
            path = f"{number}-{level}/merged.parquet"
            state.files = [file for file in state.files if file not in merged]
            state.files.insert(0, KeptFile(path, min(rows, groups), 0, upto, level))
            read[number] += rows
        found = max(found, len(state.files))

    def mean(begin: int, end: int) -> float:
        return sum(read[begin:end]) / (end - begin)

    assert mean(20_000, 40_000) < 1.1 * mean(2_000, 20_000) < 20 * batch
    assert found <= 6 * FEW_FILES
