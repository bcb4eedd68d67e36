"""Which metrics of a run belong together."""

from __future__ import annotations

import numpy as np
import pytest

import chiplog
from chiplog.views.metric_groups import assign, recorded

ALL, FEW = np.arange(10), np.array([3, 6, 9])


@pytest.mark.parametrize(
    ("steps", "groups"),
    [
        ({"loss": ALL, "acc": FEW}, {"loss": "", "acc": ""}),
        ({"train/loss": ALL, "eval/acc/mean": FEW}, {"train/loss": "train", "eval/acc/mean": "eval"}),
        ({"train/loss": ALL, "lr": ALL, "eval/loss": FEW}, {"train/loss": "train", "lr": "train", "eval/loss": "eval"}),
        ({"train/loss": ALL, "eval/loss": ALL, "lr": ALL}, {"train/loss": "train", "eval/loss": "eval", "lr": ""}),
        ({"train/loss": FEW, "lr": ALL}, {"train/loss": "train", "lr": ""}),
        ({"loss": ALL, "grad/norm": FEW, "grad/clip/share": FEW}, {"loss": "", "grad/norm": "", "grad/clip/share": ""}),
        ({"loss": FEW, "actor/loss": ALL, "critic/loss": ALL}, {"loss": "", "actor/loss": "actor", "critic/loss": "critic"}),
        ({"loss": ALL, "grad/norm": ALL, "eval/loss": FEW}, {"loss": "", "grad/norm": "", "eval/loss": "eval"}),
        ({"train/loss": ALL, "lr": ALL, "optim/norm": ALL}, {"train/loss": "train", "lr": "train", "optim/norm": "optim"}),
        ({}, {}),
    ],
    ids=[
        "no groups", "two phases", "beside one phase", "beside two", "beside none", "a mapping in a row", "not a mapping",
        "a mapping and a phase", "a phase first", "nothing",
    ],
)  # fmt: skip
def test_the_steps_say_what_belongs_together(steps: dict[str, np.ndarray], groups: dict[str, str]) -> None:
    assert assign(steps) == groups


def test_what_was_logged_is_told_from_events_and_notes() -> None:
    """Also where an event and a metric share a name; what is noted about the run as a whole is in neither."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        for step in range(3):
            run.log({"loss": 1.0, "timings/forward": 0.1, "ranks/slowest": 0, "StopWatch/a/dt": 0.1}, step=step)
            run.event("gpu", id=0, power=3.0)
        run.event("timings", forward=2.0, train=5.0)
        run.event("env_info", world=2)
    read = chiplog.read(run.dir)
    logged, beside = recorded(read, read.contents())
    assert [family.name for family in logged] == ["loss", "timings/forward"]
    assert {family.name for family in beside} == {"ranks/slowest", "StopWatch/a/dt", "gpu/0/power"}


def test_the_numbers_of_a_router_are_logged() -> None:
    """They are an event in the journal, beside the matrix of loads."""
    with chiplog.init(project="p", sinks="none", alerts=False) as run:
        run.log({"moe/load": chiplog.Matrix([[1.0, 2.0]])}, step=0)
        run.event("moe", step=0, balance=0.9)
    read = chiplog.read(run.dir)
    assert [family.name for family in recorded(read, read.contents()).logged] == ["moe/balance"]
