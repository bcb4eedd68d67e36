"""Work on devices: when it ends, who waits for it, and what becomes of it when it never does."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import chiplog
from chiplog.core.tracing.timelines import labels
from chiplog.core.tracing.tracer import Tracer
from chiplog.runtime.devices.watcher import DeviceWatcher
from tests.support.waiting import wait_for


@pytest.fixture
def run(tmp_path: Path) -> chiplog.Run:
    return chiplog.init("p", sinks="none", dir=tmp_path, strict=True)


class Event:
    """Has passed when it is told to, as an event on a device's stream."""

    def __init__(self) -> None:
        self.passed = False
        self.asked = 0

    def query(self) -> bool:
        self.asked += 1
        return self.passed


_others: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _know_others() -> None:
    """A thread of another test may still have a moment to live."""
    _others.clear()
    _others.update(threading.enumerate())


def watchers() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "chiplog-devices" and one not in _others]


def test_what_is_ready_needs_nobody(run: chiplog.Run) -> None:
    """An array that is there when its span ends is done with it, and no thread is made to look."""
    array = jnp.ones(8).block_until_ready()
    for _ in range(3):
        with run.span("work", devices="tpu0") as span:
            span.async_end(array)
    host, device = run.spans().host(), run.spans().device()
    assert [one.end for one in device] == [one.end for one in host] and len(device) == 3
    assert not watchers()


def test_a_watcher_without_work_ends(run: chiplog.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is kept for a run that traces no more; the next work has one again."""
    monkeypatch.setattr("chiplog.runtime.devices.watcher.IDLE", 0.05)
    for _ in range(2):
        event = Event()
        with run.span("work", devices="tpu0") as span:
            span.async_end(event)
        assert len(watchers()) == 1
        event.passed = True
        wait_for(lambda: not watchers())
    assert len(run.spans().device()) == 2


def test_a_device_span_lasts_until_its_arrays_are_there(run: chiplog.Run) -> None:
    """With real arrays of JAX: the host's part is over long before, and the caller never waits."""
    multiply = jax.jit(lambda x: (x @ x) / 1500)
    x = multiply(jnp.ones((1500, 1500))).block_until_ready()
    began = time.perf_counter()
    with run.span("matmul", devices=jax.devices()[0], tags={"n": 1}) as span:
        for _ in range(5):
            x = multiply(x)
        span.async_end({"out": [x]})
    called = time.perf_counter() - began
    x.block_until_ready()
    whole = time.perf_counter() - began
    wait_for(lambda: run.spans().device())
    [host], [device] = run.spans().host(), run.spans().device()
    assert device.thread == "cpu0" and device.tags == {"n": 1} and device.parent == host.id
    assert device.start == host.start and host.seconds <= called
    assert host.seconds < 0.5 * device.seconds <= 0.5 * (whole + 0.1)


def test_one_thread_watches_everything_and_nobody_waits(run: chiplog.Run) -> None:
    """Ten threads, twenty spans each: one watcher, and no call takes as long as the work."""
    events = [Event() for _ in range(200)]

    def give(number: int) -> None:
        for event in events[number * 20 : number * 20 + 20]:
            with run.span("work", devices=f"gpu{number}") as span:
                span.async_end(event)

    with ThreadPoolExecutor(10) as callers:
        list(callers.map(give, range(10)))
    assert len(watchers()) == 1 and not run.spans().device()
    for event in events:
        event.passed = True
    wait_for(lambda: len(run.spans().device()) == 200)
    assert len({span.id for span in run.spans()}) == len(run.spans())
    assert all(event.asked for event in events)


def test_a_device_that_is_done_first_ends_first(run: chiplog.Run) -> None:
    """One that is slow does not hold up what is seen of another."""
    slow, quick = Event(), Event()
    for name, event in (("slow", slow), ("quick", quick)):
        with run.span(name, devices=name) as span:
            span.async_end(event)
    quick.passed = True
    wait_for(lambda: run.spans().device())
    assert run.spans().device().names == ["quick"]
    slow.passed = True
    wait_for(lambda: len(run.spans().device()) == 2)
    found = {span.name: span for span in run.spans().device()}
    assert found["quick"].end < found["slow"].end


def test_work_on_one_device_is_one_after_another(run: chiplog.Run) -> None:
    """What was given to a busy device has waited in its queue; the wait is its own span."""
    events = [Event(), Event()]
    for name, event in zip("ab", events, strict=True):
        with run.span(name, devices="tpu0") as span:
            span.async_end(event)
    for event, so_far in zip(events, (1, 2), strict=True):
        event.passed = True
        wait_for(lambda so_far=so_far: len(run.spans().device()) == so_far)
    a, b = run.spans().device()
    [queue] = run.spans().queued()
    assert b.start == a.end == queue.end and queue.name == "queue" and queue.tags == {"name": "b"}
    assert queue.thread == "tpu0_queue" and queue.start == run.spans().host().named("b")[0].start
    assert run.spans().device().wait() == pytest.approx(queue.seconds)


@pytest.mark.parametrize("concurrent", ["rollout", ["rollout"], "all"])
def test_named_work_may_overlap_on_a_device(run: chiplog.Run, concurrent: str | list[str]) -> None:
    """Rollouts do: no queue, and both keep their begins."""
    run.trace(concurrent=concurrent)
    events = [Event(), Event()]
    for event in events:
        with run.span("rollout", devices="tpu0") as span:
            span.async_end(event)
    for event in events:
        event.passed = True
    wait_for(lambda: len(run.spans().device()) == 2)
    assert not run.spans().queued()
    assert [span.start for span in run.spans().device()] == [span.start for span in run.spans().host()]


def test_a_late_span_belongs_to_its_own_step(run: chiplog.Run) -> None:
    """However many steps later its work is done."""
    event = Event()
    run.begin_step(3)
    with run.span("work", devices="tpu0") as span:
        span.async_end(event)
    run.begin_step(9)
    event.passed = True
    wait_for(lambda: run.spans().device())
    assert run.spans().device()[0].step == 3


def test_a_device_that_never_finishes_is_given_up_and_marked(run: chiplog.Run) -> None:
    """After its deadline, while the others go on."""
    run.trace(deadline=0.1)
    never, good = Event(), Event()
    with run.span("never", devices="tpu0") as span:
        span.async_end(never)
    wait_for(lambda: run.spans().device())
    [given_up] = run.spans().device()
    assert given_up.failed and given_up.error == "unfinished" and given_up.seconds >= 0.1
    run.trace(deadline=60)
    with run.span("good", devices="tpu1") as span:
        span.async_end(good)
    good.passed = True
    wait_for(lambda: len(run.spans().device()) == 2)
    assert not run.spans().device().named("good")[0].failed


def test_one_that_can_only_be_waited_for_holds_up_nobody_for_long(run: chiplog.Run) -> None:
    """A thread that is stuck in it is replaced when it is overdue."""
    stuck = threading.Event()

    class Blocking:
        def block_until_ready(self) -> None:
            stuck.wait(30)

    run.trace(deadline=0.1)
    with run.span("stuck", devices="tpu0") as span:
        span.async_end(Blocking())
    run.trace(deadline=60)
    good = Event()
    good.passed = True
    with run.span("good", devices="tpu1") as span:
        span.async_end(good)
    wait_for(lambda: len(run.spans().device()) == 2)
    stuck.set()
    found = {span.name: span for span in run.spans().device()}
    assert found["stuck"].error == "unfinished" and not found["good"].failed


def test_what_is_under_way_at_the_end_is_waited_for(run: chiplog.Run) -> None:
    """`finish` waits for devices within its time; nothing is lost."""
    event = Event()
    with run.span("last", devices="tpu0") as span:
        span.async_end(event)
    threading.Timer(0.1, lambda: setattr(event, "passed", True)).start()
    run.finish()
    [device] = chiplog.read(run.dir).spans().device()
    assert not device.failed and device.seconds >= 0.05
    wait_for(lambda: not watchers())


def test_what_is_not_done_at_the_end_is_marked(run: chiplog.Run) -> None:
    """A run that must end does."""
    with run.span("never", devices="tpu0") as span:
        span.async_end(Event())
    run.finish(timeout=0.5)
    [device] = chiplog.read(run.dir).spans().device()
    assert device.error == "unfinished"


def test_work_that_fails_is_marked(run: chiplog.Run) -> None:
    """A future's exception, and a question that raises; the host's span is not to blame."""
    future: Future[int] = Future()
    future.set_exception(OSError("gone"))

    class Broken:
        def query(self) -> bool:
            raise RuntimeError("the device is lost")

    for work in (future, Broken()):
        with run.span("work", devices="tpu0") as span:
            span.async_end(work)
    wait_for(lambda: len(run.spans().device()) == 2)
    assert {span.error for span in run.spans().device()} == {"OSError", "RuntimeError"}
    assert not run.spans().host().failed()


def test_a_donated_array_harms_nobody(run: chiplog.Run) -> None:
    """Its end cannot be known any more; the process lives, and the span is there."""
    give = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(1000)
    for _ in range(20):
        with run.span("donated", devices="cpu0") as span:
            span.async_end(x)
        x = give(x)
    wait_for(lambda: len(run.spans().device()) == 20)


def test_an_exception_in_the_body_marks_both_parts(run: chiplog.Run) -> None:
    """The device's part has ended with the host's: nothing was given to wait for."""
    with pytest.raises(ValueError), run.span("bad", devices="tpu0"):
        raise ValueError
    assert [span.error for span in run.spans()] == ["ValueError", "ValueError"]


def test_values_on_the_host_are_done_at_once() -> None:
    """numpy, torch on the CPU, numbers, and nothing at all."""
    tracer = Tracer(watch := DeviceWatcher())
    for work in (np.ones(3), torch.ones(3), 5, None, [], {"a": (1, 2)}):
        with tracer.span("s", devices="d") as span:
            span.async_end(work)
    wait_for(lambda: not len(watch))
    batch = tracer.next_batch(0)
    assert batch is not None and len(batch["id"]) >= 12 and not batch["failed"]
    watch.wait_for_work(0)


def test_devices_go_by_their_names() -> None:
    """A text as it is, devices of JAX and torch, lists and arrays of them; a mesh by its first one."""
    device = jax.devices()[0]
    mesh = jax.sharding.Mesh(np.array([device]), ("x",))
    assert labels("tpu0") == ["tpu0"] and labels(["tpu0", "tpu1", "tpu0"]) == ["tpu0", "tpu1"]
    assert labels(device) == labels(mesh) == labels(np.array([[device]])) == ["cpu0"]
    assert labels(torch.device("cuda:3")) == ["cuda3"] and labels(None) == []


class Tensor:
    """Looks like a torch tensor on a GPU, which is not here."""

    device = torch.device("cuda", 0)

    def untyped_storage(self) -> None: ...


def test_a_tensor_on_a_gpu_is_watched_by_an_event(run: chiplog.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded on the caller's thread, behind the work so far; the tensor itself is not kept."""
    recorded: list[tuple[str, Event]] = []

    class CudaEvent(Event):
        def record(self) -> None:
            recorded.append((threading.current_thread().name, self))

    monkeypatch.setattr(torch.cuda, "Event", CudaEvent)
    with run.span("forward", devices=torch.device("cuda", 0)) as span:
        span.async_end({"logits": [Tensor()]})
    [(thread, event)] = recorded
    assert thread == threading.current_thread().name and not run.spans().device()
    event.passed = True
    wait_for(lambda: run.spans().device())
    assert run.spans().device()[0].thread == "cuda0"


def test_an_event_that_a_device_refuses_harms_nobody(run: chiplog.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said once, and the span ends with the host's part."""

    class Refused:
        def __init__(self) -> None:
            raise RuntimeError("no such device")

    monkeypatch.setattr(torch.cuda, "Event", Refused)
    with run.span("forward", devices="cuda0") as span:
        span.async_end(Tensor())
    wait_for(lambda: run.spans().device())


def test_a_device_far_behind_is_not_asked_about_everything(run: chiplog.Run) -> None:
    """Of a thousand works only the next ones are looked at; all of them land."""
    events = [Event() for _ in range(1000)]
    for event in events:
        with run.span("work", devices="gpu0") as span:
            span.async_end(event)
    wait_for(lambda: events[0].asked > 5)
    assert not any(event.asked for event in events[40:])
    for event in events:
        event.passed = True
    wait_for(lambda: len(run.spans().device()) == 1000)


def test_who_asks_for_spans_sees_what_is_done_by_now(run: chiplog.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever the watcher would have looked at it."""
    monkeypatch.setattr(DeviceWatcher, "_loop", lambda self: None)
    event = Event()
    with run.span("forward", devices="gpu0") as span:
        span.async_end([event])
    assert len(run.spans().device()) == 0
    event.passed = True
    (seen,) = run.spans().device()
    assert seen.error == ""


def test_looking_never_waits() -> None:
    """Neither for a work that cannot be asked nor for a thread that is stuck in one."""
    stuck, event = threading.Event(), Event()

    class Array:
        def block_until_ready(self) -> None:
            stuck.wait(30)

    watch = DeviceWatcher()
    tracer = Tracer(watch)
    for name, work in (("one", Array()), ("two", event)):
        with tracer.span(name, devices=name) as span:
            span.async_end(work)
    event.passed = True
    began = time.monotonic()
    tracer.poll()
    assert time.monotonic() - began < 10 and len(watch) >= 1
    stuck.set()
    wait_for(lambda: not len(watch))


def test_spans_after_the_end_are_nothing(run: chiplog.Run) -> None:
    """They neither wait anywhere nor grow."""
    run.finish()
    with run.span("late", devices="tpu0") as span:
        span.async_end(1)
    assert not run.tracer.done and not chiplog.read(run.dir).spans()


def test_another_device_is_seen_while_the_first_is_at_work(run: chiplog.Run) -> None:
    """Real arrays on the first, for long; the second's work ends before it."""
    multiply = jax.jit(lambda x: (x @ x) / 1000)
    x = multiply(jnp.ones((1000, 1000))).block_until_ready()
    with run.span("long", devices="tpu0") as span:
        for _ in range(10):
            x = multiply(x)
        span.async_end(x)
    wait_for(watchers)
    quick = Event()
    quick.passed = True
    with run.span("quick", devices="tpu1") as span:
        span.async_end(quick)
    wait_for(lambda: len(run.spans().device()) == 2)
    found = {span.name: span for span in run.spans().device()}
    assert found["quick"].end < found["long"].end and found["quick"].seconds < found["long"].seconds
    wait_for(lambda: len(watchers()) <= 1)


def test_a_process_may_end_while_a_device_is_at_work(tmp_path: Path) -> None:
    """Nothing waits inside an array: its return while the interpreter ends would abort the process."""
    code = (
        "import chiplog, jax, jax.numpy as jnp\n"
        f"run = chiplog.init('p', sinks='none', dir={str(tmp_path)!r}, compact=False)\n"
        "multiply = jax.jit(lambda x: (x @ x) / 1000)\n"
        "x = multiply(jnp.ones((1000, 1000))).block_until_ready()\n"
        "with run.span('work', devices='tpu0') as span:\n"
        "    for _ in range(10): x = multiply(x)\n"
        "    span.async_end(x)\n"
        "run.finish(timeout=0.2)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
