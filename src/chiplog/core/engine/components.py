"""The components of a run, connected to each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from chiplog.core.background.forks import SharedFlag
from chiplog.core.background.shared_thread import RunBackground
from chiplog.core.clock import RunClock
from chiplog.core.device_hooks import DeviceHooks
from chiplog.core.engine.attachments import Attachments
from chiplog.core.engine.background_tasks import BackgroundTasks
from chiplog.core.engine.events import Changes, Events
from chiplog.core.engine.live_reader import LiveReader, RunReader
from chiplog.core.engine.recorder import Recorder
from chiplog.core.engine.rows import RowWriter
from chiplog.core.engine.rules import Alerts, CarriedState, Rules
from chiplog.core.engine.shutdown import Shutdown, SinkDelivery
from chiplog.core.engine.step_count import StepCount
from chiplog.core.engine.value_splitter import Splitter
from chiplog.core.identity import Identity
from chiplog.core.journals.memory_journal import MemoryJournal
from chiplog.core.journals.null_journal import NullJournal
from chiplog.core.protocols import Finding, JournalLike, Rule, Stage, Unkept
from chiplog.core.records import Number, Plain, Row
from chiplog.core.tracing.tracer import Tracer


class Components:
    """Everything behind the methods of a `Run`. Without a journal, nothing is recorded."""

    def __init__(
        self,
        identity: Identity,
        journal: JournalLike | None = None,
        *,
        clock: RunClock | None = None,
        background: RunBackground | None = None,
        stages: Sequence[Stage] = (),
        rules: Sequence[Rule] = (),
        machine: DeviceHooks | None = None,
        read: Callable[[], RunReader] | None = None,
        save_state: Callable[[Mapping[str, Plain]], None] | None = None,
        strict: bool = False,
        first: int = 0,
    ) -> None:
        machine = machine or DeviceHooks()
        wake = None if background is None else background.wake
        self._told = SharedFlag() if journal is not None else None
        self.identity, self.journal, self.background, self.meters = identity, journal, background, machine.meters
        self.recorder = recorder = Recorder(identity.id, journal, clock or RunClock(), strict=strict)
        self.tracer = Tracer(machine.watcher, wake)
        self.count = StepCount(recorder, self.tracer, first)
        self.files = Attachments(identity, recorder)
        self.alerts = Alerts(recorder)
        self.rules = Rules(rules, self.alerts, recorder)
        self.carried = CarriedState((*stages, *rules), first - 1)
        self.rows = RowWriter(recorder, stages, self.rules, self.carried)
        self.events = Events(recorder, self.rules)
        self.splitter = Splitter(identity.id, recorder, self.events, self.files, machine.values, wake)
        self.tasks = BackgroundTasks(
            recorder,
            self.rows,
            self.count,
            tracer=self.tracer,
            splitter=self.splitter,
            machine=machine,
            carried=self.carried,
            save_state=save_state,
        )
        self.shutdown = Shutdown(
            identity, recorder, tracer=self.tracer, files=self.files, tasks=self.tasks, background=background
        )
        self.changes = Changes(recorder, wake)
        self.read_back = LiveReader(recorder, self.tracer, self.tasks, self.changes, read)
        self.shutdown.before.append(self.read_back.repeat_summary)
        if not recorder.keeps or recorder.held:
            self.tracer.on = False

    def trace(
        self, enabled: bool, every: int | None, concurrent: str | Iterable[str] | None, deadline: float | None
    ) -> None:
        """See `Run.trace`; a held run starts tracing once it keeps records."""
        self.tracer.set(enabled and self.recorder.keeps and not self.recorder.held, every, concurrent, deadline)
        if isinstance(self.journal, MemoryJournal):
            self.journal.tracing = (enabled, every)  # after `set`, which raises for what it cannot do

    def describe(self) -> str:
        """See `Run.__repr__`."""
        state = "running" if self.recorder.keeps else "not recording"
        step = f", step {self.count.next - 1:,}" if self.count.next else ""
        about = self.identity
        name = f" {about.name!r}" if about.name not in ("", about.id) else ""
        return f"<chiplog run {about.project}/{about.id}{name}: {state}{step}, {about.dir}>"

    def health(self, sinks: SinkDelivery) -> dict[str, Plain]:
        """See `Run.health`."""
        journal = NullJournal() if self.journal is None else self.journal
        return {
            "journal": {"waiting": journal.waiting, "dropped": journal.dropped, "trouble": journal.trouble},
            "device": self.tasks.on_device,
            "spans_dropped": self.tracer.dropped,
            "sinks": sinks.health(),
        }

    def add_statistics(self, row: Row, step: Number) -> None:
        """Write the statistics across ranks of a step; no stage and no rule sees them."""
        self.rows.write_statistics(row, step, counted=self.count.is_counted(step))

    def alert(self, finding: Finding, rule: str, step: Number) -> None:
        """Raise the alert of a rule that runs in the background."""
        with self.recorder.guard(f"rule {rule}"):
            self.alerts.write(finding, rule, step)

    def restore(self, saved: Mapping[str, Plain]) -> None:
        """Restore the state of stages and rules from the last attempt, if this one continues after it."""
        self.carried.expect(saved)
        self.rows.wait_for_state()

    def take_over(self, attempt: int, rules: Sequence[Rule]) -> Identity:
        """See `Run.take_over`; returns the identity with the number of the attempt."""
        self.rules.replace(rules)
        self.files.release()
        if isinstance(self.journal, MemoryJournal):
            self.tracer.set(*self.journal.tracing)
        return msgspec.structs.replace(self.identity, attempt=attempt)

    def let_go(self, unkept: Unkept | None = None) -> None:
        """Keep nothing, because another rank keeps the run; with `unkept`, which counts what is logged from now on,
        also leave the statistics across ranks."""
        self.tracer.set(False)
        self.files.forget()
        if unkept is not None:
            self.recorder.stop("", unkept=unkept)
            self.shutdown.unkept = unkept.missing

    def forked(self) -> None:
        """In a forked child: stop, because the run belongs to the parent."""
        if self.journal is not None and not self.recorder.inert:
            folder = str(self.identity.dir)
            reason = f"this is a forked process; chiplog.attach({folder!r}) opens a journal of its own"
            self.recorder.stop(reason, told=self._told)
            self.journal.forget()
        self.tracer.forget()
        self.files.forget()
        self.shutdown.forget()
