"""TRL's trainers with the callback for transformers."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.support.framework_runs import stored_runs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    import chiplog.integrations.transformers  # noqa: F401  for report_to="chiplog"
    from tests.compat.wandb.scripts.trl_tokenizer import model, tokenizer

pytestmark = pytest.mark.filterwarnings("ignore")


def test_reinforcement_learning_is_recorded_with_its_completions() -> None:
    """The rewards of every step, and what the model said."""

    def length(completions: list[str], **_: Any) -> list[float]:
        return [float(len(completion)) for completion in completions]

    arguments = GRPOConfig(
        output_dir="out", report_to="chiplog", max_steps=2, logging_steps=1, save_strategy="no",
        per_device_train_batch_size=4, num_generations=2, max_completion_length=4, log_completions=True, use_cpu=True,
        bf16=False, seed=0, disable_tqdm=True, gradient_checkpointing=False,
    )  # fmt: skip
    data = Dataset.from_dict({"prompt": ["the cat", "a dog"] * 4})
    GRPOTrainer(model(), reward_funcs=length, args=arguments, train_dataset=data, processing_class=tokenizer()).train()
    [run] = stored_runs()
    rewards = run.series("train/reward")
    assert rewards.steps.tolist() == [1, 2]
    rows = list(run.table("completions"))
    assert {row["prompt"] for row in rows} <= {"the cat", "a dog"} and len(rows) == 8
    means = [sum(float(row["length"]) for row in part) / 4 for part in (rows[:4], rows[4:])]
    assert means == pytest.approx(rewards.values.tolist())
