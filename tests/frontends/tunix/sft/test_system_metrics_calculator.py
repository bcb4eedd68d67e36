"""The floating point operations of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chiplog.frontends.tunix.sft import system_metrics_calculator
from chiplog.frontends.tunix.sft.peft_trainer import PeftTrainer, TrainingConfig


def test_the_operations_of_a_jitted_step_are_measured(capfd: pytest.CaptureFixture[str]) -> None:
    """By its compiler; of what is not jitted nothing is known, which is reported once."""
    import jax
    import jax.numpy as jnp

    def step(model: Any, optimizer: Any, batch: Any) -> Any:
        return model["w"] @ batch["x"] + optimizer

    model, batch = {"w": jnp.ones((8, 16))}, {"x": jnp.ones((16, 4))}
    measured = system_metrics_calculator.measure_tflops_per_step(
        train_step_fn=jax.jit(step), model=model, optimizer=1.0, train_example=batch
    )
    assert measured == pytest.approx(2 * 8 * 16 * 4 / 1e12, rel=0.1)
    assert system_metrics_calculator.measure_tflops_per_step(step, model, 1.0, batch) is None
    assert "not a jitted function" in capfd.readouterr().err


def test_the_rate_is_estimated_from_the_parameters() -> None:
    """6 × parameters × batch / seconds; 0 where there is nothing to divide."""
    rate = system_metrics_calculator.approximate_tflops_per_second
    assert rate(total_model_params=1_000_000, global_batch_size=8, step_time_delta=0.5) == pytest.approx(9.6e-5)
    assert rate(0, 8, 0.5) == rate(10, 8, 0.0) == 0.0


def torch_model() -> Any:
    import torch

    return torch.nn.Linear(10, 10, bias=False)


def jax_model() -> Any:
    import jax.numpy as jnp

    return {"layers": [{"w": jnp.ones((5, 10))}, {"w": jnp.ones((10, 5))}]}


@pytest.mark.parametrize("model", [torch_model, jax_model])
def test_a_known_model_has_its_operations(model: Callable[[], Any]) -> None:
    """`tflops_per_step` is there at every step without anybody counting: from tokens, or else from examples."""
    trainer = PeftTrainer(model(), None, TrainingConfig(gradient_accumulation_steps=2))
    trainer.with_step_fn(lambda batch: 1.0).train([{"input_tokens": np.ones((4, 32), dtype=np.int32)}] * 4)
    found = trainer.metrics_logger.get_metric_history("", "tflops_per_step", "train")
    assert found.tolist() == pytest.approx([6 * 100 * 4 * 32 * 2 / 1e12] * 2)
    own = PeftTrainer(model(), None, TrainingConfig(mini_batch_size=8))
    own.begin_step()
    own.end_micro_step(1.0)
    own.begin_step()
    own.end_micro_step(1.0, np.ones((3, 7)))
    own.flush()
    assert own.metrics_logger.get_metric_history("", "tflops_per_step", "train").tolist() == pytest.approx(
        [6 * 100 * 8 / 1e12, 6 * 100 * 3 / 1e12]
    )


def test_a_jitted_step_function_is_counted_by_its_compiler() -> None:
    """And of a model that nobody knows nothing is guessed."""
    import jax
    import jax.numpy as jnp

    trainer = PeftTrainer("model").with_step_fn(jax.jit(lambda x: (x @ x.T).mean()))
    trainer.train([jnp.ones((8, 16))] * 2)
    trainer.flush()
    found = trainer.metrics_logger.get_metric_history("", "tflops_per_step", "train")
    assert found.tolist() == pytest.approx([2 * 8 * 8 * 16 / 1e12] * 2, rel=0.1)
    unknown = PeftTrainer("model").with_step_fn(lambda batch: 1.0)
    unknown.train([1])
    assert not unknown.metrics_logger.metric_exists("", "tflops_per_step", "train")
