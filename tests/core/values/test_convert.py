"""Values: what people log, sorted into numbers, media, text and what is still on a device."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chiplog.core.values import convert, media

torch = pytest.importorskip("torch")


def sort(metrics: dict[Any, Any]) -> convert.SplitRow:
    return convert.split(metrics, convert.Kinds(lambda _: False))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, True),
        (np.bool_(True), True),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.float64(0.1), 0.1),
        (np.int64(2**62), 2**62),
        (np.array(3), 3),
        (np.array([2.5]), 2.5),
        (np.uint8(255), 255),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 4), 0.25),
        (2**70, 2**70),
        (torch.tensor(1.5), 1.5),
        (torch.tensor([7]), 7),
        (torch.tensor(0.1, dtype=torch.bfloat16), 0.10009765625),
    ],
)
def test_numbers_of_any_library_become_ours(value: object, number: float) -> None:
    """The value is exactly the one that was given, as int, float or bool."""
    got = sort({"x": value}).row["x"]
    assert got == number
    assert type(got) is type(number)


@pytest.mark.parametrize(
    "value", ["words", None, [1, 2], (1,), {1}, b"bytes", 3j, np.arange(5), torch.ones(3), datetime.date(2026, 1, 1)]
)
def test_what_is_no_number_becomes_text(value: object) -> None:
    """The rest of the row is kept."""
    found = sort({"a": 1.0, "x": value})
    assert found.row == {"a": 1.0}
    assert set(found.texts) == {"x"}


class Awkward:
    def __float__(self) -> float:
        raise RuntimeError("no")

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_an_object_that_raises_costs_only_itself() -> None:
    """Whatever a value's own methods do, the row is kept."""
    found = sort({"a": 1.0, "x": Awkward()})
    assert found.row == {"a": 1.0}
    assert "RuntimeError" in found.texts["x"]


def test_nested_mappings_flatten_with_a_slash() -> None:
    """A dict in a row adds its name before its keys."""
    assert sort({"train": {"loss": 1, "norm": {"l2": 2}}}).row == {"train/loss": 1, "train/norm/l2": 2}


def test_a_row_that_holds_itself_ends() -> None:
    """A cycle is not followed forever."""
    row: dict[str, Any] = {"a": 1}
    row["self"] = row
    assert sort(row).row["a"] == 1


def test_an_array_is_summed_up_in_words() -> None:
    """Its shape and range are told instead of its numbers."""
    text = sort({"x": np.array([[1.0, 3.0]])}).texts["x"]
    assert "(1, 2)" in text and "min 1" in text and "max 3" in text


def test_media_go_their_own_way() -> None:
    """Media in a row are found, and are not text."""
    found = sort({"sample": media.Text("hi")})
    assert not found.texts and isinstance(found.media["sample"], media.Text)


def test_keys_of_any_kind_become_names() -> None:
    """Numbers as keys, empty keys and lone surrogates are accepted."""
    assert set(sort({5: 1, "": 2, "\ud800": 3, None: 4}).row) == {"5", "", "\\ud800", "None"}


def test_long_texts_are_cut_with_a_mark() -> None:
    """More than a MiB is not kept, and the text says so."""
    text = convert.text("x" * (2 << 20))
    assert len(text) < (1 << 20) + 50 and "characters cut" in text


def test_plain_data_for_configs() -> None:
    """Dataclass-like things, arrays and odd objects become what JSON can say."""
    assert convert.plain({"a": np.float32(0.5), "b": (1, {2}), 3: None, "c": np.arange(3)}) == {
        "a": 0.5,
        "b": [1, [2]],
        "3": None,
        "c": [0, 1, 2],
    }


def test_objects_in_configs_are_the_same_in_every_run() -> None:
    """Functions and objects without their address, dates in their usual form."""

    def gelu() -> None:
        pass

    words = str(convert.plain([gelu, partial(gelu), object()]))
    assert "gelu" in words and "object object>" in words and "0x" not in words
    assert convert.plain({"day": date(2026, 11, 19)}) == {"day": "2026-11-19"}


def test_choices_and_paths_in_configs_are_their_values() -> None:
    """Not the words of a debugger, alone or in a dataclass."""

    class Mode(str, Enum):  # noqa: UP042  # as configs older than StrEnum have it
        FAST = "fast"

    class Level(Enum):
        HIGH = (1, 2)

    @dataclass
    class Config:
        mode: Mode = Mode.FAST
        place: Path = Path("/data/web")

    wanted = {"mode": "fast", "place": "/data/web"}
    assert convert.plain(Config()) == convert.plain(vars(Config())) == wanted
    assert convert.plain({"level": Level.HIGH}) == {"level": [1, 2]}


@pytest.mark.parametrize(
    ("value", "expected"), [(2, 2.0), (0.5, 0.5), (True, 1.0), (10**400, math.inf), (-(10**400), -math.inf)]
)
def test_a_number_as_a_double(value: float, expected: float) -> None:
    """An integer beyond all doubles is an infinity."""
    assert convert.double(value) == expected
