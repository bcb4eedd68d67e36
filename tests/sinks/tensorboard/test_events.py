"""The bytes of event files, beside TensorBoard's own protocol buffers and CRC."""

from __future__ import annotations

import struct

import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

from chiplog.core.values.pictures import png
from chiplog.sinks.tensorboard import events as tfevents


def events(data: bytes) -> list[Event]:
    """The events in framed bytes, each checked as TensorBoard checks them."""
    found = []
    while data:
        size, check = struct.unpack("<QI", data[:12])
        body, data = data[12 : 12 + size], data[12 + size :]
        assert check == masked_crc32c(struct.pack("<Q", size))
        assert struct.unpack("<I", data[:4])[0] == masked_crc32c(body)
        found.append(Event.FromString(body))
        data = data[4:]
    return found


@pytest.mark.parametrize("step", [0, 1, 127, 128, 300, 2**40, 2**63 - 1, -1])
def test_a_row_is_one_event(step: int) -> None:
    """Scalars in their order, as 32-bit floats, at their step and time."""
    tags = tfevents.Tags()
    row = {"loss": 0.1, "lr": 3, "": 1.5, "ünï/код": -0.0, "long" * 200: 2.0, "on": True}
    for _ in range(2):  # the second time the tags are known
        (event,) = events(tags.scalars(1_700_000_000_123_456_789, step, row))
        assert (event.step, event.wall_time) == (step, 1_700_000_000.123456789)
        assert [one.tag for one in event.summary.value] == list(row)
        assert [one.simple_value for one in event.summary.value] == [
            struct.unpack("<f", struct.pack("<f", value))[0] for value in row.values()
        ]


def test_numbers_beyond_a_float_become_infinite() -> None:
    """And never break the row they stand in."""
    row = {"huge": 10**400, "low": -(10**400), "double": 1e300, "nan": float("nan"), "odd": "x", "fine": 1.0}
    (event,) = events(tfevents.Tags().scalars(0, 0, row))  # type: ignore[arg-type]
    values = [one.simple_value for one in event.summary.value]
    assert values[:3] == [float("inf"), float("-inf"), float("inf")]
    assert values[3] != values[3] and values[4] != values[4]
    assert values[5] == 1.0


def test_names_that_are_no_unicode_are_escaped() -> None:
    """A lone surrogate has no UTF-8."""
    (event,) = events(tfevents.Tags().scalars(0, 0, {"a\ud800b": 1.0}))
    assert event.summary.value[0].tag == "a\\ud800b"


JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080020004001011100ffd9")


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480), (640, 480)),
        (b"GIF89a" + struct.pack("<HH", 7, 9), (7, 9)),
        (JPEG, (64, 32)),
        (b"\xff\xd8\xff", (0, 0)),
        (b"RIFF....WEBP", (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_a_picture_says_how_large_it_is(data: bytes, size: tuple[int, int]) -> None:
    """PNG, GIF and JPEG; others are kept without."""
    assert tfevents.dimensions(data) == size


def test_media_are_values_that_tensorboard_knows() -> None:
    """Text as a tensor of its plugin, histograms and images in their own messages."""
    import numpy

    picture = png(numpy.zeros((4, 6, 3), dtype="uint8"))
    said = tfevents.text(10**9, 3, "sample", "hello") + tfevents.histogram(10**9, 3, "h", [0.0, 1.0, 3.0], [4.0, 2.0])
    text, histogram, image = (one.summary.value[0] for one in events(said + tfevents.image(10**9, 3, "im", picture)))
    assert (text.tag, text.tensor.string_val[0]) == ("sample", b"hello")
    assert text.metadata.plugin_data.plugin_name == "text"
    assert (list(histogram.histo.bucket_limit), list(histogram.histo.bucket)) == ([1.0, 3.0], [4.0, 2.0])
    assert (histogram.histo.min, histogram.histo.max, histogram.histo.num, histogram.histo.sum) == (0.0, 3.0, 6.0, 6.0)
    (known,) = events(tfevents.histogram(10**9, 3, "h", [0.0, 1.0, 3.0], [4.0, 2.0], (5.0, 9.0)))
    assert (known.summary.value[0].histo.sum, known.summary.value[0].histo.sum_squares) == (5.0, 9.0)
    assert (image.image.width, image.image.height, image.image.encoded_image_string) == (6, 4, picture)
