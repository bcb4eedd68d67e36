"""Reports on the calls to a user's backend: those that were repeated, skipped, or left at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from chiplog.core import messages
from chiplog.core.records import AnyRecord, Plain
from chiplog.sinks.adapters.backend_calls import Calls
from chiplog.sinks.adapters.backends import Wrapper
from chiplog.store import layout
from chiplog.store.journal.cursors import write_health
from chiplog.store.journal.tail import Tail

COUNTING = 0.5  # s for counting the calls that are left


class CallReport:
    """Reports once that calls were repeated or skipped, and saves for readers how many were skipped."""

    def __init__(self, run: Path, name: str, segment: layout.Segment) -> None:
        self._run, self._name, self._segment = run, name, segment
        self._skipped = 0  # as far as reported

    def update(self, calls: Calls, health: Callable[[], Mapping[str, Plain]], say: bool = True) -> None:
        name = self._name
        if say and calls.retried:
            messages.once(
                f"retried {name} {id(self)}",
                f"sink {name!r} raised {calls.retried}; it was retried and received everything",
            )
        if calls.skipped == self._skipped:
            return
        self._skipped = calls.skipped
        if say:
            messages.once(
                f"skipped {name} {id(self)}",
                f"sink {name!r} rejected a call ({calls.why}); the call is skipped and counted; delivery continues",
            )
        try:
            write_health(self._run, name, self._segment, health())
        except OSError as error:
            messages.once(f"health {self._run} {name}", f"cannot save the health of sink {name!r}: {error}")


def count_left(sink: Wrapper, batch: list[AnyRecord], tail: Tail) -> list[AnyRecord]:
    """Plan the calls that a backend was too slow for, so that they are counted; returns what was not planned of a long
    journal."""
    until = time.monotonic() + COUNTING
    while time.monotonic() < until:
        sink.left(batch)
        batch = tail.read()
        if not batch:
            break
    return batch
