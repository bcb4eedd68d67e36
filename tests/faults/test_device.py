"""Values that are still being computed on a device when they are logged."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import chiplog
from tests.support.waiting import wait_for

from . import reference

SIZE = 500


@jax.jit
def heavy(x: Any) -> Any:
    """Takes a good part of a second on any CPU."""
    return jax.lax.fori_loop(0, 150, lambda _, y: jnp.tanh(y @ y), x).sum()


def rows(run: Path, step: int) -> list[dict[str, Any]]:
    return [row["metrics"] for row in reference.records(run, "step") if row["step"] == step]


def test_log_does_not_wait_for_a_jax_array(tmp_path: Path) -> None:
    """A jitted result that is not ready: log() returns at once with the rest, and it follows as a second record."""
    matrix = jnp.ones((SIZE, SIZE)) / SIZE
    heavy(matrix).block_until_ready()  # compiles
    began = time.monotonic()
    expected = float(heavy(matrix))
    alone = time.monotonic() - began

    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    result = heavy(matrix)
    assert not result.is_ready()
    before = time.monotonic()
    row = run.log({"host": 1.0, "device": result}, step=7)
    took = time.monotonic() - before
    assert took < alone / 2, "waiting would have taken all of it"
    assert row == {"host": 1.0}
    assert rows(run.dir, 7) == [{"host": 1.0}]
    wait_for(lambda: len(rows(run.dir, 7)) == 2, 60)
    run.finish()
    assert rows(run.dir, 7) == [{"host": 1.0}, {"device": expected}]
    assert chiplog.read(run.dir).series("device").steps.tolist() == [7]


def test_finish_waits_for_values_under_way(tmp_path: Path) -> None:
    """What was logged before finish() and is still being computed is in the journal when it returns."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    matrix = jnp.ones((SIZE, SIZE)) / SIZE
    for step in range(3):
        run.log({"device": heavy(matrix)}, step=step)
    run.finish()
    assert len(reference.series(run.dir, "device")) == 3


def test_a_ready_jax_array_is_an_ordinary_number(tmp_path: Path) -> None:
    """A value that is there already is written with its row."""
    value = jnp.float32(0.5).block_until_ready()
    with chiplog.init(project="faults", sinks="none", dir=tmp_path) as run:
        assert run.log({"device": value, "host": 1}, step=0) == {"device": 0.5, "host": 1}


class FakeEvent:
    """What torch.cuda.Event is to us: passes when the copy before it has."""

    passed = threading.Event()

    def record(self) -> None:
        pass

    def query(self) -> bool:
        return self.passed.is_set()


class FakeDevice:
    type = "fakecuda"


class FakeTensor:
    """A scalar on a device, whose every synchronous use is an error while the device is busy."""

    dtype, shape, device = "float32", (), FakeDevice()

    def __init__(self, value: float) -> None:
        self._value = value

    def detach(self) -> FakeTensor:
        return self

    def to(self, where: str, non_blocking: bool = False) -> FakeTensor:
        assert where == "cpu"
        assert non_blocking
        return self

    def item(self) -> float:
        assert FakeEvent.passed.is_set(), "this would have waited for the device"
        return self._value

    __float__ = item


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A torch with a device of ours, busy until the event is set."""
    torch = ModuleType("torch")
    torch.fakecuda = ModuleType("torch.fakecuda")  # type: ignore[attr-defined]
    torch.fakecuda.Event = FakeEvent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    FakeEvent.passed = threading.Event()
    return FakeEvent.passed


def test_log_does_not_wait_for_a_busy_gpu(tmp_path: Path, fake_cuda: threading.Event) -> None:
    """A tensor on a busy device is copied, never read: the row goes without it, and it follows when it has come."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    assert run.log({"loss": FakeTensor(0.25), "lr": 1e-3}, step=5) == {"lr": 1e-3}
    assert rows(run.dir, 5) == [{"lr": 1e-3}]
    assert run.health()["device"] == 1
    fake_cuda.set()
    wait_for(lambda: len(rows(run.dir, 5)) == 2)
    run.finish()
    assert rows(run.dir, 5) == [{"lr": 1e-3}, {"loss": 0.25}]


def test_values_follow_in_the_order_they_were_logged(tmp_path: Path, fake_cuda: threading.Event) -> None:
    """A hundred rows wait; when the device is done they are all written, in order, under their own steps."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    for step in range(100):
        run.log({"loss": FakeTensor(step / 4)}, step=step)
    fake_cuda.set()
    run.finish()
    found = [(row["step"], row["metrics"]["loss"]) for row in reference.records(run.dir, "step")]
    assert found == [(step, step / 4) for step in range(100)]


def test_a_gpu_that_never_answers_does_not_hold_finish(tmp_path: Path, fake_cuda: threading.Event) -> None:
    """The device is stuck: finish() ends within its timeout, what the host knew is kept, and the loss is said."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    for step in range(3):
        run.log({"loss": FakeTensor(1.0), "lr": 1e-3}, step=step)
    began = time.monotonic()
    run.finish(timeout=2)
    assert time.monotonic() - began < 4
    assert not fake_cuda.is_set()
    assert reference.series(run.dir, "lr") == [1e-3] * 3
    assert reference.records(run.dir, "finish")[0]["state"] == "finished"


def test_a_gpu_that_never_answers_is_said(
    tmp_path: Path, fake_cuda: threading.Event, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing is dropped in silence: values that never came are counted at the end."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    run.log({"loss": FakeTensor(1.0), "lr": 1e-3}, step=0)
    run.finish(timeout=1.2)
    assert not fake_cuda.is_set()
    assert "device" in capfd.readouterr().err


def test_a_device_that_fails_costs_its_own_row_only(tmp_path: Path, fake_cuda: threading.Event) -> None:
    """Reading a copy raises, as after a CUDA error: the rows behind it are still written."""
    run = chiplog.init(project="faults", sinks="none", dir=tmp_path)
    bad = FakeTensor(1.0)
    bad.item = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    run.log({"bad": bad}, step=0)
    run.log({"loss": FakeTensor(2.0)}, step=1)
    fake_cuda.set()
    wait_for(lambda: reference.series(run.dir, "loss") == [2.0], 8)
    run.finish(timeout=5)
