"""What a script or test of KempnerForge reaches for beside the documented calls: its paths, its own names, its logger."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chiplog
from chiplog.frontends.kempnerforge import (
    DeviceMemoryMonitor,
    MetricsConfig,
    MetricsTracker,
    StepMetrics,
    TensorBoardBackend,
    WandBBackend,
    get_logger,
)
from chiplog.frontends.kempnerforge import tracker as tracker_module
from tests.frontends.kempnerforge.job import Job, job, train

OURS = "chiplog.frontends.kempnerforge"


class Recorder:
    """A backend of one's own."""

    def __init__(self) -> None:
        self.rows: list[tuple[dict[str, Any], int]] = []
        self.closed = 0

    def log(self, metrics: dict[str, Any], step: int) -> None:
        self.rows.append((metrics, step))

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("path", "names"), [
    ("metrics", "DeviceMemoryMonitor MetricsTracker StepMetrics compute_mfu estimate_model_flops_per_token"),
    ("metrics", "format_memory_stats format_metrics get_gpu_peak_tflops get_logger get_memory_stats"),
    ("metrics", "get_memory_utilization reset_peak_memory"),
    ("metrics.tracker", "MetricsTracker StepMetrics TensorBoardBackend WandBBackend _LoggingBackend"),
    ("metrics.logger", "get_logger format_metrics _format_number _RankFilter _RankFormatter _supports_color"),
    ("metrics.memory", "get_memory_stats get_memory_utilization reset_peak_memory DeviceMemoryMonitor"),
    ("metrics.mfu", "compute_mfu estimate_model_flops_per_token get_gpu_peak_tflops"),
    ("config", "MetricsConfig"), ("config.metrics", "MetricsConfig"), ("config.schema", "MetricsConfig"),
])  # fmt: skip
def test_replacing_the_prefix_is_enough(path: str, names: str) -> None:
    """`kempnerforge` becomes `chiplog.frontends.kempnerforge`, and every import finds what it found."""
    module = importlib.import_module(f"{OURS}.{path}")
    assert [name for name in names.split() if not hasattr(module, name)] == []


def test_a_module_is_one_under_both_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test patches under the original's path is what the tracker uses."""
    import chiplog.frontends.kempnerforge.metrics.tracker as theirs

    assert theirs is tracker_module
    monkeypatch.setattr(f"{OURS}.metrics.tracker.WandBBackend", lambda config, outlet: Recorder())
    tracker = MetricsTracker(job())
    tracker.init_backends(job(enable_wandb=True))
    assert [type(one) for one in tracker._backends] == [Recorder]


def test_an_explicit_peak_of_one_is_kept() -> None:
    """It is a number like any other; the original's own evaluation script passes it."""
    tracker = MetricsTracker(job(), gpu_peak_tflops=1.0)
    (found,) = train(tracker, [2.0])
    assert tracker.gpu_peak_tflops == 1.0 and found is not None and found.mfu > 0


def test_a_backend_of_ones_own_is_closed_though_nothing_was_logged() -> None:
    """Once, by `tracker.close()`."""
    tracker, mine = MetricsTracker(job()), Recorder()
    tracker._backends.append(mine)
    tracker.close()
    assert mine.closed == 1 and not Path("runs").exists()


def test_an_average_of_ones_own() -> None:
    """`_update_smoothed` makes it, `_ema_alpha` is its weight and may be set, and a row reports it behind ours."""
    tracker, mine = MetricsTracker(job()), Recorder()
    tracker._backends.append(mine)
    assert tracker._ema_alpha == 0.1
    for value in (1.0, 2.0):
        tracker._update_smoothed("aux", value)
    assert tracker._smoothed == {"aux": pytest.approx(1.1)}
    tracker._ema_alpha = 0.5
    tracker._update_smoothed("aux", 2.1)
    assert tracker._smoothed["aux"] == pytest.approx(1.6)
    train(tracker, [3.0])
    tracker.close()
    ((row, step),) = mine.rows
    assert step == 1 and list(row)[-1] == "smoothed/aux" and row["smoothed/aux"] == pytest.approx(1.6)


def test_a_step_by_hand(capfd: pytest.CaptureFixture[str]) -> None:
    """`_log_step` prints the line and reports the row, whatever the interval."""
    tracker, mine = MetricsTracker(job()), Recorder()
    tracker._backends.append(mine)
    tracker._log_step(7, StepMetrics(loss=2.5, mfu=0.5))
    tracker.close()
    assert "[step 7] loss=2.5000 | " in capfd.readouterr().out
    assert [(row["train/loss"], row["train/mfu"], step) for row, step in mine.rows] == [(2.5, 0.5, 7)]


def test_a_backend_can_be_begun_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """`_ensure_init` does what the first `log` would, once."""
    monkeypatch.setitem(sys.modules, "wandb", None)
    board, wandb = TensorBoardBackend(MetricsConfig()), WandBBackend(MetricsConfig())
    for backend in (board, wandb):
        backend._ensure_init()
        backend._ensure_init()
    assert isinstance(board._writer, chiplog.Run) and wandb._run is False
    board.close(), wandb.close()
    assert len(list(Path("runs/kempnerforge").iterdir())) == 2


@dataclass(frozen=True)
class Frozen:
    """A section that nobody can write to."""

    log_interval: int = 1
    enable_wandb: bool = True
    enable_tensorboard: bool = False
    wandb_project: str = "kempnerforge"
    wandb_run_name: str | None = None
    wandb_run_id: str = ""
    tensorboard_dir: str = "tb_logs"


def test_an_id_that_cannot_be_written_back_is_one_run_and_one_warning(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every step goes to the same run, and the warning names the id."""
    monkeypatch.setenv("WANDB_MODE", "disabled")
    config = Job(metrics=Frozen())  # type: ignore[arg-type]
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    assert all(train(tracker, [1.0, 2.0, 3.0]))
    tracker.close()
    (run,) = chiplog.runs("runs", "kempnerforge")
    assert run.series("train/loss").values.tolist() == [1.0, 2.0, 3.0]
    said = capfd.readouterr().err
    assert said.count("cannot be written to the config") == 1 and f"wandb_run_id = {run.id!r}" in said


def test_a_snapshot_without_a_gpu_leaves_nothing_behind(tmp_path: Path) -> None:
    """No directory either, by hand and at the step that was asked for."""
    monitor = DeviceMemoryMonitor(snapshot_step=3, snapshot_dir=str(tmp_path / "snapshots"))
    assert monitor.capture_snapshot(1) is None
    monitor.report(3)
    assert not monitor._snapshot_taken and list(tmp_path.iterdir()) == []


@pytest.fixture
def their_root() -> Iterator[logging.Logger]:
    """The logger that the original configures, as it was before the test."""
    root = logging.getLogger("kempnerforge")
    before = list(root.handlers)
    yield root
    root.handlers[:] = before


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_a_line_is_printed_once_beside_the_rest_of_kempnerforge(
    their_root: logging.Logger, capfd: pytest.CaptureFixture[str], first: str
) -> None:
    """Both configure the logger `kempnerforge`, in either order; the lines of both appear once."""
    their_root.handlers.clear()

    def configure() -> None:
        their_root.setLevel(logging.DEBUG)
        their_root.propagate = False
        their_root.addHandler(logging.StreamHandler(sys.stdout))

    if first == "theirs":
        configure()
    ours = get_logger("metrics.tracker")
    if first == "ours":
        configure()
    ours.info("from ours")
    ours.warning("a warning")
    theirs = logging.getLogger("kempnerforge.kempnerforge.training.loop")
    theirs.info("from theirs")
    theirs.warning("their warning")
    out, err = capfd.readouterr()
    assert out.count("from ours") == out.count("from theirs") == out.count("their warning") == 1
    assert err == "[rank 0] WARNING  a warning\n", "what the document says to look for on stderr"


def test_a_handler_that_writes_elsewhere_takes_no_line_away(
    their_root: logging.Logger, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A log file beside the terminal is one more place, and no other."""
    file = logging.FileHandler(tmp_path / "job.log")
    their_root.addHandler(file)
    get_logger("metrics.tracker").info("a line")
    file.close()
    assert capfd.readouterr().out == "[rank 0] INFO     a line\n"
    assert (tmp_path / "job.log").read_text() == "a line\n"


def test_the_filter_and_the_formatter_of_ranks_work_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a handler of one's own, by the rank that the environment says with each record."""
    module = importlib.import_module(f"{OURS}.metrics.logger")
    record = logging.LogRecord("any", logging.INFO, "", 0, "loss is %s", (1,), None)
    first, formatter = module._RankFilter(rank=0), module._RankFormatter()
    assert first.filter(record) and formatter.format(record) == "[rank 0] INFO     loss is 1"
    monkeypatch.setenv("RANK", "1")
    assert not first.filter(record) and formatter.format(record).startswith("[rank 1] ")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert module._supports_color() and "\x1b[" in formatter.format(record)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not module._supports_color()


def test_what_a_test_of_the_original_replaces_in_the_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its logger and its question for memory by their names in the module; when a step began, and that backends are."""
    lines: list[str] = []
    stats = {"allocated_gb": 1.0, "peak_gb": 20.0, "reserved_gb": 3.0, "total_gb": 80.0}
    monkeypatch.setattr(tracker_module, "logger", SimpleNamespace(info=lines.append, warning=lines.append))
    monkeypatch.setattr(tracker_module, "get_memory_stats", lambda device=0: stats)
    tracker = MetricsTracker(job())
    assert (tracker._step_start, tracker._backends_initialized) == (0.0, False)
    tracker.init_backends(job())
    tracker.start_step()
    assert tracker._step_start > 0 and tracker._backends_initialized
    tracker._step_start -= 10
    found = tracker.end_step(1, 1.0, 1.0, 1e-3, 1000)
    assert found is not None and found.step_time_sec >= 10 and (found.peak_gb, found.mem_utilization) == (20.0, 0.25)
    assert len(lines) == 1 and "mem=20.0/80GB" in lines[0]


@pytest.mark.parametrize("step", [5, 10, None])
def test_a_step_that_is_left_out_is_in_no_average(step: Any) -> None:
    """Whether it would have been logged or not."""
    tracker = MetricsTracker(job())
    train(tracker, [1.0])
    before = dict(tracker._smoothed)
    tracker.start_step()
    assert tracker.end_step(step, 9.0, None if step else 1.0, None if step else 1e-3, 1024) is None  # type: ignore[arg-type]
    assert tracker._smoothed == before


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_without_a_group_is_taken_at_its_word(monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """As a test patches torch: set up, with a rank, and nobody who knows how many there are."""
    distributed = pytest.importorskip("torch.distributed")
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_rank", lambda: rank)
    config = job(enable_tensorboard=True)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    assert len(tracker._backends) == (rank == 0)
    train(tracker, [1.0])
    tracker.close()
    assert Path("runs").exists() == (rank == 0)
