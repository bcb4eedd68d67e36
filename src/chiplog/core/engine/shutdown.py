"""The end of a run: its state, its steps, and what was delivered."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from chiplog.core import messages, records
from chiplog.core.background.tasks import BackgroundTasks
from chiplog.core.background.thread import Background
from chiplog.core.engine.attachments import Attachments
from chiplog.core.engine.recorder import Recorder
from chiplog.core.identity import Identity
from chiplog.core.protocols import JournalLike, Sink
from chiplog.core.tracing.tracer import Tracer
from chiplog.core.values.redact import redact_words
from chiplog.core.values.text import cut


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


_at_exit: list[Callable[[], None]] = []  # what ends the runs that are open


def at_exit(call: Callable[[], None]) -> Callable[[], None]:
    """Have a run ended when the interpreter ends; what is returned takes that back."""
    _at_exit.append(call)
    atexit.register(call)

    def undo() -> None:
        atexit.unregister(call)
        if call in _at_exit:
            _at_exit.remove(call)

    return undo


def go_first() -> None:
    """Let the runs end before everything else that was to be done at the interpreter's end so far.

    For a sink whose package ends itself there, with what a run has not handed over yet.
    """
    for call in list(_at_exit):
        atexit.unregister(call)
        atexit.register(call)


class SinkDelivery(msgspec.Struct, frozen=True):
    """What a run needs of the sinks' delivery."""

    sinks: Mapping[str, Sink]
    health: Callable[[], dict[str, Any]]
    close: Callable[[float], dict[str, str]]  # seconds -> what is undelivered, by sink
    away: Sequence[str] = ()  # the sinks that are in the relay process
    settle: Callable[..., bool] = lambda *_: True  # seconds, sinks (all) -> whether those here have everything

    @property
    def names(self) -> list[str]:
        """All its sinks."""
        return [*self.sinks, *self.away]


class Shutdown:
    """Ends a run in named steps, each with its own time; a step that fails does not stop the next."""

    def __init__(
        self,
        identity: Identity,
        recorder: Recorder,
        *,
        tracer: Tracer,
        files: Attachments,
        tasks: BackgroundTasks,
        background: Background | None,
    ) -> None:
        self._identity, self._recorder, self._tracer = identity, recorder, tracer
        self._files, self._tasks, self._background = files, tasks, background
        self.before: list[Callable[[], None]] = []  # while the run can still be written to
        self.settle: Callable[[], None] = lambda: None  # after these: whether what was written is kept
        self.after: list[Callable[[], object]] = []

    def run(self, deadline: float, state: str, reason: str, delivery: Callable[[], SinkDelivery | None]) -> Delivery:
        """All of it, until the deadline, in the order of `steps`. `delivery` is asked for once ranks have settled."""
        undelivered: dict[str, str] = {}
        closed = threading.Event()
        steps: list[Step] = [
            ("values on devices", lambda: self._tasks.end_device(deadline - 1)),
            *((_name(call), call) for call in self.before),
            ("spans", lambda: self._tasks.end_spans(deadline - 1)),
            ("ranks", self.settle),
            ("files", lambda: undelivered.update(self._close_files(_left(deadline, 30.0)))),
            ("journal and sinks", lambda: self._close_disk(deadline, state, reason, delivery(), undelivered, closed)),
            ("recording", self.stop),
            *((_name(call), call) for call in self.after),
        ]
        for name, call in steps:
            self._attempt(name, call)
        return self._report(delivery(), undelivered, closed)

    def stop(self) -> None:
        """Record nothing more."""
        self._recorder.stop("the run has finished")
        self._tracer.set(False)

    def write_end(self, state: str, reason: str, timeout: float) -> None:
        """Write the last record, and close the journal."""
        recorder, journal = self._recorder, self._recorder.journal
        assert journal is not None
        self.stop()
        last = records.Finish(
            next(recorder.seq), recorder.clock.now(), state, cut(redact_words(cut(reason)), 2000), journal.dropped
        )
        journal.close(last, timeout=timeout)

    def _close_files(self, timeout: float) -> dict[str, str]:
        unkept = self._files.close(timeout)
        return {"files": f"not copied: {', '.join(unkept[:5])}"} if unkept else {}

    def _close_disk(
        self,
        deadline: float,
        state: str,
        reason: str,
        post: SinkDelivery | None,
        undelivered: dict[str, str],
        closed: threading.Event,
    ) -> None:
        """All that needs the disk. The background thread does it: nobody else may wait for one that does not answer."""
        journal = self._recorder.journal
        assert journal is not None

        def close_sinks() -> None:
            if post is not None:
                undelivered.update(dict.fromkeys(post.names, "it was not closed"))  # unless this returns
                missing = post.close(deadline - time.monotonic() - 0.2)
                for name in post.names:
                    del undelivered[name]
                undelivered.update(missing)

        def close() -> None:
            steps: list[Step] = [
                ("the journal's last lines", lambda: journal.flush(timeout=_left(deadline))),
                ("the last record", lambda: self.write_end(state, reason, _left(deadline))),
                ("what rules know", self._tasks.remember),
                ("sinks", close_sinks),
            ]
            try:
                for name, call in steps:
                    self._attempt(name, call)
            finally:
                closed.set()

        if self._background is None or journal.mine:
            close()
        else:
            done = self._background.stop(_left(deadline), close)
            if not done and not journal.at_disk and not self._tasks.at_disk:
                self._background.end()  # a callback or a device holds the thread up
            closed.wait(_left(deadline, deadline))

    def _report(self, post: SinkDelivery | None, undelivered: dict[str, str], closed: threading.Event) -> Delivery:
        """Say what is missing, and where."""
        journal = self._recorder.journal
        assert journal is not None
        if not closed.is_set():
            return self._unanswered(journal)
        if journal.dropped:
            messages.say(
                f"{journal.dropped:,} records of run {self._identity.id} are missing: "
                f"{journal.trouble or 'they did not fit into memory'}; `chiplog show {self._identity.id}` names them"
            )
        known = post.health() if post is not None else {}
        where = f"the journal has everything{' else' if journal.dropped else ''}: {self._identity.dir}"
        for sink, what in undelivered.items():
            reason = known.get(sink, {}).get("last_error", "")
            known_already = reason and not messages.first_reason(self._identity.dir, sink, reason)
            brief = what.replace(f" ({reason})", "") if known_already else what
            if not messages.first_missing(self._identity.dir, sink):
                continue  # a front end does, in its own words
            messages.say(f"{sink!r} is not complete: {brief}; {where}")
        return Delivery(not undelivered and not journal.dropped, undelivered, journal.dropped)

    def _unanswered(self, journal: JournalLike) -> Delivery:
        waiting = journal.dropped + journal.waiting
        messages.say(
            f"run {self._identity.id} could not be ended: {self._identity.dir} does not answer; "
            f"{waiting:,} records are not written, and are lost if the process ends before it does"
        )
        return Delivery(False, {"journal": "the disk did not answer in time"}, waiting)

    def _attempt(self, name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception as error:
            messages.say(f"while run {self._identity.id} ended, {name} failed: {error!r}")


Step = tuple[str, Callable[[], object]]


def _left(deadline: float, most: float = 5.0) -> float:
    return max(0.1, min(most, deadline - time.monotonic()))


def _name(call: Callable[..., object]) -> str:
    return str(getattr(call, "__qualname__", call))
