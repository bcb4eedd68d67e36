"""The names and units that services get."""

from __future__ import annotations

from chiplog.core.records import Alert, Eval, Event, Step
from chiplog.sinks.shared.service_metrics import service_points, texts, with_step


def test_metrics_keep_their_names_and_evals_their_group() -> None:
    """A step's series and an eval's go out as they are called."""
    assert service_points(Step(0, 0, 3, {"train/loss": 2.5, "flag": True})) == {"train/loss": 2.5, "flag": True}
    assert service_points(Eval(0, 0, 3, {"loss": 2.5})) == {"eval/loss": 2.5}
    assert service_points(Alert(0, 0, title="x")) == {}


def test_a_gpu_has_its_id_in_the_name_and_memory_in_mib() -> None:
    """So several of them never overwrite each other."""
    data = {"id": 1, "power": 350_000, "dram_free": 8 << 30, "pcie_rx": 1 << 30, "fan": 0, "throttle": "none"}
    assert service_points(Event(0, 0, name="gpu", data=data)) == {
        "gpu/1/power": 350_000,
        "gpu/1/dram_free": 8192.0,
        "gpu/1/pcie_rx": 1024.0,
    }
    assert service_points(Event(0, 0, name="gpu", data={"id": 0, "fan": 30})) == {"gpu/0/fan": 30}


def test_a_reason_to_throttle_is_a_text() -> None:
    """Where there is one."""
    throttled = Event(0, 0, name="gpu", data={"id": 1, "throttle": "power cap"})
    free = Event(0, 0, name="gpu", data={"id": 1, "throttle": ""})
    assert texts(throttled) == {"gpu/1/throttle": "power cap"}
    assert texts(free) == texts(Event(0, 0, name="note", data={"throttle": "x"})) == texts(Alert(0, 0, title="x")) == {}


def test_tokens_of_steps_and_evals_go_out() -> None:
    """Beside the rate that is made of them."""
    assert service_points(Step(0, 0, 3, {"train/step_tokens": 5})) == {"train/step_tokens": 5}
    assert service_points(Eval(0, 0, 3, {"eval_tokens": 5})) == {"eval/eval_tokens": 5}


def test_router_health_has_its_short_and_its_full_names() -> None:
    """The four that are charted most stand beside the losses; all of them under `moe_`."""
    data = {"aux_loss": 0.02, "z_loss": 0.1, "expert_utilization": 0.9, "load_imbalance": 1.4, "load_cv": 0.3}
    row = service_points(Event(0, 0, name="moe", data=data))
    assert row == {f"train/moe_{name}": value for name, value in data.items()} | {
        f"train/{name}": value for name, value in data.items() if name != "load_cv"
    }


def test_an_allocators_report_is_mib_by_segment() -> None:
    """Only what is on the device, and whatever else is in the report does no harm."""
    stats = [{"name": "weights", "device": 4 << 30, "managed": 0}, {"name": "odd"}, 3, {"device": 5}]
    assert service_points(Event(0, 0, name="allocator", data={"stats": stats})) == {"allocator/weights_mib": 4096.0}
    assert service_points(Event(0, 0, name="allocator", data={"stats": 3})) == {}


def test_a_metric_called_step_is_kept_beside_the_step() -> None:
    """Under a name of its own if it differs; once if it is the step."""
    assert with_step({"loss": 1.0, "step": 70}, 7) == {"loss": 1.0, "step/value": 70, "step": 7}
    assert with_step({"step": 7.0, "loss": 1.0}, 7) == {"loss": 1.0, "step": 7}
    assert with_step({"step": 1, "step/value": 2}, 7) == {"step/value/value": 1, "step/value": 2, "step": 7}
