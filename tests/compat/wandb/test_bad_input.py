"""Nothing raises into a training loop, and what is lost is reported once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chiplog
import chiplog.compat.wandb as wandb


@pytest.fixture(autouse=True)
def no_run_left() -> Iterator[None]:
    yield
    wandb.finish()


class Hostile:
    """An object whose every method raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("hostile")

    def __float__(self) -> float:
        raise RuntimeError("hostile")

    def __repr__(self) -> str:
        raise RuntimeError("hostile")


@pytest.mark.parametrize(
    "data",
    [None, [1], "text", 5, {1: 2, None: 3, (1, 2): 4}, {"x": None}, {"x": Hostile()}, {"x": {"y": Hostile()}}, {"x": object()}, {"x": float("nan")}, {}],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_log_takes_anything(data: Any) -> None:
    """A call with anything at all returns, and the next row is kept."""
    run = wandb.init(id="bad")
    wandb.log(data)
    wandb.log({"good": 1})
    run.finish()
    assert chiplog.read("bad").series("good").values.tolist() == [1]


@pytest.mark.parametrize(
    "step",
    ["a", 2.5, -1, float("nan"), float("inf"), None, Hostile(), 10**30, True],
    ids=lambda one: type(one).__name__,
)
def test_a_step_may_be_anything(step: Any) -> None:
    """A step that is not a whole number costs no row."""
    run = wandb.init(id="bad")
    wandb.log({"x": 1}, step=step)
    run.finish()
    assert chiplog.read("bad").series("x").values.tolist() == [1]


def test_media_of_anything(tmp_path: Path) -> None:
    """Media that cannot be made are reported, and the rest of the row is kept."""
    run = wandb.init(id="bad")
    for thing in (None, "absent.png", Hostile(), object(), [], {}, [[None]], b"bytes"):
        for kind in (
            wandb.Image,
            wandb.Histogram,
            wandb.Html,
            wandb.Video,
            wandb.Audio,
            wandb.Plotly,
            wandb.Object3D,
            wandb.Molecule,
        ):
            run.log({"media": kind(thing), "kept": 1})
        run.log({"table": wandb.Table(data=thing), "kept": 1})
    run.finish()
    assert len(chiplog.read("bad").series("kept")) == 8 * 9


def test_calls_out_of_order(capfd: pytest.CaptureFixture[str]) -> None:
    """Before `init` and after `finish`, twice or not at all, calls return and are reported once."""
    for _ in range(2):
        wandb.log({"x": 1})
        wandb.define_metric("x")
        wandb.config.update({"early": 1})
        wandb.summary["x"] = 1
        wandb.save("x")
        wandb.watch(None)
        wandb.finish()
    run = wandb.init()
    assert run.config.early == 1  # kept for the run that follows
    run.finish()
    run.finish()
    for _ in range(2):
        run.log({"x": 1})
        run.log({"x": wandb.Table()})
        run.summary["x"] = 1
        run.config.x = 1
        run.alert("title")
        run.watch(None)
        run.use_artifact("absent")
    said = capfd.readouterr().err
    assert said.count("wandb.log before wandb.init") == 1


def test_names_that_do_not_exist_are_inert(capfd: pytest.CaptureFixture[str]) -> None:
    """A name of W&B's client that the stand-in lacks can be called, and is reported once."""
    run = wandb.init()
    for _ in range(3):
        wandb.some_new_thing(1, x=2).deeper().name  # noqa: B018
        with run.another_thing() as context:
            context.call()
        for _ in wandb.lists_nothing():
            raise AssertionError
    said = capfd.readouterr().err
    assert said.count("wandb.some_new_thing is accepted and not kept") == said.count("run.another_thing") == 1
    with pytest.raises(AttributeError):
        wandb.__wrapped__  # noqa: B018  tools look for such names


def test_a_forked_worker_costs_nothing() -> None:
    """In a forked child `log` returns, and only the parent's rows are kept."""
    run = wandb.init(id="parent")
    wandb.log({"x": 1})
    if (child := os.fork()) == 0:
        try:
            wandb.log({"x": 2})
            wandb.log({"x": 3, "text": "a"})
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    wandb.log({"x": 4})
    run.finish()
    assert chiplog.read("parent").series("x").values.tolist() == [1, 4]


def test_sweeps_name_the_alternative() -> None:
    """A sweep cannot work without a server, and says so where it is called."""
    for call in (wandb.sweep, wandb.agent):
        with pytest.raises(wandb.errors.UnsupportedError, match="Optuna"):
            call({"method": "grid"}, function=print)
