"""Device memory, operations, and setting up."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from chiplog.frontends import ezpz
from chiplog.frontends.ezpz.flops import compute_mfu, estimate_model_flops, get_peak_flops, try_estimate

GIB = 1 << 30


class Cuda(SimpleNamespace):
    """A device that says what we tell it to."""

    def __init__(self) -> None:
        self.resets = 0
        super().__init__(
            is_available=lambda: True,
            memory_allocated=lambda _: 1 * GIB,
            max_memory_allocated=lambda _: 2 * GIB,
            memory_reserved=lambda _: 3 * GIB,
            max_memory_reserved=lambda _: 4 * GIB,
            reset_peak_memory_stats=self._reset,
            current_device=lambda: 0,
            get_device_properties=lambda _: SimpleNamespace(total_memory=16 * GIB),
        )

    def _reset(self, _: Any) -> None:
        self.resets += 1


def test_memory_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four numbers in GiB, in this order; the peaks begin anew once."""
    cuda = Cuda()
    monkeypatch.setattr(torch, "cuda", cuda)
    assert list(ezpz.get_memory_metrics("cuda", prefix="train/").items()) == [
        ("train/mem_alloc", 1.0),
        ("train/mem_peak_alloc", 2.0),
        ("train/mem_reserved", 3.0),
        ("train/mem_peak_reserved", 4.0),
    ]
    assert cuda.resets == 1
    ezpz.get_memory_metrics(torch.device("cuda", 0), reset_peak=False)
    assert cuda.resets == 1


def test_memory_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the share of the device that was needed at most."""
    monkeypatch.setattr(torch, "cuda", Cuda())
    metrics = {"loss": 0.5} | ezpz.get_memory_metrics("cuda", prefix="train/")
    assert ezpz.History().update(metrics, precision=1) == "loss=0.5 memory=1.00/3.00GiB (25%)"


@pytest.mark.parametrize("device", ["cpu", "mps", torch.device("cpu"), None])
def test_no_memory_without_a_device(device: Any) -> None:
    assert ezpz.get_memory_metrics(device) == {}


def test_memory_may_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is asked for, not when we are imported."""
    monkeypatch.setattr(torch, "cuda", Cuda())
    monkeypatch.setenv("EZPZ_TRACK_MEMORY", "0")
    assert ezpz.get_memory_metrics("cuda") == {}
    monkeypatch.setenv("EZPZ_TRACK_MEMORY", "1")
    assert len(ezpz.get_memory_metrics("cuda")) == 4


def test_one_process_on_a_cpu_is_set_up() -> None:
    assert ezpz.setup_torch() == 0 and ezpz.get_world_size() == 1 and not torch.distributed.is_initialized()


MLFLOW = """
import mlflow, os
from chiplog.frontends import ezpz

os.environ.update(RANK="1", WORLD_SIZE="2")
assert ezpz.setup_mlflow("p") is None
os.environ["RANK"] = "0"
run = ezpz.setup_mlflow("p", config={"a": {"b": 1}})
mlflow.end_run()
assert mlflow.get_run(run.info.run_id).data.params == {"config.a.b": "1"}
"""


def test_mlflow_begins_a_run(tmp_path: Path) -> None:
    """On rank 0 only; in a real local store."""
    environ = {
        **os.environ,
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    subprocess.run([sys.executable, "-c", MLFLOW], env=environ, cwd=tmp_path, check=True, timeout=110)


# -- operations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flops", "seconds", "device", "expected"),
    [(1e14, 0.5, "A100", 64.1025641), (1e14, 0.0, "A100", 0.0), (0.0, 1.0, "A100", 0.0), (1e14, 0.5, "cpu", 0.0)],
)
def test_mfu(flops: float, seconds: float, device: str, expected: float) -> None:
    assert compute_mfu(flops, seconds, device_name=device) == pytest.approx(expected)


def test_mfu_of_a_peak_that_is_given() -> None:
    assert compute_mfu(1e12, 1.0, peak_flops=2e12) == 50.0


def test_an_unknown_device_has_no_peak() -> None:
    """It is said once, and never guessed."""
    with pytest.warns(UserWarning, match="'Abacus 9'"):
        assert get_peak_flops("Abacus 9") is None
    assert get_peak_flops("Abacus 9") is None


def test_a_linear_layer_is_counted() -> None:
    model = torch.nn.Linear(128, 64)
    assert estimate_model_flops(model, (1, 128), backward=False) == 16384
    assert estimate_model_flops(model, (1, 128)) == 32768


class Refuses(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 8)

    def forward(self, _: Any) -> Any:
        raise RuntimeError("no")


def test_a_model_that_cannot_be_run_is_estimated_from_its_weights() -> None:
    """6 operations a weight and token."""
    assert try_estimate(Refuses(), (2, 16)) == 6 * 136 * 2 * 16 == 26112


def test_what_cannot_be_known_is_zero(caplog: pytest.LogCaptureFixture) -> None:
    assert try_estimate(object(), (2, 16)) == 0 and "are not known" in caplog.text


def test_counting_leaves_everything_as_it_was() -> None:
    """Gradients, running statistics and random numbers."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))
    model(torch.ones(2, 4)).sum().backward()
    before = (
        [weight.grad.clone() for weight in model.parameters()],
        model[1].running_mean.clone(),
        torch.get_rng_state(),
    )
    assert try_estimate(model, (2, 4)) > 0
    assert all(torch.equal(a, b.grad) for a, b in zip(before[0], model.parameters(), strict=True))
    assert torch.equal(before[1], model[1].running_mean) and torch.equal(before[2], torch.get_rng_state())
