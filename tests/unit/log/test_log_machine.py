"""Random inserts, commits, readers and files of the log, with disks that fail and power cuts at any call."""

from __future__ import annotations

import itertools
import random
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from faulty_files import PowerCut
from midstream.errors import Error
from midstream.log.batches import POSITION, SCN, BatchFile, Sealer, write_parquet
from midstream.log.journal import Insert, Segment, Unkept
from midstream.log.records import BulkFile
from unit.log.log_model import STREAMS, Model, Reader, Row, Values
from unit.log.small_log import SCHEMA, Log, table_of

sizes = st.integers(0, 30)
kinds = st.sampled_from(["rows", "rows", "rows", "two tables", "file", "file and rows"])
shapes = st.dictionaries(st.sampled_from(STREAMS), st.tuples(kinds, sizes), min_size=1)
seeds = st.integers(0, 2**32)
calls = st.sampled_from(["write", "sync", "truncate", "create", "remove", "sync_folder", "reopen", "read"])


class Interrupted(Error):
    """Between the rows of a commit and the catalog."""


class LogMachine(RuleBasedStateMachine):
    """Every step is made with the log and with the model; a power cut may come in the middle of any."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="log-machine-"))
        self.log = Log(str(self.folder / "log"), wanted=set())
        self.model = Model()
        self.new_value, self.new_reader = itertools.count(), itertools.count()
        self.seed, self.only_killed = 0, False

    def teardown(self) -> None:
        try:
            self.log.files.heal()
            if self.log.journal._broken is not None:
                self.reopen()
            self.log.journal.rotate()
            for reader in self.model.readers.values():
                self.absorb_all(reader)
                assert reader.got == [row for row in self.model.rows[reader.stream_id] if row.scn > reader.since]
        finally:
            self.log.files.end_process()
            shutil.rmtree(self.folder)

    # --- faults ----------------------------------------------------------------------------------

    @rule(after=st.integers(1, 25), seed=seeds, only_killed=st.booleans())
    def die_soon(self, after: int, seed: int, only_killed: bool) -> None:
        self.log.files.cut_power_after(after)
        self.seed, self.only_killed = seed, only_killed

    @rule(call=calls, times=st.integers(1, 2))
    def let_calls_fail(self, call: str, times: int) -> None:
        self.log.files.fail(call, times)

    @rule(room=st.integers(0, 2000))
    def fill_the_disk(self, room: int) -> None:
        self.log.files.room = room

    @rule()
    def heal(self) -> None:
        self.log.files.heal()

    def attempt(self, step: Callable[[], Any]) -> Any:
        """What a step gives, or None where it failed; then everything is as if it had not been, or in doubt."""
        try:
            return step()
        except PowerCut:
            self.die()
        except Error:
            self.log.files.heal()
            if self.log.journal._broken is not None:
                self.reopen()
            self.model.in_doubt = None
        return None

    @rule()
    def die(self) -> None:
        self.end()
        self.open(exactly=False)

    def end(self) -> None:
        """The power goes, or only the process dies: then what was written is still there, and not yet safe."""
        if self.only_killed:
            self.log.files.heal()
        else:
            self.log.files.lose(random.Random(self.seed))

    @rule()
    def reopen(self) -> None:
        try:
            fine = self.log.files.is_sound and self.log.journal._broken is None
            self.log.journal.close()
        except PowerCut:
            self.die()
        else:
            self.open(exactly=fine)

    def open(self, *, exactly: bool) -> None:
        """Opens the log, as often as it takes, and compares it with the model."""
        while True:
            had_faults = not self.log.files.is_sound
            try:
                self.log.wanted = {reader.stream_id for reader in self.model.readers.values()}
                self.log.open()
                break
            except PowerCut:
                self.end()
                exactly = False
            except Error:
                if not had_faults:
                    raise
                self.log.files.heal()
                exactly = False
        kept = self.kept()
        self.model.resolve(kept)
        self.model.check_kept(kept)
        for stream_id in STREAMS:
            self.model.check_standing(stream_id, self.log.journal.standing(stream_id).rows, exactly=exactly)
        assert self.log.journal.last_scn >= self.model.newest_scn

    # --- inserts ---------------------------------------------------------------------------------

    @rule(shape=shapes)
    def insert(self, shape: dict[int, tuple[str, int]]) -> None:
        values = self.values_for(shape)

        def append() -> int:
            insert = self.made_ready(values, shape)
            self.model.in_doubt = values
            return self.log.journal.append(insert)

        scn = self.attempt(append)
        if scn is not None:
            self.model.acknowledge(scn, values)
        self.model.in_doubt = None

    @rule(shape=shapes, fails=st.booleans())
    def commit(self, shape: dict[int, tuple[str, int]], fails: bool) -> None:
        """A commit that also changes tables: its rows count if the catalog knows it."""
        values = self.values_for(shape)

        def commit() -> int:
            insert = self.made_ready(values, shape)
            with self.log.journal.turn() as turn:
                turn.prepare(insert)
                if fails:
                    raise Interrupted("the catalog said no")
                self.log.commits.add(turn.scn)
                self.model.acknowledge(turn.scn, values)
                turn.commit()
                return turn.scn

        self.attempt(commit)

    @rule(sizes=st.lists(st.tuples(st.sampled_from(STREAMS), sizes), min_size=2, max_size=5))
    @precondition(lambda self: self.log.files.is_sound)
    def insert_at_once(self, sizes: list[tuple[int, int]]) -> None:
        """Several threads share a frame."""
        inserts = [self.values_for({stream_id: ("rows", size)}) for stream_id, size in sizes]
        given: dict[int, Values] = {}

        def append(values: Values) -> None:
            given[self.log.journal.append(self.made_ready(values, {}))] = values

        threads = [threading.Thread(target=append, args=(values,)) for values in inserts]
        with self.log.journal.alone():
            for thread in threads:
                thread.start()
            while len(self.log.journal._queue) < len(threads):
                threads[0].join(0.001)
        for thread in threads:
            thread.join()
        assert len(given) == len(inserts)
        for scn, values in sorted(given.items()):
            self.model.acknowledge(scn, values)

    @rule(stream_id=st.sampled_from(STREAMS), rows=st.integers(1, 1000))
    @precondition(lambda self: self.log.files.is_sound)
    def insert_what_nobody_reads(self, stream_id: int, rows: int) -> None:
        if not self.model.is_wanted(stream_id):
            scn = self.log.journal.append(Insert({stream_id: [Unkept(rows, rows)]}))
            self.model.acknowledge(scn, {stream_id: range(rows)})

    def values_for(self, shape: dict[int, tuple[str, int]]) -> Values:
        return {s: list(itertools.islice(self.new_value, size)) for s, (_, size) in shape.items()}

    def made_ready(self, values: Values, shape: dict[int, tuple[str, int]]) -> Insert:
        return Insert({s: self.items(s, own, shape.get(s, ("rows", 0))[0]) for s, own in values.items()})

    def items(self, stream_id: int, values: Sequence[int], kind: str) -> list[Any]:
        if kind == "rows" or len(values) < 2:
            return [table_of(*values)]
        if kind == "file":
            return [self.bulk_file(stream_id, values)]
        half = len(values) // 2
        rest = table_of(*values[half:])
        return [table_of(*values[:half]) if kind == "two tables" else self.bulk_file(stream_id, values[:half]), rest]

    def bulk_file(self, stream_id: int, values: Sequence[int]) -> BulkFile:
        folder, name = f"{self.folder}/streams/{stream_id}/bulk", f"{values[0]}.parquet"
        files = self.log.files
        try:
            files.make_folder(folder)
            size = write_parquet(files, f"{folder}/{name}", table_of(*values), sync=True)
            files.sync_folder(folder)
        except OSError as failure:
            raise Interrupted(str(failure)) from failure
        return BulkFile(f"bulk/{name}", len(values), size)

    # --- readers ---------------------------------------------------------------------------------

    @initialize(stream_id=st.sampled_from(STREAMS))
    def begin_with_a_reader(self, stream_id: int) -> None:
        self.register(stream_id)

    @rule(stream_id=st.sampled_from(STREAMS))
    @precondition(lambda self: len(self.model.readers) < 4)
    def register(self, stream_id: int) -> None:
        def register() -> None:
            with self.log.journal.alone():
                self.log.journal.rotate()
                last = self.log.journal.last_scn
                self.model.readers[next(self.new_reader)] = Reader(stream_id, last, last)
                self.log.journal.want(stream_id, True)

        self.attempt(register)

    @rule(data=st.data())
    @precondition(lambda self: self.model.readers)
    def drop_reader(self, data: st.DataObject) -> None:
        gone = self.model.readers.pop(data.draw(st.sampled_from(sorted(self.model.readers))))
        self.log.journal.want(gone.stream_id, self.model.is_wanted(gone.stream_id))

    @rule(data=st.data(), files=st.integers(1, 3))
    @precondition(lambda self: self.model.readers)
    def absorb(self, data: st.DataObject, files: int) -> None:
        reader = self.model.readers[data.draw(st.sampled_from(sorted(self.model.readers)))]
        self.attempt(lambda: self.absorb_all(reader, files))

    def absorb_all(self, reader: Reader, files: int = 1000) -> None:
        """A reader takes the next files; each is recorded with its rows, or not at all."""
        new = [segment for segment in self.log.journal.closed if segment.last_scn > reader.absorbed]
        for segment in new[:files]:
            sealer = Sealer(f"{self.folder}/streams", self.log.files, self.log.journal)
            sealed = sealer.seal(segment, {reader.stream_id: SCHEMA})
            rows = [row for file in sealed.files.get(reader.stream_id, ()) for row in rows_in(file)]
            reader.got += rows
            reader.absorbed = segment.last_scn
            self.model.check_reader(reader)

    # --- files -----------------------------------------------------------------------------------

    @rule()
    def rotate(self) -> None:
        self.attempt(self.log.journal.rotate)

    @rule()
    def cut(self) -> None:
        def is_needed(segment: Segment) -> bool:
            return any(self.model.is_needed(record.stream_id, record.last_scn) for record in segment.records)

        for segment in self.attempt(lambda: self.log.journal.cut(is_needed)) or ():
            assert not is_needed(segment)

    @invariant()
    def streams_stand_where_the_model_says(self) -> None:
        for stream_id in STREAMS:
            assert self.log.journal.standing(stream_id).rows == self.model.counted[stream_id]

    def kept(self) -> dict[int, list[Row]]:
        """What the log holds, whoever reads it."""
        found: dict[int, list[Row]] = {stream_id: [] for stream_id in STREAMS}
        sealer = Sealer(f"{self.folder}/streams", self.log.files, self.log.journal)
        with self.log.files.undisturbed():
            for segment in self.log.journal.closed:
                for stream_id, files in sealer.seal(segment, dict.fromkeys(STREAMS, SCHEMA)).files.items():
                    found[stream_id] += [row for file in files for row in rows_in(file)]
        return found


def rows_in(file: BatchFile) -> list[Row]:
    table = pq.ParquetFile(file.path).read(use_threads=False)
    values = table["a"].to_pylist()
    if file.scn is None:
        return list(map(Row, table[SCN].to_pylist(), table[POSITION].to_pylist(), values))
    return [Row(file.scn, file.first_position + number, value) for number, value in enumerate(values)]


def run(examples: int, steps: int, *, always_the_same: bool) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    wanted = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=always_the_same,
        deadline=None,
        suppress_health_check=checks,
        print_blob=True,
    )
    run_state_machine_as_test(LogMachine, settings=wanted)


def test_every_reader_gets_every_acknowledged_row_once() -> None:
    run(examples=80, steps=40, always_the_same=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_every_reader_gets_every_acknowledged_row_once_in_many_runs() -> None:
    run(examples=5000, steps=60, always_the_same=False)
