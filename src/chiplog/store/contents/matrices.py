"""Stored matrices as numpy arrays; shorter rows end in NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chiplog.store.contents.contents import MatrixFrame

Floats = NDArray[np.float64]


def dense(frame: MatrixFrame) -> Floats:
    """One matrix, rows first."""
    return stack([frame])[:, :, 0].T


def stack(frames: Sequence[MatrixFrame]) -> Floats:
    """Matrices along the last axis, columns first."""
    rows = max(frame.shape[0] for frame in frames)
    columns = max(frame.shape[1] for frame in frames)
    out = np.full((columns, rows, len(frames)), np.nan)
    for at, frame in enumerate(frames):
        for number, row in enumerate(frame.rows):
            out[: len(row), number, at] = row
    return out
