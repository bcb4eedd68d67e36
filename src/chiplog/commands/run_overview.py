"""What `show` and `doctor` report on: a run's contents, its attempts, and the progress of its sinks."""

from __future__ import annotations

from pathlib import Path

from chiplog.store import layout
from chiplog.store.contents.contents import Bounds, Contents
from chiplog.store.journal.cursors import backends, cursors
from chiplog.store.journal.lines import Damage
from chiplog.store.journal.tail import stream_key
from chiplog.store.layout import Segment
from chiplog.store.runs import state


class Overview:
    """The current state of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.segments = layout.segments(path)
        self.contents = Contents(path, "eval", "alert", "file", "event", bounds=Bounds(events=0)).refresh()
        self.attempts = state.attempts(path)
        self.cursors = cursors(path)
        self.backends = backends(path)

    @property
    def running(self) -> bool:
        return any(attempt.state == "running" for attempt in self.attempts)

    @property
    def state(self) -> str:
        """The state of the main rank."""
        return state.judge([one for one in self.attempts if one.rank == self.segments[0].rank])

    @property
    def torn(self) -> list[Damage]:
        """Unfinished last lines that no process is still writing."""
        live = {stream_key(Segment(one.rank, one.attempt, 0)) for one in self.attempts if one.state == "running"}
        return self.contents.torn(live)
