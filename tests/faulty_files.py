"""A file system that fails as disks do, around the real one: the log under test stays as it is.

    files.room = 100              the disk is full after so many bytes; what fits is written
    files.fail("sync", times=2)   the next calls fail with an I/O error
    files.cut_power_after(7)      the 7th call from now does not return, nor does any other
    files.lose(random)            what a power cut leaves: all that was synced, and anything of the rest

What was written and not synced is lost wholly, cut at any byte, or has holes of zeros; a name that was made or removed
since its folder was synced may be as it was before. Names change in the order of the calls, as in a file system that
keeps a journal.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from midstream.log.files import LocalFiles, OpenFile

PAGE = 512
"""What a disk writes wholly or not at all. Small, so that few rows are several pages."""


class PowerCut(BaseException):
    """Nothing that the process would do now happens: no handler of errors may take it for one."""


@dataclass
class _NameChange:
    folder: str
    path: str
    before: bytes | None
    """What had the name: None where nothing had it."""


class FaultyFiles:
    """Implements `FileSystem`. Thread-safe as far as the one that it is around."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[[], None]] = {}
        """By the name of a call: what to do first, such as to wait for a thread."""
        self._local = LocalFiles()
        self._failing: Counter[str] = Counter()
        self._calls_left: int | None = None
        self._synced: dict[str, bytes] = {}
        """What a power cut leaves of a file that was written here; all of it where a file is not named."""
        self._changes: list[_NameChange] = []
        self._open: set[_FaultyFile] = set()

    # --- faults ----------------------------------------------------------------------------------

    def fail(self, call: str, times: int = 1) -> None:
        self._failing[call] = times

    def heal(self) -> None:
        self._failing.clear()
        self.room = self._calls_left = None

    @property
    def is_sound(self) -> bool:
        return self.room is None and self._calls_left is None and not self._failing.total()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """To look at what is there: nothing fails meanwhile, and afterwards what was to come."""
        before = self.room, self._calls_left, self._failing
        self.room, self._calls_left, self._failing = None, None, Counter()
        try:
            yield
        finally:
            self.room, self._calls_left, self._failing = before

    def cut_power_after(self, calls: int) -> None:
        self._calls_left = calls

    def lose(self, chosen: random.Random) -> None:
        """The power is back: the disk has what it has."""
        for path in [path for path in self._synced if os.path.exists(path)]:
            Path(path).write_bytes(_torn(self._synced[path], Path(path).read_bytes(), chosen))
        undone = chosen.randint(0, len(self._changes))
        for change in reversed(self._changes[len(self._changes) - undone :]):
            self._undo(change)
        self._synced.clear()
        self._changes.clear()
        self._calls_left = None

    def end_process(self) -> None:
        """Closes the files that a process had open when it died; they are not written to again."""
        for file in list(self._open):
            file.close()

    def _undo(self, change: _NameChange) -> None:
        if change.before is None:
            self._local.remove(change.path)
        else:
            Path(change.path).write_bytes(change.before)

    def _meet(self, call: str) -> None:
        """One call: counted, and failed if its time has come."""
        self.calls[call] += 1
        if call in self.before:
            self.before[call]()
        if self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left <= 0:
                raise PowerCut
        if self._failing[call] > 0:
            self._failing[call] -= 1
            raise OSError(errno.EIO, f"{call} failed")

    # --- the file system -------------------------------------------------------------------------

    def create(self, path: str) -> OpenFile:
        self._meet("create")
        self._changes.append(_NameChange(os.path.dirname(path), path, self._left_of(path)))
        self._synced[path] = b""
        return _FaultyFile(self, path, self._local.create(path))

    def reopen(self, path: str) -> OpenFile:
        self._meet("reopen")
        return _FaultyFile(self, path, self._local.reopen(path))

    def read(self, path: str) -> bytes:
        self._meet("read")
        return self._local.read(path)

    def names(self, folder: str) -> list[str]:
        return self._local.names(folder)

    def remove(self, path: str) -> None:
        self._meet("remove")
        for each in _files_under(path):
            self._changes.append(_NameChange(os.path.dirname(each), each, self._left_of(each)))
            self._synced.pop(each, None)
        self._local.remove(path)

    def make_folder(self, path: str) -> None:
        self._meet("make_folder")
        os.makedirs(path, exist_ok=True)

    def sync_folder(self, path: str) -> None:
        self._meet("sync_folder")
        self._changes = [change for change in self._changes if change.folder != path]

    def sync_file(self, path: str) -> None:
        self._meet("sync_file")
        self._synced.pop(path, None)

    def _left_of(self, path: str) -> bytes | None:
        if path in self._synced:
            return self._synced[path]
        return Path(path).read_bytes() if os.path.exists(path) else None


class _FaultyFile:
    def __init__(self, files: FaultyFiles, path: str, file: OpenFile) -> None:
        self._files = files
        self._path = path
        self._file = file
        files._open.add(self)

    def write(self, data: Any) -> int:
        self._note()
        view = memoryview(data).cast("B")
        room = self._files.room
        fits = len(view) if room is None else min(room, len(view))
        try:
            self._files._meet("write")
        except (OSError, PowerCut):
            self._file.write(view[: fits // 2])
            raise
        self._file.write(view[:fits])
        if room is not None:
            self._files.room = room - fits
        if fits < len(view):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return fits

    def sync(self) -> None:
        self._note()
        self._files._meet("sync")
        self._files._synced[self._path] = Path(self._path).read_bytes()

    def truncate(self, size: int) -> None:
        self._note()
        self._files._meet("truncate")
        self._file.truncate(size)

    def close(self) -> None:
        if self in self._files._open:
            self._files._open.remove(self)
            self._file.close()

    def _note(self) -> None:
        """A file that was there before this process: what it had is on the disk."""
        if self not in self._files._open:
            raise PowerCut
        if self._path not in self._files._synced and os.path.exists(self._path):
            self._files._synced[self._path] = Path(self._path).read_bytes()


def _files_under(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path] if os.path.exists(path) else []
    return [str(each) for each in sorted(Path(path).rglob("*")) if each.is_file()]


def _torn(synced: bytes, written: bytes, chosen: random.Random) -> bytes:
    """What was synced, with any part of what came after: an end that was cut off may be back, too."""
    if written == synced or chosen.random() < 0.25:
        return synced
    if len(written) < len(synced):
        return synced[: chosen.randint(len(written), len(synced))]
    end = len(written) if chosen.random() < 0.4 else chosen.randint(len(synced), len(written))
    kept = bytearray(written[:end])
    if chosen.random() < 0.5:
        _make_holes(kept, len(synced), chosen)
    return bytes(kept)


def _make_holes(data: bytearray, start: int, chosen: random.Random) -> None:
    """Some pages never reached the disk though later ones did."""
    for page in range(start // PAGE, len(data) // PAGE + 1):
        first, last = max(start, page * PAGE), min(len(data), (page + 1) * PAGE)
        if chosen.random() < 0.5 and first < last:
            data[first:last] = bytes(last - first)
