"""Trace files under their documented names: packets appended for every step, on a thread of its own.

The file is whole at any moment, after a kill too; when the interpreter ends, what was exported is in it. A directory
that cannot be written to is named once, and the run goes on without the file.
"""

from __future__ import annotations

import atexit
import os
import stat
import threading
import time
from _queue import SimpleQueue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

from chiplog.core import messages, records
from chiplog.core.engine.attachments import file_mode, is_private, make_place
from chiplog.frontends.tunix.perf.experimental import constants
from chiplog.frontends.tunix.perf.recorder import Launching, Recording
from chiplog.runtime.ranks import detect
from chiplog.store.perfetto.trace import Trace
from chiplog.store.spans.span import Span as Recorded

DIRECTORY = "/tmp/perf_traces"
WAITING = 100_000  # spans that may wait for the disk; more are dropped, and a line says so
AT_EXIT = 5.0  # s that the end of the interpreter waits for devices and the disk

Above = Callable[[str, str], str]


class TraceWriter:
    """Appends spans to `<dir>/<stem>_<unix time>.pb`; the file is made with the first of them."""

    def __init__(
        self,
        trace_dir: str | None = None,
        stem: str = "perfetto_trace",
        role_to_devices: Mapping[str, Sequence[str]] | None = None,
        *,
        rank: detect.Ranks | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path: Path | None = None
        self.journal = ""  # of the run that has the spans too, where there is one
        self._dir, self._stem, self._clock = trace_dir, stem, clock
        self._rank = detect.detect(dict(os.environ)) if rank is None else rank
        self._layout = (Old if stem == "perfetto_trace" else New)(role_to_devices or {})
        self._trace: Trace | None = None
        self._fd = -1
        self._jobs: SimpleQueue[Sequence[Recorded] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._given = self._taken = 0  # spans; each is counted by one thread alone
        self._given_up = False
        self._pid = os.getpid()

    def write(self, spans: Sequence[Recorded]) -> None:
        """Have spans written; does not wait for the disk."""
        if not spans or self._given_up or os.getpid() != self._pid:  # the file is the parent's
            return
        if self._given - self._taken >= WAITING:
            messages.once(
                f"tunix trace {id(self)}",
                f"{self.path or 'the trace'} cannot be written fast enough; some spans are not in it",
            )
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="chiplog-tunix-trace", daemon=True)
            self._thread.start()
            _exit.await_writer(self)
        self._given += len(spans)
        self._jobs.put(spans)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything is in the file; false if that took too long."""
        if self._thread is None or os.getpid() != self._pid:
            return True
        done = threading.Event()
        self._jobs.put(done)
        return done.wait(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Write what is left, and close the file; one that is written to later is a new one."""
        thread, self._thread = self._thread, None
        if thread is not None and os.getpid() == self._pid:
            self._jobs.put(None)
            thread.join(timeout)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, threading.Event):
                job.set()
                continue
            try:
                self._append(job)
            except Exception as error:
                self._given_up = True
                self._report(error)
            self._taken += len(job)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._trace = -1, None

    def _report(self, error: Exception) -> None:
        """Name the directory, once for all that are written there, and say where the spans are."""
        place = str(self.path.parent) if self.path is not None else self._dir or DIRECTORY
        more = " any more" if self.path is not None else ""
        kept = f"; the journal in {self.journal} has all spans" if self.journal else "; training goes on"
        messages.once(f"tunix trace {place}", f"no trace is written to {place}{more}: {error}{kept}")

    def _append(self, spans: Sequence[Recorded]) -> None:
        if self._given_up:
            return
        if self._trace is None:
            self.path, self._fd = _create(self._dir, self._stem, self._rank, int(self._clock()))
            self._trace = Trace(
                self._rank.rank, 1, min(span.start for span in spans), counters=(), above=self._layout.above
            )
        data = memoryview(self._trace.feed(_batch(spans, self._layout)))
        while data:
            data = data[os.write(self._fd, data) :]


class New:
    """The second version's layout: hosts by what they do, devices by the roles that use them."""

    def __init__(self, role_to_devices: Mapping[str, Sequence[str]]) -> None:
        self._roles: dict[str, list[str]] = {}
        for role in sorted(role_to_devices):
            for device in role_to_devices[role]:
                self._roles.setdefault(device, []).append(role.title())
        self._rollout: dict[str, bool] = {}  # host timelines that did nothing but rollouts when they were first seen

    def see(self, spans: Sequence[Recorded]) -> None:
        names: dict[str, set[str]] = {}
        for span in spans:
            names.setdefault(span.thread, set()).add(span.name)
        for timeline, seen in names.items():
            self._rollout.setdefault(timeline, seen == {constants.ROLLOUT})

    def above(self, timeline: str, kind: str) -> str:
        if kind in ("", "task"):
            return "Host - Rollout threads" if self._rollout.get(timeline) else "Host - Main threads"
        roles = self._roles.get(timeline.removesuffix("_queue") if kind == "queue" else timeline)
        return f"{', '.join(roles)} Cluster" if roles else "Devices"

    def name(self, span: Recorded) -> str:
        """`rollout (step=100, group_id=5)`: with the tags that tell spans of this kind apart."""
        shown = constants.SHOWN.get(span.name, ("step",))
        said = [f"{constants.SHORT.get(tag, tag)}={span.tags[tag]}" for tag in shown if tag in span.tags]
        return f"{span.name} ({', '.join(said)})" if said else span.name


class Old(New):
    """The first version's layout: the hosts, and every role's devices."""

    def above(self, timeline: str, kind: str) -> str:
        if kind in ("", "task"):
            return "Main"
        roles = self._roles.get(timeline.removesuffix("_queue") if kind == "queue" else timeline)
        return ", ".join(roles) if roles else "Devices"

    def name(self, span: Recorded) -> str:
        return span.name


def _batch(spans: Sequence[Recorded], layout: New) -> records.Spans:
    """Spans as a record, under the names that the layout gives them."""
    layout.see(spans)
    names: dict[str, int] = {}
    lanes: dict[str, int] = {}
    ordered = sorted(spans, key=lambda span: span.end)  # as they finished
    return records.Spans(
        0,
        0,
        name=[names.setdefault(layout.name(span), len(names)) for span in ordered],
        thread=[lanes.setdefault(span.thread, len(lanes)) for span in ordered],
        names=list(names),
        threads=list(lanes),
        id=[span.id for span in ordered],
        parent=[span.parent for span in ordered],
        start=[span.start for span in ordered],
        duration=[span.duration for span in ordered],
        step=[span.step for span in ordered],
        tags={str(span.id): span.tags for span in ordered if span.tags},
        errors={str(span.id): span.error for span in ordered if span.error},
        failed=[span.id for span in ordered if span.failed],
        launched=[span.id for span in ordered if isinstance(span, Launching)],
        kinds={span.thread: span.kind for span in ordered if span.kind},
    )


def _create(trace_dir: str | None, stem: str, rank: detect.Ranks, now: int) -> tuple[Path, int]:
    """A new file in the directory; never one that is there already, nor one that a link leads to."""
    if trace_dir is not None and "://" in trace_dir:
        raise ValueError(f"trace_dir = {trace_dir!r} is a URL, and traces are written to a local directory")
    folder = _directory(Path(DIRECTORY)) if trace_dir is None else _make(Path(trace_dir).expanduser().absolute())
    suffix = f"_r{rank.rank:05d}" if rank.world > 1 else ""
    for second in range(now, now + 1000):
        path = folder / f"{stem}_{second}{suffix}.pb"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            return path, os.open(path, flags, 0o600 if trace_dir is None else file_mode(path))
        except FileExistsError:
            continue  # another writer began in the same second
    raise FileExistsError(f"{folder} has a trace of every second from {now} on")


def _directory(folder: Path) -> Path:
    """The documented directory, or, where somebody else has it, one beside it."""
    try:
        return _make(folder, own=True)
    except OSError:
        return _make(folder.with_name(f"{folder.name}-{os.getuid()}"), own=True)


def _make(folder: Path, own: bool = False) -> Path:
    """The directory; one of our `own` choice is made for its owner alone. A link in its place is not followed."""
    make_place(folder.parent)
    try:
        folder.mkdir(mode=0o700 if own or is_private(folder) else 0o777)
    except FileExistsError:
        pass
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise NotADirectoryError(f"{folder} is a link or a file; give the directory itself as trace_dir")
    if own and about.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to somebody else; give another trace_dir")
    return folder


def is_ours(export_fn: Any) -> bool:
    """Whether an export function writes traces itself, or was told not to."""
    return hasattr(getattr(export_fn, "__self__", export_fn), "writer")


def flush(export_fn: Any, seen: Any) -> None:
    """Let an export function of ours have what came after its last call, and complete its file."""
    owner = getattr(export_fn, "__self__", export_fn)
    if callable(last := getattr(owner, "flush", None)):
        last(seen)


def write(export_fn: Any, seen: Any) -> None:
    """Let an export function of ours have what came after its last call."""
    owner = getattr(export_fn, "__self__", export_fn)
    if is_ours(owner):
        owner.write(seen)


def close(export_fn: Any) -> None:
    """Close the file of an export function of ours; if it is used again, it begins another."""
    writer = getattr(getattr(export_fn, "__self__", export_fn), "writer", None)
    if isinstance(writer, TraceWriter):
        writer.close()


def name_journal(export_fn: Any, journal: str) -> None:
    """Let an export function of ours know which run has the spans too."""
    writer = getattr(getattr(export_fn, "__self__", export_fn), "writer", None)
    if isinstance(writer, TraceWriter):
        writer.journal = journal


class Exit:
    """What the end of the interpreter waits for, a few seconds at most: devices first, then the files.

    Who closes a cluster or an exporter has nothing left to wait for.
    """

    def __init__(self) -> None:
        self._writers: WeakSet[TraceWriter] = WeakSet()
        self._late: dict[Callable[[], None], Recording] = {}
        self._pid = 0

    def await_writer(self, writer: TraceWriter) -> None:
        """Have what this one was given in its file."""
        self._begin()
        self._writers.add(writer)

    def await_devices(self, write: Callable[[], None], recording: Recording, busy: bool) -> None:
        """Have `write` called when the devices are done; not where none was `busy` at the last export."""
        self._late.pop(write, None)
        if busy:
            self._begin()
            self._late[write] = recording

    def _begin(self) -> None:
        """Registered with the first to wait for: what was registered before may be what it needs."""
        if self._pid != os.getpid():
            self._writers, self._late, self._pid = WeakSet(), {}, os.getpid()  # the parent waits for its own
            atexit.unregister(self._come)
            atexit.register(self._come)

    def _come(self) -> None:
        if self._pid != os.getpid():
            return
        until = time.monotonic() + AT_EXIT
        for write, recording in list(self._late.items()):
            try:
                recording.settle(max(0.1, until - 1 - time.monotonic()))
                write()
            except Exception as error:
                messages.say(f"the last spans of devices are not in the trace: {error!r}")
        for writer in list(self._writers):
            if not writer.flush(max(0.1, until - time.monotonic())):
                messages.say(
                    f"{writer.path or 'a trace'} is not complete: the disk did not answer within {AT_EXIT:g} s"
                )


_exit = Exit()
await_devices = _exit.await_devices
