"""Work that is still on a device: one thread looks when it is done; nobody waits for it on the caller's time.

All works under way are asked in turn, so that one device's work is seen to end while another's goes on, and a device
that never answers holds up nobody. How long a work of the same name took last says when to look closely; all looks
together take about 1 % of a core. Who wants to know all up to now looks too (`look`). The thread never waits inside an
array: one that comes back from there while the interpreter ends would abort the process
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

MOST = 10_000  # works that may be under way; a device further behind than that has stopped
SOONEST, LATEST = 100_000, 10_000_000  # ns between two looks at a work of unknown length
CLOSELY = 20  # the part of a work's age that may then lie between them
NEXT = 32  # works of a device that are looked at: it does about one after another
SHARE = 100  # times what the looks cost may pass
SAVED = 2_000_000  # ns of looks that may be saved up
NAMES = 10_000  # whose last length is remembered
IDLE = 5.0  # s without any work after which the thread ends


class DeviceWatcher:
    """Looks after works until they are done, on a thread that lives while there are any."""

    def __init__(self) -> None:
        self._works: dict[int, Work] = {}
        self._queues: dict[str, dict[int, Work]] = {}  # the same, by their first device
        self._lengths: dict[tuple[str, str], int] = {}  # of the last work of a name on a device
        self._cost = 0  # ns of CPU that a look takes
        self._saved = SAVED  # ns of CPU that may be taken now
        self._wakeup = WakeUp()
        self._over = False  # nothing more is expected
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # an RLock: a signal handler may trace, too
        self._looking = threading.Lock()  # whoever asks works
        forks.watch(self)

    def __len__(self) -> int:
        return len(self._works)

    def hold(self, work: Any) -> Any:
        """What to wait for: an event behind the work of a torch device; anything else is looked into later."""
        if hasattr(work, "is_ready"):  # an array of JAX
            return work
        leaf = work
        while isinstance(leaf, (list, tuple, Mapping)) and leaf:
            leaf = next(iter(leaf.values() if isinstance(leaf, Mapping) else leaf))
        return _event(leaf) or work

    def watch(self, work: Work) -> None:
        """Look after a work; one that is done already, on a device that has no other, needs nobody."""
        if _queue(work) not in self._queues and (error := _at_once(work)) is not None:
            work.tracer.land(work, work.span.stop, error)
            return
        if len(self._works) >= MOST:
            messages.once("device spans", f"more than {MOST:,} spans wait for a device; the newest are given up")
            work.tracer.land(work, monotonic_ns(), UNFINISHED)
            return
        with self._lock:
            self._works[id(work)] = work
            self._queues.setdefault(_queue(work), {})[id(work)] = work
        self._over = False
        if self._thread is None:
            self._start(None)
        self._wakeup.set()

    def settle(self, timeout: float) -> None:
        """Wait until nothing is under way; what still is then is given up."""
        until = time.monotonic() + timeout
        while self._works and time.monotonic() < until:
            time.sleep(0.001)
        for work in list(self._works.values()):
            self._land(work, UNFINISHED)
        self._over = True
        self._wakeup.set()

    def poll(self) -> None:
        """See now what is done, on the caller's thread. Never waits: not for another who looks, nor for a work that
        cannot be asked."""
        looking = self._looking
        if self._works and looking.acquire(blocking=False):
            try:
                self._see([work for work in self._nearest() if all(map(_can_be_asked, _flat(work)))])
            finally:
                looking.release()

    def expire(self) -> None:
        """Give up what is overdue; and the thread, when it waits inside something that cannot be asked."""
        now = monotonic_ns()
        overdue = [work for work in list(self._works.values()) if now > work.deadline]
        for work in overdue:
            messages.once(
                "overdue", f"the device did not finish {work.span.name!r} in time; that and the like is marked"
            )
            self._land(work, UNFINISHED)
        if overdue and self._works:
            self._looking = threading.Lock()  # the one before it may be in hands that are stuck
            self._start(self._thread)

    def forked(self) -> None:
        self._works, self._queues, self._wakeup, self._thread = {}, {}, WakeUp(), None
        self._lock, self._looking = threading.RLock(), threading.Lock()

    def _start(self, instead: threading.Thread | None) -> None:
        with self._lock:
            if self._thread is instead:
                self._thread = threading.Thread(target=self._loop, name="chiplog-devices", daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        me = threading.current_thread()
        spent, now = time.thread_time_ns(), monotonic_ns()
        while self._thread is me:
            rung = self._wakeup.wait(self._pause())
            if self._thread is not me:
                self._wakeup.set()  # it was meant for the one that came instead
                break
            if not self._works and (self._over or not rung):
                break
            with self._looking:
                self._see(self._nearest())
            cost, spent = time.thread_time_ns() - spent, time.thread_time_ns()
            passed, now = monotonic_ns() - now, monotonic_ns()
            self._cost += (cost - self._cost) // 4
            self._saved = max(-SAVED, min(self._saved + passed // SHARE, SAVED) - cost)
        with self._lock:
            if self._thread is me:
                self._thread = None
        if self._works:  # one has come in between
            self._start(None)

    def _see(self, works: Iterable[Work]) -> None:
        for work in works:
            try:
                error = _look(work)
            except Exception as problem:  # a device that has failed raises for every question
                error = type(problem).__name__
            if error is not None:
                self._land(work, error)

    def _pause(self) -> float:
        """Seconds until the next look, by the next work of every device."""
        now = monotonic_ns()
        with self._lock:
            heads = [(name, next(iter(queue.values()))) for name, queue in self._queues.items()]
        if not heads:
            return IDLE
        due = min(self._due(now - work.span.start, self._lengths.get((work.span.name, name))) for name, work in heads)
        return max(due, SOONEST, min((self._cost - self._saved) * SHARE, LATEST)) / 1e9

    def _due(self, age: int, length: int | None) -> int:
        """Nanoseconds until a work should be looked at."""
        if length is None:
            return min(age // CLOSELY, LATEST)
        for soon in (length * 7 // 10, length * 19 // 20):  # the first in case the last time was seen late
            if age < soon:
                return soon - age  # whatever comes meanwhile rings the bell
        return min(max(length // 200, (age - length) // CLOSELY), LATEST)

    def _nearest(self) -> list[Work]:
        with self._lock:
            return [work for queue in self._queues.values() for work in islice(queue.values(), NEXT)]

    def _land(self, work: Work, error: str) -> None:
        now = monotonic_ns()
        with self._lock:
            self._works.pop(id(work), None)
            queue = self._queues.get(name := _queue(work), {})
            queue.pop(id(work), None)
            if not queue:
                self._queues.pop(name, None)
            if not error and (len(self._lengths) < NAMES or (work.span.name, name) in self._lengths):
                self._lengths[work.span.name, name] = now - work.span.start
        work.tracer.land(work, now, error)


def _queue(work: Work) -> str:
    return work.devices[0] if work.devices else ""


def _look(work: Work) -> str | None:
    """None while something is under way; then what went wrong, or "". What is done is let go at once."""
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
    """What `_look` says where it costs next to nothing: of a single array."""
    if len(work.waits) != 1 or not hasattr(leaf := work.waits[0], "is_ready"):
        return None
    try:
        return _state(leaf)
    except Exception as problem:
        return type(problem).__name__


def _flat(work: Work) -> list[Any]:
    """What a work waits for, without containers."""
    if not work.flat:
        work.waits, work.flat = list(_leaves(work.waits)), True
    return work.waits


def _state(leaf: Any) -> str | None:
    if hasattr(leaf, "is_ready"):
        # In C and in one go: an array may be donated at any moment, and `is_ready` of a deleted one ends the process.
        gone = getattr(leaf, "is_deleted", _no)
        if not next(filter(None, map(call, (gone, leaf.is_ready))), False):
            return None
        try:
            getattr(leaf, "block_until_ready", _no)()  # returns at once, or says what went wrong
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


def _can_be_asked(leaf: Any) -> bool:
    return not hasattr(leaf, "block_until_ready") or hasattr(leaf, "is_ready")


def _no() -> bool:
    return False


def _leaves(tree: Any) -> Iterable[Any]:
    try:
        leaves: Iterable[Any] = sys.modules["jax"].tree_util.tree_leaves(tree)
        return leaves
    except Exception:  # no jax, or half of one
        return _walk(tree)


def _walk(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        tree = tree.values()
    elif not isinstance(tree, (list, tuple)):
        yield tree
        return
    for item in tree:
        yield from _walk(item)


def _event(leaf: Any) -> Any:
    """An event behind what a torch device was given so far; None for all else."""
    kind = getattr(getattr(leaf, "device", None), "type", "cpu")
    if kind in ("cpu", "meta") or not hasattr(leaf, "untyped_storage"):
        return None
    backend = getattr(sys.modules.get("torch"), kind, None)  # torch.cuda, torch.xpu
    if backend is None or not hasattr(backend, "Event"):
        return None
    event = backend.Event()
    event.record()
    return event
