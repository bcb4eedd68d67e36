"""Logged values that are more than a number."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.core import records
from chiplog.core.values.media import Histogram, Image, Matrix, Text


def test_a_histogram_is_the_same_with_and_without_numpy() -> None:
    """Lists are binned in Python, arrays in numpy."""
    values = [0.0, 1.0, 1.5, 4.0, float("nan")]
    plain, fast = Histogram(values, bins=4), Histogram(np.array(values), bins=4)
    assert plain.counts == fast.counts == [1, 2, 0, 1] and plain.edges == fast.edges == [0, 1, 2, 3, 4]


def test_a_histogram_of_counts_has_one_edge_more() -> None:
    """Anything else is a problem to report, and not an exception in a training loop."""
    assert Histogram(counts=[1, 2], edges=[0, 1, 2]).fields() == {"edges": [0.0, 1.0, 2.0], "counts": [1, 2]}
    assert "2 counts has 3 edges" in Histogram(counts=[1, 2], edges=[0, 1]).problem
    assert "'a'" in Histogram(["a"]).problem and "too far apart" in Histogram([-1.7e308, 1.7e308]).problem


def test_equal_values_have_a_bin_of_width_one() -> None:
    """So that the edges differ."""
    assert Histogram([3.0, 3.0], bins=1).edges == [2.5, 3.5]


def test_a_matrix_has_two_dimensions() -> None:
    """From lists or arrays."""
    assert Matrix(np.ones((1, 2))).values == Matrix([[1, 1]]).values == [[1, 1]]
    assert all("two dimensions" in Matrix(wrong).problem for wrong in ([1, 2], 3, "ab"))


def test_text_becomes_a_text_record() -> None:
    """Without secrets."""
    ((kind, fields),) = Text("key sk-abcdefgh12345678").records("sample")
    assert kind is records.TextRecord and fields["name"] == "sample" and "sk-abcdefgh" not in fields["text"]


def test_what_is_not_an_image_is_a_problem_to_report() -> None:
    """The constructor never raises."""
    assert "PNG, JPEG, GIF or WebP" in Image(b"plain text").problem
    assert "nosuch.png" in Image("nosuch.png").problem and Image(object()).problem
    assert not Image(np.zeros((2, 2)), caption=None).problem


def test_an_image_takes_what_others_images_take(capsys: pytest.CaptureFixture[str]) -> None:
    """It is ignored and reported once; a caption that cannot be read is a problem of the image."""

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    for _ in range(2):
        assert not Image([[0.5]], mode="RGB").problem
    assert capsys.readouterr().err.count("takes data and a caption; mode= is ignored") == 1
    assert "no words" in Image([[0.5]], caption=Mute()).problem  # type: ignore[arg-type]
    assert "at least one bin, not 0" in Histogram([1.0, 2.0], bins=0).problem


@pytest.mark.parametrize(
    "values", [[1.0, 1.0, 1.0], [0.0] * 5, [0.1] * 3, [1.0, 2.0, 10.0, float("nan")], [9e307] * 4 + [8e307]]
)
def test_a_histogram_knows_the_statistics_of_its_values(values: list[float]) -> None:
    """Not those of its bins; in the same way for lists and for arrays, and for values whose sum is infinite."""
    finite = [value for value in values if value == value]
    for histogram in (Histogram(values), Histogram(np.array(values))):
        fields = histogram.fields()
        assert (fields["min"], fields["max"]) == (min(finite), max(finite))
        assert fields["mean"] == pytest.approx(sum(value / len(finite) for value in finite))
        assert fields["min"] <= fields["mean"] <= fields["max"]
    assert Histogram([]).fields().keys() == {"edges", "counts"}
