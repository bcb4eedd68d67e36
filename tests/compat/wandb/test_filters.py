"""The filters of `Api().runs`: MongoDB's operators over the values of a run."""

from __future__ import annotations

from typing import Any

import pytest

from chiplog.compat.wandb.filters import matches, within

RUN: dict[str, Any] = {
    "state": "finished",
    "tags": ["base", "long"],
    "config": {"lr": 0.1, "model": {"dim": 64}},
    "summary_metrics": {"loss": 0.5},
    "name": "one",
}


@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"state": "finished", "displayName": "one"},
        {"tags": "base"},
        {"tags": {"$in": ["base", "x"]}},
        {"config.lr": {"$gte": 0.1, "$lt": 1}},
        {"config.model.dim.value": 64},
        {"summary_metrics.loss": {"$exists": True}, "config.seed": {"$exists": False}},
        {"name": {"$regex": "^o"}},
        {"$or": [{"state": "failed"}, {"config.lr": 0.1}]},
        {"$and": [{"state": "finished"}, {"$not": {"name": "two"}}]},
        {"config.lr": {"$not": {"$gt": 1}}},
    ],
)
def test_a_run_that_fits_is_selected(filters: dict[str, Any]) -> None:
    """By names, paths, ranges, lists and combinations."""
    assert matches(filters, lambda key: within(RUN, key))


@pytest.mark.parametrize(
    "filters",
    [
        {"state": "failed"},
        {"config.seed": {"$gt": 0}},
        {"config.seed": None},
        {"tags": {"$nin": ["base"]}},
        {"$or": []},
        {"$nor": [{"state": "failed"}, {"name": "one"}]},
        {"name": {"$regex": "^n"}},
    ],
)
def test_a_run_that_does_not_fit_is_left_out(filters: dict[str, Any]) -> None:
    """A value that is not there is neither large nor small."""
    assert not matches(filters, lambda key: within(RUN, key))


def test_an_operator_that_is_not_supported_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """And selects nothing, rather than everything."""
    assert not matches({"name": {"$near": 1}}, lambda key: within(RUN, key))
    assert "'$near'" in capsys.readouterr().err
