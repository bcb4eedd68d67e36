"""Where the time of a reinforcement learning step went, depending on which roles share devices.

Times are (begin, end) in seconds. A role that did nothing in a step has no metrics.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

Stretch: TypeAlias = tuple[float, float]  # begin, end

COLOCATED = "colocated"
ROLLOUT_APART = "rollout_1_actor_2_reference_2"
ACTOR_APART = "rollout_1_actor_2_reference_1"
REFERENCE_APART = "rollout_1_actor_1_reference_2"
DISAGGREGATED = "rollout_1_actor_2_reference_3"


class RoleTimes(NamedTuple):
    """The times of one global step; `weight_sync` is None if weights were not synchronised."""

    step: Stretch
    weight_sync: Stretch | None
    rollouts: Sequence[Stretch]
    refers: Sequence[Stretch]
    actors: Sequence[Stretch]
    train_steps: Sequence[Stretch]


def topology(rollout: Hashable, actor: Hashable, reference: Hashable) -> str:
    """Return which roles share their devices, from the devices of each."""
    if rollout == actor:
        return COLOCATED if actor == reference else REFERENCE_APART
    if actor == reference:
        return ROLLOUT_APART
    return ACTOR_APART if rollout == reference else DISAGGREGATED


def metrics(times: RoleTimes, kind: str, *, legacy_gaps: bool = False) -> dict[str, float]:
    """Return the metrics of a step under `perf/`, in seconds.

    A gap is the time from the end of one interval to the start of the next. With `legacy_gaps`, those of a
    disaggregated cluster are as in Tunix, from the start of one to the end of the next.
    """
    sync = times.weight_sync or (times.step[1], times.step[1])
    row = {"global_step_time": _length(times.step), "weight_sync_time": _length(sync)}
    for name, stretches in (
        ("rollout_time", times.rollouts),
        ("refer_inference_time", times.refers),
        ("actor_train_time", times.actors),
        ("actor_train_step_time", times.train_steps),
    ):
        row |= _sum_and_mean(name, [_length(one) for one in stretches])
    if kind in (ROLLOUT_APART, ACTOR_APART, DISAGGREGATED) and times.rollouts:
        busy = [*times.rollouts, *(times.refers if kind == ACTOR_APART else ())]  # everything on these devices
        row["rollout_idle_time"] = sync[0] - max(end for _, end in busy)
        row["first_micro_batch_rollout_time"] = times.rollouts[0][1] - times.step[0]
    if kind == ROLLOUT_APART:
        between = [after[0] - before[1] for before, after in zip(times.actors, times.refers[1:], strict=False)]
        row |= _sum_and_mean("between_micro_batch_gap_time", _with_zero(between, times.actors))
    if kind in (REFERENCE_APART, DISAGGREGATED):
        row |= _sum_and_mean("refer_gap_time", _gaps(times.refers, legacy_gaps))
    if kind in (ACTOR_APART, DISAGGREGATED):
        row |= _sum_and_mean("actor_gap_time", _gaps(times.actors, legacy_gaps))
    return {f"perf/{name}": seconds for name, seconds in row.items()}


def _gaps(stretches: Sequence[Stretch], legacy: bool) -> list[float]:
    gaps = [after[1] - before[0] if legacy else after[0] - before[1] for before, after in pairwise(stretches)]
    return _with_zero(gaps, stretches)


def _with_zero(gaps: list[float], stretches: Sequence[Stretch]) -> list[float]:
    """Add an empty gap for the first micro-batch, so that the mean is over all micro-batches."""
    return [*gaps, 0.0] if stretches else []


def _sum_and_mean(name: str, seconds: Sequence[float]) -> dict[str, float]:
    return {f"sum/{name}": sum(seconds), f"mean/{name}": sum(seconds) / len(seconds)} if seconds else {}


def _length(stretch: Stretch) -> float:
    return stretch[1] - stretch[0]
