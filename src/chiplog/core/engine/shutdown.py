"""The end of a run: its state, its steps, and what was delivered."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from chiplog.core import messages, records
from chiplog.core.background.shared_thread import RunBackground
from chiplog.core.engine.attachments import Attachments
from chiplog.core.engine.background_tasks import BackgroundTasks
from chiplog.core.engine.recorder import Recorder
from chiplog.core.errors import UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.protocols import JournalLike, Sink
from chiplog.core.records import Plain
from chiplog.core.tracing.tracer import Tracer
from chiplog.core.values.convert import text
from chiplog.core.values.redact import redact_words
from chiplog.core.values.text import cut


class Delivery(msgspec.Struct, frozen=True):
    """The result of `finish`: true if every sink has everything; `missing` describes what is undelivered, by sink."""

    complete: bool
    missing: dict[str, str]
    lost: int = 0  # records that could not be written

    def __bool__(self) -> bool:
        return self.complete


def ending(error: BaseException | None) -> tuple[str, str]:
    """(state, reason) from the exception that ended a run."""
    if error is None or isinstance(error, GeneratorExit):
        return "finished", ""
    if isinstance(error, SystemExit):
        return _exit_state(error.code)
    reason = f"{type(error).__name__}: {error}".removesuffix(": ")
    return ("interrupted" if isinstance(error, KeyboardInterrupt) else "failed"), reason


def _exit_state(code: object) -> tuple[str, str]:
    """As Python does: no code and 0 are success, a number is the exit code, anything else is printed."""
    if code is None or (isinstance(code, int) and code == 0):
        return "finished", ""
    return "failed", f"exit code {int(code)}" if isinstance(code, int) else text(code)


_at_exit: list[Callable[[], None]] = []  # the calls that finish the open runs


def at_exit(call: Callable[[], None]) -> Callable[[], None]:
    """Finish a run when the interpreter exits; returns a function that cancels it."""
    _at_exit.append(call)
    atexit.register(call)

    def undo() -> None:
        atexit.unregister(call)
        if call in _at_exit:
            _at_exit.remove(call)

    return undo


def go_first() -> None:
    """Finish the runs before all exit handlers registered so far.

    For a sink whose package closes itself at exit, before a run has sent it everything.
    """
    for call in list(_at_exit):
        atexit.unregister(call)
        atexit.register(call)


class SinkDelivery(msgspec.Struct, frozen=True):
    """The delivery to a run's sinks, as the run sees it."""

    sinks: Mapping[str, Sink]
    health: Callable[[], dict[str, Plain]]
    close: Callable[[float], dict[str, str]]  # seconds -> what is undelivered, by sink
    away: Sequence[str] = ()  # the sinks that run in the relay process
    settle: Callable[..., bool] = lambda *_: True  # seconds, sinks (all) -> whether those here have everything

    @property
    def names(self) -> list[str]:
        """The names of all sinks, here and in the relay process."""
        return [*self.sinks, *self.away]

    def sink(self, name: str) -> Sink:
        """See `Run.sink`."""
        if name in self.away:
            raise UnknownSink(
                f"the sink {name!r} runs in the relay process, where its native object cannot be reached; "
                "init(relay='thread') runs it here"
            )
        if name not in self.sinks:
            raise UnknownSink(f"this run has no sink {name!r}; available: {', '.join(self.sinks) or 'none'}")
        return self.sinks[name]


NO_SINKS = SinkDelivery({}, dict, lambda _: {})


KINDS = 5  # of repeated problems in the last message
AFTER_INTERRUPT = 1.0  # s for the steps after one that was interrupted


class Shutdown:
    """Ends a run in named steps, each with its own time limit; an exception in one step does not stop the next.

    An exception that is not an `Exception`, such as a second ^C, leaves one second for the other steps, and is raised
    after them.
    """

    def __init__(
        self,
        identity: Identity,
        recorder: Recorder,
        *,
        tracer: Tracer,
        files: Attachments,
        tasks: BackgroundTasks,
        background: RunBackground | None,
    ) -> None:
        self._identity, self._recorder, self._tracer = identity, recorder, tracer
        self._files, self._tasks, self._background = files, tasks, background
        self.before: list[Callable[[], None]] = []  # called while the run can still be written to
        self.decide_owner: Callable[[], None] = lambda: None  # then decides whether this rank keeps the run
        self.unkept: Callable[[], tuple[int, str]] = lambda: (0, "")  # rows that no rank keeps, and why
        self.closing: list[Callable[[], object]] = []  # called after the last record, beside the disk
        self.after: list[Callable[[], object]] = []
        self._lock = threading.RLock()
        self._result: Delivery | None = None
        self._deadline = 0.0
        self._thread = 0  # that ends the run
        self._interrupt: BaseException | None = None  # to be raised after the last step

    def finish(self, timeout: float, state: str, reason: str, delivery: Callable[[], SinkDelivery | None]) -> Delivery:
        """End the run once; every later call returns the same result. `delivery` is called once ranks have settled."""
        with self._lock:
            if self._result is not None:
                return self._result
            if self._recorder.inert or self._recorder.journal is None:
                rows, why = self.unkept()
                self._result = Delivery(not rows, {"journal": why} if rows else {}, rows)
                return self._result
            self._result = Delivery(False, {})  # what a call from within returns
            self._deadline, self._thread = time.monotonic() + timeout, threading.get_ident()
            try:
                self._result = self._run(state, reason, delivery)
            except Exception as error:
                self._recorder.failed("finish", error)
            finally:
                if not self._recorder.inert:  # it was interrupted between two steps
                    self.write_end(state, reason, AFTER_INTERRUPT)
            if self._interrupt is not None:
                raise self._interrupt
            return self._result

    def forget(self) -> None:
        """In a forked child: there is nothing to end."""
        self._lock = threading.RLock()
        self._result = self._result or Delivery(True, {})

    def _run(self, state: str, reason: str, delivery: Callable[[], SinkDelivery | None]) -> Delivery:
        undelivered: dict[str, str] = {}
        closed = threading.Event()
        steps: list[Step] = [
            ("values on devices", lambda: self._tasks.end_device(self._deadline - 1)),
            *((_name(call), call) for call in self.before),
            ("spans", lambda: self._tasks.end_spans(self._deadline - 1)),
            ("ranks", self.decide_owner),
            ("files", lambda: self._close_files(undelivered)),
            ("journal and sinks", lambda: self._close_disk(state, reason, delivery(), undelivered, closed)),
            ("recording", self._stop),
            *((_name(call), call) for call in self.after),
        ]
        for name, call in steps:
            self._attempt(name, call)
        return self._report(delivery(), undelivered, closed)

    def _stop(self) -> None:
        self._recorder.stop("the run has finished", "continue it by chiplog.init(resume=run.resume_token())")
        self._tracer.set(False)

    def write_end(self, state: str, reason: str, timeout: float) -> None:
        """Write the last record and close the journal."""
        recorder, journal = self._recorder, self._recorder.journal
        assert journal is not None
        self._stop()
        last = records.Finish(
            next(recorder.seq), recorder.clock.now(), state, cut(redact_words(cut(reason)), 2000), journal.dropped
        )
        journal.close(last, timeout=timeout)

    def _close_files(self, undelivered: dict[str, str]) -> None:
        undelivered["files"] = "they may not be copied"  # unless `close` returns
        # A slow copy must leave the sinks some time.
        unkept = self._files.close(self._left((self._deadline - time.monotonic()) / 2))
        del undelivered["files"]
        if unkept:
            undelivered["files"] = f"not copied: {', '.join(unkept[:5])}"

    def _close_disk(
        self,
        state: str,
        reason: str,
        post: SinkDelivery | None,
        undelivered: dict[str, str],
        closed: threading.Event,
    ) -> None:
        """Do everything that needs the disk on the background thread, because the disk may hang."""
        journal = self._recorder.journal
        assert journal is not None

        def close_sinks() -> None:
            if post is not None:
                undelivered.update(dict.fromkeys(post.names, "it was not closed"))  # unless `close` returns
                missing = post.close(self._deadline - time.monotonic() - 0.2)
                for name in post.names:
                    del undelivered[name]
                undelivered.update(missing)

        def close_journal() -> None:
            undelivered["journal"] = "it was not closed"  # unless the last record is written
            self.write_end(state, reason, self._left())
            del undelivered["journal"]

        def close() -> None:
            steps: list[Step] = [
                ("the journal's last lines", lambda: journal.flush(timeout=self._left())),
                ("the last record", close_journal),
                ("the state of rules", self._tasks.save_state),
                *((_name(call), call) for call in self.closing),
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
            done = self._background.stop(self._left(), close)
            if not done and not journal.at_disk and not self._tasks.saving:
                self._background.end()  # a callback or a device blocks the thread
            closed.wait(self._left(self._deadline))

    def _report(self, post: SinkDelivery | None, undelivered: dict[str, str], closed: threading.Event) -> Delivery:
        """Report what is missing, and where it still is."""
        journal = self._recorder.journal
        assert journal is not None
        if not closed.is_set() and self._interrupt is not None:
            closed.wait(self._left())
        if not closed.is_set():
            return self._unanswered(journal)
        self._report_repeated()
        if journal.dropped:
            messages.say(
                f"{journal.dropped:,} records of run {self._identity.id} are missing: "
                f"{journal.trouble or 'they did not fit into memory'}; `chiplog show {self._identity.id}` names them"
            )
        health = post.health() if post is not None else {}
        where = f"the journal has everything{' else' if journal.dropped else ''}: {self._identity.dir}"
        for sink, what in undelivered.items():
            reason = health.get(sink, {}).get("last_error", "")
            reported = reason and not messages.first_reason(self._identity.dir, sink, reason)
            brief = what.replace(f" ({reason})", "") if reported else what
            if not messages.first_missing(self._identity.dir, sink):
                continue  # a front end reports it in its own words
            if sink == "journal":
                continue  # the step has been reported
            messages.say(f"{sink!r} is not complete: {brief}; {where}")
        rows, why = self.unkept()
        if rows:
            undelivered["journal"] = why
        return Delivery(not undelivered and not journal.dropped, undelivered, journal.dropped + rows)

    def _report_repeated(self) -> None:
        """Report how many problems were like one that has been reported."""
        if repeated := self._recorder.repeated:
            kinds = [f"{kind} {number:,}x" for kind, number in repeated.most_common(KINDS)]
            more = f" and {len(repeated) - KINDS:,} other kinds" if len(repeated) > KINDS else ""
            messages.say(
                f"run {self._identity.id}: {repeated.total():,} more problems like those that were reported: "
                f"{', '.join(kinds)}{more}"
            )

    def _unanswered(self, journal: JournalLike) -> Delivery:
        waiting = journal.dropped + journal.waiting
        messages.say(
            f"cannot finish run {self._identity.id}: {self._identity.dir} is not responding; "
            f"{waiting:,} records are in memory and are lost if the process exits first"
        )
        return Delivery(False, {"journal": "the disk did not answer in time"}, waiting)

    def _attempt(self, name: str, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            if not isinstance(error, Exception) and threading.get_ident() == self._thread:
                self._interrupt = self._interrupt or error
                self._deadline = min(self._deadline, time.monotonic() + AFTER_INTERRUPT)
            messages.say(f"while run {self._identity.id} ended, {name} failed: {error!r}")

    def _left(self, most: float = 5.0) -> float:
        return max(0.1, min(most, self._deadline - time.monotonic()))


Step = tuple[str, Callable[[], object]]


def _name(call: Callable[..., object]) -> str:
    return str(getattr(call, "__qualname__", call))
