"""Stored matrices as numpy arrays; shorter rows end in NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chiplog.store.contents.contents import MatrixFrame
from chiplog.store.contents.ragged import is_ragged

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


def together(frames: Sequence[MatrixFrame]) -> list[MatrixFrame]:
    """Those of the frames, in their order, that fit into one array: without the largest ones if they are rare."""
    by_size = sorted(range(len(frames)), key=lambda at: max(frames[at].shape))
    rows = columns = values = most = 0
    for count, at in enumerate(by_size, 1):
        rows, columns = max(rows, frames[at].shape[0]), max(columns, frames[at].shape[1])
        values += len(frames[at].rows) + sum(map(len, frames[at].rows))
        if not is_ragged(rows * columns * count, values):
            most = count
    return [frames[at] for at in sorted(by_size[:most])]
