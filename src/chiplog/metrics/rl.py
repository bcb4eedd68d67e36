"""The metrics of fine-tuning and reinforcement learning: their names, their formulas, and how the calls of a step meet.

Each function gives `{name: (value, reducer)}`: the value of this call, and how the values of all calls of one global
step become one number (`metrics/step_buffer.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

from chiplog.core.records import Number
from chiplog.metrics.host_arrays import on_host
from chiplog.metrics.reducers import MetricsT, Reducer
from chiplog.metrics.value_history import exp

COMMON = ("loss", "perplexity", "learning_rate", "step_time_sec", "steps_per_sec", "tflops_per_step")
SAMPLES = "rollouts"  # the table of prompts, completions and trajectory ids
TERA = 1e12

# Other names of the same metric, by the documented one: what the original code emits.
ALIASES: dict[str, tuple[str, ...]] = {
    "reward_kl_penalty": ("rewards/reward_kl_penalty",),
    **{f"score/{one}": (f"rewards/score/{one}",) for one in ("mean", "max", "min")},
    **{f"returns/{one}": (f"advantages/returns/{one}",) for one in ("mean", "max", "min")},
    **{f"values/{one}": (f"advantages/old_values/{one}",) for one in ("mean", "max", "min")},
    **{f"completions/{one}_length": (f"generation/completions/{one}_length",) for one in ("mean", "max", "min")},
}
_GROUPS = tuple((documented, *others) for documented, others in ALIASES.items())


def other_names(name: str) -> tuple[str, ...]:
    """The names under which a metric may be found besides this one."""
    return next((tuple(one for one in group if one != name) for group in _GROUPS if name in group), ())


# -- of a training step ------------------------------------------------------------------------------------------------


def perplexity(loss: Any) -> Any:
    """exp(loss); of a value on a device, without waiting for it."""
    return exp(float(loss)) if isinstance(loss, (int, float)) else math.e**loss


def step_times(seconds: float, flops: float | None = None) -> dict[str, Number]:
    """step_time_sec, steps_per_sec = 1 / step_time_sec, and where it is known tflops_per_step = FLOPs / 10¹²."""
    row: dict[str, Number] = {"step_time_sec": seconds}
    if seconds > 0:
        row["steps_per_sec"] = 1 / seconds
    if flops is not None:
        row["tflops_per_step"] = flops / TERA
    return row


# -- of a rollout ------------------------------------------------------------------------------------------------------


def rewards(matrix: Any, names: Sequence[str] = ()) -> MetricsT:
    """Rewards by [prompt, reward function]: over the functions of each prompt, and each function by its name.

    NaN means that a function did not judge a prompt: it is left out of sum and mean, and stays in min and max.
    """
    import numpy as np

    table = np.asarray(_on_host(matrix), dtype=float)
    if table.ndim == 1:
        table = table[:, None]
    if not table.size:
        return {}
    judged = np.sum(~np.isnan(table), axis=1)
    sums = np.nansum(table, axis=1)
    found: dict[str, tuple[Any, Reducer | None]] = {
        "rewards/sum": (sums, np.mean),
        "rewards/mean": (np.where(judged > 0, sums / np.maximum(judged, 1), math.nan), np.mean),
        "rewards/max": (np.max(table, axis=1), np.max),
        "rewards/min": (np.min(table, axis=1), np.min),
    }
    for column, name in enumerate(names):
        found[f"rewards/{name}"] = (table[:, column], np.mean)
    return found


def statistics(group: str, values: Any, mask: Any = None) -> MetricsT:
    """`group`/mean, /max and /min of the values that a mask selects: for score, advantages, returns and values."""
    return dict(_statistics(f"{group}/{{}}", _selected(values, mask)))


def lengths(completions: Any) -> MetricsT:
    """completions/mean_length, max_length and min_length, of a mask by [completion, token] or of the lengths."""
    import numpy as np

    counts = [int(np.sum(np.asarray(one) != 0)) if np.ndim(one) else one for one in map(_on_host, completions)]
    return dict(_statistics("completions/{}_length", _selected(counts, None)))


def kl_penalty(kl: Any, mask: Any = None) -> MetricsT:
    """reward_kl_penalty: the mean over sequences of each one's mean over its tokens; kl is by [sequence, token]."""
    import numpy as np

    kl = _on_host(kl)
    rows = kl if isinstance(kl, (list, tuple)) and any(map(np.ndim, kl)) else np.atleast_2d(kl)
    selected = [_selected(row, None if mask is None else mask[at]) for at, row in enumerate(rows)]
    means = [float(np.mean(row)) for row in selected if row.size]
    return {"reward_kl_penalty": (means, np.mean)}


def clip_fraction(unclipped: Any, clipped: Any, mask: Any = None) -> float:
    """The share of tokens whose clipped loss is the larger one: pg_clipfrac of policies, vf_clipfrac of values."""
    import numpy as np

    found = _selected(clipped, mask) > _selected(unclipped, mask)
    return float(np.mean(found)) if found.size else 0.0


def entropy(log_probs: Any, mask: Any = None) -> float:
    """loss/entropy: the mean over tokens of −Σ p·log p; log_probs are by [..., token, vocabulary]."""
    import numpy as np

    logs = np.asarray(_on_host(log_probs), dtype=float)
    probabilities = np.exp(logs)
    each = -np.sum(np.where(probabilities > 0, probabilities * np.where(probabilities > 0, logs, 0.0), 0.0), axis=-1)
    found = _selected(each, mask)
    return float(np.mean(found)) if found.size else 0.0


def dequeue_time(seconds: float) -> MetricsT:
    """actor_dequeue_time: what a trainer waited for its rollout workers."""
    import numpy as np

    return {"actor_dequeue_time": (seconds, np.mean)}


def samples(
    prompts: Iterable[str], completions: Iterable[str], trajectory_ids: Iterable[str] | None = None
) -> MetricsT:
    """Texts of a rollout: rows of the table `rollouts`, no numbers."""
    found: dict[str, tuple[Any, Reducer | None]] = {
        "prompts": (list(prompts), None),
        "completions": (list(completions), None),
    }
    if trajectory_ids is not None:
        found["trajectory_ids"] = (list(trajectory_ids), None)
    return found


def _statistics(name: str, found: Any) -> Iterator[tuple[str, tuple[Any, Reducer | None]]]:
    import numpy as np

    if found.size:
        over: tuple[tuple[str, Callable[[Any], Any]], ...] = (("mean", np.mean), ("max", np.max), ("min", np.min))
        for word, reducer in over:
            yield name.format(word), (float(reducer(found)), reducer)


def _selected(values: Any, mask: Any) -> Any:
    """The values that a mask selects, in one flat array; rows of a list may have different lengths."""
    import numpy as np

    values, mask = _on_host(values), _on_host(mask)
    try:
        flat = np.asarray(values, dtype=float)
    except ValueError:
        if len({np.shape(row) for row in values}) < 2:  # something else is wrong
            raise
        masks = repeat(None) if mask is None else mask
        return np.concatenate([_selected(row, one) for row, one in zip(values, masks, strict=mask is not None)])
    return flat.ravel() if mask is None else flat[np.broadcast_to(np.asarray(mask) != 0, flat.shape)]


def _on_host(values: Any) -> Any:
    """As `on_host`, also what is in lists."""
    return [_on_host(one) for one in values] if isinstance(values, (list, tuple)) else on_host(values)
