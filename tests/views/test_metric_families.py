"""Metrics and their statistics across ranks."""

from __future__ import annotations

from chiplog.views.metric_families import Family, by_importance, families, grouped

STATISTICS = ("mean", "max", "min", "std")


def test_all_statistics_belong_to_their_metric() -> None:
    """The four, counts, quantiles, ranks, and those of a statistic that somebody logged; four of them have curves."""
    kinds = (*STATISTICS, "count", "p50", "max_rank", "mean/std")
    (family,) = families(["loss", *(f"loss/{kind}" for kind in kinds)])
    assert family == Family("loss", {kind: f"loss/{kind}" for kind in kinds}) and family.group == ""
    assert tuple(family.curves) == STATISTICS


def test_statistics_alone_are_those_of_a_metric_that_another_rank_logged() -> None:
    """One alone is a metric like any other."""
    names = [f"mine/{kind}" for kind in (*STATISTICS, "count")]
    assert [(one.name, one.group) for one in families([*names, "eval/acc/mean"])] == [
        ("mine", ""),
        ("eval/acc/mean", "eval"),
    ]
    assert [one.name for one in grouped(names)[""]] == ["mine/mean"]  # each by a name that is there


def test_a_word_of_a_statistic_is_no_statistic_without_a_metric() -> None:
    assert [one.name for one in families(["mean", "train/min", "loss/lowest"])] == ["mean", "train/min", "loss/lowest"]


def test_what_matters_comes_first() -> None:
    """Losses before the rest, layers in the order of their numbers, and the machine last."""
    names = [
        "gpu/0/power",
        *(f"layers/{at}/norm" for at in range(11)),
        "reward",
        "eval/acc",
        "eval/loss",
        "train/lr",
        "train/loss",
    ]
    assert by_importance(reversed(names)) == [
        "train/loss", "train/lr", "eval/loss", "eval/acc", "reward", *(f"layers/{at}/norm" for at in range(11)), "gpu/0/power",
    ]  # fmt: skip
