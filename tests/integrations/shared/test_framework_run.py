"""Which run a framework's hooks write to, and what happens when they are called in odd ways."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import chiplog
from chiplog.integrations.shared.framework_run import FrameworkRun


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    return {"dir": tmp_path, "project": "p", "sinks": "none"}


def test_a_run_of_its_own_is_started_and_ended(settings: dict[str, object], tmp_path: Path) -> None:
    """The first row starts it; the framework's settings give way to the user's; the end has a state and a reason."""
    hooks = FrameworkRun("keras", name="mine", **settings)
    hooks.start({"lr": 0.1}, name="theirs", tags=["a"])
    hooks.log({"loss": 1.0}, 3)
    assert hooks.own and chiplog.run is hooks.run
    hooks.end(ValueError("bad"))
    hooks.end()
    [path] = (tmp_path / "p").iterdir()
    stored = chiplog.read(path)
    assert (stored.name, stored.config["lr"], stored.tags) == ("mine", 0.1, ("a",))
    assert (stored.state, stored.attempts[-1].finish.reason) == ("failed", "ValueError: bad")
    assert stored.series("loss").steps.tolist() == [3]


def test_the_current_run_is_used_and_left_open(settings: dict[str, object]) -> None:
    """A script that has a run keeps it."""
    with chiplog.init(**settings) as run:
        hooks = FrameworkRun("keras")
        assert hooks.start({"lr": 0.1}) is run and not hooks.own
        hooks.log({"loss": 1.0})
        hooks.end()
        assert not run.inert and run.config["lr"] == 0.1
        apart = FrameworkRun("optuna", **settings)
        assert apart.start(apart=True) is not run and chiplog.run is run
        apart.end(state="pruned")


def test_a_setting_that_is_wrong_does_not_stop_training(
    settings: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported once, and nothing is kept."""
    hooks = FrameworkRun("keras", **{**settings, "sinks": "wandbb"})
    for _ in range(3):
        hooks.log({"loss": 1.0})
    hooks.end()
    [line] = capsys.readouterr().err.splitlines()
    assert "keras: no run could be started" in line and "wandbb" in line


def test_a_variable_that_is_wrong_does_not_stop_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even the run that keeps nothing needs the settings."""
    monkeypatch.setenv("CHIPLOG_SINK", "csv")
    hooks = FrameworkRun("keras")
    hooks.start()
    hooks.log({"loss": 1.0})
    hooks.end()
    [line] = capsys.readouterr().err.splitlines()
    assert "no run could be started" in line and "'sink'" in line


def test_what_the_user_has_set_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arguments, then variables, then what the framework suggests."""
    monkeypatch.setenv("CHIPLOG_DIR", str(tmp_path))
    monkeypatch.setenv("CHIPLOG_NAME", "by variable")
    monkeypatch.setenv("CHIPLOG_SINKS", "none")
    hooks = FrameworkRun("keras", project="by argument")
    run = hooks.start(name="suggested", project="suggested", tags=["suggested"])
    assert run is not None and (run.project, run.name, run.tags) == ("by argument", "by variable", ["suggested"])
    hooks.end()


def test_another_rank_than_the_first_keeps_the_run(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that the framework calls is the one that is recorded, and it waits for no other."""
    for name, value in {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3"}.items():
        monkeypatch.setenv(name, value)
    hooks = FrameworkRun("torchtitan", **settings)
    hooks.log({"loss": 1.0}, 0)
    assert hooks.run is not None and not hooks.run.inert
    path = hooks.run.dir
    hooks.end()
    assert chiplog.read(path).series("loss").values.tolist() == [1.0]


def test_a_training_that_has_ended_ends_its_run_when_the_next_begins(
    settings: dict[str, object], tmp_path: Path
) -> None:
    """Until then, evaluations may follow; another training of the script is another run."""
    first, second = FrameworkRun("keras", **settings), FrameworkRun("keras", **settings)
    first.log({"loss": 1.0})
    first.done()
    first.log({"after": 1.0})
    assert first.own
    second.log({"loss": 2.0})
    assert not first.own and first.run is None
    second.done()
    second.begin()
    assert second.run is None
    assert len(list((tmp_path / "p").iterdir())) == 2


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # jax, if another test has imported it
def test_hooks_in_a_forked_worker_keep_nothing(settings: dict[str, object], tmp_path: Path) -> None:
    """The run belongs to the process that started it, which still ends it."""
    hooks = FrameworkRun("keras", **settings)
    hooks.start()
    if (pid := os.fork()) == 0:
        hooks.log({"forked": 1.0})
        hooks.end()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    hooks.log({"loss": 1.0})
    hooks.end()
    [path] = (tmp_path / "p").iterdir()
    assert chiplog.read(path).names() == ["loss"] and chiplog.read(path).state == "finished"


def test_a_second_training_starts_another_run(settings: dict[str, object], tmp_path: Path) -> None:
    """Also if the script has ended the first one itself."""
    hooks = FrameworkRun("keras", **settings)
    for end in (hooks.end, chiplog.finish):
        hooks.start()
        hooks.log({"loss": 1.0})
        end()
    hooks.start()
    hooks.log({"loss": 1.0})
    hooks.end()
    assert len(list((tmp_path / "p").iterdir())) == 3


def test_a_copy_in_another_process_has_no_run(settings: dict[str, object]) -> None:
    """Frameworks pickle their callbacks."""
    hooks = FrameworkRun("keras", **settings)
    hooks.start()
    copy = pickle.loads(pickle.dumps(hooks))
    assert copy.run is None and copy.settings == hooks.settings
    hooks.end()
