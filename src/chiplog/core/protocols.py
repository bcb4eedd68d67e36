"""The extension points: what can be plugged into a run, each with one or two methods and no base class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from chiplog.core.records import AnyRecord, Number, Plain, Record, Row


class Stage(Protocol):
    """Maps a row to a row, on the caller's thread, before the row is written; must be fast."""

    def __call__(self, row: Row, step: int | float) -> Row: ...


class Finding(msgspec.Struct, frozen=True):
    """What a rule has found; becomes an alert."""

    title: str
    level: str = "warn"
    text: str = ""
    evidence: Mapping[str, object] = {}
    rule: str = ""  # defaults to the name of the rule
    beside: tuple[Finding, ...] = ()  # further findings in the same row; each becomes an alert


class Rule(Protocol):
    """Checks a written row, on the caller's thread, and may return a finding. The numbers of an event are a row too.

    Optionally, a rule has `events`, the names of events that are passed whole to `event(data, step)`; `tick()`, called
    in the background even if there are no rows; `state()` and `restore(state)`, plain data for the next attempt.
    """

    def __call__(self, row: Row, step: int | float) -> Finding | None: ...


class StepMeter(Protocol):
    """Turns the duration of a step, and its counts, into a row."""

    def plan(self, *, total: int | None, done: int) -> None:
        """Set how many steps there will be, and how many there were before."""
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
        """The row of a step; None for a step without a row."""
        ...

    def rest(self) -> Row | None:
        """The row of the steps since the last row, if there are any."""
        ...

    def state(self) -> dict[str, Plain]: ...

    def restore(self, state: Mapping[str, Plain]) -> None: ...


class Probe(Protocol):
    """A source that is sampled on its own thread, every `interval` seconds.

    Optionally, `first()` returns pairs of an event's name and data once, at the start, and `close()` ends the probe.
    """

    name: str
    interval: float

    def sample(self) -> Iterable[Mapping[str, Plain]]:
        """The data of one event each; events have the probe's name."""
        ...


@runtime_checkable
class Sink(Protocol):
    """A destination: reads the run's records in order and ignores the kinds it does not know.

    An empty batch means that there has been nothing new for a moment. A sink that raises is called again with the same
    batch. A sink that also has `state()` and `restore(state)` is restored to its last state before such a retry, and
    after a crash, so that nothing is written twice.
    """

    def write(self, batch: Sequence[AnyRecord]) -> None: ...

    def close(self) -> None: ...


class JournalLike(Protocol):
    """What a run needs of a journal."""

    @property
    def keeps(self) -> bool:
        """Whether records written to it are kept."""
        ...

    @property
    def dropped(self) -> int: ...

    @property
    def waiting(self) -> int: ...

    @property
    def trouble(self) -> str | None: ...

    @property
    def at_disk(self) -> bool:
        """Whether the background thread is writing to the disk, which may hang."""
        ...

    @property
    def mine(self) -> bool:
        """Whether this thread is the one that is writing, interrupted by a signal."""
        ...

    def append(self, record: Record) -> None: ...

    def count_lost(self) -> None:
        """Count a record that could not even be made, for want of memory."""
        ...

    def flush(self, *, fsync: bool = False, timeout: float = 30.0) -> bool: ...

    def close(self, last: Record | None = None, timeout: float = 5.0) -> None: ...

    def forget(self) -> None: ...


class Unkept(Protocol):
    """Counts what a rank logs that no rank keeps."""

    def note(self, record: Record) -> None: ...

    def note_row(self, metrics: Mapping[str, object]) -> None:
        """Count a row whose values may be of any kind; they are not read."""
        ...

    def missing(self) -> tuple[int, str]:
        """How many rows, and why."""
        ...


class DeviceValues(Protocol):
    """The values of a run that are still on a device."""

    def holds(self, value: object) -> bool:
        """Whether reading this value now would wait for a device."""
        ...

    def add(self, step: Number, later: Mapping[str, object]) -> None: ...

    def ready(self) -> list[tuple[Number, dict[str, object]]]:
        """The rows whose values (numbers and media) have arrived since the last call, in the order of logging."""
        ...

    def __len__(self) -> int: ...


class RankStatistics(Protocol):
    """Computes the statistics of a run across its ranks."""

    counted: bool  # whether the next row has no step of its own, so that ranks match it by its number

    @property
    def has_group(self) -> bool:
        """Whether the other ranks can be reached."""
        ...


class StepTimer(Protocol):
    """Adds up the spans of each step."""

    def feed(self, batch: Mapping[str, Plain]) -> Iterable[tuple[int | float, Row]]:
        """Add the fields of a `Spans` record; return (step, row) for every step that is complete."""
        ...

    def rest(self) -> Iterable[tuple[int | float, Row]]: ...
