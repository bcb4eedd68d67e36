"""The checksum of TFRecords."""

from __future__ import annotations

import random
import zlib

from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import crc32c as theirs

from chiplog.store.tfrecord_crc import crc32c


def test_the_crc_is_that_of_castagnoli() -> None:
    """The published check value, which is not zlib's."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    assert crc32c(b"123456789") != zlib.crc32(b"123456789")


def test_the_crc_is_that_of_tensorboard() -> None:
    """For any bytes."""
    chance = random.Random(4)
    for size in range(60):
        data = chance.randbytes(size)
        assert crc32c(data) == theirs(data)
