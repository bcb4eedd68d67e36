"""Groups: which metrics of a run belong together, and other recorded data.

A group is the first part of a name: `train/loss` is in `train`. Two kinds of names follow the steps they
were logged at:

- A name without a first part belongs to the phase (`train`, `eval`, …) that was logged at all of its steps, if that is
  one phase alone: the `lr` beside `train/loss`.
- A first part that is not a phase is not a group if names without one were logged at all of its steps: it is a
  mapping in a row, `{"loss": 2.5, "grad": {"norm": 0.3}}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from chiplog.core.records import points
from chiplog.store.contents.contents import NOTES, Contents
from chiplog.store.points.columns import Steps
from chiplog.store.points.shared_steps import union
from chiplog.store.reader import Stored
from chiplog.views.metric_families import ABOUT_RANKS, Family, families, group_of

PHASES = frozenset(("train", "training", "eval", "evaluation", "val", "valid", "validation", "dev", "test"))
UNLOGGED = (ABOUT_RANKS, "StopWatch")  # groups of data that is not logged as metrics


class Recorded(NamedTuple):
    """The families of a run: logged metrics, and data from events, stopwatches and about the ranks."""

    logged: list[Family]
    beside: list[Family]


def recorded(stored: Stored, contents: Contents) -> Recorded:
    """The families of a run; excludes its notes about itself, its environment and timings."""
    noted: Counter[str] = Counter()
    events: Counter[str] = Counter()
    routers = {name.rpartition("/")[0] for name in contents.matrices}  # recorded as events, but logged by the user
    for event in contents.events:
        if event.name not in routers:
            (noted if event.name in NOTES else events).update(name for name, _ in points(event))
    result = Recorded([], [])
    for family in families(stored.names()):
        name = family.name
        in_events = noted[name] + events[name]
        if not in_events or len(stored.series(name, missing_ok=True)) > in_events:
            (result.beside if family.group in UNLOGGED else result.logged).append(family)
        elif not noted[name]:
            result.beside.append(family)
    return result


def curves_of(stored: Stored, contents: Contents) -> list[Family]:
    """The families that are worth a curve: not counters, and not data about the ranks."""
    logged, beside = recorded(stored, contents)
    return [family for family in (*logged, *beside) if not family.counts and family.group != ABOUT_RANKS]


def assign(steps: Mapping[str, Steps], apart: Collection[str] = ()) -> dict[str, str]:
    """The group of each metric by the steps it was logged at; `""` for no group, and for those known to be `apart`."""
    groups = {name: group_of(name) for name in steps}
    phases = {phase: _union(steps, groups, phase) for phase in PHASES.intersection(groups.values())}
    for name in [name for name, group in groups.items() if not group and name not in apart]:
        around = [phase for phase, those in phases.items() if _within(steps[name], those)]
        if len(around) == 1:
            groups[name] = around[0]
    bare = _union(steps, groups, "")
    mappings = {group for group in groups.values() if group and group not in PHASES}
    inside = {group for group in mappings if _within(_union(steps, groups, group), bare)}
    return {name: "" if group in inside else group for name, group in groups.items()}


def _union(steps: Mapping[str, Steps], groups: Mapping[str, str], wanted: str) -> Steps:
    """The steps of all members of a group."""
    members: Iterable[Steps] = (steps[name] for name, group in groups.items() if group == wanted)
    return union(members)


def _within(some: Steps, others: Steps) -> bool:
    return bool(len(some) and (np.array_equal(some, others) or np.isin(some, others).all()))
