"""Work that is still on a device: one thread polls it until it is done, so that callers never wait for it.

All pending work is polled in turn, so that one device's work can end while another's continues, and a device that never
answers delays no other. The last duration of work with the same name determines when to poll often; all polls together
take about 1 % of a core. Callers that need everything up to now poll, too (`look`). The thread never blocks inside an
array: if it returned from there while the interpreter ends, it would abort the process
(docs/decisions/0015-one-thread-watches-the-devices.md).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from operator import call
from time import monotonic_ns
from typing import Any

from chiplog.core import messages
from chiplog.core.background import forks
from chiplog.core.background.wakeup import WakeUp
from chiplog.core.tracing.tracer import UNFINISHED, Work

MOST = 10_000  # pending items; a device further behind than that has stopped
SOONEST, LATEST = 100_000, 10_000_000  # ns between two polls of work with unknown duration
CLOSELY = 20  # that interval is the age of the work divided by this
NEXT = 32  # items polled per device, which runs them roughly in order
SHARE = 100  # polls may take one part in so many of the time
SAVED = 2_000_000  # ns of polling that may be saved up
NAMES = 10_000  # whose last duration is remembered
IDLE = 5.0  # s without work after which the thread ends


class DeviceWatcher:
    """Polls pending work until it is done, on a thread that lives while there is any."""

    def __init__(self) -> None:
        self._works: dict[int, Work] = {}
        self._queues: dict[str, dict[int, Work]] = {}  # the same by first device
        self._durations: dict[tuple[str, str], int] = {}  # duration of the last work by name and device
        self._cost = 0  # ns of CPU per poll
        self._saved = SAVED  # ns of CPU that may be used now
        self._wakeup = WakeUp()
        self._over = False  # no more work is expected
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # an RLock: a signal handler may trace, too
        self._polling = threading.Lock()  # held while polling
        forks.watch(self)

    def __len__(self) -> int:
        return len(self._works)

    def hold(self, work: object) -> object:
        """What to poll: an event after the work of a torch device; anything else is resolved later."""
        if hasattr(work, "is_ready"):  # a JAX array
            return work
        leaf = work
        while isinstance(leaf, (list, tuple, Mapping)) and leaf:
            leaf = next(iter(leaf.values() if isinstance(leaf, Mapping) else leaf))
        return _event(leaf) or work

    def watch(self, work: Work) -> None:
        """Track device work; if it is already done and nothing else is queued there, record it at once."""
        if _queue(work) not in self._queues and (error := _at_once(work)) is not None:
            work.tracer.finish_work(work, work.span.stop, error)
            return
        if len(self._works) >= MOST:
            messages.once("device spans", f"more than {MOST:,} spans wait for a device; the newest are dropped")
            work.tracer.finish_work(work, monotonic_ns(), UNFINISHED)
            return
        with self._lock:
            self._works[id(work)] = work
            self._queues.setdefault(_queue(work), {})[id(work)] = work
        self._over = False
        if self._thread is None:
            self._start(None)
        self._wakeup.set()

    def wait_for_work(self, timeout: float) -> None:
        """Wait until nothing is pending; what remains after the timeout is recorded as unfinished."""
        until = time.monotonic() + timeout
        while self._works and time.monotonic() < until:
            time.sleep(0.001)
        for work in list(self._works.values()):
            self._finish(work, UNFINISHED)
        self._over = True
        self._wakeup.set()

    def poll(self) -> None:
        """Poll now, on the caller's thread; never waits for another poll, or for work that cannot be polled."""
        polling = self._polling
        if self._works and polling.acquire(blocking=False):
            try:
                self._poll([work for work in self._nearest() if all(map(_can_be_polled, _flat(work)))])
            finally:
                polling.release()

    def expire(self) -> None:
        """Give up overdue work, and replace the thread if it blocks in something that cannot be polled."""
        now = monotonic_ns()
        overdue = [work for work in list(self._works.values()) if now > work.deadline]
        for work in overdue:
            messages.once(
                "overdue", f"the device did not finish {work.span.name!r} in time; such spans are marked as unfinished"
            )
            self._finish(work, UNFINISHED)
        if overdue and self._works:
            self._polling = threading.Lock()  # a stuck thread may hold the previous one
            self._start(self._thread)

    def forked(self) -> None:
        self._works, self._queues, self._wakeup, self._thread = {}, {}, WakeUp(), None
        self._lock, self._polling = threading.RLock(), threading.Lock()

    def _start(self, instead: threading.Thread | None) -> None:
        with self._lock:
            if self._thread is instead:
                thread = threading.Thread(target=self._loop, name="chiplog-devices", daemon=True)
                before, self._thread = self._thread, thread
                try:
                    thread.start()
                except RuntimeError:  # tried again with the next work
                    self._thread = before
                    raise

    def _loop(self) -> None:
        me = threading.current_thread()
        spent, now = time.thread_time_ns(), monotonic_ns()
        while self._thread is me:
            woken = self._wakeup.wait(self._pause())
            if self._thread is not me:
                self._wakeup.set()  # it was meant for the thread that replaced this one
                break
            if not self._works and (self._over or not woken):
                break
            with self._polling:
                self._poll(self._nearest())
            cost, spent = time.thread_time_ns() - spent, time.thread_time_ns()
            passed, now = monotonic_ns() - now, monotonic_ns()
            self._cost += (cost - self._cost) // 4
            self._saved = max(-SAVED, min(self._saved + passed // SHARE, SAVED) - cost)
        with self._lock:
            if self._thread is me:
                self._thread = None
        if self._works:  # more has arrived meanwhile
            self._start(None)

    def _poll(self, works: Iterable[Work]) -> None:
        for work in works:
            try:
                error = _poll(work)
            except Exception as problem:  # a failed device raises for every query
                error = type(problem).__name__
            if error is not None:
                self._finish(work, error)

    def _pause(self) -> float:
        """Seconds until the next poll, by the next work of every device."""
        now = monotonic_ns()
        with self._lock:
            heads = [(name, next(iter(queue.values()))) for name, queue in self._queues.items()]
        if not heads:
            return IDLE
        due = min(self._due(now - work.span.start, self._durations.get((work.span.name, name))) for name, work in heads)
        return max(due, SOONEST, min((self._cost - self._saved) * SHARE, LATEST)) / 1e9

    def _due(self, age: int, duration: int | None) -> int:
        """Nanoseconds until work should be polled."""
        if duration is None:
            return min(age // CLOSELY, LATEST)
        for soon in (duration * 7 // 10, duration * 19 // 20):  # the first in case the last end was noticed late
            if age < soon:
                return soon - age  # new work wakes the thread
        return min(max(duration // 200, (age - duration) // CLOSELY), LATEST)

    def _nearest(self) -> list[Work]:
        with self._lock:
            return [work for queue in self._queues.values() for work in islice(queue.values(), NEXT)]

    def _finish(self, work: Work, error: str) -> None:
        now = monotonic_ns()
        with self._lock:
            self._works.pop(id(work), None)
            queue = self._queues.get(name := _queue(work), {})
            queue.pop(id(work), None)
            if not queue:
                self._queues.pop(name, None)
            if not error and (len(self._durations) < NAMES or (work.span.name, name) in self._durations):
                self._durations[work.span.name, name] = now - work.span.start
        work.tracer.finish_work(work, now, error)


def _queue(work: Work) -> str:
    return work.devices[0] if work.devices else ""


def _poll(work: Work) -> str | None:
    """None while something is pending; then the error, or "". What is done is released at once."""
    _flat(work)
    while work.waits:
        error = _state(work.waits[-1])
        if error is None:
            return None
        work.waits.pop()
        if error:
            return error
    return ""


def _at_once(work: Work) -> str | None:
    """The result of `_poll` if it costs next to nothing: for a single array."""
    if len(work.waits) != 1 or not hasattr(leaf := work.waits[0], "is_ready"):
        return None
    try:
        return _state(leaf)
    except Exception as problem:
        return type(problem).__name__


def _flat(work: Work) -> list[object]:
    """The leaves of what the work waits for."""
    if not work.flat:
        work.waits, work.flat = list(_leaves(work.waits)), True
    return work.waits


def _state(leaf: Any) -> str | None:
    if hasattr(leaf, "is_ready"):
        # In one C call: an array may be donated at any moment, and `is_ready` of a deleted one ends the process.
        gone = getattr(leaf, "is_deleted", _no)
        if not next(filter(None, map(call, (gone, leaf.is_ready))), False):
            return None
        try:
            getattr(leaf, "block_until_ready", _no)()  # returns at once, or raises the error
        except Exception as error:
            return "" if gone() else type(error).__name__
        return ""
    if hasattr(leaf, "query"):
        return "" if leaf.query() else None
    if hasattr(leaf, "is_completed"):  # torch.distributed
        return "" if leaf.is_completed() else None
    if hasattr(leaf, "done") and hasattr(leaf, "exception"):  # futures
        if not leaf.done():
            return None
        if leaf.cancelled():
            return "cancelled"
        return "" if (failure := leaf.exception()) is None else type(failure).__name__
    if hasattr(leaf, "block_until_ready"):
        leaf.block_until_ready()
    return ""


def _can_be_polled(leaf: object) -> bool:
    return not hasattr(leaf, "block_until_ready") or hasattr(leaf, "is_ready")


def _no() -> bool:
    return False


def _leaves(tree: object) -> Iterable[object]:
    try:
        leaves: Iterable[object] = sys.modules["jax"].tree_util.tree_leaves(tree)
        return leaves
    except Exception:  # no jax, or half of one
        return _walk(tree)


def _walk(tree: object) -> Iterator[object]:
    if not isinstance(tree, (Mapping, list, tuple)):
        yield tree
        return
    for item in tree.values() if isinstance(tree, Mapping) else tree:
        yield from _walk(item)


def _event(leaf: object) -> object:
    """An event after everything queued on a torch device; None for anything else."""
    kind = getattr(getattr(leaf, "device", None), "type", "cpu")
    if kind in ("cpu", "meta") or not hasattr(leaf, "untyped_storage"):
        return None
    backend = getattr(sys.modules.get("torch"), kind, None)  # torch.cuda, torch.xpu
    if backend is None or not hasattr(backend, "Event"):
        return None
    event = backend.Event()
    event.record()
    return event
