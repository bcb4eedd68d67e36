"""What a span costs, compared with the least a span can do and with other tracers; and what a trace costs to write."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chiplog
from bench.loops import _thread_cpu
from bench.rows import Figure, median, ratio, row
from bench.workers import workers
from chiplog.core.records import Attempt, SpansRecord
from chiplog.sinks.perfetto import Perfetto

LOOP = 200  # spans to a call, so that the call itself does not count


class _Least:
    """The least: a name, two times, and somewhere to put them."""

    __slots__ = ("_done", "name", "start")

    def __init__(self, done: deque[Any], name: str) -> None:
        self._done, self.name = done, name

    def __enter__(self) -> _Least:
        self.start = time.monotonic_ns()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.append((self.name, self.start, time.monotonic_ns()))


@dataclasses.dataclass
class _Stretch:
    name: str
    begin: float
    id: int
    parent: int | None = None
    tags: dict[str, Any] = dataclasses.field(default_factory=dict)
    end: float = float("inf")


class _Timeline:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stack: list[int] = []
        self._spans: dict[int, _Stretch] = {}
        self._next = 0

    def start(self, name: str, begin: float, tags: dict[str, Any] | None) -> None:
        with self._lock:
            parent = self._stack[-1] if self._stack else None
            self._spans[self._next] = _Stretch(name, begin, self._next, parent, dict(tags) if tags else {})
            self._stack.append(self._next)
            self._next += 1

    def stop(self, end: float) -> None:
        with self._lock:
            if not self._stack:
                raise ValueError("no span is open")
            span = self._spans[self._stack.pop()]
            if end < span.begin:
                raise ValueError(f"{span.name} would end before it began")
            span.end = end

    def forget(self) -> None:
        self._spans.clear()


class _Waitlist:
    def __init__(self) -> None:
        self.works: list[Any] = []


class _TunixStyle:
    """The shape of Tunix's second tracer, in our words: a generator as context manager, a locked timeline a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, _Timeline] = {}

    def _host(self) -> _Timeline:
        name = f"host-{threading.get_ident()}"
        with self._lock:
            if name not in self._hosts:
                self._hosts[name] = _Timeline()
            return self._hosts[name]

    @contextmanager
    def span(self, name: str, devices: Any = None, tags: dict[str, Any] | None = None) -> Iterator[_Waitlist]:
        host = self._host()
        begin = time.perf_counter()
        host.start(name, begin, tags)
        waitlist = _Waitlist()
        try:
            yield waitlist
        finally:
            host.stop(time.perf_counter())
            if devices is not None:
                raise NotImplementedError

    def forget(self) -> None:
        for host in self._hosts.values():
            host.forget()


def _cpu(call: Callable[[], None], calls: int = 5) -> float:
    """Microseconds of CPU a call took this thread: a span is so short that the machine's other work would drown it."""
    began = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - began) / calls / 1e3


def _loop(span: Callable[[str], Any]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(LOOP):
            with span("forward"):
                pass

    return loop


@row
def span() -> Iterator[Figure]:
    """One host span on the caller's time: with a run, switched off, and without one."""
    done: deque[Any] = deque(maxlen=1000)
    tunix = _TunixStyle()

    def least() -> None:
        for _ in range(LOOP):
            with _Least(done, "forward"):
                pass

    with tempfile.TemporaryDirectory() as folder:
        off = chiplog.init("bench", sinks="none", dir=folder, id="off", compact=False)
        off.trace(False)
        chiplog.core.run.current = None
        run = chiplog.init("bench", sinks="none", dir=folder, id="on", compact=False)

        def enabled() -> None:
            for _ in range(LOOP):
                with run.span("forward"):
                    pass

        def disabled() -> None:
            for _ in range(LOOP):
                with off.span("forward"):
                    pass

        def no_run() -> None:
            span = chiplog.span
            chiplog.core.run.current, mine = None, chiplog.core.run.current
            for _ in range(LOOP):
                with span("forward"):
                    pass
            chiplog.core.run.current = mine

        calls = {"least": least, "on": enabled, "tunix": _loop(tunix.span), "off": disabled, "none": no_run}
        taken: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(101):  # what was recorded is let go in between: the keeper's work is not the caller's
            for name, call in calls.items():
                taken[name].append(_cpu(call) / LOOP)
            run.flush()
            tunix.forget()
        run.finish()
        off.finish()
        yield Figure("the least a span can do", median(taken["least"]), "µs")
        yield Figure("a span", median(taken["on"]), "µs", 1.5)
        yield Figure("  times the least", ratio(taken, "on", "least"), "x", 2.0)
        yield Figure("Tunix-style span", median(taken["tunix"]), "µs")
        yield Figure("  times ours", ratio(taken, "tunix", "on"), "x", 3.0, at_least=True)
        yield Figure("switched off", median(taken["off"]), "µs", 0.4)
        yield Figure("without a run", median(taken["none"]), "µs", 0.4)
        with workers(["chiplog_span", "otel_span"], Path(folder) / "peers") as peers:
            beside: dict[str, list[float]] = {"chiplog_span": [], "otel_span": []}
            for _ in range(15):
                for name, worker in peers.items():
                    beside[name].append(median(worker.log(0.05)) / 100)
        yield Figure("OpenTelemetry, start_as_current_span", median(beside["otel_span"]), "µs")
        yield Figure("  times ours", ratio(beside, "otel_span", "chiplog_span"), "x", 12.0, at_least=True)


@row
def device_span() -> Iterator[Figure]:
    """A span on a device with an array that is ready, on the caller's time, compared with a thread for each span."""
    import jax.numpy as jnp

    array = jnp.ones(8).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        run = chiplog.init("bench", sinks="none", dir=folder, compact=False)

        def ours() -> None:
            with run.span("forward", devices="tpu0") as span:
                span.async_end(array)

        def thread() -> None:
            threading.Thread(target=array.block_until_ready).start()

        taken: dict[str, list[float]] = {"ours": [], "thread": []}
        for _ in range(31):
            for name, call in (("ours", ours), ("thread", thread)):
                began = time.perf_counter()
                for _ in range(50):
                    call()
                taken[name].append((time.perf_counter() - began) / 50 * 1e6)
            run.flush()
        run.finish()
    yield Figure("a device span", median(taken["ours"]), "µs", 10.0)
    yield Figure("a thread for each", median(taken["thread"]), "µs")


def _batch(steps: int, spans: int, first: int = 0) -> Iterator[SpansRecord]:
    """Records as a run writes them: each step a root with children, ten names."""
    names = [f"name {n}" for n in range(10)]
    for step in range(first, first + steps):
        base = 10**18 + step * 10**9
        count, apart = range(spans), 900_000_000 // spans
        yield SpansRecord(
            step, base, names, ["MainThread"], [n % 10 for n in count], [0] * spans,
            [step * spans + n + 1 for n in count], [0 if n == spans - 1 else step * spans + spans for n in count],
            [base if n == spans - 1 else base + (n + 1) * apart for n in count],
            [999_000_000 if n == spans - 1 else apart - 1000 for n in count], [step] * spans,
        )  # fmt: skip


ATTEMPT = Attempt(0, 10**18, 1, "l", 0, 1, "here", 5, 0, "process", "0")


@row
def perfetto() -> Iterator[Figure]:
    """100,000 spans as a Perfetto trace, in one go and appended by 100 steps of 1,000."""
    cpu, sizes, totals, growth = [], [], [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            records = list(_batch(10, 10_000))
            sink = Perfetto(Path(folder) / "whole.pftrace")
            began = time.process_time()
            sink.write([ATTEMPT, *records])
            sink.close()
            cpu.append(time.process_time() - began)
            sizes.append(sink.path.stat().st_size / 1e6)
            records = list(_batch(100, 1000))
            sink = Perfetto(Path(folder) / "steps.pftrace")
            sink.write([ATTEMPT])
            each = []
            for record in records:
                began = time.process_time()
                sink.write([record])
                each.append(time.process_time() - began)
            totals.append(sum(each))
            growth.append(median(each[-20:]) / median(each[10:30]))
    yield Figure("written at once", median(cpu), "s CPU", 0.5)
    yield Figure("  its size", median(sizes), "MB", 5.0)
    yield Figure("appended by step, all together", median(totals), "s CPU", 1.0)
    yield Figure("  a late step, times an early one", median(growth), "x", 1.3)


@row
def many_spans() -> Iterator[Figure]:
    """Memory over ten million spans."""
    code = (
        "import chiplog, re, tempfile\n"
        "from pathlib import Path\n"
        "def peak(): return int(re.search(r'VmHWM:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) / 1024\n"
        "folder = tempfile.TemporaryDirectory()\n"
        "run = chiplog.init('bench', sinks='none', dir=folder.name, compact=False)\n"
        "def turn(count):\n"
        "    for _ in range(count):\n"
        "        with run.span('forward'): pass\n"
        "turn(1000)\n"
        "base = peak()\n"
        "turn(10_000_000)\n"
        "run.finish(timeout=120)\n"
        "print(peak() - base, run.health()['spans_dropped'] / 1e5)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    yield Figure("peak over base", float(done[0]), "MiB", 64)
    yield Figure("not kept, in a loop of nothing but spans", float(done[1]), "%")


@row
def traced_loop() -> Iterator[Figure]:
    """A small torch loop with 8 spans per step: time in our calls and CPU of our threads."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(96, 512)
    names = ("data", "zero_grad", "forward", "loss", "backward", "clip", "optimizer", "log")
    blocks, steps = 5, 100
    loop, inside, threads = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        run = chiplog.init("bench", sinks="none", dir=folder, compact=False)
        for _ in range(blocks):
            # A span costs per step and the background per second, so on a busy machine one is measured against the
            # CPU of the loop and the other against the clock; on an idle one these are the same.
            began, clock, before, spent = time.thread_time(), time.perf_counter(), _thread_cpu(("chiplog",)), 0.0
            for _ in range(steps):
                optimizer.zero_grad()
                loss = model(data).square().mean()
                loss.backward()
                optimizer.step()
                called = time.thread_time()
                for name in names:
                    with run.span(name):
                        pass
                back = time.thread_time()
                spent += (back - called) - (time.thread_time() - back)  # without what asking for the time takes
            loop.append(time.thread_time() - began)
            inside.append(spent / loop[-1] * 100)
            threads.append((_thread_cpu(("chiplog",)) - before) / (time.perf_counter() - clock) * 100)
        run.finish()
    yield Figure("a step", median(loop) / steps * 1e3, "ms CPU")
    yield Figure("inside our calls", median(inside), "% of loop")
    yield Figure("CPU of our threads", median(threads), "% of loop")
    yield Figure("our cost together", median(inside) + median(threads), "% of loop", 0.5)
