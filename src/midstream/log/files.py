"""The file system as the log needs it: append and sync, read, list, remove. Nothing else in the log touches a disk.

Whoever implements `FileSystem` over shared storage moves the log there; tests implement one that fails.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from midstream.errors import OutOfResources, StorageError


class OpenFile(Protocol):
    """A file that grows at its end."""

    def write(self, data: Any) -> int: ...

    def sync(self) -> None:
        """Returns when everything written is on the disk."""
        ...

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class FileSystem(Protocol):
    def create(self, path: str) -> OpenFile:
        """A new, empty file."""
        ...

    def reopen(self, path: str) -> OpenFile:
        """A file that is there, to write on at its end."""
        ...

    def read(self, path: str) -> bytes: ...

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if it is not there."""
        ...

    def remove(self, path: str) -> None:
        """Removes a file or a whole folder, if it is there."""
        ...

    def make_folder(self, path: str) -> None:
        """Returns when a folder is there, with those above it, on the disk."""
        ...

    def sync_folder(self, path: str) -> None:
        """Returns when the names in a folder are on the disk."""
        ...

    def sync_file(self, path: str) -> None:
        """Returns when a file that somebody else wrote is on the disk."""
        ...


class LocalFile:
    def __init__(self, path: str, flags: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o644)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            written += os.write(self._descriptor, view[written:])
        return written

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        os.close(self._descriptor)


class LocalFiles:
    """This machine's own file system, or one that is mounted."""

    def create(self, path: str) -> OpenFile:
        return LocalFile(path, os.O_CREAT | os.O_TRUNC)

    def reopen(self, path: str) -> OpenFile:
        return LocalFile(path, 0)

    def read(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):
            for name in self.names(path):
                self.remove(os.path.join(path, name))
            os.rmdir(path)

    def make_folder(self, path: str) -> None:
        if not os.path.isdir(path):
            above = os.path.dirname(path) or "."
            self.make_folder(above)
            os.makedirs(path, exist_ok=True)
            self.sync_folder(above)

    def sync_folder(self, path: str) -> None:
        self._sync(path, os.O_RDONLY | os.O_DIRECTORY)

    def sync_file(self, path: str) -> None:
        self._sync(path, os.O_RDONLY)

    def _sync(self, path: str, flags: int) -> None:
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def disk_errors(what: str) -> Iterator[None]:
    """What a file system says, as an error of ours."""
    try:
        yield
    except OSError as failure:
        if failure.errno in (28, 122):
            raise OutOfResources(
                f"the disk is full: {what}",
                detail=str(failure),
                hint="Nothing of this insert was taken. Free some space, then run it again.",
                sqlstate="53100",
            ) from failure
        raise StorageError(what, detail=str(failure)) from failure
