"""Stragglers: which rank holds the others up, step by step, and for how long already.

By rank, in seconds: `time`, how long its step took (`*/step_time_sec` where it is logged, otherwise from one step's
arrival to the next); `wait`, its wait for data (`*/data_time_sec`); `late`, its arrival behind the median arrival, by
the wall clocks of the hosts, where step times are not logged. A rank is slow at a step when one of them exceeds the
median by a fifth of the median step time, and by 5 ms.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.ranks.step_gather import GatheredStep

SLOW = 0.2  # of the median step time
LEAST = 0.005  # s; less is noise
IN_A_ROW = 20  # steps at which the same rank was the slowest before it is told
COOL_DOWN = 1000  # steps before the same rank is told again
_SAYS = {"time": "step_time_sec", "wait": "data_time_sec"}
_WORDS = {"time": "its steps take", "wait": "it waits for data", "late": "it arrives late by"}


class Stragglers:
    """Judges the steps of a run as they are gathered; `facts` holds host and device state by rank."""

    name = "straggler"

    def __init__(self, facts: Mapping[int, Mapping[str, Any]] | None = None, steps: int = IN_A_ROW) -> None:
        self._facts = {} if facts is None else facts
        self._enough = steps
        self._arrived: dict[int, int] = {}
        self._culprit: int | None = None
        self._streak = 0
        self._quiet: dict[int, int] = {}

    def __call__(self, gathered: GatheredStep) -> tuple[Row, Finding | None]:
        """The skew of a step, and a finding when the same rank has been slow for long enough."""
        arrivals = {rank: said[0].time for rank, said in gathered.rows.items() if said and said[0].time}
        if len(arrivals) < 2:
            return {}, None
        before, self._arrived = self._arrived, arrivals  # from one step to the same next one, for all
        middle = _median(arrivals.values())
        said = self._said("time", gathered)
        seen = {
            "time": said or {rank: (time - before[rank]) / 1e9 for rank, time in arrivals.items() if rank in before},
            "wait": self._said("wait", gathered),
            "late": {} if said else {rank: (time - middle) / 1e9 for rank, time in arrivals.items()},
        }
        if len(seen["time"]) < 2:
            return {}, None
        usual = _median(seen["time"].values())
        limit = max(LEAST, SLOW * usual)
        medians = {kind: _median(values.values()) for kind, values in seen.items() if values}
        # Each rank's worst excess over the median, as (seconds, which clock).
        excess = {
            rank: max((values[rank] - medians[kind], kind) for kind, values in seen.items() if rank in values)
            for rank in arrivals
        }
        slowest = max(excess, key=lambda rank: excess[rank])
        longest = max(seen["time"].values())
        row: Row = {
            "ranks/skew": (longest - usual) / usual if usual > 0 else 0.0,
            "ranks/behind_sec": excess[slowest][0],
            "ranks/slowest": slowest,
        }
        return row, self._judge(gathered, slowest, excess[slowest], limit, seen, usual)

    def _said(self, kind: str, gathered: GatheredStep) -> dict[int, float]:
        """What ranks say themselves, when all do."""
        found: dict[int, float] = {}
        places: dict[int, int | None] = {}  # by the identity of the names, which most ranks share
        for rank, said in gathered.rows.items():
            for names, doubles in (row.values for row in said):
                if id(names) not in places:
                    places[id(names)] = _place(names, _SAYS[kind])
                if (at := places[id(names)]) is not None:
                    (value,) = struct.unpack_from("=d", doubles, 8 * at)
                    if value - value == 0:
                        found[rank] = value
        return found if len(found) == len(gathered.rows) else {}

    def _about(self, rank: int) -> dict[str, Any]:
        """Where a rank is, and how its device does: the one whose number is that of the rank on its host."""
        facts = self._facts.get(rank, {})
        found = {"host": facts["host"]} if facts.get("host") else {}
        device = _device(self._facts, facts.get("host"), str(_local(self._facts, rank)))
        return found if device is None else {**found, "device": device}

    def _judge(
        self,
        gathered: GatheredStep,
        slowest: int,
        worst: tuple[float, str],
        limit: float,
        seen: Mapping[str, Mapping[int, float]],
        usual: float,
    ) -> Finding | None:
        behind, kind = worst
        if behind <= limit:
            self._culprit, self._streak = None, 0
            return None
        self._streak = self._streak + 1 if slowest == self._culprit else 1
        self._culprit = slowest
        self._quiet[slowest] = self._quiet.get(slowest, 0) - 1
        if self._streak < self._enough or self._quiet[slowest] > 0:
            return None
        self._quiet[slowest] = COOL_DOWN
        facts = self._about(slowest)
        host = f" on {facts['host']}" if facts.get("host") else ""
        others = _median(seen[kind].values())
        return Finding(
            f"rank {slowest}{host} is slow",
            "warn",
            f"for {self._streak} steps {_WORDS[kind]} {seen[kind][slowest]:.3g} s, the others' median is "
            f"{others:.3g} s",
            {
                "rank": slowest,
                **facts,
                "step": gathered.step,
                "steps": self._streak,
                "by": kind,
                "seconds": seen[kind][slowest],
                "median_sec": others,
                "step_time_sec": usual,
            },
        )


def _median(values: Iterable[float]) -> float:
    """The middle value, the lower one of two: of two ranks the slower one is compared with the other."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def _local(facts: Mapping[int, Mapping[str, Any]], rank: int) -> int:
    """Which of its host's ranks one is: as its launcher says, or by order where none does and all think they are 0."""
    host = facts.get(rank, {}).get("host")
    local = {one: about.get("local", 0) for one, about in facts.items() if about.get("host") == host}
    if len(set(local.values())) < len(local):
        return sorted(local).index(rank) if rank in local else 0
    return int(local.get(rank, 0))


def _device(facts: Mapping[int, Mapping[str, Any]], host: object, local: str) -> Any:
    """What is known of a device, by whichever rank of its host asks the devices."""
    for one in facts.values():
        if one.get("host") == host and local in one.get("devices", {}):
            return one["devices"][local]
    return None


def _place(names: tuple[str, ...], ending: str) -> int | None:
    """Where a name is that is `ending`, or has it as its last part."""
    tail = f"/{ending}"
    return next((at for at, name in enumerate(names) if name == ending or name.endswith(tail)), None)
