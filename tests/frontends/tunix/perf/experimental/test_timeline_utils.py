"""The ids of timelines, and the spans of a device one after another."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace

import pytest

from chiplog.frontends.tunix.perf.experimental import timeline_utils, tracer
from chiplog.frontends.tunix.perf.experimental.timeline import Span, Timeline


def test_a_devices_spans_are_put_one_after_another() -> None:
    """D4: a and b overlap, then three of them; what waited is in the queue, and nothing is dropped."""
    times = {"a": (0.0, 2.0), "b": (1.0, 3.0), "c": (5.0, 8.0), "d": (6.0, 9.0), "e": (6.5, 10.0)}
    spans = {at: Span(name, begin, at, end=end) for at, (name, (begin, end)) in enumerate(times.items())}
    active, queue = timeline_utils.sequentialize_overlapping_spans(spans)
    assert [(one.name, one.begin, one.end) for one in active.values()] == [
        ("a", 0.0, 2.0), ("b", 2.0, 3.0), ("c", 5.0, 8.0), ("d", 8.0, 9.0), ("e", 9.0, 10.0),
    ]  # fmt: skip
    assert [(one.tags["name"], one.begin, one.end) for one in queue.values()] == [
        ("b", 1.0, 2.0), ("d", 6.0, 8.0), ("e", 8.0, 9.0),
    ]  # fmt: skip
    assert timeline_utils.generate_queued_timeline_id("tpu0") == "tpu0_queue"
    line = Timeline("tpu0", 0.0)
    for name in ("x", "y", "x"):
        line.start_span(name, 1.0)
        line.stop_span(2.0)
        line.commit_step()
    assert [one.id for one in timeline_utils.filter_spans_by_name(line, "x")] == [0, 2]


def test_a_timeline_is_found_by_the_id_of_its_thread_task_or_device() -> None:
    """The id is made before there is a span, and by whoever will open it."""
    made = tracer.PerfTracer()
    ids = [tracer.generate_device_timeline_id(SimpleNamespace(platform="tpu", id=3))]

    def work() -> None:
        ids.append(tracer.generate_host_timeline_id())
        with made.span("x", devices=["tpu3"]):
            pass

    async def task() -> None:
        work()

    work()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    asyncio.run(task())
    made.synchronize()
    assert len(set(ids)) == 4 and [len(made.timelines[one].cur_step) for one in ids] == [3, 1, 1, 1]
    with pytest.raises(ValueError, match="is not a device"):
        tracer.generate_device_timeline_id(3.5)
