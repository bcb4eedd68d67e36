"""What the calls of a writer are given."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.compat.shared import writer_values as values


@pytest.mark.parametrize("formats", ["CHW", "HWC", "WHC"])
def test_pixels_are_turned_by_their_formats(formats: str) -> None:
    """Floats from 0 to 1 become bytes; what is outside is cut."""
    picture = np.arange(24, dtype=float).reshape(4, 2, 3) / 20  # height, width, channels
    turned = picture.transpose(["HWC".index(axis) for axis in formats])
    assert np.array_equal(values.pixels(turned, formats.lower()), np.clip(picture * 255, 0, 255).astype("uint8"))
    assert values.pixels(np.zeros((2, 3)), "HW").shape == (2, 3)


def test_a_batch_is_its_images() -> None:
    """Wherever its dimension is."""
    images = np.zeros((5, 3, 4, 2), "uint8")
    assert [one.shape for one in values.batch(images, "NCHW")] == [(4, 2, 3)] * 5
    assert len(values.batch(np.moveaxis(images, 0, 3), "CHWN")) == 5


def test_bins_are_those_that_were_asked_for() -> None:
    """A number of them, their edges, or TensorBoard's limits, of which empty ones at the ends are left out."""
    assert len(values.histogram(np.arange(10.0), 5, None).counts) == 5
    assert len(values.histogram(np.arange(10.0), "auto", 7).counts) == 7
    assert values.histogram(np.arange(10.0), [0, 5, 10], None).counts == [5, 5]
    raw = values.raw_histogram(-1.0, [0, 1, 2, 1e308], [0, 3, 4, 0])
    assert (raw.counts, raw.edges) == ([3, 4], [0, 1, 2])


def test_a_perfect_classifier_has_a_perfect_curve() -> None:
    """Until the threshold is above its scores; weights count."""
    rows = values.precision_and_recall([1, 0], [0.9, 0.1], [2.0, 1.0], 11)
    assert [row["threshold"] for row in rows] == pytest.approx(np.linspace(0, 1, 11).tolist())
    assert rows[5] == {
        "threshold": 0.5, "precision": 1, "recall": 1, "true_positives": 2, "false_positives": 0, "true_negatives": 1,
        "false_negatives": 0,
    }  # fmt: skip
    assert rows[0]["precision"] == pytest.approx(2 / 3) and rows[-1]["recall"] == 0
    assert values.rates_of(([2, 0], [1, 0], [0, 1], [0, 2]))[0]["precision"] == pytest.approx(2 / 3)
