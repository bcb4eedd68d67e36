"""The metrics of fine-tuning and reinforcement learning, each by its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from chiplog.metrics import rl
from chiplog.metrics.step_values.reducers import reduce


def reduced(metrics: Any) -> dict[str, Any]:
    return {name: reduce([value], reducer) for name, (value, reducer) in metrics.items()}


def test_rewards_leave_out_what_was_not_judged() -> None:
    """B7: sum and mean pass over NaN; each function is there by its name."""
    found = reduced(rl.rewards([[1, math.nan], [2, 4]], ["format", "answer"]))
    assert found["rewards/sum"] == 3.5 and found["rewards/mean"] == 2.0
    assert found["rewards/format"] == 1.5 and math.isnan(found["rewards/answer"])
    assert math.isnan(found["rewards/max"]) and math.isnan(found["rewards/min"])


def test_a_prompt_that_nobody_judged_has_no_mean() -> None:
    """Its sum is nothing, its mean is not a number, and no warning is raised."""
    found = rl.rewards([[math.nan, math.nan], [2, 4]])
    assert found["rewards/sum"][0].tolist() == [0, 6] and math.isnan(found["rewards/mean"][0][0])


def test_no_rewards_are_no_metrics() -> None:
    """An empty rollout says nothing."""
    assert rl.rewards(np.zeros((0, 2))) == {} and rl.statistics("score", []) == {} and rl.lengths([]) == {}


def test_rewards_of_one_function_may_be_a_list() -> None:
    """One number a prompt is a table of one column."""
    found = reduced(rl.rewards([1.0, 3.0], ["answer"]))
    assert found == {
        "rewards/sum": 2.0, "rewards/mean": 2.0, "rewards/max": 3.0, "rewards/min": 1.0, "rewards/answer": 2.0,
    }  # fmt: skip


@pytest.mark.parametrize("group", ["score", "advantages", "returns", "values"])
def test_statistics_count_only_what_the_mask_selects(group: str) -> None:
    """Mean, max and min of tokens that belong to a completion."""
    found = reduced(rl.statistics(group, [[1, 2, 90], [3, -90, -90]], [[1, 1, 0], [1, 0, 0]]))
    assert found == {f"{group}/mean": 2.0, f"{group}/max": 3.0, f"{group}/min": 1.0}


def test_lengths_are_of_masks_or_of_numbers() -> None:
    """Tokens that are not padding."""
    expected = {"completions/mean_length": 2.0, "completions/max_length": 3.0, "completions/min_length": 1.0}
    assert reduced(rl.lengths([[1, 1, 1], [1, 0, 0]])) == expected
    assert reduced(rl.lengths([3, 1])) == expected


def test_the_kl_penalty_is_a_mean_of_means() -> None:
    """Each sequence counts once, however long it is."""
    assert reduced(rl.kl_penalty([[1, 3, 0], [4, 0, 0]], [[1, 1, 0], [1, 0, 0]])) == {"reward_kl_penalty": 3.0}


def test_a_clip_fraction_is_the_share_of_clipped_tokens() -> None:
    """Where the clipped loss is the larger one, of the tokens the mask selects."""
    assert rl.clip_fraction([1, 1, 1, 1], [2, 1, 0, 9], [1, 1, 1, 0]) == pytest.approx(1 / 3)
    assert rl.clip_fraction([1], [2], [0]) == 0.0


def _tensor(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bfloat16, requires_grad=True)


def test_tensors_are_taken_as_they_are() -> None:
    """Also those that numpy refuses: of a type it has not, or with a gradient to come."""
    table, mask = torch.stack([_tensor([1.0, 3.0]), _tensor([2.0, 6.0])]), torch.tensor([[1, 1], [1, 0]])
    assert reduced(rl.rewards(table, ["a", "b"]))["rewards/b"] == 4.5
    assert reduced(rl.statistics("values", table, mask))["values/mean"] == 2.0
    assert reduced(rl.lengths(mask))["completions/max_length"] == 2.0
    assert reduced(rl.kl_penalty(table, mask)) == {"reward_kl_penalty": 2.0}
    assert rl.clip_fraction(table, table + 1, mask) == 1.0
    assert rl.entropy(torch.log_softmax(torch.zeros(3, 2, requires_grad=True), -1)) == pytest.approx(math.log(2))


@pytest.mark.parametrize("kind", [list, np.asarray, _tensor])
def test_sequences_may_have_different_lengths(kind: Any) -> None:
    """As they are before anybody pads them, with or without masks."""
    ragged = [kind([1.0, 3.0]), kind([8.0])]
    assert reduced(rl.statistics("score", ragged)) == {"score/mean": 4.0, "score/max": 8.0, "score/min": 1.0}
    masked = rl.statistics("score", ragged, [kind([1, 0]), kind([1])])
    assert reduced(masked) == {"score/mean": 4.5, "score/max": 8.0, "score/min": 1.0}
    assert reduced(rl.kl_penalty(ragged)) == {"reward_kl_penalty": 5.0}
    assert reduced(rl.kl_penalty(ragged, [kind([0, 1]), kind([1])])) == {"reward_kl_penalty": 5.5}
    assert rl.clip_fraction(ragged, [kind([2.0, 2.0]), kind([9.0])]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError):
        rl.statistics("score", ["high", "low"])


def test_the_entropy_of_a_coin_is_log_two() -> None:
    """A certain token has none, also where a probability is exactly 0."""
    coin = np.log([[0.5, 0.5]])
    certain = np.array([[0.0, -np.inf]])
    assert rl.entropy(coin) == pytest.approx(math.log(2))
    assert rl.entropy(certain) == 0.0
    assert rl.entropy(np.concatenate([coin, certain]), [1, 0]) == pytest.approx(math.log(2))


def test_perplexity_is_the_exponential_of_the_loss() -> None:
    """Beyond all doubles it is infinite, and of an array it is an array."""
    assert rl.perplexity(2.5) == math.exp(2.5) and rl.perplexity(1e6) == math.inf
    assert rl.perplexity(np.float64(2.5)) == pytest.approx(math.exp(2.5))


def test_step_times_have_their_inverse_and_their_flops() -> None:
    """A15: half a second with 2·10¹² FLOPs; what is not known is left out."""
    assert rl.step_times(0.5, 2e12) == {"step_time_sec": 0.5, "steps_per_sec": 2.0, "tflops_per_step": 2.0}
    assert rl.step_times(0.0) == {"step_time_sec": 0.0}
