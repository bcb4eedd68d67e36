"""Reducing the values of a step."""

from __future__ import annotations

import numpy as np
import pytest

from chiplog.metrics.step_values.reducers import Texts, reduce


def test_ragged_lists_count_by_their_elements() -> None:
    """B5: [1, 2] and [1, 2, 3] have the mean 1.8; empty ones have nothing to say."""
    assert reduce([[1, 2], [1, 2, 3]], np.mean) == pytest.approx(1.8)
    assert reduce([[], [[1, [2]], 3]], np.max) == 3
    assert reduce([[], np.zeros(0)], np.mean) is None


def test_a_reducer_is_called_once_with_everything() -> None:
    """Any callable, with one flat array."""
    seen = []
    assert reduce([1, [2, 3]], lambda array: seen.append(array.tolist()) or array[-1]) == 3
    assert seen == [[1, 2, 3]]


def test_without_a_reducer_it_is_the_mean() -> None:
    """Of one value that is the value."""
    assert reduce([4.0]) == 4.0 and reduce([1, 2]) == 1.5


def test_texts_stay_texts() -> None:
    """Also in an array; beside numbers they are a mistake."""
    assert reduce([["a"], np.array(["b"])]) == Texts(["a", "b"])
    with pytest.raises(TypeError, match="1 of its 2 values are texts"):
        reduce([["a", 1]])


def test_a_reducer_that_gives_no_number_is_named() -> None:
    """So that its owner finds it."""
    with pytest.raises(TypeError, match="reducer cumsum did not return a number"):
        reduce([1, 2], np.cumsum)
