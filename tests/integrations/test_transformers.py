"""The callback of transformers, in real Trainers and by hand."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chiplog
from chiplog.metrics import flops
from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments
    from transformers.integrations import integration_utils

    from chiplog.integrations import transformers as integration
    from chiplog.integrations.transformers import ChiplogCallback

pytestmark = pytest.mark.filterwarnings("ignore")
DATA = [{"input_ids": torch.arange(8) % 64, "labels": torch.arange(8) % 64} for _ in range(16)]


def model() -> GPT2LMHeadModel:
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=64, n_positions=16))


def trainer(report_to: str = "chiplog", callbacks: Any = None, **more: Any) -> Trainer:
    options: dict[str, Any] = {
        "output_dir": "out", "report_to": report_to, "max_steps": 4, "logging_steps": 2, "eval_steps": 2,
        "eval_strategy": "steps", "save_strategy": "no", "per_device_train_batch_size": 4, "use_cpu": True, "seed": 0,
        "disable_tqdm": True,
    }  # fmt: skip
    arguments = TrainingArguments(**{**options, **more})
    return Trainer(model(), arguments, train_dataset=DATA, eval_dataset=DATA[:4], callbacks=callbacks)


def test_a_training_is_a_run_with_one_word() -> None:
    """`report_to="chiplog"`: rows, evaluations once, the last row as the summary, throughput, the config of the model."""
    one = trainer(run_name="tiny", include_num_input_tokens_seen="all")
    one.train()
    one.evaluate()
    one.predict(DATA[:4])
    [run] = stored_runs()
    assert run.name == "tiny" and run.state == "finished"
    assert run.series("train/loss").steps.tolist() == [2, 4]
    assert run.series("train/learning_rate").steps.tolist() == [2, 4]
    assert run.series("eval/loss").steps.tolist() == [2, 4, 4]  # the last by `evaluate`, after training
    assert run.series("eval/runtime").steps.tolist() == [2, 4, 4]
    assert run.series("test/loss").steps.tolist() == [4]
    assert run.summary["train_loss"] > 0 and "total_flos" in run.summary and "train/train_loss" not in run.names()
    assert run.series("train/tokens").values.tolist() == [32.0, 32.0, 32.0]
    assert "train/samples_per_sec" in run.names() and run.series("train/step_time_sec").steps.tolist() == [1, 2, 4]
    assert run.config["model"]["n_embd"] == 16 and run.config["learning_rate"] == 5e-5
    assert run.config["parameters"] == one.model.num_parameters()


def test_tokens_give_the_use_of_the_device() -> None:
    """MFU, if tokens are counted and the peak is known: the operations come from the model's config."""
    callback = ChiplogCallback(meter={"peak_tflops": 0.001})
    trainer("none", callbacks=[callback], include_num_input_tokens_seen="all", eval_strategy="no").train()
    [run] = stored_runs()
    mfu, speed = run.series("train/mfu").values, run.series("train/tokens_per_sec").values
    assert mfu.size == 3 and mfu[0] == pytest.approx(flops.count(model().config).model * speed[0] / 1e9)


def test_resuming_from_a_checkpoint_is_an_attempt() -> None:
    """The checkpoint names the run; where that run is gone, a new one starts under its id."""
    trainer(save_strategy="steps", save_steps=2).train()
    trainer(max_steps=6).train(resume_from_checkpoint="out/checkpoint-2")
    [run] = stored_runs()
    assert [attempt.attempt for attempt in run.attempts] == [1, 2]
    saved = [(event.step, event.data["path"]) for event in run.records("event") if event.name == "checkpoint"]
    assert saved[0] == (2, "out/checkpoint-2")
    assert run.series("train/loss").steps.tolist() == [2, 4, 6]
    Path("runs").rename("elsewhere")
    trainer(max_steps=6).train(resume_from_checkpoint="out/checkpoint-2")
    [other] = stored_runs()
    assert other.id == run.id and other.series("train/loss").steps.tolist() == [4, 6]


def test_every_training_and_every_trial_is_a_run() -> None:
    """A script may train twice; a search for hyperparameters has a run per trial, with its name."""
    trainer().train()
    again = trainer()
    again.train()
    chiplog.log({"mine": 1.0})
    state = again.state
    state.is_hyper_param_search = True
    for number in range(3):
        state.trial_name = f"trial {number}"
        again.callback_handler.on_train_begin(again.args, state, again.control)
        again.callback_handler.on_log(again.args, state, again.control, {"loss": 1.0})
        again.callback_handler.on_train_end(again.args, state, again.control)
    runs = stored_runs()
    assert [run.name for run in runs[2:]] == ["trial 0", "trial 1", "trial 2"] and len(runs) == 5
    assert "mine" in runs[1].names() and {run.state for run in runs} == {"finished"}


def test_the_current_run_is_used_and_left_open() -> None:
    """A script that has a run keeps it, and so does a run that is passed in; settings are those of `init`."""
    with chiplog.init(project="mine", sinks="none") as run:
        trainer().train()
        assert not run.inert
    assert len(stored_runs("mine")) == 1 and "train/loss" in chiplog.read(run.dir).names()
    trainer("none", callbacks=[ChiplogCallback(project="chosen", name="n")]).train()
    [chosen] = stored_runs("chosen")
    assert chosen.name == "n" and "train/loss" in chosen.names()


def test_the_completions_of_trl_are_a_table() -> None:
    """TRL writes each step's to a file after logging it; files of an earlier training are not of this run."""
    pandas = pytest.importorskip("pandas")
    folder = Path("out/completions")
    folder.mkdir(parents=True)
    row = {"step": [1], "prompt": ["p"], "completion": ["old"], "advantage": [0.5]}
    pandas.DataFrame(row).to_parquet(folder / "completions_00001.parquet")

    class Writes(integration.TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            frame = pandas.DataFrame({**row, "step": [state.global_step], "completion": [f"at {state.global_step}"]})
            frame.to_parquet(folder / f"completions_{state.global_step:05d}.parquet")

    trainer(eval_strategy="no", callbacks=[Writes()]).train()
    [run] = stored_runs()
    assert [row["completion"] for row in run.table("completions")] == ["at 2", "at 4"]


def hooks(**settings: Any) -> tuple[ChiplogCallback, Any, Any]:
    arguments = TrainingArguments(output_dir="out", report_to="none", use_cpu=True)

    return ChiplogCallback(**settings), arguments, SimpleNamespace(
        is_world_process_zero=True, global_step=3, num_input_tokens_seen=0, max_steps=5, logging_steps=1,
        stateful_callbacks={}, is_hyper_param_search=False, trial_name=None,
    )  # fmt: skip


def test_hooks_in_any_order_and_with_any_value(capsys: pytest.CaptureFixture[str]) -> None:
    """Before the beginning, twice, after the end, with NaN, None, tensors and names that are not text."""
    callback, arguments, state = hooks()
    logs = {"loss": float("nan"), "none": None, 3: 1.0, "tensor": torch.tensor(2.0), "text": "t"}
    callback.on_train_end(arguments, state, None)
    callback.on_step_end(arguments, state, None)
    callback.on_log(arguments, state, None, logs=logs)
    for _ in range(2):
        callback.on_train_begin(arguments, state, None, model=None)
    for _ in range(2):
        callback.on_log(arguments, state, None, logs=logs)
    for _ in range(2):
        callback.on_train_end(arguments, state, None)
    callback.on_log(arguments, state, None, logs={"after": 1.0})
    callback.on_evaluate(arguments, state, None, metrics={"eval_loss": 1.0})
    callback.on_evaluate(arguments, state, None)
    callback.on_log(arguments, state, None)
    [run] = stored_runs()
    assert {"train/loss", "train/3", "train/tensor", "train/after", "eval/loss"} <= set(run.names())
    assert "Traceback" not in capsys.readouterr().err


def test_a_hook_of_another_shape_is_reported_once_with_the_versions(capsys: pytest.CaptureFixture[str]) -> None:
    """Training goes on, and the message names the version and those that work."""
    callback, _, _ = hooks()
    for _ in range(2):
        callback.on_log({"loss": 1.0})  # type: ignore[call-arg]
        callback.on_train_begin(None, SimpleNamespace(), None)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all("chiplog works with 4.57 to" in line for line in lines)


def test_other_ranks_and_forked_workers_write_nothing() -> None:
    """Only the first process of the job keeps the run, and a fork is not it."""
    callback, arguments, state = hooks()
    state.is_world_process_zero = False
    callback.on_train_begin(arguments, state, None)
    callback.on_log(arguments, state, None, logs={"loss": 1.0})
    assert not Path("runs").exists()
    state.is_world_process_zero = True
    callback.on_train_begin(arguments, state, None)
    if (pid := os.fork()) == 0:
        callback.on_log(arguments, state, None, logs={"loss": 1.0})
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    [run] = stored_runs()
    assert "train/loss" not in run.names()


def test_the_registry_of_another_version_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The import works, and a line says what to write instead."""
    monkeypatch.delattr(integration_utils, "INTEGRATION_TO_CALLBACK")
    integration._register()
    assert "callbacks=[ChiplogCallback()]" in capsys.readouterr().err
