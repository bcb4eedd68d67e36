"""The KempnerForge front end's numbers: operations, peaks, memory, and how they look in a line."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chiplog.frontends.kempnerforge import (
    DeviceMemoryMonitor,
    MetricsTracker,
    compute_mfu,
    estimate_model_flops_per_token,
    format_memory_stats,
    format_metrics,
    get_gpu_peak_tflops,
    get_logger,
    get_memory_stats,
    get_memory_utilization,
    reset_peak_memory,
)
from chiplog.frontends.kempnerforge.logger import _format_number
from tests.frontends.kempnerforge.job import LLAMA, Model, job, train

# -- operations, peaks and memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "seq_len", "flops"),
    [
        (LLAMA, 2048, 42_863_689_728),
        (LLAMA, None, 42_863_689_728),
        (Model(), 128, 23_556_096),
        (Model(num_experts=8), 128, 37_711_872),
        (Model(num_experts=8, moe_shared_experts=1), 128, 51_867_648),
        (Model(num_experts=8, moe_frequency=2), 128, 30_633_984),
        (Model(128, 2, 2, 256, 64), 64, 3_538_944),
    ],
)
def test_operations_of_a_token(model: Model, seq_len: int | None, flops: int) -> None:
    """Checks 5 and 6, to the last one."""
    assert estimate_model_flops_per_token(model, seq_len) == flops


def test_a_config_need_not_say_how_many_experts_it_has() -> None:
    """`is_moe` and the documented attributes are enough."""
    attributes = ("dim", "n_layers", "n_heads", "head_dim", "computed_ffn_hidden_dim", "vocab_size", "max_seq_len", "is_moe", "moe_frequency", "moe_top_k", "moe_shared_experts")  # fmt: skip
    moe = Model(num_experts=8)
    bare = SimpleNamespace(**{name: getattr(moe, name) for name in attributes}, n_kv_heads=4)
    assert estimate_model_flops_per_token(bare) == 37_711_872


def test_mfu_is_the_share_of_the_peak() -> None:
    """Checks 5 and 7: exactly, and 0.0 where there is nothing to divide by."""
    assert compute_mfu(LLAMA, 10_000, 1, 989) == 0.4334043450758342
    assert compute_mfu(LLAMA, 80_000, 8, 989) == pytest.approx(0.4334043450758342)
    assert compute_mfu(Model(), 1e6, 1, 312) == 0.07550030769230769
    assert compute_mfu(Model(), 1e6, 1, 0.0) == compute_mfu(Model(), 0.0, 1, 312) == compute_mfu(Model(), 1e6) == 0.0
    assert compute_mfu(Model(), 1e6, 0, 312) == 0.0


def gpu(monkeypatch: pytest.MonkeyPatch, name: str, capability: tuple[int, int] = (9, 0), **more: Any) -> None:
    """A torch that computes on a GPU."""
    gib = 1 << 30
    cuda = SimpleNamespace(
        **{
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "current_device": lambda: 0,
            "get_device_name": lambda device=None: name,
            "get_device_capability": lambda device=None: capability,
            "memory_allocated": lambda device=None: 61 * gib,
            "max_memory_allocated": lambda device=None: 72 * gib,
            "memory_reserved": lambda device=None: 75 * gib,
            "get_device_properties": lambda device: SimpleNamespace(total_memory=80 * gib),
            "reset_peak_memory_stats": lambda device=None: None,
            "memory": SimpleNamespace(_snapshot=lambda: {"segments": []}),
            **more,
        }
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))


@pytest.mark.parametrize(
    ("name", "peak"),
    [
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA B200", 2250),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA RTX A6000", 154.8),
    ],
)
def test_the_peak_of_this_gpu(monkeypatch: pytest.MonkeyPatch, name: str, peak: float) -> None:
    """Check 8: the most specific name wins."""
    gpu(monkeypatch, name)
    assert get_gpu_peak_tflops() == get_gpu_peak_tflops(compat=True) == peak


@pytest.mark.parametrize(("capability", "peak"), [((9, 0), 989), ((10, 0), 989), ((8, 0), 312), ((7, 5), 100)])
def test_a_gpu_that_nobody_knows_is_guessed_only_when_asked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], capability: tuple[int, int], peak: float
) -> None:
    """Check 9: by its capability, with one warning; and one that there is no MFU without a guess."""
    gpu(monkeypatch, "NVIDIA X900", capability)
    assert get_gpu_peak_tflops() is None
    assert [get_gpu_peak_tflops(compat=True) for _ in range(3)] == [peak] * 3
    said = capfd.readouterr().err
    assert said.count("unknown GPU NVIDIA X900: there is no MFU") == said.count("assuming") == 1


@pytest.mark.parametrize("compat", [False, True])
def test_a_gpu_that_is_used_after_the_tracker_was_made_has_its_peak(
    monkeypatch: pytest.MonkeyPatch, compat: bool
) -> None:
    """The tracker does not wake it up; it is asked with the first step."""
    awake = False
    gpu(monkeypatch, "NVIDIA H100 80GB HBM3", is_initialized=lambda: awake)
    tracker = MetricsTracker(job(log_interval=1), compat=compat)
    assert tracker.gpu_peak_tflops == (1.0 if compat else None)
    awake = True
    (found,) = train(tracker, [1.0])
    tracker.close()
    assert tracker.gpu_peak_tflops == 989.4
    assert found is not None and found.mfu == compute_mfu(Model(), found.tokens_per_sec, 1, 989.4, 128)


def test_without_a_gpu_there_is_no_peak_and_no_memory() -> None:
    """Check 10: four zeros, and no 9426 %; the original's 1.0 when asked for."""
    assert get_gpu_peak_tflops() is None and get_gpu_peak_tflops(compat=True) == 1.0
    assert get_memory_stats() == {"allocated_gb": 0, "peak_gb": 0, "reserved_gb": 0, "total_gb": 0}
    assert get_memory_utilization() == 0.0
    assert format_memory_stats() == "GPU mem: 0.0GB allocated, 0.0GB peak, 0.0GB reserved / 0.0GB total (0%)"
    reset_peak_memory()
    (found,) = train(MetricsTracker(job()), [1.0])
    assert found is not None and found.mfu == 0.0
    assert MetricsTracker(job(), compat=True).gpu_peak_tflops == 1.0


def test_a_gpu_says_how_full_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """In GB of 1024³, in the stats, the text and the step."""
    gpu(monkeypatch, "NVIDIA H100 80GB HBM3")
    assert get_memory_stats() == {"allocated_gb": 61.0, "peak_gb": 72.0, "reserved_gb": 75.0, "total_gb": 80.0}
    assert format_memory_stats() == "GPU mem: 61.0GB allocated, 72.0GB peak, 75.0GB reserved / 80.0GB total (90%)"
    tracker = MetricsTracker(job())
    (found,) = train(tracker, [1.0])
    tracker.close()
    assert found is not None and (found.peak_gb, found.total_gb, found.mem_utilization) == (72.0, 80.0, 0.9)
    assert tracker.gpu_peak_tflops == 989.4 and found.mfu > 0


def test_the_monitor_reports_and_keeps_one_snapshot(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """At its step; afterwards the peak is reset."""
    resets: list[Any] = []
    gpu(monkeypatch, "NVIDIA H100 80GB HBM3", reset_peak_memory_stats=lambda device=None: resets.append(device))
    monitor = DeviceMemoryMonitor(snapshot_step=2, snapshot_dir="snapshots")
    reports = [monitor.report(step) for step in (1, 2, 2)]
    assert reports[0] == {**get_memory_stats(), "mem_utilization": 0.9} and resets == [0, 0, 0]
    assert [path.name for path in Path("snapshots").iterdir()] == ["snapshot_step_2_device_0.pickle"]
    assert "[step 1] GPU mem: 61.0GB allocated" in capfd.readouterr().out


def test_the_monitor_without_a_gpu_or_a_place(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """No snapshot, no exception; a place that cannot be written is a warning."""
    assert DeviceMemoryMonitor().capture_snapshot(1) is None
    gpu(monkeypatch, "NVIDIA H100 80GB HBM3")
    Path("taken").touch()
    assert DeviceMemoryMonitor(snapshot_dir="taken").capture_snapshot(1) is None
    assert "no memory snapshot" in capfd.readouterr().err


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (125000, "125k"), (1234, "1.2k"), (1234.0, "1.2k"), (1000.0, "1k"), (999999, "1000.0k"), (1500000, "1.5M"),
        (1e6, "1.0M"), (1e9, "1.0B"), (-125000, "-125k"), (42, "42"), (0, "0"), (True, "1"), (0.0, "0.00e+00"),
        (3e-4, "3.00e-04"), (0.009999, "1.00e-02"), (0.01, "0.0100"), (2.34, "2.3400"), (100.0, "100.0000"),
        (999.0, "999.0000"), (1234.5, "1234.5000"), (1234567.8, "1.23e+06"), ("foo", "foo"),
        (float("nan"), "nan"), (float("inf"), "inf"), (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_how_a_number_looks(value: Any, text: str) -> None:
    """Check 21, row by row."""
    assert _format_number(value) == text


def test_a_line_of_metrics() -> None:
    """The step, then each value."""
    assert format_metrics(7, {"a": 1, "b": 0.5, "c": "x"}) == "[step 7] a=1 | b=0.5000 | c=x"


def test_colour_is_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for those who do not want it."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert format_metrics(7, {"a": 1}) == "\x1b[2m[step 7]\x1b[0m \x1b[36ma\x1b[0m=\x1b[1m1\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert format_metrics(7, {"a": 1}) == "[step 7] a=1"


def test_the_logger_has_ranks_and_two_streams(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Other ranks speak only where they are asked to."""
    quiet, loud = get_logger("one"), get_logger("two", rank_zero_only=False)
    assert quiet.name == "kempnerforge.one" and isinstance(quiet, logging.Logger)
    quiet.info("hello")
    quiet.warning("look")
    monkeypatch.setenv("RANK", "3")
    quiet.info("not from here")
    loud.info("from here")
    out, err = capfd.readouterr()
    assert out == "[rank 0] INFO     hello\n[rank 3] INFO     from here\n" and err == "[rank 0] WARNING  look\n"
