"""Checkpoints of Hugging Face's Trainer, written by its own state."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from transformers.trainer_callback import TrainerState

from tests.support import foreign_stores
from tests.support.foreign_stores import lost, opened, values


def checkpoint(output: Path, steps: int, *, done: bool = False) -> Path:
    """What the Trainer saves with a checkpoint."""
    history: list[dict[str, float]] = []
    for step in range(10, steps + 1, 10):
        history.append({"loss": 4 / step, "grad_norm": 0.5, "learning_rate": 1e-4, "epoch": step / 100, "step": step})
        if step % 20 == 0:
            history.append({"eval_loss": 5 / step, "epoch": step / 100, "step": step})
    if done:
        history.append({"train_runtime": 12.5, "train_loss": 0.7, "total_flos": 1e15, "epoch": 1.0, "step": steps})
    state = TrainerState(global_step=steps, max_steps=100, log_history=history, best_metric=0.25)
    folder = output / f"checkpoint-{steps}"
    folder.mkdir(parents=True)
    state.save_to_json(str(folder / "trainer_state.json"))
    (folder / "config.json").write_text(json.dumps({"hidden_size": 8}))
    (folder / "training_args.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'touch /tmp/never'\ntR.")
    return folder


def test_a_checkpoint_has_the_whole_curve(tmp_path: Path) -> None:
    """The newest checkpoint of an output folder is the run, with the steps of its entries."""
    checkpoint(tmp_path / "outputs" / "sft", 20)
    newest = checkpoint(tmp_path / "outputs" / "sft", 40, done=True)
    (run,) = opened(tmp_path / "outputs", tmp_path / "cache")
    history = TrainerState.load_from_json(str(newest / "trainer_state.json")).log_history
    for name in ("loss", "eval_loss", "grad_norm"):
        assert values(run)[name] == [(entry["step"], entry[name]) for entry in history if name in entry]
    assert (run.project, run.name, run.state) == ("outputs", "sft", "finished")
    assert run.config["model"] == {"hidden_size": 8} and run.config["max_steps"] == 100
    assert run.summary["train_runtime"] == 12.5 and run.summary["best_metric"] == 0.25
    assert "train_runtime" not in values(run)


def test_the_next_checkpoint_adds_what_is_new(tmp_path: Path) -> None:
    """A run that goes on is the same run."""
    checkpoint(tmp_path / "out", 20)
    (before,) = opened(tmp_path / "out", tmp_path / "cache")
    checkpoint(tmp_path / "out", 40)
    (after,) = opened(tmp_path / "out", tmp_path / "cache")
    assert after.path == before.path and len(after.attempts) == 1
    assert [step for step, _ in values(after)["loss"]] == [10, 20, 30, 40]


def test_training_again_from_an_earlier_checkpoint_is_another_attempt(tmp_path: Path) -> None:
    """A history that does not continue the one before hides it."""
    folder = checkpoint(tmp_path / "out", 40)
    opened(tmp_path / "out", tmp_path / "cache")
    shutil.rmtree(folder)
    state = TrainerState(global_step=60, log_history=[{"loss": 9.0, "step": step} for step in range(10, 70, 10)])
    (tmp_path / "out" / "checkpoint-60").mkdir()
    state.save_to_json(str(tmp_path / "out" / "checkpoint-60" / "trainer_state.json"))
    (run,) = opened(tmp_path / "out", tmp_path / "cache")
    assert values(run)["loss"] == [(step, 9.0) for step in range(10, 70, 10)]
    assert len(run.attempts) == 2


def test_completions_of_trl_are_a_table(tmp_path: Path) -> None:
    """The files that TRL writes beside the checkpoints."""
    checkpoint(tmp_path / "out", 20)
    (tmp_path / "out" / "completions").mkdir()
    table = pa.table({"step": [10, 10], "prompt": ["a", "b"], "completion": ["c", "d"], "reward": [0.5, 1.0]})
    pq.write_table(table, tmp_path / "out" / "completions" / "completions_00010.parquet")
    (tmp_path / "out" / "completions" / "completions_00020.parquet").write_bytes(b"PAR1 not")
    (run,) = opened(tmp_path / "out", tmp_path / "cache")
    assert [row["completion"] for row in run.table("completions")] == ["c", "d"]
    assert lost(run) == {"completions whose file is damaged": 1}


def test_a_cut_state_shows_nothing_wrong(tmp_path: Path) -> None:
    """JSON that ends early has no value; an older checkpoint is shown instead."""
    checkpoint(tmp_path / "out", 20)
    folder = checkpoint(tmp_path / "out", 40)
    whole = values(opened(tmp_path / "out", tmp_path / "cache")[0])
    for copy in foreign_stores.cuts(tmp_path / "out", f"{folder.name}/trainer_state.json", tmp_path, 6):
        (run,) = opened(copy, tmp_path / "cache")
        foreign_stores.assert_part_of(values(run), whole)
        assert [step for step, _ in values(run)["loss"]][:2] == [10, 20]
