"""The metrics of fine-tuning and reinforcement learning: names and formulas.

Each function returns `{name: (value, reducer)}`: the value of this call, and the function that reduces the values of
all calls of one global step to one number (`metrics/step_values/buffer.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from chiplog.core.records import Number
from chiplog.core.values.host_arrays import on_host
from chiplog.metrics import throughput
from chiplog.metrics.step_values.reducers import MetricsT, Reducer

Array: TypeAlias = Any  # of numpy, torch or JAX, or a list of numbers, arrays or lists
Floats: TypeAlias = NDArray[np.float64]

# -- training steps ----------------------------------------------------------------------------------------------------


def perplexity(loss: Array) -> Array:
    """exp(loss); for a value on a device, without waiting for it."""
    return throughput.perplexity(loss) if isinstance(loss, (int, float)) else math.e**loss


def step_times(seconds: float, flops: float | None = None) -> dict[str, Number]:
    """step_time_sec, steps_per_sec = 1 / step_time_sec, and tflops_per_step = FLOPs / 10¹² if they are known."""
    row: dict[str, Number] = {"step_time_sec": seconds}
    if seconds > 0:
        row["steps_per_sec"] = 1 / seconds
    if flops is not None:
        row["tflops_per_step"] = flops / 1e12
    return row


# -- rollouts ----------------------------------------------------------------------------------------------------------


def rewards(matrix: Array, names: Sequence[str] = ()) -> MetricsT:
    """Rewards by [prompt, reward function]: over the functions of each prompt, and each function by name.

    NaN means that a function did not judge a prompt: sum and mean ignore it, max and min keep it.
    """
    table = _floats(matrix)
    if table.ndim == 1:
        table = table[:, None]
    if not table.size:
        return {}
    judged = np.sum(~np.isnan(table), axis=1)
    sums = np.nansum(table, axis=1)
    return {
        "rewards/sum": (sums, np.mean),
        "rewards/mean": (np.where(judged > 0, sums / np.maximum(judged, 1), math.nan), np.mean),
        "rewards/max": (np.max(table, axis=1), np.max),
        "rewards/min": (np.min(table, axis=1), np.min),
        **{f"rewards/{name}": (table[:, column], np.mean) for column, name in enumerate(names)},
    }


def statistics(group: str, values: Array, mask: Array = None) -> MetricsT:
    """`group`/mean, /max and /min of the values that a mask selects: for score, advantages, returns and values."""
    return dict(_statistics(f"{group}/{{}}", _selected(values, mask)))


def lengths(completions: Iterable[Array]) -> MetricsT:
    """completions/mean_length, max_length and min_length, from a mask by [completion, token] or from the lengths."""
    counts = [np.count_nonzero(one) if np.ndim(one) else float(one) for one in map(_on_host, completions)]
    return dict(_statistics("completions/{}_length", np.asarray(counts, dtype=float)))


def kl_penalty(kl: Array, mask: Array = None) -> MetricsT:
    """reward_kl_penalty: the mean over sequences of each one's mean over its tokens; kl is by [sequence, token]."""
    kl, mask = _on_host(kl), _on_host(mask)
    rows = kl if isinstance(kl, list) and any(map(np.ndim, kl)) else np.atleast_2d(kl)
    selected = [_selected(row, None if mask is None else mask[at]) for at, row in enumerate(rows)]
    return {"reward_kl_penalty": ([float(np.mean(row)) for row in selected if row.size], np.mean)}


def clip_fraction(unclipped: Array, clipped: Array, mask: Array = None) -> float:
    """The share of tokens whose clipped loss is the larger one: pg_clipfrac of policies, vf_clipfrac of values."""
    is_clipped = _selected(clipped, mask) > _selected(unclipped, mask)
    return float(np.mean(is_clipped)) if is_clipped.size else 0.0


def entropy(log_probs: Array, mask: Array = None) -> float:
    """loss/entropy: the mean over tokens of −Σ p·log p; log_probs are by [..., token, vocabulary]."""
    logs = _floats(log_probs)
    probabilities = np.exp(logs)
    by_token = -np.sum(probabilities * np.where(probabilities > 0, logs, 0.0), axis=-1)
    selected = _selected(by_token, mask)
    return float(np.mean(selected)) if selected.size else 0.0


def dequeue_time(seconds: float) -> MetricsT:
    """actor_dequeue_time: how long a trainer waited for its rollout workers."""
    return {"actor_dequeue_time": (seconds, np.mean)}


def samples(
    prompts: Iterable[str], completions: Iterable[str], trajectory_ids: Iterable[str] | None = None
) -> MetricsT:
    """The texts of a rollout: rows of the table `rollouts`, not numbers."""
    columns = {"prompts": prompts, "completions": completions, "trajectory_ids": trajectory_ids}
    return {name: (list(texts), None) for name, texts in columns.items() if texts is not None}


def _statistics(name: str, values: Floats) -> Iterator[tuple[str, tuple[float, Reducer]]]:
    if values.size:
        reducers: tuple[tuple[str, Callable[[Floats], np.float64]], ...]
        reducers = (("mean", np.mean), ("max", np.max), ("min", np.min))
        for statistic, reducer in reducers:
            yield name.format(statistic), (float(reducer(values)), reducer)


def _selected(values: Array, mask: Array) -> Floats:
    """The values that a mask selects, in one flat array; the rows of a list may have different lengths."""
    values, mask = _on_host(values), _on_host(mask)
    try:
        array = np.asarray(values, dtype=float)
    except ValueError:
        if len({np.shape(row) for row in values}) < 2:  # not ragged: something else is wrong
            raise
        masks = repeat(None) if mask is None else mask
        return np.concatenate([_selected(row, one) for row, one in zip(values, masks, strict=mask is not None)])
    return array.ravel() if mask is None else array[np.broadcast_to(np.asarray(mask) != 0, array.shape)]


def _floats(values: Array) -> Floats:
    return np.asarray(_on_host(values), dtype=float)


def _on_host(values: Array) -> Array:
    """Like `on_host`, also for what lists and tuples hold."""
    return [_on_host(one) for one in values] if isinstance(values, (list, tuple)) else on_host(values)
