"""The first version of performance tracing; the numbers C1 to C9 are those of the acceptance list."""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chiplog.core.errors import BadSetting
from chiplog.frontends.tunix.perf import export, trace
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.metrics import PerfSpanQuery
from chiplog.frontends.tunix.perf.span import Span, SpanGroup
from chiplog.frontends.tunix.perf.trace import Forest
from chiplog.frontends.tunix.rl.rl_cluster import Role
from chiplog.runtime.devices import watcher as watch
from chiplog.store.spans import span as stored
from tests.frontends.tunix.devices import Later, device, tracer_of

MAIN = "thread-MainThread"
STEP = stored.StoredSpan(1, 0, "step", "MainThread", 0, 10)
SPANS = [
    STEP,
    stored.StoredSpan(2, 1, "rollout", "MainThread", 1, 3),
    stored.StoredSpan(3, 2, "rollout", "tpu0", 1, 5, kind="device"),
    stored.StoredSpan(4, 2, "rollout", "tpu0", 4, 6, kind="device"),
    stored.StoredSpan(5, 0, "load", "worker", 2, 2),
]


def root_of(tracer: trace.PerfTracer, timeline: str | None = None) -> SpanGroup:
    query = trace.query(tracer)
    (root,) = (query.main() if timeline is None else query.timeline(timeline)).get()
    return root


def times_of(group: SpanGroup) -> list[tuple[str, float, float]]:
    return [(one.name, one.begin, one.end) for one in group.inner]


# -- spans and groups --------------------------------------------------------------------------------------------------


def test_a_span_lies_under_the_root(clock: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """C1: from 2 to 3, and the root never ends."""
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
    with pytest.raises(ValueError, match="timeline 'tpu9' not found; available: thread-MainThread"):
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


def test_the_old_name_of_the_maker_is_there() -> None:
    """For programs that use it."""
    assert PerfMetricsExport.create_metrics_export_fn is PerfMetricsExport.from_cluster_config


def test_roles_may_be_words_or_members_of_an_enum() -> None:
    """And meshes anything with devices."""
    mesh = SimpleNamespace(axis_names=("x",), devices=np.array([device(0), device(1)]))
    config = SimpleNamespace(role_to_mesh={Role.ACTOR: mesh, "rollout": ["tpu2"]})
    assert export.role_devices(config) == {"actor": ("tpu0", "tpu1"), "rollout": ("tpu2",)}
    assert export.role_devices(SimpleNamespace()) == {}


def forest(*spans: stored.StoredSpan, groups: set[int]) -> Forest:
    return Forest(spans, groups, MAIN, 0.0, float)


def contents(group: SpanGroup) -> list[tuple[str, float, float]]:
    return [(one.name, one.begin, one.end) for one in group.inner]


def test_every_timeline_has_an_id() -> None:
    """The main thread comes first, threads have a prefix, devices do not."""
    assert forest(*SPANS, groups={1}).timelines() == [MAIN, "tpu0", "thread-worker"]
    assert forest(groups=set()).timelines() == [MAIN]


@pytest.mark.parametrize(
    ("timeline", "inside"),
    [
        (MAIN, [("rollout", 1, 4)]),
        ("tpu0", [("rollout", 1, 6), ("rollout", 6, 10)]),
        ("thread-worker", [("load", 2, 4)]),
    ],
    ids=["main", "device", "worker"],
)
def test_the_groups_of_the_main_thread_are_on_all_timelines(
    timeline: str, inside: list[tuple[str, float, float]]
) -> None:
    """Each with the spans of that timeline; those of a device follow one another."""
    (step,) = forest(*SPANS, groups={1}).tree(timeline).find_all_inner_groups("step")
    assert contents(step) == inside


def test_a_group_that_is_open_lasts_forever() -> None:
    """Its duration is negative in the record, and its end infinite in the tree."""
    root = forest(stored.StoredSpan(1, 0, "step", "MainThread", 3, -1), groups={1}).tree(MAIN)
    assert contents(root) == [("step", 3, inf)] and root.end == inf
