"""Families of names: a metric with its statistics across ranks, and groups of families."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from chiplog.metrics.catalog import STATISTICS, is_counter, is_loss, is_statistic, is_system

ABOUT_RANKS = "ranks"  # the group of data about the ranks themselves
MANY = 4  # names that differ only in a number: those of layers or experts
_EVALUATION = ("eval/", "val/", "valid/", "test/")
_NUMBER = re.compile(r"\d+")


class Family(NamedTuple):
    """A metric, and the names of its statistics across ranks, if any: `{"mean": "train/loss/mean", …}`."""

    name: str
    statistics: dict[str, str]

    @property
    def curves(self) -> dict[str, str]:
        """The statistics that are worth a curve: not the number of ranks, nor which rank it was."""
        return {statistic: name for statistic, name in self.statistics.items() if statistic in STATISTICS}

    @property
    def group(self) -> str:
        """`train` of `train/loss`; empty for a name without a group."""
        return group_of(self.name)

    @property
    def short(self) -> str:
        """The name within its group."""
        return self.name.removeprefix(f"{self.group}/") if self.group else self.name

    @property
    def counts(self) -> bool:
        """Whether this is a counter."""
        return is_counter(self.name)


def families(names: Iterable[str]) -> list[Family]:
    """The metrics among names, in their order.

    A metric that the main rank did not log may appear only through its statistics. A single statistic without its
    metric counts as a metric.
    """
    unique = dict.fromkeys(names)
    by_name: dict[str, Family] = {}
    for name in unique:
        base = _base(name, unique)
        family = by_name.setdefault(base, Family(base, {}))
        if base != name:
            family.statistics[name.removeprefix(f"{base}/")] = name
    return list(by_name.values())


def grouped(names: Iterable[str]) -> dict[str, list[Family]]:
    """The families of names by group, both in order of first appearance."""
    unique = dict.fromkeys(names)
    groups: dict[str, list[Family]] = {}
    for family in families(unique):
        there = [name for name in (family.name, *family.statistics.values()) if name in unique]
        rest = {statistic: name for statistic, name in family.statistics.items() if name != there[0]}
        groups.setdefault(family.group, []).append(Family(there[0], rest))
    return groups


def by_importance(names: Iterable[str]) -> list[str]:
    """Training, evaluation, other metrics, each with its losses first; then layers and the like; the machine last."""
    shapes = {name: _NUMBER.sub("#", name) for name in names}
    alike = Counter(shapes.values())

    def key(name: str) -> tuple[bool, bool, int, bool, list[str | int]]:
        group = 0 if name.startswith("train/") else 1 if name.startswith(_EVALUATION) else 2
        return is_system(name), alike[shapes[name]] > MANY, group, not is_loss(name), _natural(name)

    return sorted(shapes, key=key)


def _natural(name: str) -> list[str | int]:
    """A key that sorts the numbers in names by size."""
    return [int(part) if at % 2 else part for at, part in enumerate(re.split(r"(\d{1,18})", name))]


def group_of(name: str) -> str:
    """The first part of a name with several parts."""
    group, slash, _ = name.partition("/")
    return group if slash else ""


def filename(name: str, taken: Iterable[str] = ()) -> str:
    """A safe, unused file name for a name: letters, digits, dot, dash and underscore."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
    safe = safe.encode("utf-8", "ignore").decode()[:80].strip(".") or "unnamed"
    free, number, used = safe, 1, {one.casefold() for one in taken}
    while free.casefold() in used:
        number += 1
        free = f"{safe}-{number}"
    return free


def _base(name: str, names: Collection[str]) -> str:
    """The metric that a name is a statistic of, or the name itself; statistics may have statistics."""
    base = name.rpartition("/")[0]
    if not base or not is_statistic(name):
        return name
    if base in names:
        return _base(base, names)
    return base if all(f"{base}/{statistic}" in names for statistic in STATISTICS) else name
