"""What TensorBoard reads in a folder."""

from __future__ import annotations

from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ALL = dict.fromkeys(("scalars", "images", "tensors", "histograms"), 0)


def load(folder: Path) -> EventAccumulator:
    """Everything that TensorBoard finds in a folder."""
    loaded = EventAccumulator(str(folder), size_guidance=ALL)
    loaded.Reload()
    return loaded


def points(folder: Path, tag: str) -> list[tuple[int, float]]:
    loaded = load(folder)
    return [(one.step, one.value) for one in loaded.Scalars(tag)] if tag in loaded.Tags()["scalars"] else []
