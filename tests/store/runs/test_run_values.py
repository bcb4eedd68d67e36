"""What runs can be asked for."""

from __future__ import annotations

import pytest

import chiplog
from chiplog.core.errors import BadQuery, RunNotFound


@pytest.fixture(autouse=True)
def sweep() -> None:
    for number, lr in enumerate((1e-4, 1e-3, 1e-2)):
        with chiplog.init("sweep", id=f"r{number}", config={"lr": lr, "model": {"dim": 8}}, sinks="none") as run:
            run.eval({"loss": 1 / (number + 1)}, step=0)
            for step in range(300):  # the evaluation is far from the end
                run.log({"train/loss": 1.0, "train/norm": 1.0}, step=step)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("", ["r0", "r1", "r2"]),
        ("lr>0.0005 and state=finished", ["r1", "r2"]),
        ("eval/loss<0.6 -id=r2", ["r1"]),
        ("dim=8 model/dim=8 model.dim=8 norm=1 step=299 lr<=1e-4", ["r0"]),
        ("config.lr=1e-2 metric.train/loss=1", ["r2"]),
        ("state=failed", []),
    ],
)
def test_runs_are_chosen_in_python(where: str, ids: list[str]) -> None:
    """By settings, metrics and fields, in full or by their last word."""
    assert [run.id for run in chiplog.runs("runs", where=where)] == ids


def test_a_loss_is_found_whatever_runs_call_it() -> None:
    """A run that calls its loss `loss` does not hide those of others."""
    with chiplog.init("other", id="plain", sinks="none") as run:
        run.log({"loss": 3.0})
    assert [run.id for run in chiplog.runs("runs", where="loss>=1")] == ["r0", "r1", "r2", "plain"]


@pytest.mark.parametrize(
    ("where", "message"),
    [("lrr=1", "no run has a setting or metric 'lrr'; did you mean 'lr'"), ("los=1", "did you mean 'loss'")],
)
def test_an_unknown_key_is_an_error(where: str, message: str) -> None:
    """An empty list would look like an answer."""
    with pytest.raises(BadQuery, match=message):
        chiplog.runs("runs", where=where)


def test_a_directory_or_project_that_does_not_exist_is_an_error() -> None:
    """The default directory may not exist yet."""
    with pytest.raises(RunNotFound, match="no directory 'nosuchdir'"):
        chiplog.runs("nosuchdir")
    with pytest.raises(RunNotFound, match="no project 'swep' under runs; did you mean 'sweep'"):
        chiplog.runs("runs", "swep")


def test_a_series_rank_or_attempt_that_does_not_exist_is_an_error() -> None:
    """An empty series would look like one without points."""
    run = chiplog.read("r0")
    with pytest.raises(KeyError, match="has no series 'train/los'; did you mean 'train/loss'"):
        run.series("train/los")
    with pytest.raises(KeyError, match="has no rank 7; available: 0"):
        run.series("train/loss", rank=7)
    with pytest.raises(KeyError, match="has no attempt 9; available: 1"):
        run.series("train/loss", attempt=9)
    assert len(run.series("other", missing_ok=True)) == 0
