"""The KempnerForge front end: every row of its documented tables, and its documented examples with another import."""

from __future__ import annotations

import inspect
import json
import logging
import math
import re
import subprocess
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chiplog
from chiplog.core.errors import BadSetting
from chiplog.frontends import kempnerforge
from chiplog.frontends.kempnerforge import (
    DeviceMemoryMonitor,
    MetricsConfig,
    MetricsTracker,
    StepMetrics,
    TensorBoardBackend,
    WandBBackend,
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
from chiplog.frontends.kempnerforge.tracker import format_step

KEYS = [
    "train/loss", "train/grad_norm", "train/lr", "train/tokens_per_sec", "train/mfu", "train/step_time_sec",
    "gpu/allocated_gb", "gpu/peak_gb", "gpu/reserved_gb", "gpu/mem_utilization",
    "smoothed/loss", "smoothed/tokens_per_sec", "smoothed/mfu", "smoothed/step_time",
]  # fmt: skip


@dataclass
class Model:
    """The documented attributes of a model's config, by the original's rules."""

    dim: int = 256
    n_layers: int = 4
    n_heads: int = 4
    vocab_size: int = 1000
    max_seq_len: int = 128
    ffn_hidden_dim: int | None = None
    n_kv_heads: int | None = None
    num_experts: int = 0
    moe_top_k: int = 2
    moe_shared_experts: int = 0
    moe_frequency: int = 1

    @property
    def head_dim(self) -> int:
        return self.dim // self.n_heads

    @property
    def is_moe(self) -> bool:
        return self.num_experts > 0

    @property
    def computed_ffn_hidden_dim(self) -> int:
        return self.ffn_hidden_dim or math.ceil(int(4 * self.dim * 2 / 3) / 256) * 256


LLAMA = Model(4096, 32, 32, 32000, 2048, 11008)


@dataclass
class Job:
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    model: Any = field(default_factory=Model)
    train: Any = field(default_factory=lambda: SimpleNamespace(seq_len=128))


def job(**metrics: Any) -> Job:
    return Job(MetricsConfig(**metrics))


class Fake:
    """A backend that somebody has put beside ours."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []
        self.fail_at, self.closed = fail_at, False

    def log(self, metrics: dict[str, Any], step: int) -> None:
        if step == self.fail_at:
            raise ConnectionError("no network")
        self.rows.append((step, metrics))

    def close(self) -> None:
        self.closed = True


def train(tracker: MetricsTracker, losses: list[float], first: int = 1) -> list[StepMetrics | None]:
    found = []
    for step, loss in enumerate(losses, first):
        tracker.start_step()
        found.append(tracker.end_step(step, loss, 1.25, 3e-4, 16384))
    return found


def stored(project: str = "kempnerforge") -> chiplog.Stored:
    (run,) = chiplog.runs("runs", project)
    return run


# -- StepMetrics, MetricsConfig, signatures ----------------------------------------------------------------------------


STEP_METRICS = ["loss", "grad_norm", "lr", "tokens_per_sec", "mfu", "step_time_sec", "allocated_gb", "peak_gb", "reserved_gb", "total_gb", "mem_utilization"]  # fmt: skip


def test_the_fields_of_a_step_in_their_order() -> None:
    """Eleven, no other."""
    assert [one.name for one in fields(StepMetrics)] == STEP_METRICS


@pytest.mark.parametrize("name", STEP_METRICS)
def test_a_field_of_a_step_is_zero_until_it_is_measured(name: str) -> None:
    """A float, which is 0.0."""
    value = getattr(StepMetrics(), name)
    assert type(value) is float and value == 0.0


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("log_interval", 10),
        ("enable_wandb", False),
        ("enable_tensorboard", False),
        ("wandb_project", "kempnerforge"),
        ("wandb_run_name", None),
        ("wandb_run_id", ""),
        ("tensorboard_dir", "tb_logs"),
    ],
)
def test_a_field_of_the_config_has_its_default(name: str, default: Any) -> None:
    """Row by row."""
    assert getattr(MetricsConfig(), name) == default


def test_an_interval_must_be_positive() -> None:
    """Said in the original's words."""
    with pytest.raises(ValueError, match="log_interval must be positive"):
        MetricsConfig(log_interval=0)


@pytest.mark.parametrize(
    ("thing", "names"),
    [
        (MetricsTracker.__init__, ["config", "num_gpus", "gpu_peak_tflops"]),
        (MetricsTracker.start_step, []),
        (MetricsTracker.end_step, ["step", "loss", "grad_norm", "lr", "tokens_in_step"]),
        (MetricsTracker.log_eval, ["metrics", "step"]),
        (MetricsTracker.init_backends, ["config"]),
        (MetricsTracker._init_backends, ["config"]),
        (MetricsTracker.close, []),
        (WandBBackend.__init__, ["config"]),
        (WandBBackend.log, ["metrics", "step"]),
        (WandBBackend.close, []),
        (TensorBoardBackend.__init__, ["config"]),
        (TensorBoardBackend.log, ["metrics", "step"]),
        (TensorBoardBackend.close, []),
        (compute_mfu, ["config", "tokens_per_sec", "num_gpus", "gpu_peak_tflops", "seq_len"]),
        (estimate_model_flops_per_token, ["config", "seq_len"]),
        (get_gpu_peak_tflops, ["device"]),
        (DeviceMemoryMonitor.__init__, ["device", "snapshot_step", "snapshot_dir"]),
        (get_logger, ["name", "rank_zero_only"]),
        (format_metrics, ["step", "metrics"]),
    ],
)
def test_a_call_takes_the_documented_arguments(thing: Any, names: list[str]) -> None:
    """By these names, in this order; ours come after them."""
    found = [name for name in inspect.signature(thing).parameters if name != "self"]
    assert found[: len(names)] == names


def test_everything_can_be_imported_from_where_it_was() -> None:
    """The package and its modules have the original's names."""
    from chiplog.frontends.kempnerforge import logger, memory, mfu, tracker

    assert tracker.MetricsTracker is MetricsTracker and tracker.WandBBackend is WandBBackend
    assert (mfu.compute_mfu, memory.get_memory_stats, logger.get_logger) == (compute_mfu, get_memory_stats, get_logger)
    assert all(getattr(kempnerforge, name) for name in kempnerforge.__all__)


# -- steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("step", "logs"), [(0, True), (1, True), (2, False), (9, False), (10, True), (20, True)])
def test_the_first_step_and_every_tenth_are_logged(step: int, logs: bool) -> None:
    """Check 1."""
    (found,) = train(MetricsTracker(job()), [1.0], first=step)
    assert isinstance(found, StepMetrics) is logs


def test_averages_see_every_step(tmp_path: Path) -> None:
    """Check 2: 1, 2, 3, 4 with an interval of 2."""
    tracker = MetricsTracker(job(log_interval=2))
    train(tracker, [1.0, 2.0, 3.0, 4.0])
    tracker.close()
    series = stored().series("smoothed/loss")
    assert series.steps.tolist() == [1, 2, 4]
    assert series.values.tolist() == pytest.approx([1.0, 1.1, 1.561])


def test_a_row_has_exactly_these_names_in_this_order() -> None:
    """Check 3, for a backend beside ours and for the journal."""
    tracker = MetricsTracker(job(), gpu_peak_tflops=989)
    fake = Fake()
    tracker._backends.append(fake)
    train(tracker, [2.0])
    tracker.close()
    assert [list(row) for _, row in fake.rows] == [KEYS] and fake.closed
    (record,) = stored().records("step")
    assert list(record.metrics) == KEYS  # type: ignore[union-attr]


def test_the_line_of_a_step() -> None:
    """Check 4, to the character."""
    metrics = StepMetrics(loss=2.34, lr=3e-4, grad_norm=1.25, tokens_per_sec=125000, mfu=0.523, peak_gb=71.2, total_gb=80, step_time_sec=1.25)  # fmt: skip
    assert format_step(1000, metrics) == (
        "[step 1000] loss=2.3400 | lr=3.00e-04 | grad_norm=1.250 | tok/s=125,000 | mfu=52.3% | mem=71.2/80GB | step_time=1.25s"
    )


def test_the_line_goes_to_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    """With the rank and the level before it; nothing on stderr."""
    train(MetricsTracker(job()), [2.34, 2.0])
    out, err = capfd.readouterr()
    assert re.fullmatch(r"\[rank 0\] INFO     \[step 1\] loss=2\.3400 \| lr=3\.00e-04 \| grad_norm=1\.250 \| tok/s=[\d,]+ \| mfu=0\.0% \| mem=0\.0/0GB \| step_time=0\.00s\n", out)  # fmt: skip
    assert err == ""


def test_what_a_step_measures() -> None:
    """Tokens by time, and MFU by the model, the GPUs and their peak."""
    tracker = MetricsTracker(job(), num_gpus=8, gpu_peak_tflops=989.0)
    (found,) = train(tracker, [2.0])
    assert found is not None and 0 < found.step_time_sec < 1
    assert found.tokens_per_sec == 16384 / found.step_time_sec
    assert found.mfu == compute_mfu(Model(), found.tokens_per_sec, 8, 989.0, 128)


def test_a_bad_loss_spoils_no_average() -> None:
    """Check 19: the next one is finite, and how many were bad is known."""
    tracker = MetricsTracker(job(log_interval=1))
    train(tracker, [1.0, float("nan"), 2.0])
    tracker.close()
    assert stored().series("smoothed/loss").values.tolist() == pytest.approx([1.0, 1.0, 1.1])
    assert tracker.nan_count == 1 and tracker._smoothed["loss"] == pytest.approx(1.1)


def test_a_step_that_was_not_started_has_no_time(capfd: pytest.CaptureFixture[str]) -> None:
    """Check 20: one warning, and no absurd number."""
    tracker = MetricsTracker(job(log_interval=1))
    found = [tracker.end_step(step, 1.0, 1.0, 1e-3, 100) for step in (1, 2)]
    assert [(one.step_time_sec, one.tokens_per_sec) for one in found if one] == [(0.0, 0.0), (0.0, 0.0)]
    assert capfd.readouterr().err.count("end_step() without start_step()") == 1


def test_averages_go_on_after_a_resume() -> None:
    """With what a checkpoint has kept."""
    first, second = MetricsTracker(job()), MetricsTracker(job())
    train(first, [1.0, 2.0])
    second.restore(json.loads(json.dumps(first.state())))
    assert second._smoothed == first._smoothed


def test_a_model_that_the_formula_does_not_fit_trains_on(capfd: pytest.CaptureFixture[str]) -> None:
    """Without MFU, which is said."""
    tracker = MetricsTracker(Job(model=SimpleNamespace(dim=4)), gpu_peak_tflops=100.0)
    (found,) = train(tracker, [1.0])
    assert found is not None and found.mfu == 0.0
    assert "there is no MFU" in capfd.readouterr().err


# -- evals and other backends ------------------------------------------------------------------------------------------


def test_evals_are_reported_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    """One line, and the same names everywhere."""
    tracker = MetricsTracker(job())
    fake = Fake()
    tracker._backends.append(fake)
    tracker.log_eval({"eval/loss": 2.34, "data/web/tokens": 125000}, 100)
    tracker.close()
    assert fake.rows == [(100, {"eval/loss": 2.34, "data/web/tokens": 125000})]
    assert capfd.readouterr().out == "[rank 0] INFO     [step 100] eval/loss=2.3400 | data/web/tokens=125k\n"
    assert stored().series("data/web/tokens").values.tolist() == [125000]


def test_an_eval_that_is_not_finite_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    """Check 18: `nan` in the line, strict JSON in the file."""
    tracker = MetricsTracker(job())
    tracker.log_eval({"eval/loss": float("nan"), "eval/perplexity": float("inf")}, 5)
    tracker.close()
    assert "[step 5] eval/loss=nan | eval/perplexity=inf" in capfd.readouterr().out

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    (path,) = Path("runs").glob("*/*/journal/*.jsonl")
    lines = [json.loads(line, parse_constant=refuse) for line in path.read_text().splitlines()]
    assert {"eval/loss": "nan", "eval/perplexity": "inf"} in [line.get("metrics") for line in lines]


def test_a_backend_that_fails_disturbs_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """Check 12: training, the other backends and the file go on; one warning."""
    tracker = MetricsTracker(job(log_interval=1, enable_tensorboard=True))
    bad, good = Fake(fail_at=7), Fake()
    tracker.init_backends(job(enable_tensorboard=True))
    tracker._backends += [bad, good]
    train(tracker, [1.0] * 10)
    bad.fail_at = 11
    train(tracker, [1.0], first=11)
    tracker.close()
    assert [step for step, _ in bad.rows] == [1, 2, 3, 4, 5, 6, 8, 9, 10]
    assert [step for step, _ in good.rows] == list(range(1, 12))
    assert stored().series("train/loss").steps.tolist() == list(range(1, 12))
    assert [step for step, _ in scalars("tb_logs", "train/loss")] == list(range(1, 12))
    assert capfd.readouterr().err.count("Fake fails: no network") == 1


def test_backends_are_chosen_once() -> None:
    """Check 16: W&B first, then TensorBoard, also when asked twice, and with another config."""
    tracker = MetricsTracker(job())
    tracker.init_backends(job(enable_wandb=True, enable_tensorboard=True))
    tracker._init_backends(job())
    assert [type(one) for one in tracker._backends] == [WandBBackend, TensorBoardBackend]


def test_other_ranks_report_nothing(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Check 15: no backends, no line, no file; the metrics are returned all the same."""
    distributed = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 2)  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    config = job(enable_wandb=True, enable_tensorboard=True)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    (found,) = train(tracker, [1.0])
    tracker.log_eval({"eval/loss": 1.0}, 1)
    tracker.close()
    assert tracker._backends == [] and isinstance(found, StepMetrics)
    assert capfd.readouterr() == ("", "") and not Path("runs").exists() and config.metrics.wandb_run_id == ""


def test_nothing_happens_before_the_first_row() -> None:
    """Check 14: no import, no file, no process, not even after `init_backends`."""
    code = (
        "import sys\n"
        "from types import SimpleNamespace as N\n"
        "from chiplog.frontends.kempnerforge import MetricsConfig, MetricsTracker\n"
        "model = N(dim=8, n_layers=1, n_heads=1, vocab_size=8, max_seq_len=8, ffn_hidden_dim=8)\n"
        "config = N(metrics=MetricsConfig(enable_wandb=True, enable_tensorboard=True), model=model, train=N(seq_len=8))\n"
        "tracker = MetricsTracker(config)\n"
        "tracker.init_backends(config)\n"
        "tracker.start_step(); assert tracker.end_step(2, 1.0, 1.0, 1e-3, 8) is None\n"
        "tracker.close()\n"
        "print(sorted({'wandb', 'tensorboard', 'torch', 'numpy'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n" and list(Path().iterdir()) == []


def test_a_tracker_does_not_end_a_run_of_ones_own() -> None:
    """It has one beside it."""
    with chiplog.init("mine", sinks="none") as mine:
        tracker = MetricsTracker(job())
        train(tracker, [1.0])
        assert chiplog.run is mine and not mine.inert
        tracker.close()
        assert chiplog.run is mine


def test_a_config_that_knows_itself_is_kept_as_far_as_it_goes() -> None:
    """Objects in objects become mappings, also where they go in circles."""
    config = job()
    config.model.owner = config
    tracker = MetricsTracker(config)
    train(tracker, [1.0])
    tracker.close()
    assert stored().config["metrics"]["log_interval"] == 10 and stored().config["model"]["dim"] == 256


def test_a_place_that_cannot_be_written_costs_no_training(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One warning, and the steps go on."""
    Path("file").touch()
    monkeypatch.setenv("CHIPLOG_DIR", "file/runs")
    tracker = MetricsTracker(job(log_interval=1))
    assert all(train(tracker, [1.0, 2.0]))
    tracker.close()
    assert capfd.readouterr().err.count("metrics are not recorded") == 1


# -- TensorBoard -------------------------------------------------------------------------------------------------------


def scalars(folder: str, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    loaded = EventAccumulator(folder, size_guidance={"scalars": 0})
    loaded.Reload()
    return [(one.step, one.value) for one in loaded.Scalars(tag)]


def test_tensorboard_has_the_logged_steps() -> None:
    """Check 17: by its own reader, in the directory that was said."""
    config = job(log_interval=2, enable_tensorboard=True, tensorboard_dir="boards/one")
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    train(tracker, [1.0, 2.0, 3.0, 4.0])
    tracker.close()
    assert scalars("boards/one", "train/loss") == [(1, 1.0), (2, 2.0), (4, 4.0)]
    assert scalars("boards/one", "smoothed/loss") == [(1, 1.0), (2, pytest.approx(1.1)), (4, pytest.approx(1.561))]


def test_two_runs_share_a_directory_of_tensorboard() -> None:
    """The second one writes a file of its own, and nothing over the first's."""
    for loss in (1.0, 2.0):
        backend = TensorBoardBackend(MetricsConfig(tensorboard_dir="tb"))
        assert backend._writer is None
        backend.log({"train/loss": loss}, int(loss))
        backend.close()
    assert len(list(Path("tb").iterdir())) == 2
    assert sorted(scalars("tb", "train/loss")) == [(1, 1.0), (2, 2.0)]


def test_a_directory_that_cannot_be_written_costs_nothing_else() -> None:
    """Training and the journal go on."""
    Path("tb_logs").touch()
    config = job(log_interval=1, enable_tensorboard=True)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    assert all(train(tracker, [1.0, 2.0]))
    tracker.close()
    assert stored().series("train/loss").values.tolist() == [1.0, 2.0]


# -- W&B that is not there ---------------------------------------------------------------------------------------------


def test_without_wandb_there_is_one_warning(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Check 11: word for word, once, on stderr; the rest goes on and the id stays empty."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    config = job(log_interval=1, enable_wandb=True)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    assert all(train(tracker, [1.0] * 6))
    tracker.close()
    out, err = capfd.readouterr()
    assert err.count("wandb not installed — disabling WandB backend") == 1 and "wandb" not in out
    assert tracker._backends[0]._run is False and config.metrics.wandb_run_id == ""
    assert len(stored().series("train/loss").values) == 6


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
    """Check 9: by its capability, with one warning."""
    gpu(monkeypatch, "NVIDIA X900", capability)
    assert get_gpu_peak_tflops() is None
    assert [get_gpu_peak_tflops(compat=True) for _ in range(3)] == [peak] * 3
    assert capfd.readouterr().err.count("unknown GPU NVIDIA X900") == 1


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
    """At its step; afterwards the peak begins anew."""
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


# -- the documented examples -------------------------------------------------------------------------------------------


def test_the_documented_section_of_a_config_file(tmp_path: Path) -> None:
    """As it is in the documentation, from a file and from a text."""
    text = """
[metrics]
enable_wandb   = true
wandb_project  = "my-project"     # default "kempnerforge"
wandb_run_name = "7b-debug"       # optional — wandb auto-generates one
"""
    expected = MetricsConfig(enable_wandb=True, wandb_project="my-project", wandb_run_name="7b-debug")
    (tmp_path / "job.toml").write_text(text)
    assert MetricsConfig.from_toml(text) == MetricsConfig.from_toml(tmp_path / "job.toml") == expected
    with pytest.raises(BadSetting, match="no 'enable_wandbs'; there are: log_interval, enable_wandb"):
        MetricsConfig.from_toml("[metrics]\nenable_wandbs = true\n")


def test_the_documented_hand_over_to_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the training script: save the id when there is one, and restore it before the first row."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    config = job(enable_wandb=True, log_interval=1)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    train(tracker, [1.0])

    ckpt_extra = {}
    if config.metrics.wandb_run_id:
        ckpt_extra["wandb_run_id"] = config.metrics.wandb_run_id
    assert ckpt_extra == {"wandb_run_id": stored().id}
    tracker.close()

    config = job(enable_wandb=True, log_interval=1)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    ckpt_extra_loaded = ckpt_extra
    if ckpt_extra_loaded.get("wandb_run_id"):
        config.metrics.wandb_run_id = ckpt_extra_loaded["wandb_run_id"]
    train(tracker, [2.0], first=2)
    tracker.close()
    assert config.metrics.wandb_run_id == ckpt_extra["wandb_run_id"]
    assert stored().series("train/loss").values.tolist() == [1.0, 2.0]
