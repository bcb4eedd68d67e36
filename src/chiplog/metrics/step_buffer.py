"""What several calls say about one step, gathered until the step is complete.

Steps may come in any order and from several threads; train and eval are kept apart. A value that is still on a device
is never waited for: its step is given out when it has arrived.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, TypeAlias

import msgspec

from chiplog.core.background import forks
from chiplog.core.records import Number
from chiplog.metrics.reducers import MetricsT, Reducer, Texts, as_texts, reduce

Key: TypeAlias = tuple[int | float, str]  # step, mode

# The columns of a table of samples, by the name of the metric that fills them.
COLUMNS = {"prompts": "prompt", "completions": "completion", "trajectory_ids": "trajectory_id"}
IDENTIFIERS = ("trajectory_ids",)  # which are names, also where they are numbers


class Gathered(msgspec.Struct, frozen=True):
    """All that was said about a step: a row of numbers, a table of texts, and what could not be reduced and why."""

    step: int | float
    mode: str
    row: dict[str, Number]
    samples: list[dict[str, str]]
    troubles: dict[str, str]
    calls: dict[str, tuple[list[Any], Reducer | None]]  # as they came


class Buffer:
    """Values by step, mode and name. `on_device` says whether reading a value now would wait."""

    def __init__(self, on_device: Callable[[Any], bool] | None = None) -> None:
        self._on_device = on_device or _never
        self._lock = threading.RLock()  # a signal handler may add too
        forks.watch(self)
        self._open: dict[Key, dict[str, tuple[list[Any], Reducer | None]]] = {}
        self._complete: dict[Key, dict[str, tuple[list[Any], Reducer | None]]] = {}

    def __len__(self) -> int:
        """How many steps have not been given out."""
        return len(self._open) + len(self._complete)

    def add(self, metrics: MetricsT, mode: str, step: int | float) -> None:
        """Take values along. The first reducer that a name comes with is the one that is used.

        A value for a step that has been given out begins it anew: nothing is dropped for being late.
        """
        with self._lock:
            entries = self._open.setdefault((step, str(mode)), {})
            for name, (value, reducer) in metrics.items():
                entries.setdefault(str(name), ([], reducer))[0].append(value)

    def complete(self, before: int | float | None = None) -> None:
        """Nothing more is expected for the steps before this one; without it, for none."""
        with self._lock:
            for key in sorted(key for key in self._open if before is None or key[0] < before):
                entries = self._open.pop(key)
                for name, (found, reducer) in entries.items():
                    self._complete.setdefault(key, {}).setdefault(name, ([], reducer))[0].extend(found)

    def drain(self, *, rest: bool = False) -> list[Gathered]:
        """The complete steps whose values are all on the host, each given out once; never waits for a device.

        With `rest` all of them: what is still on a device then is among the troubles of its step, and lost.
        """
        with self._lock:
            keys = [key for key in self._complete if rest or not any(map(self._on_device, self._values(key)))]
            taken = [(key, self._complete.pop(key)) for key in sorted(keys)]
        return [_gather(key, entries, self._on_device if rest else _never) for key, entries in taken]

    def forked(self) -> None:
        """In a forked child: what was gathered is the parent's."""
        self._lock = threading.RLock()
        self._open, self._complete = {}, {}

    def _values(self, key: Key) -> Iterator[Any]:
        return (value for found, _ in self._complete[key].values() for value in found)


def _gather(
    key: Key, entries: dict[str, tuple[list[Any], Reducer | None]], on_device: Callable[[Any], bool]
) -> Gathered:
    row: dict[str, Number] = {}
    columns: dict[str, list[str]] = {}
    troubles: dict[str, str] = {}
    for name, (found, reducer) in entries.items():
        try:
            if any(map(on_device, found)):
                raise TimeoutError("it was still on a device")
            result = as_texts(found) if name in IDENTIFIERS else reduce(found, reducer)
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
    return Gathered(*key, row, samples, troubles, entries)


def _never(_: Any) -> bool:
    return False
