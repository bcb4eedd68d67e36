"""When the next round starts, and how often to poll one that is under way."""

from __future__ import annotations

import time

TICK = 0.25  # s between two rounds if no rank waits for one
GRACE = 0.01  # s after which a rank with nothing to send joins a round that another rank may wait for
FIRST_POLL = 0.005  # s until the group is polled again; it doubles


class RoundTiming:
    """The timing of one rank; `sync` if its callers wait for rounds, `root` on rank 0."""

    def __init__(self, *, sync: bool, root: bool, world: int) -> None:
        self._sync, self._root, self._world = sync, root, world
        self._collided = 0.0  # when a row last found a round under way
        self.reset()

    def reset(self) -> None:
        """Start with a new group."""
        self.due = 0.0
        self._grace = TICK if self._root else GRACE
        self._form_poll = FIRST_POLL

    def schedule(self, now: float, *, hurry: bool) -> None:
        """Set the time of the next round."""
        if hurry:
            self.due = now + GRACE
        else:
            self.due = now + (self._grace if self._sync else TICK)

    def learn(self, *, row_waited: bool, took: float) -> None:
        """Adapt the time after which this rank joins with nothing to send, after it has done so.

        Earlier if the others waited for it; later if a row followed, which then needed a second round. This works only
        if every rank gets the row: then all of them notice that one round was not enough.
        """
        if row_waited:
            self._grace = min(2 * self._grace, TICK)
        elif took < GRACE / 2:
            self._grace = GRACE

    def collide(self) -> None:
        """A row has found a round under way."""
        self._collided = time.monotonic()

    def form_poll(self, *, was_formed: bool) -> float:
        """Seconds until the group is asked again whether it is complete."""
        longest = 0.5 if was_formed else min(0.5, max(0.02, 0.0005 * self._world))
        self._form_poll = min(2 * self._form_poll, longest)
        return self._form_poll

    def round_poll(self, now: float, elapsed: float, *, idle: bool) -> float:
        """Seconds until the round under way is polled again; `idle` if a row of this rank would wake the poller."""
        if self._sync and idle:
            return max(0.001, min(0.5 * elapsed, GRACE / 2))
        least, most = (20e-6, 0.002) if self._sync else (0.001, 0.02)
        return max(least, min(0.1 * min(elapsed, now - self._collided), most))
