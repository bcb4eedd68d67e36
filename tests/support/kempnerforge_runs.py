"""What KempnerForge's trackers wrote."""

from __future__ import annotations

KEYS = [
    "train/loss", "train/grad_norm", "train/lr", "train/tokens_per_sec", "train/mfu", "train/step_time_sec",
    "gpu/allocated_gb", "gpu/peak_gb", "gpu/reserved_gb", "gpu/mem_utilization",
    "smoothed/loss", "smoothed/tokens_per_sec", "smoothed/mfu", "smoothed/step_time",
]  # fmt: skip


def scalars(folder: str, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loaded = EventAccumulator(folder, size_guidance={"scalars": 0})
    loaded.Reload()
    return [(one.step, one.value) for one in loaded.Scalars(tag)]
