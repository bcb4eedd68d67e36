"""Collects the values that several calls log for one step until the step is complete.

Steps may arrive in any order and from several threads; train and eval are separate. The buffer never waits for a value
on a device: its step is released once the value has arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import zip_longest
from typing import TypeAlias

import msgspec

from chiplog.core.background import forks
from chiplog.core.records import Number
from chiplog.metrics.step_values.reducers import MetricsT, Reducer, Texts, as_texts, reduce

Key: TypeAlias = tuple[int | float, str]  # step, mode
Calls: TypeAlias = dict[str, tuple[list[object], Reducer | None]]  # the values of each name, and their reducer

# The columns of a table of samples, by the name of the metric that fills them.
COLUMNS = {"prompts": "prompt", "completions": "completion", "trajectory_ids": "trajectory_id"}
IDENTIFIERS = ("trajectory_ids",)  # texts, even if they are numbers


class Gathered(msgspec.Struct, frozen=True):
    """The data of a step: a row of numbers, a table of texts, and which values could not be reduced and why."""

    step: int | float
    mode: str
    row: dict[str, Number]
    samples: list[dict[str, str]]
    troubles: dict[str, str]
    calls: Calls  # the values as they were added


class Buffer:
    """Values by step, mode and name. `on_device` tells whether reading a value now would wait."""

    def __init__(self, on_device: Callable[[object], bool] | None = None) -> None:
        self._on_device = on_device or _never
        self._lock = threading.RLock()  # a signal handler may add too
        forks.watch(self)
        self._open: dict[Key, Calls] = {}
        self._complete: dict[Key, Calls] = {}

    def __len__(self) -> int:
        """The number of steps that have not been drained."""
        return len(self._open) + len(self._complete)

    def add(self, metrics: MetricsT, mode: str, step: int | float) -> None:
        """Add values. The first reducer given for a name is used.

        A value for a step that was already drained starts that step again, so no late value is dropped.
        """
        with self._lock:
            calls = self._open.setdefault((step, str(mode)), {})
            for name, (value, reducer) in metrics.items():
                calls.setdefault(str(name), ([], reducer))[0].append(value)

    def complete(self, before: int | float | None = None) -> None:
        """Declare the steps before this one complete; by default all of them."""
        with self._lock:
            for key in sorted(key for key in self._open if before is None or key[0] < before):
                for name, (values, reducer) in self._open.pop(key).items():
                    self._complete.setdefault(key, {}).setdefault(name, ([], reducer))[0].extend(values)

    def drain(self, *, rest: bool = False) -> list[Gathered]:
        """The complete steps whose values are all on the host, each of them once; never waits for a device.

        With `rest`, all complete steps: values that are still on a device are lost, and listed in `troubles`.
        """
        with self._lock:
            keys = [key for key, calls in self._complete.items() if rest or not self._is_waiting(calls)]
            taken = [(key, self._complete.pop(key)) for key in sorted(keys)]
        return [_gather(key, calls, self._on_device if rest else _never) for key, calls in taken]

    def forked(self) -> None:
        """In a forked child: discard the values, which belong to the parent."""
        self._lock = threading.RLock()
        self._open, self._complete = {}, {}

    def _is_waiting(self, calls: Calls) -> bool:
        return any(self._on_device(value) for values, _ in calls.values() for value in values)


def _gather(key: Key, calls: Calls, on_device: Callable[[object], bool]) -> Gathered:
    row: dict[str, Number] = {}
    columns: dict[str, list[str]] = {}
    troubles: dict[str, str] = {}
    for name, (values, reducer) in calls.items():
        try:
            if any(map(on_device, values)):
                raise TimeoutError("it was still on a device")
            result = as_texts(values) if name in IDENTIFIERS else reduce(values, reducer)
        except Exception as error:  # a reducer is the user's own
            troubles[name] = str(error) or type(error).__name__
            continue
        if isinstance(result, Texts):
            columns[COLUMNS.get(name, name)] = result
        elif result is not None:
            row[name] = result
    samples = [
        {column: text for column, text in zip(columns, texts, strict=True) if text is not None}
        for texts in zip_longest(*columns.values())
    ]
    return Gathered(*key, row, samples, troubles, calls)


def _never(_: object) -> bool:
    return False
