"""Stragglers: which rank delays the others, step by step, and for how long.

By rank, in seconds: `time`, how long its step took (`*/step_time_sec` if it is logged, otherwise the time between
arrivals); `wait`, its wait for data (`*/data_time_sec`); `late`, its arrival after the median arrival, by the hosts'
clocks, if step times are not logged. A rank is slow at a step when one of them exceeds the median by a fifth of the
median step time, and by 5 ms.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TypedDict

from chiplog.core.display import short_duration
from chiplog.core.protocols import Finding
from chiplog.core.records import Row
from chiplog.metrics.ranks.step_gather import GatheredStep

SLOW = 0.2  # of the median step time
LEAST = 0.005  # s; less is noise
IN_A_ROW = 20  # steps at which the same rank was the slowest before it is reported
COOL_DOWN = 1000  # steps before the same rank is reported again
_METRICS = {"time": "step_time_sec", "wait": "data_time_sec"}
_WORDS = {"time": "its step took", "wait": "it waited for data for", "late": "it was late by"}


class Facts(TypedDict, total=False):
    """Where a rank runs, and the state of the devices it samples, by their number."""

    host: str
    local: int  # its number among the ranks of its host
    devices: dict[str, dict[str, object]]


class Stragglers:
    """Compares the ranks at each gathered step; `facts` holds host and device state by rank."""

    name = "straggler"

    def __init__(self, facts: Mapping[int, Facts] | None = None, steps: int = IN_A_ROW) -> None:
        self._facts = {} if facts is None else facts
        self._enough = steps
        self._arrived: dict[int, int] = {}
        self._slowest: int | None = None
        self._streak = 0
        self._quiet: dict[int, int] = {}

    def __call__(self, gathered: GatheredStep) -> tuple[Row, Finding | None]:
        """The skew of a step with its slowest rank, if one is slow; a finding when it has been slow for long enough."""
        arrivals = {rank: rows[0].time for rank, rows in gathered.rows.items() if rows and rows[0].time}
        if len(arrivals) < 2:
            return {}, None
        before, self._arrived = self._arrived, arrivals  # from one step to the next, the same for all
        middle = _median(arrivals.values())
        logged = self._logged("time", gathered)
        times = {
            "time": logged or {rank: (time - before[rank]) / 1e9 for rank, time in arrivals.items() if rank in before},
            "wait": self._logged("wait", gathered),
            "late": {} if logged else {rank: (time - middle) / 1e9 for rank, time in arrivals.items()},
        }
        if len(times["time"]) < 2:
            return {}, None
        usual = _median(times["time"].values())
        limit = max(LEAST, SLOW * usual)
        medians = {kind: _median(values.values()) for kind, values in times.items() if values}
        # Each rank's worst excess over the median, as (seconds, which clock).
        excess = {
            rank: max((values[rank] - medians[kind], kind) for kind, values in times.items() if rank in values)
            for rank in arrivals
        }
        slowest = max(excess, key=lambda rank: excess[rank])
        longest = max(times["time"].values())
        row: Row = {
            "ranks/skew": (longest - usual) / usual if usual > 0 else 0.0,
            "ranks/behind_sec": excess[slowest][0],
        }
        if excess[slowest][0] > limit and before:  # the first step starts when a rank is ready, not with the others
            row["ranks/slowest"] = slowest
        return row, self._judge(gathered, slowest, excess[slowest], limit, times, usual)

    def _logged(self, kind: str, gathered: GatheredStep) -> dict[int, float]:
        """The times that ranks log themselves, if all do."""
        by_rank: dict[int, float] = {}
        indices: dict[int, int | None] = {}  # by the identity of the names, which most ranks share
        for rank, rows in gathered.rows.items():
            for names, doubles in (row.values for row in rows):
                if id(names) not in indices:
                    indices[id(names)] = _index(names, _METRICS[kind])
                if (at := indices[id(names)]) is not None:
                    (value,) = struct.unpack_from("=d", doubles, 8 * at)
                    if value - value == 0:
                        by_rank[rank] = value
        return by_rank if len(by_rank) == len(gathered.rows) else {}

    def _describe(self, rank: int) -> dict[str, object]:
        """The host of a rank, and the state of its device: the one with the number of the rank on its host."""
        host = self._facts.get(rank, {}).get("host")
        device = _device(self._facts, host, str(_local(self._facts, rank)))
        return ({"host": host} if host else {}) | ({} if device is None else {"device": device})

    def _judge(
        self,
        gathered: GatheredStep,
        slowest: int,
        worst: tuple[float, str],
        limit: float,
        times: Mapping[str, Mapping[int, float]],
        usual: float,
    ) -> Finding | None:
        behind, kind = worst
        if behind <= limit:
            self._slowest, self._streak = None, 0
            return None
        self._streak = self._streak + 1 if slowest == self._slowest else 1
        self._slowest = slowest
        self._quiet[slowest] = self._quiet.get(slowest, 0) - 1
        if self._streak < self._enough or self._quiet[slowest] > 0:
            return None
        self._quiet[slowest] = COOL_DOWN
        facts = self._describe(slowest)
        host = f" on {facts['host']}" if facts.get("host") else ""
        others = _median(times[kind].values())
        return Finding(
            f"rank {slowest}{host} is slow",
            "warn",
            f"in {self._streak} steps in a row, {_WORDS[kind]} {short_duration(times[kind][slowest])}; the median of "
            f"all ranks is {short_duration(others)}",
            {
                "rank": slowest,
                **facts,
                "step": gathered.step,
                "steps": self._streak,
                "by": kind,
                "seconds": times[kind][slowest],
                "median_sec": others,
                "step_time_sec": usual,
            },
        )


def _median(values: Iterable[float]) -> float:
    """The middle value, the lower of two: of two ranks, the slower is compared with the faster."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def _local(facts: Mapping[int, Facts], rank: int) -> int:
    """The number of a rank on its host: its launcher's, or by order if there is none and all have 0."""
    host = facts.get(rank, {}).get("host")
    local = {one: about.get("local", 0) for one, about in facts.items() if about.get("host") == host}
    if len(set(local.values())) < len(local):
        return sorted(local).index(rank) if rank in local else 0
    return int(local.get(rank, 0))


def _device(facts: Mapping[int, Facts], host: str | None, local: str) -> dict[str, object] | None:
    """The state of a device, from whichever rank of its host samples the devices."""
    for one in facts.values():
        if one.get("host") == host and local in one.get("devices", {}):
            return one["devices"][local]
    return None


def _index(names: tuple[str, ...], ending: str) -> int | None:
    """The index of a name that is `ending`, or has it as its last part."""
    tail = f"/{ending}"
    return next((at for at, name in enumerate(names) if name == ending or name.endswith(tail)), None)
