"""TFRecords, byte by byte: whole frames, damaged ones, and one that is being written."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.store.foreign.tfrecords import CHUNK, FOOT, HEAD, Reader
from chiplog.store.tfrecord_crc import crc32c


def checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF).to_bytes(4, "little")


def frame(data: bytes) -> bytes:
    length = len(data).to_bytes(8, "little")
    return length + checksum(length) + data + checksum(data)


def read(path: Path, data: bytes, offset: int = 0) -> tuple[list[bytes], Reader]:
    path.write_bytes(data)
    reader = Reader(path, offset)
    return [frames.data[start:end] for frames in reader.read() for start, end in frames.spans], reader


@pytest.mark.parametrize(
    "bodies", [[b"one", b"two"], [b"%03d" % at for at in range(50)], [b"x" * (CHUNK + 10), b"last"]]
)
def test_whole_frames_come_back(tmp_path: Path, bodies: list[bytes]) -> None:
    """Few or many of one length, which are checked together, and one that is longer than a chunk."""
    records, reader = read(tmp_path / "file", b"".join(map(frame, bodies)))
    assert records == bodies
    assert (reader.damage, reader.unfinished) == ([], 0)


@pytest.mark.parametrize("count", [3, 30])
def test_a_frame_with_damaged_data_is_left_out(tmp_path: Path, count: int) -> None:
    """Its length is whole, so that the next frame is where it should be."""
    bodies = [b"%03d" % at for at in range(count)]
    size = HEAD + 3 + FOOT
    data = bytearray(b"".join(map(frame, bodies)))
    data[size + HEAD] ^= 1
    records, reader = read(tmp_path / "file", bytes(data))
    assert records == [bodies[0], *bodies[2:]]
    assert reader.damage == [(size, 2 * size)]


def test_the_next_whole_frame_is_searched_for_behind_a_damaged_length(tmp_path: Path) -> None:
    """Everything before it is damage."""
    data = bytearray(frame(b"one") + frame(b"two") + frame(b"three"))
    data[HEAD + 3 + FOOT] ^= 1
    records, reader = read(tmp_path / "file", bytes(data))
    assert records == [b"one", b"three"]
    assert reader.damage == [(len(frame(b"one")), len(frame(b"one") + frame(b"two")))]


def test_a_frame_that_is_being_written_is_left_for_the_next_time(tmp_path: Path) -> None:
    """It is not damage, and its end is read from where reading stopped."""
    whole, growing = frame(b"one"), frame(b"two")
    records, reader = read(tmp_path / "file", whole + growing[:-1])
    assert records == [b"one"] and reader.damage == [] and reader.unfinished == len(growing) - 1
    assert read(tmp_path / "file", whole + growing, len(whole))[0] == [b"two"]
