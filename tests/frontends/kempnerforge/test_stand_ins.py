"""What unit tests of KempnerForge do to its parts: a `wandb` of their own, sentinels, averages set by hand, copies."""

from __future__ import annotations

import copy
import json
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import pytest

import chiplog
from chiplog.frontends.kempnerforge import MetricsConfig, MetricsTracker, TensorBoardBackend, WandBBackend
from chiplog.frontends.kempnerforge.config.schema import JobConfig
from chiplog.frontends.kempnerforge.config.schema import MetricsConfig as Section
from chiplog.frontends.kempnerforge.metrics.logger import _RankFilter, _RankFormatter
from tests.frontends.kempnerforge.job import Job, job, train


@pytest.mark.parametrize("known", ["", "kept"])
def test_a_wandb_in_sys_modules_is_the_one_that_is_called(known: str, capfd: pytest.CaptureFixture[str]) -> None:
    """With the documented arguments; the id is the one of its run, and nothing is called missing or late."""
    wandb = MagicMock()
    wandb.init.return_value.id = "theirs"
    config = MetricsConfig(wandb_project="mine", wandb_run_id=known)
    with patch.dict(sys.modules, {"wandb": wandb}):
        backend = WandBBackend(config)
        backend.log({"train/loss": 2.5}, step=1)
        backend.log({"train/loss": 2.0}, step=2)
        assert backend._run is wandb.init.return_value
        backend.close()
    asked = {"project": "mine", "name": None, "resume": "allow", **({"id": known} if known else {})}
    wandb.init.assert_called_once_with(**asked)
    assert [(call.args[0]["train/loss"], call.kwargs) for call in wandb.log.call_args_list] == [
        (2.5, {"step": 1}),
        (2.0, {"step": 2}),
    ]
    wandb.finish.assert_called_once_with()
    assert config.wandb_run_id == "theirs" and capfd.readouterr().err == ""


def test_a_wandb_in_sys_modules_that_fails_is_the_documented_warning(capfd: pytest.CaptureFixture[str]) -> None:
    """With the reason and nothing else; later rows are silent."""
    wandb = MagicMock()
    wandb.init.side_effect = RuntimeError("the quota\n  is used up")
    with patch.dict(sys.modules, {"wandb": wandb}):
        backend = WandBBackend(MetricsConfig())
        backend.log({"train/loss": 2.5}, step=1)
        backend.log({"train/loss": 2.5}, step=2)
        assert backend._run is False
        backend.close()
    assert capfd.readouterr().err == "[rank 0] WARNING  WandB init failed: the quota is used up\n"
    assert not wandb.log.called and not wandb.finish.called


def test_the_sentinel_of_a_backend_switches_it_off() -> None:
    """`_run = False` and `_writer = False`: no module is touched, and nothing is written."""
    wandb, board = WandBBackend(MetricsConfig()), TensorBoardBackend(MetricsConfig())
    wandb._run, board._writer = False, False
    for backend in (wandb, board):
        backend._ensure_init()
        backend.log({"train/loss": 1.0}, step=1)
        backend.close()
    assert wandb._run is False and board._writer is False and list(Path().iterdir()) == []


def test_the_sentinel_of_one_backend_leaves_the_journal_and_the_other() -> None:
    """The tracker's rows are recorded whatever becomes of a backend."""
    config = job(log_interval=1, enable_wandb=True, enable_tensorboard=True)
    tracker = MetricsTracker(config)
    tracker.init_backends(config)
    wandb, board = tracker._backends
    wandb._run = False
    train(tracker, [1.0, 2.0])
    tracker.close()
    (run,) = chiplog.runs("runs", "kempnerforge")
    assert run.series("train/loss").values.tolist() == [1.0, 2.0] and len(list(Path("tb_logs").iterdir())) == 1
    assert wandb._run is False and board._writer is not False and not (run.path / "relay").exists()


def test_a_run_and_a_writer_that_somebody_sets_get_the_rows() -> None:
    """As tests do that want neither W&B nor a file."""
    wandb, run, writer = MagicMock(), MagicMock(id="set"), MagicMock()
    backend, board = WandBBackend(MetricsConfig()), TensorBoardBackend(MetricsConfig())
    backend._run, board._writer = run, writer
    with patch.dict(sys.modules, {"wandb": wandb}):
        backend._run = run
        for one in (backend, board):
            one.log({"train/loss": 1.0}, step=3)
        backend.close()
    board.close()
    assert backend._run is run and board._writer is writer
    assert not wandb.init.called and wandb.log.call_args.kwargs == {"step": 3}
    writer.add_scalar.assert_called_once_with("train/loss", 1.0, global_step=3)
    assert not Path("tb_logs").exists()


def test_a_backend_can_be_copied_before_its_first_use() -> None:
    """A config that holds one is copied as a whole."""
    backend = WandBBackend(MetricsConfig(wandb_project="mine"))
    made = copy.deepcopy(backend)
    assert made._config == backend._config and made._lazy_run is not backend._lazy_run
    made._run = False
    assert backend._run is None
    made.log({"train/loss": 1.0}, step=1)
    made.close()


def test_averages_are_a_dict_that_may_be_set() -> None:
    """As a whole, and one by one; the next step goes on from there."""
    tracker = MetricsTracker(job())
    tracker._smoothed["loss"] = 3.0
    train(tracker, [1.0])
    assert tracker._smoothed["loss"] == pytest.approx(2.8)
    assert json.loads(json.dumps(tracker._smoothed)).keys() == {"loss", "tokens_per_sec", "mfu", "step_time"}
    tracker._smoothed = {}
    train(tracker, [4.0], first=2)
    tracker.close()
    assert tracker._smoothed["loss"] == 4.0


def test_the_formatter_and_the_filter_take_the_originals_arguments() -> None:
    """`use_color` decides, and the filter says which rank it lets through."""
    import logging

    record = logging.LogRecord("any", logging.INFO, "", 0, "text", None, None)
    assert _RankFormatter(use_color=False).format(record) == "[rank 0] INFO     text"
    assert "\x1b[" in _RankFormatter(use_color=True).format(record)
    assert _RankFilter(rank=1).allowed_rank == 1 and not _RankFilter(rank=1).filter(record)


def test_a_job_config_has_the_sections_that_the_metrics_read() -> None:
    """Others are kept as they are."""
    config = JobConfig(metrics=Section(log_interval=1), optimizer=SimpleNamespace(lr=3e-4))
    assert (config.train.seq_len, config.optimizer.lr, JobConfig().metrics) == (2048, 3e-4, Section())
    tracker = MetricsTracker(config, gpu_peak_tflops=100.0)
    tracker.init_backends(config)
    train(tracker, [1.0])
    tracker.close()
    (run,) = chiplog.runs("runs", "kempnerforge")
    assert run.config["optimizer"] == {"lr": 3e-4}


def test_a_model_config_without_attributes_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """By what it lacks; not by a function that this user never called."""
    tracker = MetricsTracker(Job(model=SimpleNamespace()), gpu_peak_tflops=100.0)
    train(tracker, [1.0])
    tracker.close()
    error = capfd.readouterr().err
    assert "there is no MFU: the model's config lacks layers (as num_hidden_layers, n_layers, " in error
    assert "from_config" not in error


def test_a_tensor_with_a_graph_is_a_number_without_a_warning() -> None:
    """And none of it is kept: metrics and averages are floats."""
    torch = pytest.importorskip("torch")
    tracker = MetricsTracker(job(), gpu_peak_tflops=100.0)
    loss = torch.tensor(2.5, requires_grad=True) * 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in (1, 2):
            tracker.start_step()
            found = tracker.end_step(step, loss, loss.detach(), 1e-3, torch.tensor(100))
            if step == 1:
                assert found is not None and {type(value) for value in vars(found).values()} == {float}
    tracker.close()
    assert {type(value) for value in tracker._smoothed.values()} == {float}


@pytest.mark.parametrize(("step", "expected"), [("13", 13), (13.0, 13), ("13.0", 13)])
def test_a_step_as_text_is_that_number(step: Any, expected: int) -> None:
    """In the line, the row and the choice of steps to log."""
    tracker = MetricsTracker(job(log_interval=13))
    tracker.start_step()
    assert tracker.end_step(step, 1.0, 1.0, 1e-3, 100) is not None
    tracker.log_eval({"eval/loss": 1.0}, step)
    tracker.close()
    (run,) = chiplog.runs("runs", "kempnerforge")
    assert run.series("train/loss").steps.tolist() == run.series("eval/loss").steps.tolist() == [expected]


def test_what_is_not_a_number_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    """In a sentence, for the step and for each value."""
    tracker = MetricsTracker(job())
    tracker.start_step()
    assert tracker.end_step("first", 1.0, 1.0, 1e-3, 100) is None  # type: ignore[arg-type]
    assert tracker.end_step(1, None, 1.0, 1e-3, 100) is None  # type: ignore[arg-type]
    tracker.log_eval({"eval/loss": 1.0}, None)  # type: ignore[arg-type]
    tracker.close()
    assert capfd.readouterr().err.splitlines() == [
        "[rank 0] WARNING  end_step: step is not a number but first, so this call is left out; training continues",
        "[rank 0] WARNING  end_step: loss is not a number but None, so this call is left out; training continues",
        "[rank 0] WARNING  log_eval: step is not a number but None, so this call is left out; training continues",
    ]


def test_a_second_end_of_a_step_has_the_time_since_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the original's rule; nothing is warned about."""
    tracker = MetricsTracker(job(log_interval=1))
    tracker.start_step()
    tracker._step_start -= 10
    first, second = (tracker.end_step(step, 1.0, 1.0, 1e-3, 100) for step in (1, 2))
    tracker.close()
    assert first is not None and second is not None and 10 <= first.step_time_sec <= second.step_time_sec
