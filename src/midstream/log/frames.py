"""Frames: the pieces in which a log file is written, synced and checked.

    frame = magic, checksum, mark of the file, number, length of the body | body

One frame is one write and one sync. A file is read frame by frame. What does not check at the end of the newest file
is a write that never ended, of which nobody was told: it is cut off. A frame that does not check although a later one
does was on the disk once: that is damage, and an error. The mark is drawn anew for each file, so that rows which
hold the bytes of a frame are not taken for a later one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from midstream.errors import StorageError

MAGIC = b"\xabMSLOG1\n"
_HEADER = struct.Struct("<8sIIQQ")
"""Magic, checksum of all that follows it, mark of the file, number of the frame in it, length of the body."""
_CHECKED_FROM = 12


@dataclass(frozen=True)
class Frame:
    number: int
    mark: int
    body: memoryview
    end: int
    """Where the next frame begins."""


def frame(number: int, body: bytes, mark: int) -> bytes:
    rest = _HEADER.pack(MAGIC, 0, mark, number, len(body))[_CHECKED_FROM:]
    checksum = zlib.crc32(body, zlib.crc32(rest))
    return b"".join((MAGIC, checksum.to_bytes(4, "little"), rest, body))


def read_frames(data: bytes, name: str, *, is_last: bool) -> Iterator[Frame]:
    """The whole frames of a file. In the newest file (`is_last`) an unfinished end is passed over."""
    place, number, mark = 0, 0, None
    while place < len(data) or (number == 0 and not is_last):
        found = _frame_at(data, place, number, mark)
        if found is None:
            if not is_last or _later_frame(data, place, number, mark):
                raise damage(name, place)
            return
        yield found
        place, number, mark = found.end, number + 1, found.mark


def damage(name: str, place: int) -> StorageError:
    return StorageError(
        f"the log is damaged: {name} at byte {place:,}",
        detail="Rows that were acknowledged cannot be read back; nothing was changed.",
        hint="Restore the database's folder from a copy.",
        sqlstate="XX001",
    )


def _frame_at(data: bytes, place: int, number: int | None, mark: int | None) -> Frame | None:
    if len(data) - place < _HEADER.size:
        return None
    magic, checksum, of_file, found, length = _HEADER.unpack_from(data, place)
    start, end = place + _HEADER.size, place + _HEADER.size + length
    if magic != MAGIC or end > len(data) or (number is not None and found != number):
        return None
    if mark is not None and of_file != mark:
        return None
    view = memoryview(data)
    if zlib.crc32(view[place + _CHECKED_FROM : end]) != checksum:
        return None
    return Frame(found, of_file, view[start:end], end)


def _later_frame(data: bytes, place: int, number: int, mark: int | None) -> bool:
    """Whether a whole frame of the file with a later number follows somewhere."""
    while (place := data.find(MAGIC, place + 1)) >= 0:
        found = _frame_at(data, place, None, mark)
        if found is not None and found.number > number:
            return True
    return False
