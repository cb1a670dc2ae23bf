"""Frames: the pieces in which a log file is written, synced and checked.

    frame = magic, checksum, number, length of the body | body

One frame is one write and one sync. A file is read frame by frame. What does not check at the end of the newest file
is a write that never ended, of which nobody was told: it is cut off. A frame that does not check although a later one
does was on the disk once: that is damage, and an error.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from midstream.errors import StorageError

MAGIC = b"\xabMSLOG1\n"
_HEADER = struct.Struct("<8sIIQQ")
"""Magic, checksum of all that follows it, a zero, number of the frame in its file, length of the body."""
_CHECKED_FROM = 12


@dataclass(frozen=True)
class Frame:
    number: int
    body: memoryview
    end: int
    """Where the next frame begins."""


def frame(number: int, body: bytes) -> bytes:
    rest = _HEADER.pack(MAGIC, 0, 0, number, len(body))[_CHECKED_FROM:]
    checksum = zlib.crc32(body, zlib.crc32(rest))
    return b"".join((MAGIC, checksum.to_bytes(4, "little"), rest, body))


def read_frames(data: bytes, name: str, *, is_last: bool) -> Iterator[Frame]:
    """The whole frames of a file. In the newest file (`is_last`) an unfinished end is passed over."""
    place, number = 0, 0
    while place < len(data) or (number == 0 and not is_last):
        found = _frame_at(data, place, number)
        if found is None:
            if not is_last or _later_frame(data, place, number):
                raise StorageError(
                    f"the log is damaged: {name} at byte {place:,}",
                    detail="Rows that were acknowledged cannot be read back; nothing was changed.",
                    hint="Restore the database's folder from a copy.",
                    sqlstate="XX001",
                )
            return
        yield found
        place, number = found.end, number + 1


def _frame_at(data: bytes, place: int, number: int | None) -> Frame | None:
    if len(data) - place < _HEADER.size:
        return None
    magic, checksum, _, found, length = _HEADER.unpack_from(data, place)
    start, end = place + _HEADER.size, place + _HEADER.size + length
    if magic != MAGIC or end > len(data) or (number is not None and found != number):
        return None
    view = memoryview(data)
    if zlib.crc32(view[place + _CHECKED_FROM : end]) != checksum:
        return None
    return Frame(found, view[start:end], end)


def _later_frame(data: bytes, place: int, number: int) -> bool:
    """Whether a whole frame with a later number follows somewhere."""
    while (place := data.find(MAGIC, place + 1)) >= 0:
        found = _frame_at(data, place, None)
        if found is not None and found.number > number:
            return True
    return False
