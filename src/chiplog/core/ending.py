"""How a run ends: in which state, within its time, and with everything delivered or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chiplog.core import notes
from chiplog.core.chores import Chores
from chiplog.core.files import Files
from chiplog.core.identity import Identity
from chiplog.core.keeper import Keeper
from chiplog.core.protocols import Pages, Sink


class Delivery(msgspec.Struct, frozen=True):
    """What `finish` achieved: true when every sink has everything; `missing` says what is not delivered, by sink."""

    complete: bool
    missing: dict[str, str]
    lost: int = 0  # records the disk did not take

    def __bool__(self) -> bool:
        return self.complete


def ending(error: BaseException | None) -> tuple[str, str]:
    """(state, reason) from the exception that ended a run."""
    if error is None or isinstance(error, (SystemExit, GeneratorExit)):
        return "finished", ""
    reason = f"{type(error).__name__}: {error}"
    return ("interrupted" if isinstance(error, KeyboardInterrupt) else "failed"), reason


class Post(msgspec.Struct, frozen=True):
    """What a run needs of the sinks' delivery."""

    sinks: Mapping[str, Sink]
    health: Callable[[], dict[str, Any]]
    close: Callable[[float], dict[str, str]]  # seconds -> what is undelivered, by sink
    away: Sequence[str] = ()  # the sinks that are in the relay process
    settle: Callable[[float], bool] = lambda _: True  # seconds -> whether the sinks here have everything


class Ending:
    """Brings a run to its end: one thing after the other, none kept from being done by those before it."""

    def __init__(
        self, identity: Identity, journal: Pages | None, keeper: Keeper | None, files: Files, chores: Chores
    ) -> None:
        self._identity, self._journal, self._keeper = identity, journal, keeper
        self._files, self._chores = files, chores
        self.before: list[Callable[[], None]] = []  # while the run can still be written to
        self.after: list[Callable[[], None]] = []

    def come(
        self, deadline: float, write_end: Callable[[float], None], end: Callable[[], None], post: Post | None
    ) -> Delivery:
        """All of it, until the deadline: `write_end` has the last record written, `end` lets nothing more in."""

        def left(most: float = 5.0) -> float:
            return max(0.1, min(most, deadline - time.monotonic()))

        for call in (
            lambda: self._chores.end_device(deadline - 1),
            *self.before,
            lambda: self._chores.end_spans(deadline - 1),
        ):
            self._attempt(call)
        undelivered: dict[str, str] = {}
        if unkept := self._files.close(left(30.0)):
            undelivered["files"] = f"not copied: {', '.join(unkept[:5])}"
        journal = self._journal
        assert journal is not None
        closed = threading.Event()

        def close() -> None:
            """All that needs the disk. The keeper does it: nobody else may wait for one that does not answer."""
            try:
                journal.flush(timeout=left())
                write_end(left())
                self._attempt(self._chores.remember)
                if post is not None:
                    undelivered.update(post.close(deadline - time.monotonic() - 0.2))
            finally:
                closed.set()

        if self._keeper is None or journal.mine:
            close()
        else:
            done = self._keeper.stop(left(), lambda: self._attempt(close))
            if not done and not journal.at_disk and not self._chores.at_disk:
                self._keeper.end()  # a callback or a device holds the keeper up
            closed.wait(left(most=deadline))
        end()
        for call in self.after:
            self._attempt(call)
        if not closed.is_set():
            return self._unanswered(journal)
        if journal.dropped:
            notes.say(
                f"{journal.dropped:,} records of run {self._identity.id} are missing: "
                f"{journal.trouble or 'they did not fit into memory'}; `chiplog show {self._identity.id}` names them"
            )
        for sink, what in undelivered.items():
            notes.say(f"{sink!r} is not complete: {what}; the journal has everything: {self._identity.dir}")
        return Delivery(not undelivered and not journal.dropped, undelivered, journal.dropped)

    def _unanswered(self, journal: Pages) -> Delivery:
        waiting = journal.dropped + journal.waiting
        notes.say(
            f"run {self._identity.id} could not be ended: {self._identity.dir} does not answer; "
            f"{waiting:,} records are not written, and are lost if the process ends before it does"
        )
        return Delivery(False, {"journal": "the disk did not answer in time"}, waiting)

    def _attempt(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            notes.say(f"while run {self._identity.id} ended: {error!r}")
