"""Protocol buffers as bytes, beside the official package."""

from __future__ import annotations

import pytest
from google.protobuf.wrappers_pb2 import BytesValue, DoubleValue, Int64Value, StringValue

from chiplog.store.protobuf import writer


@pytest.mark.parametrize("value", [1, 127, 128, 300, 2**40, 2**63 - 1, -1, -(2**63)])
def test_integers_are_those_of_the_official_package(value: int) -> None:
    """Also negative ones."""
    assert writer.integer(1, value) == Int64Value(value=value).SerializeToString()


def test_other_fields_are_those_of_the_official_package() -> None:
    """Doubles, bytes and text."""
    assert writer.double(1, -2.5) == DoubleValue(value=-2.5).SerializeToString()
    assert writer.message(1, b"x" * 300) == BytesValue(value=b"x" * 300).SerializeToString()
    assert writer.message(1, writer.utf8("ünï")) == StringValue(value="ünï").SerializeToString()
    assert writer.utf8("a\ud800") == b"a\\ud800"
