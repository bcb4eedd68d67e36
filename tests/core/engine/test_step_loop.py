"""The doors to the steps of a loop."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from tests.support.device_values import Faraway

MODEL = {"n_layers": 4, "dim": 256, "n_heads": 4, "vocab_size": 1000, "ffn_hidden_dim": 768, "max_seq_len": 128}


def begin(**more: Any) -> chiplog.Run:
    return chiplog.init("steps", sinks="none", **more)


def series(run: chiplog.Run, name: str) -> tuple[list[float], list[float]]:
    found = chiplog.read(run.dir).series(name)
    return found.steps.tolist(), found.values.tolist()


def test_a_loader_says_how_long_it_will_take() -> None:
    """Its length is the number of steps, and what the loop waits for it is a share of the time."""
    with begin() as run:
        for _ in run.steps(["a", "b", "c"], tokens=100, samples=4, start=7):
            pass
    assert series(run, "train/samples_per_sec")[0] == [7, 8, 9]
    steps, left = series(run, "train/eta_sec")
    assert steps == [7, 8, 9] and left[2] == 0 < left[0]
    assert all(0 <= share <= 1 for share in series(run, "train/data_wait")[1])


def test_a_step_may_begin_and_end_in_different_places() -> None:
    """With what is known at its end; what is logged in between joins it."""
    with begin() as run:
        assert run.start_step() == 0
        run.log({"a": 1})
        row = run.end_step({"train/loss": 2.0}, tokens=10)
        assert row is not None and row["train/loss"] == 2.0 and row["train/tokens_per_sec"] > 0
        run.start_step()
        run.end_step({"train/loss": 1.0}, step=5)
    assert series(run, "a") == ([0], [1])
    assert series(run, "train/loss") == ([0, 5], [2.0, 1.0])


def test_an_end_without_a_start_has_no_time(capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once, and the rest is kept."""
    with begin() as run:
        for step in (3, 4):
            assert run.end_step({"train/loss": 2.0}, step=step, tokens=10) == {
                "train/loss": 2.0, "train/tokens": 10, "train/perplexity": pytest.approx(7.389, rel=1e-3),
            }  # fmt: skip
    assert series(run, "train/loss")[0] == [3, 4]
    assert capfd.readouterr().err.count("end_step() without start_step()") == 1


def test_mfu_is_in_the_row_where_the_peak_is_known() -> None:
    """By the model's config and the device's name."""
    with begin() as run:
        run.meter(model=MODEL, device="NVIDIA H100 80GB HBM3")
        for _ in run.steps(range(2), tokens=1000):
            pass
    per_sec = series(run, "train/tokens_per_sec")[1]
    flops = chiplog_flops()
    assert series(run, "train/mfu")[1] == pytest.approx([flops * one / 989.4e12 for one in per_sec])


def chiplog_flops() -> int:
    from chiplog.metrics.flops import count

    return count(MODEL).model


def test_there_is_no_mfu_where_the_peak_is_not_known(capfd: pytest.CaptureFixture[str]) -> None:
    """Which is said, with what to do."""
    with begin() as run:
        run.meter(model=MODEL, device="NVIDIA X900")
        for _ in run.steps(range(2), tokens=1000):
            pass
    assert "no MFU: the peak of NVIDIA X900 in bf16 is unknown" in capfd.readouterr().err
    assert "train/mfu" not in chiplog.read(run.dir).names()


def test_there_is_no_mfu_while_the_gpu_is_not_in_use(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It cannot say its name before; that does not make it a CPU."""
    cuda = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    with begin() as run:
        run.meter(model=MODEL)
    assert "no MFU: the GPU is not in use yet; call run.meter(...) after" in capfd.readouterr().err


def test_steps_that_the_meter_was_told_of_are_the_plan(capfd: pytest.CaptureFixture[str]) -> None:
    """Every line has the share and the time left, and a loader of one epoch does not go over it."""
    with chiplog.init("steps", sinks="console") as run:
        run.meter(total_steps=40)
        for epoch in range(2):
            for step in run.steps(range(10), start=10 * epoch):
                run.log({"train/loss": 2.0 - step / 100})
    last = capfd.readouterr().out.splitlines()[-2]
    assert last.startswith(":: step      19 [ 50.0%]") and " | eta 00m" in last
    plans = [one.data for one in chiplog.read(run.dir).records("event") if one.name == "plan"]
    assert plans == [{"steps": 40}]


def test_tokens_that_the_meter_was_told_of_are_a_time_left(capfd: pytest.CaptureFixture[str]) -> None:
    """Also between rows, whose tokens the console does not see."""
    with chiplog.init("steps", sinks="console") as run:
        run.meter(total_tokens=10**15, log_every=2)
        for _ in range(3):
            run.start_step()
            run.end_step({"train/loss": 2.0}, tokens=1000)
    lines = capfd.readouterr().out.splitlines()
    assert len(lines) == 3 and all(" | eta " in line for line in lines[:2])


def test_unlogged_steps_are_in_the_next_row_or_the_last() -> None:
    """`log_every=4` over 10 steps: rows at 0, 4, 8, and the rest when the run ends."""
    with begin() as run:
        run.meter(log_every=4)
        written = []
        for step in range(10):
            run.start_step(step)
            written.append(run.end_step({"train/loss": float(step)}) is not None)
    assert [step for step, is_row in enumerate(written) if is_row] == [0, 4, 8]
    assert series(run, "train/loss") == ([0, 4, 8, 9], [0, 4, 8, 9])
    assert series(run, "train/loss/mean") == ([4, 8], [2.5, 6.5])


def test_values_on_a_device_are_not_waited_for() -> None:
    """They go their own way with every step, whatever the interval."""
    with begin() as run:
        run.meter(log_every=100)
        for step in range(5):
            run.start_step(step)
            run.end_step({"train/loss": Faraway(float(step)), "x": 1})
    assert series(run, "train/loss") == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])
    assert series(run, "x") == ([0, 4], [1, 1])


def test_values_on_the_host_are_in_the_rows_of_the_interval() -> None:
    """Tensors on a CPU, numbers of numpy and nested ones are there at once, and wait for their row like plain ones."""
    import numpy
    import torch

    with begin() as run:
        run.meter(log_every=5)
        for step in range(12):
            run.start_step(step)
            run.end_step({"train/loss": torch.tensor(float(step)), "a": {"b": numpy.float32(step)}})
    for name in ("train/loss", "a/b"):
        assert series(run, name) == ([0, 5, 10, 11], [0, 5, 10, 11])
        assert series(run, f"{name}/mean")[1] == [3, 8]


def test_another_meter_goes_on_where_the_first_was() -> None:
    """What has been counted stays, and can be kept in a checkpoint."""
    with begin() as run:
        with run.step(tokens=100):
            pass
        meter = run.meter(tokens_per_epoch=200)
        with run.step(tokens=100):
            pass
        assert meter.state() == {"steps": 2, "tokens": 200, "samples": 0}
    assert series(run, "train/epoch") == ([1], [1.0])


@pytest.mark.parametrize("options", [{"dtype": "int3"}, {"log_every": 0}, {"speed": 3}, {"model": {"n_layer": 1}}])
def test_a_mistake_in_the_meter_fails_at_the_door(options: dict[str, Any]) -> None:
    """With what is wrong."""
    run = begin()
    with pytest.raises(BadSetting, match=r"run\.meter"):
        run.meter(**options)


def test_a_run_that_keeps_nothing_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doors are open all the same."""
    monkeypatch.setenv("CHIPLOG_MODE", "disabled")
    run = begin()
    run.meter(model=MODEL)
    assert list(run.steps([1, 2], tokens=5)) == [1, 2]
    run.start_step()
    assert run.end_step({"a": 1}) is None
    with run.step():
        pass


def test_memory_is_in_the_rows_when_asked(tmp_path: Path) -> None:
    """On a CPU there is none."""
    with begin() as run:
        run.meter(memory=True)
        with run.step():
            pass
    assert not [name for name in chiplog.read(run.dir).names() if name.startswith("memory/")]
