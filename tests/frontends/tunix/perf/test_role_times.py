"""The metrics of a step by topology; the numbers C6 to C9 are those of the acceptance list."""

from __future__ import annotations

from typing import Any

import pytest

from chiplog.frontends.tunix.perf import role_times
from chiplog.frontends.tunix.perf.export import PerfMetricsExport
from chiplog.frontends.tunix.perf.role_times import RoleTimes
from tests.frontends.tunix.devices import Later, tracer_of

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
    assert len(found) == {"colocated": 10, role_times.ROLLOUT_APART: 14, role_times.DISAGGREGATED: 16}.get(
        role_times.topology(rollout, actor, refer), len(expected)
    )


@pytest.mark.parametrize(("rollout", "actor", "refer", "expected"), TOPOLOGIES)
def test_the_formulas_alone(rollout: str, actor: str, refer: str, expected: dict[str, float]) -> None:
    """C6: from the times of the roles, without any spans."""
    found = role_times.metrics(REFERENCE, role_times.topology(rollout, actor, refer))
    assert found == {name: pytest.approx(value) for name, value in expected.items()}


def test_a_gap_is_from_an_end_to_the_next_begin() -> None:
    """C9: 3 seconds between (1, 2) and (5, 6); the original's formula gives 5, for those who want it."""
    times = REFERENCE._replace(refers=[(1, 2), (5, 6)])
    found = role_times.metrics(times, role_times.DISAGGREGATED)
    assert (found["perf/sum/refer_gap_time"], found["perf/mean/refer_gap_time"]) == (3, 1.5)
    legacy = role_times.metrics(times, role_times.DISAGGREGATED, legacy_gaps=True)
    assert legacy["perf/sum/refer_gap_time"] == 5


def test_gaps_between_micro_batches_are_from_training_to_inference() -> None:
    """Over the micro-batches, with none before the first."""
    times = REFERENCE._replace(refers=[(0.5, 0.6), (1.0, 1.1)], actors=[(0.5, 0.8), (1.0, 1.2)])
    found = role_times.metrics(times, role_times.ROLLOUT_APART)
    assert found["perf/sum/between_micro_batch_gap_time"] == pytest.approx(0.2)
    assert found["perf/mean/between_micro_batch_gap_time"] == pytest.approx(0.1)


def test_a_role_that_did_nothing_has_no_metrics() -> None:
    """No mean of nothing, no exception."""
    nothing = RoleTimes((0.0, 1.0), None, [], [], [], [])
    for kind in (role_times.COLOCATED, role_times.ROLLOUT_APART, role_times.DISAGGREGATED, role_times.ACTOR_APART):
        assert role_times.metrics(nothing, kind) == {"perf/global_step_time": 1.0, "perf/weight_sync_time": 0.0}


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
