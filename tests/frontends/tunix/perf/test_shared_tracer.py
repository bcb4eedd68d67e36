"""Both versions of performance tracing at once, as the original's loops open them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import chiplog
from chiplog.core.tracing import span as spans
from chiplog.frontends.tunix.perf import trace
from chiplog.frontends.tunix.perf.experimental import constants
from chiplog.frontends.tunix.perf.experimental import tracer as v2
from chiplog.frontends.tunix.perf.experimental.export import PerfMetricsExport as ExportV2
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.shared_tracer import Recording
from tests.frontends.tunix.devices import Later

ROLES = {"rollout": ["tpu0", "tpu1"], "actor": ["tpu2", "tpu3"], "refer": ["tpu4"]}
DEVICES = [device for devices in ROLES.values() for device in devices]


class Loop:
    """A step of GRPO on a clock and devices of the test's own, with the spans that the original opens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first: bool, second: bool) -> None:
        self.now, self.later, self._patch = 100.0, Later(), monkeypatch
        recording = Recording(watcher=self.later, zero=0)
        self.seen: dict[str, Any] = {}
        self.perf: Any = trace.NoopTracer()
        self.perf_v2: Any = v2.NoopTracer()
        if first:
            export = PerfMetricsExport.from_role_to_devices(ROLES)
            self.perf = trace.PerfTracer(DEVICES, self._looked_at(export), recording=recording, born=0.0)
        if second:
            self.perf_v2 = v2.PerfTracer(
                DEVICES,
                ExportV2(enable_trace_writer=False, role_to_devices=ROLES).export_metrics,
                concurrent_device_spans=constants.CONCURRENT,
                recording=recording,
                born=0.0,
            )

    def _looked_at(self, export: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def look(query: Any) -> Any:
            step = query().main().last_group("global_step").get()[0]
            self.seen["sync"] = [span.duration for span in step.find_all_inner_spans("weight_sync")]
            micro = (
                query().main().last_group("global_step").all_groups("mini_batch_step").all_groups("micro_batch_steps")
            )
            self.seen["refers"] = [
                span.duration for one in micro.get() for span in one.find_all_inner_spans("refer_inference")
            ]
            self.seen["trees"] = {one: query().timeline(one).get()[0].picture() for one in query.get_timeline_ids()}
            return export(query)

        return look

    def work(self, first: str, second: str, devices: list[str], host: float, done: float, **tags: Any) -> None:
        with self.perf.span(first, devices) as one, self.perf_v2.span(second, devices, tags) as other:
            self.now += host
            one.device_end(first)
            other.async_end(first)
        for name in (first, second) if first != second else (first, first):
            if any(work.span.name == name for work in self.later.works):
                self.later.done(name, self.now + done)

    def step(self) -> tuple[Any, Any]:
        self._patch.setattr(spans, "monotonic_ns", lambda: round(self.now * 1e9))
        with self.perf.span_group("global_step"), self.perf_v2.span("global_step", tags={"step": 1}):
            with self.perf.span("data_loading"), self.perf_v2.span("data_loading"):
                self.now += 0.5
            with self.perf.span_group("mini_batch_step"):
                for micro in range(2):
                    with self.perf.span_group("micro_batch_steps"):
                        self.work("rollout", constants.ROLLOUT, ROLES["rollout"], 1.0, 3.0, group_id=micro)
                        self.work("refer_inference", constants.REFERENCE_INFERENCE, ROLES["refer"], 0.25, 0.5)
                        with self.perf.span("advantage_computation"), self.perf_v2.span("advantage_computation"):
                            self.now += 0.125
                        with self.perf.span_group("actor_training"):
                            self.work("peft_train_step", constants.PEFT_TRAIN, ROLES["actor"], 0.5, 2.0, role="actor")
            self.work("weight_sync", constants.WEIGHT_SYNC, DEVICES, 0.75, 0.0)
        return self.perf.export(), self.perf_v2.export()


def test_both_versions_give_the_numbers_of_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the names that each has for a span, its metrics, trees and timelines are the same to the last digit."""
    old, new, both = (Loop(monkeypatch, *on) for on in ((True, False), (False, True), (True, True)))
    for _ in range(2):
        (first, _), (_, second), (mine, mine_v2) = old.step(), new.step(), both.step()
        assert mine == first and len(mine) == 16 and mine_v2 == second
        assert mine["perf/sum/refer_inference_time"][0] == pytest.approx(1.5)
        assert mine["perf/sum/actor_train_step_time"][0] == pytest.approx(1.0)
        assert mine_v2["perf/reference_inference/count"] == (2, None) and "perf/refer_inference/count" not in mine_v2
        assert both.seen == old.seen and both.seen["refers"] == [0.25, 0.25] and both.seen["sync"] == [0.75]
    alone, together = new.perf_v2.timelines, both.perf_v2.timelines
    assert {name: repr(one) for name, one in together.items()} == {name: repr(one) for name, one in alone.items()}


def test_a_span_opened_in_both_versions_is_written_once() -> None:
    """With the tags of the second; what lies in it lies in the one that is written, and work on other devices too."""
    with chiplog.init("p", sinks="none") as run:
        recording = Recording(run)
        first, second = trace.PerfTracer(recording=recording), v2.PerfTracer(recording=recording)
        with (
            first.span("refer_inference", ["tpu0"]) as one,
            second.span("reference_inference", ["tpu0"], {"group_id": 1}) as other,
        ):
            one.device_end(None)
            other.async_end(None)
            with second.span("reference_inference", ["tpu1"]):
                pass
        recording.wait_for_work()
        (mine,) = trace.query(first).main().get()[0].find_all_inner_spans("refer_inference")
        theirs = list(second.timelines["host-MainThread"].cur_step.values())
    assert mine.ended and [(span.name, span.parent_id) for span in theirs] == [
        ("reference_inference", None),
        ("reference_inference", 0),
    ]
    written = chiplog.read(run.dir).spans()
    (outer,) = written.named("refer_inference").host()
    (inner,) = written.named("reference_inference").host()
    assert outer.tags == {"group_id": 1} and inner.parent == outer.id
    assert [(span.name, span.thread, span.parent) for span in written.device()] == [
        ("refer_inference", "tpu0", outer.id),
        ("reference_inference", "tpu1", inner.id),
    ]


def test_a_span_that_one_version_alone_opens_is_its_own() -> None:
    """The other does not see it, nor is anything of it missing from the journal."""
    with chiplog.init("p", sinks="none") as run:
        recording = Recording(run)
        first, second = trace.PerfTracer(recording=recording), v2.PerfTracer(recording=recording)
        with first.span("rollout", ["tpu0"]), second.span("environment", ["tpu0"]), run.span("mine"):
            pass
        recording.wait_for_work()
        (rollout,) = trace.query(first).main().get()[0].find_all_inner_spans("rollout")
        assert [one.name for one in rollout.inner] == ["mine"], "what neither opened is seen by both"
        root = second.timelines["host-MainThread"].root
        assert [(one.name, [inner.name for inner in one.children]) for one in root.children] == [
            ("environment", ["mine"])
        ]
        assert [span.name for span in second.timelines["tpu0"].cur_step.values()] == ["environment"]
    written = chiplog.read(run.dir).spans()
    assert sorted(span.name for span in written.device()) == ["environment", "rollout"]
    assert sorted(span.name for span in written.host()) == ["environment", "mine", "rollout"]


def test_tasks_inside_a_span_of_the_same_name_are_their_own() -> None:
    """A span that a task opens is not the one its creator is in, and is written."""

    async def one(second: v2.PerfTracer) -> None:
        with second.span("rollout"):
            await asyncio.sleep(0)

    async def main(first: trace.PerfTracer, second: v2.PerfTracer) -> None:
        with first.span("rollout"):
            await asyncio.gather(one(second), one(second))

    with chiplog.init("p", sinks="none") as run:
        recording = Recording(run)
        tracers = trace.PerfTracer(recording=recording), v2.PerfTracer(recording=recording)
        asyncio.run(main(*tracers))
        assert sum(len(timeline.cur_step) for timeline in tracers[1].timelines.values()) == 2
    assert len(chiplog.read(run.dir).spans().named("rollout")) == 3
