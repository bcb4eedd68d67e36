"""The position of one sink in the journal: saved with the sink's state, and guarded by a lease."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import UNSET

from chiplog.core import messages
from chiplog.core.errors import RestartDelivery
from chiplog.core.files import reading
from chiplog.core.records import Plain
from chiplog.core.values.text import words
from chiplog.sinks.delivery.rejections import Ranges
from chiplog.sinks.shared.lease import Lease
from chiplog.store.journal import cursors
from chiplog.store.journal.cursors import Cursor
from chiplog.store.journal.tail import Tail


class StatefulSink(Protocol):
    def state(self) -> dict[str, Plain]: ...

    def restore(self, state: Mapping[str, Plain]) -> None: ...


class SinkCursor:
    """The cursor of a sink that can be put back to a saved state."""

    def __init__(self, run: Path, name: str, rank: int, sink: StatefulSink) -> None:
        self.path = cursors.cursor_path(run, name)
        self.lease = Lease(self.path.with_suffix(".lease"))
        self._run, self._name, self._rank, self._sink = run, name, rank, sink
        self._saved = Cursor()
        self._modified = (0, 0)  # when another process last wrote the cursor

    def restore(self) -> Tail:
        """Put the sink back to its saved state; a tail that continues from there."""
        try:
            self._saved = cursors.load(self.path)
        except FileNotFoundError:
            self._save(Cursor({}, self._sink.state()))  # before anything is written
        except (OSError, ValueError) as error:
            messages.say(f"the position of sink {self._name!r} cannot be read ({error}); it starts from scratch")
            self._save(Cursor())
        try:
            self._sink.restore(self._saved.state)
        except RestartDelivery as error:
            self._start_again(str(error))
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            self._start_again(f"its saved state makes no sense ({words(error)})")
        return self.tail()

    @property
    def rejected(self) -> Ranges:
        """What the service had rejected when the position was saved."""
        return self._saved.rejected or {}

    def _start_again(self, why: str) -> None:
        messages.say(f"sink {self._name!r} restarts from the first record: {why}")
        self._save(msgspec.structs.replace(self._saved, positions={}, state={}))
        self._sink.restore({})

    def save(self, tail: Tail, url: str | None, rejected: Ranges | None = None) -> None:
        """Save the position of a tail with the state of the sink, if they have changed."""
        cursor = msgspec.structs.replace(
            self._saved,
            positions=tail.positions(),
            state=self._sink.state(),
            url=url or self._saved.url,
            rejected={key: list(pairs) for key, pairs in (rejected or {}).items()} or UNSET,
        )
        if cursor != self._saved:
            self._save(cursor)

    def tail(self) -> Tail:
        """A tail that starts at the saved position."""
        return Tail(self._run, rank=self._rank, positions=self._saved.positions)

    def poll(self) -> bool:
        """Whether another process has saved the cursor since the last call."""
        try:
            about = reading.status(self.path.parents[1], f"{self.path.parent.name}/{self.path.name}")
            modified = about.st_mtime_ns, about.st_ino  # two saves may have the same time
            if modified == self._modified:
                return False
            self._saved = cursors.load(self.path)
        except (OSError, ValueError):
            return False  # being written, or damaged, which the holder of the lease reports
        self._modified = modified
        return True

    def _save(self, cursor: Cursor) -> None:
        cursors.save(self.path, cursor)
        self._saved = cursor
