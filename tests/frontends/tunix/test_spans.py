"""The first version of performance tracing; the numbers C1 to C9 are those of the acceptance list."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.perf import export, topology, trace
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.metrics import PerfSpanQuery
from chiplog.frontends.tunix.perf.recorder import Recording
from chiplog.frontends.tunix.perf.span import Span, SpanGroup
from chiplog.frontends.tunix.perf.topology import RoleTimes
from chiplog.frontends.tunix.rl.rl_cluster import Role
from chiplog.runtime.devices import watcher as watch
from tests.frontends.tunix.devices import Later, device, set_clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    return partial(set_clock, monkeypatch)


@pytest.fixture
def later() -> Later:
    return Later()


def tracer_of(watcher: Any = None, devices: Any = None, export_fn: Any = None) -> trace.PerfTracer:
    return trace.PerfTracer(devices, export_fn, recording=Recording(watcher=watcher, zero=0), born=0.0)


def root_of(tracer: trace.PerfTracer, timeline: str | None = None) -> SpanGroup:
    query = trace.query(tracer)
    (root,) = (query.main() if timeline is None else query.timeline(timeline)).get()
    return root


def times_of(group: SpanGroup) -> list[tuple[str, float, float]]:
    return [(one.name, one.begin, one.end) for one in group.inner]


# -- spans and groups --------------------------------------------------------------------------------------------------


def test_a_span_lies_under_the_root(clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """C1: from 2 to 3, and the root lasts for ever."""
    tracer = tracer_of()
    clock(2, 3)
    with tracer.span("x"):
        pass
    tracer.print()
    assert capsys.readouterr().out == ("\n[thread-MainThread]\n- root (0.000000, inf)\n  - x (2.000000, 3.000000)\n")


def test_a_device_span_ends_when_its_work_is_done(clock: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: the host from 2 to 3, the device from 2 to 5; what is waited for is asked once."""
    asked = []

    class Array:
        def block_until_ready(self) -> None:
            asked.append(self)

    monkeypatch.setattr(watch, "monotonic_ns", lambda: int(5e9))
    tracer = tracer_of(watch.DeviceWatcher())
    clock(2, 3)
    with tracer.span("x", devices=["tpu0"]) as span:
        span.device_end([Array()])
    tracer.synchronize()
    assert times_of(root_of(tracer)) == [("x", 2.0, 3.0)]
    assert times_of(root_of(tracer, "tpu0")) == [("x", 2.0, 5.0)] and len(asked) == 1


def test_a_device_does_one_thing_after_another(clock: Any, later: Later) -> None:
    """C3: the second work begins when the first is done."""
    tracer = tracer_of(later)
    clock(1, 2, 4, 5)
    for name in ("step1", "step2"):
        with tracer.span(name, devices=["tpu0"]) as span:
            span.device_end(name)
    later.done("step1", 5)
    later.done("step2", 7)
    assert times_of(root_of(tracer, "tpu0")) == [("step1", 1.0, 5.0), ("step2", 5.0, 7.0)]


def groups(tracer: trace.PerfTracer) -> None:
    """a{b, b}, a{b}"""
    for inner in (2, 1):
        with tracer.span_group("a"):
            for _ in range(inner):
                with tracer.span_group("b"):
                    pass


@pytest.mark.parametrize(
    ("chain", "found"),
    [
        (lambda query: query.all_groups("a").all_groups("b"), 3),
        (lambda query: query.last_group("a").all_groups("b"), 1),
        (lambda query: query.first_group("a").all_groups("b"), 2),
        (lambda query: query.all_groups("a").nth_group("b", 1), 1),
        (lambda query: query.all_groups("a").nth_group("b", -1), 0),
        (lambda query: query.all_groups("a").first_group("b"), 2),
        (lambda query: query.all_groups("a").last_group("b"), 2),
        (lambda query: query.all_groups("nobody"), 0),
        (lambda query: query, 1),
    ],
)
def test_groups_are_found_from_the_outermost_inwards(chain: Callable[[PerfSpanQuery], Any], found: int) -> None:
    """C4: first, last, nth and all, in each group so far."""
    tracer = tracer_of()
    groups(tracer)
    assert len(chain(trace.query(tracer).main()).get()) == found


def test_an_unknown_timeline_is_named() -> None:
    """C4: with those there are; also when none was chosen."""
    query = trace.query(tracer_of())
    with pytest.raises(ValueError, match="timeline 'tpu9' not found; there are: thread-MainThread"):
        query().timeline("tpu9").get()
    with pytest.raises(ValueError, match="not found"):
        query().get()


def test_a_query_is_copied_by_calling_it() -> None:
    """C4: what a copy selects does not change the original; the last timeline counts."""
    tracer = tracer_of(devices=["tpu0"])
    groups(tracer)
    query = trace.query(tracer).timeline("tpu0").main()
    assert len(query().all_groups("a").get()) == 2 and query.get()[0].name == "root"
    assert query.get_main_thread_id() == "thread-MainThread"
    assert query.get_timeline_ids() == ["thread-MainThread", "tpu0"]


def test_an_open_group_can_be_asked_for() -> None:
    """It has not ended."""
    tracer = tracer_of()
    with tracer.span_group("epoch"):
        with tracer.span("x"):
            pass
        (group,) = trace.query(tracer).main().last_group("epoch").get()
        assert group.end == inf and not group.ended and [one.name for one in group.inner] == ["x"]
    (group,) = trace.query(tracer).main().last_group("epoch").get()
    assert group.ended and group.duration > 0


@pytest.mark.parametrize("devices", [["tpu0"], "tpu0", np.array([device(0)]), (device(0),), device(0)])
def test_a_device_may_be_met_inside_a_group(devices: Any) -> None:
    """C8: whatever it is given as; its timeline is `tpu0` and has the group."""
    tracer = tracer_of()
    with tracer.span_group("a"), tracer.span("x", devices=devices):
        pass
    assert trace.query(tracer).get_timeline_ids() == ["thread-MainThread", "tpu0"]
    (group,) = trace.query(tracer).timeline("tpu0").last_group("a").get()
    assert [one.name for one in group.inner] == ["x"] and list(tracer.all_devices) == ["tpu0"]


def test_several_devices_each_have_the_span() -> None:
    """C8: an array of them too."""
    tracer = tracer_of(devices=np.array([[device(0), device(1)]]))
    with tracer.span("x", devices=np.array([device(0), device(1)])):
        pass
    for name in ("tpu0", "tpu1"):
        assert [one.name for one in root_of(tracer, name).inner] == ["x"]


def test_what_is_no_device_is_an_error_at_the_door_only() -> None:
    """Inside the loop it is a timeline by whatever name it has."""
    with pytest.raises(BadSetting, match="is not a device: pass a name such as 'tpu0'"):
        tracer_of(devices=[3.5])
    tracer = tracer_of()
    with tracer.span("x", devices=[3.5]):
        pass
    assert "3.5" in trace.query(tracer).get_timeline_ids()


def test_host_spans_may_nest() -> None:
    """What lies in others makes them groups, which are found as the spans they were opened as."""
    tracer = tracer_of()
    with tracer.span("outer", devices=["tpu0"]), tracer.span("inner", devices=["tpu0"]):
        pass
    (group,) = trace.query(tracer).main().all_groups("outer").get()
    assert [one.name for one in group.inner] == ["inner"]
    assert [one.begin for one in root_of(tracer).find_all_inner_spans("outer")] == [group.begin]
    assert sorted(one.name for one in root_of(tracer, "tpu0").inner) == ["inner", "outer"]


def test_a_span_that_others_lie_in_is_counted() -> None:
    """A rollout with spans inside it is a rollout."""
    tracer = tracer_of(export_fn=PerfMetricsExport.from_role_to_devices({"rollout": ["a"], "actor": ["b"]}))
    with tracer.span_group("global_step"), tracer.span("rollout", devices=["a"]), tracer.span("tokenize"):
        pass
    assert "perf/sum/rollout_time" in tracer.export()


def test_threads_have_timelines_of_their_own() -> None:
    """A worker's spans lie in the main thread's groups, and its groups are on no other timeline."""
    tracer = tracer_of()

    def work() -> None:
        with tracer.span_group("own"), tracer.span("x"):
            pass

    with tracer.span_group("step"):
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
    (step,) = trace.query(tracer).timeline("thread-worker").last_group("step").get()
    (own,) = step.find_all_inner_groups("own")
    assert [one.name for one in own.inner] == ["x"] and root_of(tracer).find_all_inner_groups("own") == []
    assert step.find_first_inner_group("own") is own is step.find_last_inner_group("own")
    assert step.outer.name == "root" and step.outer.outer is step.outer


def test_a_span_that_raises_is_closed_and_marked() -> None:
    """And the exception goes on."""
    tracer = tracer_of()
    with pytest.raises(KeyError), tracer.span("x"):
        raise KeyError("no")
    (span,) = root_of(tracer).find_all_inner_spans("x")
    assert span.ended and span.error == "KeyError"


def test_both_tracers_have_the_same_names() -> None:
    """So that a program does not ask which one it has."""

    def names(one: Any) -> set[str]:
        return {name for name in dir(one) if not name.startswith("_")}

    assert names(trace.NoopTracer()) == names(tracer_of())
    nothing = trace.NoopTracer()
    with nothing.span_group("a"), nothing.span("x", devices=["tpu0"]) as span:
        span.device_end([1])
    nothing.synchronize()
    nothing.print()
    assert nothing.export() == {} and list(nothing.all_devices) == []


def test_what_was_recorded_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old steps are let go; the newest can be asked for."""
    seen = []
    tracer = tracer_of(export_fn=lambda query: seen.append(len(query().main().all_groups("step").get())) or {})
    for _ in range(trace.STEPS * 3):
        with tracer.span_group("step"), tracer.span("x"):
            pass
        tracer.export()
    assert seen[:3] == [1, 2, 3] and seen[-1] == trace.STEPS + 1 and len(tracer._groups) <= trace.STEPS


def test_an_export_function_that_raises_harms_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once."""

    def fails(query: PerfSpanQuery) -> Any:
        raise RuntimeError("no wind")

    tracer = tracer_of(export_fn=fails)
    assert tracer.export() == {} == tracer.export()
    assert capfd.readouterr().err.count("no wind") == 1
    assert tracer_of().export() == {}


def test_finders_look_at_direct_children_only() -> None:
    """By their exact names."""
    root = SpanGroup("root")
    group = SpanGroup("a", root, 1.0, 4.0)
    group.inner += [Span("x", 1.0, 2.0), Span("x", 2.0, 3.0), Span("y", 3.0)]
    assert [span.begin for span in group.find_all_inner_spans("x")] == [1.0, 2.0]
    assert group.find_last_inner_span("x") is group.inner[1] and group.find_last_inner_span("z") is None
    assert root.find_all_inner_spans("x") == [] and root.find_first_inner_group("b") is None
    assert repr(group.inner[2]) == "y: 3.000000, inf" and not group.inner[2].ended


# -- the metrics of topologies -----------------------------------------------------------------------------------------

REFERENCE = RoleTimes(
    step=(0.0, 1.3),
    weight_sync=(1.1, 1.2),
    rollouts=[(0.3, 0.41)],
    refers=[(0.5, 0.61)],
    actors=[(0.5, 0.81)],
    train_steps=[(0.70, 0.75), (0.76, 0.81)],
)
SHARED = {
    "perf/global_step_time": 1.3,
    "perf/weight_sync_time": 0.1,
    "perf/sum/rollout_time": 0.11,
    "perf/mean/rollout_time": 0.11,
    "perf/sum/refer_inference_time": 0.11,
    "perf/mean/refer_inference_time": 0.11,
    "perf/sum/actor_train_time": 0.31,
    "perf/mean/actor_train_time": 0.31,
    "perf/sum/actor_train_step_time": 0.1,
    "perf/mean/actor_train_step_time": 0.05,
}
APART = {"perf/rollout_idle_time": 0.69, "perf/first_micro_batch_rollout_time": 0.41}
BETWEEN = {"perf/sum/between_micro_batch_gap_time": 0.0, "perf/mean/between_micro_batch_gap_time": 0.0}
REFER_GAPS = {"perf/sum/refer_gap_time": 0.0, "perf/mean/refer_gap_time": 0.0}
ACTOR_GAPS = {"perf/sum/actor_gap_time": 0.0, "perf/mean/actor_gap_time": 0.0}
TOPOLOGIES = [
    pytest.param("0", "0", "0", SHARED, id="colocated"),
    pytest.param("0", "1", "1", SHARED | APART | BETWEEN, id="rollout apart"),
    pytest.param("0", "1", "2", SHARED | APART | REFER_GAPS | ACTOR_GAPS, id="disaggregated"),
    pytest.param("0", "0", "1", SHARED | REFER_GAPS, id="reference apart"),
    pytest.param("0", "1", "0", SHARED | APART | {"perf/rollout_idle_time": 0.49} | ACTOR_GAPS, id="actor apart"),
]


@pytest.mark.parametrize(("rollout", "actor", "refer", "expected"), TOPOLOGIES)
def test_each_topology_has_its_metrics(
    rollout: str, actor: str, refer: str, expected: dict[str, float], clock: Any, later: Later
) -> None:
    """C6 and C7: 10, 14 and 16 metrics from spans on real timelines, and two topologies more."""
    fn = PerfMetricsExport.from_role_to_devices({"rollout": [rollout], "actor": [actor], "refer": [refer]})
    tracer = tracer_of(later, [rollout, actor, refer], fn)
    clock(
        *(
            9 + t
            for t in (0.0, 0.1, 0.2, 0.3, 0.35, 0.5, 0.5, 0.55, 0.70, 0.75, 0.76, 0.81, 0.81, 0.9, 1.0, 1.1, 1.2, 1.3)
        )
    )
    with tracer.span_group("global_step"):
        with tracer.span_group("mini_batch_step"), tracer.span_group("micro_batch_steps"):
            with tracer.span("rollout", devices=[rollout]) as span:
                span.device_end("rollout")
            with tracer.span_group("actor_training"):
                with tracer.span("refer_inference", devices=[refer]) as span:
                    span.device_end("refer")
                for _ in range(2):
                    with tracer.span("peft_train_step"):
                        pass
        with tracer.span("weight_sync"):
            pass
    later.done("rollout", 9.41)
    later.done("refer_inference", 9.61)
    found = {name: value for name, (value, reducer) in tracer.export().items() if reducer is None}
    assert found == {name: pytest.approx(value) for name, value in expected.items()}
    assert len(found) == {"colocated": 10, topology.ROLLOUT_APART: 14, topology.DISAGGREGATED: 16}.get(
        topology.topology(rollout, actor, refer), len(expected)
    )


@pytest.mark.parametrize(("rollout", "actor", "refer", "expected"), TOPOLOGIES)
def test_the_formulas_alone(rollout: str, actor: str, refer: str, expected: dict[str, float]) -> None:
    """C6: from the times of the roles, without any spans."""
    found = topology.metrics(REFERENCE, topology.topology(rollout, actor, refer))
    assert found == {name: pytest.approx(value) for name, value in expected.items()}


def test_a_gap_is_from_an_end_to_the_next_begin() -> None:
    """C9: 3 seconds between (1, 2) and (5, 6); the original's formula gives 5, for those who want it."""
    times = REFERENCE._replace(refers=[(1, 2), (5, 6)])
    found = topology.metrics(times, topology.DISAGGREGATED)
    assert (found["perf/sum/refer_gap_time"], found["perf/mean/refer_gap_time"]) == (3, 1.5)
    legacy = topology.metrics(times, topology.DISAGGREGATED, legacy_gaps=True)
    assert legacy["perf/sum/refer_gap_time"] == 5


def test_gaps_between_micro_batches_are_from_training_to_inference() -> None:
    """Over the micro-batches, with none before the first."""
    times = REFERENCE._replace(refers=[(0.5, 0.6), (1.0, 1.1)], actors=[(0.5, 0.8), (1.0, 1.2)])
    found = topology.metrics(times, topology.ROLLOUT_APART)
    assert found["perf/sum/between_micro_batch_gap_time"] == pytest.approx(0.2)
    assert found["perf/mean/between_micro_batch_gap_time"] == pytest.approx(0.1)


def test_a_role_that_did_nothing_has_no_metrics() -> None:
    """No mean of nothing, no exception."""
    nothing = RoleTimes((0.0, 1.0), None, [], [], [], [])
    for kind in (topology.COLOCATED, topology.ROLLOUT_APART, topology.DISAGGREGATED, topology.ACTOR_APART):
        assert topology.metrics(nothing, kind) == {"perf/global_step_time": 1.0, "perf/weight_sync_time": 0.0}


def test_without_a_global_step_there_are_no_metrics(capfd: pytest.CaptureFixture[str]) -> None:
    """And that is said."""
    tracer = tracer_of(export_fn=PerfMetricsExport.from_role_to_devices({}))
    with tracer.span("rollout"):
        pass
    assert tracer.export() == {} and "no group 'global_step'" in capfd.readouterr().err


def test_roles_without_devices_are_looked_for_on_the_main_thread() -> None:
    """For a cluster without meshes."""
    tracer = tracer_of(export_fn=PerfMetricsExport.from_role_to_devices({}))
    with tracer.span_group("global_step"), tracer.span("rollout"):
        pass
    assert {"perf/sum/rollout_time", "perf/global_step_time"} <= set(tracer.export())


def test_micro_batches_can_be_told_apart() -> None:
    """Each with a metric of its own, where it is asked for."""
    fn = PerfMetricsExport.from_role_to_devices({}, None, True, True)
    tracer = tracer_of(export_fn=fn)
    with tracer.span_group("global_step"):
        for _ in range(2):
            with tracer.span_group("micro_batch_steps"):
                with tracer.span("rollout"):
                    pass
                with tracer.span_group("actor_training"):
                    pass
    found = tracer.export()
    assert {"perf/rollout_time/0", "perf/rollout_time/1", "perf/actor_train_time/1"} <= set(found)


def test_the_old_name_of_the_maker_is_there() -> None:
    """For programs that use it."""
    assert PerfMetricsExport.create_metrics_export_fn is PerfMetricsExport.from_cluster_config


def test_roles_may_be_words_or_members_of_an_enum() -> None:
    """And meshes anything with devices."""
    mesh = SimpleNamespace(axis_names=("x",), devices=np.array([device(0), device(1)]))
    config = SimpleNamespace(role_to_mesh={Role.ACTOR: mesh, "rollout": ["tpu2"]})
    assert export.role_devices(config) == {"actor": ("tpu0", "tpu1"), "rollout": ("tpu2",)}
    assert export.role_devices(SimpleNamespace()) == {}
