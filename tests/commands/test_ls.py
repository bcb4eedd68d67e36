"""`chiplog ls`."""

from __future__ import annotations

import json

import pytest

import chiplog

from .conftest import Cli


@pytest.mark.usefixtures("path")
def test_a_run_is_a_line(cli: Cli) -> None:
    """Project, id, name, state, step and loss of a run stand in one line."""
    code, out, _ = cli("ls")
    assert code == 0
    head, line = out.splitlines()
    assert head.split() == ["project", "id", "name", "state", "started", "ran", "step", "loss"]
    assert line.split()[:5] == ["tiny-lm", "first", "a", "try", "finished"]
    assert line.split()[-2:] == ["49", "0.04"]


@pytest.mark.parametrize("name", ["train_loss", "Loss/train", "losses/ce", "train/value_loss"])
def test_a_loss_has_its_column_by_whatever_name(cli: Cli, name: str) -> None:
    """As Lightning, TensorBoard's tutorials and Stable-Baselines3 call theirs."""
    with chiplog.init(project="p", id="one", sinks="none") as run:
        run.log({"loss_scale": 1024.0, name: 2.5}, step=7)
    assert cli("ls")[1].splitlines()[-1].split()[-2:] == ["7", "2.5"]


@pytest.mark.usefixtures("path")
def test_the_newest_is_last(cli: Cli) -> None:
    """The newest run is where the eye is: at the end."""
    chiplog.init(project="other", id="second", sinks="none").finish()
    lines = cli("ls")[1].splitlines()
    assert "first" in lines[-2] and "second" in lines[-1]


@pytest.mark.usefixtures("path")
def test_only_the_newest(cli: Cli) -> None:
    """`-n 1` lists the newest run alone."""
    chiplog.init(project="other", id="second", sinks="none").finish()
    out = cli("ls", "-n", "1")[1]
    assert "second" in out and "first" not in out


@pytest.mark.usefixtures("path")
def test_one_project_alone(cli: Cli) -> None:
    """With a project only its runs are listed."""
    chiplog.init(project="other", id="second", sinks="none").finish()
    out = cli("ls", "other")[1]
    assert "second" in out and "first" not in out


def test_no_runs_are_no_error(cli: Cli) -> None:
    """An empty directory gives a hint and exit code 0."""
    code, out, _ = cli("ls")
    assert code == 0
    assert "chiplog demo" in out


@pytest.mark.usefixtures("path")
def test_as_json(cli: Cli) -> None:
    """`--json` has the same facts as data."""
    (line,) = json.loads(cli("ls", "--json")[1])
    assert (line["id"], line["state"], line["step"], line["loss"]) == ("first", "finished", 49, 0.04)


def test_a_running_run(cli: Cli) -> None:
    """A run that is still open is running."""
    run = chiplog.init(project="live", id="now", sinks="none")
    assert "running" in cli("ls")[1]
    run.finish()
    assert "finished" in cli("ls")[1]


@pytest.mark.usefixtures("path")
def test_a_pruned_run_is_listed(cli: Cli) -> None:
    """A run whose journal was compressed is listed with its state."""
    cli("compact", "--prune")
    assert "finished" in cli("ls")[1]


def test_hostile_names_do_nothing(cli: Cli) -> None:
    """Escape sequences in a name reach the terminal as text."""
    chiplog.init(project="live", name="\x1b[2J\x1b]0;owned\x07", sinks="none").finish()
    out = cli("ls")[1]
    assert "\x1b" not in out and "\x07" not in out
    assert "\\x1b[2J" in out
