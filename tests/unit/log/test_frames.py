"""Frames: what was written is read back, and what was damaged is never taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.errors import StorageError
from midstream.log.frames import frame, read_frames

BODIES = [b"first", b"", b"the third has some more bytes", bytes(range(60))]
MARK = 0xC0FFEE


def file_of(bodies: list[bytes]) -> bytes:
    return b"".join(frame(number, body, MARK) for number, body in enumerate(bodies))


def bodies_in(data: bytes, *, is_last: bool) -> list[bytes]:
    return [bytes(each.body) for each in read_frames(data, "1.log", is_last=is_last)]


def ends_of(bodies: list[bytes]) -> list[int]:
    return [each.end for each in read_frames(file_of(bodies), "1.log", is_last=True)]


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=8), st.booleans())
def test_frames_are_read_back_in_order(bodies: list[bytes], is_last: bool) -> None:
    assert bodies_in(file_of(bodies), is_last=is_last) == bodies


def test_every_frame_says_where_the_next_begins() -> None:
    whole = file_of(BODIES)
    assert ends_of(BODIES)[-1] == len(whole)
    assert bodies_in(whole[: ends_of(BODIES)[1]], is_last=True) == BODIES[:2]


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_is_damage_unless_it_is_in_the_last_frame_of_the_newest_file(flip: int) -> None:
    whole, begin_of_last = file_of(BODIES), ends_of(BODIES)[-2]
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= flip
        if place >= begin_of_last:
            assert bodies_in(bytes(data), is_last=True) == BODIES[:-1], place
        else:
            with pytest.raises(StorageError, match=r"the log is damaged: 1\.log at byte"):
                bodies_in(bytes(data), is_last=True)
        with pytest.raises(StorageError, match="the log is damaged"):
            bodies_in(bytes(data), is_last=False)


def test_a_truncated_newest_file_is_cut_at_the_last_whole_frame() -> None:
    whole, ends = file_of(BODIES), ends_of(BODIES)
    for size in range(len(whole)):
        whole_frames = sum(end <= size for end in ends)
        assert bodies_in(whole[:size], is_last=True) == BODIES[:whole_frames], size


def test_a_closed_file_that_ends_in_a_frame_is_damaged() -> None:
    whole, ends = file_of(BODIES), ends_of(BODIES)
    for size in set(range(len(whole))) - set(ends):
        with pytest.raises(StorageError, match="the log is damaged"):
            bodies_in(whole[:size], is_last=False)


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_any_damage_at_the_end_leaves_whole_frames_only(data: st.DataObject) -> None:
    bodies = data.draw(st.lists(st.binary(max_size=100), min_size=1, max_size=5))
    whole, ends = file_of(bodies), [0, *ends_of(bodies)]
    kept = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.one_of(st.binary(max_size=100), st.integers(0, 200).map(bytes)))
    found = bodies_in(whole[:kept] + end, is_last=True)
    assert found == bodies[: len(found)]
    assert len(found) >= sum(place <= kept for place in ends[1:])


def test_rows_that_look_like_a_later_frame_do_not_make_a_torn_write_damage() -> None:
    rows = b"rows of a client who stores files of logs: " + frame(99, b"inner", mark=1) + frame(7, b"", mark=0)
    data = file_of([b"first", rows])
    for size in range(ends_of([b"first", rows])[0], len(data)):
        assert bodies_in(data[:size], is_last=True) == [b"first"]


def test_a_frame_of_another_file_or_place_is_not_read() -> None:
    with pytest.raises(StorageError):
        bodies_in(frame(0, b"a", mark=1) + frame(1, b"b", mark=2) + frame(2, b"c", mark=1), is_last=True)
    assert bodies_in(frame(0, b"a", mark=1) + frame(0, b"again", mark=1), is_last=True) == [b"a"]


def test_a_closed_file_without_a_frame_is_damaged() -> None:
    assert bodies_in(b"", is_last=True) == []
    with pytest.raises(StorageError, match="1\\.log at byte 0") as refused:
        bodies_in(b"", is_last=False)
    assert refused.value.sqlstate == "XX001"
    assert refused.value.hint == "Restore the database's folder from a copy."
