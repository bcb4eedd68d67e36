"""Protocol buffers as others write them: every field, in order, and an error where the bytes end too early."""

from __future__ import annotations

import pytest

from chiplog.store.protobuf import reader, writer


def test_fields_come_back_as_they_were_written() -> None:
    """Numbers, texts and messages, with their field numbers and in their order."""
    data = (
        writer.integer(1, 300) + writer.message(2, writer.utf8("ünï")) + writer.double(3, -2.5) + writer.integer(1, 7)
    )
    numbers = [number for number, _, _ in reader.fields(data)]
    last = reader.by_number(data)
    assert numbers == [1, 2, 3, 1]
    assert (reader.integer(last[1]), reader.text(last[2]), reader.double(last[3])) == (7, "ünï", -2.5)


@pytest.mark.parametrize("value", [0, 1, -1, 2**62, -(2**63)])
def test_integers_keep_their_sign(value: int) -> None:
    """A negative one is stored as its two's complement of 64 bits."""
    assert reader.integer(reader.by_number(writer.integer(5, value)).get(5)) == value


@pytest.mark.parametrize(
    "data",
    [
        b"\x12\x05abc",  # five bytes are announced, three are there
        b"\x09\x00\x00",  # half a double
        b"\x08\xff",  # a number whose last byte is missing
        b"\x08" + b"\xff" * 11,  # a number of more than 64 bits
        b"\x0b",  # a group, which is obsolete
    ],
)
def test_bytes_that_are_not_a_message_are_an_error(data: bytes) -> None:
    """A reader of a damaged file learns of it, and does not get half a value."""
    with pytest.raises(reader.BadMessage):
        list(reader.fields(data))


def test_repeated_integers_come_one_by_one_or_together() -> None:
    """Both are the same list."""
    assert reader.varints(reader.VARINT, 2**64 - 1) == [-1]
    assert reader.varints(reader.BYTES, b"\x01\xac\x02") == [1, 300]


def test_a_value_of_another_kind_is_empty() -> None:
    """A file may have any field of any kind."""
    assert (reader.text(3), reader.message(None), reader.integer(b"x"), reader.double(b"abc")) == ("", b"", 0, 0.0)
