"""The metrics of fine-tuning and reinforcement learning, each by its formula; numbers are those of the acceptance list."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import pytest
import torch

from chiplog.metrics import rl
from chiplog.metrics.reducers import Texts, reduce
from chiplog.metrics.step_buffer import Buffer
from chiplog.metrics.value_history import ValueHistory
from chiplog.metrics.weighted_means import WeightedMetric, global_weighted_mean, mean_of_means


def reduced(metrics: Any) -> dict[str, float]:
    return {name: reduce([value], reducer) for name, (value, reducer) in metrics.items()}


def only(buffer: Buffer, **kwargs: Any) -> Any:
    (found,) = buffer.drain(**kwargs)
    return found


# -- formulas ----------------------------------------------------------------------------------------------------------


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
    """Tokens that are no padding."""
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


def test_documented_and_emitted_names_know_each_other() -> None:
    """Whoever asks by one name finds what was logged by the other."""
    assert rl.other_names("score/mean") == ("rewards/score/mean",)
    assert rl.other_names("advantages/old_values/max") == ("values/max",)
    assert rl.other_names("loss") == ()


# -- weighted values ---------------------------------------------------------------------------------------------------


def test_a_weighted_mean_counts_tokens() -> None:
    """A16: (1, 1) and (9, 3) are 10 / 4; the mean of their means would be 2."""
    metrics = [WeightedMetric(1, 1), WeightedMetric(9, 3)]
    assert global_weighted_mean(metrics) == 2.5 == reduce(metrics)
    assert mean_of_means(metrics) == 2.0 == reduce(metrics, mean_of_means)


def test_a_denominator_has_its_bounds() -> None:
    """eps is added, min_denom is the least; nothing is never divided by."""
    assert WeightedMetric(6, 2, eps=1.0).compute() == 2.0
    assert WeightedMetric(6, 0, min_denom=3.0).compute() == 2.0
    assert WeightedMetric(6, 0).compute() == 0.0 == global_weighted_mean([])


def test_weights_that_differ_are_an_error() -> None:
    """Mixed with plain numbers, or with other bounds."""
    with pytest.raises(TypeError, match="some values are weighted"):
        global_weighted_mean([WeightedMetric(1, 1), 2.0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="one eps"):
        global_weighted_mean([WeightedMetric(1, 1), WeightedMetric(1, 1, eps=1.0)])


# -- reducing ----------------------------------------------------------------------------------------------------------


def test_ragged_lists_count_by_their_elements() -> None:
    """B5: [1, 2] and [1, 2, 3] have the mean 1.8; empty ones have nothing to say."""
    assert reduce([[1, 2], [1, 2, 3]], np.mean) == pytest.approx(1.8)
    assert reduce([[], [[1, [2]], 3]], np.max) == 3
    assert reduce([[], np.zeros(0)], np.mean) is None


def test_a_reducer_is_called_once_with_everything() -> None:
    """Any callable, with one flat array."""
    seen = []
    assert reduce([1, [2, 3]], lambda array: seen.append(array.tolist()) or array[-1]) == 3
    assert seen == [[1, 2, 3]]


def test_without_a_reducer_it_is_the_mean() -> None:
    """Of one value that is the value."""
    assert reduce([4.0]) == 4.0 and reduce([1, 2]) == 1.5


def test_texts_stay_texts() -> None:
    """Also in an array; beside numbers they are a mistake."""
    assert reduce([["a"], np.array(["b"])]) == Texts(["a", "b"])
    with pytest.raises(TypeError, match="1 of its 2 values are texts"):
        reduce([["a", 1]])


def test_a_reducer_that_gives_no_number_is_named() -> None:
    """So that its owner finds it."""
    with pytest.raises(TypeError, match="reducer cumsum gave no number"):
        reduce([1, 2], np.cumsum)


# -- the buffer --------------------------------------------------------------------------------------------------------


def test_a_step_is_given_out_when_it_is_complete() -> None:
    """B1: and each value is in it once."""
    buffer = Buffer()
    for score, most in ((1.0, [1, 2]), (2.0, [3, 9])):
        buffer.add({"rewards/score/mean": (score, np.mean), "m": (most, np.max)}, "train", 0)
    assert buffer.drain() == []
    buffer.add({"m": (0, np.max)}, "train", 1)
    buffer.complete(before=1)
    found = only(buffer)
    assert (found.step, found.mode, found.row) == (0, "train", {"rewards/score/mean": 1.5, "m": 9})
    assert buffer.drain() == [] and len(buffer) == 1


def test_steps_may_come_in_any_order() -> None:
    """B3: 0, 1, 0 are two steps, and step 0 has both of its values."""
    buffer = Buffer()
    for step, value in ((0, 1.0), (1, 5.0), (0, 3.0)):
        buffer.add({"x": (value, np.mean)}, "train", step)
    buffer.complete()
    assert [(one.step, one.row["x"]) for one in buffer.drain()] == [(0, 2.0), (1, 5.0)]


def test_train_and_eval_are_apart() -> None:
    """B2: eval may come first, and has its own record."""
    buffer = Buffer()
    buffer.add({"x": (1.0, None)}, "eval", 0)
    buffer.add({"x": (2.0, None)}, "train", 0)
    buffer.complete()
    assert [(one.mode, one.row["x"]) for one in buffer.drain()] == [("eval", 1.0), ("train", 2.0)]


def test_texts_become_rows_of_a_table() -> None:
    """B4: prompts, completions and ids beside each other, however many calls they came in."""
    buffer = Buffer()
    buffer.add(rl.samples(["p0", "p1"], ["c0", "c1"]), "train", 3)
    for ident in ("0_0", "0_1"):
        buffer.add({"trajectory_ids": (ident, None)}, "train", 3)
    buffer.complete()
    found = only(buffer)
    assert found.row == {}
    assert found.samples == [
        {"prompt": "p0", "completion": "c0", "trajectory_id": "0_0"},
        {"prompt": "p1", "completion": "c1", "trajectory_id": "0_1"},
    ]


def test_what_cannot_be_reduced_is_named_and_the_rest_is_kept() -> None:
    """Nothing is dropped in silence."""
    buffer = Buffer()
    buffer.add({"bad": ([1, "a"], np.mean), "good": (1.0, None), "worse": (object(), None)}, "train", 0)
    buffer.complete()
    found = only(buffer)
    assert found.row == {"good": 1.0} and set(found.troubles) == {"bad", "worse"}


def test_a_value_on_a_device_is_not_waited_for() -> None:
    """Its step comes when it has arrived; at the end it is given up, by name, and the rest of its step is kept."""
    away = {7.0}
    buffer = Buffer(lambda value: value in away)
    buffer.add({"x": (7.0, None)}, "train", 0)
    buffer.add({"x": (8.0, None)}, "train", 1)
    buffer.complete()
    assert only(buffer).step == 1
    away.clear()
    assert only(buffer).row == {"x": 7.0}
    away.add(9.0)
    buffer.add({"x": (9.0, None), "y": (1.0, None)}, "train", 2)
    buffer.complete()
    assert buffer.drain() == []
    last = only(buffer, rest=True)
    assert last.row == {"y": 1.0} and last.troubles == {"x": "it was still on a device"}


def test_threads_may_add_at_once() -> None:
    """Every value is counted."""
    buffer = Buffer()

    def add() -> None:
        for _ in range(500):
            buffer.add({"x": (1, np.sum)}, "train", 0)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    buffer.complete()
    assert only(buffer).row == {"x": 2000}


# -- the history -------------------------------------------------------------------------------------------------------


def test_a_history_has_its_means() -> None:
    """A1, A2: the arithmetic one, and the geometric one of perplexities."""
    history = ValueHistory(lambda _: False)
    for value in (10, np.float32(1000)):
        history.append(value)
    assert history.mean() == 505.0 and history.geometric_mean() == pytest.approx(100)
    history.append(0.0)
    assert history.values().tolist() == [10.0, 1000.0, 0.0] and history.geometric_mean() == 0.0


def test_a_mean_costs_only_what_is_new() -> None:
    """Asking after every value of a long run is no matter."""
    history = ValueHistory(lambda _: False)
    for number in range(20_000):
        history.append(float(number))
        assert history.mean() == number / 2


def test_a_history_waits_for_a_device_only_when_asked() -> None:
    """And then has the value in its place."""
    away = [True]
    history = ValueHistory(lambda value: away[0] and isinstance(value, np.ndarray))
    history.append(np.array(2.0))
    history.append(1.0)
    assert len(history) == 2
    assert history.values().tolist() == [2.0, 1.0]


def test_what_is_no_number_is_no_history() -> None:
    """It is said, and nothing is appended."""
    history = ValueHistory(lambda _: False)
    with pytest.raises(TypeError, match="is not a number"):
        history.append("a")
    assert len(history) == 0 and math.isnan(history.mean())
