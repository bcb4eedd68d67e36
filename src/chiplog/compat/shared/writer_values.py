"""What the calls of a SummaryWriter are given, as chiplog keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import chiplog
from chiplog.core.values.host_arrays import on_host

BINS = 512  # at most
THRESHOLDS = 127


def pixels(image: Any, formats: str) -> NDArray[np.uint8]:
    """An image as height, width and channels; floats from 0 to 1 become bytes, as torch does it."""
    array = np.asarray(on_host(image))
    formats = formats.upper()
    if len(formats) != array.ndim:
        raise ValueError(f"dataformats {formats!r} do not fit an image of shape {array.shape}")
    if array.dtype != np.uint8:
        array = np.clip(np.nan_to_num(array) * 255, 0, 255)
    wanted = [formats.index(axis) for axis in "HWC" if axis in formats]
    return array.astype(np.uint8).transpose(wanted)


def batch(images: Any, formats: str) -> list[NDArray[np.uint8]]:
    """The images of a batch."""
    formats = formats.upper()
    if "N" not in formats:
        return [pixels(images, formats)]
    array = np.moveaxis(np.asarray(on_host(images)), formats.index("N"), 0)
    return [pixels(image, formats.replace("N", "")) for image in array]


def histogram(values: Any, bins: Any, most: int | None) -> chiplog.Histogram:
    """A distribution. TensorBoard's own bins grow by a tenth; ours are as wide as each other."""
    array = np.asarray(on_host(values)).reshape(-1)
    if isinstance(bins, (Sequence, np.ndarray)) and not isinstance(bins, str):
        edges = np.asarray(bins, float)
        counts, edges = np.histogram(array[np.isfinite(array)], edges)
        return chiplog.Histogram(counts=counts.tolist(), edges=edges.tolist())
    number = bins if isinstance(bins, int) else 64
    return chiplog.Histogram(array, bins=max(1, min(number, most or BINS, BINS)))


def raw_histogram(low: float, limits: Any, counts: Any) -> chiplog.Histogram:
    """Counts with the upper limit of each bin, as TensorBoard has them; empty bins at the ends are left out."""
    edges = np.array([low, *np.asarray(on_host(limits), float)])
    numbers = np.asarray(on_host(counts), float)
    used = np.flatnonzero(numbers)
    if len(used):
        first, last = used[0], used[-1] + 1
        numbers, edges = numbers[first:last], edges[first : last + 1]
        edges[0] = min(max(low, edges[0]), edges[1]) if first == 0 else edges[0]
    return chiplog.Histogram(counts=numbers.tolist(), edges=edges.tolist())


def precision_and_recall(labels: Any, predictions: Any, weights: Any, thresholds: int) -> list[dict[str, float]]:
    """A row per threshold: precision, recall, and how many predictions were right and wrong."""
    truth = np.asarray(on_host(labels)).reshape(-1).astype(bool)
    scores = np.asarray(on_host(predictions), float).reshape(-1)
    weight = (
        np.ones(len(scores)) if weights is None else np.broadcast_to(np.asarray(on_host(weights), float), scores.shape)
    )
    rows = []
    for threshold in np.linspace(0, 1, max(2, min(thresholds, THRESHOLDS))).tolist():
        chosen = scores >= threshold
        right, wrong = float(weight[chosen & truth].sum()), float(weight[chosen & ~truth].sum())
        missed, refused = float(weight[~chosen & truth].sum()), float(weight[~chosen & ~truth].sum())
        rows.append(rates(threshold, right, wrong, refused, missed))
    return rows


def rates_of(counts: tuple[Any, Any, Any, Any]) -> list[dict[str, float]]:
    """The table from what was counted at thresholds: right, wrong, refused and missed."""
    columns = [np.asarray(on_host(one), float).reshape(-1).tolist() for one in counts]
    thresholds = np.linspace(0, 1, len(columns[0])).tolist()
    return [rates(*row) for row in zip(thresholds, *columns, strict=True)]


def channels_last(samples: Any) -> NDArray[Any]:
    """Sound as samples and channels; torch has the channels first."""
    array = np.asarray(on_host(samples))
    return (
        array.T
        if array.ndim == 2 and array.shape[0] < array.shape[1]
        else array.reshape(-1)
        if array.ndim < 2
        else array
    )


def channels_second(frames: NDArray[Any]) -> NDArray[Any]:
    """Frames whose channels are last, with the channels before height and width."""
    return np.moveaxis(frames, -1, -3)


def items_of(tag: str, batch: Any, dimensions: int) -> list[tuple[str, NDArray[Any]]]:
    """The items of a batch with their names; something with so many dimensions is one item."""
    array = np.asarray(on_host(batch))
    if array.ndim <= dimensions:
        return [(tag, array)]
    return [(tag if len(array) == 1 else f"{tag}/{at}", one) for at, one in enumerate(array)]


def rates(threshold: float, right: float, wrong: float, refused: float, missed: float) -> dict[str, float]:
    """A row of such a table, from its counts."""
    return {
        "threshold": threshold,
        "precision": right / (right + wrong) if right + wrong else 1.0,
        "recall": right / (right + missed) if right + missed else 0.0,
        "true_positives": right,
        "false_positives": wrong,
        "true_negatives": refused,
        "false_negatives": missed,
    }
