"""The trainer shell of the Tunix front end; the numbers A15 to A17 are those of the acceptance list."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import chiplog
from chiplog.frontends.tunix.sft import metrics_logger
from chiplog.frontends.tunix.sft.metrics_logger import MetricsLoggerOptions
from chiplog.frontends.tunix.sft.peft_trainer import LossOutput, PeftTrainer, TrainingConfig, learning_rate
from chiplog.metrics.step_values.weighted_means import WeightedMetric
from tests.frontends.tunix.backend import Keeps


@pytest.fixture
def kept() -> Keeps:
    return Keeps()


def trainer_of(kept: Keeps, config: dict[str, Any] | None = None, **more: Any) -> PeftTrainer:
    options = MetricsLoggerOptions("logs", backend_factories=[lambda: kept])
    return PeftTrainer(training_config=TrainingConfig(metrics_logging_options=options, **(config or {})), **more)


def clock(*times: float) -> Any:
    """A clock that shows these times, one after the other."""
    return iter(times).__next__


def test_a_step_logs_its_time_its_speed_and_its_flops(kept: Keeps) -> None:
    """A15: three steps of half a second with 2·10¹² FLOPs each."""
    trainer = trainer_of(kept, clock=clock(10.0, 10.5, 11.0, 11.5), flops_per_step=2e12)
    trainer.with_step_fn(lambda batch: 1.0).train(range(3))
    trainer.close()
    assert kept.named("train/step_time_sec") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert kept.named("train/steps_per_sec") == [(1, 2.0), (2, 2.0), (3, 2.0)]
    assert kept.named("train/tflops_per_step") == [(1, 2.0), (2, 2.0), (3, 2.0)]


def test_the_loss_of_weighted_micro_batches_is_the_weighted_mean(kept: Keeps) -> None:
    """A16: (1, 1) and (9, 3) are 2.5, and the perplexity is its exponential."""
    trainer = trainer_of(kept, {"gradient_accumulation_steps": 2})
    losses = iter([WeightedMetric(1, 1), WeightedMetric(9, 3)])
    trainer.with_step_fn(lambda batch: next(losses)).train(range(2))
    trainer.close()
    assert kept.named("train/loss") == [(1, 2.5)]
    assert kept.named("train/perplexity") == [(1, math.exp(2.5))]


def test_reducers_of_other_values_are_honoured_once(kept: Keeps) -> None:
    """A17: the largest of 10 and 20 is 20, the smallest of 1 and 5 is 1; what has none is averaged."""
    trainer = trainer_of(kept, {"gradient_accumulation_steps": 2})
    trainer.with_rl_metrics_to_log({"is_ratio/max": np.max, "is_ratio/min": np.min})
    outputs = iter(
        [
            LossOutput(1.0, {"is_ratio/max": 10, "is_ratio/min": 1, "kl": 1.0}),
            LossOutput(2.0, {"is_ratio/max": 20, "is_ratio/min": 5, "kl": 2.0}),
        ]
    )
    trainer.with_step_fn(lambda batch: next(outputs)).train(range(2))
    trainer.close()
    assert kept.named("train/is_ratio/max") == [(1, 20)] and kept.named("train/is_ratio/min") == [(1, 1)]
    assert kept.named("train/kl") == [(1, 1.5)] and kept.named("train/loss") == [(1, 1.5)]


def test_an_evaluation_is_one_record_at_the_steps_trained_so_far(kept: Keeps) -> None:
    """And its time is not part of the next step."""
    times = clock(0.0, 1.0, 2.0, 100.0, 101.0)
    trainer = trainer_of(kept, {"eval_every_n_steps": 2}, clock=times)
    trainer.with_step_fn(lambda batch: 1.0, float).train(range(3), [1, 3])
    trainer.close()
    assert kept.named("eval/loss") == [(2, 2.0)] and kept.named("eval/perplexity") == [(2, math.exp(2.0))]
    assert kept.named("train/step_time_sec") == [(1, 1.0), (2, 1.0), (3, 1.0)]


def test_training_ends_after_the_most_steps(kept: Keeps) -> None:
    """However many batches there are."""
    trainer = trainer_of(kept, {"max_steps": 2})
    trainer.with_step_fn(lambda batch: 1.0).train(range(100))
    trainer.close()
    assert trainer.train_steps == 2 and len(kept.named("train/loss")) == 2


@pytest.mark.parametrize("output", [2.0, {"loss": 2.0, "grad_norm": 0.5}, (2.0, {"grad_norm": 0.5}), LossOutput(2.0)])
def test_a_step_function_returns_what_it_likes(output: Any, kept: Keeps) -> None:
    """A loss, a mapping, a pair, or a struct."""
    trainer = trainer_of(kept, {"metrics_prefix": "sft"})
    trainer.with_step_fn(lambda batch: output).train(range(1))
    trainer.close()
    assert kept.named("sft/train/loss") == [(1, 2.0)]
    assert kept.named("sft/train/grad_norm") == ([] if output == 2.0 or isinstance(output, LossOutput) else [(1, 0.5)])


def test_the_learning_rate_is_what_the_optimizer_says(kept: Keeps) -> None:
    """In its state, in a chain of states, or in torch's groups; nothing where nobody says."""
    inject = SimpleNamespace(hyperparams={"learning_rate": 3e-4}, inner_state=())
    trainer = trainer_of(kept, optimizer=SimpleNamespace(opt_state=((), (inject,))))
    trainer.with_step_fn(lambda batch: 1.0).train(range(1))
    trainer.close()
    assert kept.named("train/learning_rate") == [(1, 3e-4)]
    assert learning_rate(SimpleNamespace(param_groups=[{"lr": 0.1}])) == 0.1
    assert learning_rate(object()) is None


def test_what_an_unknown_optimizer_cannot_say_is_named_once(kept: Keeps, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody looks for a chart that never comes; what the step function returns is not missed."""
    for output in (1.0, 1.0, {"loss": 1.0, "learning_rate": 0.1}):
        trainer = trainer_of(kept, optimizer=object(), model=object())
        trainer.with_step_fn(lambda batch, output=output: output).train(range(3))
        trainer.close()
    said = [line for line in capfd.readouterr().err.splitlines() if "not logged" in line]
    assert len(said) == 2 and all("trainer.flops_per_step" in line for line in said)
    assert ["learning_rate: object does not have it" in line for line in said] == [True, False]


def test_what_an_unfinished_step_said_is_logged_at_the_end(kept: Keeps) -> None:
    """The last micro-batches of a dataset are not lost."""
    trainer = trainer_of(kept, {"gradient_accumulation_steps": 4})
    trainer.with_step_fn(float).train(range(6))
    trainer.close()
    assert kept.named("train/loss") == [(1, 1.5), (2, 4.5)]


def test_text_that_a_step_function_returns_is_kept(kept: Keeps) -> None:
    """As rows of the table that has the cluster's texts, beside the numbers of the same step."""
    trainer = trainer_of(kept)
    trainer.begin_step()
    trainer.end_micro_step({"loss": 1.0, "acc": "x"})
    trainer.close()
    assert kept.named("train/loss") == [(1, 1.0)] and kept.named("train/acc") == []
    assert trainer.metrics_logger.run is not None
    rows = chiplog.read(trainer.metrics_logger.run.dir).table("rollouts")
    assert [(row["step"], row["mode"], row["acc"]) for row in rows] == [(1, "train", "x")]


def test_no_batch_is_asked_for_that_is_not_needed(kept: Keeps) -> None:
    """Two steps of two micro-batches are four batches."""
    batches = iter(range(100))
    trainer = trainer_of(kept, {"max_steps": 2, "gradient_accumulation_steps": 2})
    trainer.with_step_fn(lambda batch: 1.0).train(batches)
    trainer.close()
    assert trainer.train_steps == 2 and next(batches) == 4


@pytest.mark.parametrize("rank", [0, 1])
def test_what_is_not_logged_is_named_by_the_first_rank(
    rank: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Several ranks would say the same."""
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", "2")
    PeftTrainer(object(), object()).with_step_fn(lambda batch: 1.0).train(range(2))
    assert capfd.readouterr().err.count("not logged are") == (1 if rank == 0 else 0)


def test_closing_the_logger_alone_loses_nothing(kept: Keeps) -> None:
    """What a trainer holds is written before the logger's run ends."""
    trainer = trainer_of(kept, {"gradient_accumulation_steps": 4})
    trainer.with_step_fn(float).train(range(2))
    trainer.metrics_logger.close()
    assert kept.named("train/loss") == [(1, 0.5)]


def test_a_loss_on_a_device_is_not_waited_for(kept: Keeps) -> None:
    """The step ends while the device is at work; the value is logged when it is there."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def slow(x: Any) -> Any:
        return jnp.sum(jax.lax.fori_loop(0, 30, lambda _, y: jnp.tanh(y @ y), x))

    array = jnp.full((600, 600), 1e-3)
    slow.lower(array).compile()
    trainer = trainer_of(kept)
    losses: list[Any] = []
    trainer.with_step_fn(lambda batch: losses.append(slow(array)) or losses[-1]).train(range(2))
    assert not losses[-1].is_ready() and trainer.train_steps == 2
    trainer.close()
    assert [step for step, _ in kept.named("train/loss")] == [1, 2]
    assert kept.named("train/perplexity")[0][1] == pytest.approx(math.exp(kept.named("train/loss")[0][1]))


def test_other_arguments_are_kept() -> None:
    """And a config can be copied."""
    config = TrainingConfig(eval_every_n_steps=100, checkpoint_root_directory="/ckpt")
    assert copy.deepcopy(config).checkpoint_root_directory == "/ckpt" and config.max_steps is None
    trainer = PeftTrainer(model=1, optimizer=2, training_config=config, profiler="x")
    assert (trainer.model, trainer.optimizer, trainer.others) == (1, 2, {"profiler": "x"})


def test_a_trainer_without_a_function_says_what_to_do() -> None:
    """It does not train by itself."""
    with pytest.raises(ValueError, match=r"with_step_fn\(step_fn\)"):
        PeftTrainer().train([1])
    with pytest.raises(ValueError, match="eval_fn"):
        PeftTrainer().evaluate([1])


def test_a_device_that_never_answers_does_not_hold_up_the_end(
    kept: Keeps, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """What it owes is given up, by name; the rest of the step is logged."""
    monkeypatch.setattr(metrics_logger, "PATIENCE", 0.1)

    class Stuck:
        """As a JAX array that will never be ready."""

        def is_ready(self) -> bool:
            return False

        def copy_to_host_async(self) -> None:
            pass

    trainer = trainer_of(kept)
    trainer.with_step_fn(lambda batch: {"loss": Stuck(), "grad_norm": 0.5}).train(range(2))
    trainer.close()
    assert kept.named("train/grad_norm") == [(1, 0.5), (2, 0.5)] and kept.named("train/loss") == []
    assert "loss is left out at step 1 (train): it was still on a device" in capfd.readouterr().err
