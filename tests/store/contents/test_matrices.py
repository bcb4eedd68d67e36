"""Stored matrices as numpy arrays."""

from __future__ import annotations

from array import array

from chiplog.store.contents.contents import MatrixFrame
from chiplog.store.contents.matrices import dense, stack

RAGGED = MatrixFrame(0, 0, 0, [array("d", [1.0]), array("d", [2.0, 3.0])])


def test_shorter_rows_end_in_nan() -> None:
    """Rows first, as numpy has them."""
    assert repr(dense(RAGGED).tolist()) == "[[1.0, nan], [2.0, 3.0]]"


def test_frames_of_different_shapes_are_stacked() -> None:
    """Columns first, and one frame per index of the last axis."""
    wide = MatrixFrame(1, 0, 1, [array("d", [4.0, 5.0, 6.0])])
    stacked = stack([RAGGED, wide])
    assert stacked.shape == (3, 2, 2)
    assert stacked[:, 0, 1].tolist() == [4.0, 5.0, 6.0]
