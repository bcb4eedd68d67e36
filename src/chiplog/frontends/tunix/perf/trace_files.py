"""Trace files under their documented names, appended to at every step on a thread of their own.

A file is valid at any moment, after a kill too, and complete when the interpreter ends. A directory that cannot be
written is reported once, and the run continues without the file.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from _queue import SimpleQueue
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from chiplog.core import messages, records
from chiplog.core.background import forks
from chiplog.core.files.writing import make_place
from chiplog.core.paths import file_mode, in_run
from chiplog.frontends.tunix.perf import at_exit
from chiplog.frontends.tunix.perf.experimental import constants
from chiplog.frontends.tunix.perf.experimental.span import Span as SpanV2
from chiplog.frontends.tunix.perf.shared_tracer import Launching
from chiplog.frontends.tunix.perf.span import Span
from chiplog.runtime.ranks import detect
from chiplog.store.perfetto.trace import Trace
from chiplog.store.spans.span import StoredSpan

DIRECTORY = "/tmp/perf_traces"
WAITING = 100_000  # spans that may wait for the disk; more are dropped, which is reported


class TraceFiles:
    """Appends spans to `<dir>/<stem>_<unix time>.pb`, a file that the first of them creates."""

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
        self.journal = ""  # the directory of the run that has the spans too, if there is one
        self._dir, self._stem, self._clock = trace_dir, stem, clock
        self._rank = detect.detect(dict(os.environ)) if rank is None else rank
        self._layout = (LayoutV1 if stem == "perfetto_trace" else LayoutV2)(role_to_devices or {})
        self._trace: Trace | None = None
        self._fd = -1
        self._jobs: SimpleQueue[Sequence[StoredSpan] | threading.Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._queued = self._written = 0  # spans; each is counted by one thread only
        self._gave_up = False
        forks.watch(self)

    def write(self, spans: Sequence[StoredSpan]) -> None:
        """Write spans in the background."""
        if not spans or self._gave_up:
            return
        if self._queued - self._written >= WAITING:
            messages.once(
                f"tunix trace {id(self)}",
                f"{self.path or 'the trace'} cannot be written fast enough; some spans are not in it",
            )
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="chiplog-tunix-trace", daemon=True)
            self._thread.start()
            at_exit.exit_waits.add(self._complete)
        self._queued += len(spans)
        self._jobs.put(spans)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait until everything is in the file; return false if that takes longer than the timeout."""
        if self._thread is None:
            return True
        done = threading.Event()
        self._jobs.put(done)
        return done.wait(timeout)

    def close(self, timeout: float = 10.0) -> None:
        """Write what is left and close the file; what is written later starts another."""
        at_exit.exit_waits.remove(self._complete)
        thread, self._thread = self._thread, None
        if thread is not None:
            self._jobs.put(None)
            thread.join(timeout)

    def forked(self) -> None:
        """In a forked child, leave the file to the parent."""
        self._gave_up, self._thread = True, None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if isinstance(job, threading.Event):
                job.set()
                continue
            try:
                self._append(job)
            except Exception as error:
                self._gave_up = True
                self._report(error)
            self._written += len(job)
        if self._fd >= 0:
            os.close(self._fd)
            self._fd, self._trace = -1, None

    def _complete(self, timeout: float) -> None:
        """At the end of the interpreter, wait for the disk."""
        if not self.flush(timeout):
            messages.say(
                f"{self.path or 'a trace'} is not complete: the disk did not answer within {at_exit.PATIENCE:g} s"
            )

    def _report(self, error: Exception) -> None:
        """Report the directory, once for all files in it, and where the spans are."""
        place = str(self.path.parent) if self.path is not None else self._dir or DIRECTORY
        what = "stopped writing traces to" if self.path is not None else "cannot write traces to"
        instead = f"; the journal in {self.journal} has all spans" if self.journal else "; training continues"
        messages.once(f"tunix trace {place}", f"{what} {place}: {error}{instead}")

    def _append(self, spans: Sequence[StoredSpan]) -> None:
        if self._gave_up:
            return
        if self._trace is None:
            self.path, self._fd = _create(self._dir, self._stem, self._rank, int(self._clock()))
            self._trace = Trace(
                self._rank.rank, 1, min(span.start for span in spans), counters=(), above=self._layout.above
            )
        data = memoryview(self._trace.feed(_batch(spans, self._layout)))
        while data:
            data = data[os.write(self._fd, data) :]


class LayoutV2:
    """The tracks of the second version: hosts by what they do, devices by the roles that use them."""

    def __init__(self, role_to_devices: Mapping[str, Sequence[str]]) -> None:
        self._roles: dict[str, list[str]] = {}
        for role in sorted(role_to_devices):
            for device in role_to_devices[role]:
                self._roles.setdefault(device, []).append(role.title())
        self._rollout: dict[str, bool] = {}  # whether a host timeline did nothing but rollouts at first

    def read(self, spans: Sequence[StoredSpan]) -> None:
        """Note what new timelines do."""
        names: dict[str, set[str]] = {}
        for span in spans:
            names.setdefault(span.thread, set()).add(span.name)
        for timeline, those in names.items():
            self._rollout.setdefault(timeline, those == {constants.ROLLOUT})

    def above(self, timeline: str, kind: str) -> str:
        """Return the name of the track above a timeline."""
        if kind in ("", "task"):
            return "Host - Rollout threads" if self._rollout.get(timeline) else "Host - Main threads"
        roles = self.roles(timeline, kind)
        return f"{roles} Cluster" if roles else "Devices"

    def roles(self, timeline: str, kind: str) -> str:
        return ", ".join(self._roles.get(timeline.removesuffix("_queue") if kind == "queue" else timeline, ()))

    def name(self, span: StoredSpan) -> str:
        """Return a name such as `rollout (step=100, group_id=5)`, with the tags that identify such a span."""
        shown = constants.SHOWN.get(span.name, ("step",))
        tags = [f"{constants.SHORT.get(tag, tag)}={span.tags[tag]}" for tag in shown if tag in span.tags]
        return f"{span.name} ({', '.join(tags)})" if tags else span.name


class LayoutV1(LayoutV2):
    """The tracks of the first version: hosts, and the devices of each role."""

    def above(self, timeline: str, kind: str) -> str:
        return "Main" if kind in ("", "task") else self.roles(timeline, kind) or "Devices"

    def name(self, span: StoredSpan) -> str:
        return span.name


def recorded(span: Span | SpanV2, number: int, parent: int, lane: str, kind: str, zero: int = 0) -> StoredSpan:
    """Return a finished span of either version as a tracer records it; its step is the tag of that name."""
    start, stop = (round(second * 1e9) + zero for second in (span.begin, span.end))
    tags = dict(span.tags) if isinstance(span, SpanV2) else {}
    step = tags["step"] if isinstance(tags.get("step"), int) else None
    return StoredSpan(
        number, parent, span.name, lane, start, stop - start, step, tags, bool(span.error), kind=kind, error=span.error
    )


def _batch(spans: Sequence[StoredSpan], layout: LayoutV2) -> records.SpansRecord:
    """Return spans as a record, under the names of the layout."""
    layout.read(spans)
    names: dict[str, int] = {}
    lanes: dict[str, int] = {}
    ordered = sorted(spans, key=lambda span: span.end)  # as they finished
    return records.SpansRecord(
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
    """Create a new file in the directory; never follows a link."""
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
            continue  # another writer has started in the same second
    raise FileExistsError(f"{folder} already has a trace for every second from {now} on")


def _directory(folder: Path) -> Path:
    """Create the documented directory, or one next to it if another user owns that."""
    try:
        return _make(folder, own=True)
    except OSError:
        return _make(folder.with_name(f"{folder.name}-{os.getuid()}"), own=True)


def _make(folder: Path, own: bool = False) -> Path:
    """Create a directory; one of our `own` choice is private. Never follows a link."""
    make_place(folder if in_run(folder) else folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700 if own else 0o777)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{folder} is a link or a file; pass the directory itself as trace_dir")
    if own and status.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user; choose another trace_dir")
    return folder
