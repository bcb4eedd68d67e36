"""Which run a framework's hooks write to, and what happens when they are called in odd ways."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import chiplog
from chiplog.core.guarded import guarded
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


def test_an_error_is_reported_once_and_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """With the name of the hook."""

    @guarded("keras", False)
    def on_log() -> bool:
        raise ValueError("odd")

    assert [on_log(), on_log()] == [False, False]
    assert capsys.readouterr().err == "chiplog: keras: on_log failed; training continues: ValueError('odd')\n"
