"""The seams: what can be plugged into a run, each by one or two methods and no base class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from chiplog.core.records import AnyRecord, Record, Row


class Stage(Protocol):
    """From row to row, on the caller's thread, before the row is written; must be quick."""

    def __call__(self, row: Row, step: int | float) -> Row: ...


class Finding(msgspec.Struct, frozen=True):
    """What a rule saw; becomes an alert."""

    title: str
    level: str = "warn"
    text: str = ""
    evidence: Mapping[str, Any] = {}
    rule: str = ""  # who found it; the rule's own name where it does not say
    beside: tuple[Finding, ...] = ()  # what else there was in the same row; an alert each


class Rule(Protocol):
    """Looks at a finished row, on the caller's thread; may find something worth an alert. The numbers of an event are
    a row too.

    A rule may have more: `events`, names whose data `event(data, step)` gets whole; `tick()`, asked in the background
    also when no row comes; `state()` and `restore(state)`, plain data that the next attempt begins with.
    """

    def __call__(self, row: Row, step: int | float) -> Finding | None: ...


class StepMeter(Protocol):
    """Turns the time of a step, and what is known about it, into a row."""

    def plan(self, *, total: int | None, done: int) -> None:
        """How many steps there will be, and how many there were before."""
        ...

    def measure(
        self,
        step: int | float,
        metrics: Row,
        took: float | None,
        waited: float | None = None,
        tokens: int | None = None,
        samples: int | None = None,
    ) -> Row | None:
        """The row of a step; None when it is one of those between two rows."""
        ...

    def rest(self) -> Row | None:
        """The row of the steps since the last one, if there are any."""
        ...

    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None: ...


class Probe(Protocol):
    """A source that is sampled on a thread of its own, every `interval` seconds.

    One that also has `first()` says at the start, once, pairs of an event's name and data; `close()` ends it.
    """

    name: str
    interval: float

    def sample(self) -> Iterable[Mapping[str, Any]]:
        """The data of one event each, under the probe's name."""
        ...


@runtime_checkable
class Sink(Protocol):
    """A destination: reads the run's records in order and ignores the kinds it does not know.

    An empty batch means that nothing new has come for a moment. A sink that raises is called again with the same batch.
    A sink that also has `state()` and `restore(state)` is brought back to where it was before such a retry, and after a
    crash, so that nothing is written twice.
    """

    def write(self, batch: Sequence[AnyRecord]) -> None: ...

    def close(self) -> None: ...


class JournalLike(Protocol):
    """What a run needs of a journal."""

    @property
    def keeps(self) -> bool:
        """Whether what is written to it stays."""
        ...

    @property
    def dropped(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def trouble(self) -> str | None: ...

    @property
    def at_disk(self) -> bool:
        """Whether the background thread is at the disk, which may not answer."""
        ...

    @property
    def mine(self) -> bool:
        """Whether this very thread is writing what waits: a signal came in between."""
        ...

    def append(self, record: Record) -> None: ...

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool: ...

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None: ...

    def forget(self) -> None: ...


class DeviceValues(Protocol):
    """What a run needs of the values that are still on a device."""

    def holds(self, value: Any) -> bool:
        """Whether reading this value now would wait for a device."""
        ...

    def add(self, step: int | float, later: Mapping[str, Any]) -> None: ...

    def ready(self) -> list[tuple[int | float, dict[str, Any]]]:
        """The rows whose values (numbers and media) have arrived since the last call, in the order they were logged."""
        ...

    def __len__(self) -> int: ...


class StepTimer(Protocol):
    """What adds up the spans of a step."""

    def feed(self, batch: Mapping[str, Any]) -> Iterable[tuple[int | float, Row]]:
        """Take the fields of a `Spans` record; give (step, row) for every step that is over."""
        ...

    def rest(self) -> Iterable[tuple[int | float, Row]]: ...
