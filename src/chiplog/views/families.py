"""Names in families: a metric with its statistics across ranks, and the groups that families make."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from chiplog.metrics.stats import ALWAYS

COUNTERS = frozenset(("iter", "step", "epoch", "batch", "idx", "bidx"))  # they count, and have no curve to look at


class Family(NamedTuple):
    """A metric, and the names of its statistics across ranks where it has any: `{"mean": "train/loss/mean", …}`."""

    name: str
    statistics: dict[str, str]

    @property
    def group(self) -> str:
        """`train` of `train/loss`; empty for a name without a group."""
        group, slash, _ = self.name.partition("/")
        return group if slash else ""

    @property
    def short(self) -> str:
        """The name within its group."""
        return self.name.removeprefix(f"{self.group}/") if self.group else self.name

    @property
    def counts(self) -> bool:
        """Whether this is a counter."""
        return self.name.rpartition("/")[2] in COUNTERS


def families(names: Iterable[str]) -> list[Family]:
    """The metrics among names, in their order; a statistic whose metric is not there is a metric of its own."""
    known = dict.fromkeys(names)
    found = {name: Family(name, {}) for name in known if _base(name, known) is None}
    for name in known:
        if (base := _base(name, known)) is not None and base in found:
            found[base].statistics[name.rpartition("/")[2]] = name
    return list(found.values())


def grouped(names: Iterable[str]) -> dict[str, list[Family]]:
    """The families of names by group, both in the order they came."""
    groups: dict[str, list[Family]] = {}
    for family in families(names):
        groups.setdefault(family.group, []).append(family)
    return groups


def filename(name: str, taken: Iterable[str] = ()) -> str:
    """A name as a file name that is safe and free: letters, digits, dot, dash and underscore."""
    safe = "".join(char if char.isalnum() or char in "-_." else "_" for char in name)
    safe = safe.encode("utf-8", "ignore").decode()[:80].strip(".") or "unnamed"
    free, number, used = safe, 1, {one.casefold() for one in taken}
    while free.casefold() in used:
        number += 1
        free = f"{safe}-{number}"
    return free


def _base(name: str, known: Iterable[str]) -> str | None:
    """The metric that a name is a statistic of."""
    base, _, statistic = name.rpartition("/")
    return base if statistic in ALWAYS and base in known else None
