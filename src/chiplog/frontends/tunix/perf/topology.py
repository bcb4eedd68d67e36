"""Where the time of a reinforcement learning step went, by which of rollout, actor and reference share devices.

Times are (begin, end) in seconds. A role that did nothing in a step has no metrics: no mean of nothing, no guess.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

Stretch: TypeAlias = tuple[float, float]  # begin, end

COLOCATED = "colocated"
ROLLOUT_APART = "rollout_1_actor_2_reference_2"
ACTOR_APART = "rollout_1_actor_2_reference_1"
REFERENCE_APART = "rollout_1_actor_1_reference_2"
DISAGGREGATED = "rollout_1_actor_2_reference_3"


class RoleTimes(NamedTuple):
    """What happened in one global step; `weight_sync` is None where weights were not synchronised."""

    step: Stretch
    weight_sync: Stretch | None
    rollouts: Sequence[Stretch]
    refers: Sequence[Stretch]
    actors: Sequence[Stretch]
    train_steps: Sequence[Stretch]


def topology(rollout: Hashable, actor: Hashable, reference: Hashable) -> str:
    """Which roles share their devices, by whether what stands for each is the same."""
    if rollout == actor:
        return COLOCATED if actor == reference else REFERENCE_APART
    if actor == reference:
        return ROLLOUT_APART
    return ACTOR_APART if rollout == reference else DISAGGREGATED


def metrics(times: RoleTimes, kind: str, *, legacy_gaps: bool = False) -> dict[str, float]:
    """The metrics of a step under `perf/`, in seconds.

    A gap is from the end of one thing to the begin of the next. `legacy_gaps` counts those of a disaggregated cluster
    as the original does, from the begin of one to the end of the next.
    """
    sync = times.weight_sync or (times.step[1], times.step[1])
    found = {"global_step_time": _length(times.step), "weight_sync_time": _length(sync)}
    for name, stretches in (
        ("rollout_time", times.rollouts),
        ("refer_inference_time", times.refers),
        ("actor_train_time", times.actors),
        ("actor_train_step_time", times.train_steps),
    ):
        found |= _sum_and_mean(name, [_length(one) for one in stretches])
    if kind in (ROLLOUT_APART, ACTOR_APART, DISAGGREGATED) and times.rollouts:
        busy = [*times.rollouts, *(times.refers if kind == ACTOR_APART else ())]  # what else is done on these devices
        found["rollout_idle_time"] = sync[0] - max(end for _, end in busy)
        found["first_micro_batch_rollout_time"] = times.rollouts[0][1] - times.step[0]
    if kind == ROLLOUT_APART:
        between = [after[0] - before[1] for before, after in zip(times.actors, times.refers[1:], strict=False)]
        found |= _sum_and_mean("between_micro_batch_gap_time", _with_zero(between, times.actors))
    if kind in (REFERENCE_APART, DISAGGREGATED):
        found |= _sum_and_mean("refer_gap_time", _gaps(times.refers, legacy_gaps))
    if kind in (ACTOR_APART, DISAGGREGATED):
        found |= _sum_and_mean("actor_gap_time", _gaps(times.actors, legacy_gaps))
    return {f"perf/{name}": seconds for name, seconds in found.items()}


def needed(kind: str) -> Mapping[str, str]:
    """Every metric of a topology with its formula, for people to read."""
    shared = {
        "perf/global_step_time": "duration of the global step",
        "perf/weight_sync_time": "duration of the weight sync; 0 without one",
        **_both("rollout_time", "durations of the rollouts"),
        **_both("refer_inference_time", "durations of the reference's inferences"),
        **_both("actor_train_time", "durations of the actor's trainings, updates and evals included"),
        **_both("actor_train_step_time", "durations of the train steps on the host"),
    }
    if kind in (ROLLOUT_APART, ACTOR_APART, DISAGGREGATED):
        last = "rollout or inference" if kind == ACTOR_APART else "rollout"
        shared["perf/rollout_idle_time"] = f"begin of the weight sync − end of the last {last}"
        shared["perf/first_micro_batch_rollout_time"] = "end of the first rollout − begin of the step"
    if kind == ROLLOUT_APART:
        shared |= _both("between_micro_batch_gap_time", "begin of an inference − end of the training before it")
    if kind in (REFERENCE_APART, DISAGGREGATED):
        shared |= _both("refer_gap_time", "begin of an inference − end of the one before it")
    if kind in (ACTOR_APART, DISAGGREGATED):
        shared |= _both("actor_gap_time", "begin of a training − end of the one before it")
    return shared


def _both(name: str, formula: str) -> dict[str, str]:
    return {f"perf/sum/{name}": f"sum of: {formula}", f"perf/mean/{name}": f"mean of: {formula}"}


def _gaps(stretches: Sequence[Stretch], legacy: bool) -> list[float]:
    gaps = [after[1] - before[0] if legacy else after[0] - before[1] for before, after in pairwise(stretches)]
    return _with_zero(gaps, stretches)


def _with_zero(gaps: list[float], stretches: Sequence[Stretch]) -> list[float]:
    """One gap of nothing before the first, so that the mean is over the micro-batches."""
    return [*gaps, 0.0] if stretches else []


def _sum_and_mean(name: str, seconds: Iterable[float]) -> dict[str, float]:
    each = list(seconds)
    return {f"sum/{name}": sum(each), f"mean/{name}": sum(each) / len(each)} if each else {}


def _length(stretch: Stretch) -> float:
    return stretch[1] - stretch[0]
