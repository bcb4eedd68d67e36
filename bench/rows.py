"""A row of the benchmark: a function that measures, and bars it must meet."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured figure. `bar` is what it must not exceed (or, with `at_least`, not fall below); None: only shown."""

    what: str
    value: float
    unit: str
    bar: float | None = None
    at_least: bool = False
    note: str = ""
    p99: float | None = None
    peer: str = ""  # whose figure it is, where trackers are compared

    @property
    def met(self) -> bool:
        if self.bar is None:
            return True
        return self.value >= self.bar if self.at_least else self.value <= self.bar


ROWS: dict[str, Callable[[], Iterable[Figure]]] = {}


def row(measure: Callable[[], Iterable[Figure]]) -> Callable[[], Iterable[Figure]]:
    """Add a function to the benchmark under its own name (`import_` is the row `import`)."""
    ROWS[measure.__name__.rstrip("_")] = measure
    return measure


def interleaved(calls: dict[str, Callable[[], object]], *, calls_each: int, rounds: int) -> dict[str, list[float]]:
    """Microseconds a call, by round; the candidates take turns, so that what else the machine does hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(calls_each):
                call()
            taken[name].append((time.perf_counter() - began) / calls_each * 1e6)
    return taken


def median(values: Iterable[float]) -> float:
    return statistics.median(values)


def p99(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) * 99 // 100]


def ratio(taken: dict[str, list[float]], name: str, floor: str) -> float:
    """The median of the rounds' ratios: steadier than the ratio of two medians on a busy machine."""
    return median(mine / base for mine, base in zip(taken[name], taken[floor], strict=True))
