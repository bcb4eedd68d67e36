"""The KempnerForge front end: every row of its documented tables, and its documented examples with another import."""

from __future__ import annotations

import inspect
import json
import math
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import chiplog
from chiplog.assembly import api
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
    format_metrics,
    get_gpu_peak_tflops,
    get_logger,
    get_memory_stats,
)
from chiplog.frontends.kempnerforge.tracker import _LoggingBackend, format_step
from tests.frontends.kempnerforge.job import Job, Model, job, train
from tests.support.kempnerforge_runs import KEYS, scalars


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


def test_a_run_that_begins_with_nan_has_all_fourteen() -> None:
    """An average of nothing is not a number, under the documented name and in its place."""
    tracker = MetricsTracker(job())
    fake = Fake()
    tracker._backends.append(fake)
    train(tracker, [float("nan")])
    tracker.close()
    ((_, row),) = fake.rows
    assert list(row) == KEYS and math.isnan(row["smoothed/loss"]) and row["smoothed/step_time"] > 0


@pytest.mark.parametrize("wrong", [{"loss": None}, {"grad_norm": None}, {"lr": "x"}, {"tokens_in_step": None}])
def test_what_is_no_number_costs_no_training(wrong: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    """The step is left out, with one warning; the next is as good as ever."""
    tracker = MetricsTracker(job(log_interval=1))
    good = {"loss": 1.0, "grad_norm": 1.0, "lr": 1e-3, "tokens_in_step": 100}
    found = []
    for step, given in enumerate([good | wrong, good | wrong, good], 1):
        tracker.start_step()
        found.append(tracker.end_step(step, **given))
    tracker.log_eval(None, 3)  # type: ignore[arg-type]
    tracker.close()
    assert [one is None for one in found] == [True, True, False]
    said = capfd.readouterr().err
    assert said.count("end_step: ") == said.count("log_eval: ") == 1 and "training continues" in said


def test_an_interval_that_became_nothing_costs_no_training() -> None:
    """It is checked when a config is made, and not afterwards."""
    config = job()
    tracker = MetricsTracker(config)
    config.metrics.log_interval = 0
    assert train(tracker, [1.0], first=2) == [None]


def test_numbers_of_other_libraries_are_numbers() -> None:
    """Neither the metrics nor what a checkpoint keeps has their arrays, which may hold a whole graph."""
    tracker = MetricsTracker(job())
    tracker.start_step()
    found = tracker.end_step(1, np.float32(2.5), np.array(1.25), np.float64(1e-3), 100)  # type: ignore[arg-type]
    tracker.close()
    assert found is not None and [type(one) for one in (found.loss, found.grad_norm, found.lr)] == [float] * 3
    assert json.loads(json.dumps(tracker.state()))["smoothed"]["loss"] == 2.5


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
        raise AssertionError(f"{constant} is not JSON")

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


def test_a_backend_of_ones_own_derives_from_theirs() -> None:
    """The documented base: `log` is to be written, `close` need not be."""
    assert issubclass(WandBBackend, _LoggingBackend) and issubclass(TensorBoardBackend, _LoggingBackend)

    class Mine(_LoggingBackend):
        steps: ClassVar[list[int]] = []

        def log(self, metrics: Any, step: int) -> None:
            self.steps.append(step)

    tracker = MetricsTracker(job(log_interval=1))
    tracker._backends.append(Mine())
    train(tracker, [1.0, 2.0])
    tracker.close()
    assert Mine.steps == [1, 2]


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


@pytest.mark.parametrize("chosen", [False, True])
def test_rows_of_several_threads_are_rows_of_one_run(chosen: bool) -> None:
    """Also the first ones, when an eval is logged beside the training."""
    tracker = MetricsTracker(job())
    if chosen:
        tracker.init_backends(job())
    gate = threading.Barrier(4)

    def evaluate(place: int) -> None:
        gate.wait()
        tracker.log_eval({f"eval/{place}": 1.0}, 1)

    threads = [threading.Thread(target=evaluate, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracker.close()
    assert len(list(Path("runs/kempnerforge").iterdir())) == 1
    assert {f"eval/{place}" for place in range(4)} <= set(stored().names())


def test_a_run_of_ones_own_stays_the_current_one_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may log to it while the tracker begins its own."""
    seen = []
    make = api.make
    monkeypatch.setattr(api, "make", lambda *args, **more: (seen.append(chiplog.run), make(*args, **more))[1])
    with chiplog.init("mine", sinks="none") as mine:
        tracker = MetricsTracker(job())
        train(tracker, [1.0])
        tracker.close()
    assert seen == [None, mine]


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


@pytest.mark.parametrize("metrics", [{}, {"wandb_project": None, "wandb_run_name": None}])
def test_a_config_that_says_nothing_of_wandb_needs_none_of_it(metrics: dict[str, Any]) -> None:
    """While W&B is off: the rows are recorded, under the project of the default."""
    chosen = SimpleNamespace(log_interval=1, enable_wandb=False, enable_tensorboard=False, **metrics)
    tracker = MetricsTracker(Job(metrics=chosen))  # type: ignore[arg-type]
    tracker.init_backends(Job(metrics=chosen))  # type: ignore[arg-type]
    train(tracker, [1.0, 2.0])
    tracker.close()
    assert stored().series("train/loss").values.tolist() == [1.0, 2.0]


def test_choices_and_paths_of_a_config_are_their_values() -> None:
    """As a person would write them."""

    class Norm(StrEnum):
        RMS = "rmsnorm"

    config = job()
    config.model.norm, config.model.data = Norm.RMS, Path("/data/web")
    tracker = MetricsTracker(config)
    train(tracker, [1.0])
    tracker.close()
    assert (stored().config["model"]["norm"], stored().config["model"]["data"]) == ("rmsnorm", "/data/web")


def test_a_place_that_cannot_be_written_costs_no_training(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One warning names another place, and the steps go on."""
    Path("file").touch()
    monkeypatch.setenv("CHIPLOG_DIR", "file/runs")
    monkeypatch.setattr(tempfile, "tempdir", str(Path("elsewhere").absolute()))
    Path("elsewhere").mkdir()
    tracker = MetricsTracker(job(log_interval=1))
    assert all(train(tracker, [1.0, 2.0]))
    tracker.close()
    assert capfd.readouterr().err.count(". Using ") == 1
    assert len(list(Path("elsewhere").rglob("run.json"))) == 1


# -- TensorBoard -------------------------------------------------------------------------------------------------------


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
    with pytest.raises(BadSetting, match="no 'enable_wandbs'; available: log_interval, enable_wandb"):
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


def test_ids_of_wandb_that_differ_are_runs_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little: none continues another one's; and the project has the name that was given."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    for number, run_id in enumerate(("Run_1", "run-1")):
        config = job(enable_wandb=True, log_interval=1, wandb_run_id=run_id, wandb_project="My Project")
        tracker = MetricsTracker(config)
        tracker.init_backends(config)
        train(tracker, [float(number)])
        tracker.close()
    runs = {one.id: one.series("train/loss").values.tolist() for one in chiplog.runs("runs", "My Project")}
    assert runs == {"Run_1": [0.0], "run-1": [1.0]}
