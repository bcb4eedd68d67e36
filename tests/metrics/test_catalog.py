"""What is known about a metric by its name."""

from __future__ import annotations

import math

import pytest

from chiplog.metrics import catalog

LOSSES = [
    "loss", "train/loss", "eval/loss", "a/b/loss", "train_loss", "val_loss", "eval_loss", "val_output_1_loss",
    "train_loss_step", "train_loss_epoch", "val_loss/dataloader_idx_1", "Loss/train", "Loss/test", "losses/ce",
    "losses/cross_entropy", "training loss", "train/value_loss", "train/policy_gradient_loss", "train/entropy_loss",
    "loss/policy", "loss/policy_avg", "loss_eval", "moe/aux_loss", "loss_cls", "loss_rpn_bbox", "trainLoss", "evaluation_loss_vs_iterations", "smoothed/train/loss",
]  # fmt: skip
OTHERS = [
    "lossless", "loss_scale", "loss_mask", "lossScaler", "loss_time_sec", "train/loss_scale", "gloss", "train/gloss", "train/loss/mean", "train/loss/p50", "loss/max",
    "accuracy", "losses/approx_kl", "losses/entropy", "losses/clipfrac", "losses/explained_variance", "loss/scale",
    "Loss/learning_rate", "loss/step", "loss/time_sec", "losses/accuracy", "glossary/words", "", "/",
]  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_known_by_the_habits_of_people(name: str) -> None:
    """Those of Lightning, Keras, Hugging Face, TensorBoard's tutorials, TRL, Stable-Baselines3 and CleanRL."""
    assert catalog.is_loss(name) and catalog.is_watched(name) and catalog.direction(name) == "lower"


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_sounds_like_a_loss_is_none(name: str) -> None:
    """A word that ends in it, what is logged beside losses, and statistics of one."""
    assert not catalog.is_loss(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("train/loss", True), ("train/value_loss", True), ("cross_entropy_loss", True), ("alphabet/loss", True),
     ("train/policy_gradient_loss", False), ("loss/policy", False), ("train/entropy_loss", False),
     ("train/actor_loss", True), ("train/lr", False)],
)  # fmt: skip
def test_the_loss_of_a_policy_need_not_fall(name: str, expected: bool) -> None:
    assert catalog.should_fall(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("eval/accuracy", "higher"), ("top1_acc", "higher"), ("train/mfu", "higher"), ("eval/ppl", "lower"),
     ("train/lr", ""), ("reward_error", "lower"), ("lossy", ""), ("face", "")],
)  # fmt: skip
def test_which_way_is_better(name: str, expected: str) -> None:
    """Empty where nobody can say."""
    assert catalog.direction(name) == expected


def test_units_are_in_the_names() -> None:
    assert catalog.unit("train/step_time_sec") == "s" and catalog.unit("gpu/0/power") == "mW"
    assert catalog.unit("train/tokens_per_sec") == "tokens/s" and catalog.unit("train/loss") == ""


def test_every_number_of_a_gpu_has_its_unit() -> None:
    """Those that docs/telemetry.md lists; error counts and texts have none."""
    units = {
        "clock": "MHz", "max_clock": "MHz", "power": "mW", "power_limit": "mW", "energy": "mJ", "temperature": "°C",
        "temp_slowdown": "°C", "gpu_util": "%", "mem_util": "%", "fan": "%", "dram_free": "B", "dram_total": "B",
        "pcie_rx": "B/s", "pcie_tx": "B/s", "nvlink_rx": "B/s", "nvlink_tx": "B/s",
    }  # fmt: skip
    assert {name: catalog.unit(f"gpu/0/{name}") for name in units} == units


def test_people_read_watts() -> None:
    """The engine keeps milliwatts, as NVML measures them."""
    assert catalog.readable_unit("gpu/0/power") == ("W", 1000.0) and catalog.readable_unit("loss") == ("", 1.0)
    assert catalog.is_system("gpu/0/power") and not catalog.is_system("train/gpu/0")


@pytest.mark.parametrize("name", ["step", "train/epoch", "train/global_step", "iteration", "batch"])
def test_counters_say_where_a_run_is(name: str) -> None:
    assert catalog.is_counter(name) and not catalog.is_setting(name)


@pytest.mark.parametrize(
    "name", ["lr", "train/lr", "lr-AdamW", "lr/group0", "seed", "train/weight_decay", "opt/beta1", "eps"]
)
def test_settings_are_chosen_and_not_measured(name: str) -> None:
    """They have a curve, but no mean across ranks."""
    assert catalog.is_setting(name) and not catalog.is_counter(name)


@pytest.mark.parametrize("name", ["train/tokens", "epoch/loss", "flr", "stepwise", "env/reward"])
def test_most_names_are_metrics(name: str) -> None:
    assert not catalog.is_counter(name) and not catalog.is_setting(name) and not catalog.is_statistic(name)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"eval/loss": 3, "loss": 2, "train/loss": 1}, 1),
        ({"a": 0, "train_loss": 2.5, "val_loss": 3.0}, 2.5),
        ({"Loss/test": 4.0, "Loss/train": 3.0}, 3.0),
        ({"train/value_loss": 1.5, "train/approx_kl": 0.1}, 1.5),
        ({"accuracy": 0.5, "train/gloss": 1.0}, None),
        ({"train_loss": "inf", "val_loss": 1.0}, math.inf),
        ({"loss": "diverged"}, None),
        ({}, None),
    ],
)
def test_the_loss_among_several(values: dict[str, float | str], expected: float | None) -> None:
    """That of training before that of evaluation, then any."""
    assert catalog.pick_loss(values) == expected


def test_a_loss_that_is_nan_is_the_loss() -> None:
    """The run has diverged, and its list says so."""
    assert math.isnan(catalog.pick_loss({"train_loss": "nan"}) or 0.0)


def test_what_counts_tokens() -> None:
    """A total before the tokens of each step."""
    assert catalog.progress_name("tokens", ["tokens", "train/tokens_seen"]) == "train/tokens_seen"
    assert catalog.progress_name("tokens", ["loss", "train/tokens"]) == "train/tokens"
    assert catalog.progress_name("epoch", ["loss"]) is None and catalog.progress_name("loss", ["loss"]) is None
