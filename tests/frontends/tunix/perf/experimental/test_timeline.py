"""Timelines that are filled by hand."""

from __future__ import annotations

import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from chiplog.frontends.tunix.perf.experimental import export, trace_writer
from chiplog.frontends.tunix.perf.experimental.timeline import AsyncTimeline, BatchAsyncTimelines, Timeline
from tests.perfetto.processor import SLICES, ask


def test_a_timeline_is_filled_by_hand(tmp_path: Path) -> None:
    """Spans nest in the order in which they are begun, steps are committed, and a writer takes them."""
    line = Timeline("host-worker", 1.0)
    line.start_span("outer", 2.0, tags={"step": 7})
    inner = line.start_span("inner", 3.0)
    line.stop_span(4.0)
    assert (inner.parent_id, inner.duration, line.committed_steps) == (0, 1.0, [])
    line.commit_step()
    line.stop_span(5.0)
    assert [sorted(step) for step in line.all_steps] == [[1], [0]]
    with pytest.raises(ValueError, match="no more spans to end"):
        line.stop_span(6.0)
    line.start_span("late", 7.0)
    with pytest.raises(ValueError, match=r"ended at 6\.000000 before it began at 7\.000000"):
        line.stop_span(6.0)
    line.stop_span(8.0)
    device = Timeline("tpu0", 1.0)
    device.start_span("rollout", 2.0, {"group_id": 3})
    device.stop_span(2.5)
    writer = trace_writer.PerfettoTraceWriter(str(tmp_path / "traces"), {"rollout": ["tpu0"]})
    writer.write_timelines({"host-worker": line, "tpu0": device})
    assert writer.path is not None
    (slices,) = ask(writer.path, SLICES)
    assert sorted((one["name"], one["dur"], one["track"], one["depth"]) for one in slices) == [
        ("inner", 1_000_000_000, "worker", 1),
        ("late", 1_000_000_000, "worker", 0),
        ("outer (step=7)", 3_000_000_000, "worker", 0),
        ("rollout (group_id=3)", 500_000_000, "tpu0", 0),
    ]
    found = export.PerfMetricsExport(enable_trace_writer=False).export_metrics({"tpu0": device, "host-worker": line})
    assert found["perf/rollout/device_sec"] == (0.5, None) and found["perf/outer/total_sec"] == (3.0, None)
    trace_writer.NoopTraceWriter().write_timelines({"tpu0": device})


def test_work_of_a_timeline_ends_when_it_is_done() -> None:
    """Nobody waits for it but who asks to; work that fails is marked, and several devices are as one."""
    lines = [AsyncTimeline("tpu0", 0.0), AsyncTimeline("tpu1", 0.0)]
    begin, work, broken = time.perf_counter(), Future[None](), Future[None]()
    both = BatchAsyncTimelines(lines)
    both.span("train", begin, work, tags={"step": 1})
    both.span("nothing", begin, None)
    assert [span.name for span in lines[0].cur_step.values()] == ["nothing"]
    lines[0].span("fails", begin, broken)
    broken.set_exception(RuntimeError("no wind"))
    work.set_result(None)
    for line in lines:
        line.wait_pending_spans()
    first, second = lines[0].cur_step, lines[1].cur_step
    assert {span.id: span.name for span in first.values()} == {0: "train", 1: "nothing", 2: "fails"}
    assert first[0].begin == begin and begin < first[0].end <= time.perf_counter() and first[0].tags == {"step": 1}
    assert first[2].error and sorted(second) == [0, 1]
    lines[0].commit_step()
    assert lines[0].cur_step == {} and len(lines[0].committed_steps[0]) == 3
