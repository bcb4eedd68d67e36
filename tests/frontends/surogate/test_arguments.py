"""The arguments of Surogate's calls."""

from __future__ import annotations

import numpy
import pytest

from chiplog.frontends.surogate import arguments
from chiplog.frontends.surogate.safe_calls import Unusable


@pytest.mark.parametrize(
    ("value", "expected"),
    [(numpy.float32(1.5), 1.5), ("1e-4", 1e-4), ("7", 7), ("seven", "seven"), (None, None), (True, True)],
)
def test_numbers_of_any_kind(value: object, expected: object) -> None:
    """Of other libraries and in texts; anything else is unchanged."""
    assert arguments.number(value) == expected


def test_a_required_number() -> None:
    """NaN is not enough."""
    assert arguments.required("5", "tokens") == 5
    with pytest.raises(Unusable, match="tokens is nan, not a number; nothing is logged"):
        arguments.required(float("nan"), "tokens")


def test_whole_steps() -> None:
    """5.0 is 5."""
    assert [type(arguments.step(value)) for value in (5.0, 5.5, "5")] == [int, float, int]


def test_a_dataset_by_files() -> None:
    """Tokens by file are added up and listed for the console."""
    data = arguments.dataset({"files": {"a.bin": 10, "b.bin": "20"}, "seed": 1}, "train_loader", lambda *_: None)
    assert data == {"files": 2, "tokens": 30, "seed": 1, "listing": [["a.bin", 10], ["b.bin", 20]]}
