"""The second version of performance tracing; the numbers D1 to D9 are those of the acceptance list."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from math import inf
from typing import Any

import pytest

from chiplog.frontends.tunix.perf import shared_tracer as recording_
from chiplog.frontends.tunix.perf.experimental import timeline as timeline_
from chiplog.frontends.tunix.perf.experimental import tracer as v2
from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport, log_metric_export_fn
from chiplog.frontends.tunix.perf.experimental.span import Span
from chiplog.frontends.tunix.perf.experimental.tracer import PerfTracer, Timeline
from chiplog.frontends.tunix.perf.shared_tracer import Recording
from tests.frontends.tunix.devices import Later, device, mesh
from tests.support.waiting import wait_for

MAIN = "host-MainThread"


def tracer_of(watcher: Any = None, devices: Any = None, **more: Any) -> PerfTracer:
    return PerfTracer(devices, recording=Recording(watcher=watcher, zero=0), born=0.0, **more)


def spans_of(tracer: PerfTracer, timeline: str) -> list[Span]:
    return [span for step in tracer.timelines[timeline].all_steps for span in step.values()]


def times_of(tracer: PerfTracer, timeline: str) -> list[tuple[str, float, float]]:
    return [(span.name, span.begin, span.end) for span in spans_of(tracer, timeline)]


def test_spans_nest_and_have_tags(clock: Any) -> None:
    """D1: ids 0 and 1, the outer one is the inner one's parent."""
    tracer = tracer_of()
    clock(1, 2, 3, 4)
    with tracer.span("outer", tags={"step": 7}), tracer.span("inner", tags={"who": "me", "ok": True}):
        pass
    outer, inner = spans_of(tracer, MAIN)
    assert (outer.id, outer.parent_id, outer.tags) == (0, None, {"step": 7})
    assert (inner.id, inner.parent_id, inner.tags) == (1, 0, {"who": "me", "ok": True})
    assert (outer.begin, inner.begin, inner.end, outer.end) == (1.0, 2.0, 3.0, 4.0)
    assert repr(tracer.timelines[MAIN]).splitlines() == [
        "Timeline(host-MainThread, 0.000000)",
        "Current Step:",
        "  [0] outer: 1.000000, 4.000000, tags={'step': 7}",
        "  [1] inner: 2.000000, 3.000000 (parent=0), tags={'who': 'me', 'ok': True}",
    ]


def test_a_parent_that_ends_later_is_still_the_parent(clock: Any) -> None:
    """D1: also when somebody looked in between."""
    tracer = tracer_of()
    clock(1, 2, 3, 4)
    with tracer.span("outer"):
        with tracer.span("inner"):
            pass
        (inner,) = spans_of(tracer, MAIN)
        assert inner.parent_id is None
    _, outer = spans_of(tracer, MAIN)
    assert outer.name == "outer" and inner.parent_id == outer.id


def test_tasks_have_timelines_of_their_own() -> None:
    """D2: A from 0 to 0.1 and B from 0.05 to 0.2 are just that, neither in the other."""
    tracer = PerfTracer()

    async def work(name: str, begin: float, end: float) -> None:
        await asyncio.sleep(begin)
        with tracer.span(name):
            await asyncio.sleep(end - begin)

    async def main() -> None:
        await asyncio.gather(work("A", 0, 0.1), work("B", 0.05, 0.2))

    asyncio.run(main())
    found = {span.name: span for name in tracer.timelines for span in spans_of(tracer, name)}
    a, b = found["A"], found["B"]
    assert a.parent_id is None and b.parent_id is None and a.children == b.children == []
    assert a.begin < b.begin < a.end < b.end  # as they were, in spite of each other
    assert a.duration >= 0.1 and b.duration >= 0.15
    assert len([name for name in tracer.timelines if name.startswith("host-MainThread/")]) == 2


def test_work_is_numbered_as_it_was_given(clock: Any, later: Later) -> None:
    """D3: B is done before A, and A is the first of them."""
    tracer = tracer_of(later, concurrent_device_spans="all")
    clock(90, 91, 92, 93)
    for name in ("A", "B"):
        with tracer.span(name, devices=["tpu0"]) as span:
            span.async_end(name)
    later.done("B", 100)
    later.done("A", 101)
    first, second = spans_of(tracer, "tpu0")
    assert (first.name, first.id, first.end) == ("A", 0, 101.0)
    assert (second.name, second.id, second.end) == ("B", 1, 100.0)


def test_what_had_to_wait_is_in_the_queue(clock: Any, later: Later) -> None:
    """D4: of two, and of three that were given at once."""
    tracer = tracer_of(later)
    clock(10, 10.5, 11, 11.5, 15, 15.1, 16, 16.1, 16.5, 16.6)
    for name in "abcde":
        with tracer.span(name, devices=["tpu0"]) as span:
            span.async_end(name)
    for name, end in zip("abcde", (12, 13, 18, 19, 20), strict=True):
        later.done(name, end)
    assert times_of(tracer, "tpu0") == [
        ("a", 10, 12), ("b", 12, 13), ("c", 15, 18), ("d", 18, 19), ("e", 19, 20),
    ]  # fmt: skip
    assert times_of(tracer, "tpu0_queue") == [("queue", 11, 12), ("queue", 16, 18), ("queue", 18, 19)]
    assert [span.tags for span in spans_of(tracer, "tpu0_queue")] == [{"name": "b"}, {"name": "d"}, {"name": "e"}]


@pytest.mark.parametrize("concurrent", ["all", ["rollout"], "rollout"])
def test_named_spans_may_overlap(concurrent: Any, clock: Any, later: Later) -> None:
    """D5: nothing waits, both are kept as they were."""
    tracer = tracer_of(later, concurrent_device_spans=concurrent)
    clock(1, 2, 3, 4)
    for _ in range(2):
        with tracer.span("rollout", devices=["tpu0"]) as span:
            span.async_end("x")
    later.done("rollout", 8)
    later.done("rollout", 9)
    assert times_of(tracer, "tpu0") == [("rollout", 1, 8), ("rollout", 3, 9)]
    assert spans_of(tracer, "tpu0_queue") == []


@pytest.mark.parametrize("devices", [["tpu0"], None], ids=["known", "met"])
def test_a_late_span_is_in_its_own_step(devices: Any, clock: Any, later: Later) -> None:
    """D6: the device was done after the export, and its span is where it was begun; nothing is lost."""
    tracer = tracer_of(later, devices, export_fn=lambda timelines: {})
    clock(1, 2, 3, 4)
    for name in ("first", "second"):
        with tracer.span(name, devices=["tpu0"]) as span:
            span.async_end(name)
        tracer.export()
    later.done("first", 5)
    tracer.export()
    later.done("second", 6)
    steps = tracer.timelines["tpu0"].all_steps
    assert [[span.name for span in step.values()] for step in steps] == [["first"], ["second"], [], []]


def test_what_failed_is_marked(clock: Any) -> None:
    """D7: a body that raises, and work that does."""
    tracer = PerfTracer()
    with pytest.raises(KeyError), tracer.span("body"):
        raise KeyError("no")
    work: Future[int] = Future()
    with tracer.span("work", devices=["tpu0"]) as span:
        span.async_end(work)
    work.set_exception(OSError("gone"))
    tracer.synchronize()
    body, _ = spans_of(tracer, MAIN)
    (failed,) = spans_of(tracer, "tpu0")
    assert body.ended and body.error == "KeyError" and failed.ended and failed.error == "OSError"


def test_threads_may_trace_at_once() -> None:
    """D8: 10 threads with 20 spans on one device, each numbered once."""
    tracer = PerfTracer(concurrent_device_spans="all")

    def work() -> None:
        for _ in range(20):
            future: Future[int] = Future()
            with tracer.span("x", devices=["tpu0"]) as span:
                span.async_end(future)
            future.set_result(1)

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracer.synchronize()
    assert sorted(span.id for span in spans_of(tracer, "tpu0")) == list(range(200))


def test_a_tracer_of_nothing_has_the_same_names() -> None:
    """D9: and costs nearly nothing."""

    def names(one: Any) -> set[str]:
        return {name for name in dir(one) if not name.startswith("_")}

    nothing = v2.NoopTracer()
    assert names(nothing) == names(tracer_of())
    began = time.thread_time()
    for _ in range(2000):
        with nothing.span("x", devices=["tpu0"], tags={"a": 1}) as span:
            span.async_end(None)
    assert (time.thread_time() - began) / 2000 < 20e-6  # an order over the bar, which the benchmark holds
    nothing.synchronize()
    nothing.print()
    nothing.process_and_commit_timelines()
    assert nothing.export() == {} == nothing.timelines and span.waitlist == []


# -- timelines ---------------------------------------------------------------------------------------------------------


def test_a_root_holds_the_whole_timeline(clock: Any) -> None:
    """As a tree: what lies in what."""
    tracer = tracer_of(export_fn=lambda timelines: {})
    clock(1, 2, 3, 4, 5, 6)
    with tracer.span("a"), tracer.span("b"):
        pass
    tracer.export()
    with tracer.span("c"):
        pass
    root = tracer.timelines[MAIN].root
    assert (root.name, root.begin, root.end, root.ended) == ("root", 0.0, inf, False)
    assert [one.name for one in root.children] == ["a", "c"]
    assert [one.name for one in root.children[0].children] == ["b"]


def test_a_step_lies_between_two_exports() -> None:
    """Ids go on over all of them; an empty step is one too."""
    tracer = tracer_of(export_fn=lambda timelines: {})
    for count in (1, 0, 2):
        for _ in range(count):
            with tracer.span("x"):
                pass
        tracer.export()
    with tracer.span("x"):
        pass
    timeline = tracer.timelines[MAIN]
    assert [list(step) for step in timeline.committed_steps] == [[0], [], [1, 2]]
    assert list(timeline.cur_step) == [3] and len(timeline.all_steps) == 4


def test_a_span_over_several_steps_is_not_lost() -> None:
    """It is in the step in which it ended."""
    tracer = tracer_of(export_fn=lambda timelines: {})
    with tracer.span("long"):
        with tracer.span("x"):
            pass
        tracer.export()
    tracer.export()
    names = [[span.name for span in step.values()] for step in tracer.timelines[MAIN].committed_steps]
    assert names == [["x"], ["long"]]


def test_steps_are_committed_without_an_export_function() -> None:
    """What is recorded does not pile up in one step."""
    tracer = tracer_of()
    with tracer.span("x"):
        pass
    assert tracer.export() == {} and len(tracer.timelines[MAIN].committed_steps) == 1


def test_a_timeline_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old steps are let go, the newest stays."""
    monkeypatch.setattr(timeline_, "MOST", 10)
    timeline = Timeline("host-x", 0.0)
    tracer = tracer_of(export_fn=lambda timelines: {})
    for _ in range(10):
        for _ in range(4):
            with tracer.span("x"):
                pass
        tracer.export()
    kept = tracer.timelines[MAIN].committed_steps
    assert len(kept) <= 3 and len(kept[-1]) == 4 and timeline.all_steps == [{}]


@pytest.mark.parametrize("devices", ["tpu0", [device(0), device(1)], mesh(0, 1), mesh(0, 1).devices, device(0)])
def test_a_mesh_is_shown_by_its_first_device(devices: Any) -> None:
    """C8: whatever it is given as; each device has a queue."""
    tracer = tracer_of()
    with tracer.span("x", devices=devices):
        pass
    assert set(tracer.timelines) == {MAIN, "tpu0", "tpu0_queue"} and list(tracer.all_devices) == ["tpu0"]


def test_all_devices_of_a_mesh_where_that_is_wanted() -> None:
    """Each with the span."""
    tracer = tracer_of(devices=mesh(0, 1), collect_on_first_device_per_mesh=False)
    with tracer.span("x", devices=mesh(0, 1).devices):
        pass
    assert [len(spans_of(tracer, name)) for name in ("tpu0", "tpu1")] == [1, 1]


def test_a_tag_that_is_there_is_replaced_and_said(capfd: pytest.CaptureFixture[str]) -> None:
    """As the original does."""
    span = Span("x", 0.0, 0, tags={"a": 1})
    span.add_tag("b", 2)
    span.add_tag("a", 3)
    assert span.tags == {"a": 3, "b": 2} and span.duration == inf
    assert "Tag 'a' already exists with value 1. Overwriting with 3." in capfd.readouterr().err


def test_an_export_function_that_raises_harms_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once."""

    def fails(timelines: dict[str, Timeline]) -> Any:
        raise RuntimeError("no wind")

    tracer = tracer_of(export_fn=fails)
    assert tracer.export() == {} == tracer.export()
    assert capfd.readouterr().err.count("no wind") == 1


# -- exports -----------------------------------------------------------------------------------------------------------


def test_aggregates_are_metrics_of_the_step(clock: Any, later: Later) -> None:
    """What the original has not yet: totals by name, of hosts and of devices, each span counted once."""
    exporter = PerfMetricsExport(enable_trace_writer=False)
    tracer = tracer_of(later, export_fn=exporter.export_metrics)
    clock(1, 2, 3, 4, 5, 6)
    for _ in range(2):
        with tracer.span("rollout", devices=["tpu0"]) as span:
            span.async_end("x")
    later.done("rollout", 2)
    found = {name: value for name, (value, reducer) in tracer.export().items() if reducer is None}
    assert found["perf/rollout/total_sec"] == 2.0 and found["perf/rollout/device_sec"] == 1.0
    assert found["perf/rollout/count"] == 2
    later.done("rollout", 7)
    assert tracer.export() == {
        "perf/rollout/device_sec": (4.0, None),
        "perf/wait_sec": (0.0, None),
        "perf/overlap_sec": (0.0, None),
        "perf/idle_sec": (0.0, None),
    }
    assert tracer.export() == {}
    clock(1, 2)
    with tracer.span("once"):
        pass
    assert set(tracer.export()) == {"perf/once/total_sec", "perf/once/self_sec"}


def test_timelines_can_be_said(capsys: pytest.CaptureFixture[str]) -> None:
    """By an export function, and by printing."""
    tracer = tracer_of(export_fn=log_metric_export_fn)
    with tracer.span("x"):
        pass
    assert tracer.export() == {}
    said = capsys.readouterr().err.splitlines()
    assert any(line.startswith("chiplog:   [0] x: ") for line in said) and any(
        "Timeline(host-" in line for line in said
    )
    assert log_metric_export_fn({}) == {} and "there are no timelines" in capsys.readouterr().err
    tracer.print()
    assert "Committed Step -0" in capsys.readouterr().out


def test_arrays_of_jax_are_waited_for() -> None:
    """The host's part is short, the device's lasts until the result is there."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def slow(x: Any) -> Any:
        return jax.lax.fori_loop(0, 10, lambda _, y: jnp.tanh(y @ y), x)

    array = jnp.full((500, 500), 1e-3)
    slow.lower(array).compile()
    tracer = PerfTracer(jax.devices())
    with tracer.span("matmul", devices=jax.devices()) as span:
        span.async_end(slow(array))
    wait_for(lambda: spans_of(tracer, "cpu0"), timeout=60)
    (host,), (there,) = spans_of(tracer, MAIN), spans_of(tracer, "cpu0")
    assert there.begin == host.begin and there.end > host.end


def test_a_span_that_stays_open_does_not_gather_all_that_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a whole training lasts."""
    monkeypatch.setattr(timeline_, "MOST", 10)
    tracer = tracer_of(export_fn=lambda timelines: {})
    with tracer.span("training"):
        for _ in range(20):
            for _ in range(5):
                with tracer.span("x"):
                    pass
            tracer.export()
        assert sum(map(len, tracer._inner.values())) <= 10
        assert sum(map(len, tracer.timelines[MAIN].committed_steps)) <= 10


def test_more_spans_than_a_tracer_holds_are_all_taken() -> None:
    """Without a run there is nobody in the background; who traces takes them in time."""
    tracer = PerfTracer()
    for _ in range(25_000):
        with tracer.span("x"):
            pass
    inside = tracer._recording.tracer
    assert inside.dropped == 0 and len(inside.done) < 25_000
    assert len(tracer.timelines[MAIN].cur_step) == 25_000


def test_spans_may_be_written_while_somebody_looks_at_them() -> None:
    """By a signal handler, say, over the lock of the views, while another thread takes them: nobody waits."""
    recording = Recording(zero=0)
    tracer = PerfTracer(recording=recording)
    with tracer.span("x"):
        pass
    with recording.lock:
        other = threading.Thread(target=recording.tracer.next_batch, args=(0,))
        other.start()
        other.join(10)
        assert not other.is_alive()
    assert [span.name for span in spans_of(tracer, MAIN)] == ["x"]


def test_spans_that_nobody_looks_at_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are given to the views now and then, which keep the newest."""
    monkeypatch.setattr(recording_, "WAITING", 10)
    recording = Recording(zero=0)
    tracer = PerfTracer(recording=recording)
    for _ in range(10):
        for _ in range(3):
            with tracer.span("x"):
                pass
        recording.tracer.next_batch(0)
        assert sum(len(spans) for _, spans in recording._batches) <= 12
    assert len(spans_of(tracer, MAIN)) == 30
